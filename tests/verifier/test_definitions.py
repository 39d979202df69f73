"""The definitions of ops: complete, understood, in step with the table of op classes."""

from __future__ import annotations

import pytest

from hloscope.mlir import NONE
from hloscope.mlir.definitions import ATTRIBUTE_SUMMARIES, type_summary
from hloscope.mlir.dialects.registry import DEFINITIONS, DIALECTS
from hloscope.mlir.dialects.rows import compile_row
from hloscope.mlir.ir import UnitAttr
from hloscope.mlir.text.parser import parse_attribute, parse_type
from hloscope.verifier.stablehlo.invariants import attribute_fits, type_fits
from hloscope.verifier.stablehlo.traits import TRAITS

PER_AXIS = "!quant.uniform<i8:f32:0, {1.0, 2.0}>"
FACTS = {
    "infer", "commutative", "single_block", "no_terminator", "segments", "same_operand_sizes",
    "isolated", "symbol", "symbol_table",
}  # fmt: skip
"""Traits that are no checks of their own."""


def test_every_op_of_stablehlo_and_chlo_is_there() -> None:
    dialects = [name.partition(".")[0] for name in DEFINITIONS]
    numbers = {name: dialects.count(name) for name in ("stablehlo", "chlo")}
    assert numbers == {"stablehlo": 118, "chlo": 51}, "change the number for an op that is new"


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_row_uses_what_the_verifier_knows(name: str) -> None:
    definition = DEFINITIONS[name]
    assert definition.name == name
    for slot in definition.operands + definition.results:
        assert type_summary(slot.constraint)
        type_fits(slot.constraint, NONE)
    for attribute in definition.attributes:
        assert attribute.constraint in ATTRIBUTE_SUMMARIES
        attribute_fits(attribute.constraint, UnitAttr())
    assert set(definition.traits) <= FACTS | set(TRAITS)
    names = {slot.name for slot in definition.operands + definition.results}
    for what, shared, _ in definition.agreements:
        assert set(shared) <= (names if what != "size" else definition.inherent)


def test_a_row_says_everything_of_an_op() -> None:
    row = (
        "x since=1.4.0 | a:F b*:token | i>j:i64>=0=3 d?:dims=[1] | r:0d.I s?:any.B |"
        " ^one ^more*+ infer ranks=a,r ~ %a<attrs>"
    )
    found = compile_row(row, "d")
    assert found.name == "d.x"
    assert [slot.summary for slot in found.operands] == [
        "ranked tensor of 4/6/8/16/32/64-bit float values",
        "variadic of token",
    ]
    assert [(a.name, a.field, a.constraint, a.optional) for a in found.attributes] == [
        ("i", "j", "i64>=0", True),
        ("d", "d", "dims", True),
    ]
    assert [(a.default, a.given) for a in found.attributes] == [("3", True), ("[1]", False)]
    assert (found.since, found.form) == ("1.4.0", " %a<attrs>")
    assert [slot.count for slot in found.results] == ["", "?"]
    assert [(r.name, r.variadic, r.sized) for r in found.regions] == [
        ("one", False, True),
        ("more", True, False),
    ]
    assert found.traits == ("infer",)
    assert found.agreements == (("rank", ("a", "r"), ""),)


def test_labels_are_those_of_the_specification() -> None:
    slice_ = DEFINITIONS["stablehlo.slice"]
    assert [slot.label for slot in slice_.operands] == ["slice_i1"]
    labels = {a.name: a.label for a in slice_.attributes}
    assert labels == {
        "start_indices": "slice_i2",
        "limit_indices": "slice_i3",
        "strides": "slice_i4",
    }
    assert slice_.agreements[0][2] == "slice_c2"
    assert DEFINITIONS["stablehlo.add"].labels["same_shape"] == "add_c1"
    assert DEFINITIONS["stablehlo.sort"].labels["same_shape"] == "sort_c3"
    assert DEFINITIONS["stablehlo.rng_bit_generator"].operands[0].label == "rng_bit_generator_i2"
    assert DEFINITIONS["stablehlo.gather"].attributes[0].label == ""
    assert DEFINITIONS["stablehlo.dot"].operands[0].label == ""
    assert not DEFINITIONS["chlo.erf"].labels


@pytest.mark.parametrize(
    ("constraint", "fits", "does_not"),
    [
        ("F", "tensor<?x2xf8E4M3FN>", "tensor<*xf32>"),
        ("any.F", "tensor<*xf32>", "tensor<2xi32>"),
        ("I", "tensor<ui4>", "tensor<i1>"),
        ("S", "tensor<i64>", "tensor<ui64>"),
        ("B", "tensor<i1>", "tensor<i8>"),
        ("0d.I", "tensor<i32>", "tensor<1xi32>"),
        ("shape.XI", "tensor<3xindex>", "tensor<?xindex>"),
        ("pairs.I", "tensor<3x2xi64>", "tensor<6xi64>"),
        ("static.C", "tensor<2xcomplex<f64>>", "tensor<?xcomplex<f32>>"),
        ("bounded.F", "tensor<2x?xf32, #stablehlo.bounds<?, 4>>", "tensor<2x?xf32>"),
        ("bounded.F", "tensor<2xf32>", "tensor<?x?xf32, #stablehlo.bounds<4, 4>>"),
        ("Q", "tensor<2x!quant.uniform<i8:f32, 1.0>>", f"tensor<2x{PER_AXIS}>"),
        ("A", f"tensor<2x{PER_AXIS}>", f"tensor<3x{PER_AXIS}>"),
        ("F/token", "!stablehlo.token", "tuple<>"),
        ("tuple", "tuple<tuple<tensor<f32>>, !stablehlo.token>", "tuple<i32>"),
        ("future", "!stablehlo.future<tensor<f32>>", "tensor<f32>"),
        ("memref.F", "memref<2xf32>", "memref<2xindex>"),
    ],
)  # fmt: skip
def test_constraints_on_types(constraint: str, fits: str, does_not: str) -> None:
    assert type_fits(constraint, parse_type(fits, dialects=DIALECTS))
    assert not type_fits(constraint, parse_type(does_not, dialects=DIALECTS))


@pytest.mark.parametrize(
    ("constraint", "fits", "does_not"),
    [
        ("i64>=0", "0", "-1"),
        ("i64>0", "1", "0"),
        ("i32", "1 : i32", "1"),
        ("f32", "1.0 : f32", "1.0"),
        ("dims", "array<i64>", "array<i32>"),
        ("bools", "array<i1: true>", "array<i64: 1>"),
        ("ints", "dense<1> : tensor<2xi64>", "dense<1> : tensor<2xi32>"),
        ("elements", "dense<1> : tensor<2xi32>", "1"),
        ("layouts", "[dense<[0, 1]> : tensor<2xindex>]", "[dense<0> : tensor<1x1xindex>]"),
        ("symbol", "@f", "@m::@f"),
        ("symbols", "[@f, @g]", "[@f, 1]"),
        ("programs", "[[@f], []]", "[@f]"),
        ("config", "{a = 1}", "1"),
        ("api_version", "4 : i32", "5 : i32"),
        ("precision", "[#stablehlo<precision HIGH>]", "[1]"),
        ("groups", "dense<0> : tensor<1x1xi64>", "dense<0> : tensor<1x1xi32>"),
        ("typed", "1 : i8", "@f"),
        ("type", "i32", "1"),
    ],
)
def test_constraints_on_attributes(constraint: str, fits: str, does_not: str) -> None:
    assert attribute_fits(constraint, parse_attribute(fits, dialects=DIALECTS))
    assert not attribute_fits(constraint, parse_attribute(does_not, dialects=DIALECTS))
