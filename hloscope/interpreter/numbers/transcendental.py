"""Transcendental functions that numpy has for floats and for complex numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

TRANSCENDENTAL: Final[dict[str, np.ufunc]] = {
    "log": np.log,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "power": np.power,
    "chlo.acos": np.arccos,
    "chlo.acosh": np.arccosh,
    "chlo.asin": np.arcsin,
    "chlo.asinh": np.arcsinh,
    "chlo.atan": np.arctan,
    "chlo.atanh": np.arctanh,
    "chlo.cosh": np.cosh,
    "chlo.sinh": np.sinh,
}
"""Numpy function by the name of the op."""
