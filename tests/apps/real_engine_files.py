#!/usr/bin/python3
"""real_engine_files.py --programs DIR --shared DIR: other engines' count files are read as a few lines of numpy read them.

Each oracle's counts go into an .npy; eplb-validate, given the two files, must find the same counts twice. Where counts are
folded by a layout, the two are scored instead, on layouts that tell every expert from its neighbours.
"""
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
import numpy as np  # noqa: E402


def run(program, *words):
    command = [str(options.programs / program / program), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def check(what, true):
    if not true:
        sys.exit(f"not so: {what}")


def validated(*words):
    return json.loads(run("eplb-validate", "--json", *words).stdout)


def same_counts(scratch, name, counts, *flags):
    """The file and the oracle's counts are one and the same to eplb-validate."""
    oracle, counts = scratch / "oracle.npy", counts.astype(np.int64)  # a copy
    np.save(oracle, counts)
    report = validated(CASES / name, oracle, *flags)
    check(f"{name} is decoded: {report['files'][0]['findings']}", report["files"][0]["shape"] is not None)
    check(f"{name} holds what numpy reads", "IDENTICAL_FILES" in [each["code"] for each in report["findings"]])
    counts.flat[np.flatnonzero(counts)[0]] += 1
    np.save(oracle, counts)
    report = validated(CASES / name, oracle, *flags)
    check(f"{name}: one count more is noticed", "IDENTICAL_FILES" not in [each["code"] for each in report["findings"]])


def by_layer_and_expert():
    """The counts of the small cases: six layers of 16 experts, of which layer 0 is dense."""
    lines = (CASES / "expert_distribution_rank0_timestamp1744.csv").read_text().splitlines()[1:]
    counts = np.zeros((1, 6, 16), int)
    for layer, expert, count in (map(int, line.split(",")) for line in lines):
        counts[0, layer, expert] = count
    return counts


def safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {key: np.frombuffer(data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]],
                               {"I32": "<i4", "I64": "<i8"}[entry["dtype"]])
            for key, entry in header.items() if key != "__metadata__"}


def text_and_json(scratch):
    same_counts(scratch, "expert_distribution_rank0_timestamp1744.csv", by_layer_and_expert())
    table = np.loadtxt(CASES / "activation_counts_recordstep_1_rank_0.txt", int, ndmin=2)
    same_counts(scratch, "activation_counts_recordstep_1_rank_0.txt", table[None], "--experts", 16)
    table = np.loadtxt(CASES / "decode_0.csv", int, delimiter=",", ndmin=2)
    same_counts(scratch, "decode_0.csv", table[None], "--experts", 8)
    same_counts(scratch, "decode_0.csv", np.concatenate([table, 0 * table], axis=1)[None], "--experts", 16)
    for name in ("activation_counts_recordstep_1_rank_0.txt", "decode_0.csv"):
        report = validated(CASES / name)
        check(f"{name} asks for a layout", report["files"][0]["findings"][0]["code"] == "LAYOUT_NEEDED")
    records = [json.loads(line)["logical_count"] for line in open(CASES / "recs.jsonl")]
    same_counts(scratch, "recs.jsonl", np.array(records))
    layers = json.load(open(CASES / "bylayer.json"))
    same_counts(scratch, "bylayer.json", np.array([[layers[str(layer)] for layer in range(len(layers))]]))


def folder_of_ranks(scratch):
    """A folder is as many files as it holds: none of them is alone, and their sum is the window."""
    folder = scratch / "mindie"
    folder.mkdir()
    (folder / "decode_0.csv").write_text("98,32\n55,30\n")
    (folder / "decode_1.csv").write_text("40,30\n60,55\n")
    ran = run("eplb-validate", folder, "--experts", 4, "--strict", "--json")
    report = json.loads(ran.stdout)
    check(f"a folder of all ranks has no warning: {report}", ran.returncode == 0)
    check("a folder is its files", [pathlib.Path(each["file"]).name for each in report["files"]] ==
          ["decode_0.csv", "decode_1.csv"])


def tensorrt_llm(scratch):
    tensors = safetensors(CASES / "rank0.safetensors")
    keys = [tuple(map(int, key.split("_"))) for key in tensors]
    iterations = sorted({iteration for iteration, _ in keys})
    counts = np.zeros((len(iterations), max(layer for _, layer in keys) + 1, 16), int)
    for (iteration, layer), values in zip(keys, tensors.values()):
        counts[iterations.index(iteration), layer] = values
    same_counts(scratch, "rank0.safetensors", counts)


def torch_files(scratch):
    """The same six layers, once as slots with a layout that is the experts in their order, once a tensor a layer."""
    same_counts(scratch, "phys_and_map.pt", by_layer_and_expert())
    same_counts(scratch, "dict_by_layer.pt", by_layer_and_expert())
    finding, = validated(CASES / "r03_per_token_nocount_0.pt")["files"][0]["findings"]
    check("a per-token dump of -1 is told", finding["code"] == "EMPTY_COUNTS" and "topk_ids_of_layer" in finding["message"])
    for rank in range(4):
        same_counts(scratch, f"per-rank/pt{rank}.pt", np.load(CASES / "per-rank" / f"tok{rank}.npy"))


def routed_ids(scratch):
    ids = np.load(CASES / "r28_routed_experts.npy").astype(int)
    for tokens, flags in ((256, ()), (50, ("--tokens-per-slot", 50))):
        slots = [ids[first:first + tokens] for first in range(0, len(ids), tokens)]
        counts = np.array([[np.bincount(slot[:, layer].reshape(-1), minlength=128) for layer in range(ids.shape[1])]
                           for slot in slots])
        report = validated(CASES / "r28_routed_experts.npy", "--format", "routed-ids", *flags)["files"][0]
        check("the ids are counted", report["shape"] == list(counts.shape) and report["total"] == counts.sum())
        np.save(scratch / "oracle.npy", counts)
        served = scratch / "served.json"
        layout = [np.random.default_rng(7).permutation(128).tolist() for _ in range(ids.shape[1])]
        json.dump({"physical_to_logical_map": layout}, open(served, "w"))
        scored = [run("eplb-score", served, *words, "--ranks", 128, "--json", "--per-layer")
                  for words in ((CASES / "r28_routed_experts.npy", "--format", "routed-ids", *flags),
                                (scratch / "oracle.npy",))]
        check(f"both are scored: {scored[0].stderr}{scored[1].stderr}", [each.returncode for each in scored] == [0, 0])
        ours, theirs = (json.loads(each.stdout)["results"] for each in scored)
        check("the counted ids score as numpy's", ours == theirs)


def ranks_layers_slots(scratch):
    """[ranks, layers, slots], folded with a layout that has every expert somewhere and 16 of them twice."""
    slots = np.load(CASES / "r24_R_L_S.npy")
    ranks, layers, width = slots.shape
    experts = ranks * (width - 1)
    random = np.random.default_rng(7)
    layout = np.array([random.permutation(np.r_[:experts, random.choice(experts, ranks, False)])
                       for _ in range(layers)])
    json.dump({"physical_to_logical_map": layout.tolist()}, open(scratch / "recorded.json", "w"))
    counts = np.zeros((layers, experts), int)
    for layer in range(layers):
        np.add.at(counts[layer], layout[layer], slots[:, layer].reshape(-1))
    np.save(scratch / "oracle.npy", counts)
    for seed in range(3):
        random = np.random.default_rng(seed)
        served = scratch / "served.json"
        json.dump({"physical_to_logical_map": [random.permutation(experts).tolist() for _ in range(layers)]},
                  open(served, "w"))
        scored = [run("eplb-score", served, file, "--ranks", experts // 4, "--json", "--per-layer", *flags)
                  for file, flags in ((CASES / "r24_R_L_S.npy", ("--recorded-layout", scratch / "recorded.json")),
                                      (scratch / "oracle.npy", ()))]
        check(f"both are scored: {scored[0].stderr}{scored[1].stderr}", [each.returncode for each in scored] == [0, 0])
        ours, theirs = (json.loads(each.stdout)["results"] for each in scored)
        check("the folded counts score as numpy's", ours == theirs)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    text_and_json(folder)
    folder_of_ranks(folder)
    tensorrt_llm(folder)
    torch_files(folder)
    routed_ids(folder)
    ranks_layers_slots(folder)
