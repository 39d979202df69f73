"""Coverage: which ops have indexing rules, tile rules and an evaluation in the interpreter."""

from __future__ import annotations

from hloscope.display import OpCoverage
from hloscope.indexing import coverage as of_rules
from hloscope.interpreter import coverage as of_evaluations
from hloscope.tiling import tile_coverage


def coverage() -> list[OpCoverage]:
    """Return one row for each op, sorted by name.

    >>> next(row for row in coverage() if row.op == "transpose")
    OpCoverage(op='transpose', output_to_input='exact', input_to_output='exact', ...)
    """
    evaluated = {row.op: row.is_evaluated for row in of_evaluations()}
    tiled = {row.op: row for row in tile_coverage()}
    return [
        OpCoverage(
            row.op,
            str(row.output_to_input),
            str(row.input_to_output),
            row.reason,
            tiled[row.op].to_operands,
            tiled[row.op].to_outputs,
            tiled[row.op].reason,
            evaluated[row.op],
            "" if evaluated[row.op] else "it has no evaluation",
        )
        for row in of_rules()
    ]
