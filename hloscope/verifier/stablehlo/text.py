"""StableHLO text, read and verified."""

from __future__ import annotations

from collections.abc import Iterator

from hloscope.errors import Diagnostic, ParseError
from hloscope.mlir.parser import parse_mlir
from hloscope.mlir.split import MARKER, split_input
from hloscope.source import Source, Span
from hloscope.stablehlo.dialects import DIALECTS
from hloscope.verifier.expected import expectations, mismatches
from hloscope.verifier.stablehlo.walk import verify_mlir


def verify_text(
    text: str,
    name: str = "<text>",
    *,
    split: bool = False,
    allow_unregistered: bool = False,
) -> list[Diagnostic]:
    """Everything that is wrong with a text: in its grammar, or, if that is fine, as a program.

    Args:
        text: StableHLO text.
        name: What messages call it.
        split: Is it several programs with `// -----` between them?
        allow_unregistered: May there be ops of dialects that nobody knows?

    >>> [d] = verify_text('%0 = stablehlo.iota dim = 1 : tensor<2xf32>')
    >>> d.message
    'iota dimension cannot go beyond the output rank.'
    """
    source = Source(name, text)
    found: list[Diagnostic] = []
    for start, piece in _pieces(text, split):
        errors: list[Diagnostic] = []
        try:
            module = parse_mlir(
                piece, name, dialects=DIALECTS, allow_unregistered=allow_unregistered, errors=errors
            )
        except ParseError as error:
            errors += diagnostics_of(error)
        if not errors:
            errors = verify_mlir(module, allow_unregistered=allow_unregistered)
        found += [_moved(d, source, start) for d in errors]
    return found


def check_expectations(
    text: str,
    name: str = "<text>",
    *,
    split: bool = False,
    allow_unregistered: bool = False,
) -> list[Diagnostic]:
    r"""Where the errors of a text are not those that its `expected-error` comments state.

    Errors are those MLIR's tools report: the first of a text that cannot be read, else the first
    in each function.

    >>> check_expectations("// expected-error@+1 {{expected operation name in quotes}}\n foo")
    []
    """
    source = Source(name, text)
    found: list[Diagnostic] = []
    for start, piece in _pieces(text, split):
        errors = first_errors(piece, name, allow_unregistered=allow_unregistered)
        wrong = mismatches(expectations(Source(name, piece)), errors)
        found += [_moved(d, source, start) for d in wrong]
    return found


def first_errors(
    text: str, name: str = "<text>", *, allow_unregistered: bool = False
) -> list[Diagnostic]:
    """The errors MLIR's tools report of one program."""
    try:
        module = parse_mlir(text, name, dialects=DIALECTS, allow_unregistered=allow_unregistered)
    except ParseError as error:
        return diagnostics_of(error)
    return verify_mlir(module, allow_unregistered=allow_unregistered, first_only=True)


def diagnostics_of(error: ParseError) -> list[Diagnostic]:
    """All that one failure of the reader says; it may report several errors."""
    found = getattr(error, "diagnostics", None)
    return list(found) if found else [Diagnostic(error.message, error.span, error.rule)]


def _pieces(text: str, split: bool) -> Iterator[tuple[int, str]]:
    """Yield each program and where it begins."""
    if not split:
        yield 0, text
        return
    at = 0
    for _, piece in split_input(text):
        yield at, piece
        at += len(piece) + len(MARKER)


def _moved(diagnostic: Diagnostic, source: Source, by: int) -> Diagnostic:
    """The diagnostic with its places counted in the whole text, not in one program of it."""
    span = diagnostic.span
    if span is None:
        return diagnostic
    return Diagnostic(
        diagnostic.message,
        Span(source, span.start + by, span.end + by),
        diagnostic.rule,
        diagnostic.severity,
        tuple(_moved(note, source, by) for note in diagnostic.notes),
    )
