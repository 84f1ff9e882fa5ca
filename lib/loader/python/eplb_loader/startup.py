"""The steps that a server's process takes with a layout while it starts, for the hooks of docs/examples."""
import json
import os

import torch

from .admission import admit
from .group import InstallError, together
from .install import install_model, prove_routing
from .layout import Layout
from .sources import HfCheckpoint
from .witness import prove_loaded


class Startup:
    """One model on one rank, from the environment:

    EPLB_LAYOUT         the layout of `eplb-fit`, its manifest beside it
    EPLB_ADAPTER        an adapter, with the engine's version where it has periods
    EPLB_MODEL          the folder with the model's config.json and its safetensors, which are the witness
    EPLB_FACTS          what the server's arguments do not say: a JSON object of flags of `eplb-load check`
    EPLB_STARTED        folder: where each rank that has the layout in force leaves rank-N.json

    server_args         as admit() takes them
    """

    def __init__(self, engine, server_args, rank, ranks, group):
        self.rank, self.ranks, self.group = rank, ranks, group
        self.adapter = os.environ["EPLB_ADAPTER"]
        self.facts = json.loads(os.environ.get("EPLB_FACTS", "{}"))
        model = os.environ["EPLB_MODEL"]
        with together(rank, ranks, group):  # a failure on one host is an error on all
            self.layout = Layout.load(os.environ["EPLB_LAYOUT"], ranks)
            self.table = admit(self.layout, engine, server_args=server_args, model_config=model, **self.facts).table
            self.checkpoint = HfCheckpoint(model, self.layout)
        self.proof = None
        self.say(f"{os.environ['EPLB_LAYOUT']} is admitted, map hash {self.layout.map_hash[:12]}")

    def weights_loaded(self, model):
        """After the engine's own loading, before it brings the weights into the form that it computes with."""
        self.proof = prove_loaded(model, self.layout, self.rank, self.ranks, self.group, self.adapter, checkpoint=self.checkpoint)
        followed = self.proof.held is self.layout
        self.say(f"the engine {'followed the layout' if followed else 'left the slots in the linear layout'}")

    def weights_ready(self, model, routing=None, source="engine"):
        """Before graphs are captured: moves the slots where the engine did not. `routing` as install_model() takes it."""
        if self.proof is None:
            raise InstallError("the hook after the weights were loaded did not run: nothing is proven of the slots")
        attestation = install_model(model, self.layout, self.rank, self.ranks, self.group, adapter=self.adapter, source=source,
                                    witness=self.proof, routing=routing, nodes=int(self.facts.get("nodes", 1)))
        return self._started(attestation) if attestation.ok else attestation

    def replace_table(self, model, own):
        """Puts this rank's row of the admitted table in the place of the engine's own, int [L, E]; graphs keep the address."""
        with together(self.rank, self.ranks, self.group):
            if own is None or self.table is None or own.shape != self.table[self.rank].shape:
                raise InstallError("no static table to replace, or none to put in its place: let the engine dispatch statically, "
                                   "and state `dispatch` in EPLB_FACTS")
            own.copy_(self.table[self.rank].to(own.dtype))
        return self._started(prove_routing(model, lambda: own))

    def require_map(self, own):
        """That the engine holds this layout, [L, P]."""
        with together(self.rank, self.ranks, self.group):
            if not torch.equal(own.cpu().to(torch.int32), self.layout.map):
                raise InstallError("the engine holds another map than EPLB_LAYOUT: it ignored its flag, or read another file")

    def say(self, text):
        print(f"eplb rank {self.rank} of {self.ranks}: {text}\n", end="", flush=True)  # one write: ranks share a log

    def _started(self, attestation):
        if not attestation.ok:
            raise InstallError(f"not in force: {attestation.reason}")
        self.say(f"in force, {attestation.slots_verified} slots and the routing verified: {attestation.to_json()}")
        if folder := os.environ.get("EPLB_STARTED"):
            with open(os.path.join(folder, f"rank-{self.rank}.json"), "w", encoding="utf-8") as file:
                file.write(attestation.to_json())
        return attestation
