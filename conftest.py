"""How pytest finds the examples in docstrings of the package."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent


def pytest_collect_file(file_path: Path) -> None:
    """A module with examples is imported by its name, as everybody imports it.

    Pytest would import its package first, and then run the module's file again: where a package
    imports its modules, there would be two of each of its classes.
    """
    if file_path.suffix == ".py" and ROOT / "hloscope" in file_path.parents:
        parts = file_path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] != "__main__":
            import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
