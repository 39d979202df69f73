"""Results with inferred sizes and a declared element type."""

from __future__ import annotations

from typing import Final

from hloscope.errors import VerifyError, said
from hloscope.ir import ElementType, TensorType, Type
from hloscope.ops.infer_util import compatible_shapes, require, sizes_text, wider


def mismatch(
    inferred: tuple[Type, ...],
    declared: tuple[Type, ...],
    *,
    number: str,
    sizes: str,
    element: str,
) -> str:
    """Return the label of the first difference: number of results, sizes or element type.

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
    """Return the default element type of sums of products: the wider one of the operands."""
    a, b = lhs.element, rhs.element
    return wider(a, b) if {a.kind, b.kind} <= _NUMBERS else a


def check_declared_sizes(inferred: TensorType, results: tuple[Type, ...], rule: str) -> TensorType:
    """Return the declared result, after checking that it has the inferred sizes.

    Raises:
        VerifyError: The sizes differ, or the result is not one array.
    """
    result = results[0] if len(results) == 1 else None
    if not isinstance(result, TensorType):
        raise VerifyError(f"{len(results)} results, needs one array")
    require(
        compatible_shapes(inferred, result),
        rule,
        said(
            f"inferred shape '[{sizes_text(inferred.sizes)}]' is incompatible with return type of"
            " operation {}",
            result,
        ),
    )
    return result
