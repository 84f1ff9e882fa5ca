"""Adapter for SGLang: takes the place of the accumulator behind its start/stop/dump endpoints."""

from __future__ import annotations

import os
import time

from .errors import WindowError
from .recorder import Recorder


class SGLangAccumulator:
    """What SGLang's expert distribution recorder expects of an accumulator in mode `stat`, over our Recorder.

    recorder   a Recorder of the server's geometry, on the server's device
    group      the server's Gloo (CPU) group over all ranks
    folder     where dumps go; None: SGLANG_EXPERT_DISTRIBUTION_RECORDER_DIR, as the server itself does, or /tmp

    SGLang empties the recorder after dump() returns; a dump that failed raises before that, so the window stays.
    """

    def __init__(self, recorder: Recorder, group, folder: str | None = None, *, timeout: float = 60.0):
        self.recorder, self.group, self.timeout = recorder, group, timeout
        self.folder = folder or os.environ.get("SGLANG_EXPERT_DISTRIBUTION_RECORDER_DIR", "/tmp")

    def get_single_pass_gatherer_keys(self) -> list[str]:
        return ["primary"]

    def get_single_pass_gatherer_key(self, debug_name: str | None) -> str:
        return "primary"

    def append(self, forward_pass_id: int, gatherer_key: str, single_pass_data: dict) -> None:
        self.recorder.add_counts(single_pass_data["global_physical_count"])
        self.recorder.append()

    def reset(self) -> None:
        """SGLang resets when a recording starts and after a dump that succeeded; whether a pass is recorded it decides itself."""
        self.recorder.start()

    def dump(self, output_mode: str):
        if output_mode != "file":
            raise WindowError(f"output mode '{output_mode}': this recorder writes files; online rebalancing keeps SGLang's own")
        return self.recorder.dump(os.path.join(self.folder, f"expert_distribution_recorder_{time.time()}.pt"), self.group,
                                  timeout=self.timeout)


def install(server_recorder, server_args, recorder: Recorder, group, folder: str | None = None) -> SGLangAccumulator:
    """Puts our accumulator behind a server's recorder, before the first start_record().

    server_recorder  get_global_expert_distribution_recorder() of the server's process
    Refuses what would bring a device collective back, and what this accumulator does not replace, naming the switch.
    """
    mode = getattr(server_args, "expert_distribution_recorder_mode", None)
    if mode not in ("stat", "stat_approx"):
        raise WindowError(f"--expert-distribution-recorder-mode is {mode}; start the server with stat")
    if getattr(server_args, "enable_expert_distribution_metrics", False):
        raise WindowError(
            "--enable-expert-distribution-metrics reduces utilisation on the device in every pass and at the dump; start the "
            "server without it while a window is collected"
        )
    if getattr(server_args, "enable_eplb", False):
        raise WindowError("--enable-eplb rebalances from the recorder's own counts; collect with a static layout")
    if not hasattr(server_recorder, "_accumulator"):
        raise WindowError("this server has no active recorder: is --expert-distribution-recorder-mode stat given?")
    if server_recorder.recording:
        raise WindowError("the server is already recording; install the accumulator before start_record()")
    server_recorder._accumulator = SGLangAccumulator(recorder, group, folder)
    return server_recorder._accumulator
