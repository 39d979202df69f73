"""Child processes: how they begin, and what is changed in them.

Nothing else in the package changes signals, limits or warnings of a process.  What is changed here
is changed in the child, or restored at once.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from hloscope.lazy import lazy

if TYPE_CHECKING:
    import ctypes
else:
    ctypes = lazy("ctypes")

resource: Any = lazy("resource")  # only some systems have it

CAN_FORK: Final = hasattr(os, "fork")


def forked(serve: Callable[[], object], memory: int | None) -> int:
    """Fork a child process that runs a function and then ends; return its process id.

    The child shares nothing that it changes with this process.  An interrupt ends it at once.

    Args:
        serve: Runs in the child, and gives its answers through a pipe.
        memory: Bytes that the child may take besides what this process has; `None` for no limit.
    """
    # An interrupt that comes while the child begins would be an exception in both processes.
    with warnings.catch_warnings(), interrupts_blocked():
        # Python warns of forks beside threads; the child has none of them, and needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
        if not pid:
            try:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
                _limit_memory(memory)
                serve()
            finally:
                os._exit(0)
    return pid


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block interrupts of this thread; a process that begins meanwhile has them blocked too."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_worker() -> None:
    """Prepare a worker process: who started it takes interrupts, and it ends with that process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def _limit_memory(most: int | None) -> None:
    """Let this process take so many bytes besides what it has, where the system can limit it."""
    if most is None:
        return
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            limit = most + int(file.read().split()[0]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        known = [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min([limit, *known]), hard))
    except (ImportError, OSError, ValueError):
        return


def end_with_parent() -> None:
    """Let the system kill this process when the one that began it ends, where it can."""
    try:
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)
    except (OSError, AttributeError):
        return
