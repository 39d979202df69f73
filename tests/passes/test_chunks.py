"""Upstream's tests of passes give what their comments say."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.conftest import SHARED, needs_shared
from tests.passes.chunks import EXCEPTIONS, Case, cases, is_runnable, judge

SAMPLE = 3
"""One of so many chunks is run by default."""


def by_source() -> dict[str, list[Case]]:
    """The chunks whose passes are all there."""
    found: dict[str, list[Case]] = defaultdict(list)
    for case in cases() if SHARED.is_dir() else ():
        if is_runnable(case):
            found[case.chunk["source"].removeprefix("stablehlo/tests/")].append(case)
    return found


SOURCES = by_source()


@needs_shared
@pytest.mark.parametrize("source", sorted(SOURCES))
def test_chunks_give_what_their_comments_say(source: str, full: bool) -> None:
    chosen = SOURCES[source] if full else SOURCES[source][::SAMPLE]
    verdicts = {case.name: judge(case) for case in chosen}
    wrong = {name: why for name, why in verdicts.items() if why and name not in EXCEPTIONS}
    assert not wrong, "\n".join(f"{name}: {why}" for name, why in wrong.items())
    mended = [name for name, why in verdicts.items() if not why and name in EXCEPTIONS]
    assert not mended, "right now, and no exceptions any more"


@needs_shared
def test_exceptions_are_chunks_that_exist() -> None:
    assert EXCEPTIONS.keys() <= {case.name for case in cases()}
