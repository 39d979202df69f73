"""Functions of complex numbers as real arithmetic; programs whose RUN lines expand first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hloscope.interpreter import evaluate
from hloscope.passes.pipeline import find_pass
from hloscope.stablehlo import parse_stablehlo, print_stablehlo, to_graph
from tests.conftest import needs_shared
from tests.interpreter.chunks import PASS, Chunk, chunks, run

EXPAND = find_pass("complex-math-expander")
FUNCTIONS: dict[str, Any] = {
    "exponential": np.exp,
    "log": np.log,
    "log_plus_one": np.log1p,
    "sqrt": np.sqrt,
}
ULPS = {"log_plus_one": 32}
"""Where 1 + z is about a fifth in size, `log1p` is given a number near -1; all others have 4."""

PROGRAM = """func.func @main(%a: tensor<NxT>) -> tensor<NxT> {
  %0 = "stablehlo.OP"(%a) ATTRIBUTES : (tensor<NxT>) -> tensor<NxT>
  return %0 : tensor<NxT>
}"""


def program(op: str, count: int, type_: str = "complex<f32>", attributes: str = "") -> str:
    text = PROGRAM.replace("NxT>", f"{count}x{type_}>")
    return text.replace("OP", op).replace("ATTRIBUTES", attributes)


def numbers(random: np.random.Generator) -> Any:
    """Near 0, near the unit circle, near -1, wide."""
    angles, small = random.uniform(-np.pi, np.pi, 60), random.normal(size=(2, 60)) * 1e-3
    near = small[0] + 1j * small[1]
    wide = np.exp(random.uniform(-30, 30, (2, 60))) * random.choice([-1, 1], (2, 60))
    plain = random.uniform(-4, 4, (2, 60))
    every = [near, np.exp(1j * angles) * (1 + small[0]), near - 1, plain[0] + 1j * plain[1]]
    return np.concatenate([*every, wide[0] + 1j * wide[1]]).astype(np.complex64)


@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_both_parts_are_accurate(op: str, full: bool) -> None:
    """Each part by itself, against double precision."""
    for seed in range(30 if full else 3):
        given = numbers(np.random.default_rng(seed))
        if op == "exponential":
            given = given[np.abs(given) < 80]
        tree, _ = EXPAND.apply(parse_stablehlo(program(op, len(given))).tree)
        assert f"stablehlo.{op} %arg0" not in print_stablehlo(tree)
        found = np.asarray(evaluate(to_graph(tree), [given])[0])
        wide = FUNCTIONS[op](given.astype(np.complex128))
        if op == "log_plus_one":  # numpy's loses digits where 2x + |z|² cancels
            x, y = (part.astype(np.longdouble) for part in (given.real, given.imag))
            wide.real = np.log1p(2 * x + x * x + y * y) / 2
            wide.imag = np.arctan2(y, 1 + x)
        if op == "log":
            x, y = (part.astype(np.longdouble) for part in (given.real, given.imag))
            wide.real = np.log(x * x + y * y) / 2
        for mine, exact in ((found.real, wide.real), (found.imag, wide.imag)):
            unit = np.spacing(np.abs(exact).astype(np.float32))
            wrong = np.abs(mine - exact) > ULPS.get(op, 4) * unit
            assert not wrong.any(), given[wrong]


def test_signs_infinities_and_zeros() -> None:
    given = np.array([complex(-4, 0.0), complex(-4, -0.0), 0, complex(np.inf, 1), -1j], "c8")
    tree, _ = EXPAND.apply(parse_stablehlo(program("sqrt", 5)).tree)
    found = np.asarray(evaluate(to_graph(tree), [given])[0])
    assert np.array_equal(found[[0, 2, 3]].real, [0, 0, np.inf])
    assert found[0].imag == 2
    assert np.allclose(found[4], np.sqrt(-1j))


def test_what_is_not_asked_for_stays() -> None:
    tolerance = (
        "{result_accuracy = #stablehlo.result_accuracy<atol = 1.0e-5, ulps = 1,"
        " mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}"
    )
    for text in (program("sqrt", 3, attributes=tolerance), program("sqrt", 3, "f32")):
        tree = parse_stablehlo(text).tree
        after, run_ = EXPAND.apply(tree)
        assert print_stablehlo(after) == print_stablehlo(tree)
        assert not run_.fired


def test_unknown_sizes() -> None:
    text = program("log", 0).replace("0x", "?x")
    after, _ = EXPAND.apply(parse_stablehlo(text).tree)
    assert "chlo.constant_like" in print_stablehlo(after)
    legal, _ = find_pass("chlo-legalize-to-stablehlo").apply(after)
    assert "chlo." not in print_stablehlo(legal)


PASSES = ("chlo-legalize-to-stablehlo", "stablehlo-complex-math-expander")


def expanded(chunk: Chunk, name: str) -> Chunk:
    tree, _ = find_pass(name).apply(parse_stablehlo(chunk.text).tree)
    return replace(chunk, text=print_stablehlo(tree))


@needs_shared
@pytest.mark.parametrize("part", ["math", "chlo"])
def test_programs_keep_their_assertions(part: str, full: bool) -> None:
    checked = 0
    for chunk in [*chunks(part)][:: 1 if full else 4]:
        asked = [name for name in PASSES if f"--{name}" in str(chunk.record)]
        if asked and not chunk.is_disabled:
            outcome = run(expanded(chunk, asked[0]))
            assert outcome.status == PASS, f"{chunk.id}: {outcome.detail}"
            checked += 1
    assert checked
