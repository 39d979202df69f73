"""Custom calls for ops whose parameters are operands.

JAX exports them where sizes are unknown, such as `stablehlo.dynamic_reduce_window`.
Source: StableHLO `StablehloCanonicalizeDynamism.cpp`, which replaces them by those ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloscope.interpreter.calls.custom_call import implements
from hloscope.interpreter.ops.dynamic import run_time_sizes
from hloscope.interpreter.registry import Kernel, Site, kernel
from hloscope.interpreter.values import EvaluationError, Value
from hloscope.ir import Dims, Instruction, Op, TensorType, TupleType, Type, value_of
from hloscope.ops import CustomCall, ReduceWindow, RngBitGenerator, TopK, Window


def _kernel_of(op: Op, at: Site, type_: Type, operands: int) -> Kernel:
    """Kernel of `op` in place of the call, on its first `operands` operands."""
    ins = at.ins
    stand_in = Instruction(ins.name, type_, op, ins.operands[:operands], ins.calls, span=ins.span)
    return kernel(stand_in, at.world)


@implements("stablehlo.dynamic_reduce_window")
def _reduce_window(op: CustomCall, at: Site) -> Kernel:
    """Operands: inputs, initial values, sizes, strides, base and window dilations, padding."""
    number = len(at.results)

    def windowed(sizes: Dims, strides: Dims, base: Dims, dilations: Dims, padding: Dims) -> Kernel:
        if min((*sizes, *strides, *base, *dilations), default=1) < 1:
            raise EvaluationError(
                f"`{op.call_target_name}` has no window of sizes {sizes} and strides {strides}"
            )
        pairs = tuple(zip(padding[::2], padding[1::2], strict=True))
        window = Window(sizes, strides, pairs, base, dilations, (False,) * len(sizes))
        return _kernel_of(ReduceWindow(window), at, at.ins.type, 2 * number)

    def call(regions: Any, *values: Any) -> Value:
        given = [tuple(np.ravel(v).tolist()) for v in values[2 * number :]]
        return windowed(*given)(regions, *values[: 2 * number])

    return call


@implements("stablehlo.dynamic_top_k")
def _top_k(op: CustomCall, at: Site) -> Kernel:
    """Operands: an array, and the number of elements k."""

    def call(value: Any, k: Any) -> Value:
        if not 0 <= int(k) <= value.shape[-1]:
            raise EvaluationError(
                f"the top {int(k)} are asked for, there are {value.shape[-1]} elements"
            )
        return _kernel_of(TopK(int(k)), at, at.ins.type, 1)(value)

    return call


@implements("stablehlo.dynamic_rng_bit_generator")
def _rng_bit_generator(op: CustomCall, at: Site) -> Kernel:
    """Operands: the state, and the sizes of the result."""
    algorithm = value_of([*op.settings, *at.ins.extras], "rng_algorithm") or "DEFAULT"
    bits = at.results[-1]
    assert isinstance(bits, TensorType)
    result = Site(Instruction(at.ins.name, bits, op), at.world)

    def call(state: Any, given: Any) -> Value:
        sized = TensorType(bits.element, tuple(run_time_sizes(given, result)))
        types = TupleType((*at.results[:-1], sized))
        return _kernel_of(RngBitGenerator(algorithm), at, types, 1)(state)

    return call
