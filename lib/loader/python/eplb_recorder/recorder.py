"""Records expert counts inside a server and writes them as a count file that cannot be half a window."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import shutil
import tempfile
import time

import torch
from eplb_loader.library import ops

from .errors import WindowError
from .host_group import HostGroup, PeerLost

PHASES = ("unknown", "prefill", "decode", "mixed")
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


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
    dtype        torch.int32 or torch.int64 counts; a pass that counts more than int32 holds is noticed and fails the dump
    byte_budget  bytes of device memory that the counts of the unbounded mode may take

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
        if not self._bounded and self._chunk_bytes() > self._budget:
            raise WindowError(f"byte_budget={self._budget}: the first {self._capacity} records take {self._chunk_bytes()} bytes")
        self._chunks = [self._new_chunk()]
        self._host_appends = 0  # the unbounded mode counts on the host
        self._state = torch.zeros(5, dtype=torch.int64, device=self.device)
        self._pass_counts = torch.zeros((self.layers, self.slots), dtype=torch.int64, device=self.device)
        self._pass_tokens = torch.zeros(self.layers, dtype=torch.int64, device=self.device)
        self._recording = False
        self._window = ""
        self._dumped_to: str | None = None  # where the window went that is still here
        self._last_dump: str | None = None  # where the window before this one went, when it was ended by its dump

    # ---- control, between forward passes ---------------------------------------------------------------------------------

    def start(self, window: str = "") -> None:
        """Empties the window and records from the next pass on. `window` names it; files of one window carry one name."""
        self.reset()
        self._window = window
        self._dumped_to = self._last_dump = None
        self._set_recording(True)

    def recorded(self) -> int:
        """Passes recorded since the start, those overwritten too; waits for the device."""
        return int(self._state[0])

    def resume(self) -> None:
        """Records on after a dump, into an empty window of the same name: for an engine whose dump does not end a recording."""
        last_dump = self._dumped_to or self._last_dump
        self.start(self._window)
        self._last_dump = last_dump

    def stop(self) -> None:
        self._set_recording(False)

    def reset(self) -> None:
        """Forgets every record, the ring position with them, and all layouts but the one in force."""
        self._maps = self._maps[-1:]
        del self._chunks[1:]
        for tensor in (*self._chunks[0], self._pass_counts, self._pass_tokens):
            tensor.zero_()
        for entry in (0, 3, 4):
            self._state[entry].zero_()
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
        """Counts one layer's top-k choices.

        physical_ids  [tokens, k], any integer type; -1 where there is none, another id outside the slots is an error of the
                      device's scatter_add
        row_mask      [tokens], bool or integer; false for padding
        """
        ops().record_topk_(self._pass_counts, self._pass_tokens, layer, physical_ids, row_mask)

    def add_counts(self, counts: torch.Tensor, tokens: torch.Tensor | None = None) -> None:
        """Adds counts that the engine has made itself, on any device: counts [layers, slots] of an integer type; tokens of the
        pass, a 0-d or [layers] tensor."""
        if counts.shape != self._pass_counts.shape or counts.is_floating_point() or counts.dtype == torch.bool:
            raise WindowError(f"counts of a pass are {counts.dtype} {list(counts.shape)}, this window takes integers "
                              f"{list(self._pass_counts.shape)}")
        self._pass_counts.add_(counts.to(self.device))
        if tokens is not None:
            self._pass_tokens.add_(tokens.to(self.device))

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
        try:
            peers = HostGroup(group, members, timeout)
        except WindowError:
            self.stop()
            raise
        return self._dump(os.fspath(path), peers, force)

    def dump_partial(self, path: str, *, rank: int, ranks: int, force: bool = False) -> DumpReport:
        """Writes this rank's own share of the window, when there is no group: `Y.pt` becomes `Y.rank<rank>.pt` with a sidecar.

        The window stays: a later dump() may still succeed. `--reduction per-rank` sums one complete set of such files.
        """
        self.stop()
        seconds: dict[str, float] = {}
        window = self._collect(seconds)
        counts = self._fold(window, _needs_int64(self._largest_count(window)), seconds)
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
        path, peers = os.fspath(path), HostGroup(group, members, timeout)
        folder = peers.settle("write", lambda: tempfile.mkdtemp(prefix=".rehearsal-", dir=os.path.dirname(path) or ".")
                              if peers.rank == 0 else "")[0]
        try:
            trial = peers.local("copy", self._trial)
            report = trial._dump(os.path.join(folder, os.path.basename(path)), peers, force=False)
        finally:
            if peers.rank == 0:
                shutil.rmtree(folder, ignore_errors=True)
        peers.local("clear", lambda: None)  # nobody goes on while rank 0 still clears up
        return dataclasses.replace(report, path=path)

    def _trial(self) -> "Recorder":
        trial = Recorder(self._maps[-1], self.experts, records=1, dtype=self.dtype, device=self.device, scenario=self.scenario)
        trial.start(window="rehearsal")
        trial.add_counts(torch.ones_like(trial._pass_counts))
        trial.append()
        return trial

    # ---- the steps of a dump ---------------------------------------------------------------------------------------------

    def _dump(self, path: str, peers: HostGroup, force: bool) -> DumpReport:
        """Every step that may fail on one member is a phase of `peers`, so that all members end in the same way."""
        seconds: dict[str, float] = {}
        window = peers.local("copy", lambda: self._collect(seconds))
        rows = peers.gather("agree", lambda: self._identity(window))
        peers.local("agree", lambda: self._require_same_window(rows, peers.present))
        shares = peers.gather("agree", lambda: torch.cat([window.tokens, window.phases]))
        told = peers.settle("agree", lambda: [path, self._largest_count(window)])
        path = told[0][0]  # members may have made up names of their own; the first one writes
        counts = peers.local("fold", lambda: self._fold(window, _needs_int64(sum(largest for _, largest in told)), seconds))
        started = time.perf_counter()
        peers.sum_("reduce", lambda: counts[: len(window.order)])
        seconds["reduce"] = time.perf_counter() - started
        sidecar = peers.local("write", lambda: self._sidecar(window, counts, "reduced", peers.present, *_merged_passes(shares),
                                                             seconds))
        started = time.perf_counter()
        try:
            digest = peers.settle("write", lambda: ops().write_window(path, counts, json.dumps(sidecar), force)
                                  if peers.rank == 0 else "")[0]
            self._dumped_to = path
            peers.local("empty the window that was written", self.reset)
        except PeerLost as lost:
            if _is_written(path, sidecar):
                raise PeerLost(f"{lost}; {path} is there and whole, with the sum of this window: it needs no second dump") from lost
            raise PeerLost(f"{lost}; if rank {peers.present[0]} wrote {path} on a host of its own, that file is whole") from lost
        seconds["write"] = time.perf_counter() - started
        return DumpReport(path, digest, len(window.order), window.overwritten, seconds)

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
        self.stop()
        if self._dumped_to is not None:
            raise WindowError(f"this window was already summed and written to {self._dumped_to}; start() a new one")
        started = time.perf_counter()
        state = self._state.cpu()
        recorded = int(state[0])
        if recorded == 0 and self._last_dump is not None:
            raise WindowError(f"this window was already summed and written to {self._last_dump}, and no pass was recorded since")
        if recorded == 0:
            raise WindowError("no pass was recorded: start() was not called before the load, or append() never ran")
        if int(state[4]) != 0:
            raise WindowError(f"{int(state[4])} passes counted more than {self.dtype} holds in a slot, or less than nothing; their "
                              "records are wrong: record again with dtype=torch.int64")
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

    _IDENTITY = ("records kept", "first record", "layers", "physical slots", "experts", "layouts", "window name")

    def _identity(self, window: "Recorder._Window") -> torch.Tensor:
        return torch.tensor([len(window.order), window.first_sequence, self.layers, self.slots, self.experts,
                             _number_of(b"".join(one.numpy().tobytes() for one in self._maps)), _number_of(self._window.encode())])

    def _require_same_window(self, rows: list[torch.Tensor], ranks: list[int]) -> None:
        """The ring slots of all ranks can be added only if they are the same passes of the same shape."""
        for member, other in enumerate(rows):
            for column, name in enumerate(self._IDENTITY):
                if int(other[column]) != int(rows[0][column]):
                    values = "" if column > 4 else f" ({int(other[column])}, rank {ranks[0]} has {int(rows[0][column])})"
                    raise WindowError(
                        f"rank {ranks[member]} differs in {name}{values}: the ranks did not record the same passes; "
                        "write per-rank files with dump_partial() and look at them"
                    )

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

    def _chunk_bytes(self) -> int:
        return self._capacity * self.layers * self.slots * (4 if self.dtype == torch.int32 else 8)

    def _grow(self) -> None:
        if self._host_appends == self._capacity * len(self._chunks):
            if (len(self._chunks) + 1) * self._chunk_bytes() > self._budget:
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


def _needs_int64(bound: int) -> bool:
    """Whether counts up to `bound` need more than int32."""
    if bound > _INT64_MAX:
        raise WindowError(f"the sum over the ranks may reach {bound}, more than int64 holds; record a shorter window")
    return bound > _INT32_MAX


def _merged_passes(shares: list[torch.Tensor]) -> tuple[list[int], list[int]]:
    """Tokens of each record, summed over the members, and its phase: mixed where they differ."""
    table = torch.stack(shares).reshape(len(shares), 2, -1)
    phases = table[:, 1]
    mixed = (phases != phases[0]).any(0)
    return table[:, 0].sum(0).tolist(), torch.where(mixed, torch.full_like(phases[0], PHASES.index("mixed")), phases[0]).tolist()


def _is_written(path: str, sidecar: dict) -> bool:
    """Whether `path` holds the window of `sidecar`, byte for byte as the sidecar beside it says."""
    try:
        with open(os.path.splitext(path)[0] + ".window.json", encoding="utf-8") as file:
            written = json.load(file)
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    except (OSError, ValueError):
        return False
    told = ("members", "shape", "first_sequence", "records", "overwritten", "tokens", "phases", "layouts", "layout_of_record")
    return isinstance(written, dict) and written.get("sha256") == digest and all(written.get(key) == sidecar[key] for key in told)


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
