#!/usr/bin/python3
"""Measures the step fit on record slots it did not see, and prints Markdown tables.

  step.py must-hold             w1-w7, interleave and halves, every effort, scored by the independent score.py
  step.py fresh [--offset N]    the same on fresh seeds (5000 and 6000), generated with 12 layers (--cut: cut to 12)
  step.py random [--offset N]   every policy, random halves, with the gap to the bound: the table of the documentation
  step.py real                  real counts, if they are there
  step.py seeds                 one cell of them over 16 annealing seeds: how much of its value is luck
  step.py guard                 144 cells from signal to noise: how often the guard lets through what loses

Needs the folder with real counts and the independent scorer beside the checkout (--shared) and step_bench (--bench).
Workloads are kept in --workloads, guard cells too; writing them takes a few minutes.
"""
import argparse
import glob
import json
import os
import subprocess
import sys

import numpy as np

import guard_cells
from markdown_table import table

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EFFORTS = ["step-fast", "step-default", "step-thorough"]
# The best existing fitter of each cell by the offset of the seeds, mean over the layers, interleave and halves. Measured
# once, on the same counts: DeepSeek EPLB, FlashLB and SGLang's vectorised DeepSeek; for seed + 0 also TensorRT-LLM, vLLM
# and a plain local search.
BEST_PEER = {
    0: {
        "w1": (1.1716, 1.1689), "w2": (1.0670, 1.0733), "w3": (1.4930, 1.5854), "w4": (1.2458, 1.2861),
        "w5": (1.2147, 1.2511), "w6": (1.2519, 1.3330), "w7": (1.3690, 1.3358),
    },
    5000: {
        "w1": (1.1513, 1.1394), "w2": (1.0799, 1.0705), "w3": (1.4604, 1.5641), "w4": (1.2778, 1.3703),
        "w5": (1.1568, 1.1719), "w6": (1.2239, 1.2742), "w7": (1.3083, 1.4863),
    },
}
WORKLOADS = list(BEST_PEER[0])


def bench(ranks, slots, fits, splits, files, layers=0, maps=False):
    command = [options.bench, str(ranks), str(slots), ",".join(fits), ",".join(splits), str(layers)]
    command += ["maps"] if maps else []
    result = subprocess.run(command + files, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def workload(name, offset, layers=0):
    """Path of a workload whose generator's seed is moved by `offset`, written when it is not there. With `layers` its
    specification asks for that many layers before it is generated, which gives other counts than cutting the whole one:
    the generator draws all layers at once and scales them together."""
    sys.path.insert(0, os.path.join(options.shared, "bench"))
    import workloads

    full = next(key for key in workloads.SPECS if key.startswith(name))
    path = os.path.join(options.workloads, f"{full}_{offset}{f'_{layers}' if layers else ''}.npy")
    if not os.path.exists(path):
        os.makedirs(options.workloads, exist_ok=True)
        spec = dict(workloads.SPECS[full])
        spec["seed"] += offset
        spec["layers"] = layers or spec["layers"]
        np.save(path, workloads.make(full, spec)[0])
    return path, workloads.SPECS[full]["ranks"], workloads.SPECS[full]["S"]


def judged(path, ranks, slots, line):
    """Mean holdout step balancedness by score.py; checks that the layout is legal."""
    sys.path.insert(0, os.path.join(options.shared, "bench"))
    import score

    counts = np.load(path)
    layout = np.array(line["layout"]["physical_to_logical_map"])
    assert score.validate(layout, counts.shape[2], ranks, slots)["valid"]
    part = {"interleave": "odd", "halves": "second"}[line["split"]]
    counts = counts[score.split_idx(counts, part)][:, : len(layout)]
    return float(score.score(counts, layout, ranks, slots)[2].mean())


def must_hold(offset, layers, efforts=EFFORTS):
    splits = ["interleave", "halves"]
    peers = BEST_PEER.get(offset)
    rows, excess, beaten, cells = [], {e: [] for e in efforts}, {e: 0 for e in efforts}, 0
    for name in WORKLOADS:
        path, ranks, slots = workload(name, offset, 0 if options.cut else layers)
        lines = bench(ranks, slots, efforts, splits, [path], layers, maps=True)
        for position, split in enumerate(splits):
            cells += 1
            row = [f"{name} {split}", f"{peers[name][position]:.4f}" if peers else "–"]
            for line in (l for l in lines if l["split"] == split):
                value = judged(path, ranks, slots, line)
                assert abs(value - line["step"]) < 1e-5, (value, line["step"])
                excess[line["fit"]].append(value - 1)
                beaten[line["fit"]] += bool(peers) and value < peers[name][position]
                row.append(f"{value:.4f} in {line['cpu_ms']:.1f}")
            rows.append(row)
    mean_peer = f"{np.mean([value for pair in peers.values() for value in pair]) - 1:.4f}" if peers else "–"
    rows.append(["mean excess", mean_peer] + [f"**{np.mean(excess[e]):.4f}**" for e in efforts])
    table(["workload, split", "best peer"] + efforts, rows)
    if peers:
        print("better than the best peer in", ", ".join(f"{beaten[e]} of {cells} ({e})" for e in efforts), "\n")


def random_halves(offset, seeds):
    fits = ["trivial", "random", "deepseek", "greedy-swap", "window-alone", "window"] + EFFORTS
    splits = [f"random:{seed}" for seed in seeds]
    of = {}  # workload, fit: a line a split
    for name in WORKLOADS:
        path, ranks, slots = workload(name, offset, 12)
        lines = bench(ranks, slots, fits, splits, [path])
        of.update({(name, fit): [l for l in lines if l["fit"] == fit] for fit in fits})

    def mean(name, fit, key):
        return np.mean([l[key] for l in of[name, fit]])

    rows = []
    for fit in fits:
        rows.append([fit] + [f"{mean(n, fit, 'step'):.4f} / {mean(n, fit, 'window'):.4f}" for n in WORKLOADS] +
                    [f"{np.mean([mean(n, fit, key) for n in WORKLOADS]) - 1:.4f}" for key in ("step", "window")] +
                    [f"{np.median([mean(n, fit, 'cpu_ms') for n in WORKLOADS]):.2f}"])
    for title, value in [
        ("step-default, fitted slots", lambda n: f"{mean(n, 'step-default', 'fit_step'):.4f}"),
        ("the bound there", lambda n: f"{mean(n, 'step-default', 'bound'):.4f}"),
        ("gap to the bound", lambda n: f"{100 * np.mean([l['fit_step'] / l['bound'] - 1 for l in of[n, 'step-default']]):.1f} %"),
        ("expected holdout, step-default", lambda n: f"{mean(n, 'step-default', 'expected'):.4f}"),
        ("gain on window-alone", lambda n: f"{mean(n, 'window-alone', 'step') - mean(n, 'step-default', 'step'):.4f}"),
        ("its deviation over the splits", lambda n: f"{np.std([w['step'] - d['step'] for w, d in zip(of[n, 'window-alone'], of[n, 'step-default'])], ddof=1):.4f}"),
    ]:
        rows.append([title] + [value(n) for n in WORKLOADS] + [""] * 3)
    table(["step / window on holdout"] + WORKLOADS + ["mean excess, step", "window", "ms a layer"], rows)


def real():
    data = os.path.join(options.shared, "data")
    files = sorted(glob.glob(os.path.join(data, "sglang", "*.json")))
    sets = [
        ("8 SGLang prefill files", 32, 9, files, ["interleave", "halves", "leave-one-out"]),
        ("dsv4flash_trace_k0_coffee", 16, 17, None, ["interleave", "halves"]),
        ("esft_dsv2lite_windows256", 8, 9, None, ["interleave", "halves"]),
        ("olmoe_examples_null1024", 8, 9, None, ["interleave", "halves"]),
        ("gptoss20b_datasets", 8, 5, None, ["interleave", "halves"]),
    ]
    fits = ["deepseek", "window-alone", "window"] + EFFORTS
    rows = []
    for name, ranks, slots, paths, splits in sets:
        paths = paths or [os.path.join(data, "counts", name + ".npy")]
        lines = bench(ranks, slots, fits, splits, paths)
        for split in splits:
            of = {l["fit"]: l for l in lines if l["split"] == split}
            default = of["step-default"]
            rows.append([f"{name}, {ranks} × {slots}, {split}"] + [f"{of[f]['step']:.4f}" for f in fits] +
                        [f"{default['expected']:.4f}", f"{default['r2']:.2f}", f"{default['cpu_ms']:.1f}"])
    table(["counts"] + fits + ["expected (default)", "R²", "ms a layer"], rows)


def annealing_seeds(name, ranks, slots, seeds):
    path = os.path.join(options.shared, "data", "counts", name + ".npy")
    rows = []
    for split in ["interleave", "halves"]:
        for effort in EFFORTS:
            lines = bench(ranks, slots, [f"{effort}@{seed}" for seed in seeds], [split], [path])
            held = np.array([l["step"] for l in lines])
            rows.append([f"{split}, {effort}", f"{np.mean([l['fit_step'] for l in lines]):.4f}", f"{held.mean():.4f}",
                         f"{held.std(ddof=1):.4f}", f"{held.min():.4f}", f"{held.max():.4f}"])
    table([f"{name}, {len(seeds)} seeds", "fitted, mean", "holdout, mean", "standard deviation", "least", "largest"], rows)


def guard(seeds, effort="step-default"):
    cells = {False: [], True: []}
    for experts, ranks, slots in guard_cells.SHAPES:
        for signal in guard_cells.SIGNALS:
            for seed in seeds:
                path = os.path.join(options.workloads, f"guard_{experts}_{signal}_{seed}.npy")
                if not os.path.exists(path):
                    os.makedirs(options.workloads, exist_ok=True)
                    np.save(path, guard_cells.cell(experts, signal, seed))
                splits = [f"first:{fitted}:64" for fitted in guard_cells.FITTED]
                lines = bench(ranks, slots, ["window-alone", effort, "step-unguarded"], splits, [path])
                for split, fitted in zip(splits, guard_cells.FITTED):
                    of = {l["fit"]: l for l in lines if l["split"] == split}
                    cells[slots <= 2].append((signal, fitted, f"{ranks} × {slots}", seed, of[effort]["step"] - of["window-alone"]["step"],
                                              of["step-unguarded"]["step"] - of["window-alone"]["step"], of[effort]["window_fit"]))
    rows = []
    for narrow, name in ((False, "R ≤ 32"), (True, "S = 2")):
        for signal in guard_cells.SIGNALS:
            of = [c for c in cells[narrow] if c[0] == signal]
            guarded, free = np.array([c[4] for c in of]), np.array([c[5] for c in of])
            rows.append([f"{name}, {signal}", str(len(of)), str(sum(c[6] for c in of)), f"{guarded.mean():+.4f}",
                         f"{(guarded > .002).sum()}", f"{(guarded > .006).sum()}", f"{guarded.max():+.4f}",
                         f"{free.mean():+.4f}", f"{(free > .002).sum()}", f"{free.max():+.4f}"])
    table(["cells", "number", "window fit", "mean", "> .002 worse", "> .006 worse", "worst", "unguarded mean",
           "> .002 worse", "worst"], rows)
    for cell in sorted(cells[False] + cells[True], key=lambda c: -c[4])[:6]:
        if cell[4] > 0.002:
            print(f"worse by {cell[4]:.4f}: {cell[2]}, {cell[0]}, {cell[1]} record slots, seed {cell[3]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["must-hold", "fresh", "random", "real", "seeds", "guard"])
    parser.add_argument("--offset", type=int, help="added to the generator's seeds (fresh: 5000, random: 5000)")
    parser.add_argument("--cut", action="store_true", help="fresh: the first 12 layers of whole workloads instead")
    parser.add_argument("--shared", default=os.path.join(ROOT, "..", "shared"))
    parser.add_argument("--bench", default=os.path.join(ROOT, "build", "release", "tests", "bench", "step_bench"))
    parser.add_argument("--workloads", default=os.environ.get("WORKLOADS_DIR", "workloads"))
    parser.add_argument("--guard-seeds", type=int, nargs="+", default=[101, 102, 103])
    options = parser.parse_args()
    if options.what == "must-hold":
        must_hold(0, 0)
    elif options.what == "fresh":
        must_hold(5000 if options.offset is None else options.offset, 12)
    elif options.what == "random":
        random_halves(5000 if options.offset is None else options.offset, range(1, 6))
    elif options.what == "real":
        real()
    elif options.what == "seeds":
        annealing_seeds("esft_dsv2lite_windows256", 8, 9, range(1, 17))
    else:
        guard(options.guard_seeds)
