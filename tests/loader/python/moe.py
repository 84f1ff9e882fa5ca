"""A small real mixture-of-experts model for the loader's tests, over any number of ranks.

Router with a correction bias and groups, top-k without ties, int8 experts with scales (one float, one packed as float
bits in int64) and offsets, a shared expert. Every expert's output is computed where its slot is, goes back to the
token's rank and is summed in top-k order, so logits depend on no placement, bit for bit.
"""
import hashlib
import json
import os
import tempfile

import torch
import torch.distributed as dist

from eplb_loader import HfCheckpoint, Layout, admit

VOCABULARY, HIDDEN, INTERMEDIATE, TOP_K, LAYERS = 37, 24, 10, 4, 3


def checkpoint(experts, seed=1):
    """Expert, router and dense tensors under the names of a Hugging Face checkpoint."""
    generator = torch.Generator().manual_seed(seed)
    rand = lambda *shape: torch.rand(*shape, generator=generator) - 0.5
    int8 = lambda *shape: torch.randint(-127, 128, shape, generator=generator, dtype=torch.int8)
    tensors = {"model.embed_tokens.weight": rand(VOCABULARY, HIDDEN), "lm_head.weight": rand(VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}.mlp."
        tensors[prefix + "gate.weight"] = rand(experts, HIDDEN)
        tensors[prefix + "gate.e_score_correction_bias"] = rand(experts) * 0.1
        tensors[prefix + "shared_experts.gate_proj.weight"] = rand(INTERMEDIATE, HIDDEN)
        tensors[prefix + "shared_experts.down_proj.weight"] = rand(HIDDEN, INTERMEDIATE)
        for expert in range(experts):
            one = f"{prefix}experts.{expert}."
            for name, rows, columns in (("gate_proj", INTERMEDIATE, HIDDEN), ("up_proj", INTERMEDIATE, HIDDEN),
                                        ("down_proj", HIDDEN, INTERMEDIATE)):
                tensors[f"{one}{name}.weight"] = int8(rows, columns)
                tensors[f"{one}{name}.weight_scale"] = (rand(rows) + 1) / 64
                tensors[f"{one}{name}.weight_offset"] = int8(rows)
    return tensors


class KnownExperts:
    """A checkpoint in memory: a source of experts, and a witness."""

    def __init__(self, tensors):
        self.tensors, self.folder = tensors, "in memory"

    def read(self, layer, suffix, experts):
        return [self.tensors[f"model.layers.{layer}.mlp.experts.{expert}.{suffix}"] for expert in experts]

    def layer(self, tensors, adapter, wanted):
        return HfCheckpoint.layer(self, tensors, adapter, wanted)


def packed(scale):
    """Float bits widened to int64, as NPU kernels keep scales."""
    return scale.view(torch.int32).to(torch.int64)


def unpacked(scale):
    return scale.to(torch.int32).view(torch.float32)


class Experts(torch.nn.Module):
    """S slots of fused experts, stacked parameters or (list mode) plain lists of one tensor a slot."""

    def __init__(self, slots, listed):
        super().__init__()
        shapes = {"w13_weight": ((2 * INTERMEDIATE, HIDDEN), torch.int8), "w13_weight_scale": ((2 * INTERMEDIATE,), torch.float32),
                  "w13_weight_offset": ((2 * INTERMEDIATE,), torch.int8), "w2_weight": ((HIDDEN, INTERMEDIATE), torch.int8),
                  "w2_weight_scale": ((HIDDEN,), torch.int64), "w2_weight_offset": ((HIDDEN,), torch.int8)}
        self.names, self.listed = list(shapes), listed
        for name, (shape, dtype) in shapes.items():
            if listed:
                setattr(self, name + "_list", [torch.zeros(shape, dtype=dtype) for _ in range(slots)])
            else:
                self.register_parameter(name, torch.nn.Parameter(torch.zeros(slots, *shape, dtype=dtype), requires_grad=False))

    def slot(self, name, index):
        return getattr(self, name + "_list")[index] if self.listed else getattr(self, name)[index]

    def fill(self, index, tensors, prefix):
        get = lambda name: tensors[prefix + name]
        both = lambda name: torch.cat([get("gate_proj." + name), get("up_proj." + name)])
        for name, value in (("w13_weight", both("weight")), ("w13_weight_scale", both("weight_scale")),
                            ("w13_weight_offset", both("weight_offset")), ("w2_weight", get("down_proj.weight")),
                            ("w2_weight_scale", packed(get("down_proj.weight_scale"))),
                            ("w2_weight_offset", get("down_proj.weight_offset"))):
            self.slot(name, index).copy_(value)

    def run(self, index, hidden):
        """One token through one slot: matrix times vector, so that no batch changes the order of a sum."""
        weight = lambda name, scale: (self.slot(name, index).float() - self.slot(name + "_offset", index).float().unsqueeze(1)) * scale.unsqueeze(1)
        w13 = weight("w13_weight", self.slot("w13_weight_scale", index))
        w2 = weight("w2_weight", unpacked(self.slot("w2_weight_scale", index)))
        gate, up = torch.mv(w13, hidden).split(INTERMEDIATE)
        return torch.mv(w2, torch.nn.functional.silu(gate) * up)


class Block(torch.nn.Module):
    def __init__(self, tensors, layer, experts, slots, groups, listed):
        super().__init__()
        prefix = f"model.layers.{layer}.mlp."
        parameter = lambda name: torch.nn.Parameter(tensors[prefix + name].clone(), requires_grad=False)
        self.gate = torch.nn.Module()
        self.gate.weight = parameter("gate.weight")
        self.gate.register_buffer("e_score_correction_bias", tensors[prefix + "gate.e_score_correction_bias"].clone())
        self.shared_experts = torch.nn.Module()
        self.shared_experts.gate_proj = parameter("shared_experts.gate_proj.weight")
        self.shared_experts.down_proj = parameter("shared_experts.down_proj.weight")
        self.experts = Experts(slots, listed)
        self.expert_count, self.groups = experts, groups

    def route(self, hidden):
        scores = torch.stack([torch.sigmoid(torch.mv(self.gate.weight, token)) for token in hidden])
        choice = scores + self.gate.e_score_correction_bias
        if self.groups > 1:  # the best half of the groups, by the sum of their two best experts
            grouped = choice.view(len(hidden), self.groups, -1)
            best = grouped.topk(2, dim=-1).values.sum(-1).topk(self.groups // 2, dim=-1).indices
            allowed = torch.zeros(len(hidden), self.groups).scatter_(1, best, 1.0).bool()
            choice = grouped.masked_fill(~allowed.unsqueeze(-1), float("-inf")).view(len(hidden), -1)
        values, ids = choice.topk(TOP_K, dim=-1)
        assert (values.diff(dim=-1) < 0).all(), "the test needs a top-k without ties"
        weights = scores.gather(1, ids)
        return ids, weights / weights.sum(dim=-1, keepdim=True)


class Model(torch.nn.Module):
    """`physical(layer, ids)` gives the physical slot of every assignment: the dispatch."""

    def __init__(self, tensors, experts, ranks, slots, groups=1, listed=False):
        super().__init__()
        self.embedding = tensors["model.embed_tokens.weight"]
        self.head = tensors["lm_head.weight"]
        self.ranks, self.slots = ranks, slots
        self.model = torch.nn.Module()
        self.model.layers = torch.nn.ModuleList()
        for layer in range(LAYERS):
            part = torch.nn.Module()
            part.mlp = Block(tensors, layer, experts, slots, groups, listed)
            self.model.layers.append(part)

    def fill(self, tensors, layout, rank):
        """What an engine's own loader does: slot s of this rank gets its logical expert."""
        for layer, part in enumerate(self.model.layers):
            for index, expert in enumerate(layout.row(layer, rank)):
                part.mlp.experts.fill(index, tensors, f"model.layers.{layer}.mlp.experts.{expert}.")

    def forward(self, tokens, physical):
        hidden = self.embedding[tokens]
        for layer, part in enumerate(self.model.layers):
            block = part.mlp
            ids, weights = block.route(hidden)
            outputs = self._experts(block.experts, hidden, physical(layer, ids))
            result = torch.stack([torch.mv(block.shared_experts.down_proj, torch.mv(block.shared_experts.gate_proj, token))
                                  for token in hidden])
            for k in range(TOP_K):
                result = result + weights[:, k:k + 1] * outputs[:, k]
            hidden = hidden + result
        return torch.stack([torch.mv(self.head, token) for token in hidden])

    def _experts(self, experts, hidden, physical):
        """Outputs [tokens, k, H] of the assignments: to the slot's rank, through the expert, and back."""
        flat = physical.flatten().tolist()
        tokens = [index // TOP_K for index in range(len(flat))]
        if self.ranks == 1:
            found = [experts.run(slot, hidden[token]) for slot, token in zip(flat, tokens)]
            return torch.stack(found).view(len(hidden), TOP_K, -1)
        order = sorted(range(len(flat)), key=lambda index: flat[index] // self.slots)
        send_counts = torch.zeros(self.ranks, dtype=torch.int64)
        for slot in flat:
            send_counts[slot // self.slots] += 1
        receive_counts = torch.zeros_like(send_counts)
        dist.all_to_all_single(receive_counts, send_counts)
        sizes = receive_counts.tolist(), send_counts.tolist()
        arrived = torch.empty(sum(sizes[0]), HIDDEN)
        dist.all_to_all_single(arrived, hidden[[tokens[index] for index in order]], *sizes)
        slots = torch.empty(sum(sizes[0]), dtype=torch.int64)
        dist.all_to_all_single(slots, torch.tensor([flat[index] % self.slots for index in order]), *sizes)
        done = [experts.run(slot, token) for slot, token in zip(slots.tolist(), arrived)]
        back = torch.empty(len(flat), HIDDEN)
        dist.all_to_all_single(back, torch.stack(done) if done else torch.empty(0, HIDDEN), sizes[1], sizes[0])
        outputs = torch.empty_like(back)
        outputs[order] = back
        return outputs.view(len(hidden), TOP_K, -1)


class DynamicChoice:
    """Any replica, drawn per assignment."""

    def __init__(self, layout, seed):
        self.layout, self.generator = layout, torch.Generator().manual_seed(seed)

    def __call__(self, layer, ids):
        row = self.layout.map[layer].tolist()
        replicas = {}
        for slot, expert in enumerate(row):
            replicas.setdefault(expert, []).append(slot)
        draw = lambda expert: replicas[expert][int(torch.randint(len(replicas[expert]), (1,), generator=self.generator))]
        return torch.tensor([[draw(expert) for expert in token] for token in ids.tolist()])


class StaticTable:
    """The rank's row of a dispatch table, through the remap operator."""

    def __init__(self, table, rank):
        self.table = table[rank]

    def __call__(self, layer, ids):
        return torch.ops.eplb.remap(ids, self.table[layer])


def random_rows(layers, experts, ranks, slots, generator):
    """Random legal rows: every expert, none twice on a rank."""
    rows = []
    for _ in range(layers):
        copies = [1] * experts
        for _ in range(ranks * slots - experts):
            copies[generator.choice([expert for expert in range(experts) if copies[expert] < ranks])] += 1
        room = [slots] * ranks
        held = [[] for _ in range(ranks)]
        for expert in sorted(range(experts), key=lambda e: (-copies[e], generator.random())):
            # the ranks with most room first: that always leaves a legal completion
            for rank in sorted(range(ranks), key=lambda r: (-room[r], generator.random()))[:copies[expert]]:
                held[rank].append(expert)
                room[rank] -= 1
        for experts_of_rank in held:
            generator.shuffle(experts_of_rank)
        rows.append([expert for experts_of_rank in held for expert in experts_of_rank])
    return torch.tensor(rows, dtype=torch.int32)


def write_layout(path, rows):
    with open(path, "w") as file:
        json.dump({"physical_to_logical_map": rows.tolist()}, file)


def admitted(layout, **facts):
    """The same layout from a file, admitted to a server of its own shape."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "layout.json")
        write_layout(path, layout.map)
        result = Layout.load(path, layout.ranks, allow_no_manifest=True)
        geometry = {"ranks": layout.ranks, "layers": layout.layers, "experts": layout.experts,
                    "redundant_total": layout.ranks * layout.slots - layout.experts}
        admit(result, allow_no_manifest=True, **{**geometry, "quant": "w8a8", "dispatch": "even", **facts})
    return result


def write_manifest(path, layout, role):
    """The manifest of eplb-fit beside a layout file, with made-up counts and scores."""
    sample = os.path.join(os.environ["EPLB_SOURCE_DIR"], "tests", "apps", "load", "inputs", "legal.manifest.json")
    with open(sample) as file:
        manifest = json.load(file)
    with open(path, "rb") as file:
        manifest["layout"]["sha256"] = hashlib.sha256(file.read()).hexdigest()
    manifest["layout"]["map_hash"] = layout.map_hash
    manifest["layout"]["geometry"] = {**layout.geometry(), "redundant_total": layout.ranks * layout.slots - layout.experts}
    manifest["scenario"]["role"] = role
    manifest["layers"] = [None] * layout.layers
    with open(path[:-len(".json")] + ".manifest.json", "w") as file:
        json.dump(manifest, file)
