"""`expected-error {{…}}` comments: diagnostics that a text expects of a reader or verifier.

Source: MLIR's `Diagnostics.cpp`, `SourceMgrDiagnosticVerifierHandler`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from hloscope.errors import Diagnostic
from hloscope.lazy import pattern
from hloscope.source import Source, Span

_DIRECTIVE: Final = pattern(
    r"expected-(error|note|remark|warning)(-re)? *(?:@([+-][0-9]+|above|below|unknown))? *"
    r"\{\{(.*)\}\}$"
)
_CLASSES: Final = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


class Expectation(Struct, eq=False):
    """One comment: a diagnostic of this severity is due on this line.

    Attributes:
        severity: `error`, `warning`, `remark` or `note`.
        line: Counted from 1; `None` for a diagnostic without a known location.
        text: Text that the message must contain.
        span: The comment.
        pattern: Regular expression that the message must match, of an `expected-error-re`.
        is_met: True once such a diagnostic was found.
    """

    severity: str
    line: int | None
    text: str
    span: Span
    pattern: re.Pattern[str] | None = None
    is_met: bool = False

    def matches(self, message: str) -> bool:
        """Does the message contain the expected text, or match the expected pattern?"""
        if self.pattern is not None:
            return self.pattern.search(message) is not None
        return self.text in message


def expectations(source: Source) -> list[Expectation]:
    r"""Return the expectations in the comments of a text, in order.

    `@+1` and `@-1` count from the comment's own line.  `@above` and `@below` mean the nearest line
    there that is not such a comment itself.  `@unknown` means a diagnostic without a location.

    >>> [e.line for e in expectations(Source("f", "// expected-error@+1 {{no}}\nx"))]
    [2]
    """
    found: list[Expectation] = []
    below: list[Expectation] = []
    plain = 0
    start = 0
    for number, line in enumerate(source.text.split("\n"), 1):
        directive = _DIRECTIVE.search(line.rstrip("\r")) if "expected-" in line else None
        if directive is None:
            # Several comments in sequence may mean the one line below all of them.
            for expectation in below:
                expectation.line = number
            below.clear()
            plain = number
        else:
            severity, regular, place, text = directive.groups()
            span = Span(source, start + directive.start(), start + directive.end())
            pattern = _pattern(text) if regular else None
            expectation = Expectation(severity, number, text, span, pattern)
            found.append(expectation)
            if place == "unknown":
                expectation.line = None
            elif place == "above":
                expectation.line = plain
            elif place == "below":
                below.append(expectation)
            elif place:
                expectation.line = number + int(place)
        start += len(line) + 1
    return found


def _pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression: `{{…}}` parts are POSIX expressions, the rest is literal."""
    parts: list[str] = []
    while True:
        literal, opened, rest = text.partition("{{")
        parts.append(re.escape(literal))
        if not opened:
            break
        expression, _, text = rest.partition("}}")
        parts.append(f"(?:{_posix(expression)})")
    try:
        return re.compile("".join(parts))
    except re.error:
        # An invalid expression is taken literally.
        return re.compile(re.escape("".join(parts)))


def _posix(expression: str) -> str:
    return re.sub(r"\[:(\w+):\]", lambda found: _CLASSES.get(found[1], found[0]), expression)


def mismatches(
    expected: Iterable[Expectation], diagnostics: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """Return unexpected diagnostics, then expectations that no diagnostic meets.

    Several diagnostics may meet one expectation.  Notes need no expectation.
    """
    by_line: dict[int | None, list[Expectation]] = {}
    for expectation in expected:
        by_line.setdefault(expectation.line, []).append(expectation)
    wrong: list[Diagnostic] = []
    for diagnostic in diagnostics:
        due = by_line.get(diagnostic.span.line if diagnostic.span else None, [])
        # The severity is compared last, so that a message of the wrong severity is reported as
        # such.
        alike = [e for e in due if e.matches(diagnostic.message)]
        met = next((e for e in alike if e.severity == diagnostic.severity), None)
        if met is not None:
            met.is_met = True
        elif alike:
            message = f"{diagnostic.severity} found, not the expected {alike[0].severity}"
            wrong.append(Diagnostic(f"{message}: {diagnostic.message}", diagnostic.span))
        else:
            message = f"unexpected {diagnostic.severity}: {diagnostic.message}"
            wrong.append(Diagnostic(message, diagnostic.span))
        for note in diagnostic.notes:
            for e in by_line.get(note.span.line if note.span else None, []):
                e.is_met |= e.severity == "note" and e.matches(note.message)
    for group in by_line.values():
        for e in group:
            if not e.is_met:
                message = f'expected {e.severity} "{e.text}" was not found'
                wrong.append(Diagnostic(message, e.span))
    return wrong
