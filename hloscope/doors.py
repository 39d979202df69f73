"""Names of a package that are loaded when they are first used.

A room is entered through its door: other rooms import names of the package, not its modules.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` takes long to load, and this is loaded first of all
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _classes(module: str) -> list[str]:
    """Names of the public classes that a module defines."""
    every = vars(import_module(module)).items()
    return [n for n, v in every if isinstance(v, type) and v.__module__ == module and n[0] != "_"]


def door(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names are loaded when they are first used.

    The names are those that the package's own file imports for type checkers, so they stand in one
    place:

        if TYPE_CHECKING:
            from hloscope.affine.interval import Interval as Interval
        else:
            __getattr__, __dir__ = door(__name__)

    `import *` stands for the public classes that the module defines.
    """
    homes: dict[str, str] = {}

    def names() -> dict[str, str]:
        if not homes:
            spec = sys.modules[package].__spec__
            text = spec.loader.get_data(spec.origin).decode()  # type: ignore[union-attr]
            found: dict[str, str] = {}
            for imported in text.split("\n    from ")[1:]:
                home, _, rest = imported.partition(" import ")
                end = ")" if rest.startswith("(") else "\n"
                for entry in rest.lstrip("(").partition(end)[0].split(","):
                    if name := entry.partition(" as ")[0].strip():
                        meant = _classes(home) if name == "*" else [name]
                        found |= dict.fromkeys(meant, home)
            homes.update(found)  # at once: another thread sees all names or none
        return homes

    def load(name: str) -> Any:
        if name == "__all__":
            return sorted(names())
        home = names().get(name)
        if home is None:
            raise AttributeError(f"module `{package}` has no attribute `{name}`")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(names())
