"""eplb_loader: puts a static EPLB layout in force inside a server process, and proves it (docs/loading.md)."""
from .adapter import Adapter, AdapterError, adapter_names
from .group import InstallError
from .install import Attestation, attest, install_model, verify_model
from .layout import Layout
from .library import load_library
from .sources import HfCheckpoint, RankFile

__all__ = ["Adapter", "AdapterError", "Attestation", "HfCheckpoint", "InstallError", "Layout", "RankFile",
           "adapter_names", "attest", "install_model", "load_library", "verify_model"]
