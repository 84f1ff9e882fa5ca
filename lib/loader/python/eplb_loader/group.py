"""What the ranks say to each other: agreement, failures that reach everybody, and slot contents."""
import contextlib

import torch
import torch.distributed as dist

from .library import ops


class InstallError(RuntimeError):
    """The layout is not in force; the message names the ranks and their reasons."""


class Group:
    """The ranks of the layout. With one rank no process group is needed."""

    def __init__(self, rank, ranks, process_group):
        self.rank, self.ranks, self.process_group = rank, ranks, process_group
        if process_group is None and ranks > 1:
            if not dist.is_initialized():
                raise InstallError(f"{ranks} ranks need a process group")
            self.process_group = dist.group.WORLD
        if self.process_group is not None:
            size, own = dist.get_world_size(self.process_group), dist.get_rank(self.process_group)
            if (size, own) != (ranks, rank):
                raise InstallError(f"the process group has {size} ranks and this is rank {own} of them; the caller says "
                                   f"rank {rank} of {ranks}")

    def gather(self, value):
        """`value` of every rank, in rank order."""
        if self.process_group is None:
            return [value]
        values = [None] * self.ranks
        try:
            dist.all_gather_object(values, value, group=self.process_group)
        except Exception as error:
            raise InstallError(f"rank {self.rank}: another rank is gone or did not answer: {first_line(error)}") from error
        return values

    def run(self, phase, work):
        """Runs this rank's part of a phase. Returns what every rank's `work` returned, by rank, or raises InstallError with
        the reason of every rank that failed, on all of them, whatever it failed of: an interrupt and a lack of memory too."""
        value, failure = attempt(work)
        return self._settle(phase, failure, value)

    def local(self, phase, work):
        """As run(), for a value that stays on its rank."""
        value, failure = attempt(work)
        self._settle(phase, failure, None)
        return value

    def _settle(self, phase, failure, value):
        answers = self.gather((phase, None if failure is None else one_line(failure), value))
        reasons = [(f"rank {rank}", reason) for rank, (_, reason, _) in enumerate(answers) if reason is not None]
        if reasons:
            raise InstallError("; ".join(merged(reasons, self.ranks))) from failure
        elsewhere = [rank for rank, (where, _, _) in enumerate(answers) if where != answers[0][0]]
        if elsewhere:
            raise InstallError(f"rank {elsewhere[0]} is at '{answers[elsewhere[0]][0]}', rank 0 at '{answers[0][0]}': the ranks do "
                               "not make the same calls")
        return [value for _, _, value in answers]

    def _global_rank(self, rank):
        translate = getattr(dist, "get_global_rank", None) or dist.distributed_c10d._get_global_rank
        return rank if self.process_group is dist.group.WORLD else translate(self.process_group, rank)

    def sends(self, tensors):
        """Operations for exchange(), of (tag, tensor, rank): in the same order as the receives on the other side."""
        return [dist.P2POp(dist.isend, tensor, self._global_rank(rank), self.process_group, tag) for tag, tensor, rank in tensors]

    def receives(self, tensors):
        return [dist.P2POp(dist.irecv, tensor, self._global_rank(rank), self.process_group, tag) for tag, tensor, rank in tensors]

    def exchange(self, sends, receives):
        """Batched point-to-point copies, of sends() and receives()."""
        if sends or receives:
            for work in dist.batch_isend_irecv(sends + receives):
                work.wait()


@contextlib.contextmanager
def together(rank, ranks, process_group=None):
    """What may fail on one rank only, such as reading a file of its own host: an exception inside the block, on any
    rank, is an InstallError with its reason on every rank. All ranks must enter."""
    group, failure = Group(rank, ranks, process_group), None
    try:
        yield group
    except BaseException as error:
        failure = error
    group.local("together", lambda: _raise(failure))


def _raise(failure):
    if failure is not None:
        raise failure


def attempt(work):
    """(value, None) or (None, failure)."""
    try:
        return work(), None
    except BaseException as failure:  # whatever it is, the other ranks wait for an answer
        return None, failure


def one_line(error):
    """The reasons of a refusal one after the other; of PyTorch's errors the line before the stack; with the name of the
    exception where its text says nothing without it."""
    reasons = getattr(error, "reasons", None)
    if reasons:
        return f"{error.path}: {'; '.join(reasons)}"
    speaks = isinstance(error, (RuntimeError, ValueError, OSError, MemoryError)) and str(error).strip()
    return first_line(error) if speaks else f"{type(error).__name__}: {first_line(error)}"


def first_line(error):
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__


def merged(reasons, ranks):
    """"who: reason" of each (who, reason); one line where every rank says the same."""
    texts = {text for _, text in reasons}
    if len(texts) == 1 and len(reasons) == ranks > 1:
        return [f"all ranks: {texts.pop()}"]
    return [f"{who}: {text}" for who, text in reasons]


def move_layer(tensors, plan, group):
    """Carries out a layer's exchange plan [n, 4] on every rank: all that others need is sent from the old contents, and
    what arrives waits in buffers until the local moves are done. Two agreements a layer: no rank waits for slots of one
    that ran out of memory, and none goes on after one that failed."""
    exchange = group.local("prepare the exchange", lambda: _Exchange(tensors, plan, group))
    group.local("exchange", lambda: exchange.carry_out(group))


class _Exchange:
    """This rank's part of a layer's plan: what it sends, buffers for what it receives, and what moves inside it."""

    def __init__(self, tensors, plan, group):
        self.tensors, self.local = tensors, [-1] * tensors.slots
        self.arriving = []
        sends, receives, views, tag = [], [], tensors.views(), 0
        for source_rank, source_slot, target_rank, target_slot in plan:
            if source_rank == target_rank:
                if target_rank == group.rank:
                    self.local[target_slot] = source_slot
                continue
            for slots in views:
                if source_rank == group.rank:
                    sends.append((tag, as_bytes(slots[source_slot]), target_rank))
                elif target_rank == group.rank:
                    buffer = torch.empty_like(slots[target_slot], memory_format=torch.contiguous_format)
                    receives.append((tag, as_bytes(buffer), source_rank))
                    self.arriving.append((slots[target_slot], buffer))
                tag += 1
        self.sends, self.receives = group.sends(sends), group.receives(receives)

    def carry_out(self, group):
        group.exchange(self.sends, self.receives)
        self.tensors.permute(self.local)
        with torch.no_grad():
            for slot, buffer in self.arriving:
                slot.copy_(buffer)


def as_bytes(tensor):
    """The bytes of a tensor as uint8 [n]: the tensor's own memory where it is contiguous."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def plan_of(current, layout, row, nodes):
    return ops().exchange_plan(current.row(row), layout.row(row), layout.ranks, nodes).tolist()
