"""Random values for running a program: ordinary ones, and those that programs handle wrongly.

A *style* selects the kind: ties, NaN and infinities, extremes, indices out of range, booleans of
other frequencies, dynamic dimensions with fewer elements.
"""

from __future__ import annotations

from typing import Any, Final

from hloscope.arrays import np
from hloscope.errors import UnsupportedError
from hloscope.interpreter import TOKEN, dtype_of
from hloscope.ir import ElementType, QuantizedType, TensorType, TokenType, TupleType, Type

STYLES: Final = ("ordinary", "ties", "special", "wide", "numbered")
"""Kinds of values; those of `numbered` are distinct, as far as the element type allows."""


class Draw:
    """Draw random values of types in one style.

    Dynamic dimensions of equal bounds get equal sizes within one draw, so that operands match.
    """

    def __init__(self, rng: np.random.Generator, style: str) -> None:
        self.rng: Final = rng
        self.style: Final = style
        self._sizes: dict[int, int] = {}
        self._number = int(rng.integers(1000, 100_000))

    def value(self, type: Type) -> Any:
        """Return a value of the type.

        Raises:
            UnsupportedError: The type has no values.
        """
        match type:
            case TensorType():
                return self.elements(type.element, self._shape(type))
            case TupleType():
                return tuple([self.value(t) for t in type.elements])
            case TokenType():
                return TOKEN
            case _:
                raise UnsupportedError(f"no values of {type}")

    def _shape(self, type: TensorType) -> tuple[int, ...]:
        """Return the shape of a value; dynamic dimensions get sizes up to their bounds."""
        if type.is_static:
            return type.shape
        if not type.bounds:
            raise UnsupportedError("sizes without bounds")
        found = []
        for size, bound in zip(type.sizes, type.bounds, strict=True):
            if size is not None:
                found.append(size)
            elif bound is None:
                raise UnsupportedError("sizes without bounds")
            else:
                fewer = bound if self.style == "ordinary" else int(self.rng.integers(0, bound + 1))
                found.append(self._sizes.setdefault(bound, fewer))
        return tuple(found)

    def elements(self, element: ElementType, shape: tuple[int, ...]) -> Any:
        """Return a random array of the element type."""
        rng = self.rng
        if isinstance(element, QuantizedType):
            element = element.storage
        dtype = dtype_of(element)
        # Values beyond the element type's range become infinite or wrap, which is intended.
        with np.errstate(all="ignore"):
            match element.kind:
                case "pred":
                    odds = (0.5, 0.8, 0.5, 0.2, 0.5)[STYLES.index(self.style)]
                    found = rng.random(shape) < odds
                case "complex":
                    parts = [self._floats(shape, np.dtype(np.float64)) for _ in range(2)]
                    found = parts[0] + 1j * parts[1]
                case "float":
                    found = self._floats(shape, dtype)
                case _:
                    found = self._integers(element, shape)
            return np.asarray(found).astype(dtype)

    def _floats(self, shape: tuple[int, ...], dtype: Any) -> Any:
        rng = self.rng
        match self.style:
            case "ties":
                return rng.choice([0.0, 1.0, -1.0, 0.5, 2.0], shape)
            case "special":
                found = rng.normal(size=shape)
                odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-40, 3e38]
                return np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), found)
            case "wide":
                return rng.normal(size=shape) * 10.0 ** rng.uniform(-4, 4, shape)
            case "numbered":
                count = int(np.prod(shape))
                first, self._number = self._number, self._number + count
                # Narrow floats represent only small integers exactly.
                most = {1: 8, 2: 128}.get(dtype.itemsize, 1 << 20)
                numbers = (first + rng.permutation(count)) % most
                return (numbers + 1.0).reshape(shape)
            case _:
                return rng.normal(size=shape)

    def _integers(self, element: ElementType, shape: tuple[int, ...]) -> Any:
        rng = self.rng
        is_signed = element.kind == "signed"
        bits = element.bits - is_signed
        # Indices are integers: small ranges give indices that collide, wide ones those out of
        # range.
        most, least = (1 << bits) - 1, -(1 << bits) if is_signed else 0
        match self.style:
            case "ties":
                found = rng.integers(0, 2, shape)
            case "special":
                odd = [least, most, 0, 1, 2, 3, most // 2, max(least, -1), min(most, 1000)]
                return rng.choice(np.array(odd, np.object_), shape)
            case "wide":
                return rng.integers(max(least, -9), min(most, 12), shape, endpoint=True)
            case _:
                found = rng.integers(0, 6, shape)
        return np.minimum(found, min(most, 1 << 40))
