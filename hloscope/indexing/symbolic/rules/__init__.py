"""Accesses from output to operands for unknown sizes, by op family.

Each rule is the op's definition with symbols for sizes. The inverse map gives the other direction.
"""

from __future__ import annotations

from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.build import unknown
from hloscope.indexing.symbolic.rules import (
    contraction as contraction,
    convolution as convolution,
    dynamic as dynamic,
    elementwise as elementwise,
    gather_scatter as gather_scatter,
    reduction as reduction,
    shape as shape,
    slicing as slicing,
    windows as windows,
)
from hloscope.indexing.symbolic.rules.asking import NO_RULE as NO_RULE, RULES, Asked as Asked


def symbolic_reads(asked: Asked) -> tuple[Accesses, ...]:
    """Return the accesses of each operand that an element of the output reads."""
    op = asked.ins.op
    rule = RULES.find(op)
    try:
        if rule is None:
            raise UnsupportedError(NO_RULE)
        found = tuple(rule(asked, op))
    except UnsupportedError as error:
        return (unknown(error.message),) * len(asked.operands)
    except (LookupError, ValueError, TypeError, ZeroDivisionError):
        return (unknown("operands and result do not fit together"),) * len(asked.operands)
    return found
