"""What is made when it is first used is what would have been made at once."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from hloscope.support.lazy import LazyPattern, pattern

PACKAGE = Path(__file__).parents[1] / "hloscope"


def test_patterns_are_patterns() -> None:
    number = pattern(r"(\d+)", re.ASCII)
    assert number.sub("N", "s32") == "sN"
    assert number.groups == 1


def test_every_pattern_of_the_package_compiles() -> None:
    compiled = 0
    for path in PACKAGE.rglob("*.py"):
        if "import pattern" not in (text := path.read_text()) and ", pattern" not in text:
            continue
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for value in vars(import_module(name.removesuffix(".__init__"))).values():
            if isinstance(value, LazyPattern):
                assert value.pattern
                compiled += 1
    assert compiled > 100


@pytest.mark.slow
def test_no_module_compiles_a_pattern_when_it_is_loaded() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        if path.name == "lazy.py":
            continue
        tree = ast.parse(path.read_text())
        inside = {
            id(node)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.Lambda)
            for node in ast.walk(function)
        }
        for node in ast.walk(tree):
            text = ast.unparse(node) if isinstance(node, ast.Call) else ""
            if text.startswith("re.compile(") and id(node) not in inside:
                found.append(f"{path.name}:{node.lineno}")
    assert not found
