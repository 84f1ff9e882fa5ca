"""Runs a function on several processes that share a Gloo group, and hands back what each returned or raised."""

import datetime
import multiprocessing
import os
import tempfile
import traceback


def _run(rank, ranks, store, timeout, function, arguments, answers):
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks,
                                timeout=datetime.timedelta(seconds=timeout))
        answers.put((rank, "returned", function(rank, *arguments)))
    except Exception as error:  # handed to the parent, whatever it is
        answers.put((rank, "raised", f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
    answers.close()
    answers.join_thread()
    os._exit(0)  # a group with a dead member would wait for it at exit


def run_on_ranks(ranks, function, *arguments, timeout=60, missing=()):
    """[(kind, value)] by rank: ("returned", value), ("raised", text), or ("died", exit code). `missing` ranks may die."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        processes = [context.Process(target=_run, args=(rank, ranks, os.path.join(folder, "store"), timeout, function, arguments, answers))
                     for rank in range(ranks)]
        for process in processes:
            process.start()
        results = {}
        for _ in range(ranks - len(missing)):
            rank, kind, value = answers.get(timeout=2 * timeout)
            results[rank] = (kind, value)
        for rank, process in enumerate(processes):
            process.join(timeout)
            results.setdefault(rank, ("died", process.exitcode))
        return [results[rank] for rank in range(ranks)]


def values(results):
    """The returned values; an exception of any rank becomes ours."""
    for rank, (kind, value) in enumerate(results):
        if kind != "returned":
            raise AssertionError(f"rank {rank} {kind}: {value}")
    return [value for _, value in results]
