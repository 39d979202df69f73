"""Lower bounds of requirements: each is one version, and CI installs all of them together."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests import lowest

ROOT = Path(__file__).parents[1]


def test_each_requirement_of_users_has_a_lower_bound_that_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = dict(lowest.bounds())
    extras = project["optional-dependencies"]
    for requirement in [*project["dependencies"], *[r for e in lowest.EXTRAS for r in extras[e]]]:
        name, _, version = requirement.partition(">=")
        assert named[name] == version
    assert set(lowest.TOOLS) <= named.keys()
    others = {"oracle", "site", "dev"}  # of developers, and one with exact versions
    assert set(extras) == {*lowest.EXTRAS, *others}


@pytest.mark.parametrize("requirement", ["numpy", "numpy<3", "numpy>=1,<3", "numpy==2.0"])
def test_a_requirement_without_a_plain_lower_bound_is_refused(
    requirement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "pyproject.toml").read_text().replace('"numpy>=2.0"', f'"{requirement}"', 1)
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    monkeypatch.setattr(lowest, "PYPROJECT", path)
    with pytest.raises(ValueError, match=re.escape(f"`{requirement}` is not")):
        list(lowest.bounds())


def test_the_tests_of_the_lowest_versions_are_there_and_run_in_ci() -> None:
    made = (ROOT / "Makefile").read_text()
    chosen = re.search(r"^LOWEST := ((?:.*\\\n)*.*)", made, re.MULTILINE)
    assert chosen is not None
    for one in chosen[1].replace("\\\n", " ").split():
        file, _, test = one.partition("::")
        text = (ROOT / file).read_text()
        assert not test or f"def {test}(" in text
    assert "make --no-print-directory lowest" in (ROOT / ".ci/run").read_text()
