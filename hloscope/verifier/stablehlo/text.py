"""Reader and verifier of StableHLO text."""

from __future__ import annotations

from hloscope.dialects import DIALECTS
from hloscope.errors import Diagnostic, ParseError
from hloscope.mlir import parse_mlir
from hloscope.verifier.stablehlo.walk import verify_mlir


def verify_text(
    text: str,
    name: str = "<text>",
    *,
    allow_unregistered: bool = False,
    notes: list[Diagnostic] | None = None,
) -> list[Diagnostic]:
    """Return every error of a text: of its grammar, or of the program if the grammar is right.

    Args:
        text: StableHLO text.
        name: Name of the text in messages.
        allow_unregistered: Accept ops of dialects without a definition?
        notes: Receives a note for each construct that is read differently from its spelling.

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
    """Return the errors that MLIR's tools report for a text."""
    try:
        module = parse_mlir(text, name, dialects=DIALECTS, allow_unregistered=allow_unregistered)
    except ParseError as error:
        return diagnostics_of(error)
    return verify_mlir(module, allow_unregistered=allow_unregistered, first_only=True)


def diagnostics_of(error: ParseError) -> list[Diagnostic]:
    """Return the diagnostics of a parse error, which may carry several."""
    found = getattr(error, "diagnostics", None)
    return list(found) if found else [Diagnostic(error.message, error.span, error.rule)]
