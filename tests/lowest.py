"""The lowest versions that pyproject.toml allows, as lines that pip installs.

`python -m tests.lowest` prints those of what users install; `make lowest` installs all of them
together, in an environment of its own, and runs tests that reach every one of them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = ("notebook", "tables", "zst", "scan")
"""What users install besides; the other extras are for development."""
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "jsonschema")
"""What the tests need of the extra `dev`."""
_BOUND = re.compile(r"([\w.-]+)>=([\w.]+)")


def bounds() -> Iterator[tuple[str, str]]:
    """Yield name and lowest version of each requirement that is installed.

    Raises:
        ValueError: A requirement has no lower bound, or more than that.
    """
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *[one for extra in EXTRAS for one in extras[extra]]]
    wanted += [one for one in extras["dev"] if re.split("[^a-z-]", one)[0] in TOOLS]
    for requirement in dict.fromkeys(wanted):
        found = _BOUND.fullmatch(requirement)
        if found is None:
            raise ValueError(f"`{requirement}` is not `name>=version`")
        yield found[1], found[2]


if __name__ == "__main__":
    for name, version in bounds():
        print(f"{name}=={version}")
