"""Element-wise ops of every type on special values, against StableHLO's own interpreter.

It is jaxlib's, asked in a child process.  `--full` asks about all types.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from hloscope.errors import HloscopeError
from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.shown import ulps
from hloscope.ir.types import TensorType
from hloscope.mlir.literals import dense_text, from_array
from hloscope.mlir.types import ELEMENTS
from hloscope.stablehlo import parse_stablehlo
from tests.conftest import SHARED
from tests.interpreter.ops import COMPLEX, FLOATS, INTEGERS, array, dtype_of
from tests.interpreter.test_probes import recorded
from tests.oracle import needs_jaxlib

_CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from stablehlo_oracle import Worker
worker = Worker(timeout=60)
json.dump([worker.call("evaluate", text=text) for text in json.load(sys.stdin)], sys.stdout)
"""
OF_ALL = "add multiply maximum minimum".split()
OF_NUMBERS = "subtract divide negate power".split()
OF_INTEGERS = "remainder and or xor not popcnt count_leading_zeros".split()
SHIFTS = "shift_left shift_right_logical shift_right_arithmetic".split()
OF_FLOATS = """
    remainder abs sign floor ceil round_nearest_afz round_nearest_even cbrt exponential
    exponential_minus_one log log_plus_one logistic rsqrt sqrt sine cosine tan tanh atan2 is_finite
""".split()
OF_COMPLEX = "abs exponential log sqrt sine cosine tanh rsqrt".split()
UNARY = {*OF_FLOATS, *OF_COMPLEX, "negate", "not", "popcnt", "count_leading_zeros"} - {
    "remainder", "atan2",
}  # fmt: skip
COMPARISONS = "EQ NE LT GE".split()
VALUES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.75, np.inf, -np.inf, np.nan, 1e-3, 7.0, 100.0, -1e30]
DEVIATING = {("f8E3M4", op) for op in OF_FLOATS[3:7]} | {("f6E2M3FN", op) for op in OF_FLOATS[3:7]}
"""The reference's rounding to integers fails for types whose largest number is small."""


class Question(NamedTuple):
    """One op on one type."""

    op: str
    spelling: str
    result: str
    text: str


def values(spelling: str) -> Any:
    element = ELEMENTS[spelling]
    if element.kind == "pred":
        return np.bool_([False, True])
    if element.kind == "complex":
        return np.array([1, -2.5, 0.3 + 1j, -2.5 - 2.5j, 7j]).astype(dtype_of(spelling))
    if element.kind == "float":
        with np.errstate(over="ignore"):
            return array(VALUES, spelling)
    low, high = (-(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1)
    if element.kind == "unsigned":
        low, high = 0, (1 << element.bits) - 1
    numbers = {low, low + 1, -7, -2, -1, 0, 1, 2, 3, 5, 8, 31, 32, high - 1, high}
    chosen = [n for n in sorted(numbers) if low <= n <= high]
    return np.array(chosen, np.int64 if low else np.uint64).astype(dtype_of(spelling))


def ops_of(spelling: str) -> list[str]:
    match ELEMENTS[spelling].kind:
        case "pred":
            return [*OF_ALL, "and", "or", "xor", "not", *COMPARISONS]
        case "complex":
            return ["add", "subtract", "multiply", "divide", "negate", *OF_COMPLEX, "EQ", "NE"]
        case "float":
            return [*OF_ALL, *OF_NUMBERS, *OF_FLOATS, *COMPARISONS]
        case _:
            return [*OF_ALL, *OF_NUMBERS, *OF_INTEGERS, *SHIFTS, *COMPARISONS]


def question(op: str, spelling: str, result: str) -> Question:
    some = values(spelling)
    operands = [some]
    attributes = ""
    if op != "convert" and op not in UNARY:
        rows, columns = np.indices((some.size, some.size)).reshape(2, -1)
        operands = [some[rows], some[columns]]
    if op in ("divide", "remainder") and ELEMENTS[spelling].kind in ("signed", "unsigned"):
        kept = operands[1] != 0  # which would end the process
        operands = [x[kept] for x in operands]
    name = op
    if op in COMPARISONS:
        name = "compare"
        attributes = f"comparison_direction = #stablehlo<comparison_direction {op}>"
    size = operands[0].size
    type_, out = f"tensor<{size}x{spelling}>", f"tensor<{size}x{result}>"
    literals = [
        dense_text(from_array(x, TensorType(ELEMENTS[spelling], (size,)))) for x in operands
    ]
    lines = [f"  %{i} = stablehlo.constant {x} : {type_}" for i, x in enumerate(literals)]
    names = ", ".join(f"%{i}" for i in range(len(operands)))
    types = ", ".join([type_] * len(operands))
    lines.append(f'  %r = "stablehlo.{name}"({names}) {{{attributes}}} : ({types}) -> {out}')
    text = f"func.func @main() -> {out} {{\n" + "\n".join(lines) + f"\n  return %r : {out}\n}}\n"
    return Question(op, spelling, result, text)


def questions(spelling: str) -> Iterator[Question]:
    for op in ops_of(spelling):
        if (spelling, op) not in DEVIATING:
            result = spelling[8:-1] if op == "abs" and spelling in COMPLEX else spelling
            yield question(op, spelling, "i1" if op in (*COMPARISONS, "is_finite") else result)
    for target in ("i1", *INTEGERS, *FLOATS, *COMPLEX):
        if target not in (spelling, "f8E8M0FNU"):
            yield question("convert", spelling, target)


def ask(texts: list[str]) -> list[dict[str, Any]]:
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(SHARED / "oracle")],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(child.stdout)  # type: ignore[no-any-return]


def off(found: Any, expected: Any, asked: Question) -> int:
    """How many units in the last place the worst element is off."""
    wide = found.astype(expected.dtype)  # what is narrower than a byte is told in a wider type
    if expected.dtype.kind in "biu":
        return int((wide != expected).sum())
    if asked.spelling in COMPLEX and expected.dtype.kind == "c":
        gap = np.abs(wide - expected) / np.maximum(np.abs(expected), 1e-30)
        return int(np.ceil(gap.max() / np.finfo(expected.dtype).eps))
    return int(ulps(wide, expected).max())


@needs_jaxlib
def test_the_reference_computes_the_same(full: bool) -> None:
    sample = ("i1", "i4", "i8", "ui32", "bf16", "f32", "f8E4M3FN", "complex<f32>")
    every = [n for n in ("i1", *INTEGERS, *FLOATS, *COMPLEX) if n not in ("f8E8M0FNU", "ui1")]
    asked = [q for n in (every if full else sample) for q in questions(n)]
    compared = 0
    for one, answer in zip(asked, ask([q.text for q in asked]), strict=True):
        if "values" not in answer:  # it has no such conversion
            continue
        (found,) = evaluate(parse_stablehlo(one.text))
        expected = recorded(answer["values"][0])
        allowed = 1 if one.spelling == "f64" else 8 if one.spelling in COMPLEX else 0
        assert off(found, expected, one) <= allowed, one.text
        compared += 1
    assert compared > len(asked) * 0.9


def test_what_the_reference_is_asked_is_valid() -> None:
    for spelling in ("i1", "ui2", "f4E2M1FN", "complex<f64>"):
        for one in questions(spelling):
            try:
                evaluate(parse_stablehlo(one.text))
            except HloscopeError as error:
                pytest.fail(f"{error}\n{one.text}")
