"""Quantized values: `uniform_quantize`, `uniform_dequantize`, and other ops on such values.

A quantized array holds its storage integers.  Ops that only move elements are evaluated on these
integers.  Ops that compute are evaluated on the real numbers that the operands represent, and their
results are quantized. Source: StableHLO spec, "Quantization computations".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hloscope.interpreter.ops.reduction import is_quantized
from hloscope.interpreter.registry import ON_REALS, Concern, Kernel, Maker, Site, adapts, evaluates
from hloscope.interpreter.values import dtype_of
from hloscope.ir import Dims, Instruction, Op, QuantizedType, TensorType, TupleType, Type
from hloscope.ops import (
    Elementwise,
    Parameter,
    Select,
    UniformDequantize,
    UniformQuantize,
    leaves,
)

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

_MOVING: Final = (Select, UniformDequantize, UniformQuantize)
"""Element-wise ops whose kernels compute with quantized types themselves."""


def computes_reals(op: Op) -> bool:
    """Is the op, on quantized operands, computed on the real numbers that they represent?"""
    computes = isinstance(op, Elementwise) or type(op) in ON_REALS
    return computes and not isinstance(op, _MOVING)


@evaluates(UniformQuantize, lifted=True)
def _uniform_quantize(op: UniformQuantize, at: Site) -> Kernel:
    """Return the kernel of `uniform_quantize`.

    The operand is real, or quantized with other parameters.
    """
    (source,) = at.operands
    assert isinstance(source, TensorType)
    target = at.result.element
    assert isinstance(target, QuantizedType)
    quantize = quantizer(target)
    if not isinstance(source.element, QuantizedType):
        return quantize
    dequantize = dequantizer(source.element)
    return lambda value: quantize(dequantize(value))


@evaluates(UniformDequantize, lifted=True)
def _uniform_dequantize(op: UniformDequantize, at: Site) -> Kernel:
    (source,) = at.operands
    assert isinstance(source, TensorType)
    assert isinstance(source.element, QuantizedType)
    return dequantizer(source.element)


def quantizer(element: QuantizedType) -> Callable[[Any], Any]:
    """Return the function from real numbers to the nearest storage integers of a quantized type.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> from hloscope.mlir.types import quantized
    >>> element = quantized(ELEMENT_TYPES["s8"], ELEMENT_TYPES["f32"], (0.5,), (-20,))
    >>> quantizer(element)(np.float32([1, 100, 0.25])).tolist()
    [-18, 127, -20]
    """
    expressed, storage = dtype_of(element.expressed), dtype_of(element.storage)
    scales, zeros = _parameters(element, expressed)
    least, most = element.storage_min, element.storage_max
    low, high = np.array(least).astype(expressed), np.array(most).astype(expressed)

    def quantize(value: Any) -> Any:
        shape = np.shape(value)
        scaled = value / scales(shape) + zeros(shape)
        rounded = np.rint(np.minimum(np.maximum(scaled, low), high)).astype(np.float64)
        known = np.where(np.isnan(rounded), 0.0, rounded)  # a NaN becomes 0, as in `convert`
        whole = known.astype(np.int64)
        # Again in integers: the largest storage value may have been rounded up as a float.
        return np.minimum(np.maximum(whole, least), most).astype(storage)

    return quantize


def dequantizer(element: QuantizedType) -> Callable[[Any], Any]:
    """Return the function from storage integers of a quantized type to their real numbers.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> from hloscope.mlir.types import quantized
    >>> types = ELEMENT_TYPES["s8"], ELEMENT_TYPES["f32"]
    >>> element = quantized(*types, (0.1, 0.5), (-30, -20), axes=(0,))
    >>> dequantizer(element)(np.int8([10, 10])).tolist()
    [4.0, 15.0]
    """
    expressed = dtype_of(element.expressed)
    scales, zeros = _parameters(element, np.dtype(np.int64))

    def dequantize(value: Any) -> Any:
        shape = np.shape(value)
        whole = value.astype(np.int64) - zeros(shape)
        return whole.astype(expressed) * scales(shape)

    return dequantize


def _parameters(
    element: QuantizedType, zeros_as: np.dtype[Any]
) -> tuple[Callable[[Dims], Array], Callable[[Dims], Array]]:
    """Return functions from a shape to the scales, and to the zero points, as arrays.

    The arrays broadcast to an array of that shape. `zeros_as` is the dtype of the zero points.
    """
    scales = np.array(element.scales).astype(dtype_of(element.expressed))
    zeros = np.array(element.zero_points, np.int64).astype(zeros_as)
    if element.is_per_tensor:
        scale, zero = scales[0], zeros[0]
        return lambda _: scale, lambda _: zero
    if element.by_blocks:
        # Sizes of a type quantized by blocks are static, so the parameters are expanded once, here.
        blocks, axes = element.blocks, element.axes
        shaped = scales.reshape(element.blocks_shape), zeros.reshape(element.blocks_shape)

        def repeated(each: Array) -> Array:
            for size, axis in zip(blocks, axes, strict=True):
                each = np.repeat(each, size, axis)
            return each

        all_scales, all_zeros = map(repeated, shaped)
        return lambda _: all_scales, lambda _: all_zeros
    (axis,) = element.axes

    def along(each: Array) -> Callable[[Dims], Array]:
        return lambda shape: each.reshape([-1 if d == axis else 1 for d in range(len(shape))])

    return along(scales), along(zeros)


@adapts(Concern.QUANTIZED)
def on_reals(maker: Maker, ins: Instruction) -> Maker:
    """Return `maker`, wrapped to compute on real numbers where operands or results are quantized.

    It is unchanged if the op only moves elements, or if no type is quantized.
    """
    types = [t for i in (ins, *ins.operands) for t in leaves(i.type)]
    if not computes_reals(ins.op) or not is_quantized(types):
        return maker

    def real_maker(op: Op, at: Site) -> Kernel:
        operands = tuple(
            Instruction(o.name, expressed_type(o.type), Parameter(i), span=o.span)
            for i, o in enumerate(ins.operands)
        )
        type_ = expressed_type(ins.type)
        real = Instruction(ins.name, type_, op, operands, ins.calls, ins.extras, span=ins.span)
        kernel = maker(op, Site(real, at.world))
        enter, leave = [_dequantizing(o.type) for o in ins.operands], _quantizing(ins.type)
        return lambda *values: leave(kernel(*[f(v) for f, v in zip(enter, values, strict=True)]))

    return real_maker


def expressed_type(type_: Type) -> Type:
    """Return the type with quantized element types replaced by their expressed types.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> from hloscope.mlir.types import quantized, type_text
    >>> element = quantized(ELEMENT_TYPES["s8"], ELEMENT_TYPES["f32"], (0.5,), (-20,))
    >>> type_text(expressed_type(TensorType(element, (2,))))
    'tensor<2xf32>'
    """
    if isinstance(type_, TupleType):
        return TupleType(tuple(map(expressed_type, type_.elements)))
    if isinstance(type_, TensorType) and isinstance(type_.element, QuantizedType):
        return TensorType(type_.element.expressed, type_.sizes, None, type_.bounds)
    return type_


def _dequantizing(type_: Type) -> Callable[[Any], Any]:
    if isinstance(type_, TensorType) and isinstance(type_.element, QuantizedType):
        return dequantizer(type_.element)
    return _unchanged


def _quantizing(type_: Type) -> Callable[[Any], Any]:
    if isinstance(type_, TupleType):
        parts = [_quantizing(t) for t in type_.elements]
        return lambda values: tuple([f(v) for f, v in zip(parts, values, strict=True)])
    if isinstance(type_, TensorType) and isinstance(type_.element, QuantizedType):
        return quantizer(type_.element)
    return _unchanged


def _unchanged(value: Any) -> Any:
    return value
