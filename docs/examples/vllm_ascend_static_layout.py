"""vllm-ascend (model runner V1): move weights to a static layout after loading, before graph capture.

A plugin of vLLM: install this file as a module and name `register` as an entry point of the group vllm.general_plugins,
which runs in every worker. Environment:

    EPLB_LAYOUT=layout.json     the layout of `eplb-fit`, rows for the layers with experts, manifest beside it
    EPLB_ADAPTER=vllm-ascend-w8a8-list
    EPLB_SERVER_ARGS=serve.sh   the server's command line, or its arguments as a JSON object
    EPLB_MODEL_CONFIG=MODEL     the folder with the model's config.json
    EPLB_FACTS='{"role": "decode", "quant": "w8a8", "dispatch": "vllm-ascend", "shared_fusion": false}'
                                what the two do not say; any flag of `eplb-load check`

The engine must route by the same map: give it as expert_map_path (docs/loading.md). At the revision that was read it keeps
weights in the linear layout while it does so; if a later one loads weights by the map, use EPLB_SOURCE=loaded, which only
verifies. Both cases are told apart by hashes: replicas that differ stop the server.
"""
import json
import os


def wrap(runner_class, rank_of, group_of):
    """Wraps runner_class.load_model: `get_model()` has returned, and no graph is captured yet."""
    load = runner_class.load_model

    def load_and_install(runner, *arguments, **options):
        result = load(runner, *arguments, **options)
        put_in_force(runner.model, *rank_of(runner), group_of(runner))
        return result

    runner_class.load_model = load_and_install


def put_in_force(model, rank, ranks, group):
    from eplb_loader import Layout, admit, install_model, together

    facts = json.loads(os.environ.get("EPLB_FACTS", "{}"))
    with together(rank, ranks, group):
        layout = Layout.load(os.environ["EPLB_LAYOUT"], ranks)
        admit(layout, "vllm-ascend", server_args=os.environ.get("EPLB_SERVER_ARGS"),
              model_config=os.environ.get("EPLB_MODEL_CONFIG"), ranks=ranks, **facts)
    attestation = install_model(model, layout, rank, ranks, group, adapter=os.environ["EPLB_ADAPTER"],
                                source=os.environ.get("EPLB_SOURCE", "ranks"), nodes=int(facts.get("nodes", 1)))
    if rank == 0:
        print("eplb: layout in force:", attestation.to_json(), flush=True)


def register():
    from vllm.distributed import get_ep_group  # names as in releases of 2026; adjust to yours
    from vllm_ascend.worker.model_runner_v1 import NPUModelRunner

    wrap(NPUModelRunner, lambda runner: (get_ep_group().rank_in_group, get_ep_group().world_size),
         lambda runner: get_ep_group().device_group)
