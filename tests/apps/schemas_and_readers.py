#!/usr/bin/python3
"""schemas_and_readers.py --programs DIR [--every N]: a schema in data/schemas refuses what the reader of the file refuses.

Each of our files is written once, then changed at every place in many ways; the schema and the program that reads the file
must say the same of each change, or of every Nth. What a schema cannot say (a length that another member states) is listed with each file.
"""
import argparse
import copy
import hashlib
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema
import numpy as np

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "data" / "schemas"
INTEGERS = [-1, 0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 2**20, 2**20 + 1, 2**31 - 2, 2**31 - 1, 2**31, 2**63 - 1, 2**63]
OTHERS = [None, True, 0.5, -0.5, "", "text", "a" * 63, "a" * 64, "A" * 64, [], {}, ["text"], {"text": 1}]


class Kind:
    """One of our files: how it is read, and where the reader knows more than the schema."""

    def __init__(self, schema, path, refuses, relations):
        self.path, self.refuses, self.relations = path, refuses, relations
        self.validator = jsonschema.Draft7Validator(json.loads((SCHEMAS / f"{schema}.schema.json").read_text()))
        self.document = json.loads(path.read_text())

    def disagreement(self, place, changed):
        valid = self.validator.is_valid(changed)
        self.path.write_text(json.dumps(changed))
        read = not self.refuses()
        if valid == read or (valid and any(place.startswith(relation) for relation in self.relations)):
            return None
        return f"{self.path.name}, {place}: the schema says {'yes' if valid else 'no'}, the reader {'yes' if read else 'no'}"


def places(value, place=""):
    """Every place of a document, as a list of keys."""
    yield []
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        for rest in places(inner):
            yield [key, *rest]


def changes(document):
    """(place, changed document): another value, a key too many, a key too few, an entry twice, at every place."""
    for keys in places(document):
        if not keys:
            continue
        place = ".".join(str(key) for key in keys)

        def changed(change):
            whole = copy.deepcopy(document)
            inner = whole
            for key in keys[:-1]:
                inner = inner[key]
            change(inner, keys[-1])
            return whole

        old = document
        for key in keys:
            old = old[key]
        for value in INTEGERS + OTHERS:
            if type(value) is not type(old) or value != old:
                yield place, changed(lambda inner, key: inner.__setitem__(key, value))
        yield place, changed(lambda inner, key: inner.__delitem__(key))
        if isinstance(old, dict):
            yield place, changed(lambda inner, key: inner[key].__setitem__("another", 1))
        if isinstance(old, list) and old:
            yield place, changed(lambda inner, key: inner[key].append(inner[key][0]))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--programs", required=True, type=pathlib.Path)
    arguments.add_argument("--every", type=int, default=1, help="try one change in so many")
    options = arguments.parse_args()
    programs = options.programs.resolve()

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def run(program, *words):
            return subprocess.run([programs / program / program, *map(str, words)], cwd=folder, capture_output=True, text=True)

        def codes(*words):
            report = json.loads(run("eplb-validate", *words, "--json").stdout)
            return {finding["code"]: finding["message"] for file in report["files"] for finding in file["findings"]}

        counts = np.arange(1, 97, dtype=np.int32).reshape(8, 3, 4)
        counts[:, :, 3] += 1000 - counts.sum(2)
        counts[:, 0] = 0
        np.save(folder / "counts.npy", counts)
        setup = [run("eplb-fit", "counts.npy", "--ranks", 2, "--redundant-total", 2, "--dispatch", "balanced", "--out", "x.json"),
                 run("eplb-load", "table", "x.json", "--dispatch", "sglang-c", "--nodes", 1, "--out", "t.npy")]
        server = ["eplb-load", "check", "x.json", "--ranks", 2, "--layers", 3, "--experts", 4, "--redundant-total", 2,
                  "--dispatch", "even", "--quant", "w8a8", "--role", "decode", "--a2a", "deepep"]
        setup.append(run(*server, "--attest", "a.json"))
        for done in setup:
            if done.returncode != 0:
                sys.exit(f"{done.args}: {done.stdout}{done.stderr}")
        (folder / "counts.window.json").write_text(json.dumps({
            "format_version": 1, "file": "counts.npy", "sha256": hashlib.sha256((folder / "counts.npy").read_bytes()).hexdigest(),
            "reduction": "per-rank", "window": "w", "members": [0, 1], "rank": 1, "shape": [8, 3, 4], "first_sequence": 3,
            "records": 2, "overwritten": 0, "tokens": [5, 6], "phases": ["decode", "prefill"], "layouts": ["a" * 64],
            "layout_of_record": [0, 0], "scenario": {"role": "decode"}, "seconds": {"copy": 0.5}, "complete": True}))

        kinds = [
            Kind("manifest", folder / "x.manifest.json", lambda: "MANIFEST_UNREADABLE" in codes("--layout", "x.json", "--ranks", 2),
                 ["layout.geometry", "counts.files.0.record_slots", "counts.files.0.fitted", "counts.files.0.held_out"]),
            Kind("table-manifest", folder / "t.manifest.json",
                 lambda: run("eplb-validate", "--layout", "x.json", "--ranks", 2, "--dispatch-table", "t.npy").returncode == 3, []),
            Kind("attestation", folder / "a.json", lambda: run(*server, "--expect", "a.json").returncode == 3, []),
            Kind("window", folder / "counts.window.json",
                 lambda: "cannot be read" in codes("counts.npy").get("SIDECAR_MISMATCH", ""),
                 ["shape.0", "first_sequence", "records", "tokens", "phases", "layout_of_record"]),
        ]
        tried, wrong = 0, []
        for kind in kinds:
            whole = kind.path.read_text()
            for place, changed in itertools.islice(changes(kind.document), 0, None, options.every):
                tried += 1
                wrong.append(kind.disagreement(place, changed))
            kind.path.write_text(whole)
    wrong = [line for line in wrong if line]
    print("\n".join(wrong[:40] + [f"{tried} changes, {len(wrong)} disagreements"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
