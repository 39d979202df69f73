"""Each law fires on its own left side, keeps values, and needs its side condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

from hloscope.interpreter import evaluate
from hloscope.ir import ELEMENT_TYPES, TensorType
from hloscope.mlir import array_text, type_text
from hloscope.passes.patterns import Limits, limited
from hloscope.passes.simplifying_laws import CONDITIONS, ROWS, Law, Term, parse_term, patterns_of
from hloscope.stablehlo import parse_stablehlo, to_graph
from hloscope.verifier import verify_mlir
from tests.passes.folded import applied

SHAPE: Final = (3, 4)
LOGICAL: Final = ("and", "or", "xor", "not")
ELEMENTS: Final = ("pred", "s4", "s32", "u8", "u64", "f32", "bf16", "f8e4m3fn", "f64", "c64")
SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 3.5)


def type_of(element: str) -> TensorType:
    return TensorType(ELEMENT_TYPES[element], SHAPE)


def random_array(rng: np.random.Generator, type: TensorType) -> Any:
    name, kind = type.element.numpy, type.element.kind
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    if kind == "pred":
        return rng.random(SHAPE) < 0.5
    if kind in ("float", "complex"):
        if kind == "complex":
            return rng.choice(SPECIAL, (*SHAPE, 2)).astype("f4").view(dtype)[..., 0]
        return rng.choice(SPECIAL, SHAPE).astype(dtype)
    bits, signed = type.element.bits, kind == "signed"
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    ends = [low, high, 0, 1, *(int(n) for n in rng.integers(max(low, -99), min(high, 99), 4))]
    return np.array(rng.choice(np.array(ends, object), SHAPE), dtype)


class Instance:
    """A program whose one result is the left side of a law, of elements of a type."""

    def __init__(self, law: Law, element: str, zero: float = 0.0) -> None:
        self.rng: Final = np.random.default_rng(0)
        self.zero: Final = zero
        self.arguments: dict[str, TensorType] = {}
        self.lines: list[str] = []
        self.names: dict[str, str] = {}
        left = parse_term(law.left)
        self.result: Final = "f32" if left.name in ("real", "imag") else element
        end = self.term(left, self.result, 0)
        given = ", ".join(f"%{n}: {type_text(t)}" for n, t in self.arguments.items())
        result = type_text(type_of(self.result))
        body = "\n  ".join(self.lines)
        self.text: Final = (
            f"func.func @main({given}) -> {result} {{\n  {body}\n  return {end} : {result}\n}}"
        )

    def term(self, term: Term, element: str, depth: int) -> str:
        """The value of a term of such elements; laws nest two deep at most."""
        assert depth < 4
        if term.operands is None:
            return self.leaf(term.name, element)
        types = [element] * len(term.operands)
        match term.name:
            case "complex":
                types = ["f32", "f32"]
            case "real" | "imag":
                types = ["c64"]
            case "select":
                types[0] = "pred"
        inner = zip(term.operands, types, strict=True)
        operands = [self.term(operand, t, depth + 1) for operand, t in inner]
        name = f"%{len(self.lines)}"
        given = ", ".join(type_text(type_of(t)) for t in types)
        to = type_text(type_of(element))
        op = f'"stablehlo.{term.name}"({", ".join(operands)})'
        self.lines.append(f"{name} = {op} : ({given}) -> {to}")
        return name

    def leaf(self, name: str, element: str) -> str:
        type = type_of(element)
        if name not in self.names:
            if name in ("0", "1", "ones", "c"):
                self.names[name] = value = f"%{len(self.lines)}"
                self.lines.append(f"{value} = stablehlo.constant {self.constant(name, type)}")
            else:
                self.names[name] = f"%{name}"
                self.arguments[name] = type
        return self.names[name]

    def constant(self, name: str, type: TensorType) -> str:
        value = random_array(self.rng, type)
        if name != "c":
            number = {"0": self.zero, "1": 1, "ones": -1}[name]
            if type.element.kind == "unsigned" and number < 0:
                number = (1 << type.element.bits) - 1
            value = np.full(SHAPE, bool(number) if type.element.kind == "pred" else number).astype(
                value.dtype
            )
        return array_text(value, type)

    def values(self) -> list[Any]:
        return [random_array(self.rng, type) for type in self.arguments.values()]


def instances(law: Law) -> Iterator[tuple[str, Instance]]:
    """Programs of the left side, for each type of elements for which it is right."""
    left, is_choice = law.left, law.left.startswith("select")
    for element in ELEMENTS:
        is_float = ELEMENT_TYPES[element].kind in ("float", "complex")
        if not is_choice and ("complex" in left) != (element == "c64"):
            continue
        if is_float and "ones" in left and not is_choice:
            continue
        for zero in (0.0, -0.0) if is_float and "0" in left else (0.0,):
            instance = Instance(law, element, zero)
            if not verify_mlir(parse_stablehlo(instance.text).tree, first_only=True):
                yield element, instance


def outcome(text: str, values: list[Any]) -> Any:
    (result,) = evaluate(parse_stablehlo(text), values)
    return np.asarray(result)


def same(one: Any, other: Any, signed_zeros: bool = True) -> bool:
    """Bit for bit, but for the bits of NaNs."""
    pairs = (
        ((one.real, other.real), (one.imag, other.imag))
        if one.dtype.kind == "c"
        else ((one, other),)
    )
    for a, b in pairs:
        nan = (a != a) & (b != b)
        zero = nan if signed_zeros else nan | ((a == 0) & (b == 0))
        if not all(
            x == y or skip for x, y, skip in zip(bits(a), bits(b), zero.reshape(-1), strict=True)
        ):
            return False
    return True


def bits(array: Any) -> list[bytes]:
    raw, width = np.ascontiguousarray(array).tobytes(), array.dtype.itemsize
    return [raw[i : i + width] for i in range(0, len(raw), width)]


@pytest.mark.parametrize("law", ROWS, ids=lambda law: law.name)
def test_a_law_fires_and_keeps_values(law: Law, full: bool) -> None:
    fired, loses = 0, False
    holds = [CONDITIONS[word] for word in law.when.split()]
    for element, instance in instances(law):
        module, run = applied(limited(patterns_of([law]), Limits()), instance.text)
        if not all(condition(type_of(instance.result)) for condition in holds):
            assert not run.fired, element
            continue
        assert run.fired == {law.name: 1}, f"{element}\n{instance.text}"
        fired += 1
        assert not verify_mlir(module, first_only=True)
        for _ in range(40 if full else 4):
            values = instance.values()
            before = outcome(instance.text, values)
            (after,) = evaluate(to_graph(module), values)
            assert same(before, np.asarray(after), not law.exception), f"{element}\n{instance.text}"
            loses |= not same(before, np.asarray(after))
    assert fired
    assert loses == bool(law.exception), "what the law loses is said, and no more"


@pytest.mark.parametrize("law", [law for law in ROWS if law.when], ids=lambda law: law.name)
def test_a_side_condition_is_needed(law: Law) -> None:
    """Without it there is an instance that the law would change."""
    words = law.when.split()
    for word in words:
        weaker = law._replace(when=" ".join(w for w in words if w != word))
        broken = False
        for _, instance in instances(law):
            module, run = applied(limited(patterns_of([weaker]), Limits()), instance.text)
            for _ in range(6):
                values = instance.values()
                (after,) = evaluate(to_graph(module), values)
                broken |= bool(run.fired) and not same(
                    outcome(instance.text, values), np.asarray(after)
                )
        assert broken, word


def test_laws_have_names_of_their_own() -> None:
    names = [law.name for law in ROWS]
    assert len(names) == len(set(names))


def test_a_constant_is_needed_on_one_side_only() -> None:
    text = """
func.func @main(%x: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
  %c = stablehlo.constant dense<7> : tensor<i32>
  %0 = stablehlo.add %x, %c : tensor<i32>
  %1 = stablehlo.add %c, %c : tensor<i32>
  return %0, %1 : tensor<i32>, tensor<i32>
}"""
    assert not applied(limited(patterns_of(ROWS), Limits()), text)[1].fired


def test_results_of_unknown_sizes_have_no_constant() -> None:
    text = """
func.func @main(%x: tensor<?xi32>) -> (tensor<?xi32>, tensor<?xi32>) {
  %0 = stablehlo.subtract %x, %x : tensor<?xi32>
  %1 = stablehlo.xor %x, %x : tensor<?xi32>
  return %0, %1 : tensor<?xi32>, tensor<?xi32>
}"""
    assert not applied(limited(patterns_of(ROWS), Limits()), text)[1].fired
