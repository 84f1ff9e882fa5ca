"""What eplb-sample writes is read by PyTorch (weights_only, as SGLang does), NumPy and h5py, with the same counts."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import h5py
import jsonschema
import numpy
import torch

PROGRAM = pathlib.Path(os.environ["EPLB_PROGRAMS"], "eplb-sample/eplb-sample")
SCHEMA = pathlib.Path(os.environ["EPLB_SOURCE_DIR"], "data/schemas/sample.schema.json")
FLAGS = ("--record-slots 6 --filled-slots 4 --layers 5 --dense-layers 1 --experts 32 --top-k 4 --ranks 8 --slots-per-rank 5 "
         "--trivial-balance 1.5 --tokens 400").split()


class PythonReaders(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def make(self, name):
        path = pathlib.Path(self.folder.name, name)
        done = subprocess.run([PROGRAM, *FLAGS, "--out", path, "--json"], capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        report = json.loads(done.stdout)
        jsonschema.validate(report, json.loads(SCHEMA.read_text()))
        return path, report

    def test_the_three_formats_hold_the_same_counts(self):
        path, report = self.make("counts.pt")
        saved = torch.load(path, weights_only=True)
        self.assertEqual(sorted(saved), ["average_utilization_rate_over_window", "logical_count", "rank"])
        self.assertEqual(saved["rank"], 0)
        self.assertEqual(saved["logical_count"].dtype, torch.int32)
        counts = saved["logical_count"].numpy()
        self.assertEqual(list(counts.shape), report["shape"])
        self.assertEqual(counts.sum(dtype=numpy.int64), report["total"])
        self.assertEqual(int((counts.sum((1, 2)) > 0).sum()), report["record_slots"]["nonzero"])

        numpy.testing.assert_array_equal(numpy.load(self.make("counts.npy")[0]), counts)
        with h5py.File(self.make("counts.h5")[0]) as file:
            self.assertTrue(file["logical_count"].fletcher32)
            numpy.testing.assert_array_equal(file["logical_count"][()], counts)


if __name__ == "__main__":
    unittest.main()
