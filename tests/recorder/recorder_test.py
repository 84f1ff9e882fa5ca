"""The recorder: exact counts, the right order, and a window that survives every failure."""

import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import types
import unittest

import numpy as np
import torch
import torch.distributed as dist

from eplb_recorder import Recorder, WindowError, attach
from eplb_recorder import recorder as recorder_module
from ranks import run_on_ranks, values

# Two layers, three experts on four slots (2 ranks x 2). Layer 0 holds expert 2 twice, layer 1 expert 0 twice.
LAYOUT = [[2, 0, 1, 2], [0, 1, 0, 2]]


def load(path):
    return torch.load(path, map_location="cpu")


def sidecar_of(path):
    with open(os.path.splitext(path)[0] + ".window.json") as file:
        return json.load(file)


def pass_of(value, layers=2, slots=4, dtype=torch.int32):
    """A pass whose counts are value, value + 1, ... over layers and slots."""
    return torch.arange(value, value + layers * slots, dtype=dtype).reshape(layers, slots)


def record_passes(recorder, passes):
    for counts in passes:
        recorder.add_counts(counts, torch.tensor(int(counts.max())))
        recorder.append()


def two_ranks(rank, folder, dtype_name):
    dtype = getattr(torch, dtype_name)
    recorder = Recorder(LAYOUT, 3, records=3, dtype=dtype)
    recorder.start("by hand")
    recorder.record(0, torch.tensor([[0, 1], [3, -1], [2, 2]]) if rank == 0 else torch.tensor([[3, 0]]))
    recorder.record(1, torch.tensor([[0, 2], [1, 3], [3, 2]]), torch.tensor([True, True, rank == 1]))
    recorder.append()
    recorder.add_counts(torch.full((2, 4), 10 * (rank + 1), dtype=dtype))
    recorder.append()
    path = os.path.join(folder, f"{dtype_name}.pt")
    report = recorder.dump(path, dist.group.WORLD)
    return report.records, report.overwritten, report.sha256


class TwoRanks(unittest.TestCase):
    def test_counts_are_the_ones_worked_out_by_hand(self):
        # Record 0, layer 0 (slots 0..3 hold 2 0 1 2). Rank 0 chose slots 0 1 | 3 | 2 2, rank 1 slots 3 0:
        #   slots 2 1 2 2 in sum -> expert 0: 1, expert 1: 2, expert 2: 2 + 2 = 4.
        # Layer 1 (0 1 0 2). Rank 0 counts its first two rows: slots 0 2 | 1 3; rank 1 all: 0 2 | 1 3 | 3 2:
        #   slots 2 2 3 3 in sum -> expert 0: 2 + 3 = 5, expert 1: 2, expert 2: 3.
        # Record 1: 10 + 20 = 30 in every slot -> an expert with two replicas has 60.
        expected = [[[1, 2, 4], [5, 2, 3]], [[30, 30, 60], [60, 30, 30]], [[0, 0, 0], [0, 0, 0]]]
        with tempfile.TemporaryDirectory() as folder:
            for dtype in ("int32", "int64"):
                answers = values(run_on_ranks(2, two_ranks, folder, dtype))
                self.assertEqual([answer[:2] for answer in answers], [(2, 0), (2, 0)])
                path = os.path.join(folder, f"{dtype}.pt")
                dump = load(path)
                self.assertEqual(dump["logical_count"].tolist(), expected)
                self.assertEqual((dump["rank"], dump["average_utilization_rate_over_window"]), (0, None))
                sidecar = sidecar_of(path)
                self.assertEqual(sidecar["members"], [0, 1])
                self.assertEqual(sidecar["reduction"], "reduced")
                self.assertEqual(sidecar["sha256"], answers[0][2])
                self.assertEqual(sidecar["tokens"], [3 + 3, 0])  # layer 1 of rank 0 masks a row, its layer 0 has three


def ring_case(rank, folder, size, appends):
    recorder = Recorder(LAYOUT, 3, records=size)
    recorder.start()
    record_passes(recorder, [pass_of(100 * n) for n in range(appends)])
    path = os.path.join(folder, f"ring{size}_{appends}.pt")
    report = recorder.dump(path, dist.group.WORLD)
    return report.overwritten, load(path)["logical_count"].tolist(), sidecar_of(path)


def folded(counts, layout=LAYOUT, experts=3):
    """Oracle: the counts of one pass by logical expert."""
    out = np.zeros((len(layout), experts), dtype=np.int64)
    for layer, row in enumerate(layout):
        np.add.at(out[layer], row, counts[layer])
    return out.tolist()


class Ring(unittest.TestCase):
    def test_order_and_overwritten_around_the_size_of_the_ring(self):
        size = 4
        with tempfile.TemporaryDirectory() as folder:
            for appends in (size - 1, size, size + 1, 2 * size + 3):
                (overwritten, counts, sidecar), = values(run_on_ranks(1, ring_case, folder, size, appends))
                kept = min(size, appends)
                first = appends - kept
                self.assertEqual(overwritten, first)
                self.assertEqual((sidecar["first_sequence"], sidecar["records"], sidecar["overwritten"]), (first, kept, first))
                for record in range(kept):
                    self.assertEqual(counts[record], folded(pass_of(100 * (first + record)).numpy()), (appends, record))
                self.assertEqual(len(counts), size)
                self.assertTrue(all(value == 0 for record in counts[kept:] for row in record for value in row))


def two_windows(rank, folder):
    recorder = Recorder(LAYOUT, 3, records=4)
    found = []
    for window, passes in (("first", 6), ("second", 2)):
        recorder.start(window)
        record_passes(recorder, [pass_of(1000 * len(found) + 100 * n) for n in range(passes)])
        path = os.path.join(folder, f"{window}.pt")
        recorder.dump(path, dist.group.WORLD)
        found.append((load(path)["logical_count"].tolist(), sidecar_of(path)))
    return found


def changed_layout(rank, folder):
    other = [[0, 1, 2, 0], [1, 2, 2, 0]]
    recorder = Recorder(LAYOUT, 3, records=4)
    recorder.start()
    record_passes(recorder, [pass_of(1)])
    recorder.set_layout(other)
    recorder.set_phase("decode")
    record_passes(recorder, [pass_of(50)])
    path = os.path.join(folder, "changed.pt")
    recorder.dump(path, dist.group.WORLD)
    return load(path)["logical_count"].tolist(), sidecar_of(path), folded(pass_of(50).numpy(), other)


class Windows(unittest.TestCase):
    def test_a_second_window_starts_at_ring_position_zero(self):
        with tempfile.TemporaryDirectory() as folder:
            found, = values(run_on_ranks(1, two_windows, folder))
        counts, sidecar = found[1]
        self.assertEqual((sidecar["first_sequence"], sidecar["overwritten"], sidecar["window"]), (0, 0, "second"))
        self.assertEqual(counts[:2], [folded(pass_of(1000 + 100 * n).numpy()) for n in range(2)])
        self.assertTrue(np.all(np.array(counts[2:]) == 0))
        self.assertEqual(found[0][1]["overwritten"], 2)

    def test_records_keep_the_layout_they_were_made_under(self):
        with tempfile.TemporaryDirectory() as folder:
            (counts, sidecar, under_other), = values(run_on_ranks(1, changed_layout, folder))
        self.assertEqual(counts[0], folded(pass_of(1).numpy()))
        self.assertEqual(counts[1], under_other)
        self.assertEqual(sidecar["layout_of_record"], [0, 1])
        self.assertEqual(sidecar["phases"], ["unknown", "decode"])
        self.assertEqual(len(set(sidecar["layouts"])), 2)

    def test_nothing_is_recorded_before_start_and_after_stop(self):
        recorder = Recorder(LAYOUT, 3, records=4)
        record_passes(recorder, [pass_of(1)])
        recorder.start()
        record_passes(recorder, [pass_of(2)])
        recorder.stop()
        record_passes(recorder, [pass_of(3)])
        with tempfile.TemporaryDirectory() as folder:
            report = recorder.dump_partial(os.path.join(folder, "Y.pt"), rank=1, ranks=2)
            self.assertEqual(report.records, 1)
            self.assertEqual(load(report.path)["logical_count"][0].tolist(), folded(pass_of(2).numpy()))
            self.assertEqual(load(report.path)["rank"], 1)
            self.assertEqual(os.path.basename(report.path), "Y.rank1.pt")


class Unbounded(unittest.TestCase):
    def test_it_stops_at_its_budget_with_an_error_and_keeps_what_it_has(self):
        chunk = Recorder._CHUNK_RECORDS * 2 * 4 * 4  # records x layers x slots x bytes
        recorder = Recorder(LAYOUT, 3, records=None, byte_budget=2 * chunk)
        recorder.start()
        kept = 2 * Recorder._CHUNK_RECORDS
        record_passes(recorder, [pass_of(n) for n in range(kept)])
        with self.assertRaisesRegex(WindowError, f"byte budget .* after {kept} records"):
            record_passes(recorder, [pass_of(0)])
        with tempfile.TemporaryDirectory() as folder:
            report = recorder.dump_partial(os.path.join(folder, "Y.pt"), rank=0, ranks=1)
            counts = load(report.path)["logical_count"].tolist()
        self.assertEqual(len(counts), kept)
        for record in (0, Recorder._CHUNK_RECORDS - 1, Recorder._CHUNK_RECORDS, kept - 1):
            self.assertEqual(counts[record], folded(pass_of(record).numpy()))

    def test_the_first_records_must_fit_the_budget(self):
        chunk = Recorder._CHUNK_RECORDS * 2 * 4 * 4
        Recorder(LAYOUT, 3, records=None, byte_budget=chunk)
        with self.assertRaisesRegex(WindowError, f"the first 128 records take {chunk} bytes"):
            Recorder(LAYOUT, 3, records=None, byte_budget=chunk - 1)

    def test_it_needs_a_budget(self):
        with self.assertRaisesRegex(WindowError, "byte_budget"):
            Recorder(LAYOUT, 3, records=None)


def wide_sum(rank, folder):
    recorder = Recorder(LAYOUT, 3, records=1)
    recorder.start()
    recorder.add_counts(torch.full((2, 4), 2**30, dtype=torch.int32))
    recorder.append()
    path = os.path.join(folder, "wide.pt")
    recorder.dump(path, dist.group.WORLD)
    return load(path)["logical_count"].tolist(), str(load(path)["logical_count"].dtype)


class Arithmetic(unittest.TestCase):
    def test_a_sum_beyond_int32_is_widened(self):
        with tempfile.TemporaryDirectory() as folder:
            for counts, dtype in values(run_on_ranks(2, wide_sum, folder)):
                self.assertEqual(dtype, "torch.int64")
                self.assertEqual(counts, [[[2**31, 2**31, 2**32], [2**32, 2**31, 2**31]]])

    def test_a_pass_that_int32_does_not_hold_fails_the_dump(self):
        for added, fits in ((2**31 - 2**30 - 1, True), (2**31 - 2**30, False)):
            recorder = Recorder(LAYOUT, 3, records=2)
            recorder.start()
            for count in (2**30, added):  # in sum 2^31 - 1, and one more
                recorder.add_counts(torch.full((2, 4), count, dtype=torch.int32))
            recorder.append()
            with tempfile.TemporaryDirectory() as folder:
                error = error_of(lambda: recorder.dump_partial(os.path.join(folder, "Y.pt"), rank=0, ranks=1))
            self.assertEqual(error is None, fits, error)
        self.assertIn("1 passes counted more than torch.int32 holds", error)

    def test_a_pass_that_wrapped_to_nothing_in_int32_fails_the_dump(self):
        recorder = Recorder(LAYOUT, 3, records=2)
        recorder.start()
        for _ in range(4):
            recorder.add_counts(torch.full((2, 4), 2**30, dtype=torch.int32))  # 2^32 is 0 in int32
        recorder.append()
        self.assertIn("passes counted more", error_of(lambda: recorder.dump_partial("Y.pt", rank=0, ranks=1)))

    def test_a_sum_that_int64_does_not_hold_is_refused(self):
        recorder = Recorder(LAYOUT, 3, records=1, dtype=torch.int64)
        recorder.start()
        recorder.add_counts(torch.full((2, 4), 2**62))  # expert 2 has two replicas: 2^63
        recorder.append()
        self.assertIn("more than int64 holds", error_of(lambda: recorder.dump_partial("Y.pt", rank=0, ranks=1)))

    def test_ids_and_masks_of_another_kind_are_refused(self):
        recorder, ids = Recorder(LAYOUT, 3), torch.tensor([[0, 1], [2, 3]])
        for bad in (ids.float(), ids.bool()):
            with self.assertRaisesRegex(ValueError, "integers"):
                recorder.record(0, bad)
        for mask in (torch.tensor([True]), torch.tensor([[True], [True]]), torch.tensor([1.0, 0.0])):
            with self.assertRaisesRegex(ValueError, "row_mask"):
                recorder.record(0, ids, mask)
        for outside in (-2, 4):
            with self.assertRaises(RuntimeError):
                recorder.record(0, torch.tensor([[outside]]))
        for dtype in (torch.int16, torch.int32, torch.uint8):
            recorder.record(0, ids.to(dtype), torch.tensor([1, 0]))
        self.assertEqual(recorder._pass_counts[0].tolist(), [3, 3, 0, 0])

    def test_counts_of_a_pass_of_another_shape_or_kind_are_refused(self):
        recorder = Recorder(LAYOUT, 3)
        for bad in (torch.ones(1, 4, dtype=torch.int32), torch.ones(2, 4), torch.ones(2, 4, dtype=torch.bool)):
            with self.assertRaisesRegex(WindowError, r"this window takes integers \[2, 4\]"):
                recorder.add_counts(bad)

    def test_float_counts_are_refused(self):
        with self.assertRaisesRegex(WindowError, "int32 or int64"):
            Recorder(LAYOUT, 3, dtype=torch.float32)

    def test_a_layout_that_names_no_expert_is_refused(self):
        with self.assertRaisesRegex(WindowError, "outside 0..2"):
            Recorder([[0, 1, 2, 3]], 3)


# ---- failures: the right error on every rank, no torso, the window intact -------------------------------------------------


def filled(records=2):
    recorder = Recorder(LAYOUT, 3, records=records)
    recorder.start("w")
    record_passes(recorder, [pass_of(7)])
    return recorder


def error_of(action):
    try:
        action()
    except WindowError as error:
        return str(error)
    return None


def sub_group(rank, folder):
    group = dist.new_group([0, 1])
    recorder = filled()
    if rank > 1:
        return None
    return error_of(lambda: recorder.dump(os.path.join(folder, "Y.pt"), group))


def permuted_group(rank, folder):
    store = dist.FileStore(os.path.join(folder, "other"), 2)
    group = dist.ProcessGroupGloo(dist.PrefixStore("permuted", store), 1 - rank, 2)
    recorder = filled()
    error = error_of(lambda: recorder.dump(os.path.join(folder, "Y.pt"), group))
    recorder.dump(os.path.join(folder, "again.pt"), dist.group.WORLD)
    return error


def dumped_twice(rank, folder):
    recorder = filled()
    recorder.dump(os.path.join(folder, "Y.pt"), dist.group.WORLD)
    return error_of(lambda: recorder.dump(os.path.join(folder, "Z.pt"), dist.group.WORLD))


def unwritable(rank, folder, target):
    recorder = filled()
    error = error_of(lambda: recorder.dump(target, dist.group.WORLD))
    report = recorder.dump(os.path.join(folder, "again.pt"), dist.group.WORLD)
    return error, report.records


def full_disk(rank, folder):
    """A limit on the size of a file stands in for the end of the disk: write() fails half-way."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))
    recorder = filled(records=200)
    error = error_of(lambda: recorder.dump(os.path.join(folder, "Y.pt"), dist.group.WORLD))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return error, recorder.dump(os.path.join(folder, "again.pt"), dist.group.WORLD).records


def killed_while_writing(rank, folder):
    recorder = Recorder([list(range(256))] * 40, 256, records=2000)
    recorder.start()
    recorder.add_counts(torch.ones(40, 256, dtype=torch.int32))
    recorder.append()
    if rank == 0:
        def kill_at_the_first_file():
            while not os.listdir(folder):
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=kill_at_the_first_file, daemon=True).start()
    target = os.path.join(folder, "Y.pt")
    error = error_of(lambda: recorder.dump(target, dist.group.WORLD, timeout=20))
    return error, recorder.dump_partial(target, rank=rank, ranks=2).records


def out_of_step(rank, folder):
    recorder = filled(records=4)
    if rank == 1:
        record_passes(recorder, [pass_of(8)])
    return error_of(lambda: recorder.dump(os.path.join(folder, "Y.pt"), dist.group.WORLD))


def killed(rank, folder, victim, phase):
    recorder = filled()
    if rank == victim:
        owner, name = (Recorder, "_fold") if phase == "fold" else (json, "dumps")  # json.dumps runs just before the write
        setattr(owner, name, lambda *arguments, **named: os.kill(os.getpid(), signal.SIGKILL))
    error = error_of(lambda: recorder.dump(os.path.join(folder, "Y.pt"), dist.group.WORLD, timeout=5))
    # The survivors find each other over a store of their own and dump what they have.
    survivors = [one for one in range(3) if one != victim]
    store = dist.FileStore(os.path.join(folder, "survivors"), 2)
    group = dist.ProcessGroupGloo(dist.PrefixStore("survivors", store), survivors.index(rank), 2)
    report = recorder.dump(os.path.join(folder, "survivors.pt"), group, members=survivors)
    return error, report.records


def killed_around_the_write(rank, folder, before):
    """Rank 0 dies right after its write, or instead of it."""
    recorder, target = filled(), os.path.join(folder, "Y.pt")
    if rank == 0:
        write = recorder_module.ops().write_window

        def die(*arguments):
            if not before:
                write(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        recorder_module.ops = lambda: types.SimpleNamespace(write_window=die, physical_to_logical=torch.ops.eplb.physical_to_logical)
    return error_of(lambda: recorder.dump(target, dist.group.WORLD, timeout=5, force=True))


def one_rehearses(rank, folder):
    recorder, target = filled(), os.path.join(folder, "Y.pt")
    call = recorder.dump if rank == 0 else recorder.rehearse
    error = error_of(lambda: call(target, dist.group.WORLD, timeout=10))
    return error, recorder.dump(target, dist.group.WORLD).records


class Failures(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()

    def files(self):
        return sorted(name for name in os.listdir(self.folder) if name not in ("other", "survivors"))

    def test_a_sub_group_is_refused(self):
        answers = values(run_on_ranks(3, sub_group, self.folder))
        for answer in answers[:2]:
            self.assertIn("members are the world ranks [0, 1], the dump needs [0, 1, 2]", answer)
        self.assertEqual(self.files(), [])

    def test_a_permuted_member_order_is_refused_and_the_window_stays(self):
        for answer in values(run_on_ranks(2, permuted_group, self.folder)):
            self.assertIn("members are the world ranks [1, 0]", answer)
        self.assertEqual(load(os.path.join(self.folder, "again.pt"))["logical_count"][0].tolist(),
                         (2 * np.array(folded(pass_of(7).numpy()))).tolist())

    def test_a_window_is_summed_once(self):
        for answer in values(run_on_ranks(2, dumped_twice, self.folder)):
            self.assertIn("already summed and written to", answer)
        self.assertEqual(self.files(), ["Y.pt", "Y.window.json"])

    def test_an_unwritable_place_is_the_same_error_on_all_ranks_and_the_window_stays(self):
        places = [os.path.join(self.folder, "absent", "Y.pt"), "/proc/Y.pt"]
        for place in places:
            answers = values(run_on_ranks(2, unwritable, self.folder, place))
            self.assertEqual(answers[0], answers[1])
            self.assertIn("rank 0, write: ", answers[0][0])
            self.assertIn(os.path.dirname(place), answers[0][0])
            self.assertEqual(answers[0][1], 1)
            self.assertEqual(self.files(), ["again.pt", "again.window.json"])
            for name in self.files():
                os.unlink(os.path.join(self.folder, name))

    def test_a_full_disk_is_the_same_error_on_all_ranks_and_the_window_stays(self):
        answers = values(run_on_ranks(2, full_disk, self.folder))
        self.assertEqual(answers[0], answers[1])
        self.assertIn("rank 0, write: ", answers[0][0])
        self.assertIn("File too large", answers[0][0])
        self.assertEqual(self.files(), ["again.pt", "again.window.json"])

    def test_rank_0_killed_while_it_writes_leaves_no_torso(self):
        results = run_on_ranks(2, killed_while_writing, self.folder, missing=[0])
        self.assertEqual(results[0], ("died", -signal.SIGKILL))
        kind, value = results[1]
        self.assertEqual(kind, "returned", value)
        self.assertIn("write: a member of the group did not answer", value[0])
        self.assertEqual(value[1], 1)  # this rank's share, as a partial file
        self.assertNotIn("Y.pt", self.files())
        self.assertIn("Y.rank1.pt", self.files())

    def test_an_existing_file_is_not_overwritten(self):
        target = os.path.join(self.folder, "Y.pt")
        with open(target, "w") as file:
            file.write("precious")
        answers = values(run_on_ranks(2, unwritable, self.folder, target))
        self.assertIn("exists", answers[1][0])
        with open(target) as file:
            self.assertEqual(file.read(), "precious")

    def test_ranks_that_recorded_different_passes_are_refused(self):
        answers = values(run_on_ranks(2, out_of_step, self.folder))
        self.assertEqual(answers[0], answers[1])
        self.assertIn("rank 1 differs in records kept (2, rank 0 has 1)", answers[0])
        self.assertEqual(self.files(), [])

    def test_a_rank_killed_in_the_middle_leaves_a_window_for_the_survivors(self):
        results = run_on_ranks(3, killed, self.folder, 1, "fold", missing=[1])
        self.assertEqual(results[1], ("died", -signal.SIGKILL))
        for kind, value in (results[0], results[2]):
            self.assertEqual(kind, "returned", value)
            self.assertIn("is gone", value[0])
        self.assertEqual(self.files(), ["survivors.pt", "survivors.window.json"])
        self.assertEqual(sidecar_of(os.path.join(self.folder, "survivors.pt"))["members"], [0, 2])
        self.assertEqual(load(os.path.join(self.folder, "survivors.pt"))["logical_count"][0].tolist(),
                         (2 * np.array(folded(pass_of(7).numpy()))).tolist())

    def test_rank_0_killed_before_it_writes_leaves_no_torso(self):
        results = run_on_ranks(3, killed, self.folder, 0, "write", missing=[0])
        self.assertEqual(results[0], ("died", -signal.SIGKILL))
        for kind, value in results[1:]:
            self.assertEqual(kind, "returned", value)
            self.assertIn("write: a member of the group did not answer", value[0])
        self.assertEqual(self.files(), ["survivors.pt", "survivors.window.json"])

    def test_a_rank_killed_after_the_write_leaves_a_file_that_the_survivors_name(self):
        for stale in (False, True):
            folder = tempfile.mkdtemp()
            if stale:  # a whole file of another window is not this one's
                stale_folder = os.path.join(folder, "other")
                os.mkdir(stale_folder)
                recorder = filled()
                recorder.add_counts(pass_of(1))
                recorder.append()
                recorder.dump_partial(os.path.join(folder, "Y.pt"), rank=0, ranks=1)
                os.rename(os.path.join(folder, "Y.rank0.pt"), os.path.join(folder, "Y.pt"))
                os.rename(os.path.join(folder, "Y.rank0.window.json"), os.path.join(folder, "Y.window.json"))
            results = run_on_ranks(2, killed_around_the_write, folder, stale, missing=[0])
            self.assertEqual(results[0], ("died", -signal.SIGKILL))
            kind, value = results[1]
            self.assertEqual(kind, "returned", value)
            self.assertEqual("Y.pt is there and whole, with the sum of this window" in value, not stale, value)

    def test_members_that_run_another_dump_are_told_so(self):
        for answer in values(run_on_ranks(2, one_rehearses, self.folder)):
            self.assertIn("the members do not run the same dump", answer[0])
            self.assertEqual(answer[1], 1)  # the group serves on, the window is there

    def test_no_group_is_refused_with_the_way_out(self):
        self.assertIn("dump_partial()", error_of(lambda: filled().dump(os.path.join(self.folder, "Y.pt"), None)))

    def test_an_empty_window_is_refused(self):
        recorder = Recorder(LAYOUT, 3)
        recorder.start()
        self.assertIn("no pass was recorded", error_of(lambda: recorder.dump_partial(os.path.join(self.folder, "Y.pt"), rank=0, ranks=1)))


def rehearsal(rank, folder):
    recorder = filled()
    target = os.path.join(folder, "Y.pt")
    report = recorder.rehearse(target, dist.group.WORLD)
    left = os.listdir(folder)
    recorder.dump(target, dist.group.WORLD)
    return report.records, left, load(target)["logical_count"][0].tolist()


def rehearsal_beside_files(rank, folder):
    filled().rehearse(os.path.join(folder, "Y.pt"), dist.group.WORLD)


def rehearsal_in_an_unwritable_place(rank, folder):
    return error_of(lambda: filled().rehearse("/proc/Y.pt", dist.group.WORLD))


class Rehearsal(unittest.TestCase):
    def test_files_that_are_there_stay_as_they_are(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("Y.pt", "Y.window.json", "Y.rehearsal.pt", "Y.rehearsal.window.json"):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(name)
            values(run_on_ranks(2, rehearsal_beside_files, folder))
            for name in os.listdir(folder):
                with open(os.path.join(folder, name)) as file:
                    self.assertEqual(file.read(), name)
            self.assertEqual(len(os.listdir(folder)), 4)

    def test_a_place_that_cannot_be_written_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            for error in values(run_on_ranks(2, rehearsal_in_an_unwritable_place, folder)):
                self.assertIn("rank 0, write: ", error)
                self.assertIn("/proc", error)

    def test_it_runs_the_whole_path_and_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            for records, left, counts in values(run_on_ranks(2, rehearsal, folder)):
                self.assertEqual((records, left), (1, []))
                self.assertEqual(counts, (2 * np.array(folded(pass_of(7).numpy()))).tolist())


class Hook(unittest.TestCase):
    def test_router_modules_are_counted_by_their_output(self):
        router = torch.nn.Identity()
        recorder = Recorder(LAYOUT, 3, records=2)
        handles = attach(recorder, {1: router}, lambda output: output["ids"])
        recorder.start()
        router({"ids": torch.tensor([[0, 3], [3, -1]])})
        self.assertEqual(recorder._pass_counts.tolist(), [[0, 0, 0, 0], [1, 0, 0, 2]])
        for handle in handles:
            handle.remove()
        router({"ids": torch.tensor([[0, 3]])})
        self.assertEqual(recorder._pass_counts[1].tolist(), [1, 0, 0, 2])


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(argv=sys.argv, verbosity=2)
