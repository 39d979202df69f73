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


def test_nesting_of_an_invalid_alias_is_not_counted_after_it() -> None:
    aliases = "".join(f"#a{n} = [[[[[#b]]]]]\n" for n in range(60))
    errors: list[Diagnostic] = []
    module = parse_mlir(f'{aliases}"x.y"() {{a = [1]}} : () -> ()\n', errors=errors)
    assert {error.message for error in errors} == {"undefined symbol alias id 'b'"}
    assert len(errors) == 60
    assert [op.name for op in module.regions[0].block] == ["x.y"]
