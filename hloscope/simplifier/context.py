"""What the laws may ask for: ranges, and the flat forms of smaller expressions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from hloscope.affine import Expr
from hloscope.simplifier.ranges import Ranges


class Context(Ranges, ABC):
    """The side of the engine that laws see."""

    reduce_all: bool
    """Reduce all coefficients inside quotients, not only quotients'?"""

    @abstractmethod
    def flat(self, e: Expr) -> Expr:
        """The flat form, which is equal to `e` on the domain."""

    @abstractmethod
    def floor(self, num: Expr, den: int, wanted: int = -1) -> Expr:
        """The flat form of `num // den` for a flat `num` and a positive `den`.

        Laws of features that are not wanted are known to do nothing.
        """

    @abstractmethod
    def remainder(self, num: Expr, den: int) -> Expr:
        """The flat form of `num % den`."""

    @abstractmethod
    def settle(self, e: Expr) -> Expr:
        """Apply the laws between the terms of a sum."""

    @abstractmethod
    def remainder_target(self, f: Expr, coeffs: Mapping[Expr, int]) -> int:
        """The coefficient with which `f` forms a remainder with terms of `coeffs`, or 0."""
