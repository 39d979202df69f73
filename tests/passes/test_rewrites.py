"""Each rewrite fires on a program of its own, keeps what it computes, and stays off others."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloscope.errors import HloscopeError
from hloscope.interpreter import evaluate
from hloscope.ir import TensorType, TupleType
from hloscope.passes.folding import FOLDS, PURE_LOOPS
from hloscope.passes.patterns import Limits, Pattern, limited
from hloscope.passes.simplifying import SIMPLIFICATIONS
from hloscope.passes.simplifying_laws import ROWS
from hloscope.stablehlo import parse_stablehlo, to_graph
from hloscope.verifier import verify_mlir
from tests.passes.folded import applied, pass_of
from tests.passes.rewrites import Case, cases

FIRING = [case for case in cases() if case.fires]
STAYING = [case for case in cases() if not case.fires]
LAWS = {law.name for law in ROWS}
REWRITES: dict[str, Pattern] = {
    row.name: row for row in (*PURE_LOOPS, *FOLDS, *SIMPLIFICATIONS) if row.name not in LAWS
}
BY_ROW = {
    *("abs", "add", "and", "cosine", "divide", "erf", "exponential", "log", "logistic", "maximum"),
    *("minimum", "multiply", "negate", "not", "or", "remainder", "round_nearest_afz", "rsqrt"),
    *("round_nearest_even", "sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor"),
}
"""Folds that are rows of one table, and have tests of their own."""


def patterns(name: str) -> Any:
    """The rewrite alone."""
    return limited([REWRITES[name]], Limits(100))


def value(rng: np.random.Generator, type: Any, given: object = None) -> Any:
    """Random elements; `given` is the shape, as a tuple, or the elements, as a list."""
    if isinstance(type, TupleType):
        return tuple([value(rng, part) for part in type.elements])
    assert isinstance(type, TensorType)
    name = type.element.numpy
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    if isinstance(given, list):
        return np.array(given, dtype)
    shape = given if isinstance(given, tuple) else tuple(2 if s is None else s for s in type.sizes)
    if type.element.kind == "float":
        return rng.choice([0.0, -0.0, 1.5, -2.0, np.nan, np.inf], shape).astype(dtype)
    return np.asarray(rng.integers(0, 2 if type.element.kind == "pred" else 5, shape)).astype(dtype)


def flat(values: Any) -> list[bytes]:
    if isinstance(values, tuple):
        return [raw for part in values for raw in flat(part)]
    return [np.ascontiguousarray(values).tobytes()]


@pytest.mark.slow(keep=len(FIRING))
@pytest.mark.parametrize("case", FIRING, ids=lambda case: case.name)
def test_a_rewrite_fires_and_keeps_values(case: Case) -> None:
    text = case.text
    program = parse_stablehlo(text)
    assert not verify_mlir(program.tree, first_only=True)
    module, run = applied(patterns(case.name), text)
    assert run.fired[case.name], text
    wrong = verify_mlir(module, first_only=True)
    assert not wrong, f"{wrong}\n{text}"
    after, rng = to_graph(module), np.random.default_rng(0)
    given = (*case.arguments, *[None] * 9)
    for _ in range(4):
        types = [parameter.type for parameter in program.entry.parameters]
        arguments = [value(rng, t, g) for t, g in zip(types, given, strict=False)]
        if "custom_call" in text:
            continue
        before = evaluate(program, arguments)
        assert flat(before) == flat(evaluate(after, arguments))


@pytest.mark.slow(keep=len(STAYING))
@pytest.mark.parametrize("case", STAYING, ids=lambda case: case.name)
def test_a_rewrite_stays_off_what_it_would_change(case: Case) -> None:
    program = parse_stablehlo(case.text)
    assert not verify_mlir(program.tree, first_only=True)
    _, run = applied(patterns(case.name), case.text)
    assert not run.fired, case.text


def test_every_rewrite_has_a_case() -> None:
    folds = {f"fold_{name}" for name in BY_ROW}
    assert {case.name for case in FIRING} == REWRITES.keys() - folds
    assert folds <= REWRITES.keys()


@pytest.mark.parametrize("case", FIRING, ids=lambda case: case.name)
def test_names_of_other_ops_do_no_harm(case: Case) -> None:
    """Operands too many or too few: the verifier would tell; a rewrite may do nothing."""
    program = parse_stablehlo(case.text).tree
    function_op = program.regions[0].blocks[0].operations[0]
    for operation in [*function_op.regions[0].blocks[0].operations]:
        kept = operation.operands
        if operation.name == "func.return":
            continue
        for operands in (kept[:-1], (*kept, *kept), kept[::-1], ()):
            operation.operands = operands
            with suppress(HloscopeError):
                pass_of(patterns(case.name)).apply(program)
        operation.operands = kept
