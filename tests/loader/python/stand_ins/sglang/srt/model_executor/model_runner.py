import os

import torch
from sglang.srt import distributed
from sglang.srt.eplb.expert_location import get_global_expert_location_metadata
from sglang.srt.model_loader.loader import DefaultModelLoader


class ModelRunner:
    def __init__(self, server_args, is_draft_worker=False):
        self.server_args, self.is_draft_worker = server_args, is_draft_worker

    def load_model(self):
        rank, fault = distributed.RANK, os.environ.get("STAND_IN_FAULT")
        metadata = get_global_expert_location_metadata()
        rows = metadata.physical_to_logical_map
        layers, experts = rows.shape[0], int(rows.max()) + 1
        if fault == "ignores":
            rows = (torch.arange(rows.shape[1]) % experts).repeat(layers, 1)
        slots = rows.shape[1] // self.server_args.ep_size
        own = rows[:, rank * slots:(rank + 1) * slots].tolist()
        self.model = DefaultModelLoader().load_model(self.server_args, own, layers, experts)
        if fault == "weights" and rank == 2:
            self.model.model.layers[1].mlp.experts.w13_weight_scale_bf16.data[0] += 1
        if fault == "map" and rank == 1:
            metadata.physical_to_logical_map = metadata.physical_to_logical_map.roll(1, 0)
