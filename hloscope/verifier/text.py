"""Verification of StableHLO text, and of `expected-error {{…}}` comments in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from hloscope.errors import Diagnostic, ParseError
from hloscope.mlir import parse_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.support.lazy import pattern
from hloscope.support.source import Source, Span
from hloscope.verifier.stablehlo.walk import verify_mlir

# --------------------------------------------------------------------------------------------------
# Reader and verifier of StableHLO text.


def verify_text(
    text: str,
    name: str = "<text>",
    *,
    allow_unregistered: bool = False,
    notes: list[Diagnostic] | None = None,
) -> list[Diagnostic]:
    """Return all syntax errors of a text; if there is none, all errors of the program.

    Args:
        text: StableHLO text.
        name: Name of the text in messages.
        allow_unregistered: Accept ops that have no definition.
        notes: List to which a note is added for each construct that is parsed differently from how
            it is written.

    >>> [d] = verify_text('%0 = stablehlo.iota dim = 1 : tensor<2xf32>')
    >>> d.message
    'iota dimension cannot go beyond the output rank.'
    """
    errors: list[Diagnostic] = []
    try:
        module = parse_mlir(
            text,
            name,
            dialects=DIALECTS,
            allow_unregistered=allow_unregistered,
            errors=errors,
            notes=notes,
        )
    except ParseError as error:
        errors += diagnostics_of(error)
    return errors or verify_mlir(module, allow_unregistered=allow_unregistered)


def first_errors(
    text: str, name: str = "<text>", *, allow_unregistered: bool = False
) -> list[Diagnostic]:
    """Return the errors that MLIR's tools report for a text: the first one of each function."""
    try:
        module = parse_mlir(text, name, dialects=DIALECTS, allow_unregistered=allow_unregistered)
    except ParseError as error:
        return diagnostics_of(error)
    return verify_mlir(module, allow_unregistered=allow_unregistered, first_only=True)


def diagnostics_of(error: ParseError) -> list[Diagnostic]:
    """Return the diagnostics of a parse error: its own, and those recorded before and after it."""
    found = getattr(error, "diagnostics", None)
    return list(found) if found else [Diagnostic(error.message, error.span, error.rule)]


# --------------------------------------------------------------------------------------------------
# `expected-error {{…}}` comments: diagnostics that a text expects of a reader or verifier.
#
# Source: MLIR's `Diagnostics.cpp`, `SourceMgrDiagnosticVerifierHandler`.


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
    """The diagnostic that one comment expects: its severity, line and text.

    Attributes:
        severity: `error`, `warning`, `remark` or `note`.
        line: Line of the diagnostic, counted from 1; `None` for a diagnostic without a known
            location.
        text: Text that the message must contain.
        span: Position of the comment.
        pattern: Regular expression that the message must match, of an `expected-error-re`.
        is_met: Whether such a diagnostic was found.
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
    r"""Return the diagnostics that the comments of a text expect, in order.

    `@+1` and `@-1` count from the comment's own line. `@above` and `@below` mean the nearest line
    in that direction that is not such a comment itself. `@unknown` means a diagnostic without a
    location.

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
    """Return the regular expression in an `expected-error-re` comment.

    The parts `{{…}}` of `text` are POSIX expressions, and the rest is literal.
    """
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
    """Return the diagnostics that no expectation matches, then an error for each unmet expectation.

    Several diagnostics may match one expectation. Notes need no expectation.
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
