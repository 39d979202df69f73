"""Indices that are known before the program runs, however large: right maps are not refuted."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import hloscope
from hloscope.fusion.values import ARITHMETIC
from hloscope.interpreter import World
from hloscope.interpreter.evaluation import evaluate
from hloscope.ops import ELEMENTWISE, Compare, Iota
from hloscope.proof import Outcome, Prover
from hloscope.proof.integers import MAX_ELEMENTS, Integers, _arithmetic_of
from hloscope.simplifier import UndecidedError

FAR = 1 << 32
GATHER = """
fused {{
  p0 = f32[33,76] parameter(0)
  {index}
  ROOT gather = f32[{count},1,1] gather(p0, idx), offset_dims={{1,2}}, collapsed_slice_dims={{}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,1}}
}}
ENTRY e {{
  p = f32[33,76] parameter(0)
  ROOT fusion = f32[{count},1,1] fusion(p), kind=kLoop, calls=fused
}}
"""
IOTA = "i = {t}[{n},1] iota(), iota_dimension=0"
SPLAT = "c = {t}[] constant({value}) b = {t}[{n},1] broadcast(c), dimensions={{}}"
INDICES = {
    "iota": (FAR, "s64", "", "idx = {t}[{n},1] copy(i)"),
    "splat": (FAR, "s64", "7", "idx = {t}[{n},1] copy(b)"),
    "product": (FAR, "s64", "3", "idx = {t}[{n},1] multiply(i, b)"),
    "product beyond int64": (FAR, "u64", "4294967295", "idx = {t}[{n},1] multiply(i, b)"),
    "sum beyond int64": (FAR, "u64", "18446744069414584319", "idx = {t}[{n},1] add(i, b)"),
    "reversed": (FAR, "s64", "", "idx = {t}[{n},1] reverse(i), dimensions={{0}}"),
    "converted": (FAR, "u32", "", "idx = s64[{n},1] convert(i)"),
    "reshaped": (
        FAR, "s64", "", "j = s64[65536,65536] iota(), iota_dimension=0 idx = s64[{n},1] reshape(j)"
    ),
    "padded": (
        FAR, "s64", "9",
        "j = s64[7,1] iota(), iota_dimension=0 idx = {t}[{n},1] pad(j, c), padding=0_4294967289x0_0"
    ),
    "compared": (
        FAR, "s64", "-3", "k = pred[{n},1] compare(i, b), direction=GT idx = s64[{n},1] convert(k)"
    ),
    "half of int64": (5, "s64", "4611686018427387904", "idx = {t}[{n},1] copy(b)"),
    "least": (5, "s64", "-9223372036854775808", "idx = {t}[{n},1] copy(b)"),
    "greatest": (5, "u64", "18446744073709551615", "idx = {t}[{n},1] copy(b)"),
    "wrapped around": (300, "u8", "", "idx = {t}[{n},1] copy(i)"),
    "divided by zero": (5, "s64", "", "idx = {t}[{n},1] divide(i, i)"),
    "one of two that are equal": (
        5, "s64", "3",
        "s = f32[{n},1] slice(p0), slice={{[0:{n}],[0:1]}} k = pred[{n},1] compare(s, s),"
        " direction=LT idx = s64[{n},1] select(k, b, b)",
    ),
}  # fmt: skip


def program(name: str) -> hloscope.Program:
    count, type, value, rest = INDICES[name]
    lines = [IOTA, SPLAT, rest] if value else [IOTA, rest]
    index = " ".join(lines).format(t=type, n=count, value=value)
    return hloscope.read(GATHER.format(index=index, count=count))


@pytest.mark.slow(keep=5)
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("name", INDICES)
def test_right_maps_are_not_refuted(name: str, inverse: bool) -> None:
    fusion = program(name)["fusion"]
    found = fusion.indexing_from(0) if inverse else fusion.indexing()
    check = found.prove().checks[0]
    right = Outcome.PROVED, Outcome.SAMPLED
    assert check.outcome in ((*right, Outcome.UNDECIDED) if inverse else right), str(check)


@pytest.mark.parametrize("name", [n for n, row in INDICES.items() if row[0] == FAR])
def test_wrong_maps_are_refuted(name: str) -> None:
    fusion = program(name)["fusion"]
    access = fusion.indexing().answer.outputs[0].operands[0].accesses[0]
    assert access.map is not None
    first, *rest = access.map.results
    wrong = type(access)(access.map.with_(results=[first + 1, *rest]), access.precision)
    assert Prover().check(fusion.ir, 0, 0, 0, (wrong,)).is_refuted


def random_chain(rng: Random, steps: int) -> str:
    """Ops on integers, each on what was made before; the last one is the root."""
    type = rng.choice(["s8", "u8", "s32", "s64", "u64"])
    shape = rng.choice(["[6]", "[2,3]", "[3,1]"])
    size = {"[6]": "6", "[2,3]": "2,3", "[3,1]": "3,1"}[shape]
    here = f"{type}{shape}"
    lines = [f"v0 = {here} iota(), iota_dimension={rng.randrange(shape.count(',') + 1)}"]
    lines.append(f"c = {type}[] constant({rng.choice([0, 1, 5, 100, 127])})")
    lines.append(f"v1 = {here} broadcast(c), dimensions={{}}")
    for k in range(2, steps):
        x, y, z = (f"v{rng.randrange(k)}" for _ in range(3))
        dims = ",".join(str(d) for d in range(shape.count(",") + 1))
        forms = [
            *[f"{op}({x}, {y})" for op in ("add", "subtract", "multiply", "maximum", "minimum")],
            *[f"{op}({x}, {y})" for op in ("multiply", "divide", "remainder")],
            f"clamp({x}, {y}, {z})",
            f"reverse({x}), dimensions={{{dims}}}",
            *([f"{op}({x})" for op in ("abs", "negate")] if type[0] == "s" else []),
        ]
        form = rng.choice([*forms, "select", "reshape"])
        if form == "select":
            direction = rng.choice(["LT", "LE", "GT", "GE", "EQ", "NE"])
            lines.append(f"k{k} = pred{shape} compare({x}, {y}), direction={direction}")
            form = f"select(k{k}, {y}, {z})"
        if form == "reshape":
            count = np.prod([int(n) for n in size.split(",")])
            lines.append(f"r{k} = {type}[{count}] reshape({x})")
            form = f"reshape(r{k})"
        lines.append(f"v{k} = {here} {form}")
    lines[-1] = f"ROOT {lines[-1]}"
    return "ENTRY e {\n" + "\n".join(lines) + "\n}"


def test_what_is_known_is_what_the_program_computes(full: bool) -> None:
    known = 0
    for seed in range(3000 if full else 200):
        entry = hloscope.read(random_chain(Random(seed), 12)).module.entry
        values = np.asarray(evaluate(entry, [], World())[0])
        at = np.indices(values.shape).reshape(values.ndim, -1)
        found = Integers().at(entry.root, list(at), values.size)
        said = [int(v) for v in found.values[found.is_known]]
        assert said == values.reshape(-1)[found.is_known].tolist(), seed
        known += found.is_known.sum()
    assert known > 400


def test_all_that_the_analysis_computes_with_is_known_to_the_proof() -> None:
    for name in ARITHMETIC:
        op = Compare(comparison_direction="LT") if name == "compare" else ELEMENTWISE[name]()
        assert _arithmetic_of(op) is not None, name


def test_knowledge_does_not_depend_on_what_was_asked_before() -> None:
    lines = ["v0 = s64[4] iota(), iota_dimension=0"]
    lines += [f"v{k + 1} = s64[4] add(v{k}, v0)" for k in range(100)]
    lines.append("ROOT r = s64[4] copy(v100)")
    entry = hloscope.read("ENTRY e {" + "\n".join(lines) + "}").module.entry
    order = [*entry]
    for asked in (order, order[::-1]):
        integers = Integers()
        row = [np.arange(4)]
        found = {ins: integers.at(ins, row, 4) for ins in asked}
        assert all(one.is_known.all() for one in found.values())
        assert found[entry.root].values.tolist() == [0, 101, 202, 303]


@pytest.mark.slow
def test_an_index_that_too_much_decides_is_refused() -> None:
    n = MAX_ELEMENTS + 1
    lines = [f"v0 = s64[{n}] iota(), iota_dimension=0"]
    for k in range(40):
        lines.append(f"r{k} = s64[{n}] reverse(v{k}), dimensions={{0}}")
        lines.append(f"v{k + 1} = s64[{n}] add(v{k}, r{k})")
    lines.append(f"ROOT r = s64[{n}] copy(v40)")
    entry = hloscope.read("ENTRY e {" + "\n".join(lines) + "}").module.entry
    assert isinstance(entry.instructions[0].op, Iota)
    with pytest.raises(UndecidedError, match="an index depends on too many integers"):
        Integers().at(entry.root, [np.arange(2)], 2)
