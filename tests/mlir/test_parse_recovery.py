"""Reading goes on after an error, and ends with the text."""

from __future__ import annotations

import pytest

from hloscope.errors import Diagnostic
from hloscope.mlir.text.parser import parse_mlir

TEXT = """module {
  func.func @f(%a: i32) -> i32 {
    %b = "x.one"(%a) ({
      "x.two"() : () -> ()
    }) {k = [1, "s"]} : (i32) -> i32
    return %b : i32
  }
}
"""


@pytest.mark.parametrize("length", range(8, len(TEXT) - 4, 3))
def test_a_text_cut_off_has_an_error_or_two_not_hundreds(length: int) -> None:
    errors: list[Diagnostic] = []
    parse_mlir(TEXT[:length], errors=errors)
    assert 1 <= len(errors) <= 2
