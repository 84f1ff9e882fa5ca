"""What is attested is true, and what is true and witnessed is attested: every way an engine may treat a layout, with every source,
redundancy, witness and routing, against an oracle that looks at the slots itself."""
import itertools
import random
import threading
import types
import unittest

import torch

import moe
from eplb_loader import InstallError, Layout, attest, install_model, prove_loaded, prove_routing, verify_model
from eplb_loader.routing import require_routing
from install_test import GENERIC
from ranks import run_ranks

EXPERTS, RANKS = 16, 4
TENSORS = moe.checkpoint(EXPERTS)

# What the engine's loader did with the layout.
ENGINES = ("obeys", "ignores", "ranks", "layers", "tensors", "one slot", "another layout")
SOURCES = ("loaded", "ranks", "engine", "checkpoint")
ROUTINGS = ("right", "one entry wrong", "linear", "not shown")


def layout_of(seed, slots):
    return moe.admitted(Layout(moe.random_rows(moe.LAYERS, EXPERTS, RANKS, slots, random.Random(seed)), EXPERTS, RANKS))


def loaded(engine, layout, rank):
    """The model after an engine's own loading."""
    linear = Layout.linear(moe.LAYERS, EXPERTS, RANKS, layout.slots)
    model = moe.Model(TENSORS, EXPERTS, RANKS, layout.slots)
    other = moe.Model(TENSORS, EXPERTS, RANKS, layout.slots)
    follows = {"obeys": True, "ranks": rank < RANKS // 2}.get(engine, False)
    model.fill(TENSORS, layout if follows else layout_of(99, layout.slots) if engine == "another layout" else linear, rank)
    other.fill(TENSORS, layout, rank)
    for index, (part, followed) in enumerate(zip(model.model.layers, other.model.layers)):
        for name in part.mlp.experts.names:
            take = {"layers": index == 0, "tensors": "scale" not in name}.get(engine, False)
            if take:
                getattr(part.mlp.experts, name).data.copy_(getattr(followed.mlp.experts, name).data)
    if engine == "one slot" and rank == 1:  # obeyed but for two slots that changed places
        model.fill(TENSORS, layout, rank)
        for name in model.model.layers[1].mlp.experts.names:
            tensor = getattr(model.model.layers[1].mlp.experts, name).data
            tensor[[0, 1]] = tensor[[1, 0]]
    elif engine == "one slot":
        model.fill(TENSORS, layout, rank)
    return model


def holds(model, layout, rank):
    """The oracle: fills a model by the layout and compares."""
    right = moe.Model(TENSORS, EXPERTS, RANKS, layout.slots)
    right.fill(TENSORS, layout, rank)
    return all(torch.equal(a, b) for a, b in zip(model.parameters(), right.parameters()))


def routing_of(kind, layout, rank):
    table = layout.dispatch_table("omni", 1)[rank]
    if kind == "linear":
        return torch.arange(EXPERTS, dtype=torch.int32).repeat(moe.LAYERS, 1)
    if kind == "one entry wrong" and rank == 2:
        table[1, 3] = table[1, 4]
    return None if kind == "not shown" else table


def enumerate_all(rank, ranks, slots):
    """(case, attested, true, reason) of every case; the ranks go through them together."""
    answers = []
    for engine, source, routing, witnessed in itertools.product(ENGINES, SOURCES, ROUTINGS, (True, False)):
        layout, model = layout_of(5, slots), loaded(engine, layout_of(5, slots), rank)
        known = moe.KnownExperts(TENSORS)
        try:
            install_model(model, layout, rank, ranks, adapter=GENERIC, source=known if source == "checkpoint" else source,
                          witness=known if witnessed else None, routing=routing_of(routing, layout, rank))
            reason = attest(model).reason
        except InstallError as error:
            reason = str(error)
        answers.append(((engine, source, routing, witnessed), attest(model).ok, holds(model, layout, rank), reason))
    return answers


class Enumerated(unittest.TestCase):
    def test_attested_only_when_right_and_never_refused_when_right_and_witnessed(self):
        for slots in (4, 5, 7):  # redundancy 0, R, 3R
            attested = 0
            for answers in zip(*run_ranks(RANKS, enumerate_all, slots, limit=400)):
                case, ok, _, reason = answers[0]
                engine, source, routing, witnessed = case
                with self.subTest(slots=slots, case=case):
                    self.assertEqual(len({answer[1] for answer in answers}), 1, "the ranks disagree")
                    right = all(answer[2] for answer in answers) and routing == "right"
                    self.assertFalse(ok and not right, "attested, and it is wrong")
                    fits = {"loaded": engine == "obeys", "ranks": engine == "ignores", "engine": engine in ("obeys", "ignores"),
                            "checkpoint": True}[source]
                    known = witnessed or source == "checkpoint"
                    self.assertEqual(ok, fits and known and routing == "right", reason)
                attested += ok
            # checkpoint: 7 engines x 2; loaded, ranks and engine with a witness: 1 + 1 + 2
            self.assertEqual(attested, 18)


def states(rank, ranks):
    layout = layout_of(5, 5)
    model = loaded("ignores", layout, rank)
    first = install_model(model, layout, rank, ranks, adapter=GENERIC)
    without = first.ok, first.state, first.reason
    model = loaded("ignores", layout, rank)
    second = install_model(model, layout, rank, ranks, adapter=GENERIC, witness=moe.KnownExperts(TENSORS))
    before = second.ok, second.state, second.reason, second.found
    wrong = None
    try:
        prove_routing(model, routing_of("one entry wrong", layout, rank))
    except InstallError as error:
        wrong = str(error)
    candidates = torch.full((moe.LAYERS, EXPERTS, RANKS), -1)
    for layer in range(moe.LAYERS):
        for slot, expert in enumerate(layout.row(layer)):
            candidates[layer, expert, int((candidates[layer, expert] >= 0).sum())] = slot
    after = prove_routing(model, candidates)
    return without, before, wrong, (after.ok, after.state), verify_model(model).ok


def followed_already(rank, ranks):
    layout = layout_of(5, 4)
    try:
        install_model(loaded("obeys", layout, rank), layout, rank, ranks, adapter=GENERIC, witness=moe.KnownExperts(TENSORS))
    except InstallError as error:
        return str(error)
    return None


def proven_at_load(rank, ranks, engine):
    """The engine packs the scales after loading, and its adapter cannot undo that: the proof is from before."""
    layout, model = layout_of(5, 5), None
    model = loaded(engine, layout, rank)
    loaded_as = {name: {"parts": recipe["parts"]} for name, recipe in GENERIC["checkpoint"].items()}
    still_as = {name: recipe for name, recipe in loaded_as.items() if name != "experts.w2_weight_scale"}
    adapter = {**GENERIC, "loaded": loaded_as, "checkpoint": still_as}
    for part in model.model.layers:
        experts = part.mlp.experts
        experts.w2_weight_scale = torch.nn.Parameter(moe.unpacked(experts.w2_weight_scale.data), requires_grad=False)
    proof = prove_loaded(model, layout, rank, ranks, adapter=adapter, checkpoint=moe.KnownExperts(TENSORS))
    for part in model.model.layers:
        experts = part.mlp.experts
        experts.w2_weight_scale = torch.nn.Parameter(moe.packed(experts.w2_weight_scale.data), requires_grad=False)
    offset = model.model.layers[1].mlp.experts.w13_weight_offset.data
    offset[2, 5] ^= 1  # what the checkpoint can still tell of is compared again
    try:
        install_model(model, layout, rank, ranks, adapter=adapter, source="engine", witness=proof)
        raise AssertionError("was installed")
    except InstallError as error:
        assert "w13_weight_offset, slot 2: its bytes are not those" in str(error), error
    offset[2, 5] ^= 1
    attestation = install_model(model, layout, rank, ranks, adapter=adapter, source="engine", witness=proof,
                                routing=routing_of("right", layout, rank))
    try:
        install_model(moe.Model(TENSORS, EXPERTS, ranks, 5), layout, rank, ranks, adapter=adapter, source="engine", witness=proof)
    except InstallError as error:
        other = str(error)
    return attestation.ok, attestation.found, holds(model, layout, rank), other


class Proof(unittest.TestCase):
    def test_without_a_witness_or_routing_nothing_is_in_force(self):
        for without, before, wrong, after, verified in run_ranks(RANKS, states):
            self.assertEqual(without[:2], (False, "not proven"))
            self.assertIn("no witness for the slots of experts.w13_weight, ", without[2])
            self.assertEqual(before[:2] + before[3:], (False, "not proven", "current"))
            self.assertIn("what the engine routes by was not shown", before[2])
            self.assertRegex(wrong, r"rank 2: layer 1: expert 3 is routed to slot \d+, which holds expert 4")
            self.assertEqual((after, verified), ((True, "in force"), True))

    def test_an_engine_that_followed_the_layout_is_not_moved_again(self):
        for reason in run_ranks(RANKS, followed_already):
            self.assertIn("the engine has followed the layout already", reason)

    def test_a_proof_from_before_the_engine_processed_the_weights(self):
        for engine, found in (("obeys", "layout"), ("ignores", "current")):
            for ok, held, right, other in run_ranks(RANKS, proven_at_load, engine):
                self.assertEqual((ok, held, right), (True, found, True))
                self.assertIn("the proof of what was loaded is of another model", other)

    def test_the_table_that_was_admitted_is_the_one_that_counts(self):
        layout = Layout(torch.tensor([[0, 1, 1, 0]]), 2, 2)
        layer = types.SimpleNamespace(layer=7, row=0)
        table = torch.tensor([[[0, 1]], [[3, 2]]])  # [R, L, E]
        for candidates, reason in (([[3], [2]], None), ([[0], [2]], "expert 0 is routed to 0, the admitted table of rank 1 says slot 3"),
                                   ([[3, 0], [2, -1]], "expert 0 is routed to 3 or 0, the admitted"), ([[3, -1], [-1, 2]], None),
                                   ([[3], [-1]], "expert 1 is routed nowhere"), ([[3], [4]], "slot 4, which is no slot"),
                                   ([[3], [0]], "expert 1 is routed to slot 0, which holds expert 0")):
            if reason is None:
                require_routing([layer], [torch.tensor(candidates)], layout, table, 1)
            else:
                with self.assertRaisesRegex(InstallError, "layer 7: .*" + reason):
                    require_routing([layer], [torch.tensor(candidates)], layout, table, 1)


def in_force(prepare=lambda model: None):
    layout = moe.admitted(Layout(moe.random_rows(moe.LAYERS, EXPERTS, 1, EXPERTS, random.Random(1)), EXPERTS, 1))
    model = moe.Model(TENSORS, EXPERTS, 1, EXPERTS)
    model.fill(TENSORS, Layout.linear(moe.LAYERS, EXPERTS, 1, EXPERTS), 0)
    prepare(model)
    routing = layout.dispatch_table("omni", 1)[0]
    assert install_model(model, layout, 0, 1, adapter=GENERIC, witness=moe.KnownExperts(TENSORS), routing=routing).ok
    return model, routing


class Verified(unittest.TestCase):
    """verify_model looks the tensors up again."""

    def notices(self, change, pattern):
        model, routing = in_force()
        self.assertTrue(verify_model(model).ok)
        change(model, routing)
        with self.assertRaisesRegex(InstallError, pattern):
            verify_model(model)
        self.assertEqual((attest(model).ok, attest(model).state), (False, "not proven"))

    def test_data_that_was_replaced_by_equal_bytes_elsewhere(self):
        def change(model, routing):
            weight = model.model.layers[1].mlp.experts.w2_weight
            weight.data = weight.data.clone()
        self.notices(change, r"layer 1, experts\.w2_weight: lies elsewhere than at the installation")

    def test_a_new_parameter(self):
        def change(model, routing):
            experts = model.model.layers[0].mlp.experts
            experts.w13_weight = torch.nn.Parameter(torch.zeros_like(experts.w13_weight), requires_grad=False)
        self.notices(change, r"layer 0, experts\.w13_weight: lies elsewhere")

    def test_a_layer_that_is_gone(self):
        def change(model, routing):
            model.model.layers[2].mlp = torch.nn.Module()
        self.notices(change, r"layers with experts are \[0, 1\], at the installation they were \[0, 1, 2\]")

    def test_a_tensor_that_is_gone(self):
        def change(model, routing):
            del model.model.layers[2].mlp.experts.w2_weight_offset
        self.notices(change, "has no tensor experts.w2_weight_offset")

    def test_a_router_that_was_replaced(self):
        def change(model, routing):
            gate = model.model.layers[1].mlp.gate
            gate.weight = torch.nn.Parameter(gate.weight.data.flip(0), requires_grad=False)
        self.notices(change, r"layer 1, gate\.weight: changed, although it does not move")

    def test_a_bias_that_came(self):
        def change(model, routing):
            model.model.layers[1].mlp.gate.register_buffer("bias", torch.zeros(EXPERTS))
        self.notices(change, r"layer 1: gate\.bias: came or went")

    def test_a_routing_entry_that_changed(self):
        def change(model, routing):
            routing[0, 1] = routing[0, 2]
        self.notices(change, "layer 0: expert 1 is routed to slot")


class Helper:
    def __init__(self, **tensors):
        vars(self).update(tensors)


class Slotted:
    __slots__ = ("scales",)

    def __init__(self, scales):
        self.scales = scales


class Hidden(unittest.TestCase):
    """Expert-shaped memory that the adapter does not name is refused, wherever it is."""

    def refuses(self, name, value, pattern):
        def prepare(model):
            setattr(model.model.layers[1].mlp.experts, name, value)
        with self.assertRaisesRegex(InstallError, pattern):
            in_force(prepare)

    def test_in_dictionaries_helpers_and_nested_lists(self):
        scale = torch.zeros(EXPERTS, 3)
        where = r"model\.layers\.1\.mlp\.experts\."
        self.refuses("extra", {"scale": scale}, where + r"extra\.scale: has 16 rows")
        self.refuses("extra", {"a": {"b": [scale, 1]}}, where + r"extra\.a\.b\.0: has 16 rows")
        self.refuses("extra", Helper(scale=scale), where + r"extra\.scale: has 16 rows")
        self.refuses("extra", Slotted([scale, None]), where + r"extra\.scales\.0: has 16 rows")
        self.refuses("extra", types.SimpleNamespace(inner=Helper(scale=scale)), where + r"extra\.inner\.scale")
        self.refuses("extra", [[torch.zeros(3) for _ in range(EXPERTS)]], where + r"extra\.0: is a list of 16 tensors")
        hidden = torch.nn.Module()
        hidden.register_buffer("scale", scale)
        self.refuses("extra", [hidden], where + r"extra\.0\.scale")

    def test_along_another_axis_and_on_one_axis(self):
        self.refuses("extra", torch.zeros(3, EXPERTS), r"extra: has 16 entries along axis 1")
        for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.int64):
            self.refuses("extra", torch.zeros(3 * EXPERTS, dtype=dtype), "extra: looks like packed scales of 16 slots")

    def test_what_is_not_expert_shaped_is_let_be(self):
        in_force(lambda model: setattr(model.model.layers[1].mlp.experts, "extra",
                                       {"a": torch.zeros(EXPERTS + 1, 3), "b": [torch.zeros(3)], "c": torch.zeros(3 * EXPERTS + 1)}))

    def test_a_view_of_what_moves_moves_with_it(self):
        def prepare(model):
            experts = model.model.layers[1].mlp.experts
            experts.first_half = experts.w13_weight.data[:, :moe.INTERMEDIATE]
        in_force(prepare)

    def test_memory_beside_what_moves_does_not(self):
        def prepare(model):
            experts = model.model.layers[1].mlp.experts
            both = torch.zeros(2, *experts.w2_weight_offset.shape, dtype=torch.int8)
            both[0] = experts.w2_weight_offset.data
            experts.w2_weight_offset = torch.nn.Parameter(both[0], requires_grad=False)
            experts.beside = both[1]
        with self.assertRaisesRegex(InstallError, "experts.beside: has 16 rows"):
            in_force(prepare)


class AtOnce(unittest.TestCase):
    def test_of_two_installations_at_once_one_wins(self):
        layout = moe.admitted(Layout(moe.random_rows(moe.LAYERS, EXPERTS, 1, EXPERTS, random.Random(1)), EXPERTS, 1))
        model = moe.Model(TENSORS, EXPERTS, 1, EXPERTS)
        inside, go, reasons = threading.Event(), threading.Event(), []

        class Slow(moe.KnownExperts):
            def layer(self, *arguments):
                inside.set()
                assert go.wait(30)
                return super().layer(*arguments)

        def first():
            install_model(model, layout, 0, 1, adapter=GENERIC, source=Slow(TENSORS), routing=layout.dispatch_table("omni", 1)[0])

        thread = threading.Thread(target=first)
        thread.start()
        self.assertTrue(inside.wait(30))
        with self.assertRaisesRegex(InstallError, "another installation on this model is under way"):
            install_model(model, layout, 0, 1, adapter=GENERIC, source=moe.KnownExperts(TENSORS))
        go.set()
        thread.join()
        self.assertTrue(attest(model).ok)
        self.assertTrue(holds_alone(model, layout))
        install_model(model, layout, 0, 1, adapter=GENERIC, source="loaded")  # the claim was given back


def holds_alone(model, layout):
    right = moe.Model(TENSORS, EXPERTS, 1, EXPERTS)
    right.fill(TENSORS, layout, 0)
    return all(torch.equal(a, b) for a, b in zip(model.parameters(), right.parameters()))


if __name__ == "__main__":
    unittest.main()
