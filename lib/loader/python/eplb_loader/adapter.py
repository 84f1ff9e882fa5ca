"""Adapters: which tensors of an engine's MoE layer move with the slots. Data, one JSON file each in adapters/.

    name, engine, quantisation, summary
    block       regular expression of the module that holds a MoE layer, with the group `layer`
    rows        "model-layers": a layout row for every decoder layer; "moe-layers": for those with experts
    move        {name under the block: {"list": true, "private_format": true, "optional": true, "axis": 0, "flat": true}};
                flat: one axis that holds the slots one after the other
    stay        names under the block that have one row an expert and do not move (shell patterns)
    live        names under the block whose contents change while the server runs, such as counters (shell patterns)
    routing     name under the block (a shell pattern) of the one tensor that the engine routes by: physical slots [E], or
                candidates [E, n] with -1
    trailing    slots of fused shared experts behind the S slots of a rank; they do not move
    load_time_only  why this scheme can be verified and not moved after loading; absent where it can be moved
    checkpoint  {name under the block: {"parts": suffixes of an expert's checkpoint tensors, joined along the first axis,
                "transpose": true, "pack_float_bits": true}}: what a reader needs, and what a witness compares with;
                pack_float_bits: once the engine has widened them to int64, the bits of float32
    loaded      the same for the tensors of an engine that has loaded the weights and will still process them; default: checkpoint
"""
import fnmatch
import json
import os
import re

import torch

from .library import ops
from .memory import Places, as_list, tensors_of
from .periods import period_of

_FOLDER = os.path.join(os.path.dirname(__file__), "adapters")
_KEYS = {"name", "engine", "quantisation", "summary", "block", "rows", "move", "stay", "live", "routing", "trailing",
         "load_time_only", "checkpoint", "loaded"}
_OPTIONS = {"list", "private_format", "optional", "axis", "flat"}


class AdapterError(ValueError):
    """The model's tensors and the adapter do not fit; nothing was written."""


def adapter_names():
    return sorted(name[:-5] for name in os.listdir(_FOLDER) if name.endswith(".json"))


class LayerTensors:
    """The tensors of one MoE layer that move, and digests of those that do not."""

    def __init__(self, layer, row, names, tensors, raw, fixed, routing, slots):
        self.layer, self.row, self.slots = layer, row, slots  # model layer, layout row, S
        self.routing = routing  # the tensor that the engine routes by, or None
        self.names, self.raw = names, raw
        self.parts = [len(family) for family in tensors]
        self.tensors = [tensor for family in tensors for tensor in family]
        self.fixed = fixed  # name -> tensor

    def digests(self):
        """SHA-256 of every slot, int64 [names, S, 4]."""
        return ops().slot_digests(self.names, self.parts, self.tensors, self.slots, self.raw)

    def digests_of(self, names, experts):
        """The same of expert tensors, a list of one tensor an expert per name."""
        count = len(experts[0])
        if count == 1:  # one tensor is a stack to the operator
            experts = [[family[0].unsqueeze(0)] for family in experts]
        flat = [tensor.contiguous() for family in experts for tensor in family]
        return ops().slot_digests(names, [count] * len(names), flat, count, [])

    def addresses(self):
        return [tensor.data_ptr() for tensor in self.tensors]

    def dtypes(self):
        return [slots[0].dtype for slots in self.views()]

    def forms(self):
        """Name, type and shapes of the slots, which all ranks must have in common before they exchange any."""
        return [(name, sorted({(str(slot.dtype), tuple(slot.shape)) for slot in slots}))
                for name, slots in zip(self.names, self.views())]

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
        self.data, self.name, self.engine = dict(data), data["name"], data.get("engine", "generic")
        for key in ("stay", "live"):
            self.data.setdefault(key, [])
        self.block = re.compile(data["block"])

    @classmethod
    def load(cls, adapter):
        """A name of the table, with the version of an engine that has changed over time (vllm-ascend-w8a8@0.23.0); the path of a
        JSON file, a dictionary, or an Adapter."""
        if isinstance(adapter, Adapter):
            return adapter
        if isinstance(adapter, dict):
            return cls(adapter)
        if str(adapter).endswith(".json"):
            return cls(_read(adapter))
        name, _, version = str(adapter).partition("@")
        path = os.path.join(_FOLDER, f"{name}.json")
        if not os.path.exists(path):
            raise AdapterError(f"adapter '{name}' is not one of {', '.join(adapter_names())}, nor a .json file")
        data = _read(path)
        try:
            period = period_of(data.get("engine", "generic"), version)
        except ValueError as error:
            raise AdapterError(f"adapter {adapter}: {error}") from error
        return cls(_at_modules(data, period.modules) if period else data)

    def as_loaded(self):
        """The adapter of the same layers before the engine processes the weights."""
        recipes = self.data.get("loaded", self.data.get("checkpoint", {}))
        if not recipes:
            raise AdapterError(f"adapter {self.name} does not say of which checkpoint tensors its own are made")
        kept = {key: value for key, value in self.data.items() if key not in ("load_time_only", "routing", "move", "loaded")}
        return Adapter({**kept, "move": {name: {"optional": True} for name in recipes}, "checkpoint": recipes})

    def layers(self, model, layout, draft_layers="refuse", verify_only=False):
        """LayerTensors of every MoE layer of `model`, ascending. Raises AdapterError before anything is written."""
        if "load_time_only" in self.data and not verify_only:
            raise AdapterError(f"adapter {self.name}: {self.data['load_time_only']}")
        blocks = {}
        modules = dict(model.named_modules())
        known = frozenset(id(module) for module in modules.values())
        for name, module in modules.items():
            match = self.block.fullmatch(name)
            if match and self._moves_any(module, known):
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
            layers.append(self._layer(*blocks[layer], known, layer, row, layout))
        if not layers:
            raise AdapterError(f"adapter {self.name}: every layer with experts lies behind the layout's "
                               f"{layout.layers} rows")
        return layers

    def _moves_any(self, module, known):
        tensors = tensors_of(module, known)
        return any(name in tensors for name in self.data["move"])

    def _layer(self, block, module, known, layer, row, layout):
        tensors = tensors_of(module, known)
        trailing = int(self.data.get("trailing", 0))
        names, families, raw, moved = [], [], [], Places()
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
            if all(tensor in moved for tensor in family):
                continue  # a second name of tensors that already move
            for tensor in family:
                moved.add(tensor)
            names.append(name)
            families.append([tensor.detach() for tensor in family])
        fixed = {}
        for name, value in tensors.items():
            if name in self.data["move"]:
                continue
            declared = self._declares("stay", name)
            if not declared and not self._declares("live", name):
                self._refuse_expert_shape(f"{block}.{name}", value, moved, layout, trailing)
            if self._declares("live", name) or not (declared or self._is_own(module, name)):
                continue
            for index, tensor in enumerate(as_list(value)):
                if tensor not in moved and tensor.numel() > 0:
                    fixed[name if isinstance(value, torch.Tensor) else f"{name}[{index}]"] = tensor
        return LayerTensors(layer, row, names, families, raw, fixed, self._routing(block, tensors), layout.slots)

    def _routing(self, block, tensors):
        pattern = self.data.get("routing")
        if pattern is None:
            return None
        found = {name: tensor for name, tensor in tensors.items()
                 if isinstance(tensor, torch.Tensor) and fnmatch.fnmatchcase(name, pattern)}
        if len({(tensor.device, tensor.data_ptr()) for tensor in found.values()}) != 1:
            raise AdapterError(f"{block}: {', '.join(found) or 'no tensor'} is called {pattern}, where adapter {self.name} looks for "
                               "the one tensor that the engine routes by")
        return next(iter(found.values()))

    def _declares(self, key, name):
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.data[key])

    @staticmethod
    def _is_own(module, name):
        """Whether a module holds the tensor itself: what lies in helper objects is often scratch memory."""
        *path, _ = name.split(".")
        for part in path:
            module = getattr(module, "_modules", {}).get(part)
            if module is None:
                return False
        return True

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

    def _refuse_expert_shape(self, name, value, moved, layout, trailing):
        """Refuses memory that may hold a part of every slot: as many tensors, or entries along any axis, as there are slots,
        experts or physical slots; or one axis that the slots divide."""
        meanings = {layout.slots: "slots of a rank", layout.slots + trailing: "slots of a rank",
                    layout.ranks * layout.slots: "physical slots", layout.experts: "experts"}
        if not isinstance(value, torch.Tensor):
            if len(value) in meanings and not all(item in moved for item in value):
                raise AdapterError(_undeclared(name, f"is a list of {len(value)} tensors", self.name))
        for tensor in as_list(value):
            if tensor.numel() == 0 or tensor in moved:
                continue
            for axis, extent in enumerate(tensor.shape):
                if extent in meanings and (extent > 1 or axis == 0):
                    rows = "rows" if axis == 0 else f"entries along axis {axis}"
                    raise AdapterError(_undeclared(name, f"has {extent} {rows}, as many as {meanings[extent]}", self.name))
            if tensor.dim() == 1 and layout.slots > 1 and tensor.shape[0] % layout.slots == 0:
                raise AdapterError(_undeclared(name, f"looks like packed scales of {layout.slots} slots", self.name))


def _undeclared(name, what, adapter):
    return (f"{name}: {what}, and adapter {adapter} neither moves it nor says that it stays; nothing was written "
            "(add it to `move` or `stay`)")


def _no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise AdapterError(f"duplicate key {next(key for key in keys if keys.count(key) > 1)}")
    return dict(pairs)


def _read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file, object_pairs_hook=_no_duplicates)


def _at_modules(data, modules):
    """The adapter with its tensors where a period of the engine keeps them: `experts.` becomes `modules`."""
    place = lambda name: modules + name[len("experts."):] if name.startswith("experts.") else name
    return {**data, **{key: {place(name): options for name, options in data[key].items()}
                       for key in ("move", "checkpoint", "loaded") if key in data}}
