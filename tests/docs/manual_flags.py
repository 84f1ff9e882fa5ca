#!/usr/bin/env python3
"""A manual page names every flag of its program, and no other."""
import pathlib
import re
import subprocess
import sys

program, page = sys.argv[1:]
printed = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
in_help = set(re.findall(r"^  (?:-\w,)?--([a-z][a-z-]*)", printed.split("\nExamples:")[0], re.MULTILINE))
in_page = set(re.findall(r"Fl Fl ([a-z][a-z-]*)", pathlib.Path(page).read_text()))
for flag in sorted(in_help - in_page):
    print(f"{page}: --{flag} is missing")
for flag in sorted(in_page - in_help):
    print(f"{page}: --{flag} is no flag of the program")
sys.exit(in_help != in_page)
