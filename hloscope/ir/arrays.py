"""Numpy types of elements; numpy and ml_dtypes are loaded on first use."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from hloscope.arrays import ml_dtypes, np
from hloscope.ir.types import ElementType

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
Value: TypeAlias = "Array | tuple[Value, ...]"


@cache
def numpy_dtype(element: ElementType) -> np.dtype[Any]:
    """Return the numpy or ml_dtypes type of an element type.

    Raises:
        ValueError: The elements have no value, as tokens and opaque values.
    """
    # Cached, as evaluation asks for every value; there are few different element types.
    if not element.numpy:
        raise ValueError(f"elements of type {element.name} have no value")
    if element.numpy == "bool" or hasattr(np, element.numpy):
        return np.dtype(element.numpy)
    return np.dtype(getattr(ml_dtypes, element.numpy))  # type: ignore[no-any-return]
