#!/usr/bin/env python3
"""Every link of the documents to a file or a heading has a target, and every source file that they name exists."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
documents = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def anchors(text):
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def without_code(text):
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


SOURCE_FILE = re.compile(r"(?:lib|apps|tests|scripts|cmake|docs|data)/[\w./-]*\w/?")

broken = 0
for document in documents:
    for name in re.findall(r"`([^`\n]*)`", document.read_text()):
        if SOURCE_FILE.fullmatch(name) and "NAME" not in name and not (root / name).exists():
            print(f"{document.relative_to(root)}: there is no {name}")
            broken += 1
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(document.read_text())):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (document.parent / name).resolve() if name else document
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            print(f"{document.relative_to(root)}: the link {target} leads nowhere")
            broken += 1
sys.exit(broken > 0)
