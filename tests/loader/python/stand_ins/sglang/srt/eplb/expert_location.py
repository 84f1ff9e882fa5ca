import dataclasses
import json

import torch


@dataclasses.dataclass
class ExpertLocationMetadata:
    physical_to_logical_map: torch.Tensor
    logical_to_rank_dispatch_physical_map: torch.Tensor


_global = None


def init(server_args, rank):
    """The map of the server's flag; the table sends everything to the first replica."""
    global _global
    with open(server_args.init_expert_location, encoding="utf-8") as file:
        rows = json.load(file)["physical_to_logical_map"]
    table = [[row.index(expert) for expert in range(max(row) + 1)] for row in rows]
    _global = ExpertLocationMetadata(torch.tensor(rows), torch.tensor(table))


def get_global_expert_location_metadata():
    return _global
