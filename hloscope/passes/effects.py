"""Which operations may go when nobody reads their results.

Source: `MemoryEffectOpInterface` and `NoMemoryEffect` of StableHLO's and MLIR's definitions.
"""

from __future__ import annotations

from typing import Final

from hloscope.dialects import DEFINITIONS
from hloscope.mlir import BoolAttr, Operation

_LASTING: Final = frozenset(
    [
        *(
            f"stablehlo.{name}"
            for name in (
                "all_gather all_reduce all_to_all async_done async_start collective_broadcast"
                " collective_permute collective_reduce composite cross-replica-sum infeed outfeed"
                " recv reduce_scatter rng send"
            ).split()
        ),
        *(f"func.{name}" for name in ("call", "call_indirect", "func")),
    ]
)
"""Ops that do something besides making their results."""

_QUIET_DIALECTS: Final = frozenset(
    "stablehlo chlo shape tensor arith complex bufferization".split()
)
_QUIET: Final = frozenset(["builtin.unrealized_conversion_cast", "func.constant", "memref.cast"])
_ENDS: Final = frozenset(["scf.yield", "scf.condition"])
"""Terminators of a dialect that has no definitions."""


def is_quiet(operation: Operation) -> bool:
    """Does the op alone, whatever its regions hold, nothing but make its results?"""
    name = operation.name
    if name in _QUIET:
        return True
    if name.partition(".")[0] not in _QUIET_DIALECTS or name not in DEFINITIONS or name in _LASTING:
        return False
    if name == "stablehlo.custom_call":
        return operation.get("has_side_effect") in (None, BoolAttr(False))
    return "terminator" not in DEFINITIONS[name].traits and name not in _ENDS


def may_go(operation: Operation) -> bool:
    """May the op, with its regions, go if nobody reads its results?"""
    if not is_quiet(operation):
        return False
    work = [operation] if operation.regions else []
    for each in work:
        for inner in each.inside:
            if not (is_quiet(inner) or is_terminator(inner)):
                return False
            if inner.regions:
                work.append(inner)
    return True


def is_terminator(operation: Operation) -> bool:
    """Does the op end a block?"""
    definition = DEFINITIONS.get(operation.name)
    ends = definition is not None and "terminator" in definition.traits
    return ends or operation.name in _ENDS
