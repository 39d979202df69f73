"""Indexing maps and the rules that give each operation's maps, in both directions."""

from hloscope.indexing.access import Access, Accesses, Precision
from hloscope.indexing.constraints import ConstraintStep, MapTrace
from hloscope.indexing.exact import (
    prove_composed,
    prove_empty,
    prove_equal,
    prove_inverse,
    prove_within,
    tight_bounds,
)
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.proofs import (
    prove_bijective,
    prove_implies,
    prove_injective,
    prove_single_valued,
)
from hloscope.indexing.sets import IndexSet
from hloscope.indexing.variables import Constraint, RuntimeVariable, Variable, VariableKind

__all__ = [
    "Access",
    "Accesses",
    "Constraint",
    "ConstraintStep",
    "IndexSet",
    "IndexingMap",
    "MapTrace",
    "Precision",
    "RuntimeVariable",
    "Variable",
    "VariableKind",
    "prove_bijective",
    "prove_composed",
    "prove_empty",
    "prove_equal",
    "prove_implies",
    "prove_injective",
    "prove_inverse",
    "prove_single_valued",
    "prove_within",
    "tight_bounds",
]
