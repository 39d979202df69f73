"""Ops are values: immutable, compared by class and fields."""

from __future__ import annotations

import copy
import pickle

import pytest

from hloscope.ops import OPS
from hloscope.ops.collectives import AllGather, AllReduce
from hloscope.ops.control import GetTupleElement, Result
from hloscope.ops.elementwise import ELEMENTWISE
from hloscope.ops.groups import Table
from hloscope.ops.shape import Iota, Reverse
from hloscope.ops.slicing import Slice


def test_equal_fields_of_one_class_make_equal_ops() -> None:
    assert Slice((0,), (4,), (2,)) == Slice(start_indices=(0,), limit_indices=(4,), strides=(2,))
    assert hash(Slice((0,), (4,), (2,))) == hash(Slice((0,), (4,), strides=(2,)))
    assert Slice((0,), (4,), (2,)) != Slice((0,), (4,), (1,))


def test_the_class_is_part_of_the_value() -> None:
    assert GetTupleElement(1) != Result(1)
    assert ELEMENTWISE["add"]() != ELEMENTWISE["subtract"]()
    assert Reverse((0,)) != ("reverse", (0,))
    assert len({AllReduce(), AllGather(), AllReduce()}) == 2


def test_inherited_fields_come_first_and_keep_their_defaults() -> None:
    op = AllGather(Table((1, 2), (0, 1)), all_gather_dim=2)
    assert (op.replica_groups, op.channel_id, op.all_gather_dim) == (((1, 2), (0, 1)), None, 2)
    assert repr(op).startswith("AllGather(replica_groups=Table(shape=(1, 2), values=(0, 1)),")


def test_ops_match_by_position() -> None:
    match Slice((0,), (4,), (2,)):
        case Slice(starts, limits, strides):
            assert (starts, limits, strides) == ((0,), (4,), (2,))


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((), {}, "Missing required argument 'iota_dimension'"),
        ((0, 1), {}, "Extra positional arguments provided"),
        ((0,), {"dimension": 1}, "Unexpected keyword argument 'dimension'"),
        ((0,), {"iota_dimension": 1}, "Argument 'iota_dimension' given by name and position"),
    ],
)
def test_a_wrong_call_is_refused(
    args: tuple[int, ...], named: dict[str, int], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        Iota(*args, **named)


def test_ops_cannot_be_changed() -> None:
    op = Iota(0)
    with pytest.raises(AttributeError, match="immutable"):
        op.iota_dimension = 1  # type: ignore[misc]
    with pytest.raises(AttributeError, match="immutable"):
        del op.iota_dimension
    with pytest.raises(AttributeError, match="immutable"):
        op.other = 1  # type: ignore[attr-defined]


def test_copies_and_pickles_are_equal() -> None:
    op = Slice((0,), (4,), (2,))
    assert copy.deepcopy(op) == op
    assert pickle.loads(pickle.dumps(op)) == op


@pytest.mark.parametrize("name", OPS)
def test_every_class_is_documented_and_named(name: str) -> None:
    assert OPS[name].__doc__
    assert OPS[name].name == name
