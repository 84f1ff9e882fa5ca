"""The example scripts of docs/examples run from their entry points, against stand-ins of the engines' modules: every import,
call and argument happens, the names of tensors are those of the adapters, and the layout is in force at the end.

What the stand-ins are is what was read of the engines; that an engine of today is still like them is not shown here.
"""
import dataclasses
import importlib.util
import json
import os
import random
import sys
import tempfile
import types
import unittest

import torch

import moe
from eplb_loader import InstallError, Layout, attest
from ranks import run_ranks

EXAMPLES = os.path.join(os.environ["EPLB_SOURCE_DIR"], "docs", "examples")
EXPERTS, RANKS, SLOTS, LAYERS, HIDDEN = 8, 4, 3, 2, 6


def module(name, **members):
    """A stand-in module and the packages that it is in."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
    vars(sys.modules[name]).update(members)


def example(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(EXAMPLES, name + ".py"))
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def value_of(layer, expert, index, shape, dtype):
    """What tensor `index` of an expert holds after loading: no two experts alike."""
    generator = torch.Generator().manual_seed(1000 * layer + 10 * expert + index)
    return torch.randint(0, 100, shape, generator=generator).to(dtype)


def sglang_model(layout, rank):
    """w8a8 on NPU as the engine leaves it: stacked, with the bf16 copies of the scales, router and shared expert beside."""
    shapes = {"w13_weight": ((HIDDEN, 8), torch.int8), "w2_weight": ((4, HIDDEN), torch.int8),
              "w13_weight_scale": ((8,), torch.float32), "w13_weight_scale_bf16": ((8,), torch.bfloat16),
              "w2_weight_scale": ((HIDDEN,), torch.float32), "w2_weight_scale_bf16": ((HIDDEN,), torch.bfloat16)}
    return model_of(layout, rank, shapes, stacked=True)


def vllm_ascend_model(layout, rank):
    """w8a8 in list mode: one tensor a slot, stacked parameters are gone, the offsets still stacked."""
    shapes = {"w13_weight_list": ((HIDDEN, 8), torch.int8), "w2_weight_list": ((4, HIDDEN), torch.int8),
              "w13_weight_scale_fp32_list": ((8,), torch.float32), "w2_weight_scale_list": ((HIDDEN,), torch.float32),
              "w13_weight_offset": ((8,), torch.float32), "w2_weight_offset": ((HIDDEN,), torch.float32)}
    return model_of(layout, rank, shapes, stacked=False)


def model_of(layout, rank, shapes, stacked):
    model = torch.nn.Module()
    model.model = torch.nn.Module()
    model.model.layers = torch.nn.ModuleList()
    for layer in range(LAYERS):
        part, row = torch.nn.Module(), layout.row(layer, rank)
        part.mlp = torch.nn.Module()
        part.mlp.gate = torch.nn.Linear(HIDDEN, EXPERTS, bias=False)
        part.mlp.gate.e_score_correction_bias = torch.nn.Parameter(torch.rand(EXPERTS))
        part.mlp.shared_experts = torch.nn.Linear(HIDDEN, HIDDEN)
        part.mlp.experts = torch.nn.Module()
        torch.manual_seed(layer)
        torch.nn.init.uniform_(part.mlp.gate.weight)
        for index, (name, (shape, dtype)) in enumerate(shapes.items()):
            slots = [value_of(layer, expert, index, shape, dtype) for expert in row]
            if name.endswith("_list"):
                setattr(part.mlp.experts, name, slots)
            else:
                part.mlp.experts.register_parameter(name, torch.nn.Parameter(torch.stack(slots), requires_grad=False))
        model.model.layers.append(part)
    return model


def holds(model, layout, rank, name, index):
    """Whether every slot of a tensor holds its expert."""
    return all(torch.equal(getattr(part.mlp.experts, name)[slot], value_of(layer, expert, index, other.shape, other.dtype))
               for layer, part in enumerate(model.model.layers)
               for slot, expert in enumerate(layout.row(layer, rank))
               for other in [getattr(part.mlp.experts, name)[slot]])


def environment(folder, adapter, facts, **more):
    os.environ.update(EPLB_LAYOUT=os.path.join(folder, "layout.json"), EPLB_ADAPTER=adapter, EPLB_MODEL_CONFIG=folder,
                      EPLB_FACTS=json.dumps(facts), **more)


@dataclasses.dataclass
class ServerArgs:
    """Some of SGLang's arguments, as its dataclass names them."""
    model_path: str = "MODEL"
    ep_size: int = RANKS
    tp_size: int = RANKS
    nnodes: int = 1
    quantization: str = "w8a8"
    moe_a2a_backend: str = "deepep"
    ep_num_redundant_experts: int = RANKS * SLOTS - EXPERTS
    ep_dispatch_algorithm: str = "static"
    enable_eplb: bool = False
    disaggregation_mode: str = "prefill"
    init_expert_location: str = "trivial"
    disable_shared_experts_fusion: bool = False
    mem_fraction_static: float = 0.8


@dataclasses.dataclass
class Metadata:
    physical_to_logical_map: torch.Tensor
    logical_to_rank_dispatch_physical_map: torch.Tensor


def start_sglang(rank, ranks, folder, fault):
    layout = Layout.load(os.path.join(folder, "layout.json"), ranks)
    metadata = Metadata(layout.map.to(torch.int64), torch.zeros(LAYERS, EXPERTS, dtype=torch.int64))
    address = metadata.logical_to_rank_dispatch_physical_map.data_ptr()

    class ModelRunner:
        def __init__(self, server_args):
            self.server_args = server_args

        def load_model(self):
            self.model = sglang_model(layout, rank)
            if fault == "weights" and rank == 2:
                self.model.model.layers[1].mlp.experts.w13_weight_scale_bf16.data[0] += 1
            if fault == "map" and rank == 1:
                metadata.physical_to_logical_map = metadata.physical_to_logical_map.roll(1, 0)
            return "loaded"

    runners = []

    def run_server(server_args):
        runners.append(ModelRunner(server_args))
        assert runners[0].load_model() == "loaded"

    def prepare_server_args(argv):
        location = argv[argv.index("--init-expert-location") + 1]
        return ServerArgs(init_expert_location=location, ep_size=5 if fault == "arguments" else RANKS)

    group = types.SimpleNamespace(cpu_group=torch.distributed.group.WORLD)
    module("sglang.launch_server", run_server=run_server)
    module("sglang.srt.distributed", get_moe_expert_parallel_rank=lambda: rank,
           get_moe_expert_parallel_world_size=lambda: ranks, get_world_group=lambda: group)
    module("sglang.srt.eplb.expert_location", get_global_expert_location_metadata=lambda: metadata)
    module("sglang.srt.model_executor.model_runner", ModelRunner=ModelRunner)
    module("sglang.srt.server_args", prepare_server_args=prepare_server_args)
    environment(folder, "sglang-npu-w8a8", {"dispatch": "omni", "nodes": 1, "shared_fusion": False})
    sys.argv = ["x", "--model-path", "MODEL", "--init-expert-location", os.environ["EPLB_LAYOUT"]]
    try:
        example("sglang_static_layout").main()
    except InstallError as error:
        assert not attest(runners[0].model).ok
        assert not metadata.logical_to_rank_dispatch_physical_map.any(), "the table was replaced although nothing is in force"
        return str(error)
    own = metadata.logical_to_rank_dispatch_physical_map
    assert attest(runners[0].model).ok and own.data_ptr() == address
    assert torch.equal(own.to(torch.int32), layout.dispatch_table("omni", 1)[rank])
    return "in force"


def start_vllm_ascend(rank, ranks, folder, fault):
    layout = Layout.load(os.path.join(folder, "layout.json"), ranks)
    linear = Layout.linear(LAYERS, EXPERTS, ranks, SLOTS)

    class NPUModelRunner:
        def load_model(self):
            self.model = vllm_ascend_model(layout if fault == "engine loads by the map" else linear, rank)

    group = types.SimpleNamespace(rank_in_group=rank, world_size=ranks, device_group=torch.distributed.group.WORLD)
    module("vllm.distributed", get_ep_group=lambda: group)
    module("vllm_ascend.worker.model_runner_v1", NPUModelRunner=NPUModelRunner)
    environment(folder, "vllm-ascend-w8a8-list",
                {"role": "decode" if fault == "role" and rank == 3 else "prefill", "quant": "w8a8", "dispatch": "vllm-ascend",
                 "shared_fusion": False}, EPLB_SERVER_ARGS=os.path.join(folder, "serve.sh"))
    example("vllm_ascend_static_layout").register()
    runner = NPUModelRunner()
    try:
        runner.load_model()
    except InstallError as error:
        assert not attest(runner.model).ok
        return str(error)
    assert attest(runner.model).ok
    for index, name in enumerate(["w13_weight_list", "w2_weight_list", "w13_weight_scale_fp32_list",
                                  "w2_weight_scale_list", "w13_weight_offset", "w2_weight_offset"]):
        assert holds(runner.model, layout, rank, name, index), name
    return "in force"


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        rows = moe.random_rows(LAYERS, EXPERTS, RANKS, SLOTS, random.Random(3))
        layout = Layout(rows, EXPERTS, RANKS)
        path = os.path.join(self.folder, "layout.json")
        moe.write_layout(path, rows)
        moe.write_manifest(path, layout, "prefill")
        with open(os.path.join(self.folder, "config.json"), "w") as file:
            json.dump({"model_type": "qwen3_moe", "num_hidden_layers": LAYERS, "num_experts": EXPERTS,
                       "n_shared_experts": 1}, file)
        with open(os.path.join(self.folder, "serve.sh"), "w") as file:
            file.write("vllm serve MODEL --tensor-parallel-size 4 --enable-expert-parallel --additional-config "
                       f"'{{\"eplb_config\": {{\"num_redundant_experts\": {RANKS * SLOTS - EXPERTS}, \"dynamic_eplb\": false}}}}'")

    def all_say(self, function, fault, pattern):
        for answer in run_ranks(RANKS, function, self.folder, fault):
            self.assertRegex(answer, pattern)

    def test_sglang(self):
        self.all_say(start_sglang, None, "^in force$")

    def test_sglang_that_left_a_scale_behind(self):
        self.all_say(start_sglang, "weights", "w13_weight_scale_bf16: expert .* the engine did not load this layout")

    def test_sglang_that_holds_another_map_on_one_rank(self):
        self.all_say(start_sglang, "map", "rank 1: the engine holds another map")

    def test_sglang_with_another_ep_size(self):
        self.all_say(start_sglang, "arguments", "RANKS_DIFFER")

    def test_vllm_ascend(self):
        self.all_say(start_vllm_ascend, None, "^in force$")

    def test_vllm_ascend_that_loads_by_the_map_itself(self):
        self.all_say(start_vllm_ascend, "engine loads by the map", "the slots do not hold the layout they are said to hold")

    def test_vllm_ascend_with_another_role_on_one_rank(self):
        self.all_say(start_vllm_ascend, "role", "rank 3: .*ROLE_MISMATCH")


if __name__ == "__main__":
    unittest.main()
