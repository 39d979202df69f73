"""Range-aware simplification of integer expressions.

>>> from hloscope.affine import Dim, Interval, parse_expr
>>> box = {Dim(0): Interval(0, 127), Dim(1): Interval(0, 63)}
>>> print(simplify(parse_expr("((d0 * 64 + d1) / 16) mod 4"), box))
d1 / 16
"""

from hloscope.simplifier.convert import from_sympy, to_latex, to_sympy
from hloscope.simplifier.domain import Constraint, Domain, forget_domains, simplify
from hloscope.simplifier.exact import simplify_exact
from hloscope.simplifier.rule import Rule, Step, Trace

__all__ = [
    "simplify", "simplify_exact", "Domain", "Constraint", "forget_domains",
    "Rule", "Step", "Trace",
    "to_sympy", "from_sympy", "to_latex",
]  # fmt: skip
