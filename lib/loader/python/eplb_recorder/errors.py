"""The one exception of the recorder."""


class WindowError(RuntimeError):
    """A window cannot be recorded or written. One line: what is wrong, where, and what to do. The window is never lost by it."""
