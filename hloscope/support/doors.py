"""Lazy imports: names of a package that are loaded at their first use (PEP 562).

Other packages import names from a package, never from the modules inside it.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` takes long to load, and this is loaded first of all
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def door(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package whose names are imported at their first use.

    The names are those that the package's own file imports for type checkers, so each is stated
    once:

        if TYPE_CHECKING:
            from hloscope.mlir.ir import Operation as Operation
        else:
            __getattr__, __dir__ = door(__name__)
    """
    homes: dict[str, str] = {}

    def names() -> dict[str, str]:
        """Return the module from which each name is imported."""
        if not homes:
            # One assignment, so that threads see all names or none.
            homes.update(_imported_for_types(package))
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


def _imported_for_types(package: str) -> dict[str, str]:
    """Return the module of each name that a package imports under `if TYPE_CHECKING:`."""
    ast = import_module("ast")  # not needed to end on an interrupt, nor for `--version`
    spec = sys.modules[package].__spec__
    tree = ast.parse(spec.loader.get_data(spec.origin))  # type: ignore[union-attr]
    return {
        alias.name: imported.module
        for node in tree.body
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for imported in node.body
        if isinstance(imported, ast.ImportFrom)
        for alias in imported.names
    }
