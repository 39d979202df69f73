"""Values and their types: what fits, what becomes a value, and what is said of the rest."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import parse_type
from hloscope.interpreter import EvaluationError, as_value, byte_size, check_evaluable, fits
from hloscope.interpreter.values import TOKEN
from hloscope.ir import TupleType, Type, UnrankedTensorType

PAIR: Final = np.zeros(2, "float32")

UNLIKE: Final[list[tuple[str, Any, str]]] = [
    ("f32[2]", PAIR, ""),
    ("f32[2]", (PAIR,), "it is not an array"),
    ("f32[2]", TOKEN, "it is not an array"),
    ("s32[2]", PAIR, "its elements are float32, not int32"),
    ("f32[2,1]", PAIR, "its shape is (2,), not (2, 1)"),
    ("f32[3]", PAIR, "its shape is (2,), not (3,)"),
    ("token[]", TOKEN, ""),
    ("token[]", PAIR, "it is not a token"),
    ("()", (), ""),
    ("()", (PAIR,), "it is not a tuple of 0"),
    ("(f32[2])", PAIR, "it is not a tuple of 1"),
    ("(f32[2], token[])", (PAIR, TOKEN), ""),
    ("(f32[2], token[])", (PAIR,), "it is not a tuple of 2"),
    ("(f32[3], (token[]))", (PAIR, (PAIR,)), "part 1: part 0: it is not a token"),
    ("(f32[3], token[])", (PAIR, TOKEN), "part 0: its shape is (2,), not (3,)"),
]


@pytest.mark.parametrize(("text", "value", "why"), UNLIKE, ids=lambda x: str(x)[:30])
def test_what_keeps_a_value_from_a_type_is_said(text: str, value: Any, why: str) -> None:
    found = fits(value, parse_type(text))
    assert found.endswith(why)
    assert bool(found) == bool(why)


@pytest.mark.parametrize("bound", [2, 1])
def test_a_bound_is_kept(bound: int) -> None:
    why = "" if bound == 2 else "its shape is (2,), where a bound is 1"
    assert fits(PAIR, parse_type(f"f32[<={bound}]")) == why


def test_lists_and_numbers_become_values_of_the_type() -> None:
    first, (second, third) = as_value([1, [(2, 3), []]], parse_type("(f32[], (s8[2], ()))"), "it")
    assert (first, first.dtype) == (1, "float32")
    assert (second.tolist(), second.dtype) == ([2, 3], "int8")
    assert third == ()


def test_the_part_that_is_no_value_is_named() -> None:
    type_ = parse_type("(f32[], (s8[2], f32[1]))")
    with pytest.raises(EvaluationError, match=r"^error: it, part 1, part 0: 300 is no s8$"):
        as_value([1, [[300, 1], [1.0]]], type_, "it")
    with pytest.raises(EvaluationError, match=r"it, part 1, part 1 should be f32\[1\]: its shape"):
        as_value([1, [[3, 1], [1.0, 2.0]]], type_, "it")
    with pytest.raises(EvaluationError, match=r"it, part 1 should be .*: it is not a tuple of 2"):
        as_value([1, [[3, 1]]], type_, "it")


@pytest.mark.parametrize(
    ("text", "size"),
    [("f32[2,3]", 24), ("s4[3]", 3), ("f32[<=5]", 20), ("(f32[2], (pred[3], token[]))", 11)],
)
def test_bytes_of_a_value(text: str, size: int) -> None:
    assert byte_size(parse_type(text)) == size


@pytest.mark.slow
def test_tuples_of_any_depth_are_types_of_values() -> None:
    type_, value = parse_type("f32[2]"), [1, 2]
    unranked: Type = UnrankedTensorType(type_.element)
    for _ in range(3000):
        type_, unranked, value = TupleType((type_,)), TupleType((unranked,)), [value]
    check_evaluable(type_)
    assert byte_size(type_) == 8
    made = as_value(value, type_, "it")
    assert fits(made, type_) == ""
    assert fits(made, TupleType((type_,))).endswith("part 0: it is not a tuple of 1")
    with pytest.raises(UnsupportedError, match="without a rank"):
        check_evaluable(unranked)
