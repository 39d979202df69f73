"""Numpy, loaded when something of it is first used, and the types of arrays of its numbers.

A question about shapes and maps needs no arrays, and to load numpy takes longer than the answer.
Whoever may need it says `from hloscope.arrays import np` at its top, as if it were loaded there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from hloscope.lazy import library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    np = library("numpy")

__all__ = ["Array", "Bools", "Floats", "Ints", "np"]

Array: TypeAlias = "NDArray[Any]"
Bools: TypeAlias = "NDArray[np.bool_]"
Floats: TypeAlias = "NDArray[np.float64]"
Ints: TypeAlias = "NDArray[np.int64]"
