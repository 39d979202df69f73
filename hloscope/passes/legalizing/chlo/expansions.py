"""Table rows of expansions: the function for a CHLO op, by element type."""

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
        name: Op name without the dialect.
        real: Function for floats.
        complex: Function for complex numbers, if there is one.
        double: Function for `f64`, if it differs from `real`.
        in_f32: `any`: floats below 32 bits are computed in `f32`.  `half`: 16-bit floats are, and
            narrower ones are refused.  Empty: each float is computed in its own type.
    """

    name: str
    real: Callable[..., Term] | None
    complex: Callable[..., Term] | None = None
    double: Callable[..., Term] | None = None
    in_f32: str = ""

    def rewrite(self, rewriter: Rewriter, op: Operation) -> bool:
        """Replace the op by its expansion; false if the element type has none."""
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
    """Return the patterns of modules with `ROWS` of expansions."""
    return [row.pattern for family in families for row in family.ROWS]
