"""Strides of a movement are those by which its addresses run, and what they refute isl refutes."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace

from hloscope.hlo_parser import parse_type
from hloscope.indexing import IndexingMap, address_map
from hloscope.ir import Dims, TensorType
from hloscope.movement import Kind, judge
from hloscope.movement.strides import in_memory, inverse_by_digits, own_strides, strides_of

SUMS = [
    ("(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]", "f32[4,8]", "f32[8,4]"),
    ("(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]", "f32[4,8]", "f32[8,4]{0,1}"),
    ("(d0, d1) -> (d1), domain: d0 in [0, 5], d1 in [0, 6]", "f32[7]", "f32[6,7]"),
    ("(d0, d1) -> (), domain: d0 in [0, 5], d1 in [0, 6]", "f32[]", "f32[6,7]{0,1}"),
    ("(d0) -> (7 - d0), domain: d0 in [0, 7]", "f32[8]", "f32[8]"),
    ("(d0) -> (d0 * 2 + 3), domain: d0 in [0, 3]", "f32[12]", "f32[4]"),
    ("(d0, d1) -> (d1, 2, d0), domain: d0 in [0, 1], d1 in [0, 2]", "f32[3,4,2]", "f32[2,3]"),
    ("(d0, d1) -> (d0, d1), domain: d0 in [0, 0], d1 in [0, 4]", "f32[1,5]{0,1}", "f32[1,5]"),
    ("(d0) -> (d0 * 3 + d0), domain: d0 in [0, 2]", "s8[9]{0}", "s8[3]"),
    ("(d0) -> (d0 mod 4), domain: d0 in [0, 7]", "f32[4]", "f32[8]"),
    ("(d0) -> (d0 / 2), domain: d0 in [0, 7]", "f32[4]", "f32[8]"),
    ("(d0) -> (d0 / 3, d0 mod 3), domain: d0 in [0, 11]", "f32[4,3]{0,1}", "f32[12]"),
    ("(d0, d1) -> (d1 * 4 + d0), domain: d0 in [0, 3], d1 in [0, 2]", "f32[12]", "f32[4,3]"),
    ("(d0, d1) -> (d0 * 4 + d1), domain: d0 in [0, 2], d1 in [0, 3]", "f32[12]", "f32[3,4]{0,1}"),
    ("(d0) -> (d0), domain: d0 in [0, 7], d0 mod 4 in [0, 3]", "f32[8]", "f32[8]"),
]
SAME = "(d0, d1) -> (d0, d1), domain: d0 in [0, 7], d1 in [0, 3]"
TILED = [
    (SAME, "f32[8,4]{1,0:T(2,4)}", "f32[8,4]"),
    (SAME, "f32[8,4]{1,0:T(2,2)}", "f32[8,4]"),
    ("(d0) -> (d0 / 4, d0 mod 4), domain: d0 in [0, 31]",
     "f32[8,4]{1,0:T(4,2)}", "f32[32]{0:T(8)}"),
    ("(d0, d1) -> (d1, d0), domain: d0 in [0, 3], d1 in [0, 7]", "f32[8,4]{1,0:T(2,2)}",
     "f32[4,8]{0,1:T(2,2)}"),
    ("(d0, d1) -> (d0, d1), domain: d0 in [0, 3], d1 in [0, 3]",
     "f32[4,4]{1,0:T(4,8)}", "f32[4,4]"),
    ("(d0) -> (d0), domain: d0 in [0, 7]", "f32[8]{0:T(16)}", "f32[8]"),
    ("(d0) -> (d0), domain: d0 in [0, 7]", "f32[8]", "f32[8]{0:T(16)}"),
    ("(d0) -> (d0), domain: d0 in [0, 9]", "f32[10]{0:T(4)}", "f32[10]"),
    ("(d0) -> (9 - d0), domain: d0 in [0, 9]", "f32[10]", "f32[10]{0:T(4)}"),
]  # fmt: skip
"""Arrays in tiles: of these too it is told by the addresses of all elements whether they move."""


def types(source: str, output: str) -> tuple[TensorType, TensorType]:
    found = parse_type(source), parse_type(output)
    assert isinstance(found[0], TensorType)
    assert isinstance(found[1], TensorType)
    return found


@pytest.mark.parametrize(("text", "source", "output"), SUMS)
def test_strides_give_the_address_of_every_element(text: str, source: str, output: str) -> None:
    m, (there, here) = IndexingMap.parse(text), types(source, output)
    found, at = strides_of(m, there, here), own_strides(here)
    assert found is not None
    assert at is not None
    form, placed, own = found.form(here), address_map(there), address_map(here)
    for index in product(*map(range, here.shape)):
        address = found.address(index)
        assert (address,) == placed.evaluate(m.evaluate(index))
        assert (at.address(index),) == own.evaluate(index)
        assert form(own.evaluate(index)[0]) == address


@pytest.mark.parametrize(("text", "source", "output"), SUMS)
def test_inverses_by_digits_go_back(text: str, source: str, output: str) -> None:
    m, (there, here) = IndexingMap.parse(text), types(source, output)
    back = inverse_by_digits(m, there, here)
    indices = list(product(*map(range, here.shape)))
    reached = [m.evaluate(index) for index in indices]
    if "7 - d0" in text:
        assert back is None  # a digit that runs downwards
    elif len(set(reached)) < max(len(indices), there.num_elements):
        assert back is None  # what is repeated or left out has no inverse
    else:
        assert back is not None
        assert [back.evaluate(index) for index in reached] == indices


@pytest.mark.parametrize(
    ("text", "source", "output", "layouts"),
    [
        ("(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]", "4,8", "8,4", ((0, 1), None)),
        ("(d0) -> (d0 mod 4, d0 / 4), domain: d0 in [0, 31]", "4,8", "32", (None, (0, 1))),
        ("(d0, d1) -> (d0 mod 2, d1, d0 / 2), domain: d0 in [0, 7], d1 in [0, 2]", "2,3,4", "8,3",
         (None, (1, 0, 2))),
        ("(d0) -> (d0 mod 2 * 4 + d0 / 2), domain: d0 in [0, 7]", "8", "8", (None, None)),
    ],
)  # fmt: skip
def test_layouts_that_make_it_a_bitcast(
    text: str, source: str, output: str, layouts: tuple[Dims | None, Dims | None]
) -> None:
    m, (there, here) = IndexingMap.parse(text), types(f"f32[{source}]", f"f32[{output}]")
    judged = judge(m, there, here)
    assert judged.kind is Kind.TRANSPOSE
    found = judged.output_layout, judged.source_layout
    assert tuple([layout and layout.minor_to_major for layout in found]) == layouts
    if layouts != (None, None):
        free = judge(
            m, replace(there, layout=found[1] or there.layout),
            replace(here, layout=found[0] or here.layout),
        )  # fmt: skip
        assert free.kind is Kind.BITCAST


def test_sixty_dimensions_of_2_to_the_60_are_judged_by_their_digits() -> None:
    """isl would add sums of sixty quotients for minutes."""
    order = [(7 * k) % 60 for k in range(60)]
    digits = [f"(d0 / {2 ** (59 - k)}) mod 2" for k in order]
    m = IndexingMap.parse(f"(d0) -> ({', '.join(digits)}), domain: d0 in [0, {2**60 - 1}]")
    there, here = types(f"s8[{','.join(['2'] * 60)}]", f"s8[{2**60}]")
    judged = judge(m, there, here)
    assert judged.kind is Kind.TRANSPOSE
    example = judged.proof.counter_example
    assert example is not None
    assert address_map(there).evaluate(m.evaluate(example.dims)) == example.results
    assert example.dims != example.results


@pytest.mark.parametrize(("text", "source", "output"), [*SUMS, *TILED])
def test_what_is_not_free_has_an_element_elsewhere(text: str, source: str, output: str) -> None:
    m, (there, here) = IndexingMap.parse(text), types(source, output)
    judged, placed, own = judge(m, there, here), address_map(there), address_map(here)
    example = judged.proof.counter_example
    is_same = all(
        own.evaluate(index) == placed.evaluate(m.evaluate(index))
        for index in product(*map(range, here.shape))
    )
    assert judged.kind.is_free == (is_same and in_memory(here) == in_memory(there))
    assert judged.proof.is_proved == judged.kind.is_free
    if not is_same:
        assert example is not None
        assert own.evaluate(example.dims) != placed.evaluate(m.evaluate(example.dims))


@pytest.mark.parametrize(
    ("text", "source", "output"),
    [
        ("(d0) -> (d0 mod 3), domain: d0 in [0, 7]", "f32[4]", "f32[8]"),
        ("(d0) -> ((d0 + 1) / 4), domain: d0 in [0, 7]", "f32[3]", "f32[8]"),
        ("(d0) -> (min(d0, 4)), domain: d0 in [0, 7]", "f32[5]", "f32[8]"),
        ("(d0) -> (d0), domain: d0 in [0, 5]", "f32[6]", "f32[8]"),
        ("(d0) -> (d0), domain: d0 in [0, 7], d0 mod 2 in [0, 0]", "f32[8]", "f32[8]"),
    ],
)
def test_other_movement_has_no_strides(text: str, source: str, output: str) -> None:
    m = IndexingMap.parse(text)
    assert strides_of(m, *types(source, output)) is None
    assert not judge(m, *types(source, output)).kind.is_free
