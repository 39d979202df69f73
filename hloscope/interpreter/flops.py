"""Operations on elements that an instruction needs, counted while a program runs."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from hloscope.fusion import PRODUCTS, elements_read, leaf_types, multiplications
from hloscope.interpreter.registry import Kernel, Writing
from hloscope.interpreter.values import EvaluationError, Value, World
from hloscope.ir import Instruction, Op, TensorType
from hloscope.ops import (
    AddDependency,
    Bitcast,
    Broadcast,
    BroadcastInDim,
    Case,
    Constant,
    Domain,
    GetTupleElement,
    OptimizationBarrier,
    Reduce,
    ReduceWindow,
    Reshape,
    Return,
    Slice,
    Sort,
    TopK,
    Transpose,
    Tuple,
    While,
)

_LEAST_COUNTED: Final = 1 << 12
"""Minimum number of operations of an instruction that are counted; fewer cost less than a step."""
_NO_ARITHMETIC: Final[tuple[type[Op], ...]] = (
    AddDependency, Bitcast, Broadcast, BroadcastInDim, Case, Constant, Domain, GetTupleElement,
    OptimizationBarrier, Reshape, Return, Slice, Transpose, Tuple, While,
)  # fmt: skip
"""Ops that return operands or views of operands, without arithmetic of their own."""


def with_flop_count(run: Kernel, ins: Instruction, world: World) -> Kernel:
    """Return `run`, wrapped to add the operations of `ins` to `world.flops` before it runs.

    `run` itself is returned if flops are unlimited, or if `ins` is smaller than `_LEAST_COUNTED`
    and neither a product nor a window op.
    """
    if world.max_flops is None:
        return run
    flops = _flops(ins)
    # Products and windows are always counted: their work may be known only from bodies or sizes
    # that are much larger than the result.
    if flops < _LEAST_COUNTED and not isinstance(ins.op, (*PRODUCTS, ReduceWindow)):
        return run

    def count() -> None:
        world.flops += flops
        if world.max_flops is not None and world.flops > world.max_flops:
            many = f"{world.flops:,} operations on elements"
            allowed = f"at most {world.max_flops:,} are allowed"
            message = f"`{ins.name}` would make it {many}, {allowed}"
            raise EvaluationError(message, span=ins.span, rule="max_flops")

    def counted_before(made: Kernel) -> Kernel:
        def counted(*values: Any) -> Value:
            count()
            return made(*values)

        return counted

    # Both variants do the same work, and the evaluation may pick either one.
    if isinstance(run, Writing):
        return Writing(counted_before(run.plain), counted_before(run.into))
    return counted_before(run)


def _flops(ins: Instruction) -> int:
    """Return the number of operations on elements that an instruction needs.

    Operations are arithmetic, comparisons, or reads and writes.
    """
    if isinstance(ins.op, PRODUCTS):
        products = multiplications(ins)
        # A multiplication and an addition for each product.
        return 2 * (elements_read(ins) if products is None else products)
    if isinstance(ins.op, _NO_ARITHMETIC):
        return 0
    made = _elements(ins)
    if isinstance(ins.op, ReduceWindow):
        return made * prod(ins.op.window.sizes)
    if isinstance(ins.op, Reduce | TopK):
        # These read every element of the operand, and usually return fewer.
        return max(made, *map(_elements, ins.operands))
    if isinstance(ins.op, Sort):
        # A sort of n elements makes about n log2 n comparisons, each one run of the comparator.
        return made * made.bit_length() * sum(len(list(callee)) for callee in ins.calls)
    return made


def _elements(value: Instruction) -> int:
    """Return the number of elements of all tensors of a value; unknown sizes count as 0."""
    leaves = leaf_types(value.type)
    return sum(prod(s or 0 for s in t.sizes) for t in leaves if isinstance(t, TensorType))
