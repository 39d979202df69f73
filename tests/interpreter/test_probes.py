"""What is easy to get wrong, against what the reference interpreter was seen to do.

`oracle/semantics_probes.jsonl` has the programs and its results.  Where the specification says
something else, or the reference ends the process, the result expected here is written down.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloscope.errors import HloscopeError
from hloscope.interpreter.evaluation import evaluate
from hloscope.ir.arrays import ml_dtypes
from tests.interpreter.helpers import read

OWN: dict[str, list[Any]] = {
    "divide i32 by zero": [-1],
    "remainder i32 by zero": [1],
    "compare NaN FLOAT vs TOTALORDER": [[False] * 3, [False, True, True], [True, True, False]],
    "compare complex LT": [False],
    "gather ui32 index": [[4, 1]],
    "scatter leaves its input unmodified": [[1, 8], [7, 8]],
    "convolution i8 -> i32": [[[[20000]]]],
    "select_and_scatter overlapping windows": [[0.5, 30.5, 30.5, 0.5]],
    "sort NaN and signed zeros": [[np.nan, -np.inf, -0.0, 0.0, 2.0, np.nan]],
}
"""Results where the specification, or XLA where it is silent, differs from the reference.

Comparison by TOTALORDER is IEEE 754's; unsigned indices are no negative numbers; elements are
converted before they are multiplied; each element of `select_and_scatter` starts from `init` once.
"""
ROUNDED = {"log_plus_one complex": 2e-7, "exponential_minus_one complex": 2e-7,
           "fft complex<f64>": 1e-14}  # fmt: skip
"""Probes in which the reference is off by its rounding, and how far."""


def probes(shared: Path) -> list[dict[str, Any]]:
    path = shared / "conformance" / "stablehlo" / "oracle" / "semantics_probes.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def recorded(value: dict[str, Any]) -> Any:
    name = value["dtype"]
    dtype = np.dtype(name if hasattr(np, name) or name == "bool" else getattr(ml_dtypes, name))
    return np.frombuffer(bytes.fromhex(value["hex"]), dtype).reshape(value["shape"])


def assert_same(found: Any, expected: Any, tolerance: float) -> None:
    found = np.asarray(found)
    assert found.shape == expected.shape
    wide = expected.dtype if expected.dtype.kind in "biuc" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    if tolerance:
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(a, b)
        if wide == np.float64:
            real = b == b  # the sign of NaN is nobody's
            assert (np.signbit(a) == np.signbit(b))[real].all()


def test_probes(shared: Path) -> None:
    count = 0
    for probe in probes(shared):
        name = probe["name"]
        if name in OWN:
            for value, own in zip(evaluate(read(probe["text"])), OWN[name], strict=True):
                np.testing.assert_array_equal(np.asarray(value), own, err_msg=name)
        elif "values" in probe:
            found = evaluate(read(probe["text"]))
            for value, expected in zip(found, probe["values"], strict=True):
                assert_same(value, recorded(expected), ROUNDED.get(name, 0.0))
        else:
            continue
        count += 1
    assert count >= 108


def test_where_the_reference_dies_nothing_else_does(shared: Path) -> None:
    """What it cannot evaluate has values here, or is refused as an error of the program."""
    refused = []
    for probe in probes(shared):
        if "values" not in probe:
            try:
                evaluate(read(probe["text"]))
            except HloscopeError:
                refused.append(probe["name"])
    allowed = {"subtract i1", "op: all_reduce outside run_parallel"}
    assert set(refused) <= allowed, refused


@pytest.mark.parametrize("name", ["divide", "remainder"])
@pytest.mark.parametrize("element", ["i32", "ui8", "i4"])
def test_division_by_zero_ends_no_process(name: str, element: str) -> None:
    text = f"""func.func @main() -> tensor<{element}> {{
      %a = stablehlo.constant dense<3> : tensor<{element}>
      %b = stablehlo.constant dense<0> : tensor<{element}>
      %r = stablehlo.{name} %a, %b : tensor<{element}>
      return %r : tensor<{element}>
    }}"""
    (found,) = evaluate(read(text))
    expected = 3 if name == "remainder" else {"i32": -1, "ui8": 255, "i4": -1}[element]
    assert int(found) == expected
