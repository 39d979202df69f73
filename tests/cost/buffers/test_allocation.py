"""Temporaries in the allocations of outputs and donated parameters, and what XLA holds by that."""

from __future__ import annotations

from typing import Final

import pytest

from tests.cost.buffers.programs import memory_of, scheduled

SUM: Final = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
scaled { a = f32[8]{0} parameter(0) s = f32[] parameter(1) b = f32[8]{0} broadcast(s), dimensions={}
ROOT m = f32[8]{0} multiply(a, b) }"""
SUMMED: Final = "z = f32[] constant(0)\ns = f32[] reduce(n, z), dimensions={0}, to_apply=add\n"
START: Final = "p = f32[8]{0} parameter(0)\nn = f32[8]{0} reverse(p), dimensions={0}\n"
DONATED: Final = ", input_output_alias={ {}: (0, {}, may-alias) }"
RESULT: Final = "ROOT r = f32[%s]{0} broadcast(s), dimensions={}"


def reused(body: str, header: str = "") -> dict[str, str]:
    """The temporaries that stand in another allocation, with its first value."""
    found = memory_of(scheduled(body, header=header, before=SUM)).device.reused
    return {a.values[0].name: b.values[0].name for a, b in found.items() if a.bytes > 4}


@pytest.mark.parametrize(
    ("body", "header", "found"),
    [
        pytest.param(START + SUMMED + RESULT % 8, "", {"n": "r"}, id="an output not yet written"),
        pytest.param(START + SUMMED + RESULT % 9, "", {"n": "r"}, id="a larger output"),
        pytest.param(START + SUMMED + RESULT % 7, "", {}, id="an output that is too small"),
        pytest.param(
            START + "ROOT r = f32[8]{0} negate(n)", "", {"n": "r"}, id="the result takes its place"
        ),
        pytest.param(
            START + "ROOT r = f32[8]{0} reverse(n), dimensions={0}",
            "",
            {},
            id="the result cannot take its place",
        ),
        pytest.param(
            START + "ROOT r = f32[8]{0} copy(n)", "", {}, id="a copy takes no operand's place"
        ),
        pytest.param(
            START + "m = f32[8]{0} reverse(n), dimensions={0}\n"
            "k = f32[8]{0} reverse(m), dimensions={0}\nROOT r = f32[8]{0} negate(k)",
            "",
            {"n": "r", "k": "r"},
            id="two that do not live together",
        ),
        pytest.param(
            "p = f32[8]{0} parameter(0)\nn = f32[8]{0} exponential(p)\n" + SUMMED + RESULT % 8,
            DONATED,
            {"n": "p"},
            id="a donated parameter that was read",
        ),
        pytest.param(
            "p = f32[8]{0} parameter(0)\nn = f32[8]{0} exponential(p)\n"
            + SUMMED
            + "b = f32[8]{0} broadcast(s), dimensions={}\nROOT r = f32[8]{0} add(p, b)",
            DONATED,
            {},
            id="a donated parameter that is still read",
        ),
        pytest.param(
            START
            + "b = f32[8]{0} bitcast(n)\n"
            + SUMMED.replace("(n,", "(b,")
            + "ROOT r = f32[8]{0} fusion(b, s), kind=kLoop, calls=scaled",
            "",
            {"n": "r"},
            id="read from the last view of it",
        ),
        pytest.param(
            START
            + "b = f32[8]{0} bitcast(n)\n"
            + SUMMED.replace("(n,", "(b,")
            + "ROOT r = f32[8]{0} fusion(n, s), kind=kLoop, calls=scaled",
            "",
            {},
            id="read from a view that is not the last",
        ),
        pytest.param(
            START + SUMMED + "r = f32[8]{0} broadcast(s), dimensions={}\n"
            "ROOT t = (f32[8]{0}, f32[8]{0}) tuple(r, p)",
            "",
            {"n": "r"},
            id="a parameter that is returned and not donated has no place",
        ),
    ],
)
def test_temporaries_stand_where_nothing_else_is_meanwhile(
    body: str, header: str, found: dict[str, str]
) -> None:
    assert reused(body, header) == found


def test_the_operands_allocation_is_taken_before_others() -> None:
    body = (
        "p = f32[8]{0} parameter(0)\na = f32[8]{0} negate(p)\nn = f32[8]{0} cosine(a)\n"
        + SUMMED
        + "r = f32[8]{0} broadcast(s), dimensions={}\nq = f32[8]{0} negate(r)\n"
        "ROOT t = (f32[8]{0}, f32[8]{0}) tuple(r, q)"
    )
    found = reused(body)
    assert found["n"] == found["a"] == "q"


def test_tables_of_tuples_are_held_apart_all_the_time() -> None:
    inner = "f { p = f32[8]{0} parameter(0) ROOT t = (f32[8]{0}, f32[8]{0}) tuple(p, p) }"
    body = (
        "p = f32[8]{0} parameter(0)\nc = (f32[8]{0}, f32[8]{0}) call(p), to_apply=f\n"
        "d = f32[8]{0} get-tuple-element(c), index=0\nROOT n = f32[8]{0} negate(d)"
    )
    memory = memory_of(scheduled(body, before=inner))
    assert memory.estimate == 32 + 32 + 16
    assert sum(row.buffer.bytes for row in memory.held()) == memory.estimate
