import os

import npu_experts
import torch


class DefaultModelLoader:
    def load_model(self, server_args, rows, layers, experts):
        model = npu_experts.Model(layers, experts, len(rows[0]))
        model.rows = rows
        self.load_weights_and_postprocess(model, npu_experts.checkpoint_of(server_args.model_path).items(), torch.device("cpu"))
        return model

    @staticmethod
    def load_weights_and_postprocess(model, weights, target_device):
        model.load_weights(weights)
        for part in model.model.layers:
            npu_experts.process_weights_after_loading(part.routed(), "sglang")
