"""README.md, docs/ and examples/ say what is true today."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import refresh
from hloscope.cli.app import COMMANDS, GROUPS

ROOT = Path(__file__).parents[1]
PAGES = refresh.PAGES
LONG = {"docs/command.md", "docs/passes.md", "docs/artifacts.md"}
"""Pages whose commands take seconds."""
LINK = re.compile(r"\]\(([^)#]+)\)")
NAMED = re.compile(r"`((?:hloscope|tests|docs|benchmarks)/[\w./-]*)")
WRITTEN = [p for p in [*PAGES, ROOT / "CONTRIBUTING.md"] if p.name != "status.md"]
"""Pages about the code of today; docs/status.md is about the code that was measured."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if name(page) in LONG else (), id=name(page))
        for page in PAGES
    ],
)
def test_commands_print_what_the_page_shows(page: Path) -> None:
    for shown, today in refresh.blocks(page.read_text()):
        assert shown == today, "out of date; `make docs` writes it anew"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_examples_give_what_the_page_shows(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    text = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", page.read_text(), re.MULTILINE | re.S))
    test = doctest.DocTestParser().get_doctest(text, {}, name(page), str(page), 0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert not said, "".join(said)


@pytest.mark.slow
@pytest.mark.parametrize("page", refresh.DUMPS, ids=name)
def test_transcripts_of_large_dumps_show_what_the_commands_print(page: Path) -> None:
    dump = refresh.DUMPS[page]
    if not dump.exists():
        pytest.skip("needs the conformance data beside the checkout (../shared)")
    text = page.read_text()
    assert "gemm_fusion_dot" in text
    assert text == refresh.toured(text, dump), "out of date; `make docs` writes it anew"


@pytest.mark.slow
def test_generated_files_are_up_to_date() -> None:
    for path, text in refresh.generated():
        assert path.read_text() == text, f"{name(path)} is out of date; run `make docs`"


def test_the_rooms_are_those_of_today() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    assert "| `affine/` |" in text
    assert refresh.with_rooms(text) == text, "out of date; `make docs` writes it anew"


def test_the_bounds_are_those_of_the_code() -> None:
    text = (ROOT / "docs/limits.md").read_text()
    assert "| `support/limits.py` |" in text
    assert refresh.with_bounds(text) == text, "out of date; `make docs` writes it anew"


def test_the_rules_of_work_are_those_of_the_code() -> None:
    text = (ROOT / "docs/cost_rules.md").read_text()
    assert "| products |" in text
    assert refresh.with_work(text) == text, "out of date; `make docs` writes it anew"


def test_the_page_of_limits_names_every_command_that_answers() -> None:
    """Commands that print, list or help have no verdict."""
    text = (ROOT / "docs/limits.md").read_text()
    groups = ("Look at a program", "Indexing maps as text", "About hloscope")
    plain = {name for group in groups for name in GROUPS[group]} - {"html"}
    plain |= {"opt", "diff", "deserialize", "tile", "query"}
    missing = {name for name in COMMANDS if f"`{name}`" not in text} - plain
    assert not missing, "the table of verdicts in docs/limits.md needs a row"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def named_files(page: Path) -> Iterator[str]:
    """Files and folders of the repository that a page names, with `NAME` and `FAMILY` as `*`."""
    for path in NAMED.findall(page.read_text()):
        yield re.sub("NAME|FAMILY", "*", path)


@pytest.mark.parametrize("page", [p for p in WRITTEN if [*named_files(p)]], ids=name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    missing = [path for path in named_files(page) if not [*ROOT.glob(path)]]
    assert not missing, "name the files that have their content today"


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=name)
def test_an_example_runs(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "exact" in done.stdout or "(d0) -> (d0)," in done.stdout


def test_the_page_of_the_package_index_is_the_readme_without_a_clone() -> None:
    page = refresh.package_page()
    assert page.count("```") == page.count("\n```") >= 8  # every fence begins a line
    assert not re.search(r"^`\w*$", page, re.MULTILINE)
    assert "pip install hloscope" in page
    assert "make" not in page
    assert "](docs/" not in page


def test_the_readme_has_every_command() -> None:
    text = (ROOT / "README.md").read_text()
    table = text[text.index("## The command") : text.index("## The library")]
    named = set(re.findall(r"`(?:hloscope )?([a-z]+)[ `]", table))
    assert not {*COMMANDS} - named, "the table of commands in README.md needs a row"
