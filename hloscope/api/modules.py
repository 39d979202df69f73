"""The programs of a text, and the choice of their entry computation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

from hloscope import hlo_parser, mlir, stablehlo
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.ir import Computation, Module
from hloscope.lazy import pattern
from hloscope.source import Source

_COMMENT: Final = pattern(r"//[^\n]*")

Language: TypeAlias = Literal["hlo", "stablehlo"]
_HLO: Final = "HloModule"
"""A text that starts with this is HLO: no part of `mlir` needs to be loaded to decide it."""


def language_of(source: Source) -> Language:
    """The language of a source: StableHLO for a `.mlir` file, else by the start of the text.

    >>> language_of(Source("a.txt", "HloModule m")), language_of(Source("a.mlir", "func.func @f("))
    ('hlo', 'stablehlo')
    """
    if source.name.endswith(".mlir"):
        return "stablehlo"
    return "hlo" if source.text.startswith(_HLO) or not mlir.is_mlir(source.text) else "stablehlo"


def pieces_of(source: Source, *, split: bool) -> list[str]:
    """The programs of a text. Empty lines before each keep its line numbers.

    Args:
        source: The text.
        split: Does the text have several programs, separated by `// -----`?
    """
    pieces = mlir.split_input(source.text) if split else [(1, source.text)]
    return ["\n" * (line - 1) + piece for line, piece in pieces]


def joined(texts: Iterable[str]) -> str:
    r"""Join programs into one text, with `// -----` between them.

    >>> joined(["one\n", "two\n"])
    'one\n// -----\ntwo\n'
    """
    return f"{mlir.MARKER}\n".join(texts)


def modules_of(source: Source, *, split: bool = False) -> Iterator[Module]:
    r"""Yield the programs of a text, not verified; pieces with nothing but comments are skipped.

    Args:
        source: The text.
        split: Is it several programs, `// -----` apart?

    Raises:
        ParseError: One is neither HLO nor StableHLO.

    >>> text = "ENTRY e { ROOT p = f32[2] parameter(0) }"
    >>> [m.entry.name for m in modules_of(Source("two", f"{text}\n// -----\n{text}"), split=True)]
    ['e', 'e']
    """
    for text in pieces_of(source, split=split):
        if not split or _COMMENT.sub("", text).strip():
            in_hlo = language_of(Source(source.name, text)) == "hlo"
            yield (hlo_parser.parse_hlo if in_hlo else stablehlo.parse_stablehlo)(
                text, name=source.name
            )


def entry_of(module: Module, name: str | None) -> Computation:
    """The computation with the given name; without a name, `main`, ENTRY or the only function.

    Raises:
        UnknownNameError: There is none of that name, or several functions but no `main`.
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
