"""Puts a layout in force on a loaded model and proves it, or says on every rank why not."""
import contextlib
import dataclasses
import hashlib
import json
import threading
import weakref

import torch

from .adapter import Adapter
from .group import Group, InstallError, first_line, move_layer, plan_of
from .layout import Layout
from .routing import NOT_SHOWN, require_routing, routing_rows
from .witness import as_witness, decide, first_misfit

_SOURCES = ("ranks", "loaded", "engine")


@dataclasses.dataclass
class Attestation:
    """What is in force on this rank. `ok` only after every rank has verified, with a witness for every slot and for what
    the engine routes by."""
    ok: bool = False
    state: str = "nothing installed"  # "installing", "partly written", "not proven", "in force"
    reason: str = ""
    rank: int = 0
    layout_sha256: str = ""
    map_hash: str = ""
    table_sha256: str = ""
    geometry: dict = dataclasses.field(default_factory=dict)
    admitted_to: str = ""  # engine and facts of the admission
    adapter: str = ""
    source: str = ""
    found: str = ""        # what the slots held before: "layout" (the engine had followed it) or "current"
    witness: str = ""      # who knows the experts apart from the slots
    unproven: list = dataclasses.field(default_factory=list)     # what no witness speaks for; empty when `ok`
    layers: list = dataclasses.field(default_factory=list)       # model layers
    first_row: list = dataclasses.field(default_factory=list)    # logical experts of this rank's slots, first layer
    tensors: list = dataclasses.field(default_factory=list)      # that moved, of the first layer
    slots_verified: int = 0

    def to_json(self):
        return json.dumps(dataclasses.asdict(self))


@dataclasses.dataclass
class _Installed:
    attestation: Attestation
    process_group: object = None
    layout: Layout = None
    adapter: Adapter = None
    draft_layers: str = "refuse"
    table: torch.Tensor = None
    routing: object = None        # as it was given
    layers: list = None
    digests: list = None          # per layer [names, S, 4], as verified
    fixed_digests: list = None
    unproven_slots: list = None   # names of tensors that no witness speaks for


_installed = weakref.WeakKeyDictionary()  # model -> _Installed
_claims = weakref.WeakKeyDictionary()     # model -> lock of the installation that is under way
_claims_lock = threading.Lock()


def attest(model):
    """The Attestation of a model; `ok` is false before and during an installation and after one that failed. One that
    was refused before its first write leaves what was in force before."""
    return _installed[model].attestation if model in _installed else Attestation()


def install_model(model, layout, rank, ranks, process_group=None, adapter="generic", source="ranks", *, witness=None,
                  routing=None, current=None, table=None, nodes=1, draft_layers="refuse"):
    """Installs `layout`, which admit() must have admitted, on the MoE layers of `model`, in place, and returns its
    Attestation on every rank.

    source   "ranks": the slots now hold `current` (default: what was installed before, else the linear layout), and
             move between the ranks; "loaded": the engine already filled them by this layout, verify only; "engine": one of
             the two, by what the witness finds in the slots; or a reader of experts such as HfCheckpoint and RankFile.
    witness  what knows the experts apart from the slots: an HfCheckpoint, or what prove_loaded() returned. A reader is its own.
             Without one nothing is attested: the state is "not proven".
    routing  what the engine routes by on this rank: physical slots [L, E] or candidates [L, E, n], or a function that gives them;
             default: the tensor that the adapter names. Without it the state is "not proven"; prove_routing() can follow.
    table    static dispatch table int32 [R, L, E]; default: the one that was admitted with the layout. Every rank must
             hold the same, and every entry must host its expert.
    nodes    hosts that the ranks are spread over: a slot comes from the same host where it can.
    Raises InstallError on every rank with the reasons of all; a model that was partly written is refused from then on. Of two
    installations at once on one model one is refused.
    """
    group = Group(rank, ranks, process_group)  # before this, nobody else can be told
    with _claimed(model, group):
        installation = _Installation(model, group, source)
        facts = group.run("agree", lambda: installation.prepare(layout, adapter, witness, routing, current, table, nodes,
                                                                draft_layers))
        group.local("agree", lambda: _require_agreement(facts))
        return installation.carry_out()


def prove_routing(model, routing=None):
    """Holds what the engine routes by (see install_model) against the layout that was installed, on all ranks of the
    installation's group: for an engine whose table is replaced after the slots are verified. Returns the Attestation, then
    "in force" where the slots are proven too."""
    state, group = _installed_of(model)

    def prove():
        state.routing = routing if routing is not None else state.routing
        _prove_routing(state)

    group.local("prove the routing", prove)
    return _attested(state)


def verify_model(model, process_group=None):
    """Looks up every tensor and what the engine routes by again, on all ranks of the installation's group, and raises
    InstallError on all of them when a byte, an address or an entry changed anywhere. Returns the Attestation."""
    state, group = _installed_of(model, process_group)
    attestation = state.attestation

    def verify():
        layers = state.adapter.layers(model, state.layout, state.draft_layers, verify_only=True)
        _require_same_layers(layers, state.layers)
        for layer, before, digests, fixed in zip(layers, state.layers, state.digests, state.fixed_digests):
            _compare(layer, layer.digests(), digests, state.layout, attestation.rank)
            _compare_fixed(layer, before, layer.fixed_digests(), fixed)
        state.layers = layers
        if NOT_SHOWN not in attestation.unproven:
            _prove_routing(state)

    attestation.ok = False
    try:
        group.local("verify", verify)
    except InstallError as error:
        attestation.state, attestation.reason = "not proven", first_line(error)
        raise
    return _attested(state)


class _Installation:
    """One call of install_model. Every method is a phase of the group, or is made of phases."""

    def __init__(self, model, group, source):
        self.model, self.group, self.source = model, group, source
        self.state = _Installed(Attestation(rank=group.rank), group.process_group)

    def prepare(self, layout, adapter, witness, routing, current, table, nodes, draft_layers):
        """Everything that can be judged before a slot is read; returns what all ranks must have in common."""
        state, group = self.state, self.group
        state.adapter = adapter = Adapter.load(adapter)
        before = _installed.get(self.model)
        if before is not None and before.attestation.state in ("installing", "partly written"):
            raise InstallError(f"this model was partly written ({before.attestation.reason}); load it again")
        admission = layout.require_admission()
        if layout.ranks != group.ranks:
            raise InstallError(f"the layout is for {layout.ranks} ranks, this is a group of {group.ranks}")
        if adapter.engine not in ("generic", admission.engine):
            raise InstallError(f"the layout was admitted to {admission.engine}, adapter {adapter.name} is for "
                               f"{adapter.engine}")
        state.table = _agreed_table(layout, admission, table)
        if current is None:
            current = before.layout if before is not None else Layout.linear(layout.layers, layout.experts, group.ranks,
                                                                             layout.slots)
        if current.geometry() != layout.geometry():
            raise InstallError(f"the slots now follow {current.geometry()}, the layout is {layout.geometry()}")
        if isinstance(self.source, str) and self.source not in _SOURCES:
            raise InstallError(f"source '{self.source}' is none of {', '.join(_SOURCES)}, nor an object that reads experts")
        self.current, self.nodes, self.witness = current, nodes, as_witness(witness, self.model)
        if self.source == "engine" and self.witness is None:
            raise InstallError("source 'engine' needs a witness: only the contents tell whether the engine followed the layout")
        verify_only = self.source == "loaded"
        state.layout, state.draft_layers, state.routing = layout, draft_layers, routing
        state.layers = adapter.layers(self.model, layout, draft_layers, verify_only)
        _require_every_layer(state.layers, adapter, layout, admission)
        self._fill_attestation(admission)
        attestation = state.attestation
        return {"layout": attestation.map_hash, "dispatch table": attestation.table_sha256 or "none",
                "geometry": str(attestation.geometry), "admission": attestation.admitted_to, "adapter": attestation.adapter,
                "source": attestation.source, "witness": type(self.witness).__name__, "current layout": current.map_hash,
                "nodes": nodes, "tensors": str([(layer.layer, layer.row, layer.forms()) for layer in state.layers])}

    def carry_out(self):
        state, group = self.state, self.group
        started = False
        try:
            self._read_slots()
            self._find_held()
            group.local("compare replicas", self._expect)
            started = not (isinstance(self.source, str) and self.held is state.layout)
            if started:
                _installed[self.model] = state
                state.attestation.state = "installing"
            self._write()
            self._verify()
        except BaseException as error:
            if started:
                state.attestation.state, state.attestation.reason = "partly written", first_line(error)
            raise
        _installed[self.model] = state
        return _attested(state)

    def _fill_attestation(self, admission):
        state, layout = self.state, self.state.layout
        attestation = state.attestation
        attestation.layout_sha256, attestation.map_hash, attestation.geometry = layout.sha256, layout.map_hash, layout.geometry()
        attestation.admitted_to = admission.summary()
        if state.table is not None:
            attestation.table_sha256 = hashlib.sha256(state.table.numpy().tobytes()).hexdigest()
        attestation.adapter = state.adapter.name
        attestation.source = self.source if isinstance(self.source, str) else type(self.source).__name__
        attestation.witness = self.witness.name if self.witness else ""
        attestation.layers = [layer.layer for layer in state.layers]
        attestation.first_row = layout.row(state.layers[0].row, attestation.rank)
        attestation.tensors = state.layers[0].names

    def _read_slots(self):
        """Digests of every slot of every rank, and of what does not move."""
        def read():
            self.fixed = [layer.fixed_digests() for layer in self.state.layers]
            return [layer.digests() for layer in self.state.layers] if isinstance(self.source, str) else None

        self.everybody = self.group.run("read the slots", read)

    def _find_held(self):
        """What the slots hold before anything is written: as the caller says, and as the witness finds; and which tensors it
        cannot tell of."""
        state, group = self.state, self.group
        if not isinstance(self.source, str):
            state.unproven_slots = []  # written from what knows them
            self.held = None
            return
        self.held = state.layout if self.source == "loaded" else self.current
        state.unproven_slots = list(dict.fromkeys(name for layer in state.layers for name in layer.names))
        if self.witness is not None:
            answers = group.run("ask the witness", self._ask)
            group.local("ask the witness", lambda: self._judge([answer["misfits"] for answer in answers]))
            state.unproven_slots = list(dict.fromkeys(name for answer in answers for name in answer["unproven"]))
            state.attestation.found = "layout" if self.held is state.layout else "current"

    def _ask(self):
        """Per candidate layout the first slot that does not hold it, or None; and the names that the witness cannot judge."""
        state, group = self.state, self.group
        misfits, unproven = {"layout": [], "current": []}, []
        for layer, digests in zip(state.layers, self.everybody[group.rank]):
            for label, candidate in (("layout", state.layout), ("current", self.current)):
                row = candidate.row(layer.row, group.rank)
                matching, covered = self.witness.matches(layer, state.adapter, digests, row)
                misfits[label].append(first_misfit(layer, matching, covered, row))
            unproven += [name for name, told in zip(layer.names, covered.tolist()) if not told]
        if len(unproven) == sum(len(layer.names) for layer in state.layers):
            raise InstallError(f"{self.witness.name} can tell of no tensor that adapter {state.adapter.name} moves: give it a "
                               "`checkpoint` entry, or prove_loaded() before the engine processes the weights")
        return {"misfits": {label: next((one for one in found if one), None) for label, found in misfits.items()},
                "unproven": unproven}

    def _judge(self, misfits):
        state = self.state
        if self.source == "engine":
            self.held = {"layout": state.layout, "current": self.current}[decide(misfits)]
            return
        label, other = ("layout", "current") if self.source == "loaded" else ("current", "layout")
        wrong = [(rank, answer[label]) for rank, answer in enumerate(misfits) if answer[label] is not None]
        if wrong:
            all_other = all(answer[other] is None for answer in misfits)
            hint = {"layout": "the engine did not load this layout", "current": "the engine has followed the layout already: moving "
                    "the slots would do it twice, use source='engine'" if all_other else
                    "the slots do not hold the layout they are said to hold"}[label]
            raise InstallError(f"rank {wrong[0][0]}: {wrong[0][1]}; {hint}; nothing was written")

    def _expect(self):
        """What every logical expert must hash to, per layer a dictionary expert -> [names, 4], from the slots that hold it now;
        what a reader gives is known only once it was read, so the dictionaries start empty."""
        self.expected = [{} for _ in self.state.layers]
        if self.held is None:
            return
        for index, (layer, known) in enumerate(zip(self.state.layers, self.expected)):
            first_holder = {}
            for rank in range(self.group.ranks):
                for slot, expert in enumerate(self.held.row(layer.row, rank)):
                    digest = self.everybody[rank][index][:, slot]
                    if expert not in known:
                        known[expert], first_holder[expert] = digest, (rank, slot)
                    elif not torch.equal(known[expert], digest):
                        name = layer.names[int((known[expert] != digest).any(dim=1).nonzero()[0])]
                        whose = ("the engine did not load this layout" if self.source == "loaded" else
                                 "the slots do not hold the layout they are said to hold; nothing was written")
                        raise InstallError(f"layer {layer.layer}, {name}: expert {expert} differs between rank "
                                           f"{first_holder[expert][0]} slot {first_holder[expert][1]} and rank {rank} slot "
                                           f"{slot}; {whose}")

    def _write(self):
        state, group = self.state, self.group
        if self.held is state.layout:
            return
        if self.held is not None:
            for layer in state.layers:
                plan = group.local("plan", lambda: plan_of(self.held, state.layout, layer.row, self.nodes))
                move_layer(layer, plan, group)
            return

        def fill():
            for layer, known in zip(state.layers, self.expected):
                row = state.layout.row(layer.row, group.rank)
                experts = self.source.layer(layer, state.adapter, row)
                digests = layer.digests_of(layer.names, experts)
                known.update((expert, digests[:, slot]) for slot, expert in enumerate(row))
                layer.install(experts, list(range(layer.slots)))

        group.local("write", fill)

    def _verify(self):
        state, group = self.state, self.group

        def verify():
            state.digests = [layer.digests() for layer in state.layers]
            state.fixed_digests = [layer.fixed_digests() for layer in state.layers]
            for layer, digests, known in zip(state.layers, state.digests, self.expected):
                row = state.layout.row(layer.row, group.rank)
                _compare(layer, digests, torch.stack([known[expert] for expert in row], dim=1), state.layout, group.rank)
            for layer, fixed, before in zip(state.layers, state.fixed_digests, self.fixed):
                _compare_fixed(layer, layer, fixed, before)
            state.attestation.slots_verified = sum(digests.shape[1] for digests in state.digests)
            return state.digests

        everybody = group.run("verify", verify)
        group.local("compare replicas", lambda: _require_equal_replicas(state, everybody))
        group.local("prove the routing", lambda: _prove_routing(state))


@contextlib.contextmanager
def _claimed(model, group):
    """One installation at a time: rank 0 decides, so that all ranks let the same one through."""
    with _claims_lock:
        lock = _claims.setdefault(model, threading.Lock())
    claims = []

    def claim():
        if group.rank == 0:
            if not lock.acquire(blocking=False):
                raise InstallError("another installation on this model is under way")
            claims.append(lock)

    try:
        group.local("claim the model", claim)
        if group.rank != 0:
            lock.acquire()  # free as soon as the installation before has ended here too
            claims.append(lock)
        yield
    finally:
        for claimed in claims:
            claimed.release()


def _installed_of(model, process_group=None):
    state = _installed.get(model)
    if state is None or state.attestation.state not in ("in force", "not proven"):
        raise InstallError("no layout is in force on this model")
    return state, Group(state.attestation.rank, state.layout.ranks, process_group or state.process_group)


def _attested(state):
    attestation = state.attestation
    attestation.ok = not attestation.unproven
    attestation.state = "in force" if attestation.ok else "not proven"
    attestation.reason = "; ".join(attestation.unproven)
    return attestation


def _prove_routing(state):
    """Raises where an entry is wrong, and settles what is left unproven."""
    rows = routing_rows(state.layers, state.routing)
    if rows is not None:
        require_routing(state.layers, rows, state.layout, state.table, state.attestation.rank)
    unproven = [] if rows is not None else [NOT_SHOWN]
    if state.unproven_slots:
        unproven.insert(0, f"no witness for the slots of {', '.join(state.unproven_slots)}")
    state.attestation.unproven = unproven


def _agreed_table(layout, admission, table):
    """The table that routing is to use, int32 on the CPU, or None."""
    if table is None:
        return admission.table
    table = table.to(dtype=torch.int32, device="cpu").contiguous()
    if admission.table is not None and not torch.equal(table, admission.table):
        raise InstallError("the dispatch table is not the one that was admitted with the layout")
    layout.require_table(table)
    return table


def _require_agreement(facts):
    for key, value in facts[0].items():
        others = [rank for rank, fact in enumerate(facts) if fact[key] != value]
        if others:
            raise InstallError(f"ranks disagree on the {key}: rank 0 has {value}, rank {others[0]} has "
                               f"{facts[others[0]][key]}; nothing was written")


def _require_every_layer(layers, adapter, layout, admission):
    """A layer that the adapter's pattern misses would be routed by the new map over weights that stayed."""
    facts = admission.attestation["facts"]
    wanted = facts.get("expert-layers", layout.layers if adapter.data.get("rows") == "moe-layers" else None)
    if wanted is not None and int(facts.get("pipeline-parallel", 1)) == 1 and len(layers) != int(wanted):
        raise InstallError(f"adapter {adapter.name} finds {len(layers)} layers with experts, the model has {wanted}: "
                           f"{[layer.layer for layer in layers]}")


def _require_equal_replicas(state, everybody):
    for index, layer in enumerate(state.layers):
        seen = {}
        for rank, digests in enumerate(everybody):
            for slot, expert in enumerate(state.layout.row(layer.row, rank)):
                if not torch.equal(seen.setdefault(expert, digests[index][:, slot]), digests[index][:, slot]):
                    raise InstallError(f"layer {layer.layer}: replicas of expert {expert} differ, one of them on rank {rank} slot "
                                       f"{slot}")


def _require_same_layers(layers, before):
    if [layer.layer for layer in layers] != [layer.layer for layer in before]:
        raise InstallError(f"layers with experts are {[layer.layer for layer in layers]}, at the installation they were "
                           f"{[layer.layer for layer in before]}")
    for layer, old in zip(layers, before):
        if layer.names != old.names or layer.parts != old.parts:
            raise InstallError(f"layer {layer.layer}: its tensors are {layer.names}, at the installation they were {old.names}")
        if layer.addresses() != old.addresses():
            at = next(index for index, pair in enumerate(zip(layer.addresses(), old.addresses())) if pair[0] != pair[1])
            family = next(index for index in range(len(layer.names)) if sum(layer.parts[:index + 1]) > at)
            raise InstallError(f"layer {layer.layer}, {layer.names[family]}: lies elsewhere than at the installation; graphs that "
                               "were captured read the old memory")


def _compare(layer, digests, wanted, layout, rank):
    different = (digests != wanted).any(dim=2)
    if bool(different.any()):
        name, slot = (int(value) for value in different.nonzero()[0])
        expert = layout.row(layer.row, rank)[slot]
        raise InstallError(f"layer {layer.layer}, {layer.names[name]}, slot {slot}: its bytes are not those of expert "
                           f"{expert}")


def _compare_fixed(layer, before, digests, digests_before):
    if list(layer.fixed) != list(before.fixed):
        other = sorted(set(layer.fixed) ^ set(before.fixed))
        raise InstallError(f"layer {layer.layer}: {', '.join(other)}: came or went, although nothing was installed")
    different = (digests != digests_before).any(dim=2).flatten()
    if bool(different.any()):
        raise InstallError(f"layer {layer.layer}, {list(layer.fixed)[int(different.nonzero()[0])]}: changed, although it "
                           "does not move")
