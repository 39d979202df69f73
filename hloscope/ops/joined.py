"""Joins of types: the most specific and the least specific type of several.

Source: StableHLO `type_inference.md`, tables of dimensions with bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloscope.ir import TensorType, TupleType, Type
from hloscope.ops.infer_util import (
    Extent,
    array,
    bare,
    check_meeting,
    either,
    extents,
    merged,
    require,
)


def _join(types: Sequence[Type], rule: str, meet: Callable[[Extent, Extent], Extent]) -> Type:
    """Join types, arrays dimension by dimension by `meet`, tuples element by element.

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
        return bare(types[0])
    dims = extents(arrays[0])
    for t in arrays[1:]:
        message = f"Mismatched ranks of types {len(dims)} vs {t.rank}"
        require(t.rank == len(dims), rule, message)
        for d, (common, other) in enumerate(zip(dims, extents(t), strict=True)):
            check_meeting(d, common, other, rule)
            dims[d] = meet(common, other)
    return array(arrays[0].element, dims, arrays[0].encoding)


def most_specific(types: Sequence[Type], rule: str = "") -> Type:
    """Return the most specific type of one value that has all of `types`.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> f32 = ELEMENT_TYPES["f32"]
    >>> most_specific([TensorType(f32, (2, None)), TensorType(f32, (None, 3))]).sizes
    (2, 3)
    """
    return _join(types, rule, merged)


def least_specific(types: Sequence[Type], rule: str = "") -> Type:
    """Return the type that all of `types` refine, such as that of a conditional's result.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> f32 = ELEMENT_TYPES["f32"]
    >>> least_specific([TensorType(f32, (2, None)), TensorType(f32, (2, 3))]).sizes
    (2, None)
    """
    return _join(types, rule, either)
