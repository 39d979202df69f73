"""Values of different shapes become values of one, as numpy has it."""

from __future__ import annotations

import pytest

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.stablehlo.builder import Builder


def shapes(*types: str) -> tuple[str, list[str]]:
    """The text of a program that broadcasts values of these types, and the types they get."""
    b = Builder()
    names = {f"x{i}": t for i, t in enumerate(types)}
    with b.function("main", **names) as values:
        results = b.broadcast_together(*values)
        b.return_(*results)
    text = str(b)
    returned = text.split("return ")[1].split(" : ")[1].split("\n", maxsplit=1)[0]
    return text, returned.split(", tensor")


def test_sizes_of_one_are_stretched_and_leading_dimensions_added() -> None:
    text, types = shapes("4xf32", "3x1xf32")
    assert types == ["tensor<3x4xf32>", "<3x4xf32>"]
    assert "broadcast_in_dim %x0, dims = [1]" in text.replace("%arg", "%x")


def test_what_has_the_shape_stays() -> None:
    text, _ = shapes("3x4xf32", "3x4xi32")
    assert "broadcast_in_dim" not in text


def test_a_bounded_size_is_given_to_the_others_at_run_time() -> None:
    text, _ = shapes("?xf64, #stablehlo.bounds<10>", "f64")
    assert "-> tensor<10xf64>" in text
    assert "get_dimension_size" in text
    assert "set_dimension_size" in text


@pytest.mark.parametrize(
    ("types", "error", "message"),
    [
        (("10xf64", "5xf64"), VerifyError, "incompatible shapes for broadcasting 10 and 5"),
        (("10xf64", "?xf64, #stablehlo.bounds<10>"), VerifyError, "cannot mix bounded and static"),
        (("?xf64", "1xf64"), UnsupportedError, "sizes without a bound"),
        ((), VerifyError, "at least one operand"),
    ],
)
def test_what_does_not_meet_is_refused(
    types: tuple[str, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        shapes(*types)
