"""Replica groups in their three notations, and the device lists below them."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hloscope.errors import ParseError
from hloscope.hlo_parser.devices import (
    print_replica_groups,
    read_axes,
    read_mesh,
    read_replica_groups,
    read_tiles,
)
from hloscope.ops.groups import AxisRef, DeviceIota, Mesh

CASES = [
    ("", ()),
    ("{}", ()),
    ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
    ("{{0},{1, 2}}", ((0,), (1, 2))),
    ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
    ("[2,4]<=[4,2]T(1,0)", ((0, 2, 4, 6), (1, 3, 5, 7))),
    ("[1,8]<=[8]", (tuple(range(8)),)),
    ("mesh['x'=2,'y'=2] {'y'}", ((0, 1), (2, 3))),
    ("mesh['x'=2,'y'=2] {'x'}", ((0, 2), (1, 3))),
    ("mesh['x'=2,'y'=2] {'x','y'}", ((0, 1, 2, 3),)),
    ("mesh['x'=2,'y'=2] {'y','x'}", ((0, 2, 1, 3),)),
    ("mesh['x'=2,'y'=2], device_ids=(3,2,1,0) {'y'}", ((3, 2), (1, 0))),
    ("mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'y'}", ((0, 2), (1, 3))),
    ("mesh['x'=1,'y'=2,'z'=1] {'y'}", ((0, 1),)),
    ("mesh['x'=1,'y'=2] {'x'}", ((0,), (1,))),
    ("mesh['x'=4] {'x':(1)2}", ((0, 2), (1, 3))),
    ("mesh['x'=4] {'x':(2)2}", ((0, 1), (2, 3))),
    ("mesh['x'=2,'y'=4] {'y':(2)2,'x'}", ((0, 4, 1, 5), (2, 6, 3, 7))),
]


@pytest.mark.parametrize(("text", "groups"), CASES, ids=[text for text, _ in CASES])
def test_each_notation_is_read(text: str, groups: tuple[tuple[int, ...], ...]) -> None:
    assert read_replica_groups(text) == groups


ERRORS = [
    ("[2,4]<=[6]", "expected 8 devices for these sizes, found 6"),
    ("[8]<=[8]", "expected `[groups,size]`"),
    ("[2,4]", "expected `[sizes]<=[sizes]`"),
    ("[2,4]<=[4,2]T(0,0)", "expected a permutation of 2 dimensions"),
    ("[2,4]<=[8] x", "expected the end"),
    ("[65536,65536]<=[4294967296]", "more than"),
    ("{{0,a}}", "expected a list of integers"),
    ("0,1", "expected `{…}`"),
    ("mesh['x'=2] {'z'}", "the mesh has no axis `z`"),
    ("mesh['x'=2] {x}", "expected `'axis'`"),
    ("mesh['x'=2] {'x','x'}", "axis `x` occurs twice"),
    ("mesh['x'=4] {'x':(1)2,'x'}", "axis `x` occurs twice"),
    ("mesh['x'=4] {'x':(3)2}", "axis `x` of size 4 has no such part"),
    ("mesh['x'=2,'x'=2] {'x'}", "axis `x` occurs twice"),
    ("mesh['x'=2], device_ids=(0,1,2) {'x'}", "expected 2 device ids, found 3"),
    ("mesh['x'] {'x'}", "expected `'axis'=size`"),
    ("mesh['x'=2 {'x'}", "`[` is not closed"),
    ("mesh['x'=2,'y'=0] {'x'}", "axis `y` has size 0"),
    ("[2,0]<=[2,0]T(1,0)", "a size is 0"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_wrong_groups_are_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_replica_groups(text)
    assert message in caught.value.message


groups = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=4).map(tuple)).map(tuple)


@given(groups)
def test_printed_groups_are_read_back(found: tuple[tuple[int, ...], ...]) -> None:
    assert read_replica_groups(print_replica_groups(found)) == found


dims = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@given(dims.flatmap(lambda d: st.tuples(st.just(tuple(d)), st.permutations(range(len(d))))))
def test_iota_is_a_transposed_range(case: tuple[tuple[int, ...], list[int]]) -> None:
    source, permutation = case
    iota = DeviceIota(source, tuple(permutation))
    want = np.arange(prod(source)).reshape(source).transpose(permutation).reshape(-1)
    assert iota.values == tuple(want.tolist())
    text = f"[{prod(source)}]<={iota}"
    assert read_tiles(text) == ((prod(source),), iota, len(text))


@settings(max_examples=60)
@given(dims.flatmap(lambda d: st.tuples(st.just(d), st.sets(st.integers(0, len(d) - 1)))))
def test_groups_differ_only_along_the_chosen_axes(case: tuple[list[int], set[int]]) -> None:
    sizes, chosen = case
    mesh = Mesh(tuple((f"a{i}", size) for i, size in enumerate(sizes)))
    along = tuple(AxisRef(f"a{i}") for i in sorted(chosen))
    found = mesh.groups(along)
    others = [i for i in range(len(sizes)) if i not in chosen]
    array = np.arange(prod(sizes)).reshape(sizes).transpose([*others, *sorted(chosen)])
    assert np.array_equal(np.array(found), array.reshape(len(found), -1))
    text = f"{mesh} {{{','.join(map(str, along))}}}"
    again, end = read_mesh(text)
    assert (again, read_axes(text[end:], again)) == (mesh, along)


def test_a_mesh_is_written_with_its_device_ids() -> None:
    for text in ("mesh['x'=2], device_ids=(1,0)", "mesh['x'=4], device_ids=([2,2]T(1,0))"):
        assert str(read_mesh(text)[0]) == text
