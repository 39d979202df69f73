"""Refinement keys: argument types and constant sizes for which a function is refined.

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
    """Arguments for which a function is refined.

    Attributes:
        function: The function.
        tokens: Number of leading arguments that are tokens.
        sizes: Integers of the constant arguments after the tokens.
        types: Types of all other arguments.
        token_types: Types of the tokens.
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
    """Return the key that a call requests: leading tokens, then constants, then the rest."""
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
    """Return the name of the called function; empty if it is not a plain symbol."""
    callee = call.get("callee")
    return callee.root if isinstance(callee, SymbolAttr) and not callee.nested else ""


def functions_with_effects(functions: Iterable[Operation]) -> frozenset[str]:
    """Return the names of the functions with effects, by themselves or through calls.

    Declarations, and functions that call an undefined one, count as having effects.
    """
    callers: dict[str, set[str]] = {}
    work: list[str] = []
    known: set[str] = set()
    for function in functions:
        name = name_of(function)
        known.add(name)
        quiet, callees = _own_effects(function)
        if not quiet:
            work.append(name)
        for callee in callees:
            callers.setdefault(callee, set()).add(name)
    work += [name for name in callers if name not in known]
    # Effects propagate from callees to callers, so that one traversal finds all of them.
    return frozenset(reached(work, lambda name: callers.get(name, ())))


_CALL: Final = "func.call"


def _own_effects(function: Operation) -> tuple[bool, set[str]]:
    """Return whether a function has no effects except in calls, and the functions it calls."""
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
