"""Everything that must not be served: each case is caught, named, and leaves no rank with attest().ok."""
import os
import random
import time
import unittest

import torch

import moe
from eplb_loader import Adapter, AdapterError, InstallError, Layout, attest, install_model, verify_model
from eplb_loader import group as group_module
from install_test import GENERIC
from ranks import run_ranks

EXPERTS, RANKS, SLOTS = 16, 4, 5


def layout_of(seed, ranks=RANKS, slots=SLOTS):
    return moe.admitted(Layout(moe.random_rows(moe.LAYERS, EXPERTS, ranks, slots, random.Random(seed)), EXPERTS, ranks))


def model_of(rank, ranks=RANKS, slots=SLOTS, listed=False):
    tensors = moe.checkpoint(EXPERTS)
    model = moe.Model(tensors, EXPERTS, ranks, slots, listed=listed)
    model.fill(tensors, Layout.linear(moe.LAYERS, EXPERTS, ranks, slots), rank)
    return model


def bytes_of(model):
    return [tensor.clone() for tensor in model.parameters()]


def install(model, layout, rank, ranks, **arguments):
    """With a witness for the slots, and the routing that belongs to the layout."""
    return install_model(model, layout, rank, ranks, adapter=GENERIC, witness=moe.KnownExperts(moe.checkpoint(EXPERTS)),
                         routing=layout.dispatch_table("omni", 1)[rank], **arguments)


def refused(model, **arguments):
    """The reason, after checking that nothing serves."""
    try:
        install_model(model, **arguments)
    except (InstallError, AdapterError) as error:
        assert not attest(model).ok
        return str(error)
    raise AssertionError("was installed")


def without(name):
    return {**GENERIC, "move": {key: value for key, value in GENERIC["move"].items() if key != name}}


def on_one_rank(adapter=GENERIC, prepare=lambda model: None):
    layout = layout_of(1, 1, EXPERTS)
    model = model_of(0, 1, EXPERTS)
    prepare(model)
    before = bytes_of(model)
    reason = refused(model, layout=layout, rank=0, ranks=1, adapter=adapter)
    assert all(torch.equal(a, b) for a, b in zip(before, bytes_of(model))), "a refused install wrote something"
    return reason


class Undeclared(unittest.TestCase):
    def test_a_scale_that_the_adapter_forgets(self):
        reason = on_one_rank(without("experts.w2_weight_scale"))
        self.assertRegex(reason, r"model\.layers\.0\.mlp\.experts\.w2_weight_scale: has 16 rows.*nothing was written")

    def test_a_correction_bias_that_nobody_spoke_of(self):
        reason = on_one_rank({**GENERIC, "stay": ["gate.weight"]})
        self.assertIn("gate.e_score_correction_bias: has 16 rows, as many as experts", reason)

    def test_tensors_outside_the_registries_are_seen(self):
        def hide(model):
            model.model.layers[1].mlp.experts.hidden_scale = torch.zeros(EXPERTS, 3)
        self.assertIn("model.layers.1.mlp.experts.hidden_scale", on_one_rank(prepare=hide))

        def hide_list(model):
            model.model.layers[2].mlp.experts.scales = [torch.zeros(3) for _ in range(EXPERTS)]
        self.assertIn("model.layers.2.mlp.experts.scales: is a list of 16 tensors", on_one_rank(prepare=hide_list))

    def test_scales_packed_into_one_axis_are_suspected(self):
        def flatten(model):
            model.model.layers[0].mlp.experts.flat = torch.zeros(3 * EXPERTS, dtype=torch.int64)
        self.assertIn("looks like packed scales", on_one_rank(prepare=flatten))

    def test_a_second_name_of_a_tensor_that_moves_is_no_second_tensor(self):
        layout, model = layout_of(1, 1, EXPERTS), model_of(0, 1, EXPERTS)
        experts = model.model.layers[0].mlp.experts
        experts.alias = experts.w2_weight_scale.view(torch.float64)  # as engines view packed weights
        self.assertTrue(install(model, layout, 0, 1).ok)

    def test_a_tensor_that_is_missing_or_has_another_shape(self):
        self.assertIn("has no tensor experts.made_up", on_one_rank({**GENERIC, "move": {**GENERIC["move"], "experts.made_up": {}}}))

        def shorten(model):
            model.model.layers[0].mlp.experts.w2_weight_offset = torch.nn.Parameter(
                torch.zeros(EXPERTS - 1, moe.HIDDEN, dtype=torch.int8), requires_grad=False)
        self.assertIn("its slot axis has 15 entries", on_one_rank(prepare=shorten))

    def test_a_scheme_that_only_the_engine_can_place(self):
        adapter, layout, model = Adapter.load("sglang-npu-fuseep"), layout_of(1, 1, EXPERTS), model_of(0, 1, EXPERTS)
        experts = model.model.layers[0].mlp.experts
        with self.assertRaisesRegex(AdapterError, "ascend_fuseep mode 2"):
            adapter.layers(model, layout)
        # verified it can be: scales on one axis are slots one after the other
        scale = torch.arange(EXPERTS * 3)
        model.model.layers = model.model.layers[:1]
        experts.w13_weight_scale = torch.nn.Parameter(scale, requires_grad=False)
        experts.w2_weight_scale = torch.nn.Parameter(scale.clone(), requires_grad=False)
        layer, = adapter.layers(model, layout, verify_only=True)
        self.assertEqual(layer.views()[layer.names.index("experts.w13_weight_scale")][2].tolist(), [6, 7, 8])
        experts.w13_weight_scale = torch.nn.Parameter(scale[:-1], requires_grad=False)
        with self.assertRaisesRegex(AdapterError, r"w13_weight_scale: \[47\] is not one axis of 16 slots"):
            adapter.layers(model, layout, verify_only=True)


class Illegal(unittest.TestCase):
    def test_an_expert_twice_on_a_rank(self):
        with self.assertRaisesRegex(RuntimeError, "layer 0"):
            Layout(torch.tensor([[0, 0, 1, 2, 3, 1]]), 4, 2)
        Layout(torch.tensor([[0, 1, 2, 2, 3, 1]]), 4, 2)

    def test_an_expert_that_is_nowhere(self):
        with self.assertRaisesRegex(RuntimeError, "3"):
            Layout(torch.tensor([[0, 1, 2, 2, 0, 1]]), 4, 2)

    def test_a_table_made_for_another_layout(self):
        table = layout_of(2, 1, EXPERTS).dispatch_table("omni", 1)
        model, layout = model_of(0, 1, EXPERTS), layout_of(3, 1, EXPERTS)
        reason = refused(model, layout=layout, rank=0, ranks=1, adapter=GENERIC, table=table)
        self.assertRegex(reason, r"rank 0, layer 0, expert \d+: slot \d+ holds expert \d+")


def another_layout_on_rank_2(rank, ranks):
    model = model_of(rank)
    return refused(model, layout=layout_of(9 if rank == 2 else 1), rank=rank, ranks=ranks, adapter=GENERIC)


def another_table_on_rank_1(rank, ranks):
    layout = layout_of(1)
    table = layout.dispatch_table("omni" if rank == 1 else "vllm-ascend", 1)
    return refused(model_of(rank), layout=layout, rank=rank, ranks=ranks, adapter=GENERIC, table=table)


def made_for_four_ranks(rank, ranks):
    """24 slots divide by 4 and by 6."""
    return refused(model_of(rank, ranks, 24 // ranks), layout=layout_of(1, 4, 6), rank=rank, ranks=ranks, adapter=GENERIC)


def bad_adapter_on_rank_3(rank, ranks):
    model = model_of(rank)
    return refused(model, layout=layout_of(1), rank=rank, ranks=ranks,
                   adapter=without("experts.w13_weight_scale") if rank == 3 else GENERIC)


def corrupted_while_writing(rank, ranks):
    """One byte of one slot flips between the copy and the verification, on rank 2."""
    model, original = model_of(rank), group_module.move_layer
    import eplb_loader.install as install
    if rank == 2:
        def flip(tensors, plan, group):
            original(tensors, plan, group)
            if tensors.layer == 1:
                tensors.tensors[0][3].view(-1)[7] ^= 1
        install.move_layer = flip
    first = refused(model, layout=layout_of(1), rank=rank, ranks=ranks, adapter=GENERIC)
    install.move_layer = original
    state = attest(model).state
    second = refused(model, layout=layout_of(1), rank=rank, ranks=ranks, adapter=GENERIC)
    return first, state, second


def corrupted_after_install(rank, ranks):
    model = model_of(rank)
    assert install(model, layout_of(1), rank, ranks).ok
    assert verify_model(model).ok
    if rank == 1:
        model.model.layers[2].mlp.experts.w2_weight_scale.data[4, 0] ^= 1 << 40
    try:
        verify_model(model)
    except InstallError as error:
        return str(error), attest(model).ok
    raise AssertionError("not noticed")


def gate_changed_after_install(rank, ranks):
    model = model_of(rank)
    assert install(model, layout_of(1), rank, ranks).ok
    if rank == 0:
        model.model.layers[0].mlp.gate.weight.data[0, 0] += 1
    try:
        verify_model(model)
    except InstallError as error:
        return str(error)
    raise AssertionError("not noticed")


def slots_are_not_what_they_are_said_to_be(rank, ranks):
    model = model_of(rank)
    if rank == 3:
        model.model.layers[0].mlp.experts.w13_weight.data[1] += 1  # expert 0's replica on the last rank
    before = bytes_of(model)
    reason = refused(model, layout=layout_of(1), rank=rank, ranks=ranks, adapter=GENERIC)
    assert all(torch.equal(a, b) for a, b in zip(before, bytes_of(model)))
    return reason


def killed_during_exchange(rank, ranks, before_sending):
    """Rank 1 dies in the second layer, before its slots are sent or right after; nobody else may serve, and all come back
    in bounded time."""
    model, original = model_of(rank), group_module.Group.exchange
    calls = []
    if rank == 1:
        def die(group, sends, receives):
            calls.append(len(sends))
            if len(calls) == 2 and before_sending:
                os._exit(1)
            original(group, sends, receives)
            if len(calls) == 2:
                os._exit(1)
        group_module.Group.exchange = die
    start = time.monotonic()
    reason = refused(model, layout=layout_of(1), rank=rank, ranks=ranks, adapter=GENERIC)
    return reason, attest(model).state, time.monotonic() - start


def out_of_memory_on_one_rank(rank, ranks):
    """Rank 2 fails while it prepares the second layer: the others must hear of it instead of waiting for its slots."""
    model, original = model_of(rank), group_module._Exchange
    if rank == 2:
        def fail(tensors, plan, own_rank):
            if tensors.layer == 1:
                raise MemoryError("no room for incoming slots")
            return original(tensors, plan, own_rank)
        group_module._Exchange = fail
    start = time.monotonic()
    reason = refused(model, layout=layout_of(1), rank=rank, ranks=ranks, adapter=GENERIC)
    return reason, attest(model).state, time.monotonic() - start


def loaded_by_the_engine(rank, ranks, wrong):
    """source="loaded": the engine filled the slots by the map itself; one rank may have got it wrong."""
    tensors, layout = moe.checkpoint(EXPERTS), layout_of(1)
    model = moe.Model(tensors, EXPERTS, ranks, SLOTS)
    model.fill(tensors, layout_of(2) if wrong and rank == 3 else layout, rank)
    if not wrong:
        attestation = install(model, layout, rank, ranks, source="loaded")
        return attestation.ok and verify_model(model).ok
    return refused(model, layout=layout, rank=rank, ranks=ranks, adapter=GENERIC, source="loaded")


class Ranks(unittest.TestCase):
    def all_say(self, reasons, pattern):
        for reason in reasons:
            self.assertRegex(reason, pattern)

    def test_one_rank_with_another_layout(self):
        self.all_say(run_ranks(RANKS, another_layout_on_rank_2), "disagree on the layout: rank 0 has .*rank 2 has")

    def test_one_rank_with_another_table(self):
        self.all_say(run_ranks(RANKS, another_table_on_rank_1), "disagree on the dispatch table: .*rank 1 has")

    def test_a_map_made_for_four_ranks_on_six(self):
        self.all_say(run_ranks(6, made_for_four_ranks), "the layout is for 4 ranks, this is a group of 6")

    def test_a_failure_on_one_rank_reaches_all_before_anything_is_written(self):
        self.all_say(run_ranks(RANKS, bad_adapter_on_rank_3), r"rank 3: .*w13_weight_scale: has 5 rows")

    def test_one_byte_corrupted_while_installing(self):
        for first, state, second in run_ranks(RANKS, corrupted_while_writing):
            self.assertRegex(first, r"rank 2: layer 1, experts\.w13_weight, slot 3: its bytes are not those of expert \d+")
            self.assertEqual(state, "partly written")
            self.assertRegex(second, "partly written .*load it again")

    def test_one_byte_corrupted_after_install(self):
        for reason, ok in run_ranks(RANKS, corrupted_after_install):
            self.assertRegex(reason, r"rank 1: layer 2, experts\.w2_weight_scale, slot 4")
            self.assertFalse(ok)

    def test_a_tensor_that_does_not_move_changed(self):
        self.all_say(run_ranks(RANKS, gate_changed_after_install), r"rank 0: layer 0, gate\.weight: changed")

    def test_replicas_that_differ_before_the_install(self):
        self.all_say(run_ranks(RANKS, slots_are_not_what_they_are_said_to_be),
                     r"layer 0, experts\.w13_weight: expert 0 differs between rank 0 slot 0 and rank 3 slot 1.*nothing was written")

    def test_a_rank_killed_during_the_exchange(self):
        for before_sending in (True, False):
            results = run_ranks(RANKS, killed_during_exchange, before_sending, timeout=15, expect_dead=(1,))
            self.assertIsNone(results[1])
            for reason, state, seconds in (result for result in results if result):
                self.assertRegex(reason, "rank|closed|timed? ?out|peer", reason)
                self.assertEqual(state, "partly written")
                self.assertLess(seconds, 60)

    def test_a_rank_that_fails_within_the_exchange_does_not_leave_the_others_waiting(self):
        for reason, state, seconds in run_ranks(RANKS, out_of_memory_on_one_rank, timeout=60):
            self.assertEqual((reason, state), ("rank 2: no room for incoming slots", "partly written"))
            self.assertLess(seconds, 40, "the time-out of the process group ended it")

    def test_slots_filled_by_the_engine_are_verified(self):
        self.assertEqual(run_ranks(RANKS, loaded_by_the_engine, False), [True] * RANKS)
        self.all_say(run_ranks(RANKS, loaded_by_the_engine, True), "differs between .*the engine did not load this layout")


if __name__ == "__main__":
    unittest.main()
