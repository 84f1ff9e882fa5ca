"""Where the tensors of a MoE block are: every tensor that can be reached from its modules, by a dotted name."""
import bisect
import collections
import types

import torch

_MODULE_FIELDS = frozenset(vars(torch.nn.Module()))
_DEEPEST = 8
_LEAVES = (str, bytes, int, float, complex, type(None), type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType,
           torch.dtype, torch.device, torch.Size)


def tensors_of(module, known=frozenset()):
    """Tensors under a module by dotted name: parameters, buffers, attributes, and what dictionaries, lists and helper objects
    among the attributes hold; a list of nothing but tensors is one entry. Modules whose id() is in `known` are not entered
    from an attribute: they are met where they stand in the model."""
    found, seen = {}, set(known)
    for prefix, part in module.named_modules():
        dot = prefix + "." if prefix else ""
        seen.add(id(part))
        for registry in (part._parameters, part._buffers):
            found.update((dot + name, tensor) for name, tensor in registry.items() if tensor is not None)
        for name, child in part._modules.items():
            if isinstance(child, torch.nn.ParameterList):
                found[dot + name] = list(child)
    for name in [name for name, value in found.items() if isinstance(value, list)]:
        for index in range(len(found[name])):
            found.pop(f"{name}.{index}", None)  # the entries of a ParameterList
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            if name not in _MODULE_FIELDS:
                _search(f"{prefix}.{name}" if prefix else name, value, found, seen, _DEEPEST)
    return found


def _search(name, value, found, seen, depth):
    if isinstance(value, torch.Tensor):
        found.setdefault(name, value)
        return
    if isinstance(value, _LEAVES) or depth == 0 or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, torch.Tensor) for item in value):
        found.setdefault(name, list(value))
    elif isinstance(value, torch.nn.Module):  # one that is not registered
        for inner, held in tensors_of(value, seen).items():
            found.setdefault(f"{name}.{inner}", held)
    else:
        for inner, held in _members(value):
            _search(f"{name}.{inner}", held, found, seen, depth - 1)


def _members(value):
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        return list(enumerate(value))
    fields = list(getattr(value, "__dict__", {}).items())
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        fields += [(slot, getattr(value, slot)) for slot in ([slots] if isinstance(slots, str) else slots)
                   if hasattr(value, slot) and slot != "__dict__"]
    return fields


def as_list(value):
    return [value] if isinstance(value, torch.Tensor) else value


class Places:
    """The memory of some tensors, to be asked whether another tensor lies in it."""

    def __init__(self):
        self._ranges = {}  # device -> ascending [begin, end)

    def add(self, tensor):
        begin, end = _range_of(tensor)
        bisect.insort(self._ranges.setdefault(tensor.device, []), (begin, end))

    def __contains__(self, tensor):
        ranges, (begin, end) = self._ranges.get(tensor.device, []), _range_of(tensor)
        at = bisect.bisect_right(ranges, (begin, float("inf"))) - 1
        return at >= 0 and end <= ranges[at][1]


def _range_of(tensor):
    """Addresses from the first element to behind the last one."""
    last = sum((extent - 1) * abs(stride) for extent, stride in zip(tensor.shape, tensor.stride())) if tensor.numel() else -1
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()
