"""Engines whose way with a layout changed from release to release: one period for each way, chosen by the version."""
import dataclasses
import json
import os
import re

_FILE = os.path.join(os.path.dirname(__file__), "periods.json")


@dataclasses.dataclass(frozen=True)
class Period:
    first: str     # version
    before: str    # the first version that is no longer of the period
    modules: str   # where the tensors of the experts are, under the block
    weights: str   # "file": loaded by the layout; "linear": they stay where they are without one


def periods(engine):
    """Of an engine, ascending; none where nothing that matters here has changed."""
    with open(_FILE, encoding="utf-8") as file:
        return [Period(**one) for one in json.load(file).get(engine, [])]


def period_of(engine, version):
    """The Period of an engine's version, None for an engine that has none. Raises ValueError for a version that is of no
    known period."""
    known = periods(engine)
    if not known:
        return None
    ranges = ", ".join(f"{one.first} until before {one.before}" for one in known)
    if not version:
        raise ValueError(f"{engine} has changed over time: add the version as in @{known[-1].first} ({ranges})")
    for one in known:
        if _key(one.first) <= _key(version) < _key(one.before):
            return one
    raise ValueError(f"{engine} {version} is of no period that is known here ({ranges})")


def _key(version):
    """Ascending with versions: 0.24.0rc1 comes before 0.24.0."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?(.*)", version)
    if match is None:
        raise ValueError(f"'{version}' is no version")
    before = re.match(r"\.?(a|b|rc|dev)", match[4])
    return int(match[1]), int(match[2]), int(match[3] or 0), 0 if before else 1
