#!/usr/bin/env python3
"""Runs a transcript and compares.

A transcript is a text of commands and what they must print:

    $ eplb-score layout.json counts.json --ranks 2
    line of stdout
    stderr: line of stderr
    [exit 1]

"[exit N]" follows where the exit code is not 0. Lines that start with "#" before the first command are comments, and an
empty line before a "$" line only separates. Commands run with bash in a fresh copy of the folder `inputs` beside the
transcript, which they share. A line "..." stands for any number of lines of stdout, and "<any>" inside a line for any
text.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def parse(text):
    steps = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif steps:
            steps[-1][1].append(line)
        elif line and not line.startswith("#"):
            sys.exit(f"a line before the first command: {line}")
    for _, expected in steps:
        while expected and not expected[-1]:
            expected.pop()
    return steps


def run(command, folder, variables):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=variables, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines() + ["stderr: " + line for line in done.stderr.splitlines()]
    if done.returncode != 0:
        lines.append(f"[exit {done.returncode}]")
    while lines and not lines[-1]:
        lines.pop()
    return lines


def environment(programs):
    """That of the commands: the programs of a build folder, and the scripts of this folder, come first on PATH."""
    folders = [str(folder) for folder in sorted(pathlib.Path(programs).resolve().glob("eplb-*"))]
    folders += [str(pathlib.Path(__file__).resolve().parent), os.environ["PATH"]]
    return dict(os.environ, PATH=os.pathsep.join(folders), LC_ALL="C", TZ="UTC")


def matches(expected, actual):
    pattern = "".join(
        r"(?:(?!stderr: |\[exit )[^\n]*\n)*?" if line == "..." else re.escape(line + "\n").replace(re.escape("<any>"), r"[^\n]*")
        for line in expected)
    return re.fullmatch(pattern, "".join(line + "\n" for line in actual)) is not None


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--programs", required=True, help="folder that holds the folders of the programs")
    arguments.add_argument("--print", action="store_true", help="print what the commands give instead of comparing")
    arguments.add_argument("transcript", type=pathlib.Path)
    options = arguments.parse_args()

    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch, "inputs")
        inputs = options.transcript.parent / "inputs"
        shutil.copytree(inputs, folder) if inputs.is_dir() else folder.mkdir()
        for command, expected in parse(options.transcript.read_text()):
            actual = run(command, folder, environment(options.programs))
            if options.print:
                print("\n".join([f"$ {command}", *actual, ""]))
            elif not matches(expected, actual):
                failures += 1
                print("\n".join([f"$ {command}", "--- expected", *expected, "--- printed", *actual, ""]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
