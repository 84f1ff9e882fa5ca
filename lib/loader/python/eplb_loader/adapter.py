"""Adapters: which tensors of an engine's MoE layer move with the slots. Data, one JSON file each in adapters/.

    name, engine, quantisation, summary
    block       regular expression of the module that holds a MoE layer, with the group `layer`
    rows        "model-layers": a layout row for every decoder layer; "moe-layers": for those with experts
    move        {name under the block: {"list": true, "private_format": true, "optional": true, "axis": 0, "flat": true}};
                flat: one axis that holds the slots one after the other
    stay        names under the block that have one row an expert and do not move (shell patterns)
    trailing    slots of fused shared experts behind the S slots of a rank; they do not move
    load_time_only  why this scheme can be verified and not moved after loading; absent where it can be moved
    checkpoint  {name under the block: {"parts": suffixes of an expert's checkpoint tensors, joined along the first axis,
                "transpose": true}}; what a reader needs
"""
import fnmatch
import json
import os
import re

import torch

from .library import ops

_FOLDER = os.path.join(os.path.dirname(__file__), "adapters")
_KEYS = {"name", "engine", "quantisation", "summary", "block", "rows", "move", "stay", "trailing", "load_time_only",
         "checkpoint"}
_OPTIONS = {"list", "private_format", "optional", "axis", "flat"}


class AdapterError(ValueError):
    """The model's tensors and the adapter do not fit; nothing was written."""


def adapter_names():
    return sorted(name[:-5] for name in os.listdir(_FOLDER) if name.endswith(".json"))


class LayerTensors:
    """The tensors of one MoE layer that move, and digests of those that do not."""

    def __init__(self, layer, row, names, tensors, raw, fixed, slots):
        self.layer, self.row, self.slots = layer, row, slots  # model layer, layout row, S
        self.names, self.raw = names, raw
        self.parts = [len(family) for family in tensors]
        self.tensors = [tensor for family in tensors for tensor in family]
        self.fixed = fixed  # name -> tensor

    def digests(self):
        """SHA-256 of every slot, int64 [names, S, 4]."""
        return ops().slot_digests(self.names, self.parts, self.tensors, self.slots, self.raw)

    def digests_of(self, experts):
        """The same of expert tensors, a list of S per name."""
        flat = [tensor for family in experts for tensor in family]
        return ops().slot_digests(self.names, [self.slots] * len(self.names), flat, self.slots, [])

    def fixed_digests(self):
        if not self.fixed:
            return torch.empty(0, 1, 4, dtype=torch.int64)
        tensors = [tensor.detach().reshape(1, -1) for tensor in self.fixed.values()]
        return ops().slot_digests(list(self.fixed), [1] * len(tensors), tensors, 1, [])

    def views(self):
        """One list of S views per name: what is sent and received."""
        flat = ops().slot_views(self.names, self.parts, self.tensors, self.slots, self.raw)
        return [flat[index:index + self.slots] for index in range(0, len(flat), self.slots)]

    def install(self, experts, row):
        """`experts`: a list of tensors per name; slot s becomes a copy of experts[row[s]]."""
        # One tensor is a stack to the operator, so a single expert is given as a stack of one.
        experts = [family if len(family) > 1 else [family[0].unsqueeze(0)] for family in experts]
        ops().install_(self.names, self.parts, self.tensors, [len(family) for family in experts],
                       [tensor for family in experts for tensor in family], row, self.raw)

    def permute(self, source):
        ops().permute_slots_(self.names, self.parts, self.tensors, source, self.raw)


class Adapter:
    def __init__(self, data):
        unknown = set(data) - _KEYS
        if unknown:
            raise AdapterError(f"adapter {data.get('name')}: unknown key {sorted(unknown)[0]}")
        for name, options in data["move"].items():
            if set(options) - _OPTIONS:
                raise AdapterError(f"adapter {data['name']}: {name}: unknown option {sorted(set(options) - _OPTIONS)[0]}")
        if data.get("rows", "model-layers") not in ("model-layers", "moe-layers"):
            raise AdapterError(f"adapter {data['name']}: rows is model-layers or moe-layers")
        self.data, self.name, self.engine = data, data["name"], data.get("engine", "generic")
        self.block = re.compile(data["block"])

    @classmethod
    def load(cls, adapter):
        """A name of the table, the path of a JSON file, a dictionary, or an Adapter."""
        if isinstance(adapter, Adapter):
            return adapter
        if isinstance(adapter, dict):
            return cls(adapter)
        path = adapter if str(adapter).endswith(".json") else os.path.join(_FOLDER, f"{adapter}.json")
        if not os.path.exists(path):
            raise AdapterError(f"adapter '{adapter}' is not one of {', '.join(adapter_names())}, nor a .json file")
        with open(path, encoding="utf-8") as file:
            return cls(json.load(file, object_pairs_hook=_no_duplicates))

    def layers(self, model, layout, draft_layers="refuse", verify_only=False):
        """LayerTensors of every MoE layer of `model`, ascending. Raises AdapterError before anything is written."""
        if "load_time_only" in self.data and not verify_only:
            raise AdapterError(f"adapter {self.name}: {self.data['load_time_only']}")
        blocks = {}
        for name, module in model.named_modules():
            match = self.block.fullmatch(name)
            if match and self._moves_any(module):
                layer = int(match["layer"])
                if layer in blocks:
                    raise AdapterError(f"modules {blocks[layer][0]} and {name} are both layer {layer}")
                blocks[layer] = (name, module)
        if not blocks:
            raise AdapterError(f"adapter {self.name}: no module of the model matches {self.block.pattern} and holds "
                               f"one of {', '.join(self.data['move'])}")
        layers = []
        for index, layer in enumerate(sorted(blocks)):
            row = index if self.data.get("rows") == "moe-layers" else layer
            if row >= layout.layers:
                if draft_layers == "trivial":
                    continue
                raise AdapterError(f"{blocks[layer][0]}: the layout has {layout.layers} rows, none for layer {layer}; "
                                   "draft_layers='trivial' leaves draft layers as the engine filled them")
            layers.append(self._layer(*blocks[layer], layer, row, layout))
        if not layers:
            raise AdapterError(f"adapter {self.name}: every layer with experts lies behind the layout's "
                               f"{layout.layers} rows")
        return layers

    def _moves_any(self, module):
        tensors = tensors_of(module)
        return any(name in tensors for name in self.data["move"])

    def _layer(self, block, module, layer, row, layout):
        tensors = tensors_of(module)
        trailing = int(self.data.get("trailing", 0))
        names, families, raw, moved = [], [], [], set()
        for name, options in self.data["move"].items():
            if name not in tensors:
                if options.get("optional"):
                    continue
                raise AdapterError(f"{block}: has no tensor {name}, which adapter {self.name} moves")
            family = tensors[name]
            if isinstance(family, torch.Tensor):
                family = self._stacked(f"{block}.{name}", family, options, layout.slots, trailing)
            elif len(family) != layout.slots + trailing:
                raise AdapterError(f"{block}.{name}: a list of {len(family)} tensors for {layout.slots} slots")
            else:
                family = list(family[:layout.slots])
            if options.get("private_format"):
                raw.append(name)
            places = {place_of(tensor) for tensor in family}
            if places <= moved:
                continue  # a second name of tensors that already move
            moved |= places
            names.append(name)
            families.append([tensor.detach() for tensor in family])
        fixed = {}
        for name, value in tensors.items():
            if name in self.data["move"]:
                continue
            for index, tensor in enumerate([value] if isinstance(value, torch.Tensor) else value):
                shown = name if isinstance(value, torch.Tensor) else f"{name}[{index}]"
                if place_of(tensor) not in moved and tensor.numel() > 0:
                    fixed[shown] = tensor
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in self.data.get("stay", [])):
                self._refuse_slot_axis(f"{block}.{name}", value, moved, layout, trailing)
        return LayerTensors(layer, row, names, families, raw, fixed, layout.slots)

    def _stacked(self, name, tensor, options, slots, trailing):
        if tensor.dim() == 0:
            raise AdapterError(f"{name}: has no axis")
        tensor = tensor.detach().movedim(options.get("axis", 0), 0)
        if options.get("flat"):
            if tensor.dim() != 1 or tensor.shape[0] % (slots + trailing):
                raise AdapterError(f"{name}: {list(tensor.shape)} is not one axis of {slots + trailing} slots")
            tensor = tensor.view(slots + trailing, -1)
        if tensor.shape[0] != slots + trailing:
            raise AdapterError(f"{name}: its slot axis has {tensor.shape[0]} entries, the layout gives a rank {slots} "
                               f"slots{f' and {trailing} fused shared experts follow' if trailing else ''}")
        if trailing and options.get("private_format"):
            raise AdapterError(f"{name}: a private format with fused shared experts can only be filled at load time")
        return [tensor.narrow(0, 0, slots) if trailing else tensor]

    def _refuse_slot_axis(self, name, value, moved, layout, trailing):
        if not isinstance(value, torch.Tensor):
            if len(value) in (layout.slots, layout.slots + trailing) and not {place_of(item) for item in value} <= moved:
                raise AdapterError(_undeclared(name, f"is a list of {len(value)} tensors", self.name))
            return
        if place_of(value) in moved or value.dim() == 0:
            return
        extent = value.shape[0]
        physical = layout.ranks * layout.slots
        if extent in (layout.slots, layout.slots + trailing, layout.experts, physical):
            meaning = {physical: "physical slots", layout.experts: "experts"}.get(extent, "slots of a rank")
            raise AdapterError(_undeclared(name, f"has {extent} rows, as many as {meaning}", self.name))
        if value.dim() == 1 and value.dtype == torch.int64 and extent % layout.slots == 0:
            raise AdapterError(_undeclared(name, f"looks like packed scales of {layout.slots} slots", self.name))


def _undeclared(name, what, adapter):
    return (f"{name}: {what}, and adapter {adapter} neither moves it nor says that it stays; nothing was written "
            "(add it to `move` or `stay`)")


def _no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise AdapterError(f"duplicate key {next(key for key in keys if keys.count(key) > 1)}")
    return dict(pairs)


def place_of(tensor):
    """Where a tensor's first element lies: equal for two names of one memory."""
    return tensor.device, tensor.data_ptr()


def tensors_of(module):
    """Every tensor under a module by dotted name: parameters, buffers, and attributes that are tensors or lists of
    tensors (engines keep both kinds outside the registries)."""
    found = {}
    for prefix, part in module.named_modules():
        dot = prefix + "." if prefix else ""
        for registry in (part._parameters, part._buffers):
            found.update((dot + name, tensor) for name, tensor in registry.items() if tensor is not None)
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                found.setdefault(dot + name, value)
            elif isinstance(value, (list, tuple)) and value and all(isinstance(item, torch.Tensor) for item in value):
                found.setdefault(dot + name, list(value))
        for name, child in part._modules.items():
            if isinstance(child, torch.nn.ParameterList):
                found[dot + name] = list(child)
    for name in [name for name, value in found.items() if isinstance(value, list)]:
        for index in range(len(found[name])):
            found.pop(f"{name}.{index}", None)  # the entries of a ParameterList
    return found
