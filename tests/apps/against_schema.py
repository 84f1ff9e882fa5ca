#!/usr/bin/python3
"""against_schema.py NAME: the JSON on stdin obeys data/schemas/NAME.schema.json; prints "ok" or the first violation."""
import json
import pathlib
import sys

import jsonschema

name = sys.argv[1]
schemas = pathlib.Path(__file__).resolve().parents[2] / "data" / "schemas"
schema = json.loads((schemas / f"{name}.schema.json").read_text())
jsonschema.Draft7Validator.check_schema(schema)
error = jsonschema.exceptions.best_match(jsonschema.Draft7Validator(schema).iter_errors(json.load(sys.stdin)))
if error:
    sys.exit(f"{error.json_path}: {error.message}")
print("ok")
