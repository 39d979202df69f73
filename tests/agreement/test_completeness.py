"""Every op is evaluated, or it is stated why not."""

from __future__ import annotations

from hloscope.interpreter.covered import coverage
from hloscope.interpreter.registry import MAKERS, NOT_EVALUATED, load_families
from hloscope.ops import OPS


def test_every_op_is_evaluated_or_it_is_stated_why_not() -> None:
    rows = coverage()
    assert [row.op for row in rows] == sorted(OPS)
    assert [row.op for row in rows if not row.is_evaluated and not row.reason] == []


def test_no_op_is_both_evaluated_and_not() -> None:
    load_families()
    assert not MAKERS.keys() & NOT_EVALUATED.keys()
