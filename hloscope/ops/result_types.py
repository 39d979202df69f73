"""Types of results: declared element types, joins of several types, broadcast shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Final

from hloscope.errors import VerifyError, message_of
from hloscope.ir import Dims, ElementType, TensorType, TupleType, Type, Types
from hloscope.ops.inference import (
    Extent,
    array,
    check_compatible_extents,
    compatible_shapes,
    either,
    extents,
    merged,
    raw_size,
    require,
    sizes_text,
    wider,
    without_layouts,
)

# --------------------------------------------------------------------------------------------------
# Results with inferred sizes and a declared element type.


def mismatch(
    inferred: Types,
    declared: Types,
    *,
    number: str,
    sizes: str,
    element: str,
) -> str:
    """Return the label of the first difference between inferred and declared results.

    The labels `number`, `sizes` and `element` stand for the number of results, their sizes and
    their element types. The label is `element` if number and sizes agree.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> f32, s32 = TensorType(ELEMENT_TYPES["f32"], ()), TensorType(ELEMENT_TYPES["s32"], ())
    >>> mismatch((f32,), (s32,), number="reduce_c3", sizes="reduce_c7", element="reduce_c8")
    'reduce_c8'
    """
    if len(inferred) != len(declared):
        return number
    for a, b in zip(inferred, declared, strict=True):
        if not isinstance(a, TensorType) or not isinstance(b, TensorType):
            return sizes
        if not compatible_shapes(a, b):
            return sizes
    return element


_NUMBERS: Final = frozenset({"pred", "unsigned", "signed", "float", "complex"})


def product_element(lhs: TensorType, rhs: TensorType) -> ElementType:
    """Return the default element type of sums of products: the wider one of the operand types."""
    a, b = lhs.element, rhs.element
    return wider(a, b) if {a.kind, b.kind} <= _NUMBERS else a


def check_declared_sizes(inferred: TensorType, results: Types, rule: str) -> TensorType:
    """Return the declared result type, after checking that it has the inferred sizes.

    Args:
        inferred: Inferred type of the result.
        results: Declared types of the results.
        rule: Label of the constraint that the sizes agree.

    Raises:
        VerifyError: The sizes differ, or the result is not one array.
    """
    result = results[0] if len(results) == 1 else None
    if not isinstance(result, TensorType):
        raise VerifyError(f"{len(results)} results, needs one array")
    require(
        compatible_shapes(inferred, result),
        rule,
        message_of(
            f"inferred shape '[{sizes_text(inferred.sizes)}]' is incompatible with return type of"
            " operation {}",
            result,
        ),
    )
    return result


# --------------------------------------------------------------------------------------------------
# Joins of types: the most specific and the least specific type of several.
#
# Source: StableHLO `type_inference.md`, tables of dimensions with bounds.


def _join(types: Sequence[Type], rule: str, meet: Callable[[Extent, Extent], Extent]) -> Type:
    """Join types: arrays dimension by dimension with `meet`, tuples element by element.

    Args:
        types: The types.
        rule: Label of the constraint that they can be joined.
        meet: Returns the extent (size, bound) of two extents of one dimension.

    Raises:
        VerifyError: The types cannot be joined.
    """
    if any(isinstance(t, TupleType) for t in types):
        tuples = [t for t in types if isinstance(t, TupleType)]
        message = "Mismatched type kinds: either all types must be tuples, or no types must be"
        require(len(tuples) == len(types), rule, f"{message} tuples")
        message = "Mismatched tuple sizes: all tuple sizes must be the same"
        require(len({len(t.elements) for t in tuples}) == 1, rule, message)
        parts = zip(*(t.elements for t in tuples), strict=True)
        return TupleType(tuple(_join(part, rule, meet) for part in parts))
    arrays = [t for t in types if isinstance(t, TensorType)]
    if len(arrays) < len(types):
        return without_layouts(types[0])
    dims = extents(arrays[0])
    for t in arrays[1:]:
        message = f"Mismatched ranks of types {len(dims)} vs {t.rank}"
        require(t.rank == len(dims), rule, message)
        for d, (common, other) in enumerate(zip(dims, extents(t), strict=True)):
            check_compatible_extents(d, common, other, rule)
            dims[d] = meet(common, other)
    return array(arrays[0].element, dims, arrays[0].encoding)


def most_specific(types: Sequence[Type], rule: str = "") -> Type:
    """Return the most specific type of a value that has all of `types`.

    `rule` is the label of the constraint that there is such a type.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> f32 = ELEMENT_TYPES["f32"]
    >>> most_specific([TensorType(f32, (2, None)), TensorType(f32, (None, 3))]).sizes
    (2, 3)
    """
    return _join(types, rule, merged)


def least_specific(types: Sequence[Type], rule: str = "") -> Type:
    """Return the most specific type that all of `types` refine, as for a conditional's result.

    `rule` is the label of the constraint that there is such a type.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> f32 = ELEMENT_TYPES["f32"]
    >>> least_specific([TensorType(f32, (2, None)), TensorType(f32, (2, 3))]).sizes
    (2, None)
    """
    return _join(types, rule, either)


# --------------------------------------------------------------------------------------------------
# Broadcasting of shapes as in numpy: aligned at the end, size 1 repeated.
#
# Source: StableHLO `StablehloBroadcastLowering.cpp`; MLIR `Traits.cpp`, `getBroadcastedShape`.


ONE: Extent = (1, None)


def numpy_broadcast(types: Sequence[Type]) -> list[Extent] | None:
    """Return the sizes and bounds of arrays after broadcasting; `None` if they are incompatible.

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
    """Return the pairs of dimensions of two arrays that are aligned at the last dimension."""
    rank = max(len(a), len(b))
    return zip([ONE] * (rank - len(a)) + a, [ONE] * (rank - len(b)) + b, strict=True)


def _broadcast_known(a: list[Extent], b: list[Extent]) -> list[Extent]:
    """Return the dimensions of two arrays of known sizes or bounds after broadcasting.

    The last dimension is compared first, so that an error names the last one that differs.
    """
    pairs = list(_aligned(a, b))
    return [_known_dimension(x, y) for x, y in reversed(pairs)][::-1]


def _known_dimension(a: Extent, b: Extent) -> Extent:
    """Return the dimension to which two dimensions of known sizes or bounds broadcast.

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
    """Return the dimensions after broadcasting, where sizes may be unknown.

    The result is `None` if they are incompatible.
    """
    result: list[Extent] = []
    for other in dims:
        met = [_unknown_dimension(a, b) for a, b in _aligned(result, other)]
        if None in met:
            return None
        result = [x for x in met if x is not None]
    return result


def _unknown_dimension(a: Extent, b: Extent) -> Extent | None:
    """Return the dimension to which two dimensions broadcast, where sizes may be unknown.

    The result is `None` if they are incompatible.
    """
    if None not in (a[0], b[0]) and 1 in (a[0], b[0]):
        return (b if a[0] == 1 else a)[0], None
    # A size above 1 is the size of the result, whatever the other size is at run time: that one has
    # to be equal or 1.
    for size, other_size in ((a[0], b[0]), (b[0], a[0])):
        if size is not None and size > 1:
            return (size, None) if other_size in (None, 1, size) else None
    return (None if a[0] is None or b[0] is None else a[0]), None


def broadcast_along(lhs: TensorType, rhs: TensorType, dimensions: Dims) -> list[Extent] | None:
    """Return the dimensions of `lhs` and `rhs` after broadcasting along `dimensions`.

    The dimensions of the array of lower rank are those at `dimensions` of the other one. The result
    is `None` if the sizes are incompatible, which `chlo` allows. It has no bounds.

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
