"""Literals of both languages: one value, kept as written."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import parse_hlo
from hloscope.hlo_parser.literals import HloLiteral
from hloscope.hlo_parser.printer import print_instruction
from hloscope.hlo_parser.types import parse_type
from hloscope.ir.arrays import ComputedLiteral, Literal
from hloscope.ir.graph import Instruction
from hloscope.ir.types import TensorType
from hloscope.ops.shape import Constant
from hloscope.stablehlo import parse_stablehlo

INTEGERS = [
    ("s32[2,2]", "{ {1, 2}, {3, -4} }", "dense<[[1, 2], [3, -4]]> : tensor<2x2xi32>"),
    ("s32[2]", "{7, 7}", "dense<7> : tensor<2xi32>"),
    ("pred[2]", "{true, false}", "dense<[true, false]> : tensor<2xi1>"),
    ("u8[2]", "{1, 255}", 'dense<"0x01FF"> : tensor<2xui8>'),
    ("s64[]", "5", "dense<5> : tensor<i64>"),
]


def _hlo(type: str, text: str) -> Literal:
    root = parse_hlo(f"ENTRY e {{ ROOT c = {type} constant({text}) }}").entry.root
    assert isinstance(root.op, Constant)
    return root.op.literal


def _mlir(attribute: str) -> Literal:
    type = attribute.rpartition(" : ")[2]
    body = f"%c = stablehlo.constant {attribute}\n return %c : {type}"
    module = parse_stablehlo(f"func.func @main() -> {type} {{ {body} }}")
    op = next(iter(module.entry)).op
    assert isinstance(op, Constant)
    return op.literal


def _tensor(type: str) -> TensorType:
    found = parse_type(type)
    assert isinstance(found, TensorType)
    return found


@pytest.mark.parametrize(("type", "hlo", "mlir"), INTEGERS)
def test_both_languages_say_the_same_value(type: str, hlo: str, mlir: str) -> None:
    a, b, wanted = _hlo(type, hlo), _mlir(mlir), _tensor(type)
    arrays = [np.asarray(literal.array(wanted)) for literal in (a, b)]
    assert arrays[0].tobytes() == arrays[1].tobytes()
    flat = tuple(int(n) for n in arrays[0].reshape(-1))
    for literal in (a, b, ComputedLiteral(arrays[0])):
        found = literal.integers(wanted)
        assert found is not None
        assert found * (len(flat) // len(found)) == flat


@pytest.mark.parametrize("literal", [_hlo("s32[]", "1"), _mlir("dense<1> : tensor<i32>")])
def test_literals_pickle_and_compare_as_written(literal: Literal) -> None:
    again = pickle.loads(pickle.dumps(literal))
    assert again == literal
    assert hash(again) == hash(literal)
    assert again != HloLiteral("2")


def test_computed_literals_compare_bit_by_bit() -> None:
    zero, nan = np.array([0.0]), np.array([np.nan])
    assert ComputedLiteral(nan) == pickle.loads(pickle.dumps(ComputedLiteral(nan)))
    assert ComputedLiteral(zero) != ComputedLiteral(-zero)
    assert ComputedLiteral((zero, nan)) == ComputedLiteral((zero.copy(), nan))


def test_a_number_for_a_whole_array_of_hlo_is_only_its_first_element() -> None:
    literal, type = _hlo("s32[3]", "5"), _tensor("s32[3]")
    assert np.asarray(literal.array(type)).tolist() == [5, 0, 0]
    assert literal.integers(type) is None


def test_floats_have_no_integers() -> None:
    assert _hlo("f32[2]", "{1.5}").integers(_tensor("f32[2]")) is None


def test_what_was_left_out_has_no_value() -> None:
    literal, type = _hlo("s32[3]", "{...}"), _tensor("s32[3]")
    assert literal.is_elided
    assert literal.integers(type) is None
    with pytest.raises(UnsupportedError, match="left out"):
        literal.array(type)


def test_literals_of_the_other_language_or_none_are_printed_by_their_values() -> None:
    type = _tensor("s32[2]")
    for literal in (
        _mlir("dense<[1, 2]> : tensor<2xi32>"),
        ComputedLiteral(np.array([1, 2], "i4")),
    ):
        line = print_instruction(Instruction("c", type, Constant(literal)))
        assert line == "%c = s32[2] constant({1, 2})"
    assert str(_mlir("dense<[1, 2]> : tensor<2xi32>")) == "dense<[1, 2]> : tensor<2xi32>"
