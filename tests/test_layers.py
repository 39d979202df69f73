"""Modules import each other at the top, in the order of the rooms, and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import networkx as nx
import pytest

from docs.house import FILES, FOLDERS, PACKAGE, ROOMS, imported, name_of, room_of, tree_of

LANGUAGES = {"mlir", "hlo_parser", "stablehlo"}
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
"""Third-party libraries that take long to load."""


ROOM: Final = {path: room_of(name_of(path)) for path in FILES}
FOLDER: Final = {room: [path for path in FILES if ROOM[path] == room] for room in ROOMS}
"""The files of each room."""


@cache
def loaded_lazily(path: Path) -> list[str]:
    """Modules of ours that a file names in strings, for `lazy` and `import_module`."""
    return re.findall(r'(?:lazy|import_module)\("([\w.]+)"\)', path.read_text())


@cache
def imports_of(path: Path) -> list[str]:
    """Modules that a file imports, anywhere in it."""
    return [*imported(tree_of(path))]


AROUND: Final = {"hloscope.support.lazy"}
"""Modules that only speak of loading, in their examples."""


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def test_every_file_is_in_a_room() -> None:
    assert sum(map(len, FOLDER.values())) == len(FILES)


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_upwards_only(room: str) -> None:
    here = ROOMS.index(room)
    for path in FOLDER[room]:
        for module in imports_of(path):
            if module.split(".")[0] == "hloscope":
                assert ROOMS.index(room_of(module)) <= here, f"{name_of(path)} imports {module}"


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_is_loaded_upwards(room: str) -> None:
    """What a module loads when it is used lies below it as well."""
    for path in FOLDER[room]:
        name = name_of(path)
        if name in AROUND:
            continue
        loaded = {m for m in loaded_lazily(path) if m.startswith("hloscope.")}
        upwards = {m for m in loaded if ROOMS.index(room_of(m)) > ROOMS.index(room)}
        assert not upwards, name


@pytest.mark.slow(keep=2)
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
        assert rooms & {*FOLDERS} <= {"api", "display", "cli", "support"}, name_of(path)


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("room", ROOMS)
def test_no_import_is_hidden(room: str) -> None:
    for path in FOLDER[room]:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.If) and not is_type_checking(node):
                hidden = {*imported(node)}
                assert not hidden, f"{name_of(path)}:{node.lineno}: {hidden} imported below the top"


def is_lazy(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy"


def at_run_time(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes of a file but those that only type checkers see."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        seen = node.orelse if is_type_checking(node) else ast.iter_child_nodes(node)
        waiting.extend(seen)


def door_of(package: ast.Module) -> dict[str, str]:
    """The names of a package that loads them on first use, each with its module."""
    return {
        alias.name: str(node.module)
        for part in package.body
        if is_type_checking(part)
        for node in ast.walk(part)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


class Imports:
    """Which files a file depends on when it runs, through doors and lazy modules as well."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._trees = trees
        packages = {name.rpartition(".")[0] for name in trees}
        self._doors = {name: door_of(trees[name]) for name in packages & {*trees}}

    def home(self, module: str, name: str) -> str:
        """The file that a name of a module comes from."""
        while name in self._doors.get(module, ()):
            module = self._doors[module][name]
        return f"{module}.{name}" if f"{module}.{name}" in self._trees else module

    def of(self, name: str) -> set[str]:
        """The files that this one imports, and those whose names it uses through a module."""
        nodes = [*at_run_time(self._trees[name])]
        found: set[str] = set()
        modules: dict[str, str] = {}
        for node in nodes:
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    home = self.home(str(node.module), alias.name)
                    found.add(home)
                    modules[alias.asname or alias.name] = home
            elif isinstance(node, ast.Assign | ast.AnnAssign) and is_lazy(node.value):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                modules[target.id] = node.value.args[0].value
                found.add(modules[target.id])
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = modules.get(node.value.id)
                if module in self._trees:
                    found.add(self.home(module, node.attr))
        return (found & {*self._trees}) - {name}


def circles(trees: Mapping[str, ast.Module]) -> list[list[str]]:
    """Groups of files each of which depends on the others when it runs."""
    imports = Imports(trees)
    graph = nx.DiGraph([(name, other) for name in trees for other in imports.of(name)])
    return [sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1]


@pytest.mark.slow
def test_no_files_depend_on_each_other() -> None:
    assert circles({name_of(path): tree_of(path) for path in FILES}) == []


@pytest.mark.parametrize(
    "back",
    [
        "from hloscope.a import f",
        "from hloscope.room import f",
        'from hloscope.support.lazy import lazy\na = lazy("hloscope.a")',
        "from hloscope import room\ndef g(): return room.f()",
        'room = lazy("hloscope.room")\ndef g(): return room.f()',
        "def g():\n    from hloscope.a import f",
    ],
)
def test_a_circle_through_doors_and_lazy_modules_is_found(back: str) -> None:
    door = "if TYPE_CHECKING:\n    from hloscope.a import f as f"
    texts = {"a": "from hloscope.b import g\ndef f(): ...", "b": back, "room": door, "room.x": ""}
    trees = {f"hloscope.{name}": ast.parse(text) for name, text in texts.items()}
    assert circles(trees) == [["hloscope.a", "hloscope.b"]]


def test_what_only_type_checkers_import_makes_no_circle() -> None:
    texts = {
        "a": "from hloscope.b import g",
        "b": "if TYPE_CHECKING:\n    from hloscope.a import f",
    }
    assert circles({f"hloscope.{name}": ast.parse(text) for name, text in texts.items()}) == []


LOADERS: Final = {
    "hloscope.support.doors": "the names of a package",
    "hloscope.support.lazy": "a module",
    "hloscope.support.system": "a library of an extra, or an error that names the extra",
    "hloscope.cli": "the command, after an interrupt is taken care of",
    "hloscope.indexing.rules.registry": "the files with the rules of an op",
    "hloscope.interpreter.registry": "the files with the kernels of all ops",
}
"""Modules that call `import_module`, and what they load by it."""


def test_modules_are_loaded_late_in_three_ways() -> None:
    """A door, a lazy module and a lazy pattern; tables of rules and kernels load their files."""
    found = {
        name_of(path)
        for path in FILES
        if re.search("import_module|__import__", path.read_text())
        for node in ast.walk(tree_of(path))
        if "import_module" in (getattr(node, "id", ""), getattr(node, "attr", ""))
        or "__import__" in (getattr(node, "id", ""), getattr(node, "attr", ""))
    }
    assert found == {*LOADERS}


def test_a_heavy_library_is_loaded_lazily_in_one_place_each() -> None:
    for library in HEAVY - {"numpy", "click", "rich", "ml_dtypes"}:
        places = {
            name_of(path)
            for path in FILES
            if library in path.read_text()
            for module in imports_of(path)
            if module.split(".")[0] == library
        }
        assert len(places) <= 1, f"{library} is imported in {places}"


DOORS: Final = {name_of(path) for path in FILES if "door(__name__)" in path.read_text()}
"""Packages that load their names at first use; some are inside of a room."""


def is_behind_a_door(module: str) -> bool:
    """Is a module inside of a room other than `support`, and no door itself?"""
    is_inside = module.startswith("hloscope.") and module.count(".") > 1
    return is_inside and module not in DOORS and room_of(module) != "support"


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("room", ROOMS)
def test_rooms_are_entered_through_their_doors(room: str) -> None:
    """`from hloscope.mlir import Operation`, not `from hloscope.mlir.ir import Operation`.

    What a module loads when it is needed comes through a door too: `lazy("hloscope.mlir")`.
    """
    for path in FOLDER[room]:
        for module in [*imports_of(path), *loaded_lazily(path)]:
            within = room_of(module) == room or room == "__main__"
            assert within or not is_behind_a_door(module), f"{name_of(path)}: {module}"


def test_benchmarks_enter_through_the_doors() -> None:
    for path in sorted((PACKAGE.parent / "benchmarks").glob("*.py")):
        for module in imported(tree_of(path)):
            assert not is_behind_a_door(module), f"{path.name}: {module}"


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
