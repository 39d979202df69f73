"""Range-aware simplification of integer expressions.

>>> from hloscope.affine import Dim, Interval, parse_expr
>>> box = {Dim(0): Interval(0, 127), Dim(1): Interval(0, 63)}
>>> print(simplify(parse_expr("((d0 * 64 + d1) / 16) mod 4"), box))
d1 / 16
"""

from typing import TYPE_CHECKING, Any, Final

from hloscope.lazy import lazy
from hloscope.simplifier.domain import Constraint, Domain, forget_domains, simplify
from hloscope.simplifier.rule import Rule, Step, Trace

if TYPE_CHECKING:
    from hloscope.simplifier.convert import from_sympy, to_latex, to_sympy
    from hloscope.simplifier.exact import simplify_exact

__all__ = [
    "simplify", "simplify_exact", "Domain", "Constraint", "forget_domains",
    "Rule", "Step", "Trace",
    "to_sympy", "from_sympy", "to_latex",
]  # fmt: skip

_HOMES: Final = {
    "from_sympy": "convert",
    "simplify_exact": "exact",
    "to_latex": "convert",
    "to_sympy": "convert",
}


def __getattr__(name: str) -> Any:
    """Load a public name from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module `hloscope.simplifier` has no attribute `{name}`")
    value = globals()[name] = getattr(lazy(f"hloscope.simplifier.{_HOMES[name]}"), name)
    return value
