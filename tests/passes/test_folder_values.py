"""What the folder computes is what the program returns: random programs of constants."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from hloscope.errors import HloscopeError
from hloscope.interpreter import evaluate
from hloscope.ir import ELEMENT_TYPES, Dims, TensorType
from hloscope.mlir import array_text, parse_mlir, print_mlir, type_text
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import find_pass
from hloscope.stablehlo import parse_stablehlo
from tests.passes.semantics import bits

ELEMENTS: Final = (
    "pred s4 s8 s16 s32 s64 u4 u8 u16 u32 u64 f8e4m3fn f8e5m2 bf16 f16 f32 f64 c64".split()
)
SHAPES: Final[tuple[Dims, ...]] = ((), (1,), (0,), (5,), (2, 3), (2, 0))
FLOATS: Final = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 2.5, -3.75, 6e4, 0.1)
ANY: Final = "add subtract multiply maximum minimum".split()
WHOLE: Final = (
    "and or xor divide remainder shift_left shift_right_logical shift_right_arithmetic".split()
)
REAL: Final = "divide remainder".split()
UNARY: Final = {
    "signed": ["negate", "abs", "sign", "not"],
    "unsigned": ["not"],
    "float": ["negate", "abs", "sign", "floor", "ceil", "sqrt", "rsqrt", "tanh", "exponential"],
    "complex": ["negate"],
    "pred": ["not"],
}
BINARY: Final = {
    "signed": ANY + WHOLE,
    "unsigned": ANY + WHOLE,
    "float": ANY + REAL,
    "complex": ["add", "subtract", "multiply"],
    "pred": ["and", "or", "xor", "add", "multiply", "maximum"],
}


class Named(NamedTuple):
    """A value of a program."""

    name: str
    type: TensorType

    @property
    def written(self) -> str:
        return type_text(self.type)


class Making:
    """A program that grows; every value of it is returned."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.lines, self.values = rng, list[str](), list[Named]()

    def add(self, type: TensorType, line: str) -> None:
        value = Named(f"%v{len(self.values)}", type)
        self.values.append(value)
        self.lines.append(f"  {value.name} = {line}")

    def constant(self, type: TensorType) -> None:
        array = drawn(self.rng, type)
        self.add(type, f"stablehlo.constant {array_text(array, type)}")

    def like(self, value: Named) -> Named:
        return self.rng.choice([v for v in self.values if v.type == value.type])

    @property
    def text(self) -> str:
        types = ", ".join([v.written for v in self.values])
        names = ", ".join([v.name for v in self.values])
        lines = "\n".join(self.lines)
        return f"func.func @main() -> ({types}) {{\n{lines}\n  return {names} : {types}\n}}"


def drawn(rng: random.Random, type: TensorType) -> Any:
    """An array, one of a single value now and then."""
    name, kind = type.element.numpy, type.element.kind
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    count = type.num_elements
    if kind == "pred":
        numbers: list[Any] = [rng.random() < 0.5 for _ in range(count)]
    elif kind in ("float", "complex"):
        numbers = [rng.choice(FLOATS) for _ in range(count)]
        if kind == "complex":
            numbers = [complex(n, rng.choice(FLOATS)) for n in numbers]
    else:
        wide = 1 << type.element.bits
        lo, hi = (-wide // 2, wide // 2 - 1) if kind == "signed" else (0, wide - 1)
        ends = (lo, hi, 0, 1, min(7, hi), max(-3, lo), hi // 3)
        numbers = [rng.choice(ends) for _ in range(count)]
    if rng.random() < 0.3:
        numbers = numbers[:1] * count
    with np.errstate(all="ignore"):
        return np.array(numbers, object).astype(dtype).reshape(type.shape)


def unary(made: Making, x: Named) -> None:
    op = made.rng.choice(UNARY[x.type.element.kind])
    made.add(x.type, f"stablehlo.{op} {x.name} : {x.written}")


def binary(made: Making, x: Named) -> None:
    op, y = made.rng.choice(BINARY[x.type.element.kind]), made.like(x)
    made.add(x.type, f"stablehlo.{op} {x.name}, {y.name} : {x.written}")


def chosen(made: Making, x: Named) -> None:
    y, flags = made.like(x), TensorType(ELEMENT_TYPES["pred"], x.type.shape)
    kind = x.type.element.kind
    way = made.rng.choice(["EQ", "NE"] if kind == "complex" else ["EQ", "NE", "LT", "GE"])
    made.add(
        flags,
        f"stablehlo.compare {way}, {x.name}, {y.name}"
        f" : ({x.written}, {x.written}) -> {type_text(flags)}",
    )
    p, z = made.values[-1], made.like(x)
    made.add(
        x.type,
        f"stablehlo.select {p.name}, {x.name}, {z.name} : {p.written}, {x.written}",
    )


def converted(made: Making, x: Named) -> None:
    type = TensorType(ELEMENT_TYPES[made.rng.choice(ELEMENTS)], x.type.shape)
    made.add(type, f"stablehlo.convert {x.name} : ({x.written}) -> {type_text(type)}")


def _shaped(made: Making, x: Named, shape: Sequence[int], op: str) -> None:
    type = TensorType(x.type.element, tuple(shape))
    made.add(type, f"stablehlo.{op} : ({x.written}) -> {type_text(type)}")


def arranged(made: Making, x: Named) -> None:
    shape, rank = x.type.shape, len(x.type.shape)
    order = made.rng.sample(range(rank), rank)
    match made.rng.randrange(5):
        case 0:
            _shaped(made, x, (1, *shape[::-1]), f"reshape {x.name}")
        case 1:
            places = list(range(1, rank + 1))
            _shaped(made, x, (2, *shape), f"broadcast_in_dim {x.name}, dims = {places}")
        case 2:
            _shaped(made, x, [shape[k] for k in order], f"transpose {x.name}, dims = {order}")
        case 3:
            made.add(x.type, f"stablehlo.reverse {x.name}, dims = {order[:1]} : {x.written}")
        case _ if rank:
            parts = [(n // 3, n, 2) for n in shape]
            said = ", ".join([f"{lo}:{hi}:{step}" for lo, hi, step in parts])
            sizes = [-(-(hi - lo) // step) for lo, hi, step in parts]
            _shaped(made, x, sizes, f"slice {x.name} [{said}]")
        case _:
            pass


def joined(made: Making, x: Named) -> None:
    shape = x.type.shape
    if not shape:
        return
    y = made.like(x)
    type = TensorType(x.type.element, (2 * shape[0], *shape[1:]))
    made.add(
        type,
        f"stablehlo.concatenate {x.name}, {y.name}, dim = 0"
        f" : ({x.written}, {y.written}) -> {type_text(type)}",
    )


def summed(made: Making, x: Named) -> None:
    kind, shape = x.type.element.kind, x.type.shape
    if not shape or kind not in ("signed", "unsigned"):
        return
    scalar, less = TensorType(x.type.element, ()), TensorType(x.type.element, shape[1:])
    made.constant(scalar)
    op, zero = made.rng.choice(["add", "maximum", "and"]), made.values[-1]
    made.add(
        less,
        f"stablehlo.reduce({x.name} init: {zero.name}) applies stablehlo.{op} across"
        f" dimensions = [0] : ({x.written}, {zero.written}) -> {type_text(less)}",
    )


STEPS: Final[tuple[Callable[[Making, Named], None], ...]] = (
    unary, binary, binary, chosen, converted, arranged, joined, summed,
)  # fmt: skip


def program(seed: int) -> str:
    """A random program of constants."""
    rng = random.Random(seed)
    made = Making(rng)
    for _ in range(2):
        type = TensorType(ELEMENT_TYPES[rng.choice(ELEMENTS)], rng.choice(SHAPES))
        for _ in range(3):
            made.constant(type)
    for _ in range(rng.randint(2, 8)):
        value = rng.choice(made.values)
        if value.type.num_elements <= 64:
            rng.choice(STEPS)(made, value)
    return made.text


def check(name: str, seed: int) -> int:
    """How many constants a pass computes in a program; what it returns stays, bit for bit."""
    text = program(seed)
    try:
        before = evaluate(parse_stablehlo(text), [])
    except HloscopeError:
        return 0
    module, run = find_pass(name).apply(parse_mlir(text, dialects=DIALECTS))
    folded = print_mlir(module, dialects=DIALECTS)
    after = evaluate(parse_stablehlo(folded), [])
    for k, (a, b) in enumerate(zip(before, after, strict=True)):
        assert a.dtype == b.dtype, seed
        assert a.shape == b.shape, seed
        assert bits(a, signed_zeros=True) == bits(b, signed_zeros=True), (seed, k, a, b, text)
    return run.fired.total()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aggressive-folder", "target-independent-optimization"])
def test_constants_are_what_the_program_returns(name: str, full: bool) -> None:
    fired: Counter[bool] = Counter()
    for seed in range(3000 if full else 150):
        fired[check(name, seed) > 0] += 1
    assert fired[True] > fired[False]
