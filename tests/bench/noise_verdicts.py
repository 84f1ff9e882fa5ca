#!/usr/bin/python3
"""Fits layouts to counts that are multinomial noise around a steady popularity, and counts the verdicts.

No expert has more than three quarters of a rank's fair part, so redundant slots buy nothing in such counts; where the
popularity is nearly flat, neither do the counts. No verdict may be recommend-trial. Half of the files have record slots
of one size, half of sizes from 1 to 128; each third is a shape of its own. Prints a table and ends with 1 when a trial
is recommended.

  noise_verdicts.py [--files 200] [--programs build/dev/apps]
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from markdown_table import table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# name: record slots, layers, experts, spread of the log-normal popularity, tokens of a small row, ranks, redundant slots
SHAPES = {
    "skewed, 16 passes": (16, 8, 256, 0.75, 8192, 32, 32),
    "skewed, 64 passes": (64, 4, 64, 0.6, 2048, 8, 8),
    "nearly flat, 129 passes": (129, 6, 64, 0.07, 1536, 8, 8),
}


def noise(name, equal, seed):
    """int64 [record slots, layers, experts]."""
    slots, layers, experts, spread, tokens, ranks, _ = SHAPES[name]
    rng = np.random.default_rng([seed, len(name), equal])
    share = rng.lognormal(0, spread, (layers, experts))
    for _ in range(20):  # what is cut off goes to the others
        share = np.minimum(share / share.sum(-1, keepdims=True), 0.75 / ranks)
    share /= share.sum(-1, keepdims=True)
    sizes = np.full(slots, 8) if equal else rng.choice([1, 8, 128], slots)
    return np.stack([rng.multinomial(tokens * size, share) for size in sizes])


def verdict(path, name, folder):
    _, _, _, _, _, ranks, redundant = SHAPES[name]
    done = subprocess.run(
        [os.path.join(options.programs, "eplb-fit", "eplb-fit"), path, "--ranks", str(ranks), "--redundant-total",
         str(redundant), "--reduction", "reduced", "--out", os.path.join(folder, "layout.json"), "--force", "--json"],
        capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["verdict"]


def main():
    tallies = collections.defaultdict(collections.Counter)
    gains = collections.defaultdict(lambda: collections.defaultdict(list))
    with tempfile.TemporaryDirectory() as folder:
        for index in range(options.files):
            name, equal = list(SHAPES)[index % 3], index // 3 % 2 == 0
            row = f"{name}, {'equal' if equal else 'unequal'}"
            path = os.path.join(folder, "noise.npy")
            np.save(path, noise(name, equal, index))
            found = verdict(path, name, folder)
            tallies[row][found["decision"]] += 1
            for comparison in found["comparisons"]:
                gains[row][comparison["name"]].append(comparison["gain"])
    rivals = ["trivial", "random", "redundancy-0"]
    table(["noise", "files", "recommend-trial"] + [f"largest gain over {rival}" for rival in rivals],
          [[row, str(sum(tally.values())), str(tally["recommend-trial"])] +
           [f"{100 * max(gains[row][rival]):.2f} %" for rival in rivals] for row, tally in tallies.items()])
    return 1 if any(tally["recommend-trial"] for tally in tallies.values()) else 0


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--files", type=int, default=200)
parser.add_argument("--programs", default=os.path.join(ROOT, "build", "dev", "apps"))
options = parser.parse_args()
sys.exit(main())
