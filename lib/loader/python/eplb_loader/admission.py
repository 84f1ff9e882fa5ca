"""May this layout be put in force on this server? The rules of `eplb-load check`, asked from the server's process."""
import dataclasses
import json

import torch

from .library import ops


class AdmissionError(RuntimeError):
    """The layout is refused; `reasons` has a line for each, and so has the message."""

    def __init__(self, path, reasons):
        super().__init__("\n".join([f"{path}: refused", *reasons]))
        self.path, self.reasons = path, reasons


@dataclasses.dataclass(frozen=True)
class Admission:
    """What was admitted: the attestation of `eplb-load check` (hashes, geometry, facts), all findings, and the dispatch
    table int32 [R, L, E] that was judged, if any."""
    attestation: dict
    findings: list
    table: torch.Tensor = None

    @property
    def engine(self):
        return self.attestation["engine"]

    def summary(self):
        """One line that is equal on ranks that were told the same."""
        facts = [f"{name} {value}" for name, value in self.attestation["facts"].items()]
        return ", ".join([f"engine {self.engine}", f"dispatch {self.attestation['dispatch'] or 'not stated'}", *facts])


def admit(layout, engine="generic", *, server_args=None, model_config=None, table=None, current=None, expect=None,
          allow_no_manifest=False, **facts):
    """Holds a layout that was loaded from a file against what is known of the server, before a weight is touched;
    install_model takes no other. Returns the Admission, or raises AdmissionError with a line for every reason.

    engine        sglang, vllm-ascend, xllm or generic
    server_args   the server's arguments: a dictionary, or a file with its command line or a JSON object
    model_config  the model's config.json, or the folder that holds it
    table         file of the static dispatch table; default: the one the manifest names, else that of the rule `dispatch`
    current       file of the layout in force now; expect: file of an earlier attestation that must still hold
    facts         what eplb-load check takes as flags: ranks=16, role="prefill", redundant_total=16, quant="w8a8", ...
    """
    layout.admission = None
    stated = {name.replace("_", "-"): str(value) for name, value in facts.items() if value is not None}
    arguments = {}
    if isinstance(server_args, dict):
        arguments["server_args_json"] = json.dumps(server_args, default=str)
    elif server_args is not None:
        arguments["server_args"] = str(server_args)
    for name, file in (("model_config", model_config), ("table", table), ("current", current), ("expect", expect)):
        if file is not None:
            arguments[name] = str(file)
    report, reasons, judged = ops().admit(layout.path, engine, stated, allow_no_manifest=allow_no_manifest, **arguments)
    report = json.loads(report)
    if not reasons and report["attestation"]["map_hash"] != layout.map_hash:
        reasons = ["LAYOUT_CHANGED: the file holds another map than when it was loaded (load it again)"]
    if reasons or not report["ok"]:
        raise AdmissionError(layout.path, reasons)
    layout.admission = Admission(report["attestation"], report["findings"], judged if judged.numel() else None)
    return layout.admission
