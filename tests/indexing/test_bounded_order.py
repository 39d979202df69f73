"""When a reshape keeps the order of elements, whatever sizes are when the program runs."""

from __future__ import annotations

import pytest

import hloscope
from hloscope.indexing.rules.dynamic import _keeps_order


@pytest.mark.parametrize(
    ("before", "after", "keeps"),
    [
        ("4,2", "8", True),
        ("<=4,3", "<=4,3", True),
        ("<=4,3", "<=12", True),  # the slowest dimension on both sides
        ("1,<=4", "<=4,1", True),
        ("5,<=4,6", "5,<=4,2,3", True),
        ("6,<=4", "2,3,<=4", True),
        ("2,<=4", "<=8", False),
        ("<=4,3", "3,<=4", False),
        ("<=4,2", "4,2", False),
        ("4,2", "<=4,2", False),
        ("<=4,<=3", "<=12", False),
        ("<=12", "<=4,<=3", False),
        ("2,<=4,3", "<=8,3", False),
    ],
)
def test_which_reshapes_keep_the_order_of_elements(before: str, after: str, keeps: bool) -> None:
    text = f"ENTRY e {{ p = f32[{before}] parameter(0) ROOT r = f32[{after}] reshape(p) }}"
    root = hloscope.parse_hlo(text).entry.root
    assert _keeps_order(root.operands[0].type, root.type) is keeps


def test_other_orders_in_memory_keep_it_only_if_sizes_are_known() -> None:
    for sizes, keeps in (("<=4,3", False), ("4,3", True)):
        text = f"p = f32[{sizes}]{{0,1}} parameter(0) ROOT r = f32[{sizes}]{{1,0}} reshape(p)"
        root = hloscope.parse_hlo(f"ENTRY e {{ {text} }}").entry.root
        assert _keeps_order(root.operands[0].type, root.type) is keeps
