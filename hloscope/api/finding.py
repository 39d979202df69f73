"""Modules in a text, and computations and instructions found by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

from hloscope import hlo_parser, mlir, stablehlo
from hloscope.display import glob
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.ir import Computation, Instruction, Module, array_bytes
from hloscope.ops import (
    AddDependency,
    Bitcast,
    Constant,
    GetTupleElement,
    OptimizationBarrier,
    Parameter,
    Return,
    Tuple,
)
from hloscope.support.lazy import pattern
from hloscope.support.source import Source

# --------------------------------------------------------------------------------------------------
# Computations and instructions by their names.


def computing(root: Instruction) -> Instruction:
    """Return the instruction that computes a value.

    Tuples and their elements, returns, bitcasts, barriers and dependencies compute nothing: their
    operands are followed. If several instructions are found, the one with the largest result is
    taken. The result is `root` if all paths lead to parameters and constants.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = "ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p) "
    >>> computing(parse_hlo(text + "ROOT b = f32[2,4] bitcast(n) }").entry.root)
    <n = negate(p)>
    """
    found: dict[Instruction, int] = {}
    seen: set[Instruction] = set()
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        match value.op:
            case GetTupleElement(index=index) if isinstance(value.operands[0].op, Tuple):
                waiting.append(value.operands[0].operands[index])
            case GetTupleElement() | Bitcast() | AddDependency():
                waiting.append(value.operands[0])
            case Tuple() | Return() | OptimizationBarrier():
                # The stack returns the first operand first, so equal sizes are decided by program
                # order: `max` returns the first of equals.
                waiting += reversed(value.operands)
            case Parameter() | Constant():
                pass
            case _:
                size = array_bytes(value.type)
                found[value] = 0 if size is None else size.data
    return max(found, key=found.__getitem__, default=root)


def computation_of(module: Module, name: str) -> Computation:
    """Return the computation of a name, with or without `%`.

    Raises:
        UnknownNameError: No computation has that name.
    """
    plain = name.removeprefix("%")
    if plain not in module.computations:
        near = did_you_mean(plain, module.computations)
        raise UnknownNameError(f"no computation `{plain}`{near}")
    return module.computations[plain]


def instruction_of(computation: Computation, name: str) -> Instruction:
    """Return the instruction of a computation by its name, with or without `%`.

    Raises:
        UnknownNameError: No instruction of the computation has that name.
    """
    plain = name.removeprefix("%")
    if plain not in computation.body.by_name:
        near = did_you_mean(plain, computation.body.by_name)
        raise UnknownNameError(f"no instruction `{plain}` in `{computation.name}`{near}")
    return computation[plain]


def find(module: Module, name: str) -> tuple[Computation, Instruction]:
    """Return the instruction `name` or `computation/name`, and its computation.

    Names may begin with `%`. The entry computation is searched first, then all others.

    Raises:
        UnknownNameError: No instruction has that name, or several outside the entry computation
            have it.
    """
    where, slash, plain = name.replace("%", "").rpartition("/")
    if slash:
        computation = computation_of(module, where)
        return computation, instruction_of(computation, plain)
    if plain in module.entry.body.by_name:
        return module.entry, module.entry[plain]
    places = [c for c in module if plain in c.body.by_name]
    if not places:
        near = did_you_mean(plain, (i.name for c in [module.entry, *module] for i in c))
        raise UnknownNameError(f"no instruction `{plain}` in {module.name}{near}")
    if len(places) > 1:
        names = ", ".join(f"`{c.name}/{plain}`" for c in places[:3])
        raise UnknownNameError(f"{len(places)} computations have a `{plain}`: say {names} …")
    return places[0], places[0][plain]


def find_all(module: Module, name: str) -> list[tuple[Computation, Instruction]]:
    """Return the instructions that a name or pattern matches, with their computations.

    In a pattern, `*` is any text, `?` any character. A pattern without a computation is matched in
    all computations.

    Raises:
        UnknownNameError: No instruction matches.
    """
    where, slash, plain = name.replace("%", "").rpartition("/")
    if not re.search(r"[*?]", name):
        return [find(module, name)]
    place, pattern = glob(where if slash else "*"), glob(plain)
    found = [
        (computation, ins)
        for computation in module
        if place.fullmatch(computation.name)
        for ins in computation
        if pattern.fullmatch(ins.name)
    ]
    if not found:
        raise UnknownNameError(f"no instruction is like `{name}` in {module.name}")
    return found


# --------------------------------------------------------------------------------------------------
# The programs of a text, and the choice of their entry computation.


_COMMENT: Final = pattern(r"//[^\n]*")

Language: TypeAlias = Literal["hlo", "stablehlo"]
_HLO: Final = "HloModule"
"""Start of every HLO module; such a text is recognised without loading `mlir`."""


def language_of(source: Source) -> Language:
    """Return the language of a source: StableHLO for a `.mlir` file, else by its text.

    >>> language_of(Source("a.txt", "HloModule m")), language_of(Source("a.mlir", "func.func @f("))
    ('hlo', 'stablehlo')
    """
    if source.name.endswith(".mlir"):
        return "stablehlo"
    return "hlo" if source.text.startswith(_HLO) or not mlir.is_mlir(source.text) else "stablehlo"


def pieces_of(source: Source, *, split: bool) -> list[str]:
    """Return the programs of a text. Empty lines before each one preserve line numbers.

    Args:
        source: The text.
        split: Does the text have several programs, separated by `// -----`?
    """
    pieces = mlir.split_input(source.text) if split else [(1, source.text)]
    return ["\n" * (line - 1) + piece for line, piece in pieces]


def programs_in(source: Source, *, split: bool) -> Iterator[Source]:
    """Yield the programs of a text; with `split`, pieces without code are skipped.

    The arguments are those of `pieces_of`.
    """
    for text in pieces_of(source, split=split):
        if not split or _COMMENT.sub("", text).strip():
            yield Source(source.name, text)


def joined(texts: Iterable[str]) -> str:
    r"""Join programs into one text, with `// -----` between them.

    >>> joined(["one\n", "two\n"])
    'one\n// -----\ntwo\n'
    """
    return f"{mlir.MARKER}\n".join(texts)


def modules_of(source: Source, *, split: bool = False) -> Iterator[Module]:
    r"""Yield the programs of a text, not verified. With `split`, pieces without code are skipped.

    Args:
        source: The text.
        split: Does the text have several programs, separated by `// -----`?

    Raises:
        ParseError: A program is neither HLO nor StableHLO.

    >>> text = "ENTRY e { ROOT p = f32[2] parameter(0) }"
    >>> [m.entry.name for m in modules_of(Source("two", f"{text}\n// -----\n{text}"), split=True)]
    ['e', 'e']
    """
    for piece in programs_in(source, split=split):
        is_hlo = language_of(piece) == "hlo"
        parse = hlo_parser.parse_hlo if is_hlo else stablehlo.parse_stablehlo
        yield parse(piece.text, name=piece.name)


def entry_of(module: Module, name: str | None) -> Computation:
    """Return the function or computation with the given name.

    Without a name: `main`, the ENTRY computation, or the only function.

    Raises:
        UnknownNameError: No function has that name; or, without a name, there are several and no
            `main`.
    """
    if name is not None:
        found = module.computations.get(name.lstrip("@%"))
        if found is None:
            near = did_you_mean(name, module.computations)
            raise UnknownNameError(f"no function or computation `{name}`{near}")
        return found
    functions = [c.name for c in module if isinstance(c, stablehlo.Function)]
    if len(functions) > 1 and "main" not in functions:
        some = ", ".join(functions[:5])
        raise UnknownNameError(f"no function `main`: name one of {some} with --entry")
    return module.entry
