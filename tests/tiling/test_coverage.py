"""Every op has a rule for tiles in both directions, or a stated reason why not."""

from __future__ import annotations

from hloscope.ops import OPS
from hloscope.tiling import tile_coverage
from hloscope.tiling.propagation.registry import RULES, TileDirection


def test_every_op_carries_tiles_or_says_why_not() -> None:
    rows = tile_coverage()
    assert [row.op for row in rows] == sorted(OPS)
    silent = [r.op for r in rows if not (r.to_operands and r.to_outputs) and not r.reason]
    assert silent == []
    assert [r.op for r in rows if r.reason == "there is no rule"] == []


def test_reasons_are_of_ops_and_rules_of_this_table() -> None:
    known = set(OPS.values())
    for way in TileDirection:
        for cls, entry in RULES[way].items():
            assert any(issubclass(op, cls) for op in known), cls
            assert (entry.rule is None) == bool(entry.reason), cls
