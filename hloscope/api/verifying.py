"""Verification of programs: all findings, not only the first."""

from __future__ import annotations

from collections.abc import Iterator

from hloscope import mlir, stablehlo, verifier
from hloscope.api.finding import language_of
from hloscope.api.invalid import refuse_first
from hloscope.api.program import Program
from hloscope.api.sources import Readable, read_source
from hloscope.errors import Diagnostic, ParseError
from hloscope.hlo_parser import parse_hlo
from hloscope.ir import Module
from hloscope.support.source import Source, Span


def verify(
    program: Readable | Source | Program | Module | mlir.Operation,
    *,
    name: str | None = None,
    split: bool = False,
    allow_unregistered: bool = False,
) -> list[Diagnostic]:
    """Return every finding about a program; an empty list if it is valid.

    Args:
        program: A program, a module, an MLIR operation, or a source that `read` takes.
        name: Name of the program in messages; by default the path of a file.
        split: Does the text have several programs, separated by `// -----`?
        allow_unregistered: Accept StableHLO programs with ops of unknown dialects.

    Raises:
        InputError: The file is missing, a directory, empty, or not text.
        UnsupportedError: It is MLIR bytecode, which is not read yet.

    >>> [finding] = verify("ENTRY e { a = f32[2] parameter(0) ROOT b = f32[3] abs(a) }")
    >>> finding.message
    '`abs` is declared f32[3], but its operands make it f32[2]'
    """
    if isinstance(program, Program):
        program = program.module
    if isinstance(program, Module) and not program.has_tree:
        return verifier.verify_hlo(program)
    if not isinstance(program, Source | str | bytes):
        if isinstance(program, stablehlo.TreeModule):
            program = program.tree
        if isinstance(program, mlir.Operation):
            return verifier.verify_mlir(program, allow_unregistered=allow_unregistered)
    assert not isinstance(program, Module | mlir.Operation)
    source = program if isinstance(program, Source) else read_source(program, name=name)
    return verify_with_notes(source, split=split, allow_unregistered=allow_unregistered)[0]


def verify_with_notes(
    source: Source, *, split: bool = False, allow_unregistered: bool = False
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    r"""Return the findings about a text, and notes on deviations that the parser accepted.

    Args:
        source: The text.
        split: Does the text have several programs, separated by `// -----`?
        allow_unregistered: Accept StableHLO programs with ops of unknown dialects.

    >>> text = "> ENTRY e {\n>   ROOT p = s8[] parameter(0)\n> }"
    >>> found, [note] = verify_with_notes(Source("a", text))
    >>> found, note.message
    ([], 'read without what stands before each line: `> `')
    """
    found: list[Diagnostic] = []
    noted: list[Diagnostic] = []
    for start, text in _pieces(source, split):
        notes: list[Diagnostic] = []
        if language_of(source) == "stablehlo":
            errors = verifier.verify_text(
                text, source.name, allow_unregistered=allow_unregistered, notes=notes
            )
        else:
            errors = _verify_hlo_text(text, source.name, notes)
        found += [moved(error, source, start) for error in errors]
        noted += [moved(note, source, start) for note in notes]
    return found, noted


def check_text(source: Source) -> None:
    """Raise the first finding about the program in a text.

    Raises:
        VerifyError: The program is invalid.
    """
    refuse_first(verify(source))


def check_expected(
    program: Readable | Source,
    *,
    name: str | None = None,
    split: bool = False,
    allow_unregistered: bool = False,
) -> list[Diagnostic]:
    """Return the differences between a text's errors and its `expected-error {{…}}` comments.

    Errors of StableHLO are those that MLIR's tools report: the first one of a text that cannot be
    parsed, else the first one in each function.

    Args:
        program: The text, or a source that `read` takes.
        name: Name of the text in messages; by default the path of a file.
        split: Does the text have several programs, separated by `// -----`?
        allow_unregistered: Accept StableHLO programs with ops of unknown dialects.

    Raises:
        InputError: The file is missing, a directory, empty, or not text.

    >>> check_expected('''
    ... // expected-error@+1 {{iota dimension cannot go beyond the output rank.}}
    ... %0 = stablehlo.iota dim = 1 : tensor<2xf32>''')
    []
    """
    source = program if isinstance(program, Source) else read_source(program, name=name)
    found: list[Diagnostic] = []
    for start, text in _pieces(source, split):
        if language_of(source) == "stablehlo":
            errors = verifier.first_errors(text, source.name, allow_unregistered=allow_unregistered)
        else:
            errors = _verify_hlo_text(text, source.name, [])
        wrong = verifier.mismatches(verifier.expectations(Source(source.name, text)), errors)
        found += [moved(error, source, start) for error in wrong]
    return found


def _verify_hlo_text(text: str, name: str, notes: list[Diagnostic]) -> list[Diagnostic]:
    """Return the findings about an HLO text; append the parser's notes to `notes`."""
    try:
        module = parse_hlo(text, name=name, strict=True)
        notes += module.notes
        return verifier.verify_hlo(module)
    except ParseError as error:
        return [Diagnostic(error.message, error.span, error.rule)]


def _pieces(source: Source, split: bool) -> Iterator[tuple[int, str]]:
    """Yield (character offset, text) of each program of a source.

    With `split`, programs are separated by `// -----` and empty ones are skipped. Otherwise the
    text is one program.
    """
    if not split:
        yield 0, source.text
        return
    at = 0
    for _, text in mlir.split_input(source.text):
        if text.strip():
            yield at, text
        # The marker line is not part of a piece, but counts for the offsets.
        at += len(text) + len(mlir.MARKER)


def moved(diagnostic: Diagnostic, source: Source, by: int) -> Diagnostic:
    """Return the diagnostic with its positions shifted by `by` characters, in `source`."""
    span = diagnostic.span
    if span is None or by == 0:
        return diagnostic
    return Diagnostic(
        diagnostic.message,
        Span(source, span.start + by, span.end + by),
        diagnostic.rule,
        diagnostic.severity,
        tuple(moved(note, source, by) for note in diagnostic.notes),
    )
