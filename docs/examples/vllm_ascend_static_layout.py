"""vllm-ascend (model runner V1): put a static layout in force while the server starts.

First write the map file that the engine reads, from the layout of `eplb-fit` with rows for the layers with experts:

    python3 docs/examples/vllm_ascend_static_layout.py layout.json expert_map.json

and name it in additional_config, eplb_config.expert_map_path. Then install this file as a module and name `register` as an
entry point of the group vllm.general_plugins, which runs in every worker. Environment: EPLB_LAYOUT, EPLB_MODEL, EPLB_FACTS,
and

    EPLB_ADAPTER=vllm-ascend-w8a8-list   the version of the engine is added here
    EPLB_SERVER_ARGS=serve.sh            the server's command line, or its arguments as a JSON object

Releases up to 0.23 load the weights by the file, later ones leave them in the linear layout: which it was, the contents say,
compared with the checkpoint after loading. In the second case the slots are moved before graphs are captured. Either way every
entry of the engine's log2phy must then be the slot that the admitted table says.
"""
import importlib.metadata
import os
import sys

_startups = []  # of the model that is being loaded


def wrap_loader(loader_class):
    """Between the engine's loading and its processing of the weights, every slot is compared with the checkpoint."""
    original = loader_class.load_weights

    def load_weights(loader, model, *arguments, **options):
        result = original(loader, model, *arguments, **options)
        for startup in _startups:
            startup.weights_loaded(model)
        return result

    loader_class.load_weights = load_weights


def wrap_runner(runner_class, startup_of):
    original = runner_class.load_model

    def load_model(runner, *arguments, **options):
        startup = startup_of()
        _startups.append(startup)
        try:
            result = original(runner, *arguments, **options)
        finally:
            _startups.remove(startup)
        attestation = startup.weights_ready(runner.model)
        if not attestation.ok:
            raise RuntimeError(f"eplb: not in force: {attestation.reason}")
        return result

    runner_class.load_model = load_model


def register():
    from eplb_loader.startup import Startup
    from vllm.distributed import get_ep_group
    from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
    from vllm_ascend.worker.model_runner_v1 import NPUModelRunner

    def startup_of():
        os.environ["EPLB_ADAPTER"] = os.environ["EPLB_ADAPTER"].partition("@")[0] + "@" + importlib.metadata.version("vllm-ascend")
        group = get_ep_group()
        return Startup("vllm-ascend", os.environ["EPLB_SERVER_ARGS"], group.rank_in_group, group.world_size, group.cpu_group)

    wrap_loader(DefaultModelLoader)
    wrap_runner(NPUModelRunner, startup_of)


def main(layout, target):
    from eplb_loader import Layout

    Layout.load(layout).write_expert_map(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
