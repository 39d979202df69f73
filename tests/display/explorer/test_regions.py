"""The text of an op with regions on the page."""

from __future__ import annotations

import json
from typing import Any

import hloscope


def _nested(depth: int) -> str:
    """Loops inside each other: the body of each has the next one."""
    body = "stablehlo.return %arg0 : tensor<4xf32>"
    for level in range(depth):
        start = f"%arg{level + 1}" if level < depth - 1 else "%start"
        body = f"""
        %r{level} = "stablehlo.while"({start}) ({{
        ^bb0(%c{level}: tensor<4xf32>):
          %t{level} = stablehlo.constant dense<true> : tensor<i1>
          stablehlo.return %t{level} : tensor<i1>
        }}, {{
        ^bb0(%arg{level}: tensor<4xf32>):
          {body}
        }}) : (tensor<4xf32>) -> tensor<4xf32>
        {"stablehlo.return" if level < depth - 1 else "return"} %r{level} : tensor<4xf32>"""
    return f"func.func @main(%start: tensor<4xf32>) -> tensor<4xf32> {{ {body} }}"


def _details(text: str) -> dict[str, Any]:
    chunks = hloscope.read(text).explore(parts=[]).contents.chunks
    found: dict[str, Any] = json.loads(chunks["details"])
    return found


def test_large_regions_are_left_out_of_an_ops_text() -> None:
    inner, outer = _nested(2), _nested(30)
    assert not any("{...}" in text for text in _details(inner)["texts"])
    assert any("do {...}" in text for text in _details(outer)["texts"])


def test_the_texts_of_nested_loops_grow_with_their_number() -> None:
    sizes = [sum(map(len, _details(_nested(depth))["texts"])) for depth in (30, 60)]
    assert sizes[1] <= 2 * sizes[0]
