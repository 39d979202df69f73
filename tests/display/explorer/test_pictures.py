"""The pictures of tensors: drawn once for a frame, what is seen first, in the page's colours."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Final

import pytest

from tests.browser import Browser
from tests.display.explorer.pages import browser
from tests.display.explorer.test_browser import PROGRAMS, shown

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
ROW: Final = """(() => { const { canvas, lefts, side, scale } = H.view.elements.cards[0].picture;
  const { data } = canvas.getContext("2d").getImageData(0, scale, (lefts[0] + 8 * side) * scale, 1);
  return Array.from({ length: data.length / 4 }, (_, k) =>
    [...data.slice(4 * k, 4 * k + 3)].join());
})()"""
"""The colours of the pixels of eight cells beside each other."""
LIGHT, DARK = "230,234,240", "36,44,54"


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
    lit = "H.view.elements.cards.filter((c) => c.what === 'operand' && c.picture.litCells)"
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


AREAS: Final = """(() => {
  let seed = 7;
  const random = (most) => (seed = (seed * 48271) % 2147483647) % most;
  const wrong = [];
  for (let round = 0; round < 60; round++) {
    const shape = Array.from({ length: 1 + random(4) }, () => 1 + random(round % 3 ? 7 : 200));
    const picture = new H.Picture(shape, {});
    const set = () => {
      const groups = shape.map((size, d) => {
        const lo = random(size);
        const step = 1 + random(2);
        const count = 1 + random(Math.ceil((size - lo) / step));
        return { dimensions: [d], run: { lo, step, count } };
      });
      return { groups, count: groups.reduce((product, { run }) => product * run.count, 1) };
    };
    const mark = (_, n) => ({ set: set(), colour: `--lit${n + 1}` });
    const marks = Array.from({ length: random(4) }, mark);
    const owners = new Map();
    marks.forEach(({ set, colour }) => picture.grid.counts(set, (row, column) => {
      const cell = `${row},${column}`;
      if (!owners.has(cell)) owners.set(cell, colour);
    }));
    picture.light(marks);
    const told = new Map();
    for (const { row, rows, column, columns, colour, share } of picture.litAreas())
      for (let r = row; r < row + rows; r++)
        for (let c = column; c < column + columns; c++) {
          const cell = `${r},${c}`;
          const right = Math.min(1, picture.litIn(r, c) / picture.grid.size(r, c));
          if (told.has(cell) || share !== right) wrong.push([round, cell]);
          told.set(cell, colour);
        }
    const sum = marks.reduce((all, { set }) => all + set.count, 0);
    if (sum !== picture.litElements) wrong.push([round, sum, picture.litElements]);
    if (told.size !== owners.size || told.size !== picture.litCells) wrong.push([round, "cells"]);
    for (const [cell, colour] of owners) if (told.get(cell) !== colour) wrong.push([round, cell]);
  }
  return wrong;
})()"""


def test_the_areas_that_are_drawn_are_the_cells_that_are_lit(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, PROGRAMS["moved"], parts=["maps"])
    assert page.value(AREAS) == []


def test_all_combinations_of_values_are_told_as_a_box(page: Browser, tmp_path: Path) -> None:
    text = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
      sum { p = f32[8,6] parameter(0) z = f32[] constant(0) r = f32[48] reshape(p)
      ROOT s = f32[] reduce(r, z), dimensions={0}, to_apply=add }
      ENTRY e { p = f32[8,6] parameter(0) ROOT f = f32[] fusion(p), kind=kInput, calls=sum }"""
    shown(page, tmp_path, text, "#e/f", parts=["maps"])
    (card,) = page.value("H.view.elements.lit()")[1:]
    assert len(card["elements"][0]) == 48
    assert "48 elements [0:8, 0:6]" in page.value("H.view.elements.element.textContent")


def test_a_value_of_run_time_that_is_chosen_lights_other_elements(
    page: Browser, tmp_path: Path
) -> None:
    shown(page, tmp_path, PROGRAMS["read at run time"], "#e/s?at=0,0", parts=["maps"])
    lit = "H.view.elements.lit().find((card) => card.number === 0 && card.what === 'operand')"
    assert page.value(lit)["elements"] == [[[0, 0]]]
    page.value(
        """(() => { const [field] = document.querySelectorAll(".runtime input");
        field.value = 3; field.dispatchEvent(new Event("input")); })()"""
    )
    assert page.value(lit)["elements"] == [[[3, 0]]]


def test_what_is_pressed_below_the_pointer_is_asked_once(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, PROGRAMS["moved"], parts=["maps"])
    page.value("{ window.asked = 0; const { touched } = H; "
               "H.touched = (...a) => { asked++; return touched(...a); } }")  # fmt: skip
    page.value(OVER % 40)
    assert page.value("asked") > 0
    before = page.value("asked")
    page.value("{ const { elements } = H.view; const { at } = elements.cards[0].picture.marks[0];"
               "elements.pin({ output: 0, at }); }")  # fmt: skip
    assert page.value("asked") == before


def test_pictures_on_paper_leave_what_is_before_them(page: Browser, tmp_path: Path) -> None:
    """Whatever is cleared makes a form of all that is before it; readers give up at 28 or so."""
    shown(page, tmp_path, PROGRAMS["large"], "#e/t", parts=["maps"])
    page.until("H.view.elements.cards.length === 2", 20)
    printed = page.call("Page.printToPDF", {"printBackground": True})["data"]
    assert len(re.findall(rb"/Subtype\s*/Form", base64.b64decode(printed))) < 20


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "colours"), [(1, {LIGHT}), (2, {LIGHT, "255,255,255"})])
def test_small_cells_have_lines_between_them_where_half_a_pixel_is_one(
    page: Browser, tmp_path: Path, scale: int, colours: set[str]
) -> None:
    window = {"width": 1400, "height": 863, "deviceScaleFactor": scale, "mobile": False}
    page.call("Emulation.setDeviceMetricsOverride", window)
    try:
        shown(page, tmp_path, PROGRAMS["large"], "#e/r", parts=["maps"])
        page.until("H.view.elements.cards.length === 2", 20)
        page.value(FRAMES)
        assert page.value("H.view.elements.cards[0].picture.side") == 3
        assert set(page.value(ROW)) == colours
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")
