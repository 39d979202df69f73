# ruff: noqa: E501  (tables read best with one row a line)
"""Types in pretty forms: written once, written as a function type, or implied by others.

The tables are checked in one test each, so that the quick run checks every row.
"""

from __future__ import annotations

import re

import pytest

from hloscope.errors import ParseError
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.text.parser import parse_mlir
from hloscope.mlir.text.printer import print_mlir
from tests.mlir.test_forms import around

PRETTY = """
    stablehlo.clamp %arg0, %arg1, %arg2 : tensor<2xf32> | (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    stablehlo.clamp %arg0, %arg1, %arg2 : (tensor<f32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32> | (tensor<f32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    stablehlo.complex %arg0, %arg1 : tensor<2xcomplex<f32>> | (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>>
    stablehlo.complex %arg0, %arg1 : tensor<*xcomplex<f64>> | (tensor<*xf64>, tensor<*xf64>) -> tensor<*xcomplex<f64>>
    stablehlo.complex %arg0, %arg1 : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xcomplex<f32>> | (tensor<2xf32>, tensor<2xf64>) -> tensor<2xcomplex<f32>>
    stablehlo.complex %arg0, %arg1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> | (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    stablehlo.select %arg0, %arg1, %arg2 : tensor<2xi1>, tensor<2xf32> | (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    stablehlo.select %arg0, %arg1, %arg2 : (tensor<2xi1>, tensor<2xf32>, tensor<?xf32>) -> tensor<2xf32> | (tensor<2xi1>, tensor<2xf32>, tensor<?xf32>) -> tensor<2xf32>
    stablehlo.select %arg0, %arg1, %arg2 : (tensor<2xi1>, tensor<?xf32>, tensor<2xf32>) -> tensor<2xf32> | (tensor<2xi1>, tensor<?xf32>, tensor<2xf32>) -> tensor<2xf32>
    stablehlo.select %arg0, %arg1, %arg2 : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<?xf32> | (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<?xf32>
    stablehlo.optimization_barrier() | () -> ()
    stablehlo.optimization_barrier %arg0 : tensor<i8> | (tensor<i8>) -> tensor<i8>
    stablehlo.optimization_barrier %arg0, %arg1 : tensor<i8>, tensor<f32> | (tensor<i8>, tensor<f32>) -> (tensor<i8>, tensor<f32>)
    stablehlo.tuple %arg0, %arg1 : tuple<tensor<i8>, tensor<f32>> | (tensor<i8>, tensor<f32>) -> tuple<tensor<i8>, tensor<f32>>
    stablehlo.custom_call @f(%arg0) : (tensor<i8>) -> (tensor<i8>, tensor<i8>) | (tensor<i8>) -> (tensor<i8>, tensor<i8>)
    stablehlo.add %arg0, %arg1 : tensor<2xf32> | (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    stablehlo.add %arg0, %arg1 : (tensor<2xf32>, tensor<?xf32>) -> tensor<2xf32> | (tensor<2xf32>, tensor<?xf32>) -> tensor<2xf32>
    stablehlo.after_all %arg0, %arg1 : !stablehlo.token | (!stablehlo.token, !stablehlo.token) -> !stablehlo.token
    stablehlo.after_all  : !stablehlo.token | () -> !stablehlo.token
    check.expect_eq %arg0, %arg1 : tensor<2xi8> | (tensor<2xi8>, tensor<2xi8>) -> ()
    interpreter.probe %arg0, probe_id = "p" : tensor<2xi8> | (tensor<2xi8>) -> tensor<2xi8>
    arith.cmpi slt, %arg0, %arg1 : tensor<2xi8> | (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi1>
    arith.cmpi slt, %arg0, %arg1 : tensor<*xi8> | (tensor<*xi8>, tensor<*xi8>) -> tensor<*xi1>
    arith.cmpi slt, %arg0, %arg1 : i8 | (i8, i8) -> i1
    arith.select %arg0, %arg1, %arg2 : i8 | (i1, i8, i8) -> i8
    arith.select %arg0, %arg1, %arg2 : tensor<2xi1>, tensor<2xi8> | (tensor<2xi1>, tensor<2xi8>, tensor<2xi8>) -> tensor<2xi8>
    tensor.dim %arg0, %arg1 : tensor<?xf32> | (tensor<?xf32>, index) -> index
    tensor.extract %arg0[%arg1, %arg2] : tensor<2x3xf32> | (tensor<2x3xf32>, index, index) -> f32
    tensor.extract %arg0[] : tensor<f32> | (tensor<f32>) -> f32
    tensor.from_elements %arg0, %arg1 : tensor<2xf32> | (f32, f32) -> tensor<2xf32>
    tensor.empty(%arg0) : tensor<?xf32> | (index) -> tensor<?xf32>
    tensor.insert %arg0 into %arg1[%arg2] : tensor<2xf32> | (f32, tensor<2xf32>, index) -> tensor<2xf32>
    tensor.splat %arg0 : tensor<2xf32> | (f32) -> tensor<2xf32>
    tensor.rank %arg0 : tensor<*xf32> | (tensor<*xf32>) -> index
    shape.assuming_all %arg0, %arg1 | (!shape.witness, !shape.witness) -> !shape.witness
    shape.cstr_require %arg0, "m" | (i1) -> !shape.witness
    shape.from_extents %arg0, %arg1 : index, !shape.size | (index, !shape.size) -> !shape.shape
    shape.from_extent_tensor %arg0 : tensor<2xindex> | (tensor<2xindex>) -> !shape.shape
    stablehlo.tuple  : tuple<> | () -> tuple<>
    return %arg0, %arg1 : i8, f32 | (i8, f32) -> ()
    return | () -> ()
"""
"""Ops in their pretty form, and the types of operands and results."""
GENERIC = """
    "stablehlo.add"(%arg0, %arg1) : (tensor<i8>, tensor<i8>) -> (tensor<i8>, tensor<i8>)
    "stablehlo.add"(%arg0) : (tensor<i8>) -> tensor<i8>
    "stablehlo.clamp"(%arg0, %arg1) : (tensor<i8>, tensor<i8>) -> tensor<i8>
    "stablehlo.complex"(%arg0, %arg1) : (tensor<f32>, tensor<f32>) -> ()
    "stablehlo.optimization_barrier"(%arg0) : (tensor<i8>) -> (tensor<i8>, tensor<i8>)
    "stablehlo.optimization_barrier"(%arg0) : (tensor<i8>) -> ()
    "stablehlo.tuple"(%arg0) : (tensor<i8>) -> tuple<tensor<f32>>
    "stablehlo.tuple"(%arg0) : (tensor<i8>) -> tensor<i8>
    "stablehlo.tuple"(%arg0, %arg1) : (tensor<i8>, tensor<i8>) -> tuple<tensor<i8>>
    "check.expect_eq"(%arg0, %arg1) : (tensor<2xi8>, tensor<3xi8>) -> ()
    "interpreter.probe"(%arg0) <{probe_id = "p"}> : (tensor<2xi8>) -> tensor<3xi8>
    "arith.cmpi"(%arg0, %arg1) <{predicate = 2 : i64}> : (tensor<2xi8>, tensor<3xi8>) -> tensor<2xi1>
    "arith.cmpi"(%arg0, %arg1) <{predicate = 2 : i64}> : (tensor<2xi8>, tensor<2xi8>) -> tensor<3xi1>
    "arith.cmpi"(%arg0, %arg1) <{predicate = 2 : i64}> : (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi8>
    "arith.cmpi"(%arg0, %arg1) <{predicate = 2 : i64}> : (i8, i8) -> (i1, i1)
    "arith.negf"(%arg0) <{fastmath = #arith.fastmath<none>}> : (f32) -> f64
    "tensor.dim"(%arg0, %arg1) : (tensor<?xf32>, i32) -> index
    "tensor.dim"(%arg0, %arg1) : (tensor<?xf32>, index) -> i32
    "tensor.extract"(%arg0, %arg1) : (tensor<2xf32>, index) -> f64
    "tensor.extract"(%arg0, %arg1) : (tensor<2xf32>, i32) -> f32
    "tensor.from_elements"(%arg0, %arg1) : (f32, f64) -> tensor<2xf32>
    "tensor.from_elements"(%arg0) : (f32) -> ()
    "tensor.insert"(%arg0, %arg1, %arg2) : (f64, tensor<2xf32>, index) -> tensor<2xf32>
    "tensor.insert"(%arg0, %arg1, %arg2) : (f32, tensor<3xf32>, index) -> tensor<2xf32>
    "tensor.insert"(%arg0, %arg1, %arg2) : (f32, tensor<2xf32>, i32) -> tensor<2xf32>
    "tensor.splat"(%arg0) : (f64) -> tensor<2xf32>
    "shape.assuming_all"(%arg0) : (i1) -> !shape.witness
    "shape.assuming_all"(%arg0) : (!shape.witness) -> i1
    "shape.assuming_all"(%arg0) : (!shape.witness) -> ()
    "shape.cstr_require"(%arg0) <{msg = "m"}> : (i8) -> !shape.witness
    "shape.from_extents"(%arg0) : (index) -> index
"""
"""Ops whose pretty form would lose a type, or has another number of operands or results."""
REFUSED = """
    stablehlo.add %arg0, %arg1 : (tensor<i8>) -> tensor<i8> | 2 operands present, but expected 1
    stablehlo.add %arg0, %arg1 : (tensor<i8>, tensor<i8>) -> () | expected single output
    stablehlo.complex %arg0, %arg1 : tensor<f32> | expected tensor with complex element type
    stablehlo.complex %arg0, %arg1 : (tensor<f32>) -> tensor<complex<f32>> | 2 operands present, but expected 1
    stablehlo.select %arg0, %arg1, %arg0 : tensor<i1> | expected functional type or list of two types
    stablehlo.select %arg0, %arg1, %arg0 : tensor<i1>, tensor<i8>, tensor<i8> | expected functional type or list of two types
    stablehlo.tuple %arg0 : tensor<i8> | expected tuple type
    stablehlo.optimization_barrier %arg0 : 3 | expected type list
    stablehlo.optimization_barrier %arg0, %arg1 : tensor<i8> | number of operands and types do not match: got 2 operands and 1 types
"""
"""Pretty forms with wrong types, and the reason of the refusal."""


def rows(table: str) -> list[str]:
    return [row.strip() for row in table.strip().splitlines()]


def printed(op: str, types: str) -> str:
    """An op as it is printed, without the names of its results."""
    module = parse_mlir(around(op, types), dialects=DIALECTS)
    line = print_mlir(module, dialects=DIALECTS).splitlines()[2]
    return re.sub(r"^\s*(?:%[\w:]+ = )?", "", line)


def test_pretty_forms_have_the_types_that_others_do_not_imply() -> None:
    for row in rows(PRETTY):
        op, _, types = row.partition(" | ")
        assert printed(op, types) == op


def test_ops_that_a_pretty_form_cannot_express_are_printed_in_the_generic_form() -> None:
    for op in rows(GENERIC):
        assert printed(op, re.sub(r"^.*?\)(?: <.*?}>)? : ", "", op)) == op


def test_wrong_types_are_refused_with_a_reason() -> None:
    for row in rows(REFUSED):
        op, _, reason = row.partition(" | ")
        with pytest.raises(ParseError, match=re.escape(reason)):
            printed(op, "(tensor<i8>, tensor<i8>) -> tensor<i8>")
