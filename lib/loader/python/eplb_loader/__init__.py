"""eplb_loader: puts a static EPLB layout in force inside a server process, and proves it (docs/loading.md)."""
from .admission import Admission, AdmissionError, admit
from .adapter import Adapter, AdapterError, adapter_names
from .group import InstallError, together
from .install import Attestation, attest, install_model, prove_routing, verify_model
from .layout import Layout
from .library import load_library
from .sources import HfCheckpoint, RankFile
from .witness import CheckpointWitness, LoadedProof, prove_loaded

__all__ = ["Adapter", "AdapterError", "Admission", "AdmissionError", "Attestation", "CheckpointWitness", "HfCheckpoint",
           "InstallError", "Layout", "LoadedProof", "RankFile", "adapter_names", "admit", "attest", "install_model",
           "load_library", "prove_loaded", "prove_routing", "together", "verify_model"]
