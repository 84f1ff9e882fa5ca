#!/usr/bin/env python3
"""Breaks the library on purpose, one line at a time, and says which breaks no test of its folder notices.

  mutate.py                     every mutant of mutants.txt
  mutate.py lib/fit/anneal      those whose file starts so
  mutate.py --list              only counts them and checks that each text is there once

A mutant is built in a copy of the source tree (--copy, kept between runs) and the tests of its folder run on it: killed
when it does not compile or a test fails, else it survives. Takes 10 to 40 seconds a mutant; not part of CI. Exit code 1
when more than one in twenty survives.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = ["CMakeLists.txt", "CMakePresets.json", "cmake", "lib", "tests", "apps", "data", "docs", "scripts", "README.md"]


def mutants(prefixes):
    for number, line in enumerate((ROOT / "tests/mutation/mutants.txt").read_text().splitlines(), 1):
        if not line.strip() or line.startswith(("#", "equivalent")):
            continue
        file, old, new = (field.replace("\\n", "\n") for field in (line + " ").split(" ; ", 2))
        count = (ROOT / file).read_text().count(old)
        if count != 1:
            sys.exit(f"mutants.txt:{number}: the text occurs {count} times in {file}, not once")
        if not prefixes or any(file.startswith(prefix) for prefix in prefixes):
            yield number, file, old, new.rstrip(" ")


def copy_tree(target):
    """Only what differs is written, so only that is built again."""
    wanted = set()
    for name in COPIED:
        source = ROOT / name
        for path in source.rglob("*") if source.is_dir() else [source]:
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            copy = target / path.relative_to(ROOT)
            wanted.add(copy)
            if not copy.exists() or copy.read_bytes() != path.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
    for name in COPIED:
        for path in (target / name).rglob("*"):
            if path.is_file() and path not in wanted:
                path.unlink()


def run(command, folder, limit):
    try:
        return subprocess.run(command, cwd=folder, timeout=limit, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except subprocess.TimeoutExpired:
        return None  # a test that never ends has noticed


def verdict(build, target):
    built = run(["cmake", "--build", str(build), "--target", target], build, 900)
    if built is None or built.returncode != 0:
        return "does not compile"
    tested = run([str(build / "tests" / target.removeprefix("test_") / target), "--abort"], build, 300)
    return "survives" if tested is not None and tested.returncode == 0 else "killed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--copy", type=pathlib.Path, default=ROOT / "build/mutation", help="folder of the copy")
    options = parser.parse_args()
    chosen = list(mutants(options.prefix))
    if options.list:
        print(f"{len(chosen)} mutants")
        return 0
    options.copy.mkdir(parents=True, exist_ok=True)
    copy_tree(options.copy)
    shared = ROOT.parent / "shared"
    if shared.exists() and not (options.copy.parent / "shared").exists():
        (options.copy.parent / "shared").symlink_to(os.path.realpath(shared))
    build = options.copy / "build/dev"
    subprocess.run(["cmake", "--preset", "dev", "-DEPLB_HDF5=OFF", "-DEPLB_WERROR=OFF"], cwd=options.copy, check=True, stdout=subprocess.DEVNULL)
    targets = {number: f"test_{file.split('/')[1]}" for number, file, _, _ in chosen}
    for target in sorted(set(targets.values())):
        if verdict(build, target) != "survives":
            sys.exit(f"{target} fails without any mutant")
    survivors = 0
    for number, file, old, new in chosen:
        path = options.copy / file
        original = path.read_text()
        path.write_text(original.replace(old, new))
        result = verdict(build, targets[number])
        path.write_text(original)
        survivors += result == "survives"
        print(f"{result:<17} mutants.txt:{number}  {file}  {' '.join(old.split())}  ->  {new}", flush=True)
    print(f"{survivors} of {len(chosen)} survive")
    return int(survivors * 20 > len(chosen))


if __name__ == "__main__":
    sys.exit(main())
