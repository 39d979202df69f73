"""Making large graphs without the cyclic garbage collector in the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MANY: Final = 1 << 19
"""So many new objects that the collector was not told of may be garbage, whatever else there is."""


class _Unseen:
    """Objects made while collection was paused: the collector's own count leaves them out.

    It looks through old objects when those that became old by its own doing are a quarter of them.
    Others have to be counted here: without it, programs read one after another would stay.
    """

    def __init__(self) -> None:
        self._new = 0
        self._kept = 0

    def collect_if_many(self) -> None:
        """Collect if there may be more garbage than there were objects after the last time."""
        if self._new > max(MANY, self._kept):
            gc.collect()
            gc.freeze()
            self._kept = gc.get_freeze_count()
            gc.unfreeze()
            self._new = 0

    def make_old(self) -> None:
        """Count all objects as old, so that the next small collection skips them."""
        self._new += gc.get_count()[0]
        gc.freeze()
        gc.unfreeze()


_UNSEEN: Final = _Unseen()


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause the cyclic garbage collector: a growing graph only makes it search in vain.

    Afterwards the new nodes count as old.  Before, what was made in this way and may be garbage by
    now is collected, if it is much.
    """
    paused = gc.isenabled()
    is_ours = not gc.get_freeze_count()
    if paused and is_ours:
        _UNSEEN.collect_if_many()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            if is_ours:
                _UNSEEN.make_old()
            gc.enable()
