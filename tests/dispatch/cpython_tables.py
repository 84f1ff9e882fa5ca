"""Prints static SGLang tables with CPython's own random: the oracle of cpython_test.cpp.

Input, one case a line: generation nodes ranks slots_per_rank experts layers map... (row-major).
Output, one line a case: the table [R, L, E], row-major. A restatement of the published rules that shares nothing with
the C++ code.
"""
import random
import sys


def nearest(candidates, rank, slots, per_node, generation):
    if generation != "a" and len(candidates) == 1:
        return candidates[0]
    for slot in candidates:
        if slot // slots == rank:
            return slot
    if generation != "a":
        for slot in candidates:
            if slot // (slots * per_node) == rank // per_node:
                return slot
    return -1


def fair_choices(candidates, k, stream):
    quotient, remainder = divmod(k, len(candidates))
    pool = candidates * quotient + stream.sample(candidates, remainder)
    stream.shuffle(pool)
    return pool


def build(rows, ranks, slots, experts, per_node, generation, own_rank):
    """The columns [layers][experts] of all ranks, as rank own_rank computes them."""
    stream = random.Random(42)
    table = []
    for row in rows:
        lists = [[] for _ in range(experts)]
        for slot, expert in enumerate(row):
            lists[expert].append(slot)
        if generation == "c":
            for expert, candidates in enumerate(lists):
                slot = nearest(candidates, own_rank, slots, per_node, generation)
                if slot != -1:
                    lists[expert] = [slot]
        columns = []
        for candidates in lists:
            column = [nearest(candidates, rank, slots, per_node, generation) for rank in range(ranks)]
            missing = column.count(-1)
            if generation == "a" or missing > 0:
                dealt = iter(fair_choices(candidates, missing, stream))
                column = [next(dealt) if slot == -1 else slot for slot in column]
            columns.append(column)
        table.append(columns)
    return table


for line in sys.stdin:
    generation, *numbers = line.split()
    nodes, ranks, slots, experts, layers, *values = map(int, numbers)
    width = ranks * slots
    rows = [values[layer * width:(layer + 1) * width] for layer in range(layers)]
    tables = [build(rows, ranks, slots, experts, ranks // nodes, generation, rank)
              for rank in range(ranks if generation == "c" else 1)]
    print(*[column[rank] for rank in range(ranks) for columns in tables[rank % len(tables)] for column in columns])
