"""`index` of a tuple root, as every training step ends in one: what is not read takes no room."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from hloscope import indexing, read


def tuple_root(count: int, *, nested: bool = False) -> str:
    """A program that negates each of its parameters and returns all of them."""
    lines = [f"  p{i} = f32[{i % 7 + 1}] parameter({i})" for i in range(count)]
    lines += [f"  n{i} = f32[{i % 7 + 1}] negate(p{i})" for i in range(count)]
    names = [f"n{i}" for i in range(count)]
    if nested:
        half = count // 2
        lines.append(f"  a = tuple({', '.join(names[:half])})")
        lines.append(f"  b = tuple({', '.join(names[half:])})")
        names = ["a", "b"]
    lines.append(f"  ROOT t = tuple({', '.join(names)})")
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}\n"


@pytest.mark.parametrize("options", [(), ("--to-parameters",)])
def test_json_of_a_tuple_grows_with_what_is_read(ask: Any, options: tuple[str, ...]) -> None:
    sizes = []
    for count in (60, 240):
        answer = ask("index", "-", "t", *options, "--json", stdin=tuple_root(count))
        read_of = [
            (output["output"], operand["operand"], output["unread"])
            for output in answer["outputs"]
            for operand in [answer["operands"][k] for k in output["operands"]]
        ]
        assert read_of == [(k, k, count - 1) for k in range(count)]
        assert len(answer["maps"]) == 7
        sizes.append(len(json.dumps(answer)))
    assert sizes[1] < 5 * sizes[0]


def test_a_tuple_of_tuples_counts_its_tensors(ask: Any) -> None:
    answer = ask("index", "-", "t", "--json", stdin=tuple_root(10, nested=True))
    leaves = [
        (operand["operand"], answer["maps"][number].get("leaf", 0))
        for output in answer["outputs"]
        for operand in [answer["operands"][k] for k in output["operands"]]
        for number in operand["maps"]
    ]
    assert leaves == [(k // 5, k % 5) for k in range(10)]
    assert {output["unread"] for output in answer["outputs"]} == {1}


def test_text_of_a_tuple_counts_what_is_not_read(run: Any) -> None:
    few = run("index", "-", "t", stdin=tuple_root(12)).stdout
    assert few.count("  not read: operand ") == 12
    many = run("index", "-", "t", stdin=tuple_root(99)).stdout
    assert many.count("  not read: 98 operands\n") + many.endswith("98 operands") == 99


def test_outputs_that_are_not_reached_are_counted(run: Any, ask: Any) -> None:
    text = tuple_root(50)
    answer = ask("index", "-", "--from-operand", "3", "--json", stdin=text)
    assert [output["output"] for output in answer["outputs"]] == [3]
    assert answer["unreached"] == 49
    shown = run("index", "-", "--from-operand", "3", stdin=text).stdout
    assert re.search(r"^  output 3  f32\[4\]$", shown, re.MULTILINE)
    assert "  not reached: output 0, output 1, output 2, output 4, " in shown
    assert len(shown.splitlines()) < 12


def test_an_empty_tuple_reads_nothing(run: Any, ask: Any) -> None:
    text = "ENTRY e { p = f32[2] parameter(0) ROOT t = () tuple() }"
    assert ask("index", "-", "--json", stdin=text)["outputs"] == []
    assert run("index", "-", stdin=text).exit_code == 0


def test_python_still_has_every_operand(run: Any) -> None:
    width = 20
    answer = read(tuple_root(width)).root.indexing(None)
    for k, output in enumerate(answer.answer.outputs):
        assert [o.number for o in output.operands] == list(range(width))
        assert [o.number for o in output.operands if o.accesses] == [k]
        assert [o.number for o in output.operands[5:7]] == [5, 6]
        assert output.operands[-1].name == f"n{width - 1}"
    assert len(answer) == width


def test_proofs_of_nothing_are_counted(ask: Any) -> None:
    answer = ask("index", "-", "t", "--verify", "--seconds", "60", "--json", stdin=tuple_root(6))
    for output in answer["outputs"]:
        (known,) = output["proofs_of_nothing"]
        assert known["count"] == output["unread"] == 5
        assert known["proof"]["verdict"] == "proved"


def test_whether_sizes_are_known_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    find_out = indexing.has_unknown_sizes
    monkeypatch.setattr(
        indexing, "has_unknown_sizes", lambda ins: looked_at.append(ins) or find_out(ins)
    )
    root = read(tuple_root(50)).root
    assert len(root.to_parameters(None).answer.outputs) == 50
    assert len(looked_at) <= 101
