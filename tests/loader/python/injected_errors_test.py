"""Whatever one rank's part of an installation or a verification fails of, at whatever step: every rank ends in the same error, the
group serves on, and nothing is attested. On 4 processes; with 16, as `injected_errors_test.py 16`."""
import random
import sys
import unittest
import zipfile

import torch

import moe
from eplb_loader import InstallError, Layout, attest, install_model, verify_model
from eplb_loader import group as group_module
from eplb_loader import install as install_module
from eplb_loader import witness as witness_module
from eplb_loader.adapter import Adapter, LayerTensors
from install_test import GENERIC
from ranks import run_ranks

RANKS = int(sys.argv.pop(1)) if sys.argv[1:2] and sys.argv[1].isdigit() else 4
EXPERTS, SLOTS = 16, 5 if RANKS == 4 else 2
TENSORS = moe.checkpoint(EXPERTS)
ERRORS = (TypeError, OSError, MemoryError, KeyboardInterrupt, RuntimeError, AssertionError, zipfile.BadZipFile, SystemExit)

# Where an installation calls into, and where a verification does.
INSTALL = ((Adapter, "layers"), (Layout, "require_admission"), (LayerTensors, "forms"), (LayerTensors, "fixed_digests"),
           (LayerTensors, "digests"), (witness_module.CheckpointWitness, "matches"), (install_module, "decide"),
           (install_module, "plan_of"), (group_module, "_Exchange"), (LayerTensors, "permute"),
           (install_module, "_compare"), (install_module, "require_routing"))
VERIFY = ((Adapter, "layers"), (LayerTensors, "digests"), (LayerTensors, "fixed_digests"), (install_module, "_compare_fixed"),
          (install_module, "routing_rows"))


def with_injected(owner, name, error, call):
    """Calls while the first call of a function raises; returns the InstallError's text."""
    original = getattr(owner, name)

    def fail(*arguments, **named):
        setattr(owner, name, original)
        raise error("injected")

    if error is not None:
        setattr(owner, name, fail)
    try:
        call()
    except InstallError as failure:
        return str(failure)
    finally:
        setattr(owner, name, original)
    return None


def every_error_at_every_point(rank, ranks):
    layout = moe.admitted(Layout(moe.random_rows(moe.LAYERS, EXPERTS, ranks, SLOTS, random.Random(5)), EXPERTS, ranks))
    linear, answers = Layout.linear(moe.LAYERS, EXPERTS, ranks, SLOTS), []
    table = layout.dispatch_table("omni", 1)[rank]

    def install(model):
        return install_model(model, layout, rank, ranks, adapter=GENERIC, source="engine", witness=moe.KnownExperts(TENSORS),
                             routing=table)

    def fresh():
        model = moe.Model(TENSORS, EXPERTS, ranks, SLOTS)
        model.fill(TENSORS, linear, rank)
        return model

    served = fresh()
    assert install(served).ok
    for number, (owner, name) in enumerate(INSTALL + VERIFY):
        verifying, victim = number >= len(INSTALL), number % ranks
        for kind in ERRORS:
            model = served if verifying else fresh()
            call = (lambda: verify_model(served)) if verifying else (lambda: install(model))
            error = with_injected(owner, name, kind if rank == victim else None, call)
            ok = attest(model).ok
            if verifying:
                assert verify_model(served).ok  # the group serves on
            elif attest(model).state != "partly written":
                assert install(model).ok
            answers.append((name, kind.__name__, victim, error, ok))
    return answers


class InjectedErrors(unittest.TestCase):
    def test_every_rank_ends_in_the_same_error(self):
        for answers in zip(*run_ranks(RANKS, every_error_at_every_point, timeout=60, limit=900)):
            name, kind, victim, error, _ = answers[0]
            with self.subTest(point=name, error=kind):
                self.assertIsNotNone(error)
                self.assertEqual({answer[3] for answer in answers}, {error})
                self.assertRegex(error, f"^rank {victim}: .*injected$")
                self.assertEqual({answer[4] for answer in answers}, {False})


if __name__ == "__main__":
    unittest.main()
