"""Numbers of bytes are read exactly."""

from __future__ import annotations

from fractions import Fraction

import click
import pytest

from hloscope.cli.printing import Bytes


@pytest.mark.parametrize(
    "text", ["0", "7", "4G", "500 MiB", "1.5k", "0.1K", "2.999999999T", "12.25MB"]
)
def test_an_amount_is_the_whole_bytes_of_the_number_that_is_written(text: str) -> None:
    number = text.rstrip("KMGTkmgtiB ")
    letter = text.removeprefix(number).strip().upper()[:1]
    exact = Fraction(number) * 1024 ** " KMGT".index(letter or " ")
    assert Bytes().convert(text, None, None) == int(exact)


@pytest.mark.parametrize("text", ["", "G", "-1", "1e3", "1.G", "4 X", "1,5G"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a size such as 4G or 500M"):
        Bytes().convert(text, None, None)
