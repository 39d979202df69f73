"""An op is found in the file of its family, which has the same name in every room."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import hloscope
from hloscope.ops import OPS

PACKAGE: Final = Path(hloscope.__file__).parent
ROOMS: Final = {
    "indexing/rules": {"output_to_input", "input_to_output"},
    "interpreter/ops": {"evaluates"},
}
"""Folders with a file for each family, and what registers a function for classes of ops there."""
PARTS: Final = {
    "control": "control checking",
    "custom_calls": "control",
    "mlir_dialects": "control",
    "sorting": "reduction",
}
"""Files with a part of a family that is long; `control` has all ops that run functions."""
LIKE: Final = {"Map": "elementwise"}
"""Ops whose rules are another family's: a body is applied to the elements at one index."""
FAMILY: Final = {cls.__name__: cls.__module__.rsplit(".", 1)[-1] for cls in OPS.values()}


def registered(path: Path, names: set[str]) -> Iterator[str]:
    """Classes of ops that decorators in a file name."""
    for node in ast.walk(ast.parse(path.read_text())):
        for call in getattr(node, "decorator_list", ()):
            if isinstance(call, ast.Call):
                called = call.func
                name = (
                    called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                )
                if name in names:
                    for given in call.args:
                        yield (
                            given.attr
                            if isinstance(given, ast.Attribute)
                            else getattr(given, "id", "")
                        )


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_said_of_an_op_stands_in_the_file_of_its_family(room: str) -> None:
    found = 0
    for path in sorted((PACKAGE / room).glob("*.py")):
        families = PARTS.get(path.stem, path.stem).split()
        for name in registered(path, ROOMS[room]):
            if name in FAMILY:
                found += 1
                assert {FAMILY[name], LIKE.get(name)} & {*families}, f"{name} in {room}/{path.name}"
    assert found
