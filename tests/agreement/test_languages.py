"""One program as HLO and as StableHLO computes the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import hloscope as hs
from hloscope.ops.gather_scatter import Scatter
from tests.agreement.instances import arguments, instance
from tests.indexing.test_truth import FAMILIES, cases
from tests.indexing.truth.generator import CASES
from tests.indexing.truth.graphs import Graph, GraphGen
from tests.interpreter import chunks, models

assert FAMILIES
MAKERS = """
    broadcast_in_dim|transpose|reverse|reshape|concatenate|pad|slice|dynamic_slice|dot_general
    dynamic_update_slice|gather|reduce|reduce_window|convolution|select: scalar predicate
    clamp: scalar bounds|elementwise: add|elementwise: abs|triangular_solve|map
""".replace("\n", "|")
# Scatter has a test of its own: windows that stick out make it two different ops.
SHARED_OPS = sorted({name.strip() for name in MAKERS.split("|")} & CASES.keys())
"""Cases of ops that both languages have, of elements that all of them take."""


def graph(seed: int) -> Graph:
    return GraphGen(seed, SHARED_OPS).graph(5)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_mean_the_same_in_both_languages(seed: int, full: bool) -> None:
    compared = 0
    for k in range(100 if full else 6):
        made = graph(1000 * seed + k)
        (given,) = arguments(made.case, np.random.default_rng(k), 0)
        whole = hs.evaluate(made.module, *given)
        expected = whole if isinstance(whole, tuple) else (whole,)
        texts = {
            "hlo": hs.print_hlo(made.module),
            "mlir": hs.print_stablehlo(made.module, generic=True),
        }
        for language, text in texts.items():
            found = hs.evaluate(text, *given)
            found = found if isinstance(found, tuple) else (found,)
            for a, b in zip(expected, found, strict=True):
                np.testing.assert_array_equal(a, b, f"{language}\n{text}")
                compared += 1
    assert compared


@pytest.mark.parametrize("name", ["scatter", "scatter: of StableHLO"])
def test_a_scatter_is_the_same_op_where_no_window_sticks_out_in_part(name: str, full: bool) -> None:
    compared: Counter[bool] = Counter()
    for k, case in enumerate(cases(name, full=True)[: 200 if full else 60]):
        if len(case.outputs) > 1:
            continue  # a tuple, which StableHLO does not have
        made = instance(case, k)
        op = made.ins.op
        assert isinstance(op, Scatter)
        (given,) = arguments(made.case, np.random.default_rng(k), 0)
        writers = [hs.print_hlo, hs.print_stablehlo]
        here, there = writers if op.by_window else writers[::-1]
        sticks_out = op.may_exceed_bounds(tuple(o.type for o in made.ins.operands))
        compared[sticks_out] += 1
        if sticks_out:
            with pytest.raises(hs.UnsupportedError, match=r"`result`: .*'s `scatter` drops"):
                there(made.module)
        expected = hs.evaluate(made.module, *given)
        for write in [here] if sticks_out else writers:
            np.testing.assert_array_equal(expected, hs.evaluate(write(made.module), *given))
    assert min(compared[sticks_out] for sticks_out in (False, True)) > 4


SEVERAL = """
both { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  e = f32[] add(a, c) f = f32[] maximum(b, d) ROOT t = (f32[], f32[]) tuple(e, f) }
ENTRY e { x = f32[2,3] parameter(0) z = f32[] constant(0)
  r = (f32[2], f32[2]) reduce(x, x, z, z), dimensions={1}, to_apply=both
  sum = f32[2] get-tuple-element(r), index=0 most = f32[2] get-tuple-element(r), index=1
  ROOT d = f32[2] subtract(sum, most) }
"""


def test_parts_of_a_tuple_of_hlo_are_results_of_stablehlo() -> None:
    text = hs.print_stablehlo(hs.parse_hlo(SEVERAL))
    assert "tuple" not in text
    assert hs.verify(text) == []
    x = [[1, 2, 3], [4, -5, 6]]
    assert hs.evaluate(text, x).tolist() == hs.evaluate(SEVERAL, x).tolist() == [3, -1]


def test_a_tuple_stablehlo_does_not_have_is_refused() -> None:
    text = SEVERAL.replace("ROOT d = f32[2] subtract(sum, most)", "").replace(
        "  r = ", "  ROOT r = "
    )
    with pytest.raises(hs.UnsupportedError, match="`r` is a tuple, which StableHLO does not have"):
        hs.print_stablehlo(hs.parse_hlo(text))


@pytest.mark.slow
def test_real_programs_mean_the_same_in_both_languages(shared: Path, full: bool) -> None:
    small = [n for n in models.programs() if models.path_of(n, "hlo").stat().st_size < 100_000]
    for name in small if full else small[::12]:
        outcomes = [models.run(name, kind).status for kind in ("stablehlo", "hlo")]
        if outcomes != [chunks.PASS] * 2:
            continue  # `test_models` tells
        stablehlo, hlo = (models.results(name, kind) for kind in ("stablehlo", "hlo"))
        _, why = models.compare(name, stablehlo, hlo)
        assert not why, f"{name}: {why}"
