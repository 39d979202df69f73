"""Strides of a movement are those by which its addresses run, and what they refute isl refutes."""

from __future__ import annotations

from itertools import product

import pytest

from hloscope.hlo_parser import parse_type
from hloscope.indexing import IndexingMap, address_map
from hloscope.ir import TensorType
from hloscope.movement import judge
from hloscope.movement.strides import strides_of

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
]


def types(source: str, output: str) -> tuple[TensorType, TensorType]:
    found = parse_type(source), parse_type(output)
    assert isinstance(found[0], TensorType)
    assert isinstance(found[1], TensorType)
    return found


@pytest.mark.parametrize(("text", "source", "output"), SUMS)
def test_strides_give_the_address_of_every_element(text: str, source: str, output: str) -> None:
    m, (there, here) = IndexingMap.parse(text), types(source, output)
    found = strides_of(m, there, here)
    assert found is not None
    form, placed, own = found.form(here), address_map(there), address_map(here)
    for index in product(*map(range, here.shape)):
        address = found.offset + sum(i * by for i, by in zip(index, found.steps, strict=True))
        assert (address,) == placed.evaluate(m.evaluate(index))
        assert form(own.evaluate(index)[0]) == address


@pytest.mark.parametrize(("text", "source", "output"), SUMS)
def test_what_is_not_free_has_an_element_elsewhere(text: str, source: str, output: str) -> None:
    m, (there, here) = IndexingMap.parse(text), types(source, output)
    judged, placed, own = judge(m, there, here), address_map(there), address_map(here)
    example = judged.proof.counter_example
    is_same = all(
        own.evaluate(index) == placed.evaluate(m.evaluate(index))
        for index in product(*map(range, here.shape))
    )
    assert judged.kind.is_free == (is_same and here.num_elements == there.num_elements)
    assert judged.proof.is_proved == judged.kind.is_free
    if not is_same:
        assert example is not None
        assert own.evaluate(example.dims) != placed.evaluate(m.evaluate(example.dims))


@pytest.mark.parametrize(
    ("text", "source", "output"),
    [
        ("(d0) -> (d0 mod 4), domain: d0 in [0, 7]", "f32[4]", "f32[8]"),
        ("(d0) -> (d0 / 2), domain: d0 in [0, 7]", "f32[4]", "f32[8]"),
        ("(d0) -> (d0), domain: d0 in [0, 5]", "f32[6]", "f32[8]"),
        ("(d0) -> (d0), domain: d0 in [0, 7], d0 mod 2 in [0, 0]", "f32[8]", "f32[8]"),
        ("(d0) -> (d0), domain: d0 in [0, 7]", "f32[8]{0:T(16)}", "f32[8]"),
    ],
)
def test_other_movement_has_no_strides(text: str, source: str, output: str) -> None:
    m = IndexingMap.parse(text)
    assert strides_of(m, *types(source, output)) is None
    assert not judge(m, *types(source, output)).kind.is_free
