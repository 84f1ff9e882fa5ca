"""Prints static SGLang tables with CPython's own random: the oracle of cpython_test.cpp.

Input, one case a line: model nodes moe_tp ranks slots_per_rank experts layers map... (row-major).
Output, one line a case: the table [R * moe_tp, L, E], row-major. A restatement of the published rules that shares
nothing with the C++ code.
"""
import random
import sys

OWN_STREAMS = ("sglang-c", "sglang-d-subset", "sglang-d-elastic")
DEALS_SINGLE = ("sglang-a", "sglang-b-fill-all")
NO_NODE = ("sglang-a", "sglang-d-elastic")


def nearest(candidates, rank, slots, per_node, model):
    if len(candidates) == 1 and model not in DEALS_SINGLE:
        return candidates[0]
    for slot in candidates:
        if slot // slots == rank:
            return slot
    if model in NO_NODE:
        return -1
    on_node = [slot for slot in candidates if slot // (slots * per_node) == rank // per_node]
    if model == "sglang-d-subset" and len(on_node) == len(candidates):
        return -1
    return on_node[0] if on_node else -1


def fair_choices(candidates, k, stream):
    quotient, remainder = divmod(k, len(candidates))
    pool = candidates * quotient + stream.sample(candidates, remainder)
    stream.shuffle(pool)
    return pool


def build(rows, ranks, slots, experts, per_node, model, own_rank):
    """The columns [layers][experts] of all ranks, as rank own_rank computes them."""
    stream = random.Random(42)
    table = []
    for row in rows:
        lists = [[] for _ in range(experts)]
        for slot, expert in enumerate(row):
            lists[expert].append(slot)
        if model in OWN_STREAMS:
            for expert, candidates in enumerate(lists):
                slot = nearest(candidates, own_rank, slots, per_node, model)
                if slot != -1:
                    lists[expert] = [slot]
        columns = []
        for candidates in lists:
            column = [nearest(candidates, rank, slots, per_node, model) for rank in range(ranks)]
            missing = column.count(-1)
            if model == "sglang-a" or missing > 0:
                dealt = iter(fair_choices(candidates, missing, stream))
                column = [next(dealt) if slot == -1 else slot for slot in column]
            columns.append(column)
        table.append(columns)
    return table


for line in sys.stdin:
    model, *numbers = line.split()
    nodes, moe_tp, ranks, slots, experts, layers, *values = map(int, numbers)
    width = ranks * slots
    rows = [values[layer * width:(layer + 1) * width] for layer in range(layers)]
    tables = [build(rows, ranks, slots, experts, ranks // nodes, model, rank)
              for rank in range(ranks if model in OWN_STREAMS else 1)]
    answer = []
    for process in range(ranks * moe_tp):
        ep_rank = process // moe_tp
        row = ep_rank if model.startswith("sglang-d") else process % ranks
        answer += [column[row] for columns in tables[ep_rank % len(tables)] for column in columns]
    print(*answer)
