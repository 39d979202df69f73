"""Points of maps with the runtime variables at the values a program run had.

What computes the runtime variables in real fusions is integer arithmetic, and, where images are
resized, a little f32 arithmetic on iotas.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, Final

import numpy as np

from hloscope.affine import Dim, Range, Runtime, Var, evaluate
from hloscope.indexing import Access, IndexingMap
from hloscope.indexing.analysis import output_to_input
from hloscope.ir.graph import Instruction
from hloscope.ir.types import TensorType
from hloscope.ops.control import Parameter
from hloscope.ops.elementwise import Compare, Elementwise
from hloscope.ops.shape import Constant, Iota

Point = tuple[int, ...]
Number = Any
"""An int, or a `np.float32`."""

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "LT": operator.lt, "LE": operator.le, "GT": operator.gt,
    "GE": operator.ge, "EQ": operator.eq, "NE": operator.ne,
}  # fmt: skip
_ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "maximum": max, "minimum": min, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "negate": operator.neg, "abs": abs,
    "convert": lambda x: x, "copy": lambda x: x,
    "divide": lambda x, y: x / y if isinstance(x, np.floating) else int(x / y),
    "remainder": lambda x, y: x - y * int(x / y), "floor": np.floor,
    "clamp": lambda lo, x, hi: min(max(x, lo), hi), "select": lambda p, x, y: x if p else y,
    "shift_left": operator.lshift, "shift_right_logical": operator.rshift,
    "shift_right_arithmetic": operator.rshift,
}  # fmt: skip


class UnevaluatedError(Exception):
    """A value this small evaluator does not know."""


class Values:
    """Elements of integer tensors of a program, from the integers it was run with."""

    def __init__(self, integers: Mapping[str, Any]) -> None:
        self._integers = {int(k): np.array(v) for k, v in integers.items()}
        self._known: dict[tuple[Instruction, Point], Number] = {}

    def at(self, ins: Instruction, index: Point) -> Number:
        key = (ins, index)
        if key not in self._known:
            self._known[key] = self._wrapped(ins, self._at(ins, index))
        return self._known[key]

    def _wrapped(self, ins: Instruction, value: Number) -> Number:
        assert isinstance(ins.type, TensorType)
        bits, kind = ins.type.element.bits, ins.type.element.kind
        if kind == "pred":
            return int(bool(value))
        if ins.type.element.name == "f32":
            return np.float32(value)
        if kind not in ("signed", "unsigned"):
            raise UnevaluatedError(ins.name)
        value = int(value) & ((1 << bits) - 1)
        return value - (1 << bits) if kind == "signed" and value >> (bits - 1) else value

    def _at(self, ins: Instruction, index: Point) -> Number:
        match ins.op:
            case Parameter(number):
                if number not in self._integers:
                    raise UnevaluatedError(ins.name)
                return int(self._integers[number][index])
            case Constant(literal):
                return np.asarray(literal.array(ins.type))[index]
            case Iota(dimension):
                return index[dimension]
            case Compare(comparison_direction=direction):
                return int(_COMPARE[direction](*self._operands(ins, index)))
            case Elementwise() as op if op.name in _ARITHMETIC:
                return _ARITHMETIC[op.name](*self._operands(ins, index))
            case _:
                return self._moved(ins, index)

    def _operands(self, ins: Instruction, index: Point) -> list[Number]:
        def place(operand: Instruction) -> Point:
            assert isinstance(operand.type, TensorType)
            return index if operand.type.sizes else ()

        return [self.at(operand, place(operand)) for operand in ins.operands]

    def _moved(self, ins: Instruction, index: Point) -> Number:
        if ins.op.name not in MOVES:
            raise UnevaluatedError(ins.op.name)
        for operand, accesses in zip(ins.operands, output_to_input(ins), strict=True):
            points = self.points(accesses, index)
            if points:
                (at,) = points
                return self.at(operand, at)
        raise UnevaluatedError(ins.op.name)

    def points(self, accesses: Iterable[Access], index: Point) -> set[Point]:
        """Everything touched from an index."""
        found: set[Point] = set()
        for access in accesses:
            assert access.map is not None
            found |= self._points(access.map, index)
        return found

    def _points(self, map: IndexingMap, index: Point) -> set[Point]:
        if map.is_known_empty:
            return set()
        if not map.runtime:
            return map.points(index)
        found = set()
        dims: dict[Var, int] = {Dim(i): x for i, x in enumerate(index)}
        for point in product(*[range(v.interval.lo, v.interval.hi + 1) for v in map.ranges]):
            at = dims | {Range(i): x for i, x in enumerate(point)}
            self._run(map, at)
            inside = all(v.interval.contains(at[Dim(i)]) for i, v in enumerate(map.dims))
            inside &= all(v.interval.contains(at[Runtime(i)]) for i, v in enumerate(map.runtime))
            if inside and all(
                interval.contains(evaluate(e, at)) for e, interval in map.constraints
            ):
                found.add(tuple([evaluate(e, at) for e in map.results]))
        return found

    def _run(self, map: IndexingMap, at: dict[Var, int]) -> None:
        """Give the runtime variables their values, clamped to their bounds."""
        left = list(range(len(map.runtime)))
        while left:
            for i in left:
                variable = map.runtime[i]
                try:
                    index = tuple([evaluate(e, at) for e in variable.index])
                except KeyError:
                    continue  # read at another runtime variable, whose turn comes first
                assert variable.origin is not None
                value = self.at(variable.origin, index)
                at[Runtime(i)] = min(max(value, variable.values.lo), variable.values.hi)
                left.remove(i)
                break
            else:
                raise UnevaluatedError("runtime variables in a circle")


MOVES: Final = {
    "broadcast_in_dim", "reshape", "transpose", "slice", "reverse", "bitcast", "concatenate",
    "pad", "dynamic_slice", "gather", "dynamic_update_slice", "get_tuple_element",
}  # fmt: skip
