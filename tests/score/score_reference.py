"""Scores random layouts of real counts with an independent scorer and leaves both for the C++ test.

score_reference.py SHARED_DIR OUT_DIR: for each data set NAME writes OUT_DIR/NAME.counts (int64 [T, L, E]), NAME.layout
(int32 [L, R*S], legal or not) and NAME.scores (float64 [3, L]: window, step, 1 where the layer has counts), and prints
"NAME T L E R S" a line.
"""
import json
import os
import sys

import numpy as np

shared, out = sys.argv[1:3]
sys.path.insert(0, os.path.join(shared, "bench"))
from score import score  # noqa: E402

SETS = {
    "dsv4flash_trace_k0_coffee": (16, 17),
    "esft_dsv2lite_windows256": (8, 9),
    "olmoe_examples_null1024": (8, 9),
    "gptoss20b_datasets": (8, 5),
}


def sglang():
    folder = os.path.join(shared, "data", "sglang")
    files = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    return np.array([json.load(open(os.path.join(folder, name)))["logical_count"] for name in files]).astype(np.int64)


def emit(name, counts, ranks, slots_per_rank, rng):
    slots, layers, experts = counts.shape
    surplus = ranks * slots_per_rank - experts
    layout = np.array([rng.permutation(np.concatenate([np.arange(experts), rng.integers(0, experts, surplus)]))
                       for _ in range(layers)])
    window, _, step = score(counts, layout, ranks, slots_per_rank)
    counted = (counts.sum((0, 2)) > 0).astype(float)
    counts.astype("<i8").tofile(os.path.join(out, name + ".counts"))
    layout.astype("<i4").tofile(os.path.join(out, name + ".layout"))
    np.array([window, step, counted]).astype("<f8").tofile(os.path.join(out, name + ".scores"))
    print(name, slots, layers, experts, ranks, slots_per_rank)


rng = np.random.default_rng(1)
for name, (ranks, slots_per_rank) in SETS.items():
    emit(name, np.load(os.path.join(shared, "data", "counts", name + ".npy")), ranks, slots_per_rank, rng)
emit("sglang", sglang(), 32, 9, rng)
