"""Ctrl-C ends the command with exit code 130 and a message, at any time.

While modules are loaded, and while the process ends, nothing would catch an exception, and one
raised in generated code, such as that of `namedtuple`, makes Python end by the signal. So the
process exits at once there. While a command runs, an interrupt is a `KeyboardInterrupt`, so that
the command can clean up. If Python would discard that exception, in callbacks of the garbage
collector, the process exits at once as well.
"""

from __future__ import annotations

import os
import sys

# Until `install` runs, an interrupt has Python's own handler.  So this module loads nothing slow:
# neither `typing` nor the enumerations of `signal`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import FrameType
    from typing import NoReturn
else:
    import _signal as signal

INTERRUPTED = 130
"""Exit code of an interrupted process, as the shell expects it."""
SAID = "\ninterrupted"


def install() -> None:
    """Let an interrupt end this process at once, unless interrupts are ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def _leave(_: int, __: FrameType | None) -> NoReturn:
    try:
        os.write(2, f"{SAID}\n".encode())
    finally:
        os._exit(INTERRUPTED)


class Raising:
    """A context in which interrupts are exceptions, in a process that called `install`."""

    def __enter__(self) -> None:
        self._is_ours = signal.getsignal(signal.SIGINT) is _leave
        if self._is_ours:
            self._hook = sys.unraisablehook
            sys.unraisablehook = self._end_if_interrupt
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, _leave)
            sys.unraisablehook = self._hook

    def _end_if_interrupt(self, lost: sys.UnraisableHookArgs) -> None:
        """End the process if Python is about to discard a `KeyboardInterrupt` in a callback.

        `lost` describes the discarded exception; others are passed to the previous hook.
        """
        if issubclass(lost.exc_type, KeyboardInterrupt):
            _leave(signal.SIGINT, None)
        self._hook(lost)


def end(code: object) -> NoReturn:
    """End this process with the code of a `SystemExit`; interrupts are ignored from now on."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if code == INTERRUPTED:  # Python may have stored the signal, and end by it
            os._exit(INTERRUPTED)
    sys.exit(code)  # type: ignore[arg-type]
