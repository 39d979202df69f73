"""VHLO as text: printed as StableHLO prints it, read, and the same as its artifacts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import hloscope
from hloscope.cli.app import app
from hloscope.errors import ParseError
from hloscope.mlir import parse_mlir, print_mlir, split_input
from hloscope.mlir.dialects import DIALECTS
from hloscope.stablehlo.bytecode import (
    in_version,
    is_vhlo_text,
    parse_vhlo,
    print_vhlo,
    read_bytecode,
    write_bytecode,
)
from hloscope.stablehlo.bytecode.vhlo_parsing import FORMS, ROWS, VhloSyntaxError, parse_vhlo_value
from hloscope.stablehlo.bytecode.vhlo_printing import vhlo_text
from tests import filecheck
from tests.conftest import SHARED

FOLDER = SHARED / "conformance/stablehlo/vhlo"
ARTIFACTS = sorted(FOLDER.glob("*.mlir.bc"))

SPELLINGS = """
!vhlo.bool_v1
!vhlo.tf31_v1
!vhlo.complex_v1<!vhlo.f64_v1>
!vhlo.tensor_v1<!vhlo.i2_v1>
!vhlo.tensor_v1<4x?x!vhlo.f32_v1>
!vhlo.tensor_v1<4x?x!vhlo.f32_v1, #vhlo.type_extensions_v1<bounds = [?, 8]>>
!vhlo.unranked_tensor_v1<!vhlo.ui8_v1>
!vhlo.buffer_v1<2x3x!vhlo.bf16_v1>
!vhlo.tuple_v1<!vhlo.token_v1, !vhlo.tuple_v1<!vhlo.tensor_v1<0x!vhlo.index_v1>>>
!vhlo.future_v1<!vhlo.tensor_v1<2x!vhlo.f32_v1>>
!vhlo.func_v1<(!vhlo.tensor_v1<!vhlo.f32_v1>) -> !vhlo.token_v1, !vhlo.token_v1>
!vhlo.func_v1<(()) -> ()>
!vhlo.witness_v1
!vhlo.quant_v1<!vhlo.i8_v1:!vhlo.f32_v1, 2.000000e+00:3, -128:127, 1>
!vhlo.quant_v1<!vhlo.i8_v1:!vhlo.f32_v1, 5.000000e-01:0, 0:255, 0>
!vhlo.quant_per_axis_v1<!vhlo.i8_v1:!vhlo.f32_v1, 1, [1.000000e-01, 2.000000e+00], [0, -3], \
-128:127, 1>
#vhlo<comparison_direction_v1 EQ>
#vhlo<api_version_v1 API_VERSION_TYPED_FFI>
#vhlo<rng_distribution_v1 NORMAL>
#vhlo.array_v1<[]>
#vhlo.array_v1<[#vhlo.integer_v1<1 : i64>, #vhlo.array_v1<[#vhlo.bool_v1<true>]>]>
#vhlo.dict_v1<{}>
#vhlo.dict_v1<{#vhlo.string_v1<"a"> = #vhlo.bool_v1<false>, #vhlo.string_v1<"b\\22]>"> = \
#vhlo.dict_v1<{}>}>
#vhlo.float_v1<1.500000e+00 : !vhlo.f32_v1>
#vhlo.float_v1<0x7FC0 : !vhlo.bf16_v1>
#vhlo.integer_v1<-8 : i4>
#vhlo.string_v1<"say \\22\\C3\\A9\\22 \\\\">
#vhlo.tensor_v1<dense<[1, 2]> : tensor<2xi64>>
#vhlo.tensor_v1<dense<> : tensor<0xf32>>
#vhlo.tensor_v1<dense<[true, false]> : tensor<2xi1>>
#vhlo.type_v1<!vhlo.none_v1>
#vhlo.output_operand_alias_v1<outputTupleIndices = [], operandIndex = 0, operandTupleIndices = \
[1, 2]>
#vhlo.result_accuracy_v1<atol = 0.000000e+00, rtol = 1.000000e-05, ulps = 2, mode = \
#vhlo<result_accuracy_mode_v1 TOLERANCE>>
#vhlo.sub_axis_info_v1<pre_size = 1, size = 2>
#vhlo.axis_ref_v1<name = #vhlo.string_v1<"x">>
#vhlo.axis_ref_v1<name = #vhlo.string_v1<"x">, sub_axis_info = #vhlo.sub_axis_info_v1<pre_size = \
1, size = 2>>
#vhlo.replica_group_mesh_axes_v1<mesh = #vhlo.string_v1<"m">, axes = #vhlo.array_v1<\
[#vhlo.axis_ref_v1<name = #vhlo.string_v1<"x">>]>>
#vhlo.mesh_v1<axes = #vhlo.array_v1<[#vhlo.mesh_axis_v1<name = #vhlo.string_v1<"x">, size = 2>]>>
""".replace("\\\n", "").strip().splitlines()  # fmt: skip

WRONG = """
!vhlo.zork_v1
!vhlo.tensor_v1<4y!vhlo.f32_v1>
!vhlo.tensor_v1<4x!vhlo.f32_v1
!vhlo.tensor_v1<4x!vhlo.f32_v1>>
!vhlo.tensor_v1<-4x!vhlo.f32_v1>
!vhlo.tensor_v1<4x#vhlo.bool_v1<true>>
!vhlo.tensor_v1<?x!vhlo.f32_v1, #vhlo.type_extensions_v1<bounds = [1, 2]>>
!vhlo.complex_v1<!vhlo.token_v1>
!vhlo.quant_v1<!vhlo.f32_v1:!vhlo.f32_v1, 2.0:3, -128:127, 1>
!vhlo.quant_v1<!vhlo.i8_v1:!vhlo.f32_v1, 2.0:3, 127:-128, 1>
#vhlo<comparison_direction_v1 SAME>
#vhlo<colour_v1 RED>
#vhlo.comparison_direction_v1<EQ>
#vhlo.array_v1<[#vhlo.bool_v1<true>]
#vhlo.bool_v1<1>
#vhlo.integer_v1<1.5 : f32>
#vhlo.integer_v1<300 : i8>
#vhlo.dict_v1<{"a" = #vhlo.bool_v1<true>}>
#vhlo.tensor_v1<dense<[1, 2]> : tensor<3xi64>>
#vhlo.string_v1<"a>
#vhlo.result_accuracy_v1<atol = 0.0, rtol = 0.0, ulps = 0, mode = #vhlo<precision_v1 HIGH>>
#vhlo.axis_ref_v1<name = #vhlo.bool_v1<true>>
""".strip().splitlines()


@pytest.mark.parametrize("text", SPELLINGS)
def test_what_is_spelled_is_read_and_spelled_the_same(text: str) -> None:
    value = parse_vhlo_value(text)
    assert vhlo_text(value) == text
    assert vhlo_text(parse_vhlo_value(text.replace(" = ", "=").replace(", ", " , "))) == text


def test_every_row_has_a_spelling_that_is_tried() -> None:
    assert set(FORMS) <= set(ROWS)
    tried = "".join(SPELLINGS)
    for name, rows in ROWS.items():
        if rows[0].fields and rows[0].value[0] != "enum":
            assert name in FORMS
            assert f"vhlo.{name.removeprefix('#')}<" in tried, name


@pytest.mark.parametrize("text", WRONG)
def test_what_spells_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_vhlo_value(text)
    assert isinstance(caught.value, VhloSyntaxError) or str(caught.value)


def test_nesting_that_is_too_deep_is_refused() -> None:
    deep = "#vhlo.array_v1<[" * 5000 + "]>" * 5000
    with pytest.raises(ParseError):
        parse_vhlo(f'module attributes {{a = {deep}}} {{ "vhlo.return_v1"() : () -> () }}')
    with pytest.raises(VhloSyntaxError, match="too deep"):
        parse_vhlo_value(deep)


def some(files: list[Path], full: bool) -> list[Path]:
    return files if full else files[-3::-9]


@pytest.mark.slow
def test_artifacts_are_printed_as_their_texts_say(shared: Path, full: bool) -> None:
    for path in some([one for one in ARTIFACTS if "legalize" in one.name], full):
        source = path.with_suffix("").read_text()
        text = print_vhlo(read_bytecode(path.read_bytes()).module, generic=True)
        filecheck.check(text, filecheck.directives(source))


@pytest.mark.slow
def test_texts_of_artifacts_are_artifacts_again(shared: Path, full: bool) -> None:
    for path in some(ARTIFACTS, full):
        found = read_bytecode(path.read_bytes(), path.name)
        for generic in (False, True):
            if "future" in path.name:
                continue
            text = print_vhlo(found.module, generic=generic)
            tree = parse_vhlo(text)
            assert print_vhlo(tree, generic=generic) == text
            if generic and not found.orders:
                version, producer = found.image.version, found.image.producer
                assert (
                    write_bytecode(tree, version=version, producer=producer) == path.read_bytes()
                ), path.name


@pytest.mark.slow
def test_programs_become_the_vhlo_that_their_files_say(shared: Path) -> None:
    for name, mixed in (
        ("stablehlo_legalize_to_vhlo.mlir", False),
        ("stablehlo_legalize_to_vhlo_mixed.mlir", True),
    ):
        for line, piece in split_input((FOLDER / name).read_text()):
            checks = filecheck.directives(piece)
            if not checks:
                continue
            tree = parse_mlir(piece, name, dialects=DIALECTS)
            made = in_version(tree, (1, 20, 0), allow_other_dialects=mixed).module
            text = print_vhlo(made, generic=not mixed, aliases=False)
            filecheck.check(text, checks)
            back = print_mlir(parse_mlir(piece, dialects=DIALECTS), dialects=DIALECTS)
            again = hloscope.serialize(piece, "1.0.0", allow_other_dialects=True) if mixed else b""
            if mixed:
                text = print_mlir(hloscope.deserialize(again).tree, dialects=DIALECTS)
                assert text == back, f"{name}:{line}"


TEXT = """module {
  vhlo.func_v1 @main(%arg0: !vhlo.tensor_v1<4x!vhlo.f32_v1>) -> (!vhlo.tensor_v1<4x!vhlo.f32_v1>) {
    %0 = "vhlo.exponential_v1"(%arg0) : (!vhlo.tensor_v1<4x!vhlo.f32_v1>) -> !vhlo.tensor_v1<4x!vhlo.f32_v1>
    "vhlo.return_v1"(%0) : (!vhlo.tensor_v1<4x!vhlo.f32_v1>) -> ()
  } {arg_attrs = #vhlo.array_v1<[]>, res_attrs = #vhlo.array_v1<[]>, sym_visibility = #vhlo.string_v1<"">}
}
"""  # noqa: E501


def test_vhlo_text_is_read_wherever_programs_are(tmp_path: Path) -> None:
    path = tmp_path / "f.vhlo.mlir"
    path.write_text(TEXT)
    assert is_vhlo_text(TEXT)
    invoke: Any = CliRunner().invoke
    assert "exponential" in invoke(app, ["ls", str(path)]).output
    printed = invoke(app, ["print", str(path)]).output
    assert "stablehlo.exponential %arg0 : tensor<4xf32>" in printed
    assert invoke(app, ["serialize", str(path), "--target", "1.0.0", "--text"]).output == TEXT
    data = hloscope.serialize(TEXT, "1.0.0")
    assert invoke(app, ["deserialize", "-", "--vhlo"], input=data).output == TEXT
    generic = invoke(app, ["deserialize", "-", "--vhlo", "--generic"], input=data).output
    assert '"vhlo.func_v1"() <{arg_attrs = ' in generic


def test_damaged_text_is_an_error_with_its_place(tmp_path: Path) -> None:
    rng = random.Random(3)
    refused = 0
    for _ in range(300):
        at = rng.randrange(len(TEXT))
        end = at + rng.choice((0, 1, 1, 5, 40))
        text = TEXT[:at] + rng.choice(("", "<", ">", "?x", '"', "[")) + TEXT[end:]
        try:
            parse_vhlo(text)
        except ParseError as error:
            refused += error.span is not None
    assert refused > 150


def test_an_op_without_its_attributes_is_refused(tmp_path: Path) -> None:
    text = TEXT.replace("exponential_v1", "exponential_v2")
    path = tmp_path / "f.mlir"
    path.write_text(text)
    run = CliRunner().invoke(app, ["ls", str(path)])
    assert run.exit_code == 3
    assert "vhlo.exponential_v2 requires attribute 'result_accuracy'" in run.output
