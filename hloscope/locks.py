"""Locks of what all threads share."""

from __future__ import annotations

import os
from threading import RLock
from typing import Any


def shared_lock() -> Any:
    """A re-entrant lock that nobody holds in a forked child.

    A child has only the thread that forked: a lock that another thread held would stay locked in
    it, and what it guards half changed.  So the forking thread takes the lock first.  Locks made
    later are taken before those made earlier, as code takes them: rooms use those below them.
    """
    lock = RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock
