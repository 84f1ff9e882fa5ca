#!/usr/bin/env python3
"""A manual page names every flag of its program, and no other."""
import pathlib
import re
import subprocess
import sys

program, page = sys.argv[1:]


def help_of(*subcommand):
    printed = subprocess.run([program, *subcommand, "--help"], capture_output=True, text=True, check=True).stdout
    return printed.split("\nExamples:")[0]


def flags(text):
    return set(re.findall(r"^  (?:-\w,)?--([a-z][a-z0-9-]*)", text, re.MULTILINE))


main_help = help_of()
in_help = flags(main_help)
for subcommand in re.findall(r"^  (\w+) ", main_help.partition("\nSubcommands:")[2], re.MULTILINE):
    in_help |= flags(help_of(subcommand))
in_page = set(re.findall(r"Fl Fl ([a-z][a-z0-9-]*)", pathlib.Path(page).read_text()))
for flag in sorted(in_help - in_page):
    print(f"{page}: --{flag} is missing")
for flag in sorted(in_page - in_help):
    print(f"{page}: --{flag} is no flag of the program")
sys.exit(in_help != in_page)
