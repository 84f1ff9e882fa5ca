"""Runs a function on several forked ranks with a Gloo group on this host, bounded in time."""
import datetime
import multiprocessing
import os
import pickle
import queue
import socket
import time
import traceback

import torch
import torch.distributed as dist


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _run(rank, ranks, port, timeout, function, arguments, answers):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    try:
        dist.init_process_group("gloo", rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=timeout))
        # pickled here: the queue would hand tensors over as shared memory, which ends with this process
        answers.put((rank, "done", pickle.dumps(function(rank, ranks, *arguments))))
    except BaseException as error:  # a failed assertion on a rank must reach the test
        answers.put((rank, "failed", f"{error}\n{traceback.format_exc()}"))
    answers.close()
    answers.join_thread()
    os._exit(0)  # no destructors: a peer may be gone


def run_ranks(ranks, function, *arguments, timeout=60, limit=150, expect_dead=()):
    """The values of function(rank, ranks, *arguments), by rank. Raises when a rank failed or did not end in time; ranks
    in `expect_dead` may die without an answer."""
    context = multiprocessing.get_context("fork")
    answers, port = context.Queue(), _free_port()
    children = [context.Process(target=_run, args=(rank, ranks, port, timeout, function, arguments, answers))
                for rank in range(ranks)]
    for child in children:
        child.start()
    results, end = {}, time.monotonic() + limit
    try:
        while len(results) < ranks - len(expect_dead):
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"only ranks {sorted(results)} of {ranks} answered in {limit} s")
            try:
                rank, state, value = answers.get(timeout=min(left, 1.0))
            except queue.Empty:
                dead = [rank for rank, child in enumerate(children) if rank not in results and rank not in expect_dead
                        and child.exitcode not in (None, 0)]
                if dead:
                    raise RuntimeError(f"rank {dead[0]} died with {children[dead[0]].exitcode}") from None
                continue
            if state == "failed":
                raise AssertionError(f"rank {rank}: {value}")
            results[rank] = pickle.loads(value)
    finally:
        for child in children:
            child.join(timeout=5)
            if child.is_alive():
                child.kill()
    return [results.get(rank) for rank in range(ranks)]
