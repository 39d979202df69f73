"""Run-time sizes of an op's result, computed by ops of `shape`, `tensor` and `arith`.

Source: `reifyReturnTypeShapes` of StableHLO's and CHLO's ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hloscope.ir import TensorType, Type
from hloscope.mlir import I1, I64, INDEX, Attribute, IntegerAttr, Operation, Value
from hloscope.ops import (
    Broadcast,
    Concatenate,
    DotGeneral,
    DynamicGather,
    DynamicPad,
    Elementwise,
    Gather,
    ImplicitBroadcast,
    Pad,
    Reduce,
    Reverse,
    Transpose,
    numpy_broadcast,
)
from hloscope.stablehlo.op_making import make_op

_SHAPE_OPERAND: Final = {
    "stablehlo.dynamic_iota": 0,
    "stablehlo.dynamic_reshape": 1,
    "stablehlo.dynamic_broadcast_in_dim": 1,
}
"""Ops whose result sizes are the values of an operand, with that operand's number."""

_LIKE: Final = {
    "stablehlo.select": 1,
    "stablehlo.clamp": 1,
    "stablehlo.compare": 0,
    "stablehlo.reverse": 0,
    "stablehlo.cholesky": 0,
    "chlo.constant_like": 0,
}
"""Ops with the sizes of an operand, with that operand's number; element-wise ops have them too."""


_SLT: Final = 2
"""Number of the predicate `slt`.

Source: MLIR `ArithBase.td`, `Arith_CmpIPredicateAttr`.
"""


class Reifier:
    """Makes ops that compute result sizes; constants are shared, and separate from other ops.

    Attributes:
        operations: The ops in order, without constants.
        constants: Constants by their value, the latest first.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.constants: dict[int, Operation] = {}

    def sizes(self, operation: Operation) -> Value | None:
        """Return a vector of the result's sizes; `None` if there is no rule for the op."""
        name, operands = operation.name, operation.operands
        if name in _SHAPE_OPERAND:
            return self._as_index(operands[_SHAPE_OPERAND[name]])
        if name == "stablehlo.real_dynamic_slice":
            return self._vector(self._slice_sizes(operands))
        op = make_op(operation)
        if isinstance(op, ImplicitBroadcast):
            return self._broadcast(operands)
        if name in _LIKE or isinstance(op, Elementwise | Reverse):
            return self._shape_of(operands[_LIKE.get(name, 0)])
        rule = _RULES.get(type(op))
        if rule is None or not all(isinstance(value.type, TensorType) for value in operands):
            return None
        return self._vector(rule(self, op, operands))

    # ------------------------------------------------------------------------------ pieces

    def _make(self, name: str, type: Type, *operands: Value, **attributes: Attribute) -> Value:
        result = Value(type)
        made = Operation(name, operands, (result,), attributes)
        result.owner = made
        self.operations.append(made)
        return result

    def constant(self, number: int) -> Value:
        """Return an `arith.constant` of type `index`."""
        known = self.constants.get(number)
        if known is None:
            result = Value(INDEX)
            value = {"value": IntegerAttr(number, INDEX)}
            known = Operation("arith.constant", (), (result,), value)
            result.owner = known
            self.constants = {number: known, **self.constants}
        return known.result

    def _number(self, value: Value) -> int | None:
        owner = value.owner
        if isinstance(owner, Operation) and owner.name == "arith.constant":
            attribute = owner.get("value")
            return attribute.value if isinstance(attribute, IntegerAttr) else None
        return None

    def dimension(self, value: Value, d: int) -> Value:
        """Return `tensor.dim`, or a constant if the size is known."""
        assert isinstance(value.type, TensorType)
        size = value.type.sizes[d]
        if size is not None:
            return self.constant(size)
        return self._make("tensor.dim", INDEX, value, self.constant(d))

    def add(self, left: Value, right: Value) -> Value:
        """Return the sum, folded if one side is 0 or both are known."""
        a, b = self._number(left), self._number(right)
        if a is not None and b is not None:
            return self.constant(a + b)
        if b == 0:
            return left
        return right if a == 0 else self._make("arith.addi", INDEX, left, right)

    def subtract(self, left: Value, right: Value) -> Value:
        """Return the difference, folded if the right side is 0 or both are known."""
        a, b = self._number(left), self._number(right)
        if a is not None and b is not None:
            return self.constant(a - b)
        return left if b == 0 else self._make("arith.subi", INDEX, left, right)

    def multiply(self, left: Value, right: Value) -> Value:
        """Return the product, folded if a side is 0 or 1, or both are known."""
        a, b = self._number(left), self._number(right)
        if a is not None and b is not None:
            return self.constant(a * b)
        if 0 in (a, b):
            return self.constant(0)
        if b == 1:
            return left
        return right if a == 1 else self._make("arith.muli", INDEX, left, right)

    def gaps(self, size: Value) -> Value:
        """Return `max(size - 1, 0)`, the number of gaps between `size` elements."""
        known = self._number(size)
        if known is not None:
            return self.constant(max(known - 1, 0))
        none, one = self.constant(0), self.constant(1)
        is_empty = self._make("arith.cmpi", I1, size, one, predicate=IntegerAttr(_SLT, I64))
        return self._make("arith.select", INDEX, is_empty, none, self.subtract(size, one))

    def element(self, vector: Value, d: int) -> Value:
        """Return an element of a vector as an `index`."""
        element = vector.type.element if isinstance(vector.type, TensorType) else INDEX
        found = self._make("tensor.extract", element, vector, self.constant(d))
        return found if element == INDEX else self._make("arith.index_cast", INDEX, found)

    def _vector(self, sizes: Sequence[Value]) -> Value:
        type = TensorType(INDEX, (len(sizes),))
        return self._make("tensor.from_elements", type, *sizes)

    def _as_index(self, sizes: Value) -> Value:
        type = sizes.type
        if not isinstance(type, TensorType) or type.element == INDEX:
            return sizes
        return self._make("arith.index_cast", TensorType(INDEX, type.sizes), sizes)

    def _shape_of(self, value: Value) -> Value:
        rank = value.type.rank if isinstance(value.type, TensorType) else None
        bounds = (None,) if rank is None else ()
        return self._make("shape.shape_of", TensorType(INDEX, (rank,), None, bounds), value)

    def _broadcast(self, operands: Sequence[Value]) -> Value | None:
        types = [value.type for value in operands]
        if not all(isinstance(type, TensorType) for type in types):
            return None
        shapes = [self._shape_of(value) for value in operands]
        rank = len(numpy_broadcast(types) or ())
        return self._make("shape.broadcast", TensorType(INDEX, (rank,)), *shapes)

    def _slice_sizes(self, operands: Sequence[Value]) -> list[Value]:
        """Return `(limit - start + stride - 1) / stride` for each dimension."""
        whole, starts, limits, strides = operands
        rank = whole.type.rank if isinstance(whole.type, TensorType) else 0
        sizes = []
        for d in range(rank):
            start, limit, stride = (self.element(v, d) for v in (starts, limits, strides))
            span, one = self.add(stride, self.subtract(limit, start)), self.constant(1)
            sizes.append(self._make("arith.divsi", INDEX, self.subtract(span, one), stride))
        return sizes


# --- rules of single ops --------------------------------------------------------------------------


def _sizes(value: Value) -> tuple[int | None, ...]:
    return value.type.sizes if isinstance(value.type, TensorType) else ()


def _rank(value: Value) -> int:
    return len(_sizes(value))


def _transpose(at: Reifier, op: Transpose, operands: Sequence[Value]) -> list[Value]:
    sizes = [at.dimension(operands[0], d) for d in range(_rank(operands[0]))]
    return [sizes[d] for d in op.permutation]


def _reduce(at: Reifier, op: Reduce, operands: Sequence[Value]) -> list[Value]:
    kept = [d for d in range(_rank(operands[0])) if d not in op.dimensions]
    return [at.dimension(operands[0], d) for d in kept]


def _concatenate(at: Reifier, op: Concatenate, operands: Sequence[Value]) -> list[Value]:
    sizes = [at.dimension(operands[0], d) for d in range(_rank(operands[0]))]
    lengths = [at.dimension(other, op.dimension) for other in operands[1:]]
    for length in lengths:
        sizes[op.dimension] = at.add(sizes[op.dimension], length)
    return sizes


def _pad(at: Reifier, op: Pad, operands: Sequence[Value]) -> list[Value]:
    sizes = []
    amounts = zip(op.edge_padding_low, op.edge_padding_high, op.interior_padding, strict=True)
    for d, (low, high, interior) in enumerate(amounts):
        size = at.dimension(operands[0], d)
        if interior:
            # Upstream computes static interior padding without a test for empty dimensions; `gaps`
            # below has the test.
            gaps = at.subtract(size, at.constant(1))
            size = at.add(size, at.multiply(gaps, at.constant(interior)))
        sizes.append(at.add(at.add(size, at.constant(low)), at.constant(high)))
    return sizes


def _dynamic_pad(at: Reifier, op: DynamicPad, operands: Sequence[Value]) -> list[Value]:
    whole, _, lows, highs, interiors = operands
    sizes = []
    for d in range(_rank(whole)):
        size = at.dimension(whole, d)
        low, high, interior = (at.element(v, d) for v in (lows, highs, interiors))
        inside = at.multiply(interior, at.gaps(size))
        sizes.append(at.add(at.add(at.add(inside, size), low), high))
    return sizes


def _broadcast(at: Reifier, op: Broadcast, operands: Sequence[Value]) -> list[Value]:
    new = [at.constant(size) for size in op.broadcast_sizes]
    return [*new, *[at.dimension(operands[0], d) for d in range(_rank(operands[0]))]]


def _dot_general(at: Reifier, op: DotGeneral, operands: Sequence[Value]) -> list[Value]:
    lhs, rhs = operands[:2]
    dims = op.dimensions
    left, right = dims.lhs_batch + dims.lhs_contracting, dims.rhs_batch + dims.rhs_contracting
    return [
        *[at.dimension(lhs, d) for d in dims.lhs_batch],
        *[at.dimension(lhs, d) for d in range(_rank(lhs)) if d not in left],
        *[at.dimension(rhs, d) for d in range(_rank(rhs)) if d not in right],
    ]


def _gather(at: Reifier, op: Gather | DynamicGather, operands: Sequence[Value]) -> list[Value]:
    indices = operands[1]
    rows = [d for d in range(_rank(indices)) if d != op.index_vector_dim]
    at_run_time = [d for d in rows if _sizes(indices)[d] is None]
    made = {d: at.dimension(indices, d) for d in at_run_time}
    dropped = op.collapsed_slice_dims + op.operand_batching_dims
    window = [d for d in range(_rank(operands[0])) if d not in dropped]
    if isinstance(op, Gather):
        sizes = [at.constant(op.slice_sizes[d]) for d in window]
    else:
        sizes = [at.element(operands[2], d) for d in window]
    batches = iter([made.get(d) or at.dimension(indices, d) for d in rows])
    offsets = iter(sizes)
    rank = len(rows) + len(window)
    return [next(offsets) if d in op.offset_dims else next(batches) for d in range(rank)]


_RULES: Final[dict[type, Callable[..., list[Value]]]] = {
    Transpose: _transpose,
    Reduce: _reduce,
    Concatenate: _concatenate,
    Pad: _pad,
    DynamicPad: _dynamic_pad,
    Broadcast: _broadcast,
    DotGeneral: _dot_general,
    Gather: _gather,
    DynamicGather: _gather,
}
