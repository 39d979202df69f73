"""Comments that state the errors a text has to give."""

from __future__ import annotations

import pytest

from hloscope.errors import Diagnostic
from hloscope.support.source import Source, Span
from hloscope.verifier.text import expectations, mismatches


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("op // expected-error {{no}}", [1]),
        ("// expected-error@+2 {{no}}\n\nop", [3]),
        ("op\n\n// expected-error @-2 {{no}}", [1]),
        ("op\n// expected-error@above {{a}}\n// expected-error@above {{b}}", [1, 1]),
        ("// expected-error@below {{a}}\n// expected-error@below {{b}}\nop", [3, 3]),
        ("// expected-error@unknown {{a}}", [None]),
        ("// expected-errors {{a}}\n// expected-error {a}\n// expected-error {{a}} more", []),
    ],
)
def test_an_expectation_is_about_a_line(text: str, lines: list[int | None]) -> None:
    assert [e.line for e in expectations(Source("f", text))] == lines


def test_severity_and_text_are_as_written() -> None:
    [e] = expectations(Source("f", "// expected-warning@+1 {{a {b} c}}"))
    assert (e.severity, e.text) == ("warning", "a {b} c")


def test_an_expectation_has_the_position_of_its_comment() -> None:
    text = "op // expected-error {{a}}\r\n\n// expected-error@above {{b}}\n"
    found = [text[e.span.start : e.span.end] for e in expectations(Source("f", text))]
    assert found == ["expected-error {{a}}", "expected-error@above {{b}}"]


def test_above_in_the_first_line_is_a_line_that_does_not_exist() -> None:
    [e] = expectations(Source("f", "// expected-error@above {{a}}"))
    assert e.line == 0


@pytest.mark.parametrize(
    ("expected", "message", "does"),
    [
        ("{{must be {{.*}}, got 'x'}}", "it must be this, got 'x'.", True),
        ("{{a.b}}", "axb", False),
        ("{{n {{[[:digit:]]+}}}}", "n 12", True),
        ("{{n {{[[:alpha:]]+}} m}}", "n 12 m", False),
        ("{{{{(a|b)}}c}}", "bc", True),
    ],
)
def test_parts_in_braces_are_regular_expressions(expected: str, message: str, does: bool) -> None:
    [e] = expectations(Source("f", f"// expected-error-re {expected}"))
    assert e.matches(message) is does


def errors(text: str, *found: tuple[int, str, str]) -> list[str]:
    source = Source("f", text)
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    diagnostics = [
        Diagnostic(message, Span(source, starts[line - 1], starts[line - 1]), severity=severity)
        for line, severity, message in found
    ]
    return [d.message for d in mismatches(expectations(source), diagnostics)]


def test_what_is_expected_and_found_is_no_mismatch() -> None:
    text = "op // expected-error {{no}}"
    assert errors(text, (1, "error", "oh no"), (1, "error", "no, no")) == []


def test_mismatches_say_what_is_wrong() -> None:
    text = "op // expected-error {{no}}\nop"
    assert errors(text) == ['expected error "no" was not found']
    assert errors(text, (2, "error", "no")) == [
        "unexpected error: no",
        'expected error "no" was not found',
    ]
    assert errors(text, (1, "warning", "no"))[0].startswith("warning found, not the expected error")
