"""Broadcasting of shapes as in numpy: aligned at the end, size 1 repeated.

Source: StableHLO `StablehloBroadcastLowering.cpp`; MLIR `Traits.cpp`, `getBroadcastedShape`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from hloscope.ir import Dims, TensorType, Type
from hloscope.ops.infer_util import Extent, extents, raw_size, require

ONE: Extent = (1, None)


def numpy_broadcast(types: Sequence[Type]) -> list[Extent] | None:
    """Return the dimensions of arrays after broadcasting; `None` if they are not compatible.

    Arrays whose sizes or bounds are all known have to be compatible.  If sizes are unknown, the
    result may have unknown sizes.

    Raises:
        VerifyError: There are no arrays, or arrays of known sizes are not compatible.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> numpy_broadcast([TensorType(ELEMENT_TYPES["f32"], s) for s in ((3, 1), (4,))])
    [(3, None), (4, None)]
    """
    require(bool(types), "", "requires at least one operand to broadcast")
    arrays = [t for t in types if isinstance(t, TensorType)]
    require(len(arrays) == len(types), "", "expected ranked tensor type for broadcast inputs")
    dims = [extents(t) for t in arrays]
    if all(t.is_static or any(b is not None for b in t.bounds) for t in arrays):
        return reduce(_broadcast_known, dims)
    return _broadcast_unknown(dims)


def _aligned(a: list[Extent], b: list[Extent]) -> Iterable[tuple[Extent, Extent]]:
    """Pair the dimensions of two arrays, aligned at the end."""
    rank = max(len(a), len(b))
    return zip([ONE] * (rank - len(a)) + a, [ONE] * (rank - len(b)) + b, strict=True)


def _broadcast_known(a: list[Extent], b: list[Extent]) -> list[Extent]:
    """Broadcast dimensions from the last to the first, so that errors report the last one."""
    pairs = list(_aligned(a, b))
    return [_known_dimension(x, y) for x, y in reversed(pairs)][::-1]


def _known_dimension(a: Extent, b: Extent) -> Extent:
    """Broadcast a dimension of known size or bound.

    Raises:
        VerifyError: The sizes are not compatible.
    """
    if a == ONE or b == ONE:
        return b if a == ONE else a
    x, y = (most if size is None else size for size, most in (a, b))
    message = f"incompatible shapes for broadcasting {raw_size(x)} and {raw_size(y)}"
    require(x == y, "", message)
    message = "cannot mix bounded and static dimensions in broadcast"
    require((a[0] is None) == (b[0] is None), "", message)
    return a


def _broadcast_unknown(dims: Sequence[list[Extent]]) -> list[Extent] | None:
    """Broadcast dimensions of which some are unknown; `None` if they are not compatible."""
    result: list[Extent] = []
    for other in dims:
        met = [_unknown_dimension(a, b) for a, b in _aligned(result, other)]
        if None in met:
            return None
        result = [x for x in met if x is not None]
    return result


def _unknown_dimension(a: Extent, b: Extent) -> Extent | None:
    """Broadcast a dimension whose size may be unknown; `None` if it is not compatible."""
    if None not in (a[0], b[0]) and 1 in (a[0], b[0]):
        return (b if a[0] == 1 else a)[0], None
    # A size above 1 is the size of the result, whatever the other one is at run time: that has to
    # be the same or 1.
    for size, other_size in ((a[0], b[0]), (b[0], a[0])):
        if size is not None and size > 1:
            return (size, None) if other_size in (None, 1, size) else None
    return (None if a[0] is None or b[0] is None else a[0]), None


def broadcast_along(lhs: TensorType, rhs: TensorType, dimensions: Dims) -> list[Extent] | None:
    """Return the dimensions of two arrays, the smaller one placed at `dimensions` of the larger.

    `None` if they are not compatible, which `chlo` allows.  Bounds are lost.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> f32 = ELEMENT_TYPES["f32"]
    >>> broadcast_along(TensorType(f32, (3,)), TensorType(f32, (3, 4)), (0,))
    [(3, None), (4, None)]
    """
    small, large = (lhs, rhs) if lhs.rank <= rhs.rank else (rhs, lhs)
    if len(dimensions) != small.rank or not all(0 <= d < large.rank for d in dimensions):
        return None
    result: list[Extent] = [(size, None) for size in large.sizes]
    for d, extent in zip(dimensions, extents(small), strict=True):
        met = _unknown_dimension(extent, (large.sizes[d], None))
        if met is None:
            return None
        result[d] = met
    return result
