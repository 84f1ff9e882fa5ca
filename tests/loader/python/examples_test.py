"""The example scripts of docs/examples, run from their entry points against stand-ins of the engines: processes are spawned as the
engine spawns them, the names of classes, modules and tensors are the engine's, and the layout is in force at the end.

What the stand-ins are is what was read of the engines; that an engine of today is still like them is not shown here.
"""
import contextlib
import importlib.metadata
import importlib.util
import io
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import types
import unittest

import torch

import moe
from checkpoint_test import write_checkpoint
from eplb_loader import InstallError, Layout, attest
from ranks import run_ranks

SOURCE = os.environ["EPLB_SOURCE_DIR"]
EXAMPLES = os.path.join(SOURCE, "docs", "examples")
STAND_INS = os.path.join(SOURCE, "tests", "loader", "python", "stand_ins")
sys.path.insert(0, STAND_INS)
import npu_experts  # noqa: E402

EXPERTS, RANKS, SLOTS = 16, 4, 5


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


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        rows = moe.random_rows(moe.LAYERS, EXPERTS, RANKS, SLOTS, random.Random(3))
        self.layout = Layout(rows, EXPERTS, RANKS)
        path = self.path("layout.json")
        moe.write_layout(path, rows)
        moe.write_manifest(path, self.layout, "prefill")
        write_checkpoint(self.path("MODEL"), moe.checkpoint(EXPERTS), 1)

    def path(self, name):
        return os.path.join(self.folder, name)


class SGLang(Examples):
    def start(self, fault="", command=None, **environment):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        facts = {"dispatch": "omni", "nodes": 1, "quant": "w8a8", "shared_fusion": False}
        script = command or [os.path.join(EXAMPLES, "sglang_static_layout.py")]
        result = subprocess.run(
            [sys.executable, "-B", *script, "--model-path", self.path("MODEL"), "--ep-size", str(RANKS), "--host", "127.0.0.1",
             "--port", str(port), "--init-expert-location", self.path("layout.json")],
            capture_output=True, text=True, timeout=200,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([STAND_INS, os.environ["PYTHONPATH"]]),
                 "EPLB_LAYOUT": self.path("layout.json"), "EPLB_ADAPTER": "sglang-npu-w8a8", "EPLB_MODEL": self.path("MODEL"),
                 "EPLB_FACTS": json.dumps(facts), "STAND_IN_STORE": self.path(f"store{fault}"), "STAND_IN_FAULT": fault,
                 "STAND_IN_REDUNDANT": str(RANKS * SLOTS - EXPERTS), **environment})
        return result.returncode, result.stdout, result.stderr

    def test_every_spawned_rank_says_what_it_did(self):
        code, output, errors = self.start(STAND_IN_DRAFT="1")
        self.assertEqual(code, 0, errors)
        for rank in range(RANKS):
            for said in ("is admitted, map hash", "the engine followed the layout", "in force, 15 slots and the routing verified"):
                self.assertIn(f"eplb rank {rank} of {RANKS}:", output)
                self.assertRegex(output, f"eplb rank {rank} of {RANKS}: .*{said}")
        self.assertIn(f"the layout is in force on all {RANKS} ranks of this host", output)
        self.assertIn("serving", output)

    def test_faults_end_the_start(self):
        for fault, pattern in (("weights", "rank 2: layer 1, experts.w13_weight_scale_bf16, slot 0: its bytes are not those of expert"),
                               ("map", "rank 1: the engine holds another map"),
                               ("ignores", "the engine did not load this layout")):
            with self.subTest(fault):
                code, output, errors = self.start(fault)
                self.assertNotEqual(code, 0)
                self.assertRegex(errors, pattern)
                self.assertNotIn("serving", output)
                self.assertNotIn("in force, ", output)

    def test_a_server_that_never_runs_the_hooks_is_stopped(self):
        # isolated mode runs no sitecustomize of PYTHONPATH: as if the engine dropped the environment
        with open(self.path("launch.py"), "w") as file:
            file.write(f"import sys; sys.path.insert(0, {EXAMPLES!r})\nimport sglang_static_layout as it\n"
                       f"sys.exit(it.main(sys.argv[1:], (sys.executable, '-I', {self.path('server.py')!r})))\n")
        with open(self.path("server.py"), "w") as file:
            file.write("import socket, sys, time\nport = int(sys.argv[sys.argv.index('--port') + 1])\n"
                       "with socket.create_server(('127.0.0.1', port)):\n    time.sleep(60)\n")
        code, output, errors = self.start(command=[self.path("launch.py")])
        self.assertEqual(code, 1)
        self.assertIn("the layout is in force on 0 of 4 ranks of this host: the hooks did not run; stopped", errors)


def start_vllm_ascend(rank, ranks, folder, version, fault):
    """One worker: `version` decides where the experts are and whether the engine loads weights by the file."""
    layout = Layout.load(os.path.join(folder, "layout.json"), ranks)
    tensors = npu_experts.checkpoint_of(os.path.join(folder, "MODEL"))
    modules = ("experts",) if version < "0.23" else ("experts", "routed_experts")
    follows = version < "0.24"
    form = "vllm-ascend-list" if fault == "list mode" else "vllm-ascend"
    map_path = os.path.join(folder, "expert_map.json")
    with open(map_path, encoding="utf-8") as file:  # as expert_file_to_tensor reads it
        read = json.load(file)
    placement = torch.tensor([[device["device_expert"] for device in layer["device_list"]] for layer in read["layer_list"]])
    table = layout.dispatch_table("vllm-ascend", 1, tensor_parallel=4)[rank]  # as serve.sh says

    class DefaultModelLoader:
        def load_weights(self, model, model_config):
            model.load_weights(tensors.items())

    class NPUModelRunner:
        def load_model(self):
            model = self.model = npu_experts.Model(layout.layers, layout.experts, layout.slots, modules)
            linear = Layout.linear(layout.layers, layout.experts, ranks, layout.slots)
            model.rows = placement[:, rank].tolist() if follows else [linear.row(row, rank) for row in range(layout.layers)]
            if fault == "half" and rank == 3:
                model.rows = [linear.row(row, rank) for row in range(layout.layers)] if follows else placement[:, rank].tolist()
            DefaultModelLoader().load_weights(model, None)
            for layer, part in enumerate(model.model.layers):
                experts = part.routed()
                npu_experts.process_weights_after_loading(experts, form)
                experts.register_buffer("log2phy", table[layer].clone())
                experts.register_buffer("moe_load", torch.zeros(layout.slots, dtype=torch.int64))
                experts.register_buffer("_expert_map", torch.full((layout.experts,), -1))
                experts.global_expert_map = torch.zeros(ranks, layout.experts)
                experts.expert_map_manager = types.SimpleNamespace(_expert_map=torch.zeros(ranks * layout.slots))
                if fault == "log2phy" and rank == 1 and layer == 2:
                    experts.log2phy[3] = experts.log2phy[4]

    group = types.SimpleNamespace(rank_in_group=rank, world_size=ranks, cpu_group=torch.distributed.group.WORLD)
    module("vllm.distributed", get_ep_group=lambda: group)
    module("vllm.model_executor.model_loader.default_loader", DefaultModelLoader=DefaultModelLoader)
    module("vllm_ascend.worker.model_runner_v1", NPUModelRunner=NPUModelRunner)
    importlib.metadata.version = lambda name: {"vllm-ascend": version}[name]
    facts = {"role": "decode" if fault == "role" and rank == 3 else "prefill", "quant": "w8a8", "dispatch": "vllm-ascend",
             "shared_fusion": False, "ranks": ranks, "nodes": 1}
    os.environ.update(EPLB_LAYOUT=os.path.join(folder, "layout.json"), EPLB_ADAPTER=form.replace("vllm-ascend", "vllm-ascend-w8a8"),
                      EPLB_MODEL=os.path.join(folder, "MODEL"), EPLB_FACTS=json.dumps(facts),
                      EPLB_SERVER_ARGS=os.path.join(folder, "serve.sh"))
    example("vllm_ascend_static_layout").register()
    runner = NPUModelRunner()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runner.load_model()
    except (InstallError, ValueError) as error:
        assert not hasattr(runner, "model") or not attest(runner.model).ok
        return str(error)
    assert attest(runner.model).ok
    assert npu_experts.is_right(runner.model, layout, rank, tensors, modules, form)
    wrong = sum(layout.row(layer)[slot] != expert for layer, part in enumerate(runner.model.model.layers)
                for expert, slot in enumerate(part.routed().log2phy.tolist()))
    assert wrong == 0, f"{wrong} wrong routing entries"
    return f"in force, found {attest(runner.model).found}"


class VllmAscend(Examples):
    def setUp(self):
        super().setUp()
        eplb = {"expert_map_path": self.path("expert_map.json"), "num_redundant_experts": RANKS * SLOTS - EXPERTS,
                "dynamic_eplb": False}
        example("vllm_ascend_static_layout").main(self.path("layout.json"), self.path("expert_map.json"))
        with open(self.path("serve.sh"), "w") as file:
            file.write("vllm serve MODEL --tensor-parallel-size 4 --enable-expert-parallel --additional-config "
                       f"'{json.dumps({'eplb_config': eplb})}'")

    def all_say(self, version, fault, pattern):
        for answer in run_ranks(RANKS, start_vllm_ascend, self.folder, version, fault):
            self.assertRegex(answer, pattern)

    def test_every_period(self):
        for version, found in (("0.13.0", "layout"), ("0.22.1", "layout"), ("0.23.0rc1", "layout"), ("0.23.1", "layout"),
                               ("0.24.0rc1", "current"), ("0.25.0", "current")):
            with self.subTest(version):
                self.all_say(version, None, f"^in force, found {found}$")

    def test_one_tensor_a_slot(self):
        self.all_say("0.24.0", "list mode", "^in force, found current$")

    def test_a_version_of_no_known_period(self):
        for version in ("0.12.0", "0.25.1"):
            self.all_say(version, None, f"vllm-ascend {version} is of no period that is known")

    def test_an_engine_that_half_obeys(self):
        for version in ("0.22.1", "0.24.0"):
            self.all_say(version, "half", "the slots hold neither the layout nor what they held before")

    def test_a_routing_entry_of_the_engine_that_is_wrong(self):
        self.all_say("0.23.0", "log2phy", r"rank 1: layer 2: expert 3 is routed to slot \d+, which holds expert 4")

    def test_another_role_on_one_rank(self):
        self.all_say("0.24.0", "role", "rank 3: .*ROLE_MISMATCH")


if __name__ == "__main__":
    unittest.main()
