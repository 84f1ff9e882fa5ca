#!/usr/bin/env python3
"""Runs the programs on small files that are made to cost memory or time.

Each must be refused, or read, within 300 MB and 2 s of CPU, in few words. CPU is allowed --slack times as much, since
machines differ; a build with sanitizers uses memory of its own, so that there (--sanitized) only the time counts.

With --scarce honest files are run with ever less address space, as under ulimit -v.

With --folder the files of that folder are run instead of those made here.
"""
import argparse
import os
import pathlib
import resource
import struct
import sys
import tempfile

import hostile_files

MEMORY = 300 << 20
CPU_SECONDS = 2
OUTPUT = 8 << 10  # bytes of stdout and stderr together


GOOD_LAYOUT = b'{"physical_to_logical_map": [[0, 1, 2, 3]]}'


def cases(folder):
    """Name, command, and the exit codes that are right."""

    def file(name, content):
        path = folder / name
        path.write_bytes(content)
        return str(path)

    good = file("good.json", GOOD_LAYOUT)
    counts = file("good.npy", hostile_files.npy((2, 1, 4), struct.pack("<8i", *range(8))))

    def fit(path, *more):
        out = str(folder / "out.json")
        return ["eplb-fit", path, "--ranks", "2", "--redundant-total", "0", "--out", out, "--force", *more]

    def check(*more):
        return ["eplb-load", "check", good, "--engine", "sglang", "--ranks", "2", *more]

    for ending, made in ((".pt", hostile_files.torch_cases()), (".npy", hostile_files.array_cases()),
                         (".json", hostile_files.json_cases())):
        for name, content in made:
            path = file("case" + ending, content)
            yield name, ["eplb-validate", path], (0, 1, 3)
            yield name, fit(path), (0, 3, 4)
    for name, content in hostile_files.layout_cases():
        path = file("case.json", content)
        yield name, ["eplb-validate", "--layout", path, "--ranks", "1"], (1, 3)
        yield name, ["eplb-score", path, counts, "--ranks", "1"], (3,)
        # The same bytes as each of the files that lie beside a layout or counts.
        score = ["eplb-score", good, counts, "--ranks", "2"]
        yield f"{name}, as a table", score + ["--dispatch", "table", "--dispatch-table", path], (3,)
        yield f"{name}, as a scenario", fit(counts, "--scenario", path), (3,)
        for neighbour, command in (("good.manifest.json", score), ("good.window.json", ["eplb-validate", counts])):
            file(neighbour, content)
            yield f"{name}, as {neighbour}", command, (3,)
            (folder / neighbour).unlink()
    for flag, made in (("--model-config", hostile_files.config_cases()),
                       ("--server-args", hostile_files.argument_cases())):
        for name, content in made:
            yield name, check(flag, file("case.txt", content)), (0, 1, 3)


def scarce(folder):
    """Honest files with ever less memory: read, or refused with the name of the file, and never a crash."""
    rows = ", ".join("[" + ", ".join(str(expert * 7 % 100) for expert in range(256)) + "]" for _ in range(61))
    text = folder / "counts.json"
    text.write_text('{"logical_count": [' + ", ".join([f"[{rows}]"] * 40) + "]}")
    array = folder / "counts.npy"
    values = [(index % 256) * 7 % 100 for index in range(61 * 256)]
    array.write_bytes(hostile_files.npy((600, 61, 256), struct.pack(f"<{len(values)}i", *values) * 600))
    fit = ["--ranks", "8", "--redundant-total", "0", "--effort", "fast", "--holdout", "none", "--force"]
    for path in (text, array):
        for megabytes in (16, 24, 32, 48, 64, 96, 128, 256):
            for command in (["eplb-validate", str(path)],
                            ["eplb-fit", str(path), *fit, "--out", str(folder / "out.json")]):
                # 127: the program's own libraries do not fit.
                yield f"{path.name} in {megabytes} MB", [*command, "--threads", "1"], (0, 1, 3, 127), megabytes << 20


def found(folder):
    for path in sorted(pathlib.Path(folder).iterdir()):
        if path.name.startswith("layout"):
            yield path.name, ["eplb-validate", "--layout", str(path), "--ranks", "1"], (1, 3)
        elif path.suffix != ".json":
            yield path.name, ["eplb-validate", str(path)], (3,)


def run(programs, command, arguments, address_space):
    """Exit code (negative: the signal), CPU seconds, bytes of memory, and output."""
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            limit = int(60 * arguments.slack)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
            if not arguments.sanitized:
                resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
            os.execv(programs / command[0] / command[0], command)
        _, status, usage = os.wait4(child, 0)
        output.seek(0)
        return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10, output.read()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--slack", type=float, default=4)
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--scarce", action="store_true", help="honest files with ever less memory instead")
    parser.add_argument("--only", default="")
    parser.add_argument("--table", action="store_true", help="show what each took")
    arguments = parser.parse_args()
    if arguments.folder and not arguments.folder.exists():
        print("skipped: no folder with hostile files")
        return 0
    failed = ran = 0
    with tempfile.TemporaryDirectory() as folder:
        table = found(arguments.folder) if arguments.folder else cases(pathlib.Path(folder))
        if arguments.scarce:
            table = scarce(pathlib.Path(folder))
        for name, command, right, *limit in table:
            if arguments.only not in name:
                continue
            ran += 1
            code, cpu, memory, output = run(arguments.programs.resolve(), command, arguments,
                                            limit[0] if limit else 8 << 30)
            faults = []
            if code not in right:
                faults.append(f"exit {code}, not {' or '.join(map(str, right))}")
            if cpu > CPU_SECONDS * arguments.slack:
                faults.append(f"{cpu:.2f} s of CPU")
            if memory > MEMORY and not arguments.sanitized:
                faults.append(f"{memory >> 20} MB")
            if len(output) > OUTPUT:
                faults.append(f"{len(output)} bytes of output")
            if code == 3 and command[0] != "eplb-validate" and output.count(b"\n") != 1:
                faults.append(f"{output.count(bytes([10]))} lines of output")
            if limit and code == 3 and pathlib.Path(command[1]).name.encode() not in output:
                faults.append("the file is not named")
            failed += bool(faults)
            if faults or arguments.table:
                print(f"{'FAILED' if faults else 'ok':6} {name}: {command[0]}: exit {code}, {cpu:.2f} s, "
                      f"{memory >> 20} MB{''.join('; ' + fault for fault in faults)}", flush=True)
            if faults:
                print("       " + output[:400].decode(errors="replace").replace("\n", "\n       "), flush=True)
    print(f"{ran} files, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
