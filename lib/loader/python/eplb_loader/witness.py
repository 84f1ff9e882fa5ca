"""What tells which logical expert a slot holds: something that knows the experts' contents apart from the slots.

A witness has
    name              for the attestation
    matches(layer, adapter, digests, row) -> (bool [names, S], bool [names])
                      whether each slot holds the expert that `row` (S logical experts) gives it, where `digests` [names, S, 4] is
                      what the slots hold now; and of which tensors it can tell at all
"""
import weakref

import torch

from .adapter import Adapter, AdapterError
from .group import Group, InstallError
from .layout import Layout
from .sources import read_experts


class CheckpointWitness:
    """The experts of a Hugging Face checkpoint, put into the form of the slots by the adapter's `checkpoint` entry; of tensors
    that have none, and of those in a private format, it cannot tell.

    source  an HfCheckpoint
    """

    def __init__(self, source):
        self.source, self.name = source, f"checkpoint {source.folder}"
        self._last = None  # of the layer that was asked for last: (layer, expert -> [covered, 4])

    def matches(self, layer, adapter, digests, row):
        recipes = adapter.data.get("checkpoint", {})
        covered = [index for index, name in enumerate(layer.names) if name in recipes and name not in layer.raw]
        matching = torch.zeros(digests.shape[:2], dtype=torch.bool)
        if covered:
            known = self._digests_of(layer, [(layer.names[index], recipes[layer.names[index]]) for index in covered], row)
            wanted = torch.stack([known[expert] for expert in row], dim=1)
            matching[covered] = (digests[covered] == wanted).all(dim=2)
        return matching, _mask(covered, len(layer.names))

    def _digests_of(self, layer, named_recipes, row):
        if self._last is None or self._last[0] is not layer:
            self._last = (layer, {})
        known = self._last[1]
        missing = [expert for expert in dict.fromkeys(row) if expert not in known]
        if missing:
            types = dict(zip(layer.names, layer.dtypes()))
            experts = [read_experts(self.source.read, layer.layer, recipe, missing, types[name]) for name, recipe in named_recipes]
            found = layer.digests_of([name for name, _ in named_recipes], experts)
            known.update((expert, found[:, index]) for index, expert in enumerate(missing))
        return known


class LoadedProof:
    """That the slots of a model held the experts of a layout right after loading, before the engine brought the tensors into
    the form that it computes with. Made by prove_loaded(). Of tensors that the checkpoint can still tell of it is not
    believed: those are compared once more; the others the engine is trusted to have processed slot by slot."""

    def __init__(self, model, rank, held, checkpoint):
        self._model, self._rank, self.held, self._checkpoint = weakref.ref(model), rank, held, checkpoint
        self.name = f"{checkpoint.name}, at load"

    def require_model(self, model):
        if self._model() is not model:
            raise InstallError("the proof of what was loaded is of another model")

    def matches(self, layer, adapter, digests, row):
        same = torch.tensor([held == wanted for held, wanted in zip(self.held.row(layer.row, self._rank), row)])
        matching, compared = self._checkpoint.matches(layer, adapter, digests, row)
        matching[~compared] = same
        return matching, torch.ones_like(compared)


def prove_loaded(model, layout, rank, ranks, process_group=None, adapter="generic", *, checkpoint, current=None,
                 draft_layers="refuse"):
    """Compares every slot with the checkpoint at the moment when its tensors still have the checkpoint's form: after the engine
    has loaded the weights, before it processes them. Returns the LoadedProof, the witness of a later install_model(), on every
    rank, or raises InstallError on all of them.

    checkpoint   an HfCheckpoint
    current      what an engine loads that does not follow the layout; default: the linear layout
    The slots hold the layout on all ranks, or `current` on all of them: which, the contents say.
    """
    group = Group(rank, ranks, process_group)
    current = current or Layout.linear(layout.layers, layout.experts, ranks, layout.slots)
    witness = CheckpointWitness(checkpoint)

    def compare():
        loaded = Adapter.load(adapter).as_loaded()
        fits = {"layout": [], "current": []}
        for layer in loaded.layers(model, layout, draft_layers):
            digests = layer.digests()
            for label, candidate in (("layout", layout), ("current", current)):
                row = candidate.row(layer.row, rank)
                matching, covered = witness.matches(layer, loaded, digests, row)
                fits[label].append(first_misfit(layer, matching, covered, row))
        return {label: next((misfit for misfit in misfits if misfit), None) for label, misfits in fits.items()}

    answers = group.run("prove what was loaded", compare)
    label = decide(answers)
    return LoadedProof(model, rank, {"layout": layout, "current": current}[label], CheckpointWitness(checkpoint))


def decide(answers):
    """Which of the candidate layouts all ranks hold, of {"layout": None or a reason, "current": ...} by rank."""
    for label in ("layout", "current"):
        if all(answer[label] is None for answer in answers):
            return label
    followed = [rank for rank, answer in enumerate(answers) if answer["layout"] is None]
    stayed = [rank for rank, answer in enumerate(answers) if answer["current"] is None]
    reasons = [next(f"rank {rank}: {answer[label]}" for rank, answer in enumerate(answers) if answer[label] is not None)
               for label in ("layout", "current")]
    raise InstallError(f"the slots hold neither the layout nor what they held before: ranks {followed} follow the layout, ranks "
                       f"{stayed} stayed; of the layout {reasons[0]}; of what was before {reasons[1]}")


def first_misfit(layer, matching, covered, row):
    """Why the slots do not hold `row`, or None."""
    wrong = ~matching & covered.unsqueeze(1)
    if not bool(wrong.any()):
        return None
    name, slot = (int(value) for value in wrong.nonzero()[0])
    return f"layer {layer.layer}, {layer.names[name]}, slot {slot}: its bytes are not those of expert {row[slot]} in the checkpoint"


def as_witness(witness, model):
    """What install_model takes: an HfCheckpoint, a LoadedProof, an object with `matches`, or None."""
    if isinstance(witness, LoadedProof):
        witness.require_model(model)
        return witness
    if witness is None or hasattr(witness, "matches"):
        return witness
    if hasattr(witness, "read") and hasattr(witness, "folder"):
        return CheckpointWitness(witness)
    raise AdapterError(f"a witness is an HfCheckpoint or what prove_loaded() returns, not {type(witness).__name__}")


def _mask(indices, size):
    mask = torch.zeros(size, dtype=torch.bool)
    mask[indices] = True
    return mask
