"""From the recorder's file to a layout: validate, fit and score read what it writes, whole or as per-rank files."""

import json
import os
import subprocess
import tempfile
import unittest

import torch
import torch.distributed as dist

from eplb_recorder import Recorder
from ranks import run_on_ranks, values

LAYERS, EXPERTS, RECORDS, RANKS = 3, 8, 40, 2
LAYOUT = [[(slot + layer) % EXPERTS for slot in range(EXPERTS + 2)] for layer in range(LAYERS)]


def record(rank, folder):
    recorder = Recorder(LAYOUT, EXPERTS, records=RECORDS, scenario={"role": "prefill"})
    recorder.start("pipeline")
    generator = torch.Generator().manual_seed(rank)
    for _ in range(RECORDS + 3):
        for layer in range(LAYERS):
            tokens = torch.stack([torch.randperm(EXPERTS + 2, generator=generator)[:2] for _ in range(30)])
            recorder.record(layer, tokens)
        recorder.append()
    path = os.path.join(folder, "Y.pt")
    for one in range(rank, RANKS, RANKS):
        recorder.dump_partial(path, rank=one, ranks=RANKS)
    recorder.dump(path, dist.group.WORLD)


def run(program, *arguments):
    path = os.path.join(os.environ["EPLB_PROGRAMS"], program, program)
    return subprocess.run([path, *arguments], capture_output=True, text=True, timeout=60)


class Pipeline(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        values(run_on_ranks(RANKS, record, cls.folder.name))
        cls.whole = os.path.join(cls.folder.name, "Y.pt")
        cls.shares = [os.path.join(cls.folder.name, f"Y.rank{rank}.pt") for rank in range(RANKS)]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def fit(self, files, *arguments):
        out = os.path.join(self.folder.name, "layout.json")
        result = run("eplb-fit", *files, "--ranks", "2", "--redundant-total", "2", "--out", out, "--force", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        with open(out) as file:
            return file.read()

    def test_validate_knows_order_and_reduction_from_the_sidecar(self):
        result = run("eplb-validate", self.whole, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        file, = json.loads(result.stdout)["files"]
        self.assertEqual(file["reduction"], "reduced")
        findings = {finding["code"]: finding["message"] for finding in file["findings"]}
        self.assertIn("40 passes, 3 to 42, oldest first; 3 earlier ones were overwritten", findings["WINDOW_ORDER_KNOWN"])

    def test_the_way_from_the_dump_to_a_score(self):
        self.fit([self.whole], "--holdout", "last")
        result = run("eplb-score", os.path.join(self.folder.name, "layout.json"), self.whole, "--fail-above", "3")
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        result = run("eplb-load", "check", os.path.join(self.folder.name, "layout.json"), "--engine", "generic", "--ranks", "2",
                     "--layers", str(LAYERS), "--experts", str(EXPERTS), "--redundant-total", "2", "--dispatch", "omni", "--nodes", "1", "--quant", "none")
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)

    def test_a_whole_set_of_per_rank_files_gives_the_layout_of_the_sum(self):
        self.assertEqual(self.fit(self.shares, "--reduction", "per-rank"), self.fit([self.whole]))

    def test_a_set_that_is_not_whole_is_refused_by_the_missing_rank(self):
        for program, arguments in (("eplb-validate", ()), ("eplb-fit", ("--ranks", "2", "--redundant-total", "2", "--out",
                                                                     os.path.join(self.folder.name, "no.json")))):
            result = run(program, self.shares[1], "--reduction", "per-rank", *arguments)
            self.assertIn(result.returncode, (1, 3), program)
            self.assertIn("1 of 2 ranks are missing: 0", result.stdout + result.stderr, program)
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "no.json")))

    def test_the_newest_part_is_held_out_only_where_the_order_is_known(self):
        bare = os.path.join(self.folder.name, "bare.pt")
        with open(self.whole, "rb") as source, open(bare, "wb") as target:
            target.write(source.read())
        result = run("eplb-fit", bare, "--ranks", "2", "--redundant-total", "2", "--holdout", "last", "--out",
                     os.path.join(self.folder.name, "no.json"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("nothing tells the order of the record slots", result.stderr)

    def test_a_sidecar_of_another_file_is_refused(self):
        other = os.path.join(self.folder.name, "other.pt")
        torch.save({"logical_count": torch.ones(2, 3, 8, dtype=torch.int32)}, other)
        with open(os.path.join(self.folder.name, "Y.window.json")) as source:
            with open(os.path.join(self.folder.name, "other.window.json"), "w") as target:
                target.write(source.read())
        result = run("eplb-validate", other)
        self.assertEqual(result.returncode, 3)
        self.assertIn("belongs to another count file", result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
