"""Collectives of a dump: integers, on host memory, over Gloo, each with a deadline."""

from __future__ import annotations

import datetime

import torch
import torch.distributed as dist

from .errors import WindowError

_TEXT_BYTES = 1024


class HostGroup:
    """A Gloo group whose members are known.

    group     a torch.distributed process group (registered or not)
    members   world ranks that must take part, in group order; None: every rank of the world, ascending
    timeout   seconds that one collective may take
    """

    def __init__(self, group, members: list[int] | None, timeout: float):
        if group is None:
            raise WindowError(
                "no process group was given; pass the server's Gloo (CPU) group, or write per-rank files with dump_partial()"
            )
        backend = _backend_of(group)
        if backend != "gloo":
            raise WindowError(
                f"the group's backend is {backend}, not gloo: a dump never uses a device collective; pass the CPU group"
            )
        self._group = group
        self._timeout = datetime.timedelta(seconds=timeout)
        self.rank, self.size = group.rank(), group.size()
        self.world_rank = dist.get_rank() if dist.is_initialized() else self.rank
        world_size = dist.get_world_size() if dist.is_initialized() else self.size
        self.expected = list(range(world_size)) if members is None else list(members)
        self.present = [int(row[0]) for row in self.gather(torch.tensor([self.world_rank]), "members")]
        if self.present != self.expected:
            raise WindowError(
                f"the group's members are the world ranks {_short(self.present)}, the dump needs {_short(self.expected)} in "
                "this order; a sub-group would lose counts, another order would number ranks wrongly"
            )

    def gather(self, row: torch.Tensor, phase: str) -> list[torch.Tensor]:
        """The same-shaped host tensor of every member, in group order."""
        rows = [torch.empty_like(row) for _ in range(self.size)]
        self._wait(phase, lambda: self._group.allgather([rows], [row]))
        return rows

    def sum_(self, counts: torch.Tensor, phase: str) -> None:
        """Integer SUM in place over all members."""
        self._wait(phase, lambda: self._group.allreduce([counts], dist.ReduceOp.SUM))

    def agree(self, error: str | None, phase: str) -> None:
        """Every member reports; if one failed, all raise the same error that names it."""
        text = (error or "").encode()[:_TEXT_BYTES]
        row = torch.zeros(_TEXT_BYTES, dtype=torch.uint8)
        if text:
            row[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        for member, answer in enumerate(self.gather(row, phase)):
            if int(answer[0]) != 0:
                reason = bytes(answer.tolist()).rstrip(b"\0").decode(errors="replace")
                raise WindowError(f"rank {self.expected[member]}, {phase}: {reason}")

    def _wait(self, phase: str, start) -> None:
        try:
            start().wait(self._timeout)
        except (RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0][:200]
            raise WindowError(
                f"{phase}: a member of the group did not answer within {self._timeout.total_seconds():g} s or is gone "
                f"({reason}); the window is intact on this rank: dump again over a working group, or dump_partial()"
            ) from error


def _backend_of(group) -> str:
    try:
        return dist.get_backend(group)
    except (AssertionError, RuntimeError, ValueError, KeyError):
        # A group that torch.distributed.new_group did not make; its own word for the backend moved between torch versions.
        return group.name() if hasattr(group, "name") else group._get_backend_name()


def _short(ranks: list[int]) -> str:
    return str(ranks) if len(ranks) <= 16 else f"[{ranks[0]}, {ranks[1]}, ... {ranks[-1]}] ({len(ranks)} ranks)"
