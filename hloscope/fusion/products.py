"""Numbers of multiply-adds of dots, convolutions and the library calls that compute them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import gcd, prod
from typing import Final

from hloscope.errors import HloscopeError
from hloscope.fusion.leaves import leaf_types
from hloscope.indexing import CUDNN_ROLES, forward_convolution
from hloscope.ir import Dims, Instruction, TensorType, backend_config
from hloscope.ops import (
    Convolution,
    CustomCall,
    Dot,
    DotDimensions,
    DotGeneral,
    DynamicConv,
    RaggedDot,
    ScaledDot,
    Window,
)
from hloscope.support.lazy import pattern

_CUBLAS: Final = pattern(r"__cublas\$(gemm|(lt\$)?(gemm|matmul(\$f8)?))")
_ONEDNN: Final = "__onednn$matmul"


def multiplications(ins: Instruction) -> int | None:
    """Return the multiply-adds of a dot, a convolution, or a library call that computes one.

    Padding and the holes of base dilation are not multiplied. A multiply-add of complex numbers
    counts once.

    Returns:
        `None` if the instruction is not such a product, or its sizes or settings are not known.
    """
    try:
        return _multiplications(ins)
    except (HloscopeError, AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None  # an invalid program, or a backend config of another form


def _multiplications(ins: Instruction) -> int | None:
    """Return the result of `multiplications`, but raise an error for unknown settings or sizes."""
    op = ins.op
    match op:
        case DotGeneral(dimensions=dimensions) | ScaledDot(dimensions=dimensions):
            return _contraction(ins, dimensions)
        case Dot():
            lhs = _sizes(ins.operands[0])
            return _contraction(ins, DotDimensions((), (), (len(lhs) - 1,), (0,)))
        case RaggedDot(dimensions=dimensions, lhs_ragged=(ragged,)):
            whole = _contraction(ins, dimensions)
            if ragged in dimensions.lhs_contracting:  # the groups share the contracted elements
                groups = _result_sizes(ins)[0]
                return whole // groups if groups else 0
            return whole
        case Convolution():
            shapes = [*map(_sizes, ins.operands[:2]), _result_sizes(ins)]
            return _convolution(op, shapes)
        case DynamicConv():
            return None  # the padding is a value
        case CustomCall(call_target_name=target) if target in CUDNN_ROLES:
            arrays = [*map(_sizes, ins.operands[:2]), _result_sizes(ins)]
            roles = CUDNN_ROLES[target]
            forward = [arrays[roles.index(role)] for role in range(3)]
            return _convolution(forward_convolution(op), forward)
        case CustomCall(call_target_name=target) if _CUBLAS.fullmatch(target):
            config = backend_config(op.settings, ins.extras)
            numbers = config.get("gemm_backend_config", config)["dot_dimension_numbers"]
            contracted = tuple(map(int, numbers["lhs_contracting_dimensions"]))
            # The result has batch and free dimensions only, so its size times the contracted sizes
            # of the left operand counts the multiply-adds.
            return _contraction(ins, DotDimensions((), (), contracted, ()))
        case CustomCall(call_target_name=target) if target == _ONEDNN:
            config = backend_config(op.settings, ins.extras)
            is_transposed = config.get("onednn_matmul_config", {}).get("transpose_a", False)
            rank = len(_sizes(ins.operands[0]))
            last = rank - (2 if str(is_transposed).lower() == "true" else 1)
            return _contraction(ins, DotDimensions((), (), (last,), ()))
        case _:
            return None


def _contraction(ins: Instruction, dimensions: DotDimensions) -> int:
    """Return the multiply-adds of a dot: the number of result elements times the contracted sizes.

    `dimensions` has the contracted dimensions of operand 0.
    """
    lhs = _sizes(ins.operands[0])
    return prod(_result_sizes(ins)) * prod([lhs[d] for d in dimensions.lhs_contracting])


def _convolution(op: Convolution, shapes: Sequence[Dims]) -> int:
    """Return the multiply-adds of a forward convolution; `shapes`: input, kernel, output."""
    lhs, kernel, out = shapes
    names = op.dimensions
    spatial = zip(names.input_spatial, names.kernel_spatial, names.output_spatial, strict=True)
    met = [
        valid_pairs(op.window, d, kernel[k], lhs[i], out[o]) for d, (i, k, o) in enumerate(spatial)
    ]
    around = (
        out[names.output_batch],
        out[names.output_feature],
        kernel[names.kernel_input_feature],
    )
    return prod(met) * prod(around)


def valid_pairs(window: Window, d: int, taps: int, size: int, positions: int) -> int:
    """Return the number of (position, tap) pairs of dimension `d` that are on a base element.

    Args:
        window: The window.
        d: Its dimension.
        taps: Number of taps.
        size: Number of base elements.
        positions: Number of window positions.

    Raises:
        ValueError: A stride or dilation is not positive.

    >>> window = Window((3,), (1,), ((1, 1),), (2,), (1,), (False,))
    >>> valid_pairs(window, 0, 3, 4, 7)
    10

    Position `o` and tap `w` meet element `(o s + w t - low) / b` if that is a whole number in
    `[0, size)`.  Divided by b, the taps that can meet an element are an arithmetic progression
    `w = first + k step`, and the positions of tap `w` are those congruent to `c0 + c1 k` modulo
    `m` in an interval whose ends are linear in `w`, rounded.  So the number of pairs is a sum of
    floors of linear functions, which `_floor_sum` gives in closed form.
    """
    s, t, b = window.strides[d], window.window_dilations[d], window.base_dilations[d]
    if min(s, t, b) < 1:
        raise ValueError("strides and dilations need to be positive")
    if min(taps, size, positions) <= 0:
        return 0
    low = window.padding[d][0]
    # o s = low - w t (mod b) has a solution iff g divides low - w t
    g = gcd(s, b)
    step, m = g // gcd(t, g), b // g
    reach = gcd(t, g)
    if low % reach:
        return 0
    first = low // reach * pow(t // reach, -1, step) % step if step > 1 else 0
    inverse = pow(s // g, -1, m) if m > 1 else 0
    c0, c1 = (low - first * t) // g * inverse, -(step * t // g) * inverse

    # As functions of k: lowest position ceil((low - w t) / s), highest floor((high - w t) / s).
    high = low + (size - 1) * b
    begin, end = 0, -(-(taps - first) // step) if first < taps else 0
    begin = max(begin, -((first * t - low + (positions - 1) * s) // (step * t)))
    end = min(end, (high - first * t) // (step * t) + 1)
    # From `clamped` on the lowest position is 0; before `whole` the highest is the last.
    clamped = -((first * t - low) // (step * t))
    whole = (high - first * t - (positions - 1) * s) // (step * t) + 1
    total = 0
    cuts = sorted({begin, end, *[c for c in (clamped, whole) if begin < c < end]})
    for start, stop in pairwise(cuts) if begin < end else ():
        count, w = stop - start, first + start * step
        c = c0 + c1 * start
        if start >= whole:  # floor((floor(x / s) - y) / m) = floor((x - s y) / (s m))
            total += _floor_sum(count, s * m, -step * t - s * c1, high - w * t - s * c)
        else:
            total += _floor_sum(count, m, -c1, positions - 1 - c)
        if start >= clamped:
            total -= _floor_sum(count, m, -c1, -1 - c)
        else:  # ceil(x / s) - 1 = floor((x - 1) / s)
            total -= _floor_sum(count, s * m, -step * t - s * c1, low - w * t - 1 - s * c)
    return total


def _floor_sum(n: int, m: int, a: int, b: int) -> int:
    """Return the sum of `(a * i + b) // m` for `i` in `[0, n)`.

    It takes as many steps as Euclid's algorithm.

    >>> _floor_sum(4, 3, -2, 5) == sum((-2 * i + 5) // 3 for i in range(4))
    True
    """
    total = 0
    while n > 0:
        # The whole parts of `a / m` and `b / m` contribute sums of an arithmetic progression.
        total += (n - 1) * n // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        # The rest counts lattice points under a line: seen from the other axis it has the same
        # form with `a` and `m` exchanged.
        n, b = divmod(a * n + b, m)
        a, m = m, a
    return total


def _sizes(ins: Instruction) -> Dims:
    """Return the sizes of the value of `ins`; dynamic ones count with bounds."""
    return _known_sizes(ins.type)


def _result_sizes(ins: Instruction) -> Dims:
    """Return the sizes of the first array in the value of `ins`; dynamic ones count with bounds."""
    return _known_sizes(leaf_types(ins.type)[0])


def _known_sizes(type: object) -> Dims:
    """Return the sizes of an array; a dynamic dimension counts with its bound.

    Raises:
        UnsupportedError: A dynamic dimension has no bound.
        ValueError: The value is not an array.
    """
    if not isinstance(type, TensorType):
        raise ValueError("the value is not an array")
    return type.shape
