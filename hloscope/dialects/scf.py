"""Rows of the dialect `scf`."""

from typing import Final

ROWS: Final = """
    yield terminator | ~list
    for | unsignedCmp? ~scf.for
    if | ~scf.if
    while | ~scf.while
    condition terminator | ~scf.condition
    execute_region | no_inline?
    forall | staticLowerBound staticUpperBound staticStep mapping? operandSegmentSizes
    forall.in_parallel terminator |
    index_switch | cases
    parallel | operandSegmentSizes
    reduce terminator |
    reduce.return terminator |
"""
"""Source: MLIR's definition of the dialect."""
