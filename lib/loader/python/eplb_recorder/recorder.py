"""Records expert counts inside a server and writes them as a count file that cannot be half a window."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import time

import torch
from eplb_loader.library import ops

from .errors import WindowError
from .host_group import HostGroup

PHASES = ("unknown", "prefill", "decode", "mixed")
_INT32_MAX = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class DumpReport:
    """What a dump did: on every rank the same, but for the seconds."""

    path: str
    sha256: str
    records: int
    overwritten: int
    seconds: dict[str, float]  # copy, fold, reduce, write


class Recorder:
    """A window of the last `records` forward passes, as physical counts on the model's device.

    layout       physical_to_logical_map, [layers][physical slots]
    experts      logical experts a layer
    records      passes kept; older ones are overwritten and counted. None: all of them, until `byte_budget` is used up
    dtype        torch.int32 or torch.int64 counts
    byte_budget  bytes of device memory that the unbounded mode may take

    Inside a forward pass call record() (or add_counts()) for each MoE layer, and append() at its end. None of them synchronises
    with the host or allocates at a new address that a captured graph would miss; the unbounded mode grows on the host and so
    must run eagerly.
    """

    _CHUNK_RECORDS = 128  # passes that the unbounded mode allocates at a time

    def __init__(self, layout, experts: int, *, records: int | None = 1000, dtype=torch.int32, device="cpu",
                 byte_budget: int | None = None, scenario: dict | None = None):
        if dtype not in (torch.int32, torch.int64):
            raise WindowError(f"counts are int32 or int64, not {dtype}: floats lose integers above 2^24")
        if records is not None and records < 1:
            raise WindowError(f"records={records}: a window keeps at least one pass (None keeps all)")
        if records is None and byte_budget is None:
            raise WindowError("the unbounded mode needs byte_budget, the device memory that it may take")
        self.experts = int(experts)
        self.scenario = _checked_scenario(scenario or {})
        self._maps = [self._checked_map(layout)]
        self.layers, self.slots = self._maps[0].shape
        self.device, self.dtype = torch.device(device), dtype
        self._bounded, self._budget = records is not None, byte_budget
        self._capacity = records if self._bounded else self._CHUNK_RECORDS
        self._chunks = [self._new_chunk()]
        self._host_appends = 0  # the unbounded mode counts on the host
        self._state = torch.zeros(4, dtype=torch.int64, device=self.device)
        self._pass_counts = torch.zeros((self.layers, self.slots), dtype=dtype, device=self.device)
        self._pass_tokens = torch.zeros(self.layers, dtype=torch.int64, device=self.device)
        self._recording = False
        self._window = ""
        self._dumped_to: str | None = None

    # ---- control, between forward passes ---------------------------------------------------------------------------------

    def start(self, window: str = "") -> None:
        """Empties the window and records from the next pass on. `window` names it; files of one window carry one name."""
        self.reset()
        self._window = window
        self._dumped_to = None
        self._set_recording(True)

    def stop(self) -> None:
        self._set_recording(False)

    def reset(self) -> None:
        """Forgets every record, the ring position with them, and all layouts but the one in force."""
        self._maps = self._maps[-1:]
        del self._chunks[1:]
        for tensor in (*self._chunks[0], self._pass_counts, self._pass_tokens):
            tensor.zero_()
        self._state[0].zero_()
        self._state[3].zero_()
        self._host_appends = 0

    def set_phase(self, phase: str) -> None:
        """Tags the passes from now on: prefill, decode, mixed or unknown."""
        if phase not in PHASES:
            raise WindowError(f"phase '{phase}' is not one of {', '.join(PHASES)}")
        self._state[2].fill_(PHASES.index(phase))

    def set_layout(self, layout) -> None:
        """The layout in force from the next pass on; records made under the old one keep it."""
        new_map = self._checked_map(layout)
        if new_map.shape != self._maps[0].shape:
            raise WindowError(
                f"a layout of {new_map.shape[0]} layers x {new_map.shape[1]} slots does not go with this window's "
                f"{self.layers} x {self.slots}; dump first, then make a new Recorder"
            )
        self._maps.append(new_map)
        self._state[3].fill_(len(self._maps) - 1)

    # ---- inside a forward pass -------------------------------------------------------------------------------------------

    def record(self, layer: int, physical_ids: torch.Tensor, row_mask: torch.Tensor | None = None) -> None:
        """Counts one layer's top-k choices: physical_ids [tokens, k], -1 where there is none; row_mask [tokens], false for padding."""
        ops().record_topk_(self._pass_counts, self._pass_tokens, layer, physical_ids, row_mask)

    def add_counts(self, counts: torch.Tensor, tokens: torch.Tensor | None = None) -> None:
        """Adds counts that the engine has made itself: counts [layers, slots]; tokens of the pass, a 0-d or [layers] tensor."""
        self._pass_counts.add_(counts)
        if tokens is not None:
            self._pass_tokens.add_(tokens)

    def append(self) -> None:
        """Ends a pass: its counts become one record, if the recorder is on."""
        if not self._bounded and self._recording:
            self._grow()
        ring, meta = self._chunks[-1]
        ops().record_append_(ring, meta, self._state, self._pass_counts, self._pass_tokens)

    # ---- dump ------------------------------------------------------------------------------------------------------------

    def dump(self, path: str, group, *, members: list[int] | None = None, force: bool = False, timeout: float = 60.0) -> DumpReport:
        """Stops, sums the window over the group on the host, and lets group rank 0 write `path` (.pt or .h5) and its sidecar.

        Every member must call it. It returns on all of them, the window then empty, or raises the same WindowError on all of
        them, the window then as it was: call it again, with another path or group. Never a device collective.
        """
        self.stop()
        peers = HostGroup(group, members, timeout)
        window, seconds, error = None, {}, None
        try:
            window = self._collect(seconds)
        except (RuntimeError, ValueError) as failure:
            error = _reason(failure)
        peers.agree(error, "copy")
        self._require_same_window(peers, window)
        tokens, phases = self._agree_on_passes(peers, window)
        bounds = peers.gather(torch.tensor([self._largest_count(window)]), "agree")
        counts = None
        try:
            counts = self._fold(window, sum(int(bound[0]) for bound in bounds) > _INT32_MAX, seconds)
        except (RuntimeError, ValueError) as failure:
            error = _reason(failure)
        peers.agree(error, "fold")
        started = time.perf_counter()
        peers.sum_(counts[: len(window.order)], "reduce")
        seconds["reduce"] = time.perf_counter() - started
        sidecar = self._sidecar(window, counts, "reduced", peers.present, tokens, phases, seconds)
        started, digest = time.perf_counter(), ""
        if peers.rank == 0:
            try:
                digest = ops().write_window(os.fspath(path), counts, json.dumps(sidecar), force)
            except (RuntimeError, ValueError) as failure:
                error = _reason(failure)
        peers.agree(error, "write")
        seconds["write"] = time.perf_counter() - started
        report = DumpReport(os.fspath(path), digest, len(window.order), window.overwritten, seconds)
        self.reset()
        self._dumped_to = report.path
        return report

    def dump_partial(self, path: str, *, rank: int, ranks: int, force: bool = False) -> DumpReport:
        """Writes this rank's own share of the window, when there is no group: `Y.pt` becomes `Y.rank<rank>.pt` with a sidecar.

        The window stays: a later dump() may still succeed. `--reduction per-rank` sums one complete set of such files.
        """
        self.stop()
        seconds: dict[str, float] = {}
        window = self._collect(seconds)
        counts = self._fold(window, self._largest_count(window) > _INT32_MAX, seconds)
        stem, suffix = os.path.splitext(os.fspath(path))
        target = f"{stem}.rank{rank}{suffix}"
        tokens = window.tokens.tolist()
        sidecar = self._sidecar(window, counts, "per-rank", list(range(ranks)), tokens, window.phases.tolist(), seconds, rank)
        started = time.perf_counter()
        digest = ops().write_window(target, counts, json.dumps(sidecar), force)
        seconds["write"] = time.perf_counter() - started
        return DumpReport(target, digest, len(window.order), window.overwritten, seconds)

    def rehearse(self, path: str, group, *, members: list[int] | None = None, timeout: float = 10.0) -> DumpReport:
        """Runs the whole path of dump() with one made-up record, before the load starts, and leaves no file.

        Proves the group, the member order, the agreement on the layout, the folder and the reader. Touches nothing recorded.
        """
        trial = Recorder(self._maps[-1], self.experts, records=1, dtype=self.dtype, device=self.device, scenario=self.scenario)
        trial.start(window="rehearsal")
        trial.add_counts(torch.ones_like(trial._pass_counts))
        trial.append()
        stem, suffix = os.path.splitext(os.fspath(path))
        target = f"{stem}.rehearsal{suffix}"
        try:
            return trial.dump(target, group, members=members, force=True, timeout=timeout)
        finally:
            for leftover in (target, f"{stem}.rehearsal.window.json"):
                with contextlib.suppress(FileNotFoundError):  # every rank clears up, and one of them is first
                    os.unlink(leftover)

    # ---- the steps of a dump ---------------------------------------------------------------------------------------------

    @dataclasses.dataclass
    class _Window:
        ring: torch.Tensor         # [B, L, P] on the host
        order: list[int]           # ring slots of the records, oldest first
        first_sequence: int        # sequence number of the oldest
        overwritten: int
        tokens: torch.Tensor       # [records] int64, host
        phases: torch.Tensor       # [records] int64
        generations: torch.Tensor  # [records] int64
        largest: int               # largest count

    def _collect(self, seconds: dict[str, float]) -> "Recorder._Window":
        """Copies the window to the host: the ring in one piece, and its few numbers."""
        if self._dumped_to is not None:
            raise WindowError(f"this window was already summed and written to {self._dumped_to}; start() a new one")
        started = time.perf_counter()
        recorded = int(self._state.cpu()[0])
        if recorded == 0:
            raise WindowError("no pass was recorded: start() was not called before the load, or append() never ran")
        if len(self._chunks) == 1:
            ring, meta = (tensor.cpu() for tensor in self._chunks[0])
        else:
            ring, meta = (torch.cat([chunk[part].cpu() for chunk in self._chunks]) for part in (0, 1))
        size = ring.shape[0]
        kept = min(recorded, size)
        sequences = range(recorded - kept, recorded)
        order = [sequence % size for sequence in sequences]
        meta = meta.to(torch.int64)[order]
        seconds["copy"] = time.perf_counter() - started
        return Recorder._Window(ring, order, sequences[0], recorded - kept, meta[:, 0], meta[:, 1] % 256, meta[:, 1] // 256,
                                int(ring.max()))

    def _require_same_window(self, peers: HostGroup, window: "Recorder._Window") -> None:
        """The ring slots of all ranks can be added only if they are the same passes of the same shape."""
        names = ("records kept", "first record", "layers", "physical slots", "experts", "layouts", "window name")
        row = torch.tensor([len(window.order), window.first_sequence, self.layers, self.slots, self.experts,
                            _number_of(b"".join(one.numpy().tobytes() for one in self._maps)), _number_of(self._window.encode())])
        rows = peers.gather(row, "agree")
        for member, other in enumerate(rows):
            for column, name in enumerate(names):
                if int(other[column]) != int(rows[0][column]):
                    values = "" if column > 4 else f" ({int(other[column])}, rank {peers.expected[0]} has {int(rows[0][column])})"
                    raise WindowError(
                        f"rank {peers.expected[member]} differs in {name}{values}: the ranks did not record the same passes; "
                        "write per-rank files with dump_partial() and look at them"
                    )

    def _agree_on_passes(self, peers: HostGroup, window: "Recorder._Window") -> tuple[list[int], list[int]]:
        rows = peers.gather(torch.cat([window.tokens, window.phases]), "agree")
        table = torch.stack(rows).reshape(peers.size, 2, -1)
        phases = table[:, 1]
        mixed = (phases != phases[0]).any(0)
        return table[:, 0].sum(0).tolist(), torch.where(mixed, torch.full_like(phases[0], PHASES.index("mixed")), phases[0]).tolist()

    def _largest_count(self, window: "Recorder._Window") -> int:
        """No logical count of this rank is above it: the largest physical count times the most replicas of an expert."""
        return window.largest * max(int(torch.bincount(row, minlength=self.experts).max()) for one in self._maps for row in one)

    def _fold(self, window: "Recorder._Window", wide: bool, seconds: dict[str, float]) -> torch.Tensor:
        started = time.perf_counter()
        record_slots = window.ring.shape[0] if self._bounded else len(window.order)
        counts = ops().physical_to_logical(window.ring, window.order, window.generations.tolist(), torch.stack(self._maps),
                                                    self.experts, record_slots, wide)
        window.ring = None  # only the folded counts are needed from here on
        seconds["fold"] = time.perf_counter() - started
        return counts

    def _sidecar(self, window, counts, reduction, members, tokens, phases, seconds, rank=None) -> dict:
        sidecar = {
            "format_version": 1,
            "file": "-",  # write_window puts the name and the digest of the file in both places
            "sha256": "0" * 64,
            "reduction": reduction,
            "window": self._window,
            "members": members,
            "shape": list(counts.shape),
            "first_sequence": window.first_sequence,
            "records": len(window.order),
            "overwritten": window.overwritten,
            "tokens": tokens,
            "phases": [PHASES[phase] for phase in phases],
            "layouts": [_hash_of(one) for one in self._maps],
            "layout_of_record": window.generations.tolist(),
            "scenario": self.scenario,
            "seconds": {name: round(value, 6) for name, value in seconds.items()},
            "complete": True,
        }
        if rank is not None:
            sidecar["rank"] = rank
        return sidecar

    # ---- small pieces ----------------------------------------------------------------------------------------------------

    def _checked_map(self, layout) -> torch.Tensor:
        one = torch.as_tensor(layout, dtype=torch.int64, device="cpu").contiguous().clone()
        if one.dim() != 2:
            raise WindowError(f"a layout is [layers][physical slots], this one has {one.dim()} axes")
        if one.numel() == 0 or int(one.min()) < 0 or int(one.max()) >= self.experts:
            raise WindowError(f"the layout names an expert outside 0..{self.experts - 1}")
        return one

    def _new_chunk(self) -> tuple[torch.Tensor, torch.Tensor]:
        ring = torch.zeros((self._capacity, self.layers, self.slots), dtype=self.dtype, device=self.device)
        return ring, torch.zeros((self._capacity, 2), dtype=torch.int32, device=self.device)

    def _grow(self) -> None:
        if self._host_appends == self._capacity * len(self._chunks):
            item = 4 if self.dtype == torch.int32 else 8
            chunk = self._capacity * self.layers * self.slots * item
            if (len(self._chunks) + 1) * chunk > self._budget:
                self.stop()
                raise WindowError(
                    f"the byte budget of {self._budget} is used up after {self._host_appends} records; recording has stopped and "
                    "they are kept: dump() them, or record with a bounded window"
                )
            self._chunks.append(self._new_chunk())
        self._host_appends += 1

    def _set_recording(self, on: bool) -> None:
        self._recording = on
        self._state[1].fill_(int(on))


def _checked_scenario(scenario: dict) -> dict:
    """What the sidecar can hold, looked at before the load and not when the window is to be written."""
    for key, value in scenario.items():
        if not isinstance(key, str):
            raise WindowError(f"scenario key {key!r} is not a string")
        if not isinstance(value, (str, bool, int, float)) or (isinstance(value, float) and not math.isfinite(value)):
            raise WindowError(f"scenario entry '{key}' is {value!r}: entries are strings, finite numbers or booleans")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise WindowError(f"scenario entry '{key}' is {value}: whole numbers have at most 63 bits, write it as a string")
    return dict(scenario)


def _hash_of(layout: torch.Tensor) -> str:
    return hashlib.sha256(layout.numpy().tobytes()).hexdigest()


def _number_of(data: bytes) -> int:
    """A 63-bit number that stands for the bytes, to be compared between ranks in one integer."""
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "little") >> 1


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
