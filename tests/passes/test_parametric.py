"""Maps in terms of named sizes: what they are, what is refused, where they are unknown."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

import hloscope
from hloscope.api.symbolic_maps import Polynomial, text_of_polynomial, value_of
from hloscope.errors import HloscopeError, UnknownNameError
from tests.cli.test_refine import EXPORTED, FLAT
from tests.conftest import needs_shared
from tests.passes import dynamic_corpus


def test_maps_have_polynomials_of_the_sizes() -> None:
    found = {p.name: p for p in hloscope.parametric(FLAT, ["{n}", "tensor<{n}x{k}xf32>"])}
    texts = [one.text for p in found.values() for one in p.maps]
    assert "(d0) -> (d0 / k, d0 mod k), domain: d0 in [0, n * k - 1]" in texts
    assert "(d0) -> (-d0 + (n * k - 1)), domain: d0 in [0, n * k - 1]" in texts
    assert all(len(p.checked) == 5 for p in found.values())


def test_dimension_variables_of_exports_are_the_sizes() -> None:
    for each in hloscope.parametric(EXPORTED):
        assert all(one.precision == "exact" for one in each.maps)


def test_a_form_that_depends_on_the_sizes_is_said_to_be_unknown() -> None:
    text = """
    func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
      %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %h = stablehlo.divide %n, %two : tensor<i32>
      %s = stablehlo.reshape %h : (tensor<i32>) -> tensor<1xi32>
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %r = stablehlo.dynamic_broadcast_in_dim %z, %s, dims = [] : (tensor<f32>, tensor<1xi32>)
        -> tensor<?xf32>
      return %r : tensor<?xf32>
    }"""
    found = hloscope.parametric(text, ["tensor<{n}xf32>"])
    assert {one.precision for each in found for one in each.maps} == {"unknown"}
    assert all(one.why and not one.text for each in found for one in each.maps)


@pytest.mark.parametrize(
    ("text", "args"),
    [
        (FLAT, None),
        (FLAT, ["3", "tensor<3x4xf32>"]),
        (FLAT, ["{n}", "tensor<{n}xf32>"]),
        (FLAT, ["{n}"]),
        (FLAT, ["{n}", "tensor<{" + "}x{".join("abcdefgh") + "}xf32>"]),
        ("module {}", ["{n}"]),
    ],
)
def test_what_has_no_named_sizes_is_refused(text: str, args: list[str] | None) -> None:
    with pytest.raises(HloscopeError):
        hloscope.parametric(text, args)


def test_polynomials_are_written_as_they_are_evaluated() -> None:
    rng = random.Random(0)
    for _ in range(200):
        names: list[tuple[str, ...]] = [(), ("a",), ("b",), ("a", "b"), ("a", "a")]
        polynomial: Polynomial = tuple(
            [(name, factor) for name in names if (factor := rng.randint(-3, 3))]
        )
        sizes = {"a": rng.randint(0, 9), "b": rng.randint(0, 9)}
        text = text_of_polynomial(polynomial)
        for name, size in sizes.items():
            text = text.replace(name, str(size))
        assert _summed(text) == value_of(polynomial, sizes)


def _summed(text: str) -> int:
    total = 0
    for term in re.findall(r"[+-]? ?[\d *]+", text):
        product = 1
        for factor in re.findall(r"\d+", term):
            product *= int(factor)
        total += -product if term.startswith("-") else product
    return total


def templates(record: dict[str, Any]) -> list[str]:
    """The arguments of a recorded program with names for the sizes it was exported for."""
    names = {value: f"n{number}" for number, value in record["dims"].items()}
    args = []
    for number, (old, new) in enumerate(zip(record["arg_types"], record["types"], strict=True)):
        sizes = iter(re.findall(r"[\d?]+(?=x)", new))
        pieces = re.split(r"([\d?]+)(?=x)", old)
        pieces[1::2] = [_named(each, next(sizes), names) for each in pieces[1::2]]
        named = "".join(pieces)
        args.append(f"{{n{number}}}" if str(number) in record["dims"] else named)
    return args


def _named(old: str, new: str, names: dict[int, str]) -> str:
    return f"{{{names[int(new)]}}}" if old == "?" else new


@pytest.mark.slow
@needs_shared
def test_exported_programs_have_maps_at_any_sizes(full: bool) -> None:
    chosen = [*dynamic_corpus.records()][:: 1 if full else 12]
    known = unknown = 0
    for record in chosen:
        text = dynamic_corpus.path_of(record).read_text()
        try:
            found = hloscope.parametric(text, templates(record))
        except UnknownNameError:
            pytest.fail(record["file"])
        for each in found:
            for one in each.maps:
                unknown += one.precision == "unknown"
                known += one.precision != "unknown"
                assert bool(one.why) == (one.precision == "unknown")
    assert known > 50 * unknown
