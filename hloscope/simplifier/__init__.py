"""Range-aware simplification of integer expressions."""

from hloscope.simplifier.domain import Constraint, Domain, forget_domains, simplify
from hloscope.simplifier.rule import Rule, Step, Trace

__all__ = ["Constraint", "Domain", "Rule", "Step", "Trace", "forget_domains", "simplify"]
