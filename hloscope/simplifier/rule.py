"""What a law is, and the record of its use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from hloscope.affine import Expr, Interval, Var, to_text

Code = TypeVar("Code", bound=Callable[..., object])


class Rule(Struct, Generic[Code], frozen=True, eq=False):
    """`left == right` for all integers where `when` holds; `code` does it, or returns None.

    The three texts are Python over integers, `//` and `%` with floor semantics.  The tests check
    that they are true, and build random left sides from them to try `code` on, so that a wrong
    guard in the code is found too.  `needs` are features of what is simplified, of which the code
    does nothing without one; no features, and it is always tried.
    """

    left: str
    right: str
    when: str
    code: Code
    needs: int = 0

    def __str__(self) -> str:
        return f"{self.left} == {self.right}" + (f"   if {self.when}" if self.when else "")


class Step(Struct, frozen=True):
    """One use of a law: what was replaced by what, and the ranges that it was allowed by."""

    law: Rule[Any]
    before: Expr
    after: Expr
    ranges: tuple[tuple[Var, Interval], ...] = ()

    def text(self, names: dict[Var, str] | None = None) -> str:
        """`before = after   by law   where ranges`, for people."""
        line = f"{to_text(self.before, names)} = {to_text(self.after, names)}   by {self.law}"
        if self.ranges:
            line += "   where " + ", ".join(
                f"{to_text(v, names)} in {interval}" for v, interval in self.ranges
            )
        return line

    def __str__(self) -> str:
        return self.text()


Trace: TypeAlias = list[Step]
