"""Collectives of a dump: integers, on host memory, over Gloo, each with a deadline.

A collective whose members disagree on its size ends a Gloo process, so none is entered before all agreed on what they are about
to exchange: every phase begins with a frame of one fixed size in which each member says where it is, what it failed of, and
the shape and type of what it will hand over. Members that are in different phases then read that, instead of bytes that are
no answer.
"""

from __future__ import annotations

import datetime
import json

import torch
import torch.distributed as dist
from eplb_loader.group import attempt, first_line, merged, one_line

from .errors import WindowError

_TEXT = json.JSONEncoder()
_FRAME_BYTES = 4096
_REASON_CHARACTERS = 600  # at most 6 bytes each in JSON


class PeerLost(WindowError):
    """A member is gone or did not answer in time: nothing can be agreed over this group any more."""


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
        self.present = list(range(self.size))  # until they have said their world ranks
        self.present = self.settle("members", lambda: self.world_rank)
        if self.present != self.expected:
            raise WindowError(
                f"the group's members are the world ranks {_short(self.present)}, the dump needs {_short(self.expected)} in "
                "this order; a sub-group would lose counts, another order would number ranks wrongly"
            )

    def settle(self, phase: str, work) -> list:
        """Runs this member's part of a phase. Returns what every member's `work` returned (JSON values), in group order, or
        raises on all of them the same WindowError with the reasons of those that failed, whatever they failed of."""
        value, failure = attempt(work)
        return [frame["value"] for frame in self._agree(phase, failure, value=value)]

    def local(self, phase: str, work):
        """As settle(), for a value that stays here."""
        value, failure = attempt(work)
        self._agree(phase, failure)
        return value

    def gather(self, phase: str, work) -> list[torch.Tensor]:
        """What `work` gives, a host tensor of one shape and type on all members, of every member in group order."""
        row = self._agreed_tensor(phase, work)
        rows = [torch.empty_like(row) for _ in range(self.size)]
        self._wait(phase, lambda: self._group.allgather([rows], [row]))
        return rows

    def sum_(self, phase: str, work) -> None:
        """Integer SUM in place of the host tensor that `work` gives, over all members."""
        counts = self._agreed_tensor(phase, work)
        self._wait(phase, lambda: self._group.allreduce([counts], dist.ReduceOp.SUM))

    def _agreed_tensor(self, phase: str, work) -> torch.Tensor:
        tensor, failure = attempt(work)
        described = None if failure else f"{tensor.dtype} {list(tensor.shape)}"
        self._agree(phase, failure, payload=described)
        return tensor

    def _agree(self, phase: str, failure: BaseException | None, **facts) -> list[dict]:
        reason = None if failure is None else one_line(failure)[:_REASON_CHARACTERS]
        frames = self._frames({"phase": phase, "reason": reason, **facts})
        reasons = [(f"rank {self.present[member]}, {frame['phase']}", frame["reason"])
                   for member, frame in enumerate(frames) if frame["reason"] is not None]
        if reasons:
            raise WindowError("; ".join(merged(reasons, self.size))) from failure
        for key in ("phase", "payload"):
            for member, frame in enumerate(frames):
                if frame.get(key) != frames[0].get(key):
                    raise WindowError(
                        f"{phase}: rank {self.present[member]} is at {frame.get(key)}, rank {self.present[0]} at "
                        f"{frames[0].get(key)}: the members do not run the same dump; call it on all of them once more"
                    )
        return frames

    def _frames(self, own: dict) -> list[dict]:
        text = _TEXT.encode(own).encode()
        if len(text) > _FRAME_BYTES:  # a value that was never meant to go this way
            text = _TEXT.encode({"phase": own["phase"], "reason": f"an answer of {len(text)} bytes does not fit"}).encode()
        frame = torch.zeros(_FRAME_BYTES, dtype=torch.uint8)
        frame[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        frames = [torch.empty_like(frame) for _ in range(self.size)]
        self._wait(own["phase"], lambda: self._group.allgather([frames], [frame]))
        return [json.loads(bytes(answer.tolist()).rstrip(b"\0")) for answer in frames]

    def _wait(self, phase: str, start) -> None:
        try:
            start().wait(self._timeout)
        except (RuntimeError, ValueError) as error:
            raise PeerLost(
                f"{phase}: a member of the group did not answer within {self._timeout.total_seconds():g} s or is gone "
                f"({first_line(error)[:200]}); the window is intact on this rank: dump again over a working group, or "
                "dump_partial()"
            ) from error


def _backend_of(group) -> str:
    try:
        return dist.get_backend(group)
    except (AssertionError, RuntimeError, ValueError, KeyError):
        # A group that torch.distributed.new_group did not make; its own word for the backend moved between torch versions.
        return group.name() if hasattr(group, "name") else group._get_backend_name()


def _short(ranks: list[int]) -> str:
    return str(ranks) if len(ranks) <= 16 else f"[{ranks[0]}, {ranks[1]}, ... {ranks[-1]}] ({len(ranks)} ranks)"
