"""Modules import each other at the top, in the order of the rooms, and nowhere else."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from docs.house import FILES, FOLDERS, PACKAGE, ROOMS, imported, name_of, room_of, tree_of

LANGUAGES = {"mlir", "dialects", "hlo_parser", "stablehlo"}
CORE = ["affine", "simplifier", "ir", "ops", "indexing", "fusion", "interpreter"]
"""Rooms to which all languages are one: they see types, parameters and values, never syntax."""
HEAVY = {
    "islpy",
    "sympy",
    "networkx",
    "matplotlib",
    "ml_dtypes",
    "numpy",
    "click",
    "rich",
    "zstandard",
}
"""Third-party libraries that may be loaded on first use, inside a function."""


FOLDER: Final = {room: [p for p in FILES if room_of(name_of(p)) == room] for room in ROOMS}
"""The files of each room."""


@cache
def loaded_lazily(path: Path) -> list[str]:
    """Modules of ours that a file names in strings, for `lazy` and `import_module`."""
    return re.findall(r'(?:lazy|import_module)\("([\w.]+)"\)', path.read_text())


@cache
def imports_of(path: Path) -> list[str]:
    """Modules that a file imports, anywhere in it."""
    return [*imported(tree_of(path))]


AROUND: Final = {"hloscope.lazy"}
"""Modules that only speak of loading, in their examples."""
LOADED_UPWARDS: Final = {"hloscope.indexing.map": {"hloscope.layouts"}}
"""What a value offers of a room above its own, as a method: `map.to_cute()`."""


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def test_every_file_is_in_a_room() -> None:
    assert sum(map(len, FOLDER.values())) == len(FILES)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_upwards_only(room: str) -> None:
    here = ROOMS.index(room)
    for path in FOLDER[room]:
        for module in imports_of(path):
            if module.split(".")[0] == "hloscope":
                assert ROOMS.index(room_of(module)) <= here, f"{name_of(path)} imports {module}"


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_is_loaded_upwards(room: str) -> None:
    """What a module loads when it is used lies below it as well, but for what is listed."""
    for path in FOLDER[room]:
        name = name_of(path)
        if name in AROUND:
            continue
        loaded = {m for m in loaded_lazily(path) if m.startswith("hloscope.")}
        upwards = {m for m in loaded if ROOMS.index(room_of(m)) > ROOMS.index(room)}
        assert upwards == LOADED_UPWARDS.get(name, set()), name


@pytest.mark.parametrize("room", CORE)
def test_there_is_no_language_in_the_core(room: str) -> None:
    for path in sorted((PACKAGE / room).rglob("*.py")):
        for module in [*imports_of(path), *loaded_lazily(path)]:
            if module.split(".")[0] == "hloscope":
                assert room_of(module) not in LANGUAGES, f"{name_of(path)} imports {module}"


def test_the_command_is_made_of_api_and_display() -> None:
    for path in FOLDER["cli"]:
        used = {*imports_of(path), *loaded_lazily(path)}
        rooms = {room_of(module) for module in used if module.startswith("hloscope.")}
        assert rooms & {*FOLDERS} <= {"api", "display", "cli"}, name_of(path)


@pytest.mark.parametrize("room", ROOMS)
def test_no_import_is_hidden(room: str) -> None:
    for path in FOLDER[room]:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.If) and not is_type_checking(node):
                hidden = {m for m in imported(node) if m.split(".")[0] not in HEAVY}
                assert not hidden, f"{name_of(path)}:{node.lineno}: {hidden} imported below the top"


def test_imports_form_a_dag() -> None:
    files = {name_of(p): tree_of(p) for p in FILES}
    # A package may name its own parts: `from hloscope.ops import shape`; its door loads nothing.
    graph = {
        name: {m for node in tree.body if not is_type_checking(node) for m in imported(node)}
        & set(files) - {name}
        for name, tree in files.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_a_heavy_library_is_loaded_lazily_in_one_place_each() -> None:
    for library in HEAVY - {"numpy", "click", "rich", "ml_dtypes"}:
        places = {
            name_of(path)
            for path in FILES
            for module in imports_of(path)
            if module.split(".")[0] == library
        }
        assert len(places) <= 1, f"{library} is imported in {places}"


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_are_entered_through_their_doors(room: str) -> None:
    """`from hloscope.mlir import Operation`, not `from hloscope.mlir.ir import Operation`.

    What a module loads when it is needed comes through a door too: `lazy("hloscope.mlir")`.
    """
    for path in FOLDER[room]:
        for module in [*imports_of(path), *loaded_lazily(path)]:
            is_inside = module.startswith("hloscope.") and module.count(".") > 1
            within = room_of(module) == room
            assert not is_inside or within or room == "__main__", f"{name_of(path)}: {module}"


def test_benchmarks_enter_through_the_doors() -> None:
    for path in sorted((PACKAGE.parent / "benchmarks").glob("*.py")):
        for module in imported(tree_of(path)):
            is_inside = module.startswith("hloscope.") and module.count(".") > 1
            assert not is_inside, f"{path.name}: {module}"


@pytest.mark.parametrize("room", sorted(p.parent.name for p in PACKAGE.glob("*/__init__.py")))
def test_a_door_leads_to_what_it_names(room: str) -> None:
    module = import_module(f"hloscope.{room}")
    for name in dir(module):
        assert getattr(module, name) is not None or name.startswith("__")


@pytest.mark.parametrize("room", sorted(p.parent.name for p in PACKAGE.glob("*/__init__.py")))
def test_no_name_of_a_door_is_that_of_a_module(room: str) -> None:
    """Whoever imports the module would find it under the name."""
    door = PACKAGE / room / "__init__.py"
    named = {
        alias.asname or alias.name
        for node in ast.walk(tree_of(door))
        if isinstance(node, ast.ImportFrom) and node.module != f"hloscope.{room}"
        for alias in node.names
    }
    assert not named & {path.stem for path in door.parent.iterdir()}
