"""The recorder behind SGLang's endpoints, in every period of the engine's interface: nothing it does ends a scheduler."""

import logging
import os
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist

from eplb_recorder import Recorder, WindowError, sglang
from ranks import run_on_ranks, values
from sglang_stand_in import PERIODS, server

LAYOUT = [[2, 0, 1, 2], [0, 1, 0, 2]]  # two layers, three experts on four slots


def counts(value):
    return torch.full((2, 4), value, dtype=torch.int32)


def logical(value, ranks=1):
    """What one pass of counts(value) is by logical expert: the expert with two replicas has twice as much."""
    return [[ranks * value, ranks * value, 2 * ranks * value], [2 * ranks * value, ranks * value, ranks * value]]


def load(path):
    return torch.load(path, map_location="cpu")["logical_count"].tolist()


class Log(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []
        logging.getLogger("eplb_recorder").addHandler(self)
        logging.getLogger("eplb_recorder").setLevel(logging.INFO)

    def emit(self, record):
        self.lines.append(f"{record.levelname}: {record.getMessage()}")


def collects(rank, folder, period):
    engine, arguments = server(period, LAYOUT)
    recorder, log = Recorder(LAYOUT, 3, records=3), Log()
    accumulator = sglang.install(engine, arguments, recorder, dist.group.WORLD, folder)
    engine.pass_of(counts(5))  # before the start: not recorded
    engine.start_record()
    for value in (7, 9):
        engine.pass_of(counts(value))
    first = engine.dump_record()
    engine.dump_record()
    second = accumulator.failure
    engine.pass_of(counts(11))  # a dump does not end a recording
    third = engine.dump_record()
    engine.stop_record()
    engine.pass_of(counts(13))
    engine.start_record()
    engine.dump_record()
    return load(first.path)[:2], second, load(third.path)[0], accumulator.failure, log.lines


def disk_is_full_once(rank, folder, period):
    engine, arguments = server(period, LAYOUT)
    recorder = Recorder(LAYOUT, 3, records=3)
    accumulator = sglang.install(engine, arguments, recorder, dist.group.WORLD, os.path.join(folder, "absent"))
    engine.start_record()
    engine.pass_of(counts(7))
    engine.stop_record()
    answer = engine.dump_record()
    failure, accumulator.folder = accumulator.failure, folder
    again = engine.dump_record()
    engine.start_record()
    engine.pass_of(counts(1))
    last = engine.dump_record()
    return answer, failure, load(again.path)[0], load(last.path)[0]


class Periods(unittest.TestCase):
    def test_a_window_is_recorded_and_dumped_once(self):
        for period in PERIODS:
            with self.subTest(period), tempfile.TemporaryDirectory() as folder:
                for first, second, third, empty, lines in values(run_on_ranks(2, collects, folder, period)):
                    self.assertEqual(first, [logical(7, 2), logical(9, 2)])
                    self.assertRegex(second, "already summed and written to .*no pass was recorded since")
                    self.assertEqual(third, logical(11, 2))
                    self.assertIn("no pass was recorded: start()", empty)
                    self.assertEqual(sum("ERROR: eplb: the window was not dumped" in line for line in lines), 2, lines)
                    self.assertEqual(sum("INFO: eplb: 2 records written to" in line for line in lines), 1, lines)

    def test_a_failed_dump_is_answered_and_the_window_dumped_again(self):
        for period in PERIODS:
            with self.subTest(period), tempfile.TemporaryDirectory() as folder:
                for answer, failure, again, last in values(run_on_ranks(2, disk_is_full_once, folder, period)):
                    self.assertIsNone(answer)
                    self.assertIn("rank 0, write: ", failure)
                    self.assertEqual((again, last), (logical(7, 2), logical(1, 2)))


class Passes(unittest.TestCase):
    def installed(self, **arguments):
        engine, server_args = server("from 2026-08-16", LAYOUT)
        recorder = Recorder(LAYOUT, 3, **arguments)
        return engine, recorder, sglang.install(engine, server_args, recorder, None)

    def test_a_pass_that_cannot_be_recorded_ends_the_recording_and_not_the_scheduler(self):
        engine, recorder, accumulator = self.installed(records=3)
        log = Log()
        engine.start_record()
        engine.pass_of(counts(1))
        for number in (4, 5):
            engine.pass_of(torch.ones(2, 3, dtype=torch.int32), forward_pass_id=number)
        self.assertIn("pass 5 was not recorded, and recording has stopped", accumulator.failure)
        self.assertEqual([line for line in log.lines if "ERROR" in line], [log.lines[-1]])
        self.assertEqual(int(recorder._state[0]), 1)

    def test_a_byte_budget_that_is_used_up_does_not_end_the_scheduler(self):
        engine, recorder, accumulator = self.installed(records=None, byte_budget=Recorder._CHUNK_RECORDS * 2 * 4 * 4)
        engine.start_record()
        for _ in range(Recorder._CHUNK_RECORDS + 1):
            engine.pass_of(counts(1))
        self.assertIn("byte budget", accumulator.failure)

    def test_counts_of_the_mode_stat_approx_are_int64_on_the_host(self):
        engine, recorder, _ = self.installed(records=2)
        engine.start_record()
        engine.pass_of(counts(3).to(torch.int64))
        self.assertEqual(recorder._chunks[0][0][0].tolist(), counts(3).tolist())


class Refusals(unittest.TestCase):
    def refused(self, pattern, engine, arguments, recorder=None):
        with self.assertRaisesRegex(WindowError, pattern):
            sglang.install(engine, arguments, recorder or Recorder(LAYOUT, 3), None)

    def test_what_would_bring_a_device_collective_back_is_refused_by_its_switch(self):
        for period, name, value, switch in (
                ("from 2025-12-18", "expert_distribution_recorder_mode", "per_pass", "--expert-distribution-recorder-mode"),
                ("from 2025-12-18", "enable_expert_distribution_metrics", True, "--enable-expert-distribution-metrics is True"),
                ("from 2026-08-16", "expert_balancedness_report_mode", "prometheus", "--expert-balancedness-report-mode is prom"),
                ("from 2026-08-16", "enable_eplb", True, "--enable-eplb")):
            engine, arguments = server(period, LAYOUT, **{name: value})
            self.refused(switch, engine, arguments)

    def test_a_release_that_is_not_known_is_refused_by_name(self):
        engine, arguments = server("from 2026-08-16", LAYOUT)
        del arguments.expert_balancedness_report_mode
        self.refused("none of enable_expert_distribution_metrics, expert_balancedness_report_mode", engine, arguments)

        class _StatAccumulator(type(engine._accumulator)):
            def append(self, forward_pass_id, gatherer_key, single_pass_data, outputs, more):
                pass

        engine, arguments = server("from 2026-08-16", LAYOUT)
        engine._accumulator = _StatAccumulator()
        self.refused(r"_StatAccumulator\.append\(forward_pass_id, gatherer_key, single_pass_data, outputs, more\): this release",
                     engine, arguments)
        engine._accumulator = object()
        self.refused(r"object has no append\(\)", engine, arguments)

    def test_a_server_that_records_or_cannot(self):
        engine, arguments = server("from 2026-08-16", LAYOUT)
        engine.start_record()
        self.refused("already recording", engine, arguments)
        engine.stop_record()
        del engine._accumulator
        self.refused("no active recorder", engine, arguments)

    def test_a_recorder_of_another_geometry(self):
        engine, arguments = server("from 2026-08-16", LAYOUT)
        self.refused("the server has 2 layers x 4 slots, the recorder 2 x 3", engine, arguments, Recorder([[0, 1, 2]] * 2, 3))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(argv=sys.argv, verbosity=2)
