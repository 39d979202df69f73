"""Locks of data that all threads share."""

from __future__ import annotations

import os
from threading import RLock
from typing import Any


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
