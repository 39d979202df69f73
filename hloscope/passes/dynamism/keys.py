"""What a function is refined for: tokens, sizes that are constants, types; and which were already.

Source: StableHLO `StablehloRefineShapes.cpp` (`RefinementKey`, `RefineShapeState`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from hloscope.ir import TensorType, TokenType, Type
from hloscope.mlir import Operation, SymbolAttr, type_text
from hloscope.passes.dynamism.constants import integer, is_integers
from hloscope.passes.dynamism.targets import name_of
from hloscope.passes.effects import is_quiet, is_terminator
from hloscope.walks import reached


class Key(Struct, frozen=True):
    """What a function is refined for.

    Attributes:
        function: Which.
        tokens: How many arguments at the front are tokens.
        sizes: The integers of the arguments after them that are constants.
        types: Of all other arguments.
        token_types: Of the tokens.
    """

    function: Operation
    tokens: int
    sizes: tuple[int, ...]
    types: tuple[Type, ...]
    token_types: tuple[Type, ...] = ()

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.sizes))
        types = ", ".join(map(type_text, self.types))
        return (
            f"RefinementKey({name_of(self.function)}, toks={self.tokens},"
            f" dim_args=[{sizes}], fn_args=[{types}])"
        )


def key_of(call: Operation, function: Operation) -> Key:
    """What a call asks for."""
    values = call.operands
    tokens = next(
        (k for k, v in enumerate(values) if not isinstance(v.type, TokenType)), len(values)
    )
    sizes: list[int] = []
    for value in values[tokens:]:
        is_scalar = isinstance(value.type, TensorType) and value.type.rank == 0
        size = integer(value) if is_scalar and is_integers(value.type) else None
        if size is None:
            break
        sizes.append(size)
    rest = values[tokens + len(sizes) :]
    return Key(
        function,
        tokens,
        tuple(sizes),
        tuple([value.type for value in rest]),
        tuple([value.type for value in values[:tokens]]),
    )


def callee_name(call: Operation) -> str:
    """The name of the function that is called."""
    callee = call.get("callee")
    return callee.root if isinstance(callee, SymbolAttr) and not callee.nested else ""


def functions_with_effects(functions: Iterable[Operation]) -> frozenset[str]:
    """The names of the functions that do something besides returning values.

    So do declarations, and what calls a function nobody knows.
    """
    callers: dict[str, set[str]] = {}
    work: list[str] = []
    known: set[str] = set()
    for function in functions:
        name = name_of(function)
        known.add(name)
        quiet, callees = _looked_at(function)
        if not quiet:
            work.append(name)
        for callee in callees:
            callers.setdefault(callee, set()).add(name)
    work += [name for name in callers if name not in known]
    return frozenset(reached(work, lambda name: callers.get(name, ())))


_CALL: Final = "func.call"


def _looked_at(function: Operation) -> tuple[bool, set[str]]:
    """Is there nothing but calls that has an effect, and which functions are called?"""
    callees: set[str] = set()
    quiet = any(region.blocks for region in function.regions)
    work = [function]
    for each in work:
        for op in each.inside:
            if op.name == _CALL:
                callees.add(callee_name(op))
            elif not (is_quiet(op) or is_terminator(op)):
                quiet = False
            if op.regions:
                work.append(op)
    return quiet, callees
