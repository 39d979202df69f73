"""Indexing maps and the rules that give each operation's maps, in both directions.

Proofs and sets are loaded when they are first used: they need isl.
"""

from typing import TYPE_CHECKING, Any, Final

from hloscope.indexing.access import Access, Accesses, Precision
from hloscope.indexing.constraints import ConstraintStep, MapTrace
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.variables import Constraint, RuntimeVariable, Variable, VariableKind
from hloscope.lazy import lazy

if TYPE_CHECKING:
    from hloscope.indexing.exact import (
        prove_composed,
        prove_empty,
        prove_equal,
        prove_inverse,
        prove_within,
        tight_bounds,
    )
    from hloscope.indexing.proofs import (
        prove_bijective,
        prove_implies,
        prove_injective,
        prove_single_valued,
    )
    from hloscope.indexing.sets import IndexSet

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

_HOMES: Final = {
    "IndexSet": "sets",
    "prove_bijective": "proofs",
    "prove_composed": "exact",
    "prove_empty": "exact",
    "prove_equal": "exact",
    "prove_implies": "proofs",
    "prove_injective": "proofs",
    "prove_inverse": "exact",
    "prove_single_valued": "proofs",
    "prove_within": "exact",
    "tight_bounds": "exact",
}


def __getattr__(name: str) -> Any:
    """Load a public name from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module `hloscope.indexing` has no attribute `{name}`")
    value = globals()[name] = getattr(lazy(f"hloscope.indexing.{_HOMES[name]}"), name)
    return value
