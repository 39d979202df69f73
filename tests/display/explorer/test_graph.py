"""The picture of the graph: nothing lies over anything else, and all that is called is inside."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import hloscope
from tests.browser import Browser
from tests.display.explorer.pages import browser, saved
from tests.display.explorer.test_browser import shown

pytestmark = [browser, pytest.mark.timeout(240)]

LOOP: Final = """
  body { b = (s32[], f32[4,6]) parameter(0) i = s32[] get-tuple-element(b), index=0
    one = s32[] constant(1) next = s32[] add(i, one)
    x = f32[4,6] get-tuple-element(b), index=1 y = f32[4,6] tanh(x)
    ROOT again = (s32[], f32[4,6]) tuple(next, y) }
  cond { c = (s32[], f32[4,6]) parameter(0) k = s32[] get-tuple-element(c), index=0
    ten = s32[] constant(10) ROOT less = pred[] compare(k, ten), direction=LT }
  yes { v = f32[4,6] parameter(0) ROOT minus = f32[4,6] negate(v) }
  no { u = f32[4,6] parameter(0) ROOT power = f32[4,6] exponential(u) }
  ENTRY e { zero = s32[] constant(0) p = f32[4,6] parameter(0) which = pred[] parameter(1)
    init = (s32[], f32[4,6]) tuple(zero, p)
    loop = (s32[], f32[4,6]) while(init), condition=cond, body=body
    n = s32[] get-tuple-element(loop), index=0 w = f32[4,6] get-tuple-element(loop), index=1
    both = f32[4,6] conditional(which, w, w), true_computation=yes, false_computation=no
    ROOT r = (s32[], f32[4,6]) tuple(n, both) }"""
NAMES: Final = "[...document.querySelectorAll('.graph .node .name')].map((n) => n.textContent)"
TITLES: Final = "[...document.querySelectorAll('.graph .more')].map((n) => n.textContent)"
LAYOUTS: Final = """(() => {
  let seed = 11;
  const random = (most) => (seed = (seed * 48271) % 2147483647) % most;
  const wrong = [];
  for (let round = 0; round < 200; round++) {
    const count = 1 + random(40);
    const node = (_, id) => ({ id, width: 20 + random(200), height: 20 + random(60) });
    const nodes = Array.from({ length: count }, node);
    const edges = [];
    for (let to = 1; to < count; to++)
      for (let n = random(4); n > 0; n--) edges.push({ from: random(to), to });
    const unique = [...new Map(edges.map((edge) => [`${edge.from}>${edge.to}`, edge])).values()];
    const copies = JSON.parse(JSON.stringify([nodes, unique]));
    const { width, height } = H.layout(nodes, unique);
    H.layout(...copies);
    if (JSON.stringify(copies) !== JSON.stringify([nodes, unique])) wrong.push([round, "differs"]);
    const left = (node) => node.x - node.width / 2, right = (node) => node.x + node.width / 2;
    const top = (node) => node.y - node.height / 2, bottom = (node) => node.y + node.height / 2;
    for (const node of nodes)
      if (left(node) < -0.01 || right(node) > width + 0.01 || top(node) < 0
          || bottom(node) > height)
        wrong.push([round, "outside", node.id]);
    nodes.forEach((a, n) => nodes.slice(n + 1).forEach((b) => {
      if (left(a) < right(b) - 0.01 && left(b) < right(a) - 0.01
          && top(a) < bottom(b) && top(b) < bottom(a))
        wrong.push([round, "overlap", a.id, b.id]);
    }));
    for (const { from, to, ways } of unique) {
      const [a, b] = [nodes[from], nodes[to]], last = ways[ways.length - 1];
      if (bottom(a) >= top(b)) wrong.push([round, "upwards", from, to]);
      const isFrom = ways[0].x === a.x && ways[0].top === bottom(a);
      if (!isFrom || last.x !== b.x || last.bottom !== top(b))
        wrong.push([round, "ends elsewhere", from, to]);
      ways.forEach(({ x, top: from, bottom: to }, n) => {
        if (x < 0 || x > width || from > to) wrong.push([round, "way outside", n]);
        for (const node of nodes) {
          const isIn = (from, to) => top(node) < to - 0.01 && from + 0.01 < bottom(node);
          if (left(node) < x && x < right(node) && isIn(from, to))
            wrong.push([round, "through", node.id]);
          if (n && isIn(ways[n - 1].bottom, from)) wrong.push([round, "across", node.id]);
        }
      });
    }
  }
  return wrong;
})()"""

DRAWN: Final = """(() => {
  const graph = document.querySelector(".graph");
  const boxes = [...graph.querySelectorAll(".node:not(.selected)")].map((node) => [
    node.querySelector(".name").textContent,
    node.querySelector("rect").getBoundingClientRect(),
    node.querySelector(".edge-label").getBoundingClientRect(),
  ]);
  const wrong = [];
  const over = (a, b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  for (const [name, box, label] of boxes) {
    if (label.top < box.bottom - 3) wrong.push([name, "its label is not below"]);
    for (const [other, its] of boxes) if (over(label, its)) wrong.push([name, "covers", other]);
  }
  const edges = [...graph.querySelectorAll(".edge")];
  for (const edge of edges) {
    const [length, to] = [edge.getTotalLength(), edge.getScreenCTM()];
    for (let at = 0; at <= length; at += 1) {
      const { x, y } = edge.getPointAtLength(at).matrixTransform(to);
      for (const [name, box, label] of boxes)
        for (const one of [box, label])
          if (one.left < x && x < one.right && one.top + 2 < y && y < one.bottom - 3)
            wrong.push(["an edge leads through", name]);
    }
  }
  return [edges.length, wrong];
})()"""


@pytest.mark.slow
def test_no_node_lies_over_another_and_no_edge_leads_through_one(
    page: Browser, tmp_path: Path
) -> None:
    shown(page, tmp_path, LOOP, parts=["maps"])
    assert page.value(LAYOUTS) == []


@pytest.mark.parametrize("chosen", ["loop", "both", "init", "r"])
def test_shapes_stand_below_their_nodes_and_edges_cover_neither(
    page: Browser, tmp_path: Path, chosen: str
) -> None:
    shown(page, tmp_path, LOOP, f"#e/{chosen}", parts=["maps"])
    edges, wrong = page.value(DRAWN)
    assert edges >= 3
    assert wrong == []


def test_operands_stand_in_their_order(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, LOOP, "#e/loop", parts=["maps"])
    of = "[...document.querySelectorAll('.node')].find((n) => n.textContent.startsWith('{}'))"
    left = "({}).getBoundingClientRect().left"
    for first, second in (("zero", "p"), ("k", "ten"), ("i", "one"), ("next", "y")):
        lefts = [page.value(left.format(of.format(f"{one} = "))) for one in (first, second)]
        assert lefts[0] < lefts[1], (first, second)


def test_a_loop_has_its_condition_and_its_body_inside(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, LOOP, "#e/loop", parts=["maps"])
    assert {"loop", "less", "ten", "again", "next", "y"} <= set(page.value(NAMES))
    assert page.value(TITLES) == ["cond", "body"]


def test_a_conditional_has_its_branches_inside(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, LOOP, "#e/both", parts=["maps"])
    assert {"both", "minus", "power"} <= set(page.value(NAMES))
    assert page.value(TITLES) == ["yes", "no"]


def test_of_many_branches_the_first_ones_are_drawn_and_the_others_counted(
    page: Browser, tmp_path: Path
) -> None:
    branches = "\n".join(
        f"b{k} {{ v{k} = f32[2] parameter(0) ROOT n{k} = f32[2] negate(v{k}) }}" for k in range(7)
    )
    calls = ", ".join(f"b{k}" for k in range(7))
    text = f"""{branches}
      ENTRY e {{ i = s32[] parameter(0) p = f32[2] parameter(1)
      ROOT c = f32[2] conditional(i, {", ".join("p" * 7)}), branch_computations={{{calls}}} }}"""
    shown(page, tmp_path, text, "#e/c", parts=["maps"])
    assert page.value(TITLES) == ["b0", "b1", "b2", "b3"]
    assert "c, 3 more computations" in page.value(NAMES)


def test_what_is_shown_first_is_the_largest_that_is_computed(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, LOOP, parts=["maps"])
    assert page.value("H.program.name[H.state.k]") == "loop"  # 25 numbers; `both` has 24


@pytest.mark.slow
def test_of_an_operand_nothing_is_asked_before_a_number_is_typed(
    page: Browser, tmp_path: Path
) -> None:
    shown(page, tmp_path, LOOP, "#e/both?at=1,2", parts=["maps"])
    fields = "H.view.elements.cards.map((c) => (c.fields || []).map((f) => f.value))"
    assert page.value(fields) == [["1", "2"], [], ["", ""], ["", ""]]
    page.value(
        """(() => { const [, field] = H.view.elements.cards[2].fields; field.focus();
        field.value = 5; field.dispatchEvent(new Event("input")); })()"""
    )
    assert page.value(fields) == [["", ""], [], ["0", "5"], ["", ""]]


@pytest.mark.slow
def test_what_changed_stands_first(page: Browser, tmp_path: Path) -> None:
    before, after = tmp_path / "a.hlo", tmp_path / "b.hlo"
    before.write_text(LOOP)
    after.write_text(LOOP.replace("tanh(x)", "negate(x)"))
    text = hloscope.read(after).explore(parts=["maps"], before=hloscope.read(before)).to_html()
    page.open(saved(tmp_path, text))
    page.until("document.querySelector('.differences') !== null")
    assert page.value("document.querySelector('.tab.on').textContent") == "Changes"
    assert "negate" in page.value("document.querySelector('.differences').textContent")
