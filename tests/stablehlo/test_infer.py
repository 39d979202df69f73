"""What follows for the results of ops, as upstream's test pass `hlo-test-infer` tells it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hloscope
from hloscope.cli.app import app
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.text.parser import parse_mlir
from hloscope.mlir.text.printer import print_mlir
from hloscope.ops import DynamicReshape
from hloscope.stablehlo import operand_types
from hloscope.stablehlo.inferring import (
    has_inference_tests,
    inferred_types,
    run_inference_tests,
)
from tests.filecheck import check, from_records

ASKING = """
func.func @f(%a: tensor<4x?xf32>, %b: tensor<f32>) -> tensor<1xindex> {
  %0 = stablehlo.reduce(%a init: %b) applies stablehlo.add across dimensions = [0] : \
(tensor<4x?xf32>, tensor<f32>) -> tensor<?xf32>
  %1 = "hlo_test_infer.get_return_types"(%0) : (tensor<?xf32>) -> tensor<1xindex>
  %2 = "hlo_test_infer.reify_return_type_shapes"(%0) : (tensor<?xf32>) -> tensor<1xindex>
  func.return %2 : tensor<1xindex>
}
"""
PLAIN = """
func.func @f(%a: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.reshape %0 : (tensor<3x2xf32>) -> tensor<6xf32>
  %2 = "stablehlo.slice"(%1) <{start_indices = array<i64: 0>, limit_indices = array<i64: 7>,
    strides = array<i64: 1>}> : (tensor<6xf32>) -> tensor<7xf32>
  return %0 : tensor<3x2xf32>
}
"""


def answers(text: str) -> str:
    return print_mlir(run_inference_tests(parse_mlir(text, dialects=DIALECTS)), dialects=DIALECTS)


def test_chunks_of_the_inference_tests_pass_their_checks(shared: Path) -> None:
    folder = shared / "conformance" / "stablehlo" / "verify"
    failed, passed, chunks = [], 0, 0
    for line in (folder / "chunks.jsonl").read_text().splitlines():
        chunk = json.loads(line)
        if not chunk["id"].startswith(("infer_", "ops_broadcasting")):
            continue
        if chunk["polarity"] != "positive":
            continue
        chunks += 1
        try:
            check(answers(chunk["text"]), from_records(chunk["checks"]))
            passed += 1
        except AssertionError:
            failed.append(chunk["id"])
    assert not failed
    assert passed == chunks > 0


def test_questions_are_answered_in_the_program() -> None:
    assert answers(ASKING) == (
        "module {\n"
        "  func.func @f(%arg0: tensor<4x?xf32>, %arg1: tensor<f32>) -> tensor<1xindex> {\n"
        "    %c1 = arith.constant 1 : index\n"
        "    %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = "
        "[0] : (tensor<4x?xf32>, tensor<f32>) -> tensor<?xf32>\n"
        '    %1 = "hlo_test_infer.return_types"(%0) {types0 = tensor<?xf32>} : '
        "(tensor<?xf32>) -> tensor<1xindex>\n"
        "    %dim = tensor.dim %arg0, %c1 : tensor<4x?xf32>\n"
        "    %from_elements = tensor.from_elements %dim : tensor<1xindex>\n"
        "    return %from_elements : tensor<1xindex>\n  }\n}\n"
    )


SIZES = [
    ("stablehlo.negate %a : tensor<?x?xf32>", ["shape.shape_of %arg0"]),
    (
        '"stablehlo.pad"(%a, %z) <{edge_padding_low = array<i64: 1, 0>, edge_padding_high = '
        "array<i64: 2, 0>, interior_padding = array<i64: 0, 2>}> : (tensor<?x?xf32>, tensor<f32>) "
        "-> tensor<?x?xf32>",
        ["arith.addi %dim, %c1 : index", "arith.subi", "arith.muli", "tensor.from_elements"],
    ),
    (
        "stablehlo.broadcast %a, sizes = [5] : (tensor<?x?xf32>) -> tensor<5x?x?xf32>",
        ["tensor.from_elements %c5, %dim, %dim_0 : tensor<3xindex>"],
    ),
    (
        "stablehlo.dynamic_reshape %a, %s : (tensor<?x?xf32>, tensor<2xi32>) -> tensor<?x?xf32>",
        ["arith.index_cast %arg1 : tensor<2xi32> to tensor<2xindex>"],
    ),
    (
        "stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi32>) -> tensor<?x?xf32>",
        ["arith.index_cast %arg1"],
    ),
    (
        "chlo.broadcast_add %a, %z : (tensor<?x?xf32>, tensor<f32>) -> tensor<?x?xf32>",
        ["shape.broadcast %0, %1 : tensor<2xindex>, tensor<0xindex> -> tensor<2xindex>"],
    ),
]


@pytest.mark.parametrize(("op", "expected"), SIZES, ids=[op[:24] for op, _ in SIZES])
def test_sizes_are_computed_by_ops(op: str, expected: list[str]) -> None:
    type = op.rpartition("->")[2].rpartition(" : ")[2].strip()
    rank = type.count("x") - type.count("xf32") + 1
    text = answers(
        "func.func @f(%a: tensor<?x?xf32>, %s: tensor<2xi32>, %z: tensor<f32>) -> "
        f"tensor<{rank}xindex> {{\n  %0 = {op}\n"
        f'  %1 = "hlo_test_infer.reify_return_type_shapes"(%0) : ({type}) -> tensor<{rank}xindex>\n'
        f"  func.return %1 : tensor<{rank}xindex>\n}}\n"
    )
    for part in expected:
        assert part in text
    assert "hlo_test_infer" not in text
    assert op.split(maxsplit=1)[0].strip('"') not in text


@pytest.mark.parametrize("element", ["index", "i32", "i64"])
@pytest.mark.parametrize("type_", ["?x?xf32", "?x3xf32", "0x?xf32"])
def test_reified_sizes_of_a_dynamic_pad_are_those_of_the_result(type_: str, element: str) -> None:
    takes = f"%a: tensor<{type_}>, %z: tensor<f32>" + "".join(
        f", %{name}: tensor<2x{element}>" for name in "lhi"
    )
    types = f"tensor<{type_}>, tensor<f32>" + f", tensor<2x{element}>" * 3
    pad = f"%0 = stablehlo.dynamic_pad %a, %z, %l, %h, %i : ({types}) -> tensor<?x?xf32>"
    text = answers(
        f"func.func @main({takes}) -> tensor<2xindex> {{\n  {pad}\n"
        '  %1 = "hlo_test_infer.reify_return_type_shapes"(%0)'
        " : (tensor<?x?xf32>) -> tensor<2xindex>\n"
        "  func.return %1 : tensor<2xindex>\n}\n"
    )
    assert "dynamic_pad" not in text
    direct = (
        f"func.func @main({takes}) -> tensor<?x?xf32> {{\n {pad}\n return %0 : tensor<?x?xf32>\n}}"
    )
    sizes = (0 if type_[0] == "0" else 4, 3)
    for low, high, interior in (((1, 0), (2, 3), (0, 1)), ((-1, 2), (3, -1), (2, 0))):
        given = (np.zeros(sizes, "f4"), np.float32(0), low, high, interior)
        made = hloscope.evaluate(direct, *given)
        assert list(hloscope.evaluate(text, *given)) == list(made.shape)


def test_what_does_not_follow_is_told_apart_from_what_is_wrong() -> None:
    tree = parse_mlir(PLAIN, dialects=DIALECTS)
    assert not has_inference_tests(tree)
    found = {o.name: inferred_types(o) for o in tree.walk()}
    assert found["stablehlo.transpose"].types == (
        next(o for o in tree.walk() if o.name == "stablehlo.transpose").result.type,
    )
    assert found["stablehlo.reshape"][1:] == (None, None)
    error = found["stablehlo.slice"].error
    assert error is not None
    assert error.rule == "slice_c3"


def run(*arguments: str, given: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["infer", "-", *arguments], input=given)
    return result.exit_code, result.stdout, result.stderr


def test_the_command_tells_types_and_refusals() -> None:
    code, out, err = run(given=PLAIN)
    assert code == 3
    assert [line.split(maxsplit=3)[3] for line in out.splitlines()] == [
        "types",
        "tensor<3x2xf32>",
        "declared tensor<6xf32>",
        "refused; declared tensor<7xf32>",
    ]
    assert "<stdin>:5:8: error:" in err
    assert "[slice_c3]" in err


def test_the_command_says_it_in_json() -> None:
    _, out, _ = run("--json", given=PLAIN)
    told = json.loads(out)
    assert told["schema"] == "hloscope.infer/1"
    first, second, third = told["ops"]
    assert first["types"] == [{"type": "tensor<3x2xf32>", "element_type": "f32", "dims": [3, 2]}]
    assert second["types"] is None
    assert third["error"]["rule"] == "slice_c3"


def test_the_command_answers_a_program_that_asks() -> None:
    code, out, _ = run("--split-input-file", given=f"{ASKING}// -----\n{PLAIN}")
    assert code == 0
    assert out.count("// -----") == 1
    assert "types0 = tensor<?xf32>" in out


def test_the_command_reads_hlo() -> None:
    code, out, _ = run(given="ENTRY e { p = f32[2,3] parameter(0) ROOT n = f32[2,3] negate(p) }")
    assert code == 0
    assert out.splitlines()[1].split() == ["1:37", "n", "negate", "f32[2,3]"]


@pytest.mark.parametrize(
    ("op", "known"),
    [
        ("stablehlo.constant() <{value = dense<[2, 3]> : tensor<2xi32>}>", (2, 3)),
        ("stablehlo.constant() <{value = dense<4> : tensor<2xi32>}>", (4, 4)),
        ("arith.constant() <{value = dense<[2, 3]> : tensor<2xi32>}>", (2, 3)),
        ("a.b() {value = dense<[2, 3]> : tensor<2xi32>}", None),
        ("stablehlo.constant() <{value = dense<[2, 3, 4]> : tensor<3xi32>}>", None),
    ],
)
def test_typing_reads_integers_of_constants_only(op: str, known: tuple[int, ...] | None) -> None:
    name, _, rest = op.partition("()")
    module = parse_mlir(f'%0 = "{name}"(){rest} : () -> tensor<2xi32>', dialects=DIALECTS)
    (operation,) = module.regions[0].blocks[0].operations
    (found,) = operand_types(DynamicReshape(), (operation.results[0],) * 2)[1:]
    assert getattr(found, "value", None) == known
