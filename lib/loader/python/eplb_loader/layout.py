"""A layout and the static dispatch table that belongs to it, read and checked by the C++ library."""
import torch

from .library import ops


class Layout:
    """physical_to_logical_map of every layer: `map` int32 [L, R*S] on the CPU; slot p lives on rank p // S."""

    def __init__(self, map, experts, ranks, *, sha256="", path="", has_manifest=False):
        self.map = map.to(dtype=torch.int32, device="cpu").contiguous()
        self.experts, self.ranks = int(experts), int(ranks)
        self.map_hash = ops().map_hash(self.map, self.experts, self.ranks)  # refuses an illegal map
        self.sha256, self.path, self.has_manifest = sha256, path, has_manifest
        self.admission = None  # set by admit()
        self.layers, slots = self.map.shape
        self.slots = slots // self.ranks

    @classmethod
    def load(cls, path, ranks=None, *, allow_no_manifest=False):
        """Reads X.json and the manifest beside it. The number of ranks is the manifest's; `ranks` must agree with it, or
        stands in for it with `allow_no_manifest`. Raises RuntimeError that names file, place and value."""
        map, figures, sha256 = ops().read_layout(str(path), ranks or 0, allow_no_manifest)
        experts, ranks, has_manifest = figures
        return cls(map, experts, ranks, sha256=sha256, path=str(path), has_manifest=bool(has_manifest))

    @classmethod
    def linear(cls, layers, experts, ranks, slots):
        """What engines fill without a map: slot p holds expert p mod E in every layer."""
        row = torch.arange(ranks * slots, dtype=torch.int32) % experts
        return cls(row.repeat(layers, 1), experts, ranks)

    def require_admission(self):
        """The Admission; raises RuntimeError where there is none, or where the map was changed since."""
        if self.admission is None:
            raise RuntimeError("the layout was not admitted to this server: call eplb_loader.admit first")
        if ops().map_hash(self.map, self.experts, self.ranks) != self.admission.attestation["map_hash"]:
            raise RuntimeError("the map was changed after it was admitted")
        return self.admission

    def row(self, layer, rank=None):
        """Logical experts by slot, of all ranks or of one: a list of R*S or S ids."""
        row = self.map[layer].tolist()
        return row if rank is None else row[rank * self.slots:(rank + 1) * self.slots]

    def geometry(self):
        return {"layers": self.layers, "experts": self.experts, "ranks": self.ranks, "slots_per_rank": self.slots}

    def dispatch_table(self, model, nodes=None, tensor_parallel=1):
        """The table of every source rank under a static dispatch model, int32 [R, L, E] of physical slots."""
        return ops().dispatch_table(self.map, self.experts, self.ranks, model, nodes or 0, tensor_parallel)

    def require_table(self, table):
        """Raises unless every entry of `table` [R, L, E] is a slot that holds the expert it stands for."""
        ops().require_table(self.map, self.experts, self.ranks, table)

    def write_expert_map(self, path, force=False):
        """Writes the map file that vllm-ascend reads (eplb_config.expert_map_path), from a layout of its layers with experts."""
        ops().write_expert_map(str(path), self.map, self.experts, self.ranks, force)

    def require_expert_map(self, path):
        """Raises unless vllm-ascend would read this layout from the file."""
        ops().require_expert_map(str(path), self.map, self.experts, self.ranks)
