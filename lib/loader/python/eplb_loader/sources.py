"""Where experts are read from when they are not on the ranks yet: files, range by range."""
import hashlib
import json
import os

import torch

from .adapter import AdapterError
from .library import ops

_RECORD = "eplb-checkpoint.json"


class HfCheckpoint:
    """A Hugging Face checkpoint: experts by logical id, one rank reads only its own. A source of experts, and a witness of
    what slots hold.

    family  name pattern of the checkpoint (eplb-load bake --help lists them); default by config.json's model_type.
    """

    def __init__(self, folder, layout, family=""):
        ops()  # the class is registered by the library
        self.folder = str(folder)
        self._source = torch.classes.eplb.ExpertSource(self.folder, family, layout.layers, layout.experts)

    def read(self, layer, suffix, experts):
        """One kind of tensor of the given logical experts of a model layer, as the file has it."""
        return self._source.read(layer, suffix, experts)

    def layer(self, tensors, adapter, wanted):
        """Per name of the adapter, the tensors of the `wanted` experts in the form they have right after loading."""
        return [read_experts(self.read, tensors.layer, recipe, wanted, dtype)
                for recipe, dtype in zip(recipes(tensors, adapter), tensors.dtypes())]


class RankFile:
    """A file of `eplb-load slots`: this rank's experts in slot order. It must be this rank's, made for this layout, and
    hash to what the record beside it says."""

    def __init__(self, folder, layout, rank):
        self.name = f"rank-{rank:05}-of-{layout.ranks:05}.safetensors"
        self.path = os.path.join(folder, self.name)
        self._metadata = ops().safetensors_metadata(self.path)
        for key, wanted, what in (("eplb_map_hash", layout.map_hash, "layout"), ("eplb_rank", str(rank), "rank"),
                                  ("eplb_ranks", str(layout.ranks), "number of ranks")):
            if self._metadata.get(key) != wanted:
                raise AdapterError(f"{self.path}: was written for another {what} ({key} is {self._metadata.get(key)}, not "
                                   f"{wanted})")
        self._require_recorded(os.path.join(folder, _RECORD))
        self._state = _state_of(self.path)
        self._layout, self._rank = layout, rank

    def layer(self, tensors, adapter, wanted):
        row = self._layout.row(tensors.row, self._rank)
        prefix = self._metadata["eplb_expert_prefix"].replace("{layer}", str(tensors.layer))
        found = []
        for recipe, dtype in zip(recipes(tensors, adapter), tensors.dtypes()):
            stacked = ops().safetensors_read(self.path, [prefix + suffix for suffix in recipe["parts"]])
            found.append([assemble([part[row.index(expert)] for part in stacked], recipe, dtype) for expert in wanted])
        if _state_of(self.path) != self._state:
            raise AdapterError(f"{self.path}: was replaced since it was hashed")
        return found

    def _require_recorded(self, record):
        try:
            with open(record, encoding="utf-8") as file:
                files = {entry["name"]: entry["sha256"] for entry in json.load(file)["files"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AdapterError(f"{record}: cannot be read, and without it the bytes of {self.name} are not known "
                               f"({type(error).__name__}: {error})") from error
        digest = hashlib.sha256()
        with open(self.path, "rb") as file:
            while piece := file.read(1 << 22):
                digest.update(piece)
        if files.get(self.name) != digest.hexdigest():
            raise AdapterError(f"{self.path}: its SHA-256 is {digest.hexdigest()}, {_RECORD} says {files.get(self.name)}; write "
                               "the files again")


def _state_of(path):
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def recipes(tensors, adapter):
    """The adapter's `checkpoint` entry of every name that moves."""
    if tensors.raw:
        raise AdapterError(f"{tensors.raw[0]} is in a private format, which no file holds; install before the format cast")
    known = adapter.data.get("checkpoint", {})
    missing = [name for name in tensors.names if name not in known]
    if missing:
        raise AdapterError(f"adapter {adapter.name} does not say of which checkpoint tensors {missing[0]} is made; add it "
                           "to `checkpoint`, or install from the ranks")
    return [known[name] for name in tensors.names]


def read_experts(read, layer, recipe, experts, dtype):
    """One tensor of each expert; `read` as HfCheckpoint.read."""
    parts = [read(layer, suffix, experts) for suffix in recipe["parts"]]
    return [assemble(of_expert, recipe, dtype) for of_expert in zip(*parts)]


def assemble(parts, recipe, dtype):
    """One expert's tensor of its checkpoint tensors, as an engine's own loader makes a slot of type `dtype` of them: floats
    become other floats, and where the recipe packs, the bits of a float32 become int64."""
    tensor = parts[0] if len(parts) == 1 else torch.cat(list(parts))
    if recipe.get("transpose"):
        tensor = tensor.transpose(-1, -2)
    if recipe.get("pack_float_bits") and tensor.is_floating_point() and dtype == torch.int64:
        return tensor.to(torch.float32).contiguous().view(torch.int32).to(torch.int64)
    if tensor.dtype != dtype and tensor.is_floating_point() and dtype.is_floating_point:
        return tensor.to(dtype)
    return tensor
