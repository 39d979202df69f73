"""Inferred and declared types of the results of every op."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from hloscope.api.modules import joined, language_of, pieces_of
from hloscope.dialects import DIALECTS
from hloscope.display import OpTypes, opcodes
from hloscope.errors import HloscopeError
from hloscope.hlo_parser import parse_hlo, print_type
from hloscope.ir import Type
from hloscope.mlir import Operation, parse_mlir, print_mlir, type_text
from hloscope.ops import Parameter
from hloscope.source import Source
from hloscope.stablehlo import answered, inferred_types, is_asking, walk
from hloscope.verifier import Kind, inferred, kind_of

_NO_TYPING: Final = ("func.func", "builtin.module")


class InferredTypes(NamedTuple):
    """The types of all ops of a text.

    Attributes:
        rows: One for each op that has results.
        spell: How the text's language writes types.
        answers: The text with the ops of the dialect `hlo_test_infer` answered, if it has any.
    """

    rows: Iterator[OpTypes]
    spell: Callable[[Type], str]
    answers: Callable[[], str] | None = None


def types_of(source: Source, *, split: bool = False) -> InferredTypes:
    """Infer the types of the results of every op of a text.

    Args:
        source: The text.
        split: StableHLO: the text has several programs, separated by `// -----`.

    Raises:
        ParseError: It cannot be read.

    >>> text = "ENTRY e { a = f32[2] parameter(0) ROOT b = f32[3] abs(a) }"
    >>> found = types_of(Source("one", text))
    >>> [(row.name, [found.spell(type_) for type_ in row.inferred]) for row in found.rows]
    [('b', ['f32[2]'])]
    """
    if language_of(source) == "hlo":
        return InferredTypes(rows_of_hlo(source), print_type)
    pieces = pieces_of(source, split=split)
    modules = [parse_mlir(text, source.name, dialects=DIALECTS) for text in pieces]
    rows = (row for module in modules for row in rows_of_tree(module))

    def answers() -> str:
        return joined(print_mlir(answered(module), dialects=DIALECTS) for module in modules)

    asks = any(map(is_asking, modules))
    return InferredTypes(rows, type_text, answers if asks else None)


def rows_of_tree(module: Operation) -> Iterator[OpTypes]:
    """Yield a row for each op with results of a StableHLO program."""
    for operation in walk(module):
        if operation.results and operation.source and operation.name not in _NO_TYPING:
            found = inferred_types(operation)
            names = dict.fromkeys(f"%{value.name}" for value in operation.results)
            declared = tuple([value.type for value in operation.results])
            name = ", ".join(names)
            yield OpTypes(operation.span, name, operation.name, found.types, declared, found.error)


def rows_of_hlo(source: Source) -> Iterator[OpTypes]:
    """Yield a row for each instruction of an HLO module except parameters."""
    module = parse_hlo(source.text, name=source.name, strict=True)
    opcode_of = opcodes()
    # Inference depends only on the kind (op, operand types): large modules repeat few kinds. Errors
    # name their instruction, so they are not cached.
    known: dict[Kind, tuple[Type, ...] | None] = {}
    for ins in (ins for computation in module for ins in computation):
        if isinstance(ins.op, Parameter):
            continue
        kind, error = kind_of(ins), None
        if kind not in known:
            try:
                follows = inferred(ins)
                known[kind] = None if follows is None else (follows,)
            except HloscopeError as refused:
                error = refused
        types = None if error else known[kind]
        yield OpTypes(ins.span, ins.name, opcode_of(ins), types, (ins.type,), error)
