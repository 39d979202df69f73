"""The pictures of tensors: drawn once for a frame, what is seen first, in the page's colours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.browser import Browser
from tests.explorer.pages import browser
from tests.explorer.test_browser import PROGRAMS, shown

pytestmark = [browser, pytest.mark.timeout(240)]

COUNTED: Final = """{ const { draw } = H.Picture.prototype;
  H.Picture.prototype.draw = function () { drawn++; draw.call(this); }; }"""
"""From now on `drawn` counts the pictures that are drawn."""
FRAMES: Final = """new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(
  () => requestIdleCallback(done, { timeout: 1000 }))))"""
OVER: Final = """(() => { const { canvas } = H.view.elements.cards[0].picture;
  const { left, top } = canvas.getBoundingClientRect();
  const at = { clientX: left + %d, clientY: top + 3 };
  canvas.dispatchEvent(new PointerEvent("pointermove", at)); })()"""
PIXEL: Final = """(() => { const { canvas, scale } = H.view.elements.cards[0].picture;
  return [...canvas.getContext("2d").getImageData(2 * scale, 2 * scale, 1, 1).data].slice(0, 3);
})().join()"""
"""The colour in the first cell, in which nothing is lit."""
LIGHT, DARK = "230,234,240", "36,44,54"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


def drawn_by(page: Browser, change: str, least: int) -> int:
    """How many pictures are drawn when something changes, which are `least` at the end."""
    page.value(FRAMES)
    page.value(f"window.drawn = 0; {change}; 0")
    page.until(f"drawn >= {least}")
    page.value(FRAMES)
    return int(page.value("drawn"))


def test_however_often_the_light_changes_a_frame_draws_it_once(
    page: Browser, tmp_path: Path
) -> None:
    shown(page, tmp_path, PROGRAMS["moved"], parts=["maps"])
    page.value(COUNTED)
    pin = "for (let k = 0; k < 20; k++) H.view.elements.pin({ output: 0, at: [0, 0, k % 3] })"
    cards = page.value("H.view.elements.cards.length")
    assert drawn_by(page, pin, cards) == cards > 1


def test_within_a_cell_a_pointer_draws_nothing(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, PROGRAMS["moved"], parts=["maps"])
    page.value(COUNTED)
    assert drawn_by(page, OVER % 3, 1) > 0
    assert drawn_by(page, OVER % 5, 0) == 0
    assert drawn_by(page, OVER % 40, 1) > 0


def test_what_is_not_seen_is_drawn_when_there_is_time(page: Browser, tmp_path: Path) -> None:
    lines = "\n".join(f"p{k} = f32[40,70] parameter({k})" for k in range(12))
    names = ", ".join(f"p{k}" for k in range(12))
    text = f"ENTRY e {{ {lines}\nROOT c = f32[480,70] concatenate({names}), dimensions={{0}} }}"
    shown(page, tmp_path, text, parts=["maps"])
    page.until("H.view.elements.cards.length === 13", 20)
    pin = "H.view.elements.pin({ output: 0, at: [200, 7] })"
    page.value(COUNTED)
    assert drawn_by(page, pin, 13) == 13
    lit = "H.view.elements.cards.filter((c) => c.what === 'operand' && c.picture.lit.size)"
    assert page.value(f"{lit}.map((card) => card.number)") == [5]


@pytest.mark.parametrize("way", ["key", "scheme", "paper"])
def test_pictures_have_the_colours_of_the_page(page: Browser, tmp_path: Path, way: str) -> None:
    shown(page, tmp_path, PROGRAMS["moved"], parts=["maps"])
    page.until(f"{PIXEL} === '{LIGHT}'", 20)
    scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
    try:
        if way == "key":
            page.key("t")
            page.key("t")
        else:
            page.call("Emulation.setEmulatedMedia", {"features": scheme})
        page.until(f"{PIXEL} === '{DARK}'", 20)
        if way == "paper":
            page.call("Emulation.setEmulatedMedia", {"media": "print", "features": scheme})
            page.until(f"{PIXEL} === '{LIGHT}'", 20)
    finally:
        page.call("Emulation.setEmulatedMedia", {"media": "", "features": []})
    if way != "key":
        page.until(f"{PIXEL} === '{LIGHT}'", 20)
