#!/usr/bin/env python3
"""pick.py PATH...: the values at dotted paths of the JSON on stdin, one a line; results.0.part, notes.-1."""
import json
import sys

document = json.load(sys.stdin)
for path in sys.argv[1:]:
    value = document
    for key in path.split("."):
        value = value[int(key) if isinstance(value, list) else key]
    print(json.dumps(value))
