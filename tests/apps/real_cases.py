#!/usr/bin/python3
"""real_cases.py --programs DIR --shared DIR: files as engines and people make them, and the answer that each must get."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

arguments = argparse.ArgumentParser()
arguments.add_argument("--programs", required=True, type=pathlib.Path)
arguments.add_argument("--shared", required=True, type=pathlib.Path)
options = arguments.parse_args()
CASES = options.shared / "data" / "cases"
if not CASES.exists():
    print("skipped: no folder with real counts")
    sys.exit(0)


def run(program, *words):
    command = [str(options.programs / program / program), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def check(what, true):
    if not true:
        sys.exit(f"not so: {what}")


def codes(done, least=("error", "warning")):
    """Codes of the findings in the output of eplb-validate --json."""
    report = json.loads(done.stdout)
    findings = report["findings"] + [finding for file in report["files"] for finding in file["findings"]]
    return {finding["code"] for finding in findings if finding["severity"] in least}


def four(name, ending):
    return [CASES / f"{name}{rank}.{ending}" for rank in range(4)]


RANK_SETS = {
    "lln": [*four("lln_", "npy"), "--reduction", "per-rank"],
    "blk": [*four("per-rank/blk", "npy"), "--reduction", "per-rank"],
    "tok": [*four("per-rank/tok", "npy"), "--reduction", "per-rank"],
    "pp_ok": four("pp_ok_", "pt"),
    "pp": four("per-rank/pp", "pt"),
    "pt": four("per-rank/pt", "pt"),
}


def rank_sets(scratch):
    """Four ranks of one window are summed, whatever each of them counts, and fitted for another number of ranks."""
    for name, words in RANK_SETS.items():
        done = run("eplb-validate", *words, "--json")
        check(f"{name} is one healthy window: {codes(done)}", done.returncode == 0 and not codes(done))
        for recorded, fine in ((4, True), (5, False)):
            done = run("eplb-validate", *words, "--recorded-ranks", recorded, "--json")
            check(f"{name} of {recorded} ranks", (codes(done) == set()) is fine and
                  (fine or codes(done) == {"RANKS_INCOMPLETE"}))
        for ranks in (2, 4, 8):
            layout = scratch / f"{name}-{ranks}.json"
            fit = run("eplb-fit", *words, "--ranks", ranks, "--redundant-total", 0, "--effort", "fast", "--out", layout)
            check(f"{name} is fitted for {ranks} ranks: {fit.stderr}", fit.returncode == 0)
            scored = run("eplb-score", layout, *words, "--json")
            check(f"{name} is scored: {scored.stderr}", scored.returncode == 0)
            check(f"{name}: what was fitted on is known",
                  [result["in_sample"] for result in json.loads(scored.stdout)["results"]] == [False, True])


def incomplete_rank_sets(scratch):
    """A set with a gap, and a lone rank, are refused by every program, with the ranks that there are."""
    files = four("pp_ok_", "pt")
    for chosen, tags in (([0, 1, 3], "ranks 0, 1, 3"), ([1, 2, 3], "ranks 1, 2, 3"), ([2], "rank 2")):
        words = [files[rank] for rank in chosen]
        done = run("eplb-validate", *words, "--json")
        check(f"{tags}: validate says no", done.returncode == 1 and "RANKS_INCOMPLETE" in codes(done))
        fit = run("eplb-fit", *words, "--ranks", 4, "--redundant-total", 0, "--out", scratch / "gap.json")
        check(f"fit refuses and names the tags: {fit.stderr}",
              fit.returncode == 3 and tags in fit.stderr and "--recorded-ranks" in fit.stderr)


def written_and_read(scratch):
    """The verdict lists the layers that get worse by growth, and every program reads what was written."""
    layout = scratch / "tiny.json"
    fit = run("eplb-fit", CASES / "tiny.npy", "--ranks", 2, "--slots-per-rank", 2, "--policy", "random", "--seed", 1,
              "--out", layout)
    check(f"tiny.npy is fitted: {fit.stderr}", fit.returncode == 0)
    check("layer 1 gets worse most", json.loads((scratch / "tiny.manifest.json").read_text())["verdict"]["worse_layers"] == [1, 0])
    for program, *words in (("eplb-score", layout, CASES / "tiny.npy"), ("eplb-validate", "--layout", layout),
                            ("eplb-load", "table", layout, "--dispatch", "sglang-c", "--nodes", 1, "--out", scratch / "t.npy"),
                            ("eplb-load", "check", layout, "--ranks", 2, "--layers", 2, "--experts", 4, "--redundant-total", 0,
                             "--dispatch", "even", "--quant", "w8a8", "--role", "decode"),
                            ("eplb-fit", CASES / "tiny.npy", "--ranks", 2, "--slots-per-rank", 2, "--current", layout,
                             "--out", scratch / "next.json")):
        done = run(program, *words)
        check(f"{program} reads it: {done.stderr or done.stdout}", done.returncode == 0)


def accepted(scratch):
    """Approximate counts are refused with their cause, and fitted where that is accepted; the manifest says so."""
    file, layout = CASES / "stat_approx.pt", scratch / "approx.json"
    words = [file, "--ranks", 8, "--redundant-total", 8, "--effort", "fast", "--out", layout]
    fit = run("eplb-fit", *words)
    check(f"refused: {fit.stderr}", fit.returncode == 3 and "stat_approx" in fit.stderr
          and "--accept LAYER_TOTAL_MISMATCH" in fit.stderr)
    fit = run("eplb-fit", *words, "--accept", "LAYER_TOTAL_MISMATCH")
    check(f"accepted: {fit.stderr}", fit.returncode == 0 and "accepted (--accept)" in fit.stdout)
    counts = json.loads((scratch / "approx.manifest.json").read_text())["counts"]
    check("the manifest says so", counts["accepted"] == ["LAYER_TOTAL_MISMATCH"])
    scored = run("eplb-score", layout, file)
    check("eplb-score asks for it as well", scored.returncode == 3 and "LAYER_TOTAL_MISMATCH" in scored.stderr)
    scored = run("eplb-score", layout, file, "--accept", "LAYER_TOTAL_MISMATCH")
    check(f"and scores then: {scored.stderr}", scored.returncode == 0)


def axes(scratch):
    """[experts, layers] is recognised, and read by every program when it is said."""
    file, layout, flag = CASES / "ax_E_L.npy", scratch / "axes.json", ("--axes", "experts,layers")
    done = run("eplb-validate", file, *flag, "--json")
    check(f"nothing is left to say: {done.stdout}", done.returncode == 0 and not codes(done))
    check("the shape is that of the reading", json.loads(done.stdout)["files"][0]["shape"] == [1, 46, 128])
    fit = run("eplb-fit", file, *flag, "--ranks", 8, "--redundant-total", 8, "--effort", "fast", "--holdout", "none",
              "--out", layout)
    check(f"it is fitted: {fit.stderr}", fit.returncode == 0)
    manifest = json.loads((scratch / "axes.manifest.json").read_text())
    check("the command line has the axes", "--axes experts,layers" in manifest["tool"]["command_line"])
    check("46 layers of 128 experts", manifest["layout"]["geometry"]["layers"] == 46)
    scored = run("eplb-score", layout, file, *flag)
    check(f"and scored: {scored.stderr}", scored.returncode == 0)


with tempfile.TemporaryDirectory() as name:
    for test in (rank_sets, incomplete_rank_sets, written_and_read, accepted, axes):
        test(pathlib.Path(name))
