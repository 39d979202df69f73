"""Values printed, and written to files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.ops.checking import PRINT, PROBE
from hloscope.interpreter.shown import value_text
from hloscope.interpreter.values import TOKEN, EvaluationError, World
from hloscope.ir.types import ELEMENT_TYPES, TensorType, TokenType, TupleType, Type
from hloscope.mlir.types import spell
from tests.interpreter.helpers import read, values


def test_print() -> None:
    printed: list[str] = []
    text = """func.func @main() {
      %x = stablehlo.iota dim = 0 : tensor<2xi32>
      interpreter.print %x : tensor<2xi32>
      return
    }"""
    values(text, world=World(extra={PRINT: printed.append}))
    assert printed == ["%x = tensor<2xi32> {\n  [0, 1]\n}"]


def tensor(name: str, *sizes: int | None) -> TensorType:
    return TensorType(ELEMENT_TYPES[name], sizes)


def text(value: Any, type: Type, most: int | None = None) -> str:
    return value_text(value, type, most, spell)


def test_values_as_text() -> None:
    assert text(np.array(1, "uint8"), tensor("u8")) == "tensor<ui8> {1}"
    assert text(np.zeros((0, 2), "int8"), tensor("s8", 0, 2)) == "tensor<0x2xi8> {\n  []\n}"
    two = text(np.zeros((2, 0), "int8"), tensor("s8", 2, 0))
    assert two == "tensor<2x0xi8> {\n  [\n    [],\n    []\n  ]\n}"
    yes = text(np.array([True, False]), tensor("pred", 2))
    assert yes == "tensor<2xi1> {\n  [true, false]\n}"
    half = text(np.array([1.5], "float16"), tensor("f16", None))
    assert half == "tensor<1xf16> {\n  [1.500000e+00]\n}"
    pair = text(np.array(1 - 2j, "complex64"), tensor("c64"))
    assert pair == "tensor<complex<f32>> {[1.000000e+00, -2.000000e+00]}"
    nested = text(np.arange(4).reshape(2, 1, 2), tensor("s64", 2, 1, 2))
    assert nested == (
        "tensor<2x1x2xi64> {\n  [\n    [\n      [0, 1]\n    ],\n    [\n      [2, 3]\n    ]\n  ]\n}"
    )
    assert text(np.zeros(9, "int8"), tensor("s8", 9), most=8) == "tensor<9xi8> {…}"
    both = TupleType((tensor("s8"), TokenType()))
    assert text((np.array(1, "int8"), TOKEN), both) == "(tensor<i8> {1},\n!stablehlo.token)"


PROBED = """func.func @main() -> tensor<i64> {
  %c = stablehlo.constant dense<0> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %two = stablehlo.constant dense<2> : tensor<i64>
  %r = stablehlo.while(%i = %c) : tensor<i64> cond {
    %p = stablehlo.compare LT, %i, %two : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i64>
    %m = interpreter.probe %n, probe_id = "a/b" : tensor<i64>
    stablehlo.return %m : tensor<i64>
  }
  check.expect_serialized_eq %one, probe_id = "a/b" : tensor<i64>
  check.expect_serialized_eq %two, probe_id = "a/b", iter = 1 : tensor<i64>
  LAST
  return %r : tensor<i64>
}"""


def test_probes(tmp_path: Path) -> None:
    evaluate(read(PROBED.replace("LAST", "")), (), World(extra={PROBE: tmp_path}))
    rows = list(csv.reader((tmp_path / "index.csv").read_text().splitlines()))
    files = [str(tmp_path / f"probe{k}.npy") for k in (1, 2)]
    assert rows == [["a/b", "tensor<i64>", file] for file in files]
    stored = np.load(files[1])
    assert (stored.dtype.str, stored.shape, stored.tolist()) == ("<u8", (), 2)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ('%two, probe_id = "a/b" : tensor<i64>', "found 2, expected 1"),
        ('%two, probe_id = "a/b", iter = 2 : tensor<i64>', "wrote 2 values, none is number 2"),
        ('%two, probe_id = "b" : tensor<i64>', "wrote 0 values"),
        ('%p, probe_id = "a/b" : tensor<i1>', "wrote tensor<i64>, expected tensor<i1>"),
    ],
)
def test_what_was_not_probed(tmp_path: Path, last: str, message: str) -> None:
    more = "%p = stablehlo.compare LT, %r, %two : (tensor<i64>, tensor<i64>) -> tensor<i1>\n"
    text = PROBED.replace("LAST", f"{more}check.expect_serialized_eq {last}")
    with pytest.raises(EvaluationError, match=message):
        evaluate(read(text), (), World(extra={PROBE: tmp_path}))


def test_probes_need_a_folder(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="no folder for probes"):
        values(PROBED.replace("LAST", ""))
    world = World(extra={PROBE: tmp_path / "absent"})
    with pytest.raises(EvaluationError, match="cannot write probe"):
        evaluate(read(PROBED.replace("LAST", "")), (), world)


@pytest.mark.parametrize(
    ("element", "stored"),
    [
        ("i1", "|i1"),
        ("i8", "|u1"),
        ("ui64", "<i8"),
        ("f16", "<u2"),
        ("bf16", "<u2"),
        ("f32", "<f4"),
        ("complex<f32>", "<f8"),
    ],
)
def test_a_probe_states_a_storage_class(tmp_path: Path, element: str, stored: str) -> None:
    text = f"""func.func @main(%x: tensor<2x{element}>) {{
      %y = interpreter.probe %x, probe_id = "p" : tensor<2x{element}>
      check.expect_serialized_eq %x, probe_id = "p" : tensor<2x{element}>
      return
    }}"""
    evaluate(
        read(text), [[True, False] if element == "i1" else [1, 0]], World(extra={PROBE: tmp_path})
    )
    assert np.load(tmp_path / "probe1.npy").dtype.str == stored
