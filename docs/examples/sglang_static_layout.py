"""SGLang: verify a static layout after loading, and dispatch by our table.

Start the server through this file instead of sglang.launch_server, with the flags of docs/loading.md:

    EPLB_LAYOUT=layout.json EPLB_ADAPTER=sglang-npu-w8a8 EPLB_MODEL_CONFIG=MODEL \\
        EPLB_FACTS='{"dispatch": "omni", "nodes": 2, "quant": "w8a8", "shared_fusion": false}' \\
        python3 docs/examples/sglang_static_layout.py --model-path MODEL --ep-size 16 ... --init-expert-location layout.json

The engine's model runner is wrapped: after its own loading and before graph capture the layout is admitted to the server
as its arguments and EPLB_FACTS describe it, every rank hashes its slots, and the row of the engine's table that this rank
uses is replaced. Any failure stops the server on every rank.
"""
import dataclasses
import json
import os
import sys


def wrap(runner_class, metadata_of, rank_of, group_of):
    """Wraps runner_class.load_model. The three functions hide where the engine keeps its metadata, rank and group."""
    load = runner_class.load_model

    def load_and_verify(runner, *arguments, **options):
        result = load(runner, *arguments, **options)
        put_in_force(runner.model, metadata_of(), runner.server_args, *rank_of(runner), group_of(runner))
        return result

    runner_class.load_model = load_and_verify


def put_in_force(model, metadata, server_args, rank, ranks, group):
    import torch
    from eplb_loader import InstallError, Layout, admit, install_model, together

    facts = json.loads(os.environ.get("EPLB_FACTS", "{}"))
    with together(rank, ranks, group):
        layout = Layout.load(os.environ["EPLB_LAYOUT"], ranks)
        table = admit(layout, "sglang", server_args=dataclasses.asdict(server_args),
                      model_config=os.environ.get("EPLB_MODEL_CONFIG"), **facts).table
        if not torch.equal(metadata.physical_to_logical_map.cpu().to(torch.int32), layout.map):
            raise InstallError("the engine holds another map than EPLB_LAYOUT: it ignored --init-expert-location, or read "
                               "another file")
        own = metadata.logical_to_rank_dispatch_physical_map
        if own is None or table is None or own.shape != table[rank].shape:
            raise InstallError("no static table to replace, or none to put in its place: give --ep-dispatch-algorithm "
                               "static, and `dispatch` in EPLB_FACTS")
    attestation = install_model(model, layout, rank, ranks, group, adapter=os.environ["EPLB_ADAPTER"], source="loaded",
                                nodes=int(facts.get("nodes", 1)))
    own.copy_(table[rank].to(own.dtype))  # in place: graphs keep the address
    if rank == 0:
        print("eplb: layout in force:", attestation.to_json(), flush=True)


def main():
    from sglang.launch_server import run_server  # names as in releases of 2026; adjust to yours
    from sglang.srt.distributed import get_moe_expert_parallel_rank, get_moe_expert_parallel_world_size, get_world_group
    from sglang.srt.eplb.expert_location import get_global_expert_location_metadata
    from sglang.srt.model_executor.model_runner import ModelRunner
    from sglang.srt.server_args import prepare_server_args

    wrap(ModelRunner, get_global_expert_location_metadata,
         lambda runner: (get_moe_expert_parallel_rank(), get_moe_expert_parallel_world_size()),
         lambda runner: get_world_group().cpu_group)
    run_server(prepare_server_args(sys.argv[1:]))


if __name__ == "__main__":
    main()
