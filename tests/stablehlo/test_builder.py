# ruff: noqa: E501  (programs read best as they are printed)
"""StableHLO made from Python: types follow, mistakes are told, what is made verifies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mypy.api
import numpy as np
import pytest

import hloscope as hs
from hloscope.errors import HloscopeError, VerifyError
from hloscope.ir.op import NotInferredError
from hloscope.mlir.dialects.registry import CLASSES
from hloscope.mlir.ir import Block, Operation, Region, Value
from hloscope.mlir.types import type_text
from hloscope.stablehlo.builder import Builder, Chlo
from hloscope.stablehlo.nodes import stub


def made(build: Callable[..., Any], **arguments: str) -> str:
    """The text of a function that returns what `build` makes, after it was verified."""
    b = Builder()
    with b.function("f", **arguments) as values:
        returned = build(b, *values)
        b.return_(*returned if isinstance(returned, tuple) else [returned])
    assert hs.verify(b.module) == []
    text = str(b)
    assert hs.print_stablehlo(hs.parse_stablehlo(text), names="source") == text
    return text


def lessthan(b: Builder) -> Callable[..., Any]:
    return lambda x, y, *_: b.compare(x, y, comparison_direction="LT")


CASES: list[tuple[Callable[..., Any], dict[str, str], str]] = [
    (lambda b, x: b.transpose(x, permutation=[1, 0]), {"x": "2x3xf32"}, "transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>"),
    (lambda b, x, y: b.and_(x, y), {"x": "4xi1", "y": "4xi1"}, "and %x, %y : tensor<4xi1>"),
    (lambda b, x: b.slice(x, start_indices=[1], limit_indices=[7], strides=[2]), {"x": "8xf32"}, "slice %x [1:7:2] : (tensor<8xf32>) -> tensor<3xf32>"),
    (lambda b, x: b.concatenate([x, x], x, dimension=0), {"x": "2xf32"}, "concatenate %x, %x, %x, dim = 0 : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<6xf32>"),
    (lambda b, x: b.reshape(x, type="3x2xf32"), {"x": "2x3xf32"}, "reshape %x : (tensor<2x3xf32>) -> tensor<3x2xf32>"),
    (lambda b, x: b.fft(x, fft_type="RFFT", fft_length=[8]), {"x": "8xf32"}, "fft %x, type = RFFT, length = [8] : (tensor<8xf32>) -> tensor<5xcomplex<f32>>"),
    (lambda b, x, y: b.dot_general(x, y, lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0], precision_config=["HIGH", "DEFAULT"]), {"x": "2x3xf32", "y": "3x4xf32"}, "dot_general %x, %y, contracting_dims = [1] x [0], precision = [HIGH, DEFAULT] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>"),
    (lambda b, x, y: b.map([x, y], dimensions=[0], computation=b.add), {"x": "4xf32", "y": "4xf32"}, '"stablehlo.map"(%x, %y) <{dimensions = array<i64: 0>}>'),
    (lambda b, x, y: b.sort(x, y, dimension=0, is_stable=True, comparator=lessthan(b)), {"x": "4xf32", "y": "4xi32"}, '%0:2 = "stablehlo.sort"(%x, %y) <{dimension = 0 : i64, is_stable = true}>'),
    (lambda b, x: b.all_reduce(x, replica_groups=[[0, 1], [2]], channel_handle=(3, 1), use_global_device_ids=True, computation=b.add), {"x": "4xf32"}, "replica_groups = dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>, use_global_device_ids"),
    (lambda b, x: b.custom_call(x, call_target_name="f", has_side_effect=True, type="2xf32", attributes={"mhlo.x": 1}), {"x": "4xf32"}, "custom_call @f(%x) {has_side_effect = true, mhlo.x = 1 : i64} : (tensor<4xf32>) -> tensor<2xf32>"),
    (lambda b, x: b.chlo.top_k(x, k=2), {"x": "4xf32"}, "chlo.top_k(%x, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)"),
    (lambda b, x, y: b.chlo.broadcast_add(x, y), {"x": "4xf32", "y": "3x1xf32"}, "chlo.broadcast_add %x, %y : (tensor<4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>"),
    (lambda b, x: b.case(x, branches=[lambda: b.constant(1, "i32"), lambda: b.constant(2, "i32")]), {"x": "i32"}, '"stablehlo.case"(%x) ({'),
    (lambda b, x: b.while_(x, cond=lambda i: b.compare(i, i, comparison_direction="LT"), body=lambda i: b.add(i, i)), {"x": "i32"}, "stablehlo.while(%arg0 = %x) : tensor<i32>"),
    (lambda b, x: b.op("other.op", x, types=["2xf32"], attributes={"k": [1, "s", 0.5]}), {"x": "4xf32"}, '"other.op"(%x) {k = [1, "s", 5.000000e-01]} : (tensor<4xf32>) -> tensor<2xf32>'),
]  # fmt: skip


@pytest.mark.parametrize(("build", "arguments", "expected"), CASES, ids=range(len(CASES)))
def test_an_op_is_made(build: Callable[..., Any], arguments: dict[str, str], expected: str) -> None:
    if "other.op" in expected:
        b = Builder()
        with b.function("f", **arguments) as values:
            b.return_(build(b, *values))
        assert expected in str(b)
        return
    assert expected in made(build, **arguments)


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (1.5, "f32", "dense<1.500000e+00> : tensor<f32>"),
        (0, "1000000x1000000xi8", "dense<0> : tensor<1000000x1000000xi8>"),
        ([[1, 2], [3, 4]], "2x2xi64", "dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>"),
        (np.array([True, False]), None, "dense<[true, false]> : tensor<2xi1>"),
        (1, "2xbf16", "dense<1.000000e+00> : tensor<2xbf16>"),
        ("dense<2> : tensor<3xi4>", None, "dense<2> : tensor<3xi4>"),
    ],
)
def test_a_constant_is_made_of_what_there_is(value: Any, type: str | None, text: str) -> None:
    assert f"stablehlo.constant {text}" in made(lambda b: b.constant(value, type))


def test_functions_call_functions() -> None:
    b = Builder("m")
    with b.function("helper", "4xf32", private=True) as (x,):
        b.return_(b.negate(x))
    with b.function(x="4xf32") as (x,):
        y = b.call("helper", x)
        b.return_(b.composite(y, name="a.b", decomposition="helper"))
    assert hs.verify(b.module) == []
    assert "func.func private @helper(%arg0: tensor<4xf32>)" in str(b)
    assert 'stablehlo.composite "a.b" %0 {decomposition = @helper}' in str(b)
    with pytest.raises(ValueError, match="did you mean `helper`"), b.function("g"):
        b.call("helpre")
    with pytest.raises(ValueError, match="there is a function"), b.function("helper"):
        pass


def test_a_function_without_return_returns_nothing() -> None:
    b = Builder()
    with b.function("f", x="4xf32") as (x,):
        b.optimization_barrier(x)
    assert hs.verify(b.module) == []
    assert "return\n" in str(b)


WRONG: list[tuple[Callable[..., Any], type[Exception], str]] = [
    (lambda b, x: b.transpos(x), AttributeError, "did you mean `transpose`"),
    (lambda b, x: b.transpose(x, permutatio=[1]), TypeError, "did you mean `permutation`"),
    (lambda b, x: b.transpose(x), VerifyError, "requires attribute 'permutation'"),
    (lambda b, x: b.transpose(x, permutation=[0, 0]), VerifyError, "permutation"),
    (lambda b, x: b.transpose(x, permutation=3), TypeError, "`permutation` of `stablehlo.transpose`"),
    (lambda b, x: b.reshape(x), NotInferredError, "give `type=`"),
    (lambda b, x: b.reshape(x, type="2xf33"), HloscopeError, "expected"),
    (lambda b, x: b.add(x, 1), TypeError, "use `b.constant`"),
    (lambda b, x: b.constant(1), ValueError, "give the type"),
    (lambda b, x: b.constant(300, "i8"), ValueError, "300 is no s8"),
    (lambda b, x: b.constant([1, 2], "3xi8"), VerifyError, "is none of"),
    (lambda b, x: b.constant("1 : i64"), ValueError, "a constant is"),
    (lambda b, x: b.reduce(x, x, dimensions=[0]), TypeError, "needs a function for its region: `body=`"),
    (lambda b, x: b.add(x, b.constant(1.0, "f32")), VerifyError, "has rank 0, needs 2"),
    (lambda b, x: b.op("a.b", x, attributes={"k": object()}), TypeError, "no attribute is made of"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "kind", "message"), WRONG)
def test_a_mistake_is_told(build: Callable[..., Any], kind: type[Exception], message: str) -> None:
    b = Builder()
    with b.function("f", x="2x3xf32") as (x,), pytest.raises(kind, match=message):
        build(b, x)


def test_ops_stand_in_functions() -> None:
    b = Builder()
    with pytest.raises(ValueError, match="stand in functions"):
        b.constant(1, "i32")
    with b.function("f"), pytest.raises(ValueError, match="inside another"), b.function("g"):
        pass


def test_every_op_is_a_method_with_a_word_about_it() -> None:
    for full in CLASSES:
        dialect, _, name = full.partition(".")
        home: type = {"stablehlo": Builder, "chlo": Chlo}.get(dialect, object)
        if home is object or name == "return":
            continue
        name = name.replace("-", "_")
        method = getattr(home, name, None) or getattr(home, f"{name}_")
        assert method.__doc__, name


def test_types_are_inferred_from_python() -> None:
    def texts(*given: Any, **attributes: Any) -> list[str]:
        return [type_text(t) for t in hs.infer(*given, **attributes)]

    assert texts("add", ["?xf32", "4xf32"]) == ["tensor<4xf32>"]
    assert texts("chlo.top_k", ["4x8xf32"], k=2) == ["tensor<4x2xf32>", "tensor<4x2xi32>"]
    assert texts(
        hs.parse_hlo("ENTRY e { p = f32[2] parameter(0) ROOT n = f32[2] negate(p) }").entry.root.op,
        ["2xf32"],
    ) == ["tensor<2xf32>"]
    with pytest.raises(VerifyError) as caught:
        hs.infer("slice", ["8xf32"], start_indices=[0], limit_indices=[9], strides=[1])
    assert caught.value.rule == "slice_c3"
    with pytest.raises(NotInferredError):
        hs.infer("reshape", ["8xf32"])
    with pytest.raises(TypeError, match="no op is called `tranpose`"):
        hs.infer("tranpose", ["8xf32"])


def test_a_value_is_known_by_its_operation() -> None:
    b = Builder()
    with b.function("f", x="2xf32") as (x,):
        y = b.negate(x)
        assert isinstance(y, Value)
        assert isinstance(y.owner, Operation)
        assert y.owner.result is y


def test_type_checkers_know_the_methods(request: pytest.FixtureRequest) -> None:
    path = request.config.rootpath / "hloscope/stablehlo/op_methods.pyi"
    assert path.read_text() == stub(), (
        f"run: python -m hloscope.stablehlo.nodes > {path.relative_to(request.config.rootpath)}"
    )


WRONG = """\
from hloscope.stablehlo.builder import Builder

b = Builder()
with b.function("main", x="2x3xf32") as (x,):
    b.add(x, x, foo=1)
    b.cosine(1)
    b.compare(x, x, comparison_direction="LX")
    b.transpose(x)
    b.nothing(x)
    b.return_(b.chlo.top_k(x, k=2)[1], b.transpose(x, permutation=[1, 0]))
"""


@pytest.mark.slow
def test_a_type_checker_finds_mistakes(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree of the few files that say the types: mypy takes 16 s to read the whole package."""
    for name in (
        "stablehlo/builder.py",
        "stablehlo/op_methods.pyi",
        "mlir/ir.py",
    ):
        file = tmp_path / "hloscope" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((request.config.rootpath / "hloscope" / name).read_text())
    (tmp_path / "program.py").write_text(WRONG)
    monkeypatch.chdir(tmp_path)
    options = "--follow-imports=silent --ignore-missing-imports --no-site-packages --config-file="
    told, _, _ = mypy.api.run(["program.py", *options.split(), "--cache-dir=cache"])
    lines = [int(line.split(":")[1]) for line in told.splitlines() if ": error: " in line]
    assert lines == [5, 6, 7, 8, 9], told


def test_an_op_of_another_dialect_has_its_regions() -> None:
    b = Builder()
    with b.function("f", x="4xf32") as (x,):
        b.return_(b.op("other.op", x, types=["4xf32"], regions=[Region((Block(),))]))
    assert '"other.op"(%x) ({' in str(b)
