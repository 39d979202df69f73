"""Broadcasting of arrays to a common shape, as numpy does, bounded dimensions included.

Source: StableHLO `tests/ops_broadcasting.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloscope.errors import UnsupportedError
from hloscope.ir import TensorType
from hloscope.mlir import I64, DenseArrayAttr, IntegerAttr, Operation, Value
from hloscope.ops import Extent, array, extents, numpy_broadcast
from hloscope.stablehlo.making import made


def broadcast_together(values: Sequence[Value]) -> tuple[list[Operation], list[Value]]:
    """Return the operations that broadcast `values`, and the values in their common shape.

    A value that has that shape already is returned unchanged.

    Raises:
        VerifyError: There is nothing to broadcast, or the shapes are incompatible.
        UnsupportedError: A size is known at run time only and has no bound.
    """
    dims = numpy_broadcast([value.type for value in values])
    if dims is None or any(size is None and most is None for size, most in dims):
        raise UnsupportedError("sizes without a bound cannot be broadcast before they are known")
    operations: list[Operation] = []
    # A bounded dimension gets its run-time size from the first value that has it. Broadcasting
    # makes it static (its bound), then `set_dimension_size` restores the size.
    sources: dict[int, tuple[Value, int]] = {}
    for value in values:
        assert isinstance(value.type, TensorType)
        shift = len(dims) - value.type.rank
        for d, (size, most) in enumerate(extents(value.type)):
            if size is None and most is not None:
                sources.setdefault(d + shift, (value, d))
    return operations, [_stretched(value, dims, sources, operations) for value in values]


def _stretched(
    value: Value,
    dims: list[Extent],
    sources: dict[int, tuple[Value, int]],
    operations: list[Operation],
) -> Value:
    type_ = value.type
    assert isinstance(type_, TensorType)
    have = extents(type_)
    if have == dims:
        return value
    shift = len(dims) - type_.rank
    own = [(1, None)] * shift + have
    static = [
        (most if size is None else size, None) if mine == (1, None) else mine
        for mine, (size, most) in zip(own, dims, strict=True)
    ]
    along = DenseArrayAttr(I64, tuple(range(shift, len(dims))))
    wide = made(
        "stablehlo.broadcast_in_dim",
        [value],
        {"broadcast_dimensions": along},
        types=[array(type_.element, static)],
    )
    operations.append(wide)
    result = wide.result
    for d, (size, _) in enumerate(dims):
        if size is None and static[d][0] is not None:
            result = _sized(result, d, sources[d], operations)
    return result


def _sized(value: Value, d: int, source: tuple[Value, int], operations: list[Operation]) -> Value:
    """Give dimension `d` of `value` the run-time size of a dimension of another array."""
    other, e = source
    size = made("stablehlo.get_dimension_size", [other], {"dimension": IntegerAttr(e, I64)})
    bounded = made(
        "stablehlo.set_dimension_size", [value, size.result], {"dimension": IntegerAttr(d, I64)}
    )
    operations += [size, bounded]
    return bounded.result
