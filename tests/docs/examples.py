#!/usr/bin/env python3
"""Runs the examples of a document, top to bottom, in one empty folder.

In Markdown an example is a fenced block marked `console`; in a manual page it is a literal display with a line that starts
with "$ ". Lines that start with "$ " are commands; lines below one are what it prints, in the language of
tests/apps/transcript.py ("..." stands for any number of lines, "<any>" inside a line for any text). Where a document shows
no output, any output will do; the exit code must be 0 and stderr empty all the same. Figures with three decimals or more
may differ by 2 %, so that not every change of the fitter touches the documents.

--update rewrites the console blocks of a Markdown file with what the commands print now; around a "..." it keeps as many
first and last lines as were shown.
"""
import argparse
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "apps"))
import transcript

CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"\d+\.\d{3,}")
LITERAL = re.compile(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed", re.MULTILINE | re.DOTALL)


def blocks(path):
    """The steps (command, expected lines) of each block of examples."""
    text = path.read_text()
    if path.suffix == ".1":
        found = [block.replace("\\&", "").replace("\\-", "-") for block in LITERAL.findall(text)]
        return [transcript.parse(block) for block in found if block.startswith("$ ")]
    return [transcript.parse(block) for block in CONSOLE.findall(text)]


def shortened(actual, like):
    """The lines to show: all, or as many first and last ones as `like` shows around its "..."."""
    if "..." not in like:
        return actual if like else []
    first, last = like.index("..."), len(like) - 1 - like.index("...")
    return actual[:first] + ["..."] + (actual[-last:] if last else [])


def matches(expected, actual):
    if transcript.matches(expected, actual):
        return True
    if not transcript.matches([FIGURE.sub("<any>", line) for line in expected], actual):
        return False
    shown = [FIGURE.findall("\n".join(lines)) for lines in (expected, shortened(actual, expected))]
    return all(abs(float(old) - float(new)) <= 0.02 * float(old) for old, new in zip(*shown))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--programs", required=True, help="folder that holds the folders of the programs")
    arguments.add_argument("--update", action="store_true", help="write what the commands print into the document")
    arguments.add_argument("document", type=pathlib.Path)
    options = arguments.parse_args()

    variables = transcript.environment(options.programs)
    differ, printed = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for steps in blocks(options.document):
            lines = []
            for command, expected in steps:
                actual = transcript.run(command, folder, variables)
                same = (transcript.matches if options.update else matches)(expected or ["..."], actual)
                if not same:
                    differ += 1
                    print("\n".join([f"$ {command}", "--- the document says", *expected, "--- printed", *actual, ""]))
                lines += [f"$ {command}", *(expected if same else shortened(actual, expected)), ""]
            printed.append("\n".join(lines[:-1]) + "\n")
    if not printed:
        sys.exit(f"{options.document} has no example")
    if options.update:
        new = iter(printed)
        text = CONSOLE.sub(lambda block: f"```console\n{next(new)}```", options.document.read_text())
        options.document.write_text(text)
        return 0
    if differ:
        print(f"if that is right: tests/docs/examples.py --programs {options.programs} --update {options.document}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
