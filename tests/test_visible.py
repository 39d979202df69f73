"""No character of a program commands a terminal or a page."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, strategies as st

from hloscope.support.source import Source, Span, in_page, visible

any_text = st.text(st.characters(exclude_categories=()))


@given(any_text)
def test_what_is_visible_has_no_commands(text: str) -> None:
    for c in visible(text):
        assert c in "\t\n" or unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp"), hex(ord(c))
        assert unicodedata.bidirectional(c) not in (
            "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
        )  # fmt: skip
    visible(text).encode("utf-8")


@given(any_text)
def test_what_was_visible_stays_as_it_is(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize("text", ["add.3", "größe", "Δx → 日本", "tab\there", "two\nlines", "𝛼"])
def test_letters_of_every_language_stay(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize("unseen", "\xad\u180e\u200b\u200c\u200d\u2060\u2064\u206f\ufeff")
def test_names_that_differ_look_different(unseen: str) -> None:
    assert unseen not in visible(f"add{unseen}.3")
    assert visible(f"add{unseen}.3") != visible("add.3")


@given(any_text)
def test_a_page_gets_no_markup(text: str) -> None:
    shown = in_page(text)
    assert not set(shown) & set("<>\"'")


def test_the_caret_stands_under_the_escape_that_is_shown() -> None:
    line = "HloModule m\x1b]0;x\x07"
    at = line.index("\x1b")
    shown, caret = Span(Source("m.hlo", line), at, at + 1).render().split("\n")
    assert shown == r"HloModule m\x1b]0;x\x07"
    assert shown[caret.index("^") : len(caret)] == r"\x1b"
