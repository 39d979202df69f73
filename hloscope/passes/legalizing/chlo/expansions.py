"""Rows of expansions: which function stands for an op, by the element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from hloscope.ir import ELEMENT_TYPES, TensorType
from hloscope.mlir import Operation
from hloscope.passes.legalizing.chlo.terms import Site, Term
from hloscope.passes.patterns import Pattern
from hloscope.passes.rewriting import Rewriter

ANY: Final = "any"
HALF: Final = "half"

_F32: Final = ELEMENT_TYPES["f32"]


class Expansion(NamedTuple):
    """One op of CHLO.

    Attributes:
        name: Without the dialect.
        real: For real numbers.
        complex: For complex ones, if there is one.
        double: For `f64`, where it is another one than `real`.
        in_f32: Narrower numbers are computed in `f32`: `any`, or those of a `half` (16 bits), all
            others being refused; or, if it is empty, computed as they are.
    """

    name: str
    real: Callable[..., Term] | None
    complex: Callable[..., Term] | None = None
    double: Callable[..., Term] | None = None
    in_f32: str = ""

    def rewrite(self, rewriter: Rewriter, op: Operation) -> bool:
        """Put the expansion into the place of the op."""
        types = [value.type for value in op.operands]
        first = types[0]
        if not isinstance(first, TensorType) or any(type != first for type in types):
            return False
        site = Site(rewriter, op)
        terms = [Term(value, site) for value in op.operands]
        element = first.element
        found: Callable[..., Term] | None = self.complex if element.kind == "complex" else self.real
        narrow = element.kind == "float" and element.bits < 32
        if element.name == "f64" and self.double is not None:
            found = self.double
        if found is None or element.kind not in ("float", "complex"):
            return False
        if narrow and self.in_f32 == HALF and element.name not in ("f16", "bf16"):
            return False
        if narrow and self.in_f32:
            made = found(*[term.convert(_F32) for term in terms]).convert(element)
        else:
            made = found(*terms)
        rewriter.replace(op, [made.value])
        return True

    @property
    def pattern(self) -> Pattern:
        """The row as a pattern."""
        return Pattern(self.name, (f"chlo.{self.name}",), self.rewrite)


def rows(*families: Any) -> list[Pattern]:
    """The patterns of families of expansions."""
    return [row.pattern for family in families for row in family.ROWS]
