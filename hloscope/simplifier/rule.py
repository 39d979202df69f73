"""The classes of a law and of one step of a simplification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from hloscope.affine import Expr, Interval, Var, to_text

Code = TypeVar("Code", bound=Callable[..., object])


class Rule(Struct, Generic[Code], frozen=True, eq=False):
    """A law: `left == right` for all integers that satisfy `when`.

    `code` applies it to an expression and returns the result, or `None` if the law does not apply.
    The three texts are Python over integers, `//` and `%` with floor semantics. The tests check
    that they are true. They also build random left sides from them to run `code` on, which finds
    wrong conditions in the code. `needs` is a bit mask of features of the expression: without any
    of them the code does nothing and is not called. If it is 0, the code is always called.
    """

    left: str
    right: str
    when: str
    code: Code
    needs: int = 0

    def __str__(self) -> str:
        return f"{self.left} == {self.right}" + (f"   if {self.when}" if self.when else "")


class Step(Struct, frozen=True):
    """One application of a law.

    Attributes:
        law: The law.
        before: The expression before.
        after: The expression after.
        ranges: The intervals of the variables of `before`, which the law may require.
    """

    law: Rule[Any]
    before: Expr
    after: Expr
    ranges: tuple[tuple[Var, Interval], ...] = ()

    def text(self, names: dict[Var, str] | None = None) -> str:
        """Return the step as one line, `before = after   by law   where ranges`."""
        line = f"{to_text(self.before, names)} = {to_text(self.after, names)}   by {self.law}"
        if self.ranges:
            line += "   where " + ", ".join(
                f"{to_text(v, names)} in {interval}" for v, interval in self.ranges
            )
        return line

    def __str__(self) -> str:
        return self.text()


Trace: TypeAlias = list[Step]
