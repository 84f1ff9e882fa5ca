#!/usr/bin/python3
"""What loading costs: every figure of the section "Loader" in docs/benchmarks.md, each against the bare operation that it
cannot be faster than. Needs a build with libtorch (preset release) and a Python that has torch and numpy.

    tests/bench/loader.py [--build build/release] [--folder DIR] [--gigabytes 4] [--rounds 5] [PART...]

PART: slots, remap, check, checkpoint; default all. Arms alternate in one run after a discarded warm-up; medians are shown.
Times are CPU seconds of one thread, except for `checkpoint`, which waits for a disk: seconds on the clock. DIR gets a made-up
checkpoint and its copies (three times --gigabytes); default: a temporary folder.
"""
import argparse
import ctypes
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import markdown_table

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def table(title, header, rows):
    print(f"\n{title}\n")
    markdown_table.table(header, rows)


def cpu_seconds(arms, rounds):
    """Median CPU seconds of every arm; arms take turns."""
    for run in arms.values():
        run()
    found = {name: [] for name in arms}
    for _ in range(rounds):
        for name, run in arms.items():
            start = time.process_time()
            run()
            found[name].append(time.process_time() - start)
    return {name: statistics.median(times) for name, times in found.items()}


# ----------------------------------------------------------------------------------------------------------------- slots


def bench_slots(options):
    """One big family and its scales: 64 slots. memcpy is the C library's, on the same memory."""
    import torch

    from eplb_loader.library import ops

    torch.set_num_threads(1)
    slots, scale = 64, 7168
    width = int(options.gigabytes * 1e9) // slots // 4096 * 4096
    total = slots * (width + 4 * scale)
    weight, source = (torch.ones(slots, width, dtype=torch.uint8) for _ in range(2))  # every page is there
    scales, source_scales = (torch.rand(slots, scale) for _ in range(2))
    row = random.Random(1).sample(range(slots), slots)
    names, parts = ["weight", "scale"], [1, 1]
    memmove = ctypes.CDLL(None).memcpy
    memmove.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    seconds = cpu_seconds({
        "memcpy": lambda: memmove(weight.data_ptr(), source.data_ptr(), weight.numel()),
        "install_": lambda: ops().install_(names, parts, [weight, scales], parts, [source, source_scales], row, []),
        "permute_slots_": lambda: ops().permute_slots_(names, parts, [weight, scales], row, []),
    }, options.rounds)
    bare = weight.numel() / seconds["memcpy"]
    rows = [["memcpy", f"{bare / 1e9:.2f}", "1.00"]]
    for name in ("install_", "permute_slots_"):
        rate = total / seconds[name]
        rows.append([f"`{name}`", f"{rate / 1e9:.2f}", f"**{rate / bare:.2f}**"])
    table(f"{total / 1e9:.2f} GB in {slots} slots, random permutation:", ["", "GB/s", "of memcpy"], rows)


# ----------------------------------------------------------------------------------------------------------------- remap


def bench_remap(options):
    """The bare gather is what an engine does without us: table[ids]. index_select is the fastest kernel that torch has."""
    import torch

    from eplb_loader.library import ops

    torch.set_num_threads(1)
    rows = []
    for dtype in (torch.int64, torch.int32):
        ids = torch.randint(0, 256, (8192, 8), dtype=dtype)
        slots = torch.randperm(272)[:256].to(torch.int32)
        same = slots.to(dtype)
        index = ids.to(torch.int64)  # torch 1.13 indexes with int64 only
        repeat = lambda run: lambda: [run() for _ in range(100)]
        seconds = cpu_seconds({"table[ids]": repeat(lambda: same[index]),
                               "index_select": repeat(lambda: same.index_select(0, ids.view(-1)).view(ids.shape)),
                               "remap": repeat(lambda: ops().remap(ids, slots)),
                               "remap_": repeat(lambda: ops().remap_(ids.clone(), slots))}, 2 * options.rounds)
        micro = {name: value * 1e4 for name, value in seconds.items()}
        rows.append([str(dtype).split(".")[1], *(f"{micro[name]:.0f}" for name in ("table[ids]", "index_select", "remap")),
                     f"**{micro['remap'] / micro['table[ids]']:.2f}**", f"{micro['remap'] / micro['index_select']:.2f}"])
    table("ids [8192, 8], 256 experts, one thread, µs a call:",
          ["ids", "`table[ids]`", "`index_select`", "`remap`", "remap / table[ids]", "remap / index_select"], rows)


# ----------------------------------------------------------------------------------------------------------------- check


def legal_rows(layers, experts, ranks, slots, seed):
    sys.path.insert(0, str(ROOT / "tests/loader/python"))
    import moe

    return moe.random_rows(layers, experts, ranks, slots, random.Random(seed))


# A process starts with the peak memory of the one that made it, so a small interpreter starts the program.
MEASURE = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
"""


def child(command):
    """CPU seconds and peak memory in MB of a program."""
    command = [str(part) for part in command]
    code, seconds, peak = subprocess.run([sys.executable, "-S", "-c", MEASURE, *command], stdout=subprocess.PIPE, check=True,
                                         text=True).stdout.split()
    if code != "0":
        sys.exit(f"{command} ended with {code}")
    return float(seconds), float(peak) / 1024


def bench_check(options):
    """The whole process, manifest and all checks included."""
    import moe

    program, rows = options.build / "apps/eplb-load/eplb-load", []
    for name, (layers, experts, ranks, slots, nodes) in {"DeepSeek-V3, 32 × 9": (61, 256, 32, 9, 4),
                                                         "V4-Flash, 16 × 17": (43, 256, 16, 17, 2),
                                                         "Qwen3, 128 × 5 of 512": (60, 512, 128, 5, 16)}.items():
        with tempfile.TemporaryDirectory() as folder:
            layout, made = os.path.join(folder, "layout.json"), os.path.join(folder, "table.npy")
            moe.write_layout(layout, legal_rows(layers, experts, ranks, slots, 1))
            common = ["--ranks", ranks, "--nodes", nodes]
            child([program, "table", layout, *common, "--experts", experts, "--dispatch", "omni", "--out", made])
            facts = ["check", layout, *common, "--layers", layers, "--experts", experts, "--redundant-total",
                     ranks * slots - experts, "--quant", "w8a8", "--a2a", "deepep", "--dispatch-algorithm", "static",
                     "--role", "prefill", "--engine", "sglang", "--world-size", ranks, "--allow-no-manifest"]
            arms = {"given": [*facts, "--dispatch", "table", "--table", made]}
            arms.update({model: [*facts, "--dispatch", model] for model in ("omni", "sglang-c", "sglang-d-subset")})
            found = {arm: [] for arm in arms}
            for _ in range(options.rounds + 1):
                for arm, command in arms.items():
                    found[arm].append(child([program, *command])[0])
            rows.append([name, *(f"{1e3 * statistics.median(times[1:]):.0f}" for times in found.values())])
    table("`eplb-load check`, CPU ms of the process:", ["", "given table", "omni", "sglang-c", "sglang-d-subset"], rows)


# ------------------------------------------------------------------------------------------------------------ checkpoint


class Checkpoint:
    """A made-up DeepSeek checkpoint: shards of 1 GB, experts of 2 MB tensors, and one tensor of 512 MB."""

    LAYERS_A_SHARD, EXPERTS, LARGEST = 2, 64, 512 << 20

    def __init__(self, folder, gigabytes):
        self.folder, self.bytes = folder, 0
        folder.mkdir()
        block, weight_map = os.urandom(64 << 20), {}
        per_layer = self.EXPERTS * 3 * (2 << 20)
        self.layers = max(2, int(gigabytes * 1e9) // per_layer)
        shards = [list(range(first, min(first + self.LAYERS_A_SHARD, self.layers)))
                  for first in range(0, self.layers, self.LAYERS_A_SHARD)]
        for number, layers in enumerate(shards, 1):
            name = f"model-{number:05}-of-{len(shards):05}.safetensors"
            tensors = [("model.embed_tokens.weight", [self.LARGEST // 4096, 2048], "BF16", self.LARGEST)] if number == 1 else []
            for layer in layers:
                prefix = f"model.layers.{layer}.mlp."
                tensors.append((prefix + "gate.weight", [self.EXPERTS, 2048], "BF16", self.EXPERTS * 4096))
                for expert in range(self.EXPERTS):
                    for part in ("gate_proj", "up_proj", "down_proj"):
                        tensors.append((f"{prefix}experts.{expert}.{part}.weight", [1024, 2048], "F8_E4M3", 2 << 20))
            self._write(folder / name, tensors, block)
            weight_map.update({tensor[0]: name for tensor in tensors})
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
        (folder / "config.json").write_text(json.dumps(
            {"model_type": "deepseek_v3", "num_hidden_layers": self.layers, "n_routed_experts": self.EXPERTS}))

    def _write(self, path, tensors, block):
        header, at = {}, 0
        for name, shape, dtype, size in tensors:
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for written in range(0, at, len(block)):
                file.write(block[:min(len(block), at - written)])
            file.flush()
            os.fsync(file.fileno())
        self.bytes += at


def forget(folder):
    """Drops the folder's clean pages from the page cache."""
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def remember(folder):
    for path in folder.iterdir():
        with open(path, "rb") as file:
            while file.read(16 << 20):
                pass


def bench_checkpoint(options):
    """The reference does the same work with the tools of the system, file by file: cp, SHA-256 of the copy by the same
    libcrypto (sha256sum of coreutils is several times slower where it is built without), fsync."""
    import moe

    program = options.build / "apps/eplb-load/eplb-load"
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        checkpoint = Checkpoint(folder / "in", options.gigabytes)
        experts, layers = checkpoint.EXPERTS, checkpoint.layers
        moe.write_layout(folder / "bake.json", legal_rows(layers, experts, 4, experts // 4, 1))
        moe.write_layout(folder / "slots.json", legal_rows(layers, experts, 4, experts // 4 + 1, 1))
        common = ["--checkpoint", folder / "in", "--out", folder / "out", "--ranks", 4, "--allow-no-manifest"]
        script = f'cd "{folder}/in" && mkdir ../out && for f in *; do cp --reflink=never "$f" ../out/ && openssl dgst -sha256 "../out/$f" && sync "../out/$f" || exit 1; done'
        arms = {"reference": ["sh", "-c", script],
                "bake": [program, "bake", folder / "bake.json", *common],
                "slots": [program, "slots", folder / "slots.json", *common]}
        rows, memory = [], {}
        for state, prepare in (("in the page cache", remember), ("not in the page cache", forget)):
            rates = {arm: [] for arm in arms}
            for _ in range(options.rounds):
                for arm, command in arms.items():
                    prepare(folder / "in")
                    start = time.monotonic()
                    memory[arm] = max(memory.get(arm, 0), child(command)[1])
                    seconds = time.monotonic() - start
                    written = sum(path.stat().st_size for path in (folder / "out").iterdir())
                    rates[arm].append(written / seconds / 1e6)
                    shutil.rmtree(folder / "out")
            medians = {arm: statistics.median(values) for arm, values in rates.items()}
            rows.append([state, *(f"{medians[arm]:.0f}" for arm in arms),
                         *(f"**{medians[arm] / medians['reference']:.2f}**" for arm in ("bake", "slots"))])
        table(f"{checkpoint.bytes / 1e9:.2f} GB, MB/s on the clock; the source's bytes before each run:",
              ["source", "cp + sha256 + fsync", "`bake`", "`slots`", "bake / reference", "slots / reference"], rows)
        largest = checkpoint.LARGEST / 2**20
        table(f"Peak memory (largest tensor {largest:.0f} MB, so the bound is {largest + 256:.0f} MB):", ["", "MB"],
              [[f"`{arm}`", f"{memory[arm]:.0f}"] for arm in ("bake", "slots")])


PARTS = {"slots": bench_slots, "remap": bench_remap, "check": bench_check, "checkpoint": bench_checkpoint}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {sorted(unknown)[0]}; one of {', '.join(PARTS)}")
    sys.path[:0] = [str(ROOT / "lib/loader/python"), str(ROOT / "tests/loader/python")]
    os.environ["EPLB_TORCH_LIBRARY"] = str(options.build / "lib/libeplb_torch.so")
    for name in options.parts or PARTS:
        PARTS[name](options)


if __name__ == "__main__":
    main()
