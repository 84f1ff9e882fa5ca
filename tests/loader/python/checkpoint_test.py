"""Checkpoints in layout order give the same logits: baked ones under a plain loader, rank files and range reads through
the installer. Files come from the program eplb-load."""
import json
import os
import random
import subprocess
import tempfile
import types
import unittest

import torch

import moe
from eplb_loader import AdapterError, HfCheckpoint, InstallError, Layout, RankFile, attest, install_model
from eplb_loader.library import ops
from install_test import GENERIC, same_bits, tokens_of
from ranks import run_ranks

EXPERTS, RANKS = 16, 4
PROGRAM = os.path.join(os.environ["EPLB_PROGRAMS"], "eplb-load", "eplb-load")
# w2_weight_scale is packed by the engine after loading, so this adapter's checkpoint recipe has its own scale.
PARTS = {"experts.w13_weight": ["gate_proj.weight", "up_proj.weight"],
         "experts.w13_weight_scale": ["gate_proj.weight_scale", "up_proj.weight_scale"],
         "experts.w13_weight_offset": ["gate_proj.weight_offset", "up_proj.weight_offset"],
         "experts.w2_weight": ["down_proj.weight"], "experts.w2_weight_scale": ["down_proj.weight_scale"],
         "experts.w2_weight_offset": ["down_proj.weight_offset"]}
ADAPTER = {**GENERIC, "checkpoint": {name: {"parts": parts} for name, parts in PARTS.items()}}
TYPES = {torch.float32: "F32", torch.int8: "I8", torch.int64: "I64", torch.int32: "I32"}


def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        part = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def write_checkpoint(folder, tensors, groups, shards=3):
    """A checkpoint whose experts are dealt over the shards without any order."""
    os.makedirs(folder)
    names, weight_map = list(tensors), {}
    random.Random(2).shuffle(names)
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        write_safetensors(os.path.join(folder, file), {name: tensors[name] for name in names[shard::shards]})
        weight_map.update({name: file for name in names[shard::shards]})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": 1}, "weight_map": weight_map}, file)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"model_type": "deepseek_v3", "num_hidden_layers": moe.LAYERS, "n_routed_experts": EXPERTS, "n_group": groups}, file)


def read_checkpoint(folder):
    """What a plain loader does: every tensor of the index, from the shard that the index names."""
    with open(os.path.join(folder, "model.safetensors.index.json")) as file:
        weight_map = json.load(file)["weight_map"]
    return {name: ops().safetensors_read(os.path.join(folder, shard), [name])[0].clone() for name, shard in weight_map.items()}


def program(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=100)


def grouped_rows(groups, generator):
    """Permutations that keep routing groups together: groups change places, and experts inside them."""
    size = EXPERTS // groups
    rows = []
    for _ in range(moe.LAYERS):
        order, row = generator.sample(range(groups), groups), []
        for group in order:
            row += [group * size + expert for expert in generator.sample(range(size), size)]
        rows.append(row)
    return torch.tensor(rows)


def logits(tensors, groups):
    model = moe.Model(tensors, EXPERTS, 1, EXPERTS, groups)
    model.fill(tensors, Layout.linear(moe.LAYERS, EXPERTS, 1, EXPERTS), 0)
    return model(tokens_of(0), lambda layer, ids: ids)


class Folder(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = self._folder.name
        self.addCleanup(self._folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder, name)


class Bake(Folder):
    def bake(self, rows, groups):
        tensors = moe.checkpoint(EXPERTS)
        write_checkpoint(self.path("in"), tensors, groups)
        moe.write_layout(self.path("x.json"), rows)
        return tensors, program("bake", self.path("x.json"), "--checkpoint", self.path("in"), "--out", self.path("out"),
                                "--ranks", "4", "--allow-no-manifest", "--json")

    def test_a_server_without_load_balancing_says_the_same(self):
        for groups in (1, 4):
            with self.subTest(groups=groups):
                generator = random.Random(groups)
                rows = grouped_rows(groups if groups > 1 else 1, generator)
                tensors, result = self.bake(rows, groups)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertEqual(json.loads(result.stdout)["record"]["kind"], "bake")
                baked = read_checkpoint(self.path("out"))
                self.assertEqual(set(baked), set(tensors))
                self.assertTrue(same_bits(logits(tensors, groups), logits(baked, groups)))
                if groups == 1:
                    for ranks in (RANKS, EXPERTS):
                        pairs = zip(run_ranks(ranks, plain, tensors), run_ranks(ranks, plain, baked))
                        self.assertTrue(all(same_bits(before, after) for before, after in pairs), f"{ranks} ranks")
                moved = f"model.layers.0.mlp.experts.0.up_proj.weight"
                self.assertTrue(torch.equal(baked[moved], tensors[moved.replace("experts.0.", f"experts.{int(rows[0, 0])}.")]))
                # the neighbour that must fail: experts moved, router rows left behind
                torn = {**baked, "model.layers.0.mlp.gate.weight": tensors["model.layers.0.mlp.gate.weight"]}
                self.assertFalse(same_bits(logits(tensors, groups), logits(torn, groups)))
                for name in os.listdir(self.folder):
                    subprocess.run(["rm", "-r", self.path(name)], check=True)

    def test_a_permutation_that_splits_routing_groups_is_infeasible(self):
        rows = grouped_rows(1, random.Random(1))
        _, result = self.bake(rows, 4)
        self.assertEqual(result.returncode, 4)
        self.assertIn("routing group", result.stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_an_existing_folder_is_not_touched(self):
        os.makedirs(self.path("out"))
        _, result = self.bake(grouped_rows(1, random.Random(1)), 1)
        self.assertEqual(result.returncode, 5)
        self.assertEqual(os.listdir(self.path("out")), [])
        self.assertEqual(sorted(os.listdir(self.folder)), ["in", "out", "x.json"])


def plain(rank, ranks, tensors):
    """A server without load balancing: expert p in slot p, ranks one after the other."""
    layout = Layout.linear(moe.LAYERS, EXPERTS, ranks, EXPERTS // ranks)
    model = moe.Model(tensors, EXPERTS, ranks, layout.slots)
    model.fill(tensors, layout, rank)
    return model(tokens_of(rank), lambda layer, ids: ids)


def from_files(rank, ranks, folder, kind, slots):
    """Garbage in every slot, then the install from files; float scales, as a checkpoint has them."""
    tensors = moe.checkpoint(EXPERTS)
    rows = moe.random_rows(moe.LAYERS, EXPERTS, ranks, slots, random.Random(5))
    layout = moe.admitted(Layout(rows, EXPERTS, ranks))
    model = moe.Model(tensors, EXPERTS, ranks, slots)
    for part in model.model.layers:  # right after loading, before the engine packs the scales
        part.mlp.experts.w2_weight_scale = torch.nn.Parameter(torch.zeros(slots, moe.HIDDEN), requires_grad=False)
    source = RankFile(folder, layout, rank) if kind == "slots" else HfCheckpoint(folder, layout)
    attestation = install_model(model, layout, rank, ranks, adapter=ADAPTER, source=source,
                                routing=layout.dispatch_table("omni", 1)[rank])
    assert attestation.ok and attestation.source == type(source).__name__
    for part in model.model.layers:
        scale = part.mlp.experts.w2_weight_scale.data
        part.mlp.experts.w2_weight_scale = torch.nn.Parameter(moe.packed(scale), requires_grad=False)
    return model(tokens_of(rank), moe.DynamicChoice(layout, rank))


class Files(Folder):
    def test_rank_files_and_range_reads_say_what_one_rank_says(self):
        tensors = moe.checkpoint(EXPERTS)
        write_checkpoint(self.path("in"), tensors, 1)
        # redundancy 0, R and 3R
        for ranks, slots in ((1, EXPERTS), (RANKS, 4), (RANKS, 5), (RANKS, 7), (EXPERTS, 1), (EXPERTS, 2), (EXPERTS, 4)):
            rows = moe.random_rows(moe.LAYERS, EXPERTS, ranks, slots, random.Random(5))
            moe.write_layout(self.path("x.json"), rows)
            result = program("slots", self.path("x.json"), "--checkpoint", self.path("in"), "--out", self.path("slots"),
                             "--ranks", str(ranks), "--allow-no-manifest", "--force")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            alone = logits(tensors, 1)
            for kind, folder in (("slots", "slots"), ("checkpoint", "in")):
                found = run_ranks(ranks, from_files, self.path(folder), kind, slots)
                self.assertTrue(same_bits(found[0], alone), f"{kind}, {ranks} ranks, {slots} slots a rank")

    def test_rank_files_of_another_layout_are_refused(self):
        write_checkpoint(self.path("in"), moe.checkpoint(EXPERTS), 1)
        moe.write_layout(self.path("x.json"), torch.arange(EXPERTS).repeat(moe.LAYERS, 1))
        program("slots", self.path("x.json"), "--checkpoint", self.path("in"), "--out", self.path("slots"), "--ranks", "1",
                "--allow-no-manifest")
        RankFile(self.path("slots"), Layout.linear(moe.LAYERS, EXPERTS, 1, EXPERTS), 0)
        other = Layout(torch.arange(EXPERTS).flip(0).repeat(moe.LAYERS, 1), EXPERTS, 1)
        with self.assertRaisesRegex(AdapterError, "written for another layout"):
            RankFile(self.path("slots"), other, 0)

    def test_rank_files_are_of_their_rank_and_hash_to_their_record(self):
        write_checkpoint(self.path("in"), moe.checkpoint(EXPERTS), 1)
        moe.write_layout(self.path("x.json"), torch.arange(EXPERTS).repeat(moe.LAYERS, 1))
        program("slots", self.path("x.json"), "--checkpoint", self.path("in"), "--out", self.path("slots"), "--ranks", "2",
                "--allow-no-manifest")
        layout = Layout.linear(moe.LAYERS, EXPERTS, 2, EXPERTS // 2)
        first, second = (os.path.join(self.path("slots"), f"rank-0000{rank}-of-00002.safetensors") for rank in (0, 1))
        RankFile(self.path("slots"), layout, 1)
        with open(second, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        with self.assertRaisesRegex(AdapterError, "rank-00001.*its SHA-256 is .*, eplb-checkpoint.json says"):
            RankFile(self.path("slots"), layout, 1)
        os.replace(first, second)
        with self.assertRaisesRegex(AdapterError, r"written for another rank \(eplb_rank is 0, not 1\)"):
            RankFile(self.path("slots"), layout, 1)
        os.replace(second, first)
        reader = RankFile(self.path("slots"), layout, 0)
        os.utime(first, (1, 1))
        with self.assertRaisesRegex(AdapterError, "was replaced since it was hashed"):
            reader.layer(types.SimpleNamespace(row=0, layer=0, raw=[], names=[], dtypes=lambda: []), types.SimpleNamespace(data={}), [])
        os.unlink(os.path.join(self.path("slots"), "eplb-checkpoint.json"))
        with self.assertRaisesRegex(AdapterError, "cannot be read, and without it the bytes of rank-00000"):
            RankFile(self.path("slots"), layout, 0)

    def test_a_packed_scale_is_not_filled_from_a_file(self):
        write_checkpoint(self.path("in"), moe.checkpoint(EXPERTS), 1)
        layout = moe.admitted(Layout.linear(moe.LAYERS, EXPERTS, 1, EXPERTS))
        model = moe.Model(moe.checkpoint(EXPERTS), EXPERTS, 1, EXPERTS)
        with self.assertRaisesRegex(InstallError, r"w2_weight_scale: a slot is Long .* its source is Float"):
            install_model(model, layout, 0, 1, adapter=ADAPTER, source=HfCheckpoint(self.path("in"), layout))
        self.assertEqual(attest(model).state, "partly written")


if __name__ == "__main__":
    unittest.main()
