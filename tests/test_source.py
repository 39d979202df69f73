"""Positions in a text."""

from __future__ import annotations

from random import Random

import pytest

from hloscope.support.source import Source, Span


def counted(text: str, at: int) -> tuple[int, int]:
    """Line and column by counting the characters before."""
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


@pytest.mark.parametrize("text", ["", "x", "\n", "\n\n", "a\nb", "a\r\nb\r\n", "ab\tc\n\nd"])
def test_every_place_has_its_line_and_column(text: str) -> None:
    source = Source("t", text)
    for at in range(len(text) + 1):
        assert source.line_col(at) == Span(source, at, at).line_col == counted(text, at)
        assert Span(source, at, at).line == counted(text, at)[0]


def test_places_of_random_texts_agree_with_counting() -> None:
    random = Random(3)
    for _ in range(50):
        text = "".join(random.choices("ab\n", k=random.randrange(200)))
        source = Source("t", text)
        for at in random.sample(range(len(text) + 1), k=min(20, len(text) + 1)):
            assert source.line_col(at) == counted(text, at)


@pytest.mark.timeout(30)  # by counting from the start each would take milliseconds
def test_many_places_of_a_large_text_are_found_at_once() -> None:
    source = Source("t", "a line of some text\n" * 200_000)
    for at in range(0, len(source.text), 100):
        source.line_col(at)


def test_sources_compare_by_name_and_text_whatever_was_asked() -> None:
    one, other = Source("t", "a\nb"), Source("t", "a\nb")
    one.line_col(3)
    assert one == other
    assert hash(one) == hash(other)
