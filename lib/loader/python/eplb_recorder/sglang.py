"""Adapter for SGLang: takes the place of the accumulator behind its start/stop/dump endpoints.

What it needs of an engine is in the tables below, and install() looks for it before the first pass: a scheduler dies of whatever
is raised inside a forward pass or a dump.
"""

from __future__ import annotations

import inspect
import logging
import os
import time

from .errors import WindowError
from .recorder import Recorder

_log = logging.getLogger(__name__)

# The methods that SGLang calls on an accumulator, each with the arguments it had in some release.
METHODS = {
    "append": [("forward_pass_id", "gatherer_key", "single_pass_data"),             # until December 2025
               ("forward_pass_id", "gatherer_key", "single_pass_data", "outputs")],  # since
    "reset": [()],
    "dump": [("output_mode",)],
    "get_single_pass_gatherer_keys": [()],
    "get_single_pass_gatherer_key": [("debug_name",)],
}

# Server arguments that make the accumulator reduce on the device in every pass, and their values that do not. A release has one.
REPORTING = {
    "enable_expert_distribution_metrics": (False, None),  # until August 2026
    "expert_balancedness_report_mode": ("off", None),     # since
}


class SGLangAccumulator:
    """What SGLang's expert distribution recorder expects of an accumulator in the modes `stat` and `stat_approx`.

    recorder   a Recorder of the server's geometry, on the server's device
    group      the server's Gloo (CPU) group over all ranks
    folder     where dumps go; None: SGLANG_EXPERT_DISTRIBUTION_RECORDER_DIR, as the server itself does, or /tmp

    Nothing here raises into the scheduler: what fails is logged as an error on every rank and kept in `failure`. SGLang empties
    the accumulator after a dump whatever became of it; after one that failed a window stays as it is, to be dumped again: what
    the server computes until then is not added to it.
    """

    def __init__(self, recorder: Recorder, group, folder: str | None = None, *, timeout: float = 60.0):
        self.recorder, self.group, self.timeout = recorder, group, timeout
        self.folder = folder or os.environ.get("SGLANG_EXPERT_DISTRIBUTION_RECORDER_DIR", "/tmp")
        self.failure: str | None = None  # of the last pass or dump; None while all is well
        self._dump_failed: bool | None = None  # of a dump whose reset() is still to come

    def get_single_pass_gatherer_keys(self) -> list[str]:
        return ["primary"]

    def get_single_pass_gatherer_key(self, debug_name: str | None) -> str:
        return "primary"

    def append(self, forward_pass_id: int, gatherer_key: str, single_pass_data: dict, outputs: dict | None = None) -> None:
        self._dump_failed = None
        try:
            self.recorder.add_counts(single_pass_data["global_physical_count"])
            self.recorder.append()
        except Exception as error:
            self.recorder.stop()
            self._fail(f"pass {forward_pass_id} was not recorded, and recording has stopped", error)

    def reset(self) -> None:
        """SGLang resets when a recording starts and after a dump; whether a pass is recorded it decides itself."""
        after_dump, self._dump_failed = self._dump_failed, None
        if after_dump is None:
            self.failure = None
            self.recorder.start()
        elif not after_dump or self.recorder.recorded() == 0:
            self.recorder.resume()

    def dump(self, output_mode: str):
        """The DumpReport, or None after a failure."""
        self._dump_failed, self.failure = True, None
        path = os.path.join(self.folder, f"expert_distribution_recorder_{time.time()}.pt")
        try:
            if output_mode != "file":
                raise WindowError(f"output mode '{output_mode}': this recorder writes files; online rebalancing keeps SGLang's own")
            report = self.recorder.dump(path, self.group, timeout=self.timeout)
        except Exception as error:
            self._fail("the window was not dumped and is kept", error)
            return None
        self._dump_failed = False
        _log.info("eplb: %d records written to %s, sha256 %s", report.records, report.path, report.sha256)
        return report

    def _fail(self, what: str, error: Exception) -> None:
        if self.failure is None:  # a recorder that has stopped fails in every further pass
            _log.error("eplb: %s: %s: %s", what, type(error).__name__, error)
        self.failure = f"{what}: {error}"


def install(server_recorder, server_args, recorder: Recorder, group, folder: str | None = None) -> SGLangAccumulator:
    """Puts our accumulator behind a server's recorder, before the first start_record().

    server_recorder  get_global_expert_distribution_recorder() of the server's process
    Refuses what would bring a device collective back, what this accumulator does not replace, and an engine that is of no known
    shape, naming the switch or the method.
    """
    mode = getattr(server_args, "expert_distribution_recorder_mode", None)
    if mode not in ("stat", "stat_approx"):
        raise WindowError(f"--expert-distribution-recorder-mode is {mode}; start the server with stat")
    _require_no_reporting(server_args)
    if getattr(server_args, "enable_eplb", False):
        raise WindowError("--enable-eplb rebalances from the recorder's own counts; collect with a static layout")
    if not hasattr(server_recorder, "_accumulator"):
        raise WindowError("this server has no active recorder: is --expert-distribution-recorder-mode stat given?")
    if server_recorder.recording:
        raise WindowError("the server is already recording; install the accumulator before start_record()")
    _require_known_methods(type(server_recorder._accumulator))
    _require_geometry(server_recorder, recorder)
    server_recorder._accumulator = SGLangAccumulator(recorder, group, folder)
    return server_recorder._accumulator


def _require_no_reporting(server_args) -> None:
    known = [name for name in REPORTING if hasattr(server_args, name)]
    if not known:
        raise WindowError(f"the server's arguments have none of {', '.join(REPORTING)}: this release of SGLang is not known here")
    for name in known:
        value = getattr(server_args, name)
        if value not in REPORTING[name]:
            raise WindowError(
                f"--{name.replace('_', '-')} is {value}: it reduces utilisation on the device in every pass and at the dump; start "
                "the server without it while a window is collected"
            )


def _require_known_methods(accumulator: type) -> None:
    for name, known in METHODS.items():
        method = getattr(accumulator, name, None)
        if method is None:
            raise WindowError(f"{accumulator.__name__} has no {name}(): this release of SGLang is not known here")
        arguments = tuple(inspect.signature(method).parameters)[1:]  # without self
        if arguments not in known:
            raise WindowError(f"{accumulator.__name__}.{name}({', '.join(arguments)}): this release of SGLang is not known here, "
                              f"{' or '.join(f'({chr(44).join(one)})' for one in known)} is")


def _require_geometry(server_recorder, recorder: Recorder) -> None:
    metadata = getattr(server_recorder, "_expert_location_metadata", None)
    if metadata is None:
        return
    server, own = list(metadata.physical_to_logical_map.shape), [recorder.layers, recorder.slots]
    if server != own:
        raise WindowError(f"the server has {server[0]} layers x {server[1]} slots, the recorder {own[0]} x {own[1]}")
