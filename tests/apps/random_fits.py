#!/usr/bin/python3
"""random_fits.py --programs DIR [--fits N] [--seed S]: whatever eplb-fit writes, every program reads.

Each fit draws its counts, geometry, policy, dispatch, split and files; what it writes is read back by eplb-score,
eplb-validate, eplb-load and eplb-fit --current, and held against the schemas. Refusals are printed with the command; a
number at the end says how many fits there were and how many were infeasible (exit code 4).
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import jsonschema
import numpy as np

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "data" / "schemas"
POLICIES = ["search", "search", "search", "greedy-swap", "deepseek", "trivial", "random"]
RULES = ["sglang-a", "sglang-b-fill-all", "sglang-c", "sglang-d-subset", "vllm-ascend", "xllm", "omni", "trtllm", "vllm", "balanced"]
TABLE_RULES = ["sglang-a", "sglang-b-fill-all", "sglang-c", "sglang-d-subset", "vllm-ascend", "xllm", "omni"]
NEED_NODES = ("sglang-b-fill-all", "sglang-c", "sglang-d-subset", "omni")
NAMES = ["counts.npy", "two words.npy", 'a "quoted" name.npy', "tab\there.npy", b"not-utf8-\xff.npy".decode("utf-8", "surrogateescape"),
         "kurz-\u00fc.npy"]
TEXTS = ["plain", "quotes \" and \\", "\u00fc\u4e2d", "control \x01 and newline \n", 3, 0.1, 1e-300, None]


def validator(name):
    return jsonschema.Draft7Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text()))


VALIDATORS = {name: validator(name) for name in ("manifest", "layout", "table-manifest", "fit", "score", "validate", "load-table",
                                                 "load-check", "attestation")}


class Refused(Exception):
    pass


class OneFit:
    """A folder, random choices, and the programs to run in it."""

    def __init__(self, programs, folder, seed):
        self.programs, self.folder = programs, folder
        self.draw = random.Random(seed)
        self.numpy = np.random.default_rng(seed)

    def run(self, program, *words, codes=(0,), schema=None):
        """The program's stdout; with `schema` --json is added and the object held against it."""
        words = [str(word) for word in words] + (["--json"] if schema else []) + ["--threads", "1"]
        command = [str(self.programs / program / program), *words]
        done = subprocess.run([os.fsencode(word) for word in command], cwd=self.folder, capture_output=True)
        shown = " ".join(command)
        if done.returncode not in codes:
            raise Refused(f"exit {done.returncode}: {shown}\n  {done.stderr.decode(errors='replace').strip()}")
        if schema and done.returncode in (0, 1):
            self.obeys(schema, json.loads(done.stdout), shown)
        return done

    def obeys(self, schema, value, what):
        error = jsonschema.exceptions.best_match(VALIDATORS[schema].iter_errors(value))
        if error:
            raise Refused(f"{what}: {schema} schema: {error.json_path}: {error.message}")

    def load(self, name):
        return json.loads((self.folder / name).read_bytes())

    def counts(self):
        """[record slots, layers, experts]: equal layer totals in a slot; some slots and leading layers are zero."""
        draw = self.draw
        slots, layers, experts = draw.choice([1, 1, 2, 3, 7, 8, 9, 16, 33]), draw.randint(1, 5), draw.randint(1, 24)
        skew = draw.choice([0.05, 0.5, 5.0])
        shares = self.numpy.dirichlet(np.full(experts, skew), size=layers)
        values = np.zeros((slots, layers, experts), dtype=draw.choice([np.int32, np.int64]))
        for slot in range(slots):
            if slots > 1 and draw.random() < 0.1:
                continue
            total = draw.choice([1, 7, 200, 5000])
            for layer in range(layers):
                values[slot, layer] = self.numpy.multinomial(total, shares[layer])
        values[0][:, [0, -1]] += 1  # never one rank's block of experts alone, which is refused
        values[:, :draw.choice([0, 0, 0, layers // 2])] = 0
        return values

    def write_counts(self, values):
        """The words that name the files: one, several windows, or the ranks of one window."""
        kind = self.draw.choice(["one", "one", "one", "windows", "ranks"])
        name = self.draw.choice(NAMES)
        np.save(self.folder / name, values)
        if kind == "one":
            return [name, "--reduction", "reduced"] if self.draw.random() < 0.5 else [name]
        if kind == "windows":
            np.save(self.folder / "again.npy", values * 2)
            return [name, "again.npy", "--reduction", "reduced"]
        os.unlink(os.fsencode(self.folder / name))
        mine = self.numpy.binomial(values, 0.5)
        if (mine * 2 == values).all():  # the same file twice is refused
            mine = np.zeros_like(values)
        np.save(self.folder / "rank0.npy", mine.astype(values.dtype))
        np.save(self.folder / "rank1.npy", (values - mine).astype(values.dtype))
        return ["rank0.npy", "rank1.npy", "--reduction", "per-rank", *self.draw.choice([[], ["--recorded-ranks", "2"]])]

    def budget(self, experts, ranks):
        least = -(-experts // ranks)
        slots = self.draw.randint(least, max(least, min(experts, least + 4)))
        redundant = ranks * slots - experts
        words = [["--slots-per-rank", slots], ["--redundant-total", redundant]]
        if experts % ranks == 0:
            words.append(["--redundant-per-rank", slots - experts // ranks])
        return self.draw.choice(words)

    def choices(self):
        draw = self.draw
        words = ["--policy", draw.choice(POLICIES), "--seed", draw.choice([0, 1, 77, 2**63 - 1]),
                 "--holdout", draw.choice(["interleave", "halves", "none"])]
        searches = words[1] == "search"
        if draw.random() < 0.3:
            words.append("--refit-all")
        if searches:
            words += ["--objective", draw.choice(["step", "window"]), "--effort", draw.choice(["fast", "fast", "default"])]
        if draw.random() < 0.3:
            scenario = {key: draw.choice(TEXTS) for key in draw.sample(["model", "engine", "workload", "cache_hit"], 2)}
            (self.folder / "scenario.json").write_text(json.dumps(scenario))
            words += ["--scenario", "scenario.json"]
        return words, searches

    def rule(self, ranks):
        rule = self.draw.choice(RULES)
        divisors = [nodes for nodes in range(1, ranks + 1) if ranks % nodes == 0]
        words = ["--dispatch", rule]
        if rule in NEED_NODES or (rule == "balanced" and self.draw.random() < 0.5):
            words += ["--nodes", self.draw.choice(divisors)]
        return words

    def fit(self):
        """True when a layout was written."""
        draw = self.draw
        values = self.counts()
        layers, experts = values.shape[1:]
        files = self.write_counts(values)
        ranks = draw.randint(1, min(experts, 6))
        choices, searches = self.choices()
        dispatch = self.rule(ranks) if searches and draw.random() < 0.4 else []
        common = [*files, "--ranks", ranks, *self.budget(experts, ranks), "--out", "x.json"]
        done = self.run("eplb-fit", *common, *choices, *dispatch, codes=(0, 4), schema="fit")
        if done.returncode == 4:
            return False
        self.obeys("manifest", self.load("x.manifest.json"), "x.manifest.json")
        self.obeys("layout", self.load("x.json"), "x.json")
        balanced = "balanced" in dispatch
        self.score(files, balanced)
        self.validate(ranks, balanced)
        self.deploy(ranks, layers, experts, balanced)
        choices, searches = self.choices()
        self.run("eplb-fit", *common[:-1], "y.json", *choices, "--current", "x.json", "--min-gain",
                 draw.choice([0, 0.05, 1]), schema="fit")
        self.obeys("manifest", self.load("y.manifest.json"), "y.manifest.json")
        self.run("eplb-score", "y.json", *files, "--current", "x.json", "--baseline", "x.json", schema="score")
        return True

    def score(self, files, balanced):
        dispatch = ["--dispatch", "balanced"] if balanced else []
        self.run("eplb-score", "x.json", *files, *dispatch, schema="score")
        self.run("eplb-score", "x.json", *files, "--holdout", self.draw.choice(["interleave", "halves", "none"]))

    def validate(self, ranks, balanced):
        table = ["--dispatch-table", "x.dispatch.npy"] if balanced else []
        for words in ([], ["--ranks", ranks]):
            done = self.run("eplb-validate", "--layout", "x.json", *words, *table, schema="validate")
            codes = {finding["code"] for file in json.loads(done.stdout)["files"] for finding in file["findings"]}
            if codes & {"NO_MANIFEST", "NO_TABLE_MANIFEST"}:
                raise Refused(f"eplb-validate does not see the manifest: {codes}")
        if balanced:
            self.obeys("table-manifest", self.load("x.dispatch.manifest.json"), "x.dispatch.manifest.json")

    def deploy(self, ranks, layers, experts, balanced):
        rule = self.draw.choice(TABLE_RULES)
        nodes = ["--nodes", 1] if rule in NEED_NODES else []
        out = self.draw.choice(["t.npy", "t.json"])
        self.run("eplb-load", "table", "x.json", "--dispatch", rule, *nodes, "--out", out, schema="load-table")
        self.obeys("table-manifest", self.load("t.manifest.json"), "t.manifest.json")
        self.run("eplb-validate", "--layout", "x.json", "--dispatch-table", out, schema="validate")
        redundant = len(self.load("x.json")["physical_to_logical_map"][0]) - experts
        server = ["--ranks", ranks, "--layers", layers, "--experts", experts, "--redundant-total", redundant, "--dispatch",
                  "even", "--quant", "w8a8", "--role", "decode"]
        admitted = self.run("eplb-load", "check", "x.json", *server, "--attest", "a.json", codes=(0, 1), schema="load-check")
        if admitted.returncode == 0:
            self.obeys("attestation", self.load("a.json"), "a.json")
            self.run("eplb-load", "check", "x.json", *server, "--expect", "a.json")


def one(programs, seed):
    with tempfile.TemporaryDirectory() as name:
        try:
            return OneFit(programs, pathlib.Path(name), seed).fit(), None
        except Refused as refused:
            return True, f"seed {seed}: {refused}"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--programs", required=True, type=pathlib.Path)
    arguments.add_argument("--fits", type=int, default=60)
    arguments.add_argument("--seed", type=int, default=0, help="of the first fit; the others follow")
    options = arguments.parse_args()
    programs = options.programs.resolve()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda seed: one(programs, seed), range(options.seed, options.seed + options.fits)))
    refusals = [refusal for _, refusal in results if refusal]
    for refusal in refusals:
        print(refusal)
    written = sum(fitted for fitted, _ in results)
    print(f"{len(results)} fits, {written} written, {len(results) - written} infeasible, {len(refusals)} refused")
    return 1 if refusals or not written else 0


if __name__ == "__main__":
    sys.exit(main())
