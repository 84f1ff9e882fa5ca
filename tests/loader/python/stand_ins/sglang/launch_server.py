"""The launcher: spawns a scheduler a rank, waits until all are ready, and opens the port."""
import argparse
import json
import multiprocessing
import os
import socket
import sys
import time

from sglang.srt.server_args import ServerArgs


def scheduler(rank, server_args, store, ready):
    """What a scheduler's process does: it imports the runner anew."""
    import torch.distributed as dist
    from sglang.srt import distributed
    from sglang.srt.eplb import expert_location
    from sglang.srt.model_executor.model_runner import ModelRunner

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=server_args.ep_size)
    distributed.RANK = rank
    expert_location.init(server_args, rank)
    runner = ModelRunner(server_args)
    runner.load_model()
    if os.environ.get("STAND_IN_DRAFT"):
        ModelRunner(server_args, is_draft_worker=True).load_model()
    ready.put(rank)


def main():
    parser = argparse.ArgumentParser()
    for name in ("--model-path", "--init-expert-location", "--host"):
        parser.add_argument(name)
    for name in ("--ep-size", "--port"):
        parser.add_argument(name, type=int)
    arguments = parser.parse_args()
    server_args = ServerArgs(model_path=arguments.model_path, ep_size=arguments.ep_size, tp_size=arguments.ep_size,
                             init_expert_location=arguments.init_expert_location,
                             ep_num_redundant_experts=int(os.environ["STAND_IN_REDUNDANT"]))
    context = multiprocessing.get_context("spawn")
    ready = context.Queue()
    processes = [context.Process(target=scheduler, args=(rank, server_args, os.environ["STAND_IN_STORE"], ready))
                 for rank in range(server_args.ep_size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode:
            sys.exit(process.exitcode)
    with socket.create_server((arguments.host, arguments.port)):
        print("serving", flush=True)
        time.sleep(float(os.environ.get("STAND_IN_SERVES", "1")))


if __name__ == "__main__":
    main()
