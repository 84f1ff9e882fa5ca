"""SGLang: verify a static layout after loading, and dispatch by our table.

Start the server through this file instead of sglang.launch_server, with the flags of docs/loading.md:

    EPLB_LAYOUT=layout.json EPLB_ADAPTER=sglang-npu-w8a8 EPLB_MODEL=MODEL \\
        EPLB_FACTS='{"dispatch": "omni", "nodes": 2, "quant": "w8a8", "shared_fusion": false}' \\
        python3 docs/examples/sglang_static_layout.py --model-path MODEL --ep-size 16 ... --init-expert-location layout.json

The server spawns its schedulers, and what is patched in the launcher is not patched in them. So this file starts the server
as a child with a sitecustomize.py on its PYTHONPATH, which every Python of it runs: there the model loader and the model
runner are wrapped as soon as they are imported. (Releases that load plugins do the same with `register` as an entry point of
the group sglang.srt.plugins.) Each rank writes into its log what it did, and any failure stops the server on every rank. A
server that opens its port before every rank of this host has the layout in force is killed: the hooks did not run.
"""
import dataclasses
import importlib.abc
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

LOADER, RUNNER = "sglang.srt.model_loader.loader", "sglang.srt.model_executor.model_runner"
SITECUSTOMIZE = "import sys; sys.path.insert(0, {folder!r}); import {module}; {module}.arm(); {module}.run_shadowed({own!r})\n"
_startups = []  # of the model that is being loaded


def wrap_loader(module):
    """Between the engine's loading and its processing of the weights, every slot is compared with the checkpoint."""
    original = module.DefaultModelLoader.load_weights_and_postprocess

    def load_weights_and_postprocess(model, weights, *arguments, **options):
        load = model.load_weights

        def load_and_prove(*own_arguments, **own_options):
            result = load(*own_arguments, **own_options)
            for startup in _startups:
                startup.weights_loaded(model)
            return result

        model.load_weights = load_and_prove
        try:
            return original(model, weights, *arguments, **options)
        finally:
            del model.load_weights

    module.DefaultModelLoader.load_weights_and_postprocess = staticmethod(load_weights_and_postprocess)


def wrap_runner(module):
    """After loading and before graphs are captured, the slots are verified and the table is replaced."""
    original = module.ModelRunner.load_model

    def load_model(runner, *arguments, **options):
        if getattr(runner, "is_draft_worker", False):  # its layers have no row in the layout
            return original(runner, *arguments, **options)
        from eplb_loader.startup import Startup
        from sglang.srt.distributed import get_moe_expert_parallel_rank, get_moe_expert_parallel_world_size, get_world_group
        from sglang.srt.eplb.expert_location import get_global_expert_location_metadata

        startup = Startup("sglang", dataclasses.asdict(runner.server_args), get_moe_expert_parallel_rank(),
                          get_moe_expert_parallel_world_size(), get_world_group().cpu_group)
        _startups.append(startup)
        try:
            result = original(runner, *arguments, **options)
        finally:
            _startups.remove(startup)
        metadata = get_global_expert_location_metadata()
        startup.require_map(metadata.physical_to_logical_map)
        startup.weights_ready(runner.model, source="loaded")
        startup.replace_table(runner.model, metadata.logical_to_rank_dispatch_physical_map)
        return result

    module.ModelRunner.load_model = load_model


WRAPPERS = {LOADER: wrap_loader, RUNNER: wrap_runner}


def register():
    """Wraps now: for a plugin, which is called when the engine can be imported."""
    for name, wrap in WRAPPERS.items():
        wrap(importlib.import_module(name))


def arm():
    """Wraps each module when it is imported, in this process."""
    sys.meta_path.insert(0, _Wrapping())


class _Wrapping(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in WRAPPERS:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        spec = next((spec for finder in others if (spec := finder.find_spec(name, path, target))), None)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                WRAPPERS[name](module)

            spec.loader.exec_module = exec_module
        return spec


def run_shadowed(own):
    """Runs the sitecustomize that ours stands in front of, if there is one."""
    for folder in sys.path:
        path = os.path.join(folder, "sitecustomize.py")
        if os.path.isfile(path) and not os.path.samefile(path, own):
            spec = importlib.util.spec_from_file_location("shadowed_sitecustomize", path)
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
            return


def ranks_of_this_host(arguments):
    with open(os.path.splitext(os.environ["EPLB_LAYOUT"])[0] + ".manifest.json", encoding="utf-8") as file:
        ranks = json.load(file)["layout"]["geometry"]["ranks"]
    return ranks // int(option(arguments, "--nnodes", 1))


def option(arguments, name, default):
    for index, argument in enumerate(arguments):
        if argument == name:
            return arguments[index + 1]
        if argument.startswith(name + "="):
            return argument[len(name) + 1:]
    return default


def is_open(arguments):
    host = option(arguments, "--host", "127.0.0.1")
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1" if host == "0.0.0.0" else host, int(option(arguments, "--port", 30000)))) == 0


def main(arguments, command=(sys.executable, "-m", "sglang.launch_server")):
    wanted = ranks_of_this_host(arguments)
    if is_open(arguments):
        print("eplb: something answers on the server's port already", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        hook = os.path.join(folder, "sitecustomize.py")
        with open(hook, "w", encoding="utf-8") as file:
            file.write(SITECUSTOMIZE.format(folder=os.path.dirname(os.path.abspath(__file__)),
                                            module=os.path.splitext(os.path.basename(__file__))[0], own=hook))
        started = os.path.join(folder, "started")
        os.mkdir(started)
        path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
        server = subprocess.Popen([*command, *arguments], start_new_session=True,
                                  env={**os.environ, "PYTHONPATH": path, "EPLB_STARTED": started})
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, frame: os.killpg(server.pid, received))
        while server.poll() is None:
            opened = is_open(arguments)
            ready = len(os.listdir(started))
            if ready == wanted:
                print(f"eplb: the layout is in force on all {wanted} ranks of this host", flush=True)
                return server.wait()
            if opened:
                print(f"eplb: the server serves, and the layout is in force on {ready} of {wanted} ranks of this host: the hooks "
                      "did not run; stopped", file=sys.stderr, flush=True)
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
                return 1
            time.sleep(0.2)
        return server.returncode or 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
