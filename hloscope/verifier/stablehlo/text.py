"""StableHLO text, read and verified."""

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
    """Everything that is wrong with a text: in its grammar, or, if that is fine, as a program.

    Args:
        text: StableHLO text.
        name: What messages call it.
        allow_unregistered: May there be ops of dialects that nobody knows?
        notes: Takes what is read otherwise than it is written.

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
