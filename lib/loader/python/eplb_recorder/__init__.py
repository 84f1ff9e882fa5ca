"""Records expert counts inside a server; see docs/recorder.md."""

from . import sglang
from .errors import WindowError
from .hook import attach
from .recorder import PHASES, DumpReport, Recorder

__all__ = ["PHASES", "DumpReport", "Recorder", "WindowError", "attach", "sglang"]
