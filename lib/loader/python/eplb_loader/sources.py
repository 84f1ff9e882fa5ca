"""Where experts are read from when they are not on the ranks yet: files, range by range."""
import os

import torch

from .adapter import AdapterError
from .library import ops


class HfCheckpoint:
    """A Hugging Face checkpoint: experts by logical id, one rank reads only its own.

    family  name pattern of the checkpoint (eplb-load bake --help lists them); default by config.json's model_type.
    """

    def __init__(self, folder, layout, family=""):
        ops()  # the class is registered by the library
        self._source = torch.classes.eplb.ExpertSource(str(folder), family, layout.layers, layout.experts)

    def layer(self, tensors, adapter, wanted):
        """Per name of the adapter, the tensors of the `wanted` experts in the form they have right after loading."""
        return [[_assemble(parts, recipe) for parts in zip(*(self._source.read(tensors.layer, suffix, wanted)
                                                            for suffix in recipe["parts"]))]
                for recipe in recipes(tensors, adapter)]


class RankFile:
    """A file of `eplb-load slots`: this rank's experts in slot order."""

    def __init__(self, folder, layout, rank):
        self.path = os.path.join(folder, f"rank-{rank:05}-of-{layout.ranks:05}.safetensors")
        self._metadata = ops().safetensors_metadata(self.path)
        if self._metadata.get("eplb_map_hash") != layout.map_hash:
            raise AdapterError(f"{self.path}: was written for another layout (map hash "
                               f"{self._metadata.get('eplb_map_hash')}, not {layout.map_hash})")
        self._layout, self._rank = layout, rank

    def layer(self, tensors, adapter, wanted):
        row = self._layout.row(tensors.row, self._rank)
        prefix = self._metadata["eplb_expert_prefix"].replace("{layer}", str(tensors.layer))
        found = []
        for recipe in recipes(tensors, adapter):
            stacked = ops().safetensors_read(self.path, [prefix + suffix for suffix in recipe["parts"]])
            found.append([_assemble([part[row.index(expert)] for part in stacked], recipe) for expert in wanted])
        return found


def recipes(tensors, adapter):
    """The adapter's `checkpoint` entry of every name that moves: {"parts": suffixes joined along the first axis,
    "transpose": bool}."""
    if tensors.raw:
        raise AdapterError(f"{tensors.raw[0]} is in a private format, which no file holds; install before the format cast")
    known = adapter.data.get("checkpoint", {})
    missing = [name for name in tensors.names if name not in known]
    if missing:
        raise AdapterError(f"adapter {adapter.name} does not say of which checkpoint tensors {missing[0]} is made; add it "
                           "to `checkpoint`, or install from the ranks")
    return [known[name] for name in tensors.names]


def _assemble(parts, recipe):
    tensor = parts[0] if len(parts) == 1 else torch.cat(list(parts))
    return tensor.transpose(-1, -2) if recipe.get("transpose") else tensor
