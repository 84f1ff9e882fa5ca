"""A layout changes where experts are computed and never what the model says: logits are equal bit for bit."""
import random
import unittest

import torch

import moe
from eplb_loader import Layout, attest, install_model, verify_model
from ranks import run_ranks

W13, W2 = ("gate_proj", "up_proj"), ("down_proj",)
GENERIC = {"name": "test", "block": r"model\.layers\.(?P<layer>\d+)\.mlp", "stay": ["gate.*"],
           "move": {f"experts.{name}": {} for name in ("w13_weight", "w13_weight_scale", "w13_weight_offset", "w2_weight",
                                                       "w2_weight_scale", "w2_weight_offset")},
           "checkpoint": {f"experts.{fused}_{kind}": {"parts": [f"{part}.{kind}" for part in parts], "pack_float_bits": True}
                          for fused, parts in (("w13", W13), ("w2", W2))
                          for kind in ("weight", "weight_scale", "weight_offset")}}
LISTED = {**GENERIC, **{key: {name + "_list": ({"list": True} if key == "move" else recipe)
                              for name, recipe in GENERIC[key].items()} for key in ("move", "checkpoint")}}


def same_bits(a, b):
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


def tokens_of(rank):
    return torch.randint(moe.VOCABULARY, (5,), generator=torch.Generator().manual_seed(100 + rank))


def dispatches(layout, rank, nodes):
    yield "dynamic", moe.DynamicChoice(layout, 7 + rank)
    for model in ("sglang-c", "omni", "vllm-ascend"):
        table = layout.dispatch_table(model, nodes)
        layout.require_table(table)
        yield model, moe.StaticTable(table, rank)


def check_layouts(rank, ranks, experts, redundancies, nodes):
    """Trivial placement, then two random layouts one after the other; returns how many comparisons were made."""
    tensors = moe.checkpoint(experts)
    tokens = tokens_of(rank)
    compared = 0
    for index, redundant in enumerate(redundancies):
        slots = (experts + redundant) // ranks
        linear = Layout.linear(moe.LAYERS, experts, ranks, slots)
        model = moe.Model(tensors, experts, ranks, slots, listed=index % 2 == 1)
        model.fill(tensors, linear, rank)
        before = model(tokens, moe.DynamicChoice(linear, rank))
        generator = random.Random(11 * ranks + redundant)
        for _ in range(2):
            layout = moe.admitted(Layout(moe.random_rows(moe.LAYERS, experts, ranks, slots, generator), experts, ranks))
            addresses = [tensor.data_ptr() for tensor in model.parameters()]
            table = layout.dispatch_table("sglang-c", nodes)
            attestation = install_model(model, layout, rank, ranks, adapter=LISTED if index % 2 else GENERIC, nodes=nodes,
                                        table=table, routing=table[rank], witness=moe.KnownExperts(tensors))
            assert attestation.ok and attest(model).ok and attestation.slots_verified == moe.LAYERS * slots
            assert addresses == [tensor.data_ptr() for tensor in model.parameters()]
            assert verify_model(model).ok
            for name, dispatch in dispatches(layout, rank, nodes):
                after = model(tokens, dispatch)
                assert same_bits(before, after), f"{name}, {redundant} redundant: logits changed"
                compared += 1
    return before, compared


class Install(unittest.TestCase):
    def test_one_rank_without_a_process_group(self):
        before, compared = check_layouts(0, 1, 32, [0], 1)
        self.assertEqual(compared, 8)
        # the neighbour that must fail: routing by the new map over weights that did not move
        tensors = moe.checkpoint(32)
        model = moe.Model(tensors, 32, 1, 32)
        model.fill(tensors, Layout.linear(moe.LAYERS, 32, 1, 32), 0)
        moved = Layout(moe.random_rows(moe.LAYERS, 32, 1, 32, random.Random(1)), 32, 1)
        self.assertFalse(same_bits(before, model(tokens_of(0), moe.DynamicChoice(moved, 0))))

    def test_four_ranks(self):
        results = run_ranks(4, check_layouts, 32, [0, 4, 12], 2)
        self.assertEqual([compared for _, compared in results], [24] * 4)

    def test_sixteen_ranks(self):
        results = run_ranks(16, check_layouts, 32, [0, 16, 48], 4)
        self.assertEqual([compared for _, compared in results], [24] * 16)
        alone, _ = check_layouts(0, 1, 32, [0], 1)
        self.assertTrue(same_bits(results[0][0], alone), "16 ranks compute what one computes")


if __name__ == "__main__":
    unittest.main()
