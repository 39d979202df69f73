"""Range-aware simplification of integer expressions."""

from hloscope.simplifier.engine import Constraint, Domain, simplify

__all__ = ["Constraint", "Domain", "simplify"]
