"""Whatever one rank's part of a dump fails of, at whatever step: every rank ends in the same error, the group serves on and the
window is still there. On 4 processes; with 16, as `injected_errors_test.py 16`."""

import os
import sys
import tempfile
import types
import unittest
import zipfile

import torch
import torch.distributed as dist

from eplb_recorder import Recorder, WindowError
from eplb_recorder import recorder as recorder_module
from ranks import run_on_ranks, values

LAYOUT = [[2, 0, 1, 2], [0, 1, 0, 2]]
RANKS = int(sys.argv.pop(1)) if sys.argv[1:2] and sys.argv[1].isdigit() else 4

ERRORS = (TypeError, OSError, MemoryError, KeyboardInterrupt, RuntimeError, AssertionError, zipfile.BadZipFile, SystemExit)

# Where a dump calls into: the owner of a function, its name, and what of the window is left when it raises there.
POINTS = (
    (Recorder, "_collect"), (Recorder, "_identity"), (Recorder, "_require_same_window"), (Recorder, "_largest_count"),
    (Recorder, "_fold"), (Recorder, "_sidecar"), (Recorder, "reset"), (recorder_module, "_needs_int64"),
    (recorder_module, "_merged_passes"), (recorder_module, "ops"), (recorder_module, "_number_of"), (recorder_module, "_hash_of"),
)


class Injected:
    """Raises `error` the first time that a function is called while this is entered."""

    def __init__(self, owner, name, error):
        self.owner, self.name, self.error = owner, name, error
        self.original = getattr(owner, name)

    def __enter__(self):
        def fail(*arguments, **named):
            setattr(self.owner, self.name, self.original)
            raise self.error("injected")

        setattr(self.owner, self.name, fail)

    def __exit__(self, *failure):
        setattr(self.owner, self.name, self.original)


def every_error_at_every_point(rank, folder):
    torch.set_num_threads(1)
    recorder, answers = Recorder(LAYOUT, 3, records=2), []
    for number, (owner, name) in enumerate(POINTS):
        for kind in ERRORS:
            recorder.start("w")
            recorder.add_counts(torch.full((2, 4), 1 + number, dtype=torch.int32))
            recorder.append()
            path = os.path.join(folder, f"{name}.{kind.__name__}.pt")
            victim = number % dist.get_world_size()
            target = types.SimpleNamespace(unused=lambda: None)  # on the other ranks nothing is injected
            with Injected(owner, name, kind) if rank == victim else Injected(target, "unused", kind):
                try:
                    recorder.dump(path, dist.group.WORLD, timeout=20)
                    error = None
                except WindowError as failure:
                    error = str(failure)
            written = name == "reset"  # it comes after the write, so the window must not be summed again
            if written:
                report = None
            else:
                report = recorder.dump(path, dist.group.WORLD, timeout=20).sha256
            answers.append((name, kind.__name__, victim, error, written or report is not None))
    return answers


class InjectedErrors(unittest.TestCase):
    def test_every_rank_ends_in_the_same_error_and_the_window_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            by_rank = values(run_on_ranks(RANKS, every_error_at_every_point, folder, timeout=300))
            self.assertEqual(len(os.listdir(folder)), 2 * len(POINTS) * len(ERRORS))  # each window written once, with its sidecar
        for answers in zip(*by_rank):
            name, kind, victim, error, dumped = answers[0]
            with self.subTest(point=name, error=kind):
                self.assertIsNotNone(error)
                self.assertEqual({answer[3] for answer in answers}, {error})
                self.assertRegex(error, f"^rank {victim}, [a-z ]+: .*injected")
                self.assertTrue(dumped)


if __name__ == "__main__":
    unittest.main()
