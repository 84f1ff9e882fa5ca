#!/usr/bin/python3
"""real_counts.py --programs DIR --shared DIR: eplb-fit and eplb-score on real counts, against an independent scorer."""
import argparse
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile

arguments = argparse.ArgumentParser()
arguments.add_argument("--programs", required=True, type=pathlib.Path)
arguments.add_argument("--shared", required=True, type=pathlib.Path)
options = arguments.parse_args()
if not (options.shared / "bench" / "score.py").exists():
    print("skipped: no folder with real counts")
    sys.exit(0)
sys.path.insert(0, str(options.shared / "bench"))
import numpy as np  # noqa: E402
from score import score, split_idx, validate  # noqa: E402

RANKS, SLOTS = 32, 9


def run(program, *words):
    command = [str(options.programs / program / program), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def check(what, true):
    if not true:
        sys.exit(f"not so: {what}")


def close(ours, theirs):
    return abs(ours - theirs) <= 1e-9 * theirs


def sglang_prefill(scratch):
    """Eight runs of DeepSeek-V3: certified window fits, and scores that the independent scorer confirms per layer."""
    files = sorted(glob.glob(str(options.shared / "data" / "sglang" / "*.json")))
    counts = np.array([json.load(open(file))["logical_count"] for file in files])
    for holdout, fit_name, judged_name in (("interleave", "even", "odd"), ("halves", "first", "second")):
        layout = scratch / f"{holdout}.json"
        fit = run("eplb-fit", *files, "--ranks", RANKS, "--slots-per-rank", SLOTS, "--objective", "window",
                  "--holdout", holdout, "--out", layout, "--json")
        check(f"eplb-fit ends with 0 and says nothing on stderr: {fit.stderr}", fit.returncode == 0 and not fit.stderr)
        report = json.loads(fit.stdout)
        check("58 of 61 layers are within 1e-3 of the bound", report["bounds"]["window"]["certified_layers"] == 58)
        rows = np.array(json.load(open(layout))["physical_to_logical_map"])
        check("the layout is legal", validate(rows, 256, RANKS, SLOTS)["valid"])
        scored = run("eplb-score", layout, *files, "--json")
        check(f"eplb-score ends with 0: {scored.stderr}", scored.returncode == 0 and not scored.stderr)
        results = {result["part"]: result for result in json.loads(scored.stdout)["results"]}
        check("the holdout comes first", list(results) == ["holdout", "fit"])
        check("the parts say what was fitted on", [results[part]["in_sample"] for part in results] == [False, True])
        for part, name in (("fit", fit_name), ("holdout", judged_name)):
            window, _, step = score(counts[split_idx(counts, name)], rows, RANKS, SLOTS)
            check("layers 0-2 have no counts", [x is None for x in results[part]["layers"]] == [True] * 3 + [False] * 58)
            for index, layer in enumerate(results[part]["layers"]):
                if layer is None:
                    continue
                check(f"{holdout} {part} layer {index} window", close(layer["window_max_over_mean"], window[index]))
                check(f"{holdout} {part} layer {index} step", close(layer["step_max_over_mean"], step[index]))
                check("no layer beats its bound", layer["window_max_over_mean"] >= layer["window_lower_bound"])


def srt_slurm(scratch):
    """A dump of nothing is refused and writes nothing; one record slot can be fitted but gives no evidence."""
    folder = options.shared / "data" / "srt-slurm"
    empty, = folder.glob("*fp8*.pt")
    full, = folder.glob("*fp4*.pt")
    fit = run("eplb-fit", empty, "--ranks", RANKS, "--slots-per-rank", SLOTS, "--out", scratch / "empty.json")
    check("the all-zero dump is EMPTY_COUNTS", fit.returncode == 3 and "EMPTY_COUNTS" in fit.stderr)
    check("nothing is written", not list(scratch.glob("empty*")))
    fit = run("eplb-fit", full, "--ranks", RANKS, "--slots-per-rank", SLOTS, "--out", scratch / "fp4.json", "--json")
    check(f"one record slot can be fitted: {fit.stderr}", fit.returncode == 0)
    check("and gives no evidence", json.loads(fit.stdout)["verdict"]["decision"] == "insufficient-evidence")
    scored = run("eplb-score", scratch / "fp4.json", full, "--fail-above", 3)
    check("so a gate on it fails", scored.returncode == 1 and "insufficient evidence" in scored.stdout)


with tempfile.TemporaryDirectory() as name:
    sglang_prefill(pathlib.Path(name))
    srt_slurm(pathlib.Path(name))
