import types

import torch.distributed as dist

RANK = None


def get_moe_expert_parallel_rank():
    return RANK


def get_moe_expert_parallel_world_size():
    return dist.get_world_size()


def get_world_group():
    return types.SimpleNamespace(cpu_group=dist.group.WORLD)
