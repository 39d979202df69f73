"""Users, order, neighbourhoods and networkx graphs of small computations."""

from __future__ import annotations

import networkx as nx
import pytest

from hloscope.errors import UnknownNameError
from hloscope.hlo_parser import parse_hlo
from hloscope.ir import captured, captures
from hloscope.ir.graph import (
    Body,
    Computation,
    Instruction,
    neighbourhood,
    to_networkx,
    users,
)
from hloscope.ir.op import Op
from hloscope.ir.types import TokenType

DIAMOND = """HloModule m
ENTRY e {
  a = f32[2] parameter(0)
  b = f32[2] abs(a)
  c = f32[2] negate(a), control-predecessors={b}
  d = f32[2] add(b, c)
  ROOT r = f32[2] multiply(d, d)
}"""


def names(instructions: tuple[Instruction, ...]) -> list[str]:
    return [ins.name for ins in instructions]


def test_users_are_listed_once_and_in_text_order() -> None:
    found = users(parse_hlo(DIAMOND).entry)
    assert {ins.name: names(by) for ins, by in found.items()} == {
        "a": ["b", "c"],
        "b": ["d"],
        "c": ["d"],
        "d": ["r"],
        "r": [],
    }


@pytest.mark.parametrize(
    ("name", "distance", "expected"),
    [("a", 0, "a"), ("a", 1, "abc"), ("a", 2, "abcd"), ("d", 1, "bcdr"), ("r", 9, "abcdr")],
)
def test_neighbourhood_goes_both_ways(name: str, distance: int, expected: str) -> None:
    entry = parse_hlo(DIAMOND).entry
    assert names(neighbourhood(entry[name], distance, entry)) == list(expected)


def test_neighbourhood_of_a_stranger_is_refused() -> None:
    entry, other = parse_hlo(DIAMOND).entry, parse_hlo(DIAMOND).entry
    with pytest.raises(UnknownNameError, match="`a` is not in computation `e`"):
        neighbourhood(other["a"], 1, entry)


def test_networkx_graph_has_an_edge_per_operand() -> None:
    entry = parse_hlo(DIAMOND).entry
    graph = to_networkx(entry)
    assert sorted(graph.edges(data=True), key=str) == [
        ("a", "b", {"operand": 0}),
        ("a", "c", {"operand": 0}),
        ("b", "c", {"control": True}),
        ("b", "d", {"operand": 0}),
        ("c", "d", {"operand": 1}),
        ("d", "r", {"operand": 0}),
        ("d", "r", {"operand": 1}),
    ]
    assert graph.nodes["d"] == {"op": "add", "type": entry["d"].type, "instruction": entry["d"]}
    assert list(nx.topological_sort(graph)) == names(entry.instructions)


def test_networkx_graph_of_a_part() -> None:
    entry = parse_hlo(DIAMOND).entry
    graph = to_networkx(neighbourhood(entry["r"], 1, entry))
    assert sorted(graph.nodes) == ["d", "r"]
    assert graph.number_of_edges() == 2


@pytest.mark.slow
def test_captures_of_deep_chains_and_of_recursion_take_one_look_each() -> None:
    outside = Instruction("outside", TokenType(), Op())
    inner = Instruction("inner", TokenType(), Op(), (outside,))
    callee = Computation("c", Body((inner,), (), inner))
    for i in range(20_000):
        own = Instruction("own", TokenType(), Op())
        call = Instruction("call", TokenType(), Op(), (own,), (callee,))
        callee = Computation(f"c{i}", Body((own, call), (), call))
    assert captures(callee) == (outside,)
    again = Computation("again", lambda: body)
    call = Instruction("call", TokenType(), Op(), (outside,), (again,))
    body = Body((call,), (), call)
    assert captures(again) == (outside,)


def test_captures_come_in_the_order_of_the_text_each_once() -> None:
    a, b, c = (Instruction(name, TokenType(), Op()) for name in "abc")
    reads_b = Instruction("x", TokenType(), Op(), (b, a))
    region = Computation("r", Body((reads_b,), (), reads_b))
    first = Instruction("first", TokenType(), Op(), (c,), (region,))
    last = Instruction("last", TokenType(), Op(), (a, first))
    assert captures(Computation("e", Body((first, last), (), last))) == (c, b, a)
    assert captured(first) == (b, a)
