"""The documentation as static pages: no page is left out, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.site import PARTS, ROOMS, broken_links, build, stage
from tests.browser import CHROMIUM, Browser

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages are made of."""
    folder = tmp_path_factory.mktemp("sources")
    stage(folder)
    return folder


def test_every_page_and_notebook_is_in_the_contents_once() -> None:
    listed = [page for pages in PARTS.values() for page in pages]
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    notebooks = {f"notebooks/{path.stem}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert sorted(listed) == sorted(pages | notebooks)


def test_what_pages_refer_to_is_there(sources: Path) -> None:
    for page in sources.rglob("*.md"):
        for target in re.findall(
            r"\]\(([^)#\s]+)", re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        ):
            if "://" not in target:
                assert (page.parent / target).is_file(), f"{page.name}: {target}"


def test_notebooks_are_shown_with_their_outputs(sources: Path) -> None:
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        page = (sources / "notebooks" / f"{notebook.stem}.md").read_text()
        assert page.startswith("#")
        assert "```python\n" in page
        assert "```text\n" in page or "```{raw} html\n" in page


def test_pictures_of_notebooks_are_pictures(sources: Path) -> None:
    page = (sources / "notebooks" / "coalescing.md").read_text()
    assert page.count('<img alt="" src="data:image/png;base64,') == 2
    assert not any("display.SVG object" in p.read_text() for p in sources.rglob("*.md"))


def test_the_landing_page_leads_to_every_page_and_notebook(sources: Path) -> None:
    page = (sources / "index.md").read_text().partition("```{toctree}")[0]
    linked = {target.removesuffix(".md") for target in re.findall(r"\]\(([^)]+)\)", page)}
    assert linked - {"softmax.svg"} == {page for pages in PARTS.values() for page in pages}


def test_every_room_has_a_page_of_what_it_exports(sources: Path) -> None:
    for room in ROOMS:
        page = (sources / "api" / f"{room}.rst").read_text()
        assert re.search(rf"^\.\. auto(class|function):: {re.escape(room)}\.", page, re.M), room
    library = (sources / "api" / "hloscope.rst").read_text()
    assert ".. autofunction:: hloscope.read" in library
    assert ".. autoclass:: hloscope.Program" in library


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="here"></p><a href="#here"></a><a href="b.html#there"></a><a href="https://x.y/z">'
        '</a><img src="data:image/png;base64,AA"><a href="b.html#no"></a><a href="c.html"></a>'
        '<script src="https://x.y/z.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h1 id="there"></h1><a href="a.html#here"></a>')
    assert broken_links(tmp_path) == [
        "a.html: b.html#no",
        "a.html: c.html",
        "a.html: https://x.y/z.js",
    ]


@pytest.mark.timeout(600)
def test_the_site_is_built_and_no_link_leads_nowhere(tmp_path: Path, full: bool) -> None:
    if not full:
        pytest.skip("the site takes a minute: `make site`, or --full")
    for name in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(name, reason="needs the extra `site`")
    build(tmp_path / "site")
    assert broken_links(tmp_path / "site") == []
    for page in [page for pages in PARTS.values() for page in pages]:
        assert (tmp_path / "site" / f"{page}.html").is_file()
    if CHROMIUM:
        assert searched(tmp_path, tmp_path / "site", "coalescing") == []


def searched(folder: Path, site: Path, word: str) -> list[str]:
    """What the console says when a word is found from `file://`."""
    with Browser(folder / "profile") as page:
        url = f"{(site / 'search.html').as_uri()}?q={word}"
        page.call("Page.navigate", {"url": url})
        page.until("document.querySelectorAll('.search li').length > 5")
        page.until("document.readyState === 'complete'")
        return page.said
