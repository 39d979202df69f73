"""Numpy types of elements.  Numpy and ml_dtypes are loaded when the first one is asked for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from hloscope.ir.types import ElementType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
Value: TypeAlias = "Array | tuple[Value, ...]"


def numpy() -> Any:
    """Return the numpy module."""
    import numpy

    return numpy


def ml_dtypes() -> Any:
    """Return the ml_dtypes module."""
    import ml_dtypes

    return ml_dtypes


@cache
def numpy_dtype(element: ElementType) -> np.dtype[Any]:
    """Return the numpy (or ml_dtypes) type of an element type.

    Raises:
        ValueError: Tokens and opaque values have none.
    """
    np = numpy()
    if not element.numpy:
        raise ValueError(f"elements of type {element.name} have no value")
    if element.numpy == "bool" or hasattr(np, element.numpy):
        return np.dtype(element.numpy)  # type: ignore[no-any-return]
    return np.dtype(getattr(ml_dtypes(), element.numpy))  # type: ignore[no-any-return]
