"""Programs of run-time sizes that JAX exported, run with actual arguments.

`conformance/stablehlo/oracle/testdata_dynamic.jsonl` has what jaxlib's interpreter returns for the
same arguments, once it has refined the program to their sizes.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from hloscope.errors import HloscopeError
from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.values import EvaluationError, dtype_of, fits
from hloscope.ir.types import TensorType
from hloscope.mlir.text.parser import parse_type
from hloscope.stablehlo import parse_stablehlo
from tests.conftest import SHARED, needs_shared
from tests.interpreter import models

ROOT = SHARED / "conformance" / "stablehlo"
RECORDS = ROOT / "oracle" / "testdata_dynamic.jsonl"
REFUSED = ("conv_general_dilated_1d_stride_2_",)
"""Their convolutions have two strides for one dimension: no sizes make them valid."""

pytestmark = needs_shared


@cache
def records() -> list[dict[str, Any]]:
    if not RECORDS.is_file():
        return []
    with RECORDS.open(encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [r for r in found if path_of(r).is_file()]


def path_of(record: dict[str, Any]) -> Any:
    return ROOT / record["file"].removeprefix("stablehlo/")


def argument(number: int, type_: str, dims: dict[str, int]) -> Any:
    """The argument jaxlib was given."""
    tensor = parse_type(type_)
    assert isinstance(tensor, TensorType)
    dtype = dtype_of(tensor.element)
    if str(number) in dims:
        return np.asarray(dims[str(number)], dtype)
    k: Any = (7 * np.arange(tensor.num_elements) + 3 + 5 * number) % 11
    match tensor.element.kind:
        case "pred":
            k = k % 2
        case "float":
            k = (k - 5) / 4
        case "complex":
            k = (k - 5) / 4 + 1j * ((k + 2) % 11 - 5) / 4
    return k.astype(dtype).reshape(tensor.shape)


def run(text: str, record: dict[str, Any]) -> tuple[Any, ...]:
    given = [argument(i, t, record["dims"]) for i, t in enumerate(record["types"])]
    return evaluate(parse_stablehlo(text, name=record["file"]), given)


def is_off(found: Any, expected: dict[str, Any]) -> bool:
    """Are these other bytes than those recorded?"""
    return bool(hashlib.sha256(found.tobytes()).hexdigest() != expected["sha256"])


def differs(found: Any, expected: dict[str, Any], other: Any) -> str:
    """How a value differs from the recorded one, nothing if it does not.

    Args:
        found: The value.
        expected: What is recorded: the type and a hash, of small values the bytes too.
        other: The value of the refined program, which stands in where only a hash is recorded.
    """
    type_ = parse_type(expected["type"])
    assert isinstance(type_, TensorType)
    if found.shape != type_.shape or found.dtype != dtype_of(type_.element):
        return f"{found.dtype}{list(found.shape)}, expected {expected['type']}"
    if not is_off(found, expected):
        return ""
    if "hex" in expected:
        other = np.frombuffer(bytes.fromhex(expected["hex"]), found.dtype).reshape(found.shape)
    if found.dtype.kind in "biu":
        return "" if np.array_equal(found, other) else f"{found} != {other}"
    loose = 4 * 2.0**-7 if found.dtype.itemsize < 4 else 1e-4
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), other.astype(wide)
    if np.allclose(a, b, rtol=loose, atol=1e-4, equal_nan=True):
        return ""
    return f"{found} != {other}"


@pytest.mark.slow
def test_programs_give_what_jaxlib_gives_for_their_refined_forms() -> None:
    wrong = {}
    for record in records():
        if "results" not in record:
            continue
        found = run(path_of(record).read_text(encoding="utf-8"), record)
        expected = record["results"]
        others = found
        if any(is_off(a, b) and "hex" not in b for a, b in zip(found, expected, strict=True)):
            others = run(record["text"], record)
        told = [differs(*x) for x in zip(found, expected, others, strict=True)]
        if any(told):
            wrong[record["file"]] = told
    assert not wrong


def test_programs_jaxlib_does_not_run_have_values_of_their_types() -> None:
    for record in records():
        if "results" in record or any(name in record["file"] for name in REFUSED):
            continue
        found = run(path_of(record).read_text(encoding="utf-8"), record)
        for value, type_ in zip(found, record["result_types"], strict=True):
            assert not fits(value, parse_type(type_)), record["file"]


def _solved(given: list[Any]) -> Any:
    upper = np.triu(given[1].astype("c16"), 1) + np.eye(4)
    return np.linalg.solve(upper, given[2].astype("c16"))


WANTED = {
    "roll_dynamic": lambda given: np.roll(given[1], 2),
    "dynamic_slice": lambda given: given[1][:, 2:],  # at [2, 9], which is moved inside
    "vmap_triangular_solve_a_complex64_4_4_b_complex64_4_1_dynamic": _solved,
}
"""What some programs give that jaxlib does not run."""


@pytest.mark.parametrize("name", WANTED)
def test_programs_jaxlib_does_not_run(name: str) -> None:
    record = next((r for r in records() if path_of(r).stem == name), None)
    if record is None:
        pytest.skip("the program is not there")
    given = [argument(i, t, record["dims"]) for i, t in enumerate(record["types"])]
    (found,) = run(path_of(record).read_text(encoding="utf-8"), record)
    wanted = WANTED[name](given)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_convolutions_are_refused(name: str) -> None:
    refused = [r for r in records() if name in r["file"]]
    for record in refused:
        with pytest.raises(HloscopeError):
            run(path_of(record).read_text(encoding="utf-8"), record)


POLYMORPHIC = sorted(p.name.partition(".")[0] for p in models.ROOT.glob("*.poly.stablehlo.mlir"))


@pytest.mark.parametrize("name", POLYMORPHIC)
def test_polymorphic_programs_run_with_the_sizes_of_their_arguments(name: str) -> None:
    text = (models.ROOT / f"{name}.poly.stablehlo.mlir").read_text(encoding="utf-8")
    found = evaluate(parse_stablehlo(text, name=name), models.recorded(name, "inputs"))
    _, why = models.compare(name, models.flat(found), models.recorded(name, "outputs"))
    assert not why


@pytest.mark.skipif("poly_convnet" not in POLYMORPHIC, reason="the program is not there")
def test_sizes_a_polymorphic_program_does_not_take() -> None:
    text = (models.ROOT / "poly_convnet.poly.stablehlo.mlir").read_text(encoding="utf-8")
    image, weights = models.recorded("poly_convnet", "inputs")
    with pytest.raises(EvaluationError, match="Division had remainder 1"):
        evaluate(parse_stablehlo(text), [image[:, :7], weights])
