"""Keys of sort comparators, so that numpy can sort by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from hloscope.interpreter.registry import LIFTED, Kernel, kernel, load_families
from hloscope.interpreter.values import Array, Value
from hloscope.interpreter.world import World
from hloscope.ir import Computation, Instruction, TensorType
from hloscope.ops import Compare, Constant, Return


class SortKey(NamedTuple):
    """One key that a comparator compares.

    Attributes:
        compute: Function from the sort's operands to the keys of all elements.
        operand: Number of the operand that is the key itself; `None` if the key is computed.
        is_descending: Does the greater key come first?
        is_total: Are floats compared in the total order of IEEE 754?
    """

    compute: Callable[[Sequence[Array]], Value]
    operand: int | None
    is_descending: bool
    is_total: bool


class _Found(NamedTuple):
    """A comparison of one key: its left side and how it compares."""

    left: Instruction
    is_descending: bool
    is_total: bool


_Sides: TypeAlias = dict[Instruction, tuple[int, int]]
"""Side (0 left, 1 right) and operand number of each parameter of a comparator."""


def sort_keys(comparator: Computation, world: World) -> list[SortKey]:
    """Return the keys that a comparator compares, most significant first; empty if it does not.

    It has to be `f(left) < f(right)`, or `first or (tie and rest)`, where `tie` compares the key of
    `first` for equality and `rest` has one of these forms.
    """
    load_families()
    sides = {p: (i % 2, i // 2) for i, p in enumerate(comparator.body.parameters)}
    root = comparator.body.root
    return [
        SortKey(
            _key_function(found.left, sides, world),
            sides[found.left][1] if found.left in sides else None,
            found.is_descending,
            found.is_total,
        )
        for found in _keys(root.operands[0] if isinstance(root.op, Return) else root, sides)
    ]


def _keys(ins: Instruction, sides: _Sides) -> list[_Found]:
    """Keys of a comparator with the value `ins`; empty if it does not have one of the forms."""
    if ins.op.name == "compare":
        key = _key(ins, sides)
        return [key] if key else []
    if ins.op.name != "or":
        return []
    for first, rest in (ins.operands, ins.operands[::-1]):
        key = _key(first, sides) if first.op.name == "compare" else None
        if key is None or rest.op.name != "and":
            continue
        for tie, later in (rest.operands, rest.operands[::-1]):
            if _is_tie(tie, key, sides) and (keys := _keys(later, sides)):
                return [key, *keys]
    return []


def _settings(ins: Instruction) -> tuple[str, bool]:
    """Direction of a comparison, and whether floats are in total order."""
    op, type_ = ins.op, ins.operands[0].type
    assert isinstance(op, Compare)
    is_float = isinstance(type_, TensorType) and type_.element.kind == "float"
    return op.comparison_direction, is_float and op.compare_type == "TOTALORDER"


def _key(ins: Instruction, sides: _Sides) -> _Found | None:
    """Key of a comparison of one function of both sides; `None` if it is not one."""
    direction, is_total = _settings(ins)
    a, b = ins.operands
    if direction not in ("LT", "GT"):
        return None
    if isinstance(a.type, TensorType) and a.type.element.kind == "complex":
        return None
    if _same(a, b, sides, 1):
        return _Found(a, direction == "GT", is_total)
    if _same(b, a, sides, 1):
        return _Found(b, direction == "LT", is_total)
    return None


def _is_tie(ins: Instruction, key: _Found, sides: _Sides) -> bool:
    """Is it `f(left) == f(right)` with the function of the key?"""
    if ins.op.name != "compare" or _settings(ins)[0] != "EQ":
        return False
    return any(
        _same(key.left, left, sides, 0) and _same(key.left, right, sides, 1)
        for left, right in (ins.operands, ins.operands[::-1])
    )


def _same(left: Instruction, other: Instruction, sides: _Sides, side: int) -> bool:
    """Is `other` the function of one side's parameters that `left` is of the left ones?"""
    work, seen = [(left, other)], set()
    while work:
        x, y = pair = work.pop()
        if pair in seen:
            continue
        seen.add(pair)
        if x in sides:
            if sides[x][0] or sides.get(y) != (side, sides[x][1]):
                return False
            continue
        if x.type != y.type or x.op != y.op or len(x.operands) != len(y.operands):
            return False
        # Keys are computed on whole arrays, which only elementwise ops allow.
        if type(x.op) not in LIFTED and not isinstance(x.op, Constant):
            return False
        work.extend(zip(x.operands, y.operands, strict=True))
    return True


def _key_function(
    root: Instruction, sides: _Sides, world: World
) -> Callable[[Sequence[Array]], Value]:
    """Function that computes an instruction for all elements of the sort's operands."""
    steps: list[tuple[Instruction, Kernel]] = []
    done: set[Instruction] = set()
    work = [root]
    while work:
        ins = work[-1]
        missing = [o for o in ins.operands if o not in done and o not in sides]
        if missing and ins not in sides:
            work += missing
            continue
        work.pop()
        if ins not in sides and ins not in done:
            done.add(ins)
            steps.append((ins, kernel(ins, world)))

    def compute(operands: Sequence[Array]) -> Value:
        known: dict[Instruction, Any] = {p: operands[k] for p, (_, k) in sides.items()}
        for ins, function in steps:
            known[ins] = function(*[known[o] for o in ins.operands])
        return known[root]  # type: ignore[no-any-return]

    return compute
