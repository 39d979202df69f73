"""Simplification of StableHLO by patterns: laws as rows, other patterns by op family."""

from hloscope.passes.simplifying.elementwise import ROWS as ROWS
from hloscope.passes.simplifying.laws import (
    CONDITIONS as CONDITIONS,
    Law as Law,
    Term as Term,
    parse_term as parse_term,
    patterns_of as patterns_of,
)
from hloscope.passes.simplifying.simplifier import (
    AGGRESSIVE_SIMPLIFICATION as AGGRESSIVE_SIMPLIFICATION,
    SIMPLIFICATIONS as SIMPLIFICATIONS,
    TARGET_INDEPENDENT as TARGET_INDEPENDENT,
    simplification_patterns as simplification_patterns,
)
