"""Interface of the engine that laws see: ranges, and flat forms of smaller expressions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from hloscope.affine import Expr
from hloscope.simplifier.ranges import Ranges


class Context(Ranges, ABC):
    """The part of the engine that laws may use."""

    reduce_all: bool
    """Reduce all coefficients inside quotients by the divisor, not only those of quotients?"""

    @abstractmethod
    def flat(self, e: Expr) -> Expr:
        """Return the flat form, which is equal to `e` on the domain."""

    @abstractmethod
    def floor(self, num: Expr, den: int, wanted: int = -1) -> Expr:
        """Return the flat form of `num // den` for a flat `num` and a positive `den`.

        Laws that need only features outside of the mask `wanted` are not tried: the caller knows
        that they do nothing.
        """

    @abstractmethod
    def remainder(self, num: Expr, den: int) -> Expr:
        """Return the flat form of `num % den` for a flat `num` and a positive `den`."""

    @abstractmethod
    def settle(self, e: Expr) -> Expr:
        """Apply the laws between the terms of a sum until none of them changes it."""

    @abstractmethod
    def remainder_target(self, f: Expr, coeffs: Mapping[Expr, int]) -> int:
        """Return the coefficient with which `f` forms a remainder with terms of `coeffs`, or 0."""
