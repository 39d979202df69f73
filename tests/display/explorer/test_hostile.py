"""Hostile names and metadata in everything that is shown: pages, SVG, notebooks, the terminal."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

import hloscope
from hloscope.cli.app import app
from hloscope.support.source import visible
from tests.browser import Browser
from tests.cli.test_terminal import at_terminal
from tests.display.explorer.pages import browser, saved
from tests.display.explorer.test_page import programs

PROGRAMS = programs(100)
PICTURES = ("index", "coalesce", "cancel")
PRINTED = ("ls", "show", "index", "print", "cancel", "footprint")
_ALLOWED = set(
    """a b br button circle code dd defs desc details div dl dt em figcaption figure g h1
    h2 h3 h4 head header html i li line main marker meta p path pattern polygon polyline pre rect
    section span strong style sub summary sup svg table tbody td text th thead title tr tspan ul
    body""".split()
)


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        """Read it."""
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def said(*arguments: str, program: str) -> str:
    """What the command prints about a program."""
    return CliRunner().invoke(app, [*arguments], input=program).output


def assert_harmless(text: str) -> None:
    """No tag and no attribute comes from the program."""
    found = Tags(text)
    assert set(found.tags) <= _ALLOWED, set(found.tags) - _ALLOWED
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert not [v for k, v in found.attributes if k in ("href", "src") and "hit" in (v or "")]
    assert text == visible(text)


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("command", PICTURES)
def test_pictures_of_hostile_programs_are_well_formed(command: str) -> None:
    drawn = 0
    for program in PROGRAMS[: 100 if command == "index" else 30]:
        page = said(command, "-", "--format", "html", program=program)
        assert_harmless(page)
        for picture in re.findall("<svg.*?</svg>", page, re.DOTALL):
            ElementTree.fromstring(picture)
            drawn += 1
    assert drawn or command != "index"


def test_pictures_of_the_memory_of_hostile_programs_are_well_formed() -> None:
    of_hlo = [text for text in PROGRAMS if text.startswith("HloModule")][:30]
    for text in of_hlo:
        program = text.replace("\nENTRY", ", is_scheduled=true\nENTRY", 1)
        page = said("memory", "-", "--format", "html", program=program)
        assert_harmless(page)
        (picture,) = re.findall("<svg.*?</svg>", page, re.DOTALL)
        ElementTree.fromstring(picture)
    assert of_hlo


def test_answers_of_hostile_programs_in_notebooks_are_text() -> None:
    for text in PROGRAMS:
        program = hloscope.read(text)
        assert_harmless(program.root.indexing()._repr_html_())
    frame = hloscope.read(PROGRAMS[0]).explore(parts=["maps"])._repr_html_()
    found = Tags(frame)
    assert found.tags == ["iframe"]
    assert dict(found.attributes)["sandbox"] == "allow-scripts"


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("command", PRINTED)
def test_the_terminal_gets_no_command_of_a_hostile_program(command: str, tmp_path: Path) -> None:
    escapes = "\\1B[2J\\07\\C2\\9B\\E2\\80\\AE"
    mlir = f'func.func @"f{escapes}"(%x: tensor<4xf32>) -> tensor<4xf32> {{\n' \
           f'%y = stablehlo.negate %x : tensor<4xf32> loc("{escapes}")\n' \
           "return %y : tensor<4xf32> }"  # fmt: skip
    octal = "".join(f"\\{byte:03o}" for byte in "\x1b[2J\x07\x9b\u202e".encode())
    hlo = f'ENTRY e {{ p = f32[4] parameter(0)\nROOT n = f32[4] negate(p), ' \
          f'metadata={{op_name="{octal}" source_file="{octal}" source_line=3}} }}'  # fmt: skip
    for k, program in enumerate((mlir, hlo)):
        file = tmp_path / f"{k}.txt"
        file.write_text(program)
        _, printed, errors = at_terminal(command, str(file), NO_COLOR="1")
        shown = (printed + errors).replace("\r\n", "\n")
        assert shown == visible(shown), command


@pytest.mark.slow
@browser
@pytest.mark.timeout(240)
def test_pictures_and_answers_of_hostile_programs_run_nothing(tmp_path: Path) -> None:
    parts = [said("index", "-", "--format", "html", program=text) for text in PROGRAMS]
    parts += [hloscope.read(text).root.indexing()._repr_html_() for text in PROGRAMS]
    parts += [hloscope.read(PROGRAMS[k]).explore(parts=["maps"])._repr_html_() for k in (0, 1, 2)]
    ready = "<script>document.documentElement.dataset.ready = 'yes'</script>"
    with Browser(tmp_path / "profile") as page:
        page.open(saved(tmp_path, f"<!doctype html><meta charset=utf-8>{''.join(parts)}{ready}"))
        page.value("new Promise((done) => setTimeout(done, 300))")
        assert page.value("window.hit") is None
        assert page.value("document.querySelectorAll('img, object').length") == 0
        assert page.value("document.querySelectorAll('svg').length") >= 100
        assert page.value("document.querySelectorAll('iframe').length") == 3
        assert not [line for line in page.said if "hit" in line]
