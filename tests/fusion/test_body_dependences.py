"""What ops read through their bodies, against sets that are carried through random ones.

A case computes with sets of elements: a body gives for each result the union of what its expression
is made of.  The same bodies are printed in both languages, and programs are run as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest

import hloscope as hs
from hloscope.fusion import Analysis, body_dependences as bodies
from hloscope.indexing import Precision
from tests.agreement.claims import claim
from tests.agreement.execution import Runner, observe
from tests.agreement.generated import Said
from tests.fusion.bodies import FIRST, Expr, Hlo, Mlir, Used, expression

Sets = np.ndarray[Any, Any]
"""An array of sets of elements, each `(parameter, number)`."""


def elements(parameter: int, shape: tuple[int, ...]) -> Sets:
    """Every element of a parameter, as a set."""
    found = np.empty(shape, dtype=object)
    for number, at in enumerate(np.ndindex(shape)):
        found[at] = frozenset([(parameter, number)])
    return found


@dataclass
class Case:
    """An op with random bodies.

    Attributes:
        shapes: Of the parameters; the last ones are scalars that bodies capture.
        outputs: What each element of each output is made of.
        hlo: The text of HLO, if there is any.
        mlir: The text of StableHLO, if there is any.
        integers: Values of parameters that say where something is.
    """

    shapes: list[tuple[int, ...]]
    outputs: list[Sets]
    hlo: str = ""
    mlir: str = ""
    integers: dict[int, Any] = field(default_factory=dict)


class Maker:
    """Random bodies, their texts, and sets through them."""

    def __init__(self, seed: int, language: str, shapes: list[tuple[int, ...]]) -> None:
        self.rng = np.random.default_rng(seed)
        self.language = language
        self.captured = int(self.rng.integers(0, 3)) if language == "mlir" else 0
        self.shapes = [*shapes, *[()] * self.captured]
        self.operands = len(shapes)
        self.sets = [elements(k, shape) for k, shape in enumerate(self.shapes)]

    def results(self, count: int, parameters: int) -> list[Expr]:
        """Expressions of parameters and captured values."""
        values = [*range(parameters), *range(-self.captured, 0)]
        return [self._result(k, values, parameters) for k in range(count)]

    def _result(self, k: int, values: list[int], parameters: int) -> Expr:
        own = [n for n in range(k, parameters, max(parameters // 2, 1))]
        return expression(self.rng, own if self.rng.random() < 0.4 else values)

    def apply(self, e: Expr, given: list[Used]) -> Used:
        """What a result is made of where the parameters are made of these."""
        captured = self.sets[self.operands :]
        return e.used(lambda n: given[n] if n >= 0 else captured[-1 - n][()])

    def text(
        self, op: str, regions: list[tuple[list[Expr], int]], types: list[str], **spelled: str
    ) -> str:
        """The program of the one op; attributes and types as each language spells them."""
        test = op in ("sort",)
        if self.language == "hlo":
            hlo = Hlo()
            packed = op == "scan"
            names = [hlo.computation(r, n, test=test, packed=packed) for r, n in regions]
            parameters = [f"s32[{','.join(map(str, s))}]" for s in self.shapes]
            type_ = f"({', '.join(types)})" if len(types) > 1 else types[0]
            operands = ", ".join(f"p{k}" for k in range(self.operands))
            calls = spelled.get("calls", "to_apply={}").format(*names)
            opcode = op.replace("_", "-")
            result = f"{type_} {opcode}({operands}), {spelled['hlo']}, {calls}"
            return hlo.module(parameters, result)
        mlir = Mlir()
        bodies = ", ".join(mlir.body(r, n, test) for r, n in regions)
        given = [f"tensor<{''.join(f'{n}x' for n in s)}i32>" for s in self.shapes]
        results = [_tensor(t) for t in types]
        names = [f"%c{k - self.operands}" if k >= self.operands else f"%p{k}"
                 for k in range(len(given))]  # fmt: skip
        head = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, given, strict=True))
        operands = ", ".join(names[: self.operands])
        made = f"%r:{len(types)}" if len(types) > 1 else "%r"
        back = ", ".join(f"%r#{k}" for k in range(len(types))) if len(types) > 1 else "%r"
        inside = ", ".join(given[: self.operands])
        return f"""{FIRST}
func.func public @main({head}) -> ({", ".join(results)}) {{
  {made} = "stablehlo.{op}"({operands}) ({bodies}) {{{spelled["mlir"]}}}
    : ({inside}) -> ({", ".join(results)})
  return {back} : {", ".join(results)}
}}"""

    def case(self, outputs: list[Sets], text: str, **known: Any) -> Case:
        both = {self.language: text}
        return Case(self.shapes, outputs, both.get("hlo", ""), both.get("mlir", ""), **known)


def _tensor(hlo: str) -> str:
    """`s32[2,3]` as StableHLO has it."""
    inside = hlo[4:-1]
    return f"tensor<{''.join(f'{n}x' for n in inside.split(',') if n)}i32>"


def _type(shape: tuple[int, ...]) -> str:
    return f"s32[{','.join(map(str, shape))}]"


def _dims(numbers: tuple[int, ...]) -> tuple[str, str]:
    listed = ", ".join(map(str, numbers))
    return f"{{{listed}}}", f"array<i64: {listed}>" if numbers else "array<i64>"


def _folded(g: Maker, exprs: list[Expr], start: list[Used], items: list[list[Used]]) -> list[Used]:
    state = start
    for item in items:
        state = [g.apply(e, [*state, *item]) for e in exprs]
    return state


def _filled(shape: tuple[int, ...], count: int) -> list[Sets]:
    return [np.empty(shape, dtype=object) for _ in range(count)]


def reduce(seed: int, language: str) -> Case:
    rng = np.random.default_rng(seed + 1000)
    n = int(rng.integers(1, 4))
    shape = tuple(int(rng.integers(1, 4)) for _ in range(2))
    if rng.random() < 0.1:
        shape = (shape[0], 0)
    g = Maker(seed, language, [shape] * n + [()] * n)
    exprs = g.results(n, 2 * n)
    outputs = _filled(shape[:1], n)
    for i in range(shape[0]):
        start = [g.sets[n + k][()] for k in range(n)]
        items = [[g.sets[k][i, j] for k in range(n)] for j in range(shape[1])]
        for k, found in enumerate(_folded(g, exprs, start, items)):
            outputs[k][i] = found
    hlo, mlir = _dims((1,))
    text = g.text("reduce", [(exprs, 2 * n)], [_type(shape[:1])] * n,
                  hlo=f"dimensions={hlo}", mlir=f"dimensions = {mlir}")  # fmt: skip
    return g.case(outputs, text)


def reduce_window(seed: int, language: str) -> Case:
    rng = np.random.default_rng(seed + 2000)
    n, size, taps, pad = (int(rng.integers(*span)) for span in ((1, 3), (3, 6), (1, 4), (0, 2)))
    g = Maker(seed, language, [(size,)] * n + [()] * n)
    exprs = g.results(n, 2 * n)
    length = size + 2 * pad - taps + 1
    outputs = _filled((length,), n)
    start = [g.sets[n + k][()] for k in range(n)]
    for i in range(length):
        places = [i + tap - pad for tap in range(taps)]
        items = [[g.sets[k][at] if 0 <= at < size else start[k] for k in range(n)] for at in places]
        for k, found in enumerate(_folded(g, exprs, start, items)):
            outputs[k][i] = found
    text = g.text("reduce_window", [(exprs, 2 * n)], [_type((length,))] * n,
                  hlo=f"window={{size={taps} pad={pad}_{pad}}}",
                  mlir=f"window_dimensions = array<i64: {taps}>, "
                       f"padding = dense<{pad}> : tensor<1x2xi64>")  # fmt: skip
    return g.case(outputs, text)


def map_(seed: int, language: str) -> Case:
    rng = np.random.default_rng(seed + 3000)
    n = int(rng.integers(1, 4))
    g = Maker(seed, language, [(2, 2)] * n)
    (e,) = g.results(1, n)
    (output,) = outputs = _filled((2, 2), 1)
    for at in np.ndindex(2, 2):
        output[at] = g.apply(e, [g.sets[k][at] for k in range(n)])
    hlo, mlir = _dims((0, 1))
    text = g.text("map", [([e], n)], [_type((2, 2))],
                  hlo=f"dimensions={hlo}", mlir=f"dimensions = {mlir}")  # fmt: skip
    return g.case(outputs, text)


def sort(seed: int, language: str) -> Case:
    rng = np.random.default_rng(seed + 4000)
    n, size = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    g = Maker(seed, language, [(2, size)] * n)
    exprs = g.results(2, 2 * n)
    outputs = _filled((2, size), n)
    for i, k in product(range(2), range(n)):
        lines = [frozenset[object]().union(*g.sets[j][i]) for j in range(n)]
        compared = frozenset[object]().union(
            *[g.apply(e, [lines[p // 2] for p in range(2 * n)]) for e in exprs]
        )
        for j in range(size):
            outputs[k][i, j] = lines[k] | compared if size > 1 else lines[k]
    text = g.text("sort", [(exprs, 2 * n)], [_type((2, size))] * n,
                  hlo="dimensions={1}", mlir="dimension = 1 : i64")  # fmt: skip
    return g.case(outputs, text)


def scatter(seed: int, language: str) -> Case:
    rng = np.random.default_rng(seed + 5000)
    n, size, rows = int(rng.integers(1, 3)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    g = Maker(seed, language, [(size,)] * n + [(rows, 1)] + [(rows,)] * n)
    exprs = g.results(n, 2 * n)
    indices = rng.integers(0, size, (rows, 1))
    outputs = [g.sets[k].copy() for k in range(n)]
    for row in range(rows):
        at = int(indices[row, 0])
        given = [outputs[k][at] for k in range(n)] + [g.sets[n + 1 + k][row] for k in range(n)]
        for k, e in enumerate(exprs):
            outputs[k][at] = g.apply(e, given)
    numbers = "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
    text = g.text("scatter", [(exprs, 2 * n)], [_type((size,))] * n,
                  hlo="update_window_dims={}, inserted_window_dims={0}, "
                      "scatter_dims_to_operand_dims={0}, index_vector_dim=1",
                  mlir=f"scatter_dimension_numbers = #stablehlo.scatter<{numbers}>")  # fmt: skip
    return g.case(outputs, text, integers={n: indices})


def scan(seed: int, _: str) -> Case:
    rng = np.random.default_rng(seed + 6000)
    inputs, carries, made = int(rng.integers(1, 3)), int(rng.integers(1, 4)), 1
    size, back = int(rng.integers(1, 5)), rng.random() < 0.5
    g = Maker(seed, "hlo", [(size,)] * inputs + [()] * carries)
    exprs = g.results(made + carries, inputs + carries)
    outputs = [*_filled((size,), made), *_filled((), carries)]
    state = [g.sets[inputs + k][()] for k in range(carries)]
    for i in range(size)[::-1] if back else range(size):
        found = [g.apply(e, [*[g.sets[k][i] for k in range(inputs)], *state]) for e in exprs]
        for k in range(made):
            outputs[k][i] = found[k]
        state = found[made:]
    for k in range(carries):
        outputs[made + k][()] = state[k]
    types = [*[_type((size,))] * made, *["s32[]"] * carries]
    reverse = ", is_reverse=true" if back else ""
    text = g.text("scan", [(exprs, inputs + carries)], types,
                  hlo=f"dimensions={{0}}, num_carries={carries}{reverse}")  # fmt: skip
    return g.case(outputs, text)


def select_and_scatter(seed: int, language: str) -> Case:
    """Windows side by side: an element is compared with its window, which may select it."""
    rng = np.random.default_rng(seed + 7000)
    taps, count = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    size = taps * count
    g = Maker(seed, language, [(size,), (count,), ()])
    select, scatter = g.results(2, 2), g.results(1, 2)
    (output,) = outputs = _filled((size,), 1)
    for i in range(size):
        window = frozenset[object]().union(*g.sets[0][i // taps * taps : (i // taps + 1) * taps])
        compared = [g.apply(e, [window, window]) for e in select] if taps > 1 else []
        begun = g.sets[2][()]
        added = g.apply(scatter[0], [begun, g.sets[1][i // taps]])
        output[i] = begun if scatter[0].source == 0 else begun.union(added, *compared)
    text = _select_text(g, select, scatter, taps, size)
    return g.case(outputs, text)


def _select_text(g: Maker, select: list[Expr], scatter: list[Expr], taps: int, size: int) -> str:
    """The text; the first body is a predicate."""
    types = [_type((size,))]
    if g.language == "hlo":
        hlo = Hlo()
        names = [hlo.computation(select, 2, test=True), hlo.computation(scatter, 2)]
        given = [_type(shape) for shape in g.shapes]
        window = f"window={{size={taps} stride={taps}}}"
        calls = "select={}, scatter={}".format(*names)
        return hlo.module(given, f"{types[0]} select-and-scatter(p0, p1, p2), {window}, {calls}")
    mlir = Mlir()
    bodies = f"{mlir.body(select, 2, test=True)}, {mlir.body(scatter, 2)}"
    given = [_tensor(_type(shape)) for shape in g.shapes]
    names = ["%p0", "%p1", "%p2", *[f"%c{k}" for k in range(g.captured)]]
    head = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, given, strict=True))
    attributes = f"window_dimensions = array<i64: {taps}>, window_strides = array<i64: {taps}>"
    return f"""{FIRST}
func.func public @main({head}) -> {given[0]} {{
  %r = "stablehlo.select_and_scatter"(%p0, %p1, %p2) ({bodies}) {{{attributes}}}
    : ({", ".join(given[:3])}) -> {given[0]}
  return %r : {given[0]}
}}"""


OPS: dict[str, Callable[[int, str], Case]] = {
    "reduce": reduce,
    "reduce_window": reduce_window,
    "map": map_,
    "sort": sort,
    "scatter": scatter,
    "scan": scan,
    "select_and_scatter": select_and_scatter,
}
INEXACT = {"select_and_scatter": 0.25}
"""Ops whose maps are exact less often than nine times in ten, and how often they are."""


def _matrix(sets: Sets, parameter: int, size: int) -> np.ndarray[Any, Any]:
    found = np.zeros((sets.size, size), dtype=bool)
    for row, some in enumerate(sets.reshape(-1)):
        for number, column in some:
            if number == parameter:
                found[row, column] = True
    return found


def check(case: Case) -> Counter[str]:
    """Compare the maps of a program, in both directions, with what its outputs are made of."""
    text = case.hlo or case.mlir
    program = hs.read(text)
    assert not hs.verify(text), text
    said, claims = Said(program), Counter[str]()
    values = {program.module.entry.parameters[k]: [v] for k, v in case.integers.items()}
    for (o, sets), (i, shape) in product(enumerate(case.outputs), enumerate(case.shapes)):
        if i in case.integers:
            continue  # where an update goes depends on all of them
        true = _matrix(sets, i, int(np.prod(shape, dtype=int)))
        back = claim(said.back[o, i], sets.shape, shape, values)
        forth = claim(said.forth.get((o, i), ()), shape, sets.shape, values)
        there = forth.touched.reshape(true.T.shape).T
        for found, touched in ((back, back.touched.reshape(true.shape)), (forth, there)):
            where = f"output {o}, parameter {i}: {said.back[o, i]}\n{text}"
            assert (touched >= true).all(), where
            if found.precision is Precision.EXACT:
                assert (touched == true).all(), where
        claims[str(back.precision)] += 1
    return claims


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("language", ["hlo", "mlir"])
@pytest.mark.parametrize("op", OPS)
def test_reads_follow_random_bodies(op: str, language: str, full: bool) -> None:
    if (op, language) == ("scan", "mlir"):
        pytest.skip("StableHLO has no scan")
    claims: Counter[str] = Counter()
    for seed in range(2000 if full else 100):
        claims += check(OPS[op](seed, language))
    assert claims["exact"] >= INEXACT.get(op, 0.8) * claims.total(), claims


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("language", ["hlo", "mlir"])
@pytest.mark.parametrize("op", OPS)
def test_what_moves_is_read(op: str, language: str, full: bool) -> None:
    if (op, language) == ("scan", "mlir"):
        pytest.skip("StableHLO has no scan")
    for seed in range(200 if full else 12):
        case = OPS[op](seed, language)
        program = hs.read(case.hlo or case.mlir)
        said, runner = Said(program), Runner(program.module)
        rng = np.random.default_rng(seed)
        for kind in ("plain", "ties", "plain", "ties"):
            seen = observe(runner, said.outputs, rng, kind)
            for pair, moved in seen.moved.items():
                back, forth = said.claims(pair, seen)
                both = (back.touched & forth.touched).reshape(moved.any(axis=1).shape)
                missing = moved.any(axis=1) & ~both
                assert not missing.any(), f"{pair}\n{case.hlo or case.mlir}"


@pytest.mark.slow
@pytest.mark.parametrize("language", ["hlo", "mlir"])
@pytest.mark.parametrize("op", OPS)
def test_the_second_walk_agrees(op: str, language: str, full: bool) -> None:
    if (op, language) == ("scan", "mlir"):
        pytest.skip("StableHLO has no scan")
    for seed in range(100 if full else 6):
        case = OPS[op](seed, language)
        answer = hs.read(case.hlo or case.mlir).root.to_parameters(None).prove()
        assert not [check for check in answer.checks if check.is_refuted], answer


SCALARS = {
    "a minimum and its place": "c = pred[] compare(a, x), direction=LE m = f32[] minimum(a, x) "
    "n = s32[] select(c, b, y) ROOT t = (f32[], s32[]) tuple(m, n)",
    "parts handed on, one changed": "n = s32[] negate(y) ROOT t = (f32[], s32[]) tuple(x, n)",
    "copies in exchange": "k = f32[] copy(x) l = s32[] copy(b) ROOT t = (f32[], s32[]) tuple(k, l)",
    "constants": "k = f32[] constant(1) m = f32[] add(k, a) o = s32[] constant(0) "
    "ROOT t = (f32[], s32[]) tuple(m, o)",
}


@pytest.mark.parametrize("body", SCALARS.values(), ids=SCALARS)
def test_scalars_depend_on_what_maps_through_the_body_read(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "body { a = f32[] parameter(0) b = s32[] parameter(1) x = f32[] parameter(2) "
    text += f"y = s32[] parameter(3) {body} }} ENTRY e {{ ROOT p = f32[] parameter(0) }}"
    callee = hs.read(text)["t"].computation.ir
    told = Analysis().dependence(callee)
    monkeypatch.setattr(bodies, "_of_scalars", lambda callee: None)
    assert told == Analysis().dependence(callee)
