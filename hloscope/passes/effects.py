"""Effects of operations: may an operation be erased if its results have no user?

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
"""Ops with an effect in addition to their results."""

_QUIET_DIALECTS: Final = frozenset(
    "stablehlo chlo shape tensor arith complex bufferization".split()
)
_QUIET: Final = frozenset(["builtin.unrealized_conversion_cast", "func.constant", "memref.cast"])
_ENDS: Final = frozenset(["scf.yield", "scf.condition"])
"""Terminators of a dialect that has no definitions."""


def is_quiet(operation: Operation) -> bool:
    """Does the op, without its regions, nothing but compute its results?"""
    name = operation.name
    if name in _QUIET:
        return True
    if name.partition(".")[0] not in _QUIET_DIALECTS or name not in DEFINITIONS or name in _LASTING:
        return False
    if name == "stablehlo.custom_call":
        return operation.get("has_side_effect") in (None, BoolAttr(False))
    return "terminator" not in DEFINITIONS[name].traits and name not in _ENDS


def may_go(operation: Operation) -> bool:
    """May the op be erased, with its regions, if its results have no user?"""
    if not is_quiet(operation):
        return False
    work = [operation] if operation.regions else []
    # `work` grows while it is traversed.
    for each in work:
        for inner in each.inside:
            if not (is_quiet(inner) or is_terminator(inner)):
                return False
            if inner.regions:
                work.append(inner)
    return True


def is_terminator(operation: Operation) -> bool:
    """Is the op a terminator?"""
    definition = DEFINITIONS.get(operation.name)
    ends = definition is not None and "terminator" in definition.traits
    return ends or operation.name in _ENDS
