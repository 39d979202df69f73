"""Views of arrays by strides, for every element type."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.lib.stride_tricks import as_strided

from hloscope.interpreter.values import Array


def strided(x: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """A read-only view of `x`; numpy alone does not know the types of all narrow floats.

    >>> import numpy as np
    >>> strided(np.arange(4), (3, 2), (8, 8)).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    raw = x.view(f"V{x.itemsize}")
    return as_strided(raw, shape, strides, writeable=False).view(x.dtype)
