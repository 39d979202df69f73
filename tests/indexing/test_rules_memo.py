"""What is remembered of many programs is forgotten in time."""

from __future__ import annotations

import pytest

import hloscope
from hloscope.hlo_parser import spelling, types
from hloscope.mlir import parse_mlir
from hloscope.mlir.text import parser_attributes


@pytest.mark.slow
def test_tables_of_types_and_ops_stay_below_their_bounds() -> None:
    last = types._MOST // 2 + 50
    for size in range(1, last):
        hloscope.read(
            f"ENTRY e {{ p = f32[{size},2] parameter(0) s = f32[1,2] slice(p), "
            f"slice={{[{size - 1}:{size}], [0:2]}} ROOT t = f32[2,1] transpose(s), "
            f"dimensions={{1,0}} }}",
            strict=True,
        )
    assert 0 < len(types._CACHE) <= types._MOST
    assert 0 < len(spelling._MEMO) <= spelling._MOST
    text = "".join(f'%{n} = "x.y"() : () -> tensor<{n}x3xf32>\n' for n in range(1, 4200))
    parse_mlir(text)
    assert 0 < len(parser_attributes.KNOWN_TYPES) <= parser_attributes._MOST_KNOWN + 1
