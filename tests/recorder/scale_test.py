"""Sixteen processes and a full-size window: exact, small in memory, and close to a bare all-reduce.

Run by CTest as a test; `--figures` prints the phases, for docs/benchmarks.md.
"""

import json
import os
import sys
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist

from eplb_recorder import Recorder
from ranks import run_on_ranks, values

RANKS, RECORDS, LAYERS, EXPERTS, SLOTS = 16, 512, 43, 256, 272


def layout():
    generator = np.random.default_rng(5)
    return np.stack([np.concatenate([generator.permutation(EXPERTS), generator.choice(EXPERTS, SLOTS - EXPERTS, replace=False)])
                     for _ in range(LAYERS)])


def counts_of(rank):
    return np.random.default_rng(100 + rank).integers(0, 50, (RECORDS, LAYERS, SLOTS), dtype=np.int32)



def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def dump(rank, folder):
    torch.set_num_threads(1)
    recorder = Recorder(layout(), EXPERTS, records=RECORDS)
    recorder.start("scale")
    for counts in counts_of(rank):
        recorder.add_counts(torch.from_numpy(counts))
        recorder.append()
    bare = torch.ones((RECORDS, LAYERS, EXPERTS), dtype=torch.int32)
    dist.all_reduce(bare)  # connections are made
    started = time.perf_counter()
    dist.all_reduce(bare)
    bare_seconds = time.perf_counter() - started
    del bare
    ring_bytes = RECORDS * LAYERS * SLOTS * 4
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts anew
    before = resident_bytes()
    report = recorder.dump(os.path.join(folder, "scale.pt"), dist.group.WORLD)
    with open("/proc/self/status") as file:
        peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    return {"growth": (peak - before) / ring_bytes, "bare": bare_seconds, **report.seconds}


def main():
    with tempfile.TemporaryDirectory() as folder:
        figures = values(run_on_ranks(RANKS, dump, folder, timeout=240))
        found = torch.load(os.path.join(folder, "scale.pt"))["logical_count"].numpy()
    physical = sum(counts_of(rank).astype(np.int64) for rank in range(RANKS))
    expected = np.zeros((RECORDS, LAYERS, EXPERTS), dtype=np.int64)
    for layer, row in enumerate(layout()):
        for slot, expert in enumerate(row):
            expected[:, layer, expert] += physical[:, layer, slot]
    assert found.shape == expected.shape and (found == expected).all(), "the file differs from the NumPy oracle"
    worst = {name: max(one[name] for one in figures) for name in figures[0]}
    print("16 processes, ring [512, 43, 272] int32:", json.dumps({name: round(value, 3) for name, value in worst.items()}))
    assert worst["growth"] < 4, f"memory grew by {worst['growth']:.2f} times the ring"
    if "--figures" in sys.argv:
        print(f"reduce / bare all-reduce: {worst['reduce'] / worst['bare']:.2f}")


if __name__ == "__main__":
    main()
