"""What is made when it is first used is what would have been made at once."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import pickle
import re
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hloscope.lazy import LazyPattern, dataclass, pattern

PACKAGE = Path(__file__).parents[1] / "hloscope"


@dataclass(frozen=True, slots=True)
class Size:
    """A size."""

    unit: ClassVar[str] = "elements"
    rows: int
    columns: int = 1
    names: list[str] = dataclasses.field(default_factory=list, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Block(Size):
    columns: int = 8
    depth: int = 0

    def __repr__(self) -> str:
        return f"Block {self.rows}x{self.columns}x{self.depth}"


@dataclass(slots=True)
class Counter:
    count: int = 0


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Node:
    name: str


def test_instances_are_those_of_the_standard_library() -> None:
    assert repr(Size(2)) == "Size(rows=2, columns=1)"
    assert Size(2) == Size(2, 1, ["x"]) != Size(3)
    assert hash(Size(2)) == hash(Size(2, 1))
    assert Size.unit == "elements"
    assert not hasattr(Size(2), "__dict__")
    assert dataclasses.replace(Size(2), rows=5) == Size(5)
    assert [field.name for field in dataclasses.fields(Block)] == [
        "rows",
        "columns",
        "names",
        "depth",
    ]
    match Size(2):
        case Size(rows, columns):
            assert (rows, columns) == (2, 1)


def test_a_subclass_may_change_a_default_and_keep_its_own_methods() -> None:
    assert (Block(1).columns, Block(1, 2).columns) == (8, 2)
    assert repr(Block(1)) == "Block 1x8x0"
    assert Block(1, 1) != Size(1, 1)


def _declared(make: Any, **options: bool) -> list[type]:
    """Classes with fields of every kind, made by one of the two decorators."""

    class Plain:
        """No fields."""

    class Made:
        """Defaults that are made anew, fields that are no parameters or count for nothing."""

        name: str
        parts: list[int] = dataclasses.field(default_factory=list)
        depth: int = dataclasses.field(default=3, compare=False)
        seen: dict[str, int] = dataclasses.field(default_factory=dict, init=False, repr=False)
        key: int = dataclasses.field(default=0, hash=False)
        later: int = dataclasses.field(init=False, default=7)

    plain = make(slots=True, **options)(Plain)
    made = make(slots=True, **options)(Made)

    class Derived(made):  # type: ignore[valid-type, misc]
        """Another default, one field more, and a check."""

        depth: int = 5
        width: int = 1

        def __post_init__(self) -> None:
            if self.width < 0:
                raise ValueError("negative")

    return [plain, made, make(slots=True, **options)(Derived)]


@pytest.mark.parametrize("options", [{"frozen": True}, {}, {"frozen": True, "eq": False}])
def test_every_kind_of_field_is_as_in_the_standard_library(options: dict[str, bool]) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        (("a",), {}),
        (("a", [1]), {"key": 2}),
        (("a",), {"depth": 9, "key": 1}),
        (("a", [1], 4, 0, 2), {}),
        (("a",), {"width": -1}),
        (("a",), {"later": 1}),
        (("a",), {"name": "b"}),
    ]

    def told(make: Any) -> list[str]:
        lines = []
        for cls in _declared(make, **options):
            lines.append(f"{cls.__match_args__} {inspect.signature(cls)}")  # type: ignore[attr-defined]
            values = []
            for given, named in calls:
                try:
                    values.append(cls(*given, **named))
                except (TypeError, ValueError) as error:
                    lines.append(f"{type(error).__name__}: {error}")
            lines += [repr(value).replace(make.__module__, "") for value in values]
            lines += [str([a == b for b in values]) for a in values]
            try:
                lines.append(str([[hash(a) == hash(b) for b in values] for a in values]))
            except TypeError as error:
                lines.append(str(error))
        return lines

    assert told(dataclass) == told(dataclasses.dataclass)


def test_a_default_that_could_change_is_refused() -> None:
    with pytest.raises(ValueError, match="mutable default of field `a` of `Pair`"):
        dataclass(frozen=True, slots=True)(
            type("Pair", (), {"__annotations__": {"a": list}, "a": []})
        )


def test_frozen_instances_stay_as_they_are() -> None:
    size: Any = Size(2)
    with pytest.raises(dataclasses.FrozenInstanceError, match="assign to field 'rows'"):
        size.rows = 3
    with pytest.raises(dataclasses.FrozenInstanceError, match="delete field 'rows'"):
        del size.rows
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)


def test_instances_are_copied_and_pickled() -> None:
    for value in (Size(2, names=["x"]), Block(1), Counter(3)):
        assert pickle.loads(pickle.dumps(value)) == value
        assert copy.deepcopy(value) == value


def test_nodes_compare_by_identity() -> None:
    one = Node("a")
    assert one == one
    assert one != Node("a")
    assert hash(one) == object.__hash__(one)


def test_threads_that_use_a_class_first_at_once_all_get_it() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            cls = dataclass(frozen=True, slots=True)(
                type("Pair", (), {"__annotations__": {"a": int, "b": int}, "b": 7})
            )
            found: list[Any] = []
            together = threading.Barrier(4)

            def use(
                cls: Any = cls, found: list[Any] = found, together: threading.Barrier = together
            ) -> None:
                together.wait()
                found.append(cls(1))

            threads = [threading.Thread(target=use) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(found) == 4
            assert set(found) == {cls(1, 7)}
    finally:
        sys.setswitchinterval(interval)


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
def test_no_module_compiles_a_pattern_or_a_dataclass_when_it_is_loaded() -> None:
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
            if isinstance(node, ast.ImportFrom) and node.module == "dataclasses":
                found += [path.name for alias in node.names if alias.name == "dataclass"]
    assert found == ["definition.py"], "its class has no slots"
