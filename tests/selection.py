"""Which tests `--quick` runs: all but those marked as slow.

    @pytest.mark.slow                 # not in the quick run
    @pytest.mark.slow(keep=4)         # 4 of the cases of this test are in the quick run

Slow is what takes more than about a third of a second of processor time, or a family of cases that
takes more than about a second together.  The mark stands at the test, or is `pytestmark` of its
file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar
from zlib import crc32

import pytest

T = TypeVar("T", bound=pytest.Item)


def spread(names: Iterable[str], keep: int) -> set[str]:
    """`keep` of the names: those with the least checksums.

    The choice does not depend on the order of the names, so that no dimension of a table of cases
    is favored, and a case that is added or removed changes at most one other.
    """
    return set(sorted(names, key=lambda name: (crc32(name.encode()), name))[:keep])


def quick(items: Sequence[T]) -> list[T]:
    """The items of the quick run, in their order."""
    families: dict[str, list[T]] = defaultdict(list)
    for item in items:
        families[item.nodeid.partition("[")[0]].append(item)
    names: set[str] = set()
    for family in families.values():
        mark = family[0].get_closest_marker("slow")
        keep = len(family) if mark is None else mark.kwargs.get("keep", 0)
        names |= spread((item.nodeid for item in family), keep)
    return [item for item in items if item.nodeid in names]
