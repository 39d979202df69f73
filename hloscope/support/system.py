"""Facilities of the system: child processes, locks, optional libraries."""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

from hloscope.errors import InputError
from hloscope.support.lazy import lazy

if TYPE_CHECKING:
    import ctypes
else:
    ctypes = lazy("ctypes")


# --------------------------------------------------------------------------------------------------
# Child processes: their start, and the settings that differ in them.
#
# No other module changes signals, limits or warnings of a process.  The changes here are made in
# the child, or undone at once.


resource: Any = lazy("resource")  # only some systems have it

CAN_FORK: Final = hasattr(os, "fork")


def forked(serve: Callable[[], object], memory: int | None) -> int:
    """Fork a child process that runs a function and then exits; return its process id.

    The child's changes of memory do not affect this process. An interrupt ends the child at once.

    Args:
        serve: Function that runs in the child; it may send results through a pipe.
        memory: Bytes that the child may take in addition to its memory at the start; `None` for no
            limit.
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
                # A collection would write to every object of the parent, and so copy each page: of
                # a large parent that took longer than the proofs the child was started for.
                gc.freeze()
                serve()
            finally:
                os._exit(0)
    return pid


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Context manager that blocks interrupts in this thread, and in processes started inside."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_worker() -> None:
    """Prepare a worker process: it ignores interrupts, and ends with its parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def _limit_memory(most: int | None) -> None:
    """Limit this process to `most` bytes more than it has now, if the system supports it."""
    if most is None:
        return
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            # The limit is on address space, so the current size of that is the base.
            limit = most + int(file.read().split()[0]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        known = [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min([limit, *known]), hard))
    except (ImportError, OSError, ValueError):
        return


def end_with_parent() -> None:
    """Ask the system to kill this process when its parent ends, if it supports that."""
    try:
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)
    except (OSError, AttributeError):
        return


# --------------------------------------------------------------------------------------------------
# Locks of data that all threads share.


def shared_lock() -> Any:
    """Return a re-entrant lock that is free in a forked child.

    A child has only the thread that forked: a lock that another thread held would stay locked in
    it, and the guarded data half changed. So the forking thread acquires the lock first. Locks
    created later are acquired before those created earlier, in the order of the code: packages use
    the packages below them.
    """
    lock = RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock


# --------------------------------------------------------------------------------------------------
# Libraries that an extra of the package installs, imported when they are needed.


def library_of(extra: str, name: str, needed_by: str) -> Any:
    """Import a library of an extra, and return it.

    Args:
        extra: Name of the extra, as `pip install 'hloscope[extra]'` takes it.
        name: The module to import.
        needed_by: Feature that needs the library, in the plural: the subject of the message.

    Raises:
        InputError: The library is not installed; the message states how to install it.

    >>> library_of("scan", "no_such_library", "scans")
    Traceback (most recent call last):
      ...
    hloscope.errors.InputError: error: scans need the package `no_such_library`: pip install \
'hloscope[scan]'
    """
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        message = f"{needed_by} need the package `{package}`: pip install 'hloscope[{extra}]'"
        raise InputError(message) from None
