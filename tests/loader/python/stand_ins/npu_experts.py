"""W8A8 experts on an NPU as the engines treat them, for the stand-ins of engines: filled from a checkpoint in the checkpoint's form,
then processed slot by slot into the form that is computed with."""
import json
import os

import torch

import moe


def checkpoint_of(folder):
    """Every tensor of the checkpoint, by name."""
    from eplb_loader.library import ops

    with open(os.path.join(folder, "model.safetensors.index.json"), encoding="utf-8") as file:
        weight_map = json.load(file)["weight_map"]
    return {name: ops().safetensors_read(os.path.join(folder, shard), [name])[0].clone() for name, shard in weight_map.items()}


class Model(torch.nn.Module):
    """Layers of routed experts under `modules` of the block, S slots on this rank."""

    def __init__(self, layers, experts, slots, modules=("experts",)):
        super().__init__()
        self.model = torch.nn.Module()
        self.model.layers = torch.nn.ModuleList()
        for _ in range(layers):
            part = torch.nn.Module()
            part.mlp = torch.nn.Module()
            part.mlp.gate = torch.nn.Linear(moe.HIDDEN, experts, bias=False)
            part.mlp.shared_experts = torch.nn.Linear(moe.HIDDEN, moe.HIDDEN)
            owner = part.mlp
            for name in modules:
                setattr(owner, name, torch.nn.Module())
                owner = getattr(owner, name)
            part.routed = lambda owner=owner: owner
            for name, shape, dtype in (("w13_weight", (2 * moe.INTERMEDIATE, moe.HIDDEN), torch.int8),
                                       ("w13_weight_scale", (2 * moe.INTERMEDIATE, 1), torch.float32),
                                       ("w13_weight_offset", (2 * moe.INTERMEDIATE, 1), torch.int8),
                                       ("w2_weight", (moe.HIDDEN, moe.INTERMEDIATE), torch.int8),
                                       ("w2_weight_scale", (moe.HIDDEN, 1), torch.float32),
                                       ("w2_weight_offset", (moe.HIDDEN, 1), torch.int8)):
                owner.register_parameter(name, torch.nn.Parameter(torch.zeros(slots, *shape, dtype=dtype), requires_grad=False))
            self.model.layers.append(part)
        self.rows = None  # what the engine's loader fills the slots by, [L][S]

    def load_weights(self, weights):
        tensors = dict(weights)
        for layer, part in enumerate(self.model.layers):
            part.mlp.gate.weight.data.copy_(tensors[f"model.layers.{layer}.mlp.gate.weight"])
            for slot, expert in enumerate(self.rows[layer]):
                for name, parameter in part.routed().named_parameters(recurse=False):
                    side, kind = name.split("_", 1)
                    parts = [tensors[f"model.layers.{layer}.mlp.experts.{expert}.{one}.{kind}"]
                             for one in (("gate_proj", "up_proj") if side == "w13" else ("down_proj",))]
                    parameter.data[slot].copy_(torch.cat(parts).view(parameter.shape[1:]))


def process_weights_after_loading(experts, form):
    """Transposes, squeezes, copies scales, and splits into one tensor a slot where the engine does. `form`: sglang, vllm-ascend or
    vllm-ascend-list."""
    for side in ("w13", "w2"):
        weight = getattr(experts, f"{side}_weight").data.transpose(1, 2).contiguous()
        scale = getattr(experts, f"{side}_weight_scale").data.squeeze(-1)
        offset = getattr(experts, f"{side}_weight_offset").data.squeeze(-1)
        if form == "vllm-ascend-list":
            delattr(experts, f"{side}_weight")
            delattr(experts, f"{side}_weight_scale")
            setattr(experts, f"{side}_weight_list", [one.clone() for one in weight.unbind()])
            name = "w13_weight_scale_fp32_list" if side == "w13" else "w2_weight_scale_list"
            setattr(experts, name, [one.clone() for one in scale.unbind()])
        else:
            setattr(experts, f"{side}_weight", torch.nn.Parameter(weight, requires_grad=False))
            setattr(experts, f"{side}_weight_scale", torch.nn.Parameter(scale, requires_grad=False))
            if form == "sglang":
                setattr(experts, f"{side}_weight_scale_bf16", torch.nn.Parameter(scale.to(torch.bfloat16), requires_grad=False))
            elif side == "w13":
                experts.w13_weight_scale_fp32 = torch.nn.Parameter(scale.clone(), requires_grad=False)
        setattr(experts, f"{side}_weight_offset", torch.nn.Parameter(offset, requires_grad=False))


def is_right(model, layout, rank, tensors, modules, form):
    """The oracle: fills and processes a model by the layout, and compares."""
    other = Model(len(model.model.layers), layout.experts, layout.slots, modules)
    other.rows = [layout.row(layer, rank) for layer in range(layout.layers)]
    other.load_weights(tensors.items())
    for found, wanted in zip(model.model.layers, other.model.layers):
        process_weights_after_loading(wanted.routed(), form)
        for name, value in vars(wanted.routed()).items():
            if name.endswith("_list") and not all(torch.equal(a, b) for a, b in zip(value, getattr(found.routed(), name))):
                return False
        for name, value in wanted.routed().named_parameters():
            if not torch.equal(value, getattr(found.routed(), name)):
                return False
    return True
