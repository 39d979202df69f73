"""Values of constants: stored as written, decoded to arrays on demand."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from hloscope.errors import UnsupportedError
from hloscope.ir.types import TensorType, Type

if TYPE_CHECKING:
    from hloscope.ir.arrays import Value

MOST_WRITTEN: Final = 1 << 20
"""Maximum number of characters of a literal that is read for its integers."""


class Literal:
    """The value of a constant, in the notation of a language, which a front end's subclass reads.

    Literals are equal if they have equal text in one language.  Equal numbers are not enough.

    Attributes:
        written: The literal in a form of its language: a text or an MLIR attribute.
        type: The type written with it; `None` in HLO.
    """

    __slots__ = ("type", "written")

    def __init__(self, written: Any = "", type: Type | None = None) -> None:
        self.written, self.type = written, type

    @property
    def is_elided(self) -> bool:
        """Was the value left out when the program was printed?"""
        return False

    def array(self, type: Type) -> Value:
        """Return the value as an array; for a tuple, a tuple of arrays.

        Args:
            type: Type of the constant.

        Raises:
            ParseError: The literal is not of that type.
            UnsupportedError: The value is not in the program, or too large for an array.
        """
        raise UnsupportedError("the value of this constant is not in the program")

    def integers(self, type: TensorType) -> tuple[int, ...] | None:
        """Return integer elements in row-major order, without numpy; booleans are 0 and 1.

        A splat has one element.  Returns `None` if the elements are not integers, if some are
        missing, or if the literal is longer than `MOST_WRITTEN`.
        """
        if type.element.kind not in ("pred", "signed", "unsigned"):
            return None
        numbers = self._integers(type)
        return numbers if numbers and len(numbers) in (1, prod(type.shape)) else None

    def _integers(self, type: TensorType) -> tuple[int, ...] | None:
        return None

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(self) is type(other) and self.written == other.written and self.type == other.type
        )

    def __hash__(self) -> int:
        return hash(self.written)

    def __str__(self) -> str:
        return str(self.written)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class ComputedLiteral(Literal):
    """A computed value that is not written in any language."""

    __slots__ = ("value",)

    def __init__(self, value: Any, type: Type | None = None) -> None:
        super().__init__(_key(value), type)
        self.value = value

    def array(self, type: Type) -> Value:
        """Return the value."""
        return self.value  # type: ignore[no-any-return]

    def _integers(self, type: TensorType) -> tuple[int, ...] | None:
        return tuple([int(item) for item in self.value.reshape(-1)])

    def __reduce__(self) -> tuple[Any, ...]:
        return ComputedLiteral, (self.value, self.type)

    def __str__(self) -> str:
        return str(getattr(self.value, "tolist", lambda: self.value)())


def _key(value: Any) -> Any:
    """Key that is equal for bitwise equal values."""
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    return str(value.dtype), value.shape, value.tobytes()


__all__ = ["MOST_WRITTEN", "ComputedLiteral", "Literal"]
