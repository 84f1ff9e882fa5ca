"""Puts a layout in force on a loaded model and proves it, or says on every rank why not."""
import dataclasses
import hashlib
import json
import weakref

import torch

from .adapter import Adapter
from .group import Group, InstallError, first_line, move_layer, plan_of
from .layout import Layout


@dataclasses.dataclass
class Attestation:
    """What is in force on this rank. `ok` only after every rank has verified."""
    ok: bool = False
    state: str = "nothing installed"  # "installing", "partly written", "in force"
    reason: str = ""
    rank: int = 0
    layout_sha256: str = ""
    map_hash: str = ""
    table_sha256: str = ""
    geometry: dict = dataclasses.field(default_factory=dict)
    admitted_to: str = ""  # engine and facts of the admission
    adapter: str = ""
    source: str = ""
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
    layers: list = None
    digests: list = None          # per layer [names, S, 4], as verified
    fixed_digests: list = None


_installed = weakref.WeakKeyDictionary()  # model -> _Installed


def attest(model):
    """The Attestation of a model; `ok` is false before and during an installation and after one that failed. One that
    was refused before its first write leaves what was in force before."""
    return _installed[model].attestation if model in _installed else Attestation()


def install_model(model, layout, rank, ranks, process_group=None, adapter="generic", source="ranks", *, current=None,
                  table=None, nodes=1, draft_layers="refuse"):
    """Installs `layout`, which admit() must have admitted, on the MoE layers of `model`, in place, and returns its
    Attestation on every rank.

    source   "ranks": the slots now hold `current` (default: what was installed before, else the linear layout), and
             move between the ranks; "loaded": the engine already filled them by this layout, verify only; or a reader of
             experts such as HfCheckpoint and RankFile.
    table    static dispatch table int32 [R, L, E]; default: the one that was admitted with the layout. Every rank must
             hold the same, and every entry must host its expert.
    nodes    hosts that the ranks are spread over: a slot comes from the same host where it can.
    Raises InstallError on every rank with the reasons of all; a model that was partly written is refused from then on.
    """
    state = _Installed(Attestation(rank=rank), process_group)
    group = Group(rank, ranks, process_group)  # before this, nobody else can be told
    failure, facts = None, None
    try:
        adapter = Adapter.load(adapter)
        before = _installed.get(model)
        if before is not None and before.attestation.state == "partly written":
            raise InstallError(f"this model was partly written ({before.attestation.reason}); load it again")
        admission = layout.require_admission()
        if layout.ranks != ranks:
            raise InstallError(f"the layout is for {layout.ranks} ranks, this is a group of {ranks}")
        if adapter.engine not in ("generic", admission.engine):
            raise InstallError(f"the layout was admitted to {admission.engine}, adapter {adapter.name} is for "
                               f"{adapter.engine}")
        table = _agreed_table(layout, admission, table)
        if current is None:
            in_force = before is not None and before.attestation.ok
            current = before.layout if in_force else Layout.linear(layout.layers, layout.experts, ranks, layout.slots)
        if current.geometry() != layout.geometry():
            raise InstallError(f"the slots now follow {current.geometry()}, the layout is {layout.geometry()}")
        state.layout, state.layers = layout, adapter.layers(model, layout, draft_layers, source == "loaded")
        _require_every_layer(state.layers, adapter, layout, admission)
        kind = source if isinstance(source, str) else type(source).__name__
        if isinstance(source, str) and source not in ("ranks", "loaded"):
            raise InstallError(f"source '{source}' is neither ranks, loaded nor an object that reads experts")
        _fill_attestation(state, layout, admission, table, adapter, kind)
        facts = _facts(state, current, nodes)
    except Exception as error:  # whatever it is, the other ranks must hear of it
        failure = error
    _require_agreement(group.settle(failure, facts))

    started = False
    try:
        expected, fixed_before = _digests_before(state, current, group, source)
        started = source != "loaded"
        if started:
            _installed[model] = state
            state.attestation.state = "installing"
        _write(state, current, group, source, adapter, nodes, expected)
        _verify(state, group, expected, fixed_before)
    except BaseException as error:
        if started:
            state.attestation.state, state.attestation.reason = "partly written", first_line(error)
        raise
    _installed[model] = state
    state.attestation.state, state.attestation.ok = "in force", True
    return state.attestation


def verify_model(model, process_group=None):
    """Hashes every slot of an installed model again, on all ranks of the installation's group, and raises InstallError on
    all of them when a byte changed anywhere. Returns the Attestation."""
    state = _installed.get(model)
    if state is None or state.attestation.state != "in force":
        raise InstallError("no layout is in force on this model")
    attestation = state.attestation
    group = Group(attestation.rank, state.layout.ranks, process_group or state.process_group)
    failure = None
    try:
        for layer, digests, fixed in zip(state.layers, state.digests, state.fixed_digests):
            _compare(layer, layer.digests(), digests, state.layout, attestation.rank)
            _compare_fixed(layer, layer.fixed_digests(), fixed)
    except InstallError as error:
        failure = error
    attestation.ok = False
    try:
        group.settle(failure)
    except InstallError as error:
        attestation.reason = first_line(error)
        raise
    attestation.ok, attestation.reason = True, ""
    return attestation


def _agreed_table(layout, admission, table):
    """The table that routing is to use, int32 on the CPU, or None."""
    if table is None:
        return admission.table
    table = table.to(dtype=torch.int32, device="cpu").contiguous()
    if admission.table is not None and not torch.equal(table, admission.table):
        raise InstallError("the dispatch table is not the one that was admitted with the layout")
    layout.require_table(table)
    return table


def _fill_attestation(state, layout, admission, table, adapter, kind):
    attestation = state.attestation
    attestation.layout_sha256, attestation.map_hash, attestation.geometry = layout.sha256, layout.map_hash, layout.geometry()
    attestation.admitted_to = admission.summary()
    if table is not None:
        attestation.table_sha256 = hashlib.sha256(table.numpy().tobytes()).hexdigest()
    attestation.adapter, attestation.source = adapter.name, kind
    attestation.layers = [layer.layer for layer in state.layers]
    attestation.first_row = layout.row(state.layers[0].row, attestation.rank)
    attestation.tensors = state.layers[0].names


def _facts(state, current, nodes):
    """What every rank must hold in common before the first write."""
    attestation = state.attestation
    return {"layout": attestation.map_hash, "dispatch table": attestation.table_sha256 or "none",
            "geometry": str(attestation.geometry), "admission": attestation.admitted_to, "adapter": attestation.adapter, "source": attestation.source,
            "current layout": current.map_hash, "nodes": nodes,
            "tensors": str([(layer.layer, layer.row, layer.names) for layer in state.layers])}


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


def _digests_before(state, current, group, source):
    """What every logical expert must hash to, per layer a dictionary expert -> [names, 4], from the slots that hold it
    now (what a reader gives is known only once it was read, so the dictionaries start empty); and what the tensors that
    do not move hash to."""
    failure, own, fixed = None, None, None
    try:
        fixed = [layer.fixed_digests() for layer in state.layers]
        if isinstance(source, str):
            own = [layer.digests() for layer in state.layers]
    except Exception as error:
        failure = error
    everybody = group.settle(failure, own)
    if not isinstance(source, str):
        return [{} for _ in state.layers], fixed
    held = state.layout if source == "loaded" else current
    expected = []
    for index, layer in enumerate(state.layers):
        table, first_holder = {}, {}
        for rank in range(group.ranks):
            for slot, expert in enumerate(held.row(layer.row, rank)):
                digest = everybody[rank][index][:, slot]
                if expert not in table:
                    table[expert], first_holder[expert] = digest, (rank, slot)
                elif not torch.equal(table[expert], digest):
                    name = layer.names[int((table[expert] != digest).any(dim=1).nonzero()[0])]
                    raise InstallError(f"layer {layer.layer}, {name}: expert {expert} differs between rank "
                                       f"{first_holder[expert][0]} slot {first_holder[expert][1]} and rank {rank} slot "
                                       f"{slot}; {'the engine did not load this layout' if source == 'loaded' else 'the slots do not hold the layout they are said to hold; nothing was written'}")
        expected.append(table)
    return expected, fixed


def _write(state, current, group, source, adapter, nodes, expected):
    if source == "loaded":
        return
    if source == "ranks":
        for layer in state.layers:
            move_layer(layer, plan_of(current, state.layout, layer.row, nodes), group)
        return
    failure = None
    try:
        for layer, table in zip(state.layers, expected):
            row = state.layout.row(layer.row, group.rank)
            experts = source.layer(layer, adapter, row)
            digests = layer.digests_of(experts)
            table.update((expert, digests[:, slot]) for slot, expert in enumerate(row))
            layer.install(experts, list(range(layer.slots)))
    except Exception as error:
        failure = error
    group.settle(failure)


def _verify(state, group, expected, fixed_before):
    failure, own = None, None
    try:
        state.digests = [layer.digests() for layer in state.layers]
        state.fixed_digests = [layer.fixed_digests() for layer in state.layers]
        for layer, digests, table in zip(state.layers, state.digests, expected):
            row = state.layout.row(layer.row, group.rank)
            wanted = torch.stack([table[expert] for expert in row], dim=1)
            _compare(layer, digests, wanted, state.layout, group.rank)
        for layer, fixed, before in zip(state.layers, state.fixed_digests, fixed_before):
            _compare_fixed(layer, fixed, before)
        state.attestation.slots_verified = sum(digests.shape[1] for digests in state.digests)
        own = state.digests
    except Exception as error:
        failure = error
    everybody = group.settle(failure, own)
    replicas = _replica_failure(state, everybody)
    group.settle(replicas)


def _replica_failure(state, everybody):
    for index, layer in enumerate(state.layers):
        seen = {}
        for rank, digests in enumerate(everybody):
            for slot, expert in enumerate(state.layout.row(layer.row, rank)):
                if not torch.equal(seen.setdefault(expert, digests[index][:, slot]), digests[index][:, slot]):
                    return InstallError(f"layer {layer.layer}: replicas of expert {expert} differ, one of them on rank "
                                        f"{rank} slot {slot}")
    return None


def _compare(layer, digests, wanted, layout, rank):
    different = (digests != wanted).any(dim=2)
    if bool(different.any()):
        name, slot = (int(value) for value in different.nonzero()[0])
        expert = layout.row(layer.row, rank)[slot]
        raise InstallError(f"layer {layer.layer}, {layer.names[name]}, slot {slot}: its bytes are not those of expert "
                           f"{expert}")


def _compare_fixed(layer, digests, before):
    different = (digests != before).any(dim=2).flatten()
    if bool(different.any()):
        raise InstallError(f"layer {layer.layer}, {list(layer.fixed)[int(different.nonzero()[0])]}: changed, although it "
                           "does not move")
