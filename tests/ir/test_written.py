"""What attributes say that are kept as written."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from hloscope.errors import ParseError
from hloscope.hlo_parser import parse_hlo
from hloscope.hlo_parser.metadata import Config
from hloscope.ir.op import backend_config
from hloscope.stablehlo import parse_stablehlo

CONFIGS = [
    ('{"a": [1, 2]}', {"a": [1, 2]}),
    ('"{\\"a\\": [1, 2]}"', {"a": [1, 2]}),
    ("{a = 1.5 : f32, b = [true, 2 : i64], c}", {"a": 1.5, "b": [True, 2], "c": True}),
    ('{name = "x", sizes = array<i64: 2, 3>}', {"name": "x", "sizes": [2, 3]}),
    ('"opaque"', {}),
]


@pytest.mark.parametrize(("text", "expected"), CONFIGS)
def test_configs_of_hlo(text: str, expected: Any) -> None:
    call = f'custom-call(), custom_call_target="f", backend_config={text}'
    root = parse_hlo(f"ENTRY e {{ ROOT c = f32[] {call} }}").entry.root
    assert backend_config((), root.extras) == expected
    assert pickle.loads(pickle.dumps(root.extras)) == root.extras == (("backend_config", text),)


@pytest.mark.parametrize("text", ["", "no dictionary", "{1}"])
def test_broken_configs_say_so(text: str) -> None:
    with pytest.raises(ParseError):
        Config(text).value  # noqa: B018  (reads it)


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("backend_config = {a = 1 : i32, b = 2.5 : f64}", {"a": 1, "b": 2.5}),
        ('backend_config = "{\\22a\\22: 1}"', {"a": 1}),
        ('backend_config = "opaque"', {}),
        ("mhlo.backend_config = {a = @f::@g}", {"a": "f::g"}),
    ],
)
def test_configs_of_stablehlo(attribute: str, expected: Any) -> None:
    call = f"%c = stablehlo.custom_call @f() {{{attribute}}} : () -> tensor<f32>"
    module = parse_stablehlo(
        f"func.func @main() -> tensor<f32> {{ {call}\n return %c : tensor<f32> }}"
    )
    ins = next(iter(module.entry))
    assert backend_config(ins.op.settings, ins.extras) == expected
