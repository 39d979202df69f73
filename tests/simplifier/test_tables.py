"""Reads of tables: those whose element the point determines are coordinates of the question."""

from __future__ import annotations

import pytest

from hloscope.affine import Interval, Range
from hloscope.simplifier.isl_tables import Body, Read, StatementSets

SMALL = Interval(0, 9)


@pytest.mark.parametrize("length", range(1, 5))
def test_a_chain_of_reads_from_the_point_is_given(length: int) -> None:
    """`t[t[… x]]` of the point `x`: each value is known where the one before it is."""
    reads = [Read("t", (Range(k),), Range(k + 1)) for k in range(length)]
    body = Body((SMALL,) * (length + 1), (), (Range(0),), tuple(reversed(reads)))
    question = StatementSets([body])
    assert len(question.fixed_elements) == length
    assert question.open_reads(body) == []


def test_a_read_at_an_index_of_its_own_is_open() -> None:
    read = Read("t", (Range(1),), Range(2))
    body = Body((SMALL,) * 3, (), (Range(0),), (read,))
    question = StatementSets([body])
    assert question.fixed_elements == {}
    assert question.open_reads(body) == [read]
