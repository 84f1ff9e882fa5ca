#!/usr/bin/python3
"""Measures what dispatch rules and our own dispatch table do to a layout, and prints Markdown tables.

  dispatch.py balanced [--offset N]   w1-w7: the balanced table against the even split, both objectives, both splits;
                                      with an offset fresh seeds, made with 12 layers
  dispatch.py real                    the first table of docs/dispatch.md: eight prefill files, 32 ranks x 9 slots

Needs the folder with real counts beside the checkout (--shared), dispatch_bench and the programs (--build). Workloads
are kept in --workloads; writing them takes a few minutes.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from markdown_table import table

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SPLITS = ["interleave", "halves"]


def workload(name, offset):
    """Path of a workload whose generator's seed is moved by `offset`, written when it is not there."""
    sys.path.insert(0, os.path.join(options.shared, "bench"))
    import workloads

    spec = dict(workloads.SPECS[name])
    spec["seed"] += offset
    if offset:
        spec["layers"] = 12
    path = os.path.join(options.workloads, f"{name}_{offset}_{spec['layers']}.npy")
    if not os.path.exists(path):
        os.makedirs(options.workloads, exist_ok=True)
        np.save(path, workloads.make(name, spec)[0])
    return path, spec


def balanced(offset):
    sys.path.insert(0, os.path.join(options.shared, "bench"))
    import workloads

    step, window = [], []
    for name in sorted(workloads.SPECS):
        path, spec = workload(name, offset)
        bench = os.path.join(options.build, "tests", "bench", "dispatch_bench")
        result = subprocess.run([bench, str(spec["ranks"]), str(spec["S"]), "step,window", ",".join(SPLITS), "0", path],
                                check=True, stdout=subprocess.PIPE, text=True)
        for line in map(json.loads, result.stdout.splitlines()):
            cell = f"{name.split('_')[0]} {line['split']}"
            if line["objective"] == "step":
                step.append([cell, f"{line['even_held']:.4f}", f"{line['held']:.4f}",
                             f"{line['held'] - line['even_held']:+.4f}", f"{line['even_fit']:.4f}",
                             f"{line['fit']:.4f}", f"{line['certificate']:.4f}", f"{line['round_robin_fit']:.4f}",
                             str(line["worse_layers"]), f"{line['even_ms']:.1f}", f"{line['balanced_ms']:.1f}"])
            else:
                window.append([cell, f"{line['fit']:.5f}", f"{line['fit_worst']:.5f}", f"{line['certificate']:.5f}",
                               f"{line['round_robin_fit']:.4f}", str(line["worse_layers"]),
                               f"{line['even_held']:.4f}", f"{line['held']:.4f}", f"{line['balanced_ms']:.1f}"])
    table(["objective step", "even split, held out", "balanced, held out", "difference", "even split, fitted",
           "balanced, fitted", "certificate", "in turn, fitted", "layers worse than in turn", "ms a layer, even",
           "balanced"], step)
    table(["objective window", "balanced, fitted", "worst layer", "certificate", "in turn, fitted",
           "layers worse than in turn", "even split, held out", "balanced, held out", "ms a layer"], window)


def program(name, *arguments):
    path = os.path.join(options.build, "apps", name, name)
    result = subprocess.run([path, *map(str, arguments), "--json"], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout)


def held_out(layout, files, *dispatch):
    """Mean holdout step balancedness of the first dispatch named; the even split without one."""
    score = program("eplb-score", layout, *files, "--holdout", "interleave", *dispatch)
    wanted = dispatch[1] if dispatch else "even"
    return next(result["summary"]["step_max_over_mean"]["mean"] for result in score["results"]
                if result["dispatch"] == wanted and result["part"] == "holdout")


def real():
    """Held-out step value of layouts under the table of each generation of SGLang, and of layouts fitted for it."""
    files = sorted(glob.glob(os.path.join(options.shared, "data", "sglang", "*.json")))
    rules = [["--dispatch", "sglang-a"]] + [["--dispatch", f"sglang-{rule}", "--nodes", str(nodes)]
                                            for rule in ("b-fill-all", "c", "d-subset") for nodes in (1, 2, 4)]
    with tempfile.TemporaryDirectory() as folder:

        def fitted(name, *arguments):
            out = os.path.join(folder, name + ".json")
            program("eplb-fit", *files, "--ranks", 32, "--out", out, *arguments)
            return out

        redundant = ["--redundant-total", 32]
        given = {"redundancy 0": fitted("none", "--redundant-total", 0),
                 "DeepSeek EPLB": fitted("deepseek", *redundant, "--policy", "deepseek"),
                 "fitted for the even split": fitted("even", *redundant)}
        rows = [["even split"] + [f"{held_out(layout, files):.4f}" for layout in given.values()] + [""]]
        for rule in rules:
            own = fitted("-".join(rule), *redundant, *rule)
            name = rule[1] + (f", {rule[3]} node{'s' if rule[3] != '1' else ''}" if len(rule) > 2 else "")
            rows.append([name] + [f"{held_out(layout, files, *rule):.4f}" for layout in [*given.values(), own]])
        balanced = fitted("balanced", *redundant, "--dispatch", "balanced")
        rows.append(["our own table (`balanced`)"] + [""] * len(given) +
                    [f"{held_out(balanced, files, '--dispatch', 'balanced'):.4f}"])
    table(["dispatch"] + list(given) + ["fitted for the dispatch"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["balanced", "real"])
    parser.add_argument("--offset", type=int, default=0, help="added to the generator's seeds")
    parser.add_argument("--shared", default=os.path.join(ROOT, "..", "shared"))
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--workloads", default=os.environ.get("WORKLOADS_DIR", "workloads"))
    options = parser.parse_args()
    if options.what == "balanced":
        balanced(options.offset)
    else:
        real()
