"""Finds and loads the torch extension; every operator is then torch.ops.eplb.<name>."""
import os

import torch

_loaded = None


def load_library(path=None):
    """Loads libeplb_torch.so once and returns its path.

    `path`, else the environment variable EPLB_TORCH_LIBRARY, else the file beside this package. Raises FileNotFoundError.
    """
    global _loaded
    if _loaded is not None:
        return _loaded
    path = path or os.environ.get("EPLB_TORCH_LIBRARY") or os.path.join(os.path.dirname(__file__), "libeplb_torch.so")
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: the torch extension is not there; build it as docs/loading.md says, or set "
                                "EPLB_TORCH_LIBRARY")
    torch.ops.load_library(path)
    _loaded = path
    return path


def ops():
    load_library()
    return torch.ops.eplb
