"""Clicks on elements of a page in a browser, and what must light up: what the maps say."""

from __future__ import annotations

import random
from collections import Counter
from math import prod
from typing import Any, Final

import hloscope
from hloscope.indexing import Accesses
from tests.browser import Browser

MOST_LISTED: Final = 1 << 16
"""A larger set is not listed: its count is compared, and some of its elements are."""

_LIT: Final = f"""H.view.elements.lit({MOST_LISTED}).map((card, k) => {{
  const some = H.view.elements.cards[k].sets.map((set) => {{
    const pick = (all) => all[Math.floor(Math.random() * all.length)];
    const value = (side) => [side.lo + side.step * Math.floor(Math.random() * side.count)];
    return set && set.count && Array.from({{ length: 20 }}, () => {{
      const at = [];
      for (const {{ dimensions, run, tuples }} of set.groups)
        (run ? value(run) : pick(tuples)).forEach((one, n) => (at[dimensions[n]] = Number(one)));
      return at;
    }});
  }});
  return {{ ...card, some }};
}})"""
"""What is lit on every card, with some elements of every set."""


def select(page: Browser, k: int) -> None:
    """Show an instruction."""
    page.value(f"H.view.graph.choose({k})")
    page.until(f"H.view.elements.k === {k}")


def press(page: Browser, card: int, row: int, column: int) -> None:
    """Click on a cell of a card, with the mouse."""
    x, y = page.value(
        f"""(() => {{ const {{ picture }} = H.view.elements.cards[{card}];
        picture.canvas.scrollIntoView({{ block: "center" }});
        const box = picture.canvas.getBoundingClientRect();
        return [box.left + picture.lefts[{column}] + picture.side / 2,
                box.top + picture.tops[{row}] + picture.height / 2]; }})()"""
    )
    page.click(x, y)


def press_anywhere(page: Browser, rng: random.Random) -> tuple[str, int, int]:
    """Click on a random element of what is shown; return the card: what, number, leaf."""
    cards = page.value(
        "H.view.elements.cards.map((c) => c.picture && c.fields"
        " && [c.what, c.number, c.leaf, c.picture.tops.length, c.picture.lefts.length])"
    )
    n, card = rng.choice([(n, card) for n, card in enumerate(cards) if card])
    what, number, leaf, rows, columns = card
    press(page, n, rng.randrange(rows), rng.randrange(columns))
    return what, number, leaf


def clicks(
    page: Browser, program: hloscope.Program, count: int, rng: random.Random
) -> Counter[str]:
    """Click on random elements of random instructions, and compare what lights up.

    Returns:
        How many sets were compared element by element, by count and samples, and as unknown.
    """
    every = [view for view in program if view.ir.operands]
    numbers = {view.ir: k for k, view in enumerate(program)}
    compared: Counter[str] = Counter()
    for _ in range(count):
        view = rng.choice(every)
        select(page, numbers[view.ir])
        output = page.value("H.view.elements.output")
        what, number, leaf = press_anywhere(page, rng)
        asked = page.value("H.view.elements.asked")
        lit = page.value(_LIT)
        if what == "output":
            assert asked["output"] == output
            assert "operand" not in asked
            (answer,) = view.indexing(output).answer.outputs
            for card in lit[1:]:
                accesses = answer.operands[card["number"]].accesses
                mine = tuple(a for a in accesses if a.leaf == card["leaf"])
                compared[_compared(card, mine, asked["at"])] += 1
        else:
            assert (asked["operand"], asked["leaf"]) == (number, leaf)
            found = view.indexing_from(number, output, leaf=leaf).answer.outputs
            mine = tuple(a for o in found for a in o.operands[0].accesses)
            compared[_compared(lit[0], mine, asked["at"])] += 1
    return compared


def _compared(card: dict[str, Any], accesses: Accesses, at: list[int]) -> str:
    """Compare what is lit on a card with what maps say, run-time values at their least.

    Returns:
        How it was compared.
    """
    maps = [access.map for access in accesses]
    if not accesses:
        assert not card["elements"]
        return "nothing is read"
    if None in maps:
        assert all(card["counts"][k] is None for k, m in enumerate(maps) if m is None)
        return "unknown"
    sizes = [prod(max(0, v.interval.size) for v in m.ranges) for m in maps if m is not None]
    if None in card["elements"] or max(sizes, default=0) > 1 << 20:
        return _counted(card, accesses, at)
    assert [len(some) for some in card["elements"]] == card["counts"]
    assert card["drawn"] == sum(card["counts"])
    for some, m in zip(card["elements"], maps, strict=True):
        assert m is not None
        lit = {tuple(point) for point in some}
        assert lit == m.points(at, [v.interval.lo for v in m.runtime]), (card, m, at)
    return "element by element"


def _counted(card: dict[str, Any], accesses: Accesses, at: list[int]) -> str:
    """The same for sets that are too large to be listed."""
    if None in card["counts"]:
        return "too many for the page"
    assert card["drawn"] == sum(card["counts"])
    for count, some, access in zip(card["counts"], card["some"], accesses, strict=True):
        assert access.map is not None
        if access.map.runtime:
            return "not compared"
        touched = access.map.image([(i, i) for i in at])
        assert count == touched.card(), (access.map, at)
        assert all(tuple(point) in touched for point in some or ()), (access.map, at)
    return "by count and samples"
