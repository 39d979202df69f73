"""HLO against StableHLO: one program is the same in both, and a changed one is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import hloscope as hs
from hloscope.cli.app import app
from tests.conftest import SHARED

MODELS = SHARED / "real/models"
needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="needs ../shared/real/models")

HLO = """HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
less { t = (s32[], f32[4,8]) parameter(0) i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3) ROOT p = pred[] compare(i, n), direction=LT }
turn { t = (s32[], f32[4,8]) parameter(0) i = s32[] get-tuple-element(t), index=0
  x = f32[4,8] get-tuple-element(t), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  y = f32[4,8] tanh(x) ROOT r = (s32[], f32[4,8]) tuple(j, y) }
scale { a = f32[4,8] parameter(0) two = f32[] constant(2) b = f32[4,8] broadcast(two), dimensions={}
  ROOT m = f32[4,8] multiply(a, b) }
ENTRY e {
  x = f32[4,8]{1,0} parameter(0)
  w = f32[8]{0} parameter(1)
  b = f32[4,8]{1,0} broadcast(w), dimensions={1}
  s = f32[4,8]{1,0} subtract(x, b)
  k = f32[4,8] call(s), to_apply=scale
  zero = s32[] constant(0)
  t = (s32[], f32[4,8]) tuple(zero, k)
  l = (s32[], f32[4,8]) while(t), condition=less, body=turn
  v = f32[4,8] get-tuple-element(l), index=1
  z = f32[] constant(0)
  r = f32[4] reduce(v, z), dimensions={1}, to_apply=sum
  q = f32[4,1] reshape(r)
  ROOT out = (f32[4,1], f32[4,8]) tuple(q, v)
}"""
MLIR = """module @m {
func.func private @scale(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %two = stablehlo.constant dense<2.0> : tensor<4x8xf32>
  %0 = stablehlo.multiply %two, %a : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func public @main(%x: tensor<4x8xf32>, %w: tensor<8xf32>)
    -> (tensor<4x1xf32>, tensor<4x8xf32>) {
  %n = stablehlo.constant dense<3> : tensor<i32>
  %w1 = stablehlo.reshape %w : (tensor<8xf32>) -> tensor<1x8xf32>
  %b = stablehlo.broadcast_in_dim %w1, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<4x8xf32>
  %s = stablehlo.subtract %x, %b : tensor<4x8xf32>
  %k = func.call @scale(%s) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %l:2 = stablehlo.while(%i = %zero, %v = %k) : tensor<i32>, tensor<4x8xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %y = stablehlo.tanh %v : tensor<4x8xf32>
    stablehlo.return %j, %y : tensor<i32>, tensor<4x8xf32>
  }
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%l#1 init: %z) applies stablehlo.add across dimensions = [1] :
      (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %q = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
  return %q, %l#1 : tensor<4x1xf32>, tensor<4x8xf32>
}
}"""

CHANGED = [
    ("f32[4,8]{1,0} subtract(x, b)", "f32[4,8]{1,0} subtract(b, x)"),
    ("subtract(x, b)", "add(x, b)"),
    ("constant(2)", "constant(3)"),
    ("n = s32[] constant(3)", "n = s32[] constant(4)"),
    ("direction=LT", "direction=LE"),
    ("add(i, one)", "subtract(i, one)"),
    ("tanh(x)", "sine(x)"),
    ("f32[] add(a, b)", "f32[] maximum(a, b)"),
    ("z = f32[] constant(0)", "z = f32[] constant(1)"),
    ("while(t)", "while(t0)"),
    ("tuple(q, v)", "tuple(q, k)"),
    ("to_apply=scale", "to_apply=other"),
]


def changed(before: str, after: str) -> str:
    assert HLO.count(before) >= 1
    text = HLO.replace(before, after)
    text = text.replace("l = (s32[]", "t0 = (s32[], f32[4,8]) tuple(zero, s)\n  l = (s32[]")
    return text.replace("ENTRY e", "other { ROOT a = f32[4,8] parameter(0) }\nENTRY e")


def test_one_program_in_both_languages_is_the_same() -> None:
    for a, b in ((HLO, MLIR), (MLIR, HLO)):
        found = hs.diff(hs.read(a), hs.read(b))
        assert found.none
        assert "do not count" in found.notes[0]
    assert hs.diff(hs.read(changed("e", "e")), hs.read(MLIR)).none  # what nothing reads


@pytest.mark.parametrize(("before", "after"), CHANGED)
def test_a_changed_program_is_told(before: str, after: str) -> None:
    text = changed(before, after)
    for a, b in ((text, MLIR), (MLIR, text)):
        found = hs.diff(hs.read(a), hs.read(b))
        assert not found.none
        assert found.parts[0].changes


def test_an_op_in_the_place_of_another_is_one_change() -> None:
    found = hs.diff(hs.read(HLO.replace("subtract(x, b)", "maximum(x, b)")), hs.read(MLIR))
    (change,) = found.parts[0].changes
    assert change.kind == "changed"
    (aspect,) = change.aspects
    assert (aspect.what, aspect.before, aspect.after) == ("op", "maximum", "subtract")


def test_values_in_both_programs_are_counted() -> None:
    mlir = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.add %x, %y : tensor<4xf32>
      %1 = stablehlo.negate %0 : tensor<4xf32>
      return %1 : tensor<4xf32> }"""
    head = "ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) a = f32[4] "
    for ops, kinds, pairs in [
        ("add(x, y) ROOT n = f32[4] negate(a)", [], []),
        ("subtract(x, y) ROOT n = f32[4] negate(a)", ["changed"], [3]),
        ("add(x, y) ROOT n = f32[4] tanh(a)", ["changed"], [3]),
    ]:
        found = hs.diff(hs.read(f"{head}{ops} }}"), hs.read(mlir))
        assert [change.kind for part in found.parts for change in part.changes] == kinds
        assert [part.pairs for part in found.parts] == pairs


def test_parameters_and_results_are_part_of_the_question() -> None:
    narrow = "ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"
    wide = """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = stablehlo.negate %x : tensor<8xf32>
      return %0 : tensor<8xf32> }"""
    found = hs.diff(hs.read(narrow), hs.read(wide))
    assert [aspect.what for aspect in found.header] == ["types of parameters"]
    assert not found.none
    two = wide.replace("tensor<8xf32>)", "tensor<8xf32>, %y: tensor<f32>)")
    assert [a.what for a in hs.diff(hs.read(wide.replace("8", "4")), hs.read(narrow)).header] == []
    assert [a.what for a in hs.diff(hs.read(two), hs.read(narrow)).header] == ["parameters"]


ADDED = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %z = stablehlo.constant dense<{0}> : tensor<4xf32>
  %0 = stablehlo.{1} %x, %z : tensor<4xf32>
  %1 = stablehlo.negate %0 : tensor<4xf32>
  return %1 : tensor<4xf32> }}"""


@pytest.mark.parametrize(
    ("value", "op", "same"),
    [("1.0", "multiply", True), ("0.0", "subtract", True), ("1.0", "divide", True),
     ("0.0", "add", False), ("-0.0", "subtract", False), ("2.0", "multiply", False)],
)  # fmt: skip
def test_ops_that_change_no_bit_do_not_count(value: str, op: str, same: bool) -> None:
    """`x + 0.0` is 0 for -0, and `x - -0.0` too."""
    text = "ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"
    assert hs.diff(hs.read(text), hs.read(ADDED.format(value, op))).none is same


def test_the_elements_of_a_transposed_array_are_in_another_order() -> None:
    flat = hs.read("ENTRY e { p = f32[2,3] parameter(0) ROOT r = f32[6] reshape(p) }")
    moved = hs.read("""func.func @main(%p: tensor<2x3xf32>) -> tensor<6xf32> {
      %t = stablehlo.transpose %p, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
      %r = stablehlo.reshape %t : (tensor<3x2xf32>) -> tensor<6xf32>
      return %r : tensor<6xf32> }""")
    assert not hs.diff(flat, moved).none


def test_elements_that_the_text_leaves_out_are_not_compared() -> None:
    text = "ENTRY e { x = f32[12] parameter(0) c = f32[12] constant({...}) "
    text += "ROOT y = f32[12] add(x, c) }"
    numbers = ", ".join(f"{n}.0" for n in range(12))
    mlir = f"""func.func @main(%x: tensor<12xf32>) -> tensor<12xf32> {{
      %z = stablehlo.constant dense<[{numbers}]> : tensor<12xf32>
      %0 = stablehlo.add %x, %z : tensor<12xf32>
      return %0 : tensor<12xf32> }}"""
    found = hs.diff(hs.read(text), hs.read(mlir))
    assert found.none
    assert any("not compared" in note for note in found.notes)


def test_the_command_says_what_does_not_count(tmp_path: Path) -> None:
    a, b = tmp_path / "a.hlo", tmp_path / "b.mlir"
    a.write_text(HLO)
    b.write_text(MLIR)
    run = CliRunner().invoke(app, ["diff", str(a), str(b)])
    assert run.exit_code == 0
    assert run.output.startswith("the same\nnote: HLO against StableHLO")
    run = CliRunner().invoke(app, ["diff", str(a), str(b), "--json"])
    assert json.loads(run.output)["notes"]


def test_functions_that_call_each_other_often_are_compared_in_time() -> None:
    depth = 40
    functions = "".join(
        f"""func.func private @f{k}(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {{
          %0 = call @f{k + 1}(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
          %1 = call @f{k + 1}(%0, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
          return %1 : tensor<f32> }}\n"""
        for k in range(depth)
    )
    mlir = f"""{functions}
      func.func private @f{depth}(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {{
        %0 = stablehlo.add %x, %y : tensor<f32>
        return %0 : tensor<f32> }}
      func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {{
        %0 = call @f0(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32> }}"""
    hlo = f"f{depth} {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }}"
    for k in reversed(range(depth)):
        hlo += f"""f{k} {{ x = f32[] parameter(0) y = f32[] parameter(1)
          a = f32[] call(x, y), to_apply=f{k + 1}
          ROOT r = f32[] call(a, x), to_apply=f{k + 1} }}\n"""
    hlo += """ENTRY e { x = f32[] parameter(0) y = f32[] parameter(1)
      ROOT r = f32[] call(x, y), to_apply=f0 }"""
    assert hs.diff(hs.read(hlo), hs.read(mlir)).none


SPELLINGS = {
    "a truth compared with a constant": (
        "m = f32[4] negate(x) ROOT r = f32[4] select(b, x, m)",
        """%f = stablehlo.constant dense<false> : tensor<4xi1>
        %b1 = stablehlo.compare NE, %b, %f : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
        %t = stablehlo.constant dense<true> : tensor<4xi1>
        %b2 = stablehlo.compare EQ, %t, %b1 : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
        %m = stablehlo.negate %x : tensor<4xf32>
        %r = stablehlo.select %b2, %x, %m : tensor<4xi1>, tensor<4xf32>""",
        ("EQ, %t", "NE, %t"),
    ),
    "true and a truth": (
        "m = f32[4] negate(x) ROOT r = f32[4] select(b, x, m)",
        """%t = stablehlo.constant dense<true> : tensor<4xi1>
        %b1 = stablehlo.and %t, %b : tensor<4xi1>
        %m = stablehlo.negate %x : tensor<4xf32>
        %r = stablehlo.select %b1, %x, %m : tensor<4xi1>, tensor<4xf32>""",
        ("stablehlo.and", "stablehlo.xor"),
    ),
    "all of an array as a slice at run time": (
        "ROOT r = f32[4] negate(x)",
        """%c = stablehlo.constant dense<0> : tensor<i32>
        %s = stablehlo.dynamic_slice %x, %c, sizes = [4] : (tensor<4xf32>, tensor<i32>)
            -> tensor<4xf32>
        %r = stablehlo.negate %s : tensor<4xf32>""",
        ("negate %s", "abs %s"),
    ),
    "a part of a concatenation": (
        "ROOT r = f32[4] negate(x)",
        """%m = stablehlo.abs %x : tensor<4xf32>
        %j = stablehlo.concatenate %m, %x, %m, dim = 0 :
            (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<12xf32>
        %s = stablehlo.slice %j [4:8] : (tensor<12xf32>) -> tensor<4xf32>
        %r = stablehlo.negate %s : tensor<4xf32>""",
        ("[4:8]", "[5:9]"),
    ),
    "a reduction of nothing": (
        "one = f32[] constant(3) o = f32[4] broadcast(one), dimensions={}"
        " ROOT r = f32[4] multiply(x, o)",
        """%e = stablehlo.constant dense<> : tensor<0x4xf32>
        %o = stablehlo.constant dense<3.0> : tensor<f32>
        %s = stablehlo.reduce(%e init: %o) applies stablehlo.add across dimensions = [0] :
            (tensor<0x4xf32>, tensor<f32>) -> tensor<4xf32>
        %r = stablehlo.multiply %x, %s : tensor<4xf32>""",
        ("dense<3.0>", "dense<2.0>"),
    ),
    "a constant in another shape": (
        "c = f32[1,4] constant({{1, 2, 3, 4}}) d = f32[4] reshape(c)"
        " ROOT r = f32[4] multiply(x, d)",
        """%c = stablehlo.constant dense<[[1.0], [2.0], [3.0], [4.0]]> : tensor<4x1xf32>
        %d = stablehlo.reshape %c : (tensor<4x1xf32>) -> tensor<4xf32>
        %r = stablehlo.multiply %x, %d : tensor<4xf32>""",
        ("[3.0]", "[5.0]"),
    ),
    "a composite": (
        "ROOT r = f32[4] negate(x)",
        '%r = stablehlo.composite "n.n" %x {decomposition = @n} : (tensor<4xf32>) -> tensor<4xf32>',
        ("@n}", "@a}"),
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_other_spellings_of_a_value_do_not_count(name: str) -> None:
    line, lines, (before, after) = SPELLINGS[name]
    hlo = hs.read(f"ENTRY e {{ x = f32[4] parameter(0) b = pred[4] parameter(1)\n{line} }}")
    mlir = f"""func.func @main(%x: tensor<4xf32>, %b: tensor<4xi1>) -> tensor<4xf32> {{
        {lines}
        return %r : tensor<4xf32> }}
      func.func private @n(%x: tensor<4xf32>) -> tensor<4xf32> {{
        %r = stablehlo.negate %x : tensor<4xf32>
        return %r : tensor<4xf32> }}
      func.func private @a(%x: tensor<4xf32>) -> tensor<4xf32> {{
        %r = stablehlo.abs %x : tensor<4xf32>
        return %r : tensor<4xf32> }}"""
    assert before in mlir
    for text, same in ((mlir, True), (mlir.replace(before, after), False)):
        assert hs.diff(hlo, hs.read(text)).none is same
        assert hs.diff(hs.read(text), hlo).none is same


DIFFERENT = {
    "complex_fft2": "the HLO has the exponential of a complex number in terms of real ones",
    "conjugate_gradient_f64": "the HLO has no `x + 0.0`, which is not x for -0",
    "mamba_assoc_scan_fwd": "the HLO has no `x + 0.0`, which is not x for -0",
    "mamba_assoc_scan_grad": "the HLO has no `x + 0.0`, which is not x for -0",
    "rng_gamma_rejection": "the HLO has other ops for the inverse error function than the pass",
    "shard_map_collectives": "the HLO has the body of a manual computation between custom calls",
    "sort_topk_argmax": "the HLO has ApproxTopK in terms of a sort",
}
"""Models that are not the same in both languages, and why: they compute other bits or say more."""


@pytest.mark.slow
@needs_models
def test_models_of_jax_are_the_same_in_both_languages(full: bool) -> None:
    names = [p.name.removesuffix(".stablehlo.mlir") for p in MODELS.glob("*.stablehlo.mlir")]
    both = sorted(name for name in names if (MODELS / f"{name}.hlo.txt").is_file())
    assert set(DIFFERENT) <= set(both)
    few = both if full else sorted({*both[::8], *DIFFERENT, "gather_variants", "lu_solve_det_inv"})
    found = {
        name
        for name in few
        if not hs.diff(
            hs.read(MODELS / f"{name}.hlo.txt"), hs.read(MODELS / f"{name}.stablehlo.mlir")
        ).none
    }
    assert found == {*DIFFERENT}


@needs_models
@pytest.mark.parametrize(
    "name",
    ["kmeans_loop", "mlp_train_step", "vit_fwd", "mandelbrot_while", "smith_waterman",
     "transformer_decoder_fwd", "unet_fwd", "sharded_tensor_parallel_mlp", "large_constants"],
)  # fmt: skip
def test_programs_of_jax_are_the_same_in_both_languages(name: str) -> None:
    hlo = hs.read(MODELS / f"{name}.hlo.txt")
    assert hs.diff(hlo, hs.read(MODELS / f"{name}.stablehlo.mlir")).none
