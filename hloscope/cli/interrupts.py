"""Ctrl-C ends the command with exit code 130 and a message, at any time.

While modules are loaded and while the process ends there is nobody to catch an exception, and one
in code that is made of text, as `namedtuple` does, ends Python by the signal.  So the process ends
at once there.  While a command runs, it is a `KeyboardInterrupt`, which puts away what was begun;
where Python would lose that, in callbacks of the memory, the process ends at once as well.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # until `install` an interrupt is Python's, so it comes before all that takes
if TYPE_CHECKING:  # long to load: `typing`, and the enumerations of `signal`
    import signal
    from types import FrameType
    from typing import NoReturn
else:
    import _signal as signal

INTERRUPTED = 130
"""The exit code of an interrupted process, as the shell has it."""
SAID = "\ninterrupted"


def install() -> None:
    """Let an interrupt end this process at once; one that is ignored stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def _leave(_: int, __: FrameType | None) -> NoReturn:
    try:
        os.write(2, f"{SAID}\n".encode())
    finally:
        os._exit(INTERRUPTED)


class Raising:
    """Interrupts are exceptions in here, in a process where `install` was called."""

    def __enter__(self) -> None:
        self._is_ours = signal.getsignal(signal.SIGINT) is _leave
        if self._is_ours:
            self._hook = sys.unraisablehook
            sys.unraisablehook = self._lost
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, _leave)
            sys.unraisablehook = self._hook

    def _lost(self, lost: sys.UnraisableHookArgs) -> None:
        """End the process if Python discards a `KeyboardInterrupt` in a callback."""
        if issubclass(lost.exc_type, KeyboardInterrupt):
            _leave(signal.SIGINT, None)
        self._hook(lost)


def end(code: object) -> NoReturn:
    """End this process with the exit code of a `SystemExit`; an interrupt is too late."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if code == INTERRUPTED:  # Python may remember the signal, and end by it
            os._exit(INTERRUPTED)
    sys.exit(code)  # type: ignore[arg-type]
