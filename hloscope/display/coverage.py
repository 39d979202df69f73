"""Support of each op, as rows and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from hloscope.display.table import Table


class OpCoverage(NamedTuple):
    """Support of one op: its maps, tiles and evaluation.

    Attributes:
        op: Its name.
        output_to_input: How exact the rule for what an output reads is.
        input_to_output: How exact the rule for what an operand reaches is.
        reason: Why the rules are not exact.
        tiles_to_operands: Is there a rule from tiles of an output to tiles of the operands?
        tiles_to_outputs: And from tiles of an operand to tiles of the outputs?
        tile_reason: If not, why.
        is_evaluated: Does the interpreter evaluate it?
        evaluation_reason: If not, why.
    """

    op: str
    output_to_input: str
    input_to_output: str
    reason: str
    tiles_to_operands: bool
    tiles_to_outputs: bool
    tile_reason: str
    is_evaluated: bool
    evaluation_reason: str


_TILES: Final = {
    (True, True): "both ways",
    (True, False): "to operands",
    (False, True): "to outputs",
    (False, False): "none",
}


def coverage_table(rows: Sequence[OpCoverage]) -> Table:
    """A row for each op."""
    cells = [
        [
            row.op,
            row.output_to_input,
            row.input_to_output,
            _TILES[row.tiles_to_operands, row.tiles_to_outputs],
            "evaluated" if row.is_evaluated else "missing",
            "; ".join(filter(None, (row.reason, row.evaluation_reason))),
        ]
        for row in rows
    ]
    return Table(["op", "output → input", "input → output", "tiles", "evaluation", "reason"], cells)


def coverage_summary(rows: Sequence[OpCoverage]) -> Iterator[str]:
    """Numbers of ops by coverage."""
    for direction in ("output_to_input", "input_to_output"):
        counts = Counter(getattr(row, direction) for row in rows)
        said = ", ".join(f"{counts[p]} {p}" for p in ("exact", "over", "unknown") if counts[p])
        yield f"{direction.replace('_', ' ')}: {said}"
    both = sum(row.tiles_to_operands and row.tiles_to_outputs for row in rows)
    yield f"tiles both ways: {both} of {len(rows)}"
    yield f"evaluated: {sum(row.is_evaluated for row in rows)} of {len(rows)}"


def coverage_json(row: OpCoverage) -> dict[str, Any]:
    """One op as JSON."""
    return row._asdict() | {
        "reason": row.reason or None,
        "tile_reason": row.tile_reason or None,
        "evaluation_reason": row.evaluation_reason or None,
    }
