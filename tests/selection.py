"""Which tests `--quick` runs: not those marked as slow, and a spread of each family of cases.

    @pytest.mark.slow                 # not in the quick run
    @pytest.mark.slow(keep=4)         # 4 of the cases of this test are in the quick run
    pytest.param(..., marks=pytest.mark.slow)     # this case is not

Slow is what takes more than about a third of a second of processor time, or a family of cases that
takes more than about half a second together.  The mark stands at the test, or is `pytestmark` of
its file.  Of any other test with many cases, `MOST_CASES` are in the quick run.  A test that draws
its cases draws `MOST_EXAMPLES`, or fewer if it says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar
from zlib import crc32

import pytest
from hypothesis import settings

T = TypeVar("T", bound=pytest.Item)

MOST_CASES: Final = 8
"""Cases of one test in the quick run, where no mark says another number."""
MOST_EXAMPLES: Final = 20
"""Examples that hypothesis draws for one test in the quick run."""


def spread(names: Iterable[str], keep: int) -> set[str]:
    """`keep` of the names: those with the least checksums.

    The choice does not depend on the order of the names, so that no dimension of a table of cases
    is favored, and a case that is added or removed changes at most one other.
    """
    return set(sorted(names, key=lambda name: (crc32(name.encode()), name))[:keep])


def quick(items: Sequence[T]) -> list[T]:
    """The items of the quick run, in their order."""
    families: dict[tuple[str, int], list[str]] = defaultdict(list)
    left_out: set[str] = set()
    for item in items:
        mark = item.get_closest_marker("slow")
        keep = MOST_CASES if mark is None else mark.kwargs.get("keep", 0)
        families[item.nodeid.partition("[")[0], keep].append(item.nodeid)
    for (_, keep), names in families.items():
        left_out |= set(names) - spread(names, keep)
    return [item for item in items if item.nodeid not in left_out]


def draw_few_examples(test: object) -> None:
    """Bound the examples of a test of hypothesis that states a number in its `@settings`.

    hypothesis has no option for that: a profile counts only where a test states no number.
    """
    test = getattr(test, "__func__", test)
    stated = getattr(test, "_hypothesis_internal_use_settings", None)
    if stated is not None and stated.max_examples > MOST_EXAMPLES:
        few = settings(stated, max_examples=MOST_EXAMPLES)
        setattr(test, "_hypothesis_internal_use_settings", few)  # noqa: B010
