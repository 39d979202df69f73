"""The page in a browser: what lights up is what the maps say, and nothing of a program runs."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

import hloscope
from hloscope.api import Invalid, explore
from hloscope.display import line_printer
from hloscope.display.explorer import map_json
from tests.browser import Browser
from tests.display.explorer.clicking import clicks, select
from tests.display.explorer.pages import EXAMPLES, browser, page_of, saved
from tests.display.explorer.test_page import HOSTILE, programs

pytestmark = [browser, pytest.mark.timeout(240)]

PERCENT: Final = """func.func @main(%a: tensor<4xf32>, %a7: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @x(%a) {y = "%a %{a0} %{%}{ %0"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.add %0, %0 : tensor<4xf32>
  %2:2 = "stablehlo.while"(%1, %a7) ({
  ^bb0(%b: tensor<4xf32>, %c: tensor<4xf32>):
    %p = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%b: tensor<4xf32>, %c: tensor<4xf32>):
    %d = stablehlo.add %b, %a : tensor<4xf32>
    stablehlo.return %d, %c : tensor<4xf32>, tensor<4xf32>
  }) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %3 = stablehlo.add %2#0, %2#1 : tensor<4xf32>
  return %3 : tensor<4xf32>
}"""
PROGRAMS: Final = {
    "moved": """ENTRY e {
      p = f32[6,8] parameter(0)
      t = f32[8,6] transpose(p), dimensions={1,0}
      r = f32[4,12] reshape(t)
      b = f32[3,4,12] broadcast(r), dimensions={1,2}
      s = f32[3,2,5] slice(b), slice={[0:3],[1:4:2],[2:12:2]}
      v = f32[3,2,5] reverse(s), dimensions={0,2}
      ROOT d = f32[5,4,6] pad(v, c), padding=1_1_0x1_1_0x0_1_0
      }""".replace("ROOT d", "c = f32[] constant(0)\n      ROOT d"),
    "summed": """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
      ENTRY e {
      p = f32[4,10,6] parameter(0)
      z = f32[] constant(0)
      r = f32[4,6] reduce(p, z), dimensions={1}, to_apply=add
      w = f32[4,5,3] reduce-window(p, z), window={size=1x3x2 stride=1x2x2 pad=0_0x1_1x0_0}, \
to_apply=add
      q = f32[6,7] parameter(1)
      ROOT d = f32[4,7] dot(r, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      }""",
    "read at run time": """ENTRY e {
      p = f32[9,7] parameter(0)
      i = s32[] parameter(1)
      j = s32[] parameter(2)
      s = f32[4,3] dynamic-slice(p, i, j), dynamic_slice_sizes={4,3}
      ROOT n = f32[4,3] negate(s)
      }""",
    "large": """ENTRY e {
      p = f32[128,512,64] parameter(0)
      t = f32[64,128,512] transpose(p), dimensions={2,0,1}
      ROOT r = f32[64,65536] reshape(t)
      }""",
    "joined": """ENTRY e {
      p = f32[5,3] parameter(0)
      q = f32[2,3] parameter(1)
      c = f32[7,3] concatenate(p, q), dimensions={0}
      ROOT t = (f32[7,3], f32[5,3]) tuple(c, p)
      }""",
    "read by regions": """func.func @main(%x: tensor<4x3xf32>, %y: tensor<3x4xf32>, %p: tensor<i1>)
        -> tensor<4x3xf32> {
      %r = "stablehlo.if"(%p) ({
        %t = stablehlo.transpose %y, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>
        stablehlo.return %t : tensor<4x3xf32>
      }, {
        %u = stablehlo.reverse %x, dims = [0] : tensor<4x3xf32>
        stablehlo.return %u : tensor<4x3xf32>
      }) : (tensor<i1>) -> tensor<4x3xf32>
      return %r : tensor<4x3xf32>
    }""",
    "StableHLO": """func.func @main(%x: tensor<4x8xf32>, %i: tensor<3x1xi32>) -> tensor<3x8xf32> {
      %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
      %u = stablehlo.transpose %t, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
      %g = "stablehlo.gather"(%u, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 8>}> : (tensor<4x8xf32>, tensor<3x1xi32>) -> tensor<3x8xf32>
      return %g : tensor<3x8xf32>
    }""",
}
ODD: Final = {
    "a function without ops": "func.func @main() { return }",
    "no elements": "ENTRY e { p = f32[0,4] parameter(0) ROOT t = f32[4,0] transpose(p), "
    "dimensions={1,0} }",
    "a tuple in a tuple": "ENTRY e { p = f32[2] parameter(0) t = (f32[2]) tuple(p) "
    "ROOT u = ((f32[2]), f32[2]) tuple(t, p) }",
    "an empty tuple": "ENTRY e { ROOT t = () tuple() }",
    "unknown sizes": "func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {\n"
    "%y = stablehlo.negate %x : tensor<?x4xf32>\nreturn %y : tensor<?x4xf32> }",
    "bounded sizes": "ENTRY e { p = f32[<=8,4] parameter(0) ROOT n = f32[<=8,4] negate(p) }",
    "an op that nobody knows": "ENTRY e { p = f32[2] parameter(0) ROOT c = f32[2] "
    'custom-call(p), custom_call_target="f" }',
    "a scalar": "ENTRY e { p = f32[] parameter(0) ROOT n = f32[] negate(p) }",
    "a huge tensor": "ENTRY e { p = f32[1048576,1048576,1048576] parameter(0) "
    "ROOT n = f32[1048576,1048576,1048576] negate(p) }",
    "a function that calls itself": "func.func @f(%x: tensor<f32>) -> tensor<f32> {\n"
    "%y = func.call @f(%x) : (tensor<f32>) -> tensor<f32>\nreturn %y : tensor<f32> }",
}
LIGHT = "H.view.elements.lit()"
ALL_COLUMNS: Final = "document.querySelector('.sheet .wide + .link').click()"
"""Shows all rows and columns of the costs."""


def shown(
    page: Browser, folder: Path, text: str | Path, fragment: str = "", **options: Any
) -> None:
    """Open the page of a program."""
    page.said.clear()
    page.asked.clear()
    page.open(saved(folder, page_of(text, **options)), fragment)
    page.until("H.view && (H.state.k < 0 || H.view.elements.k === H.state.k)")


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_lights_up_is_what_the_maps_say(
    page: Browser, tmp_path: Path, name: str, full: bool
) -> None:
    shown(page, tmp_path, PROGRAMS[name], parts=["maps"])
    count = 100 if full else 12
    clicks(page, hloscope.read(PROGRAMS[name]), count, random.Random(name))
    assert not page.said


@pytest.mark.parametrize("name", ["softmax.hlo", "layer.mlir"])
def test_fusions_and_calls_light_up_as_their_maps_say(
    page: Browser, tmp_path: Path, name: str, full: bool
) -> None:
    shown(page, tmp_path, EXAMPLES / name, parts=["maps"])
    count = 200 if full else 12
    clicks(page, hloscope.read(EXAMPLES / name), count, random.Random(name))
    assert not page.said


@pytest.mark.parametrize("text", [EXAMPLES / "layer.mlir", EXAMPLES / "softmax.mlir", PERCENT],
                         ids=["layer", "softmax", "percent"])  # fmt: skip
def test_names_and_lines_of_the_page_are_those_of_the_program(
    page: Browser, tmp_path: Path, text: str | Path
) -> None:
    shown(page, tmp_path, text, parts=["cancel"])
    write = line_printer()
    for k, view in enumerate(hloscope.read(text)):
        select(page, k)
        page.until(f"H.view.about.k === {k}")
        assert page.value(f"H.program.name[{k}]") == view.name
        told = page.value("document.querySelector('.about .line').textContent")
        assert told == write(view.ir), view.name
    assert not page.said


@pytest.mark.parametrize("name", ODD)
def test_odd_programs_are_shown(page: Browser, tmp_path: Path, name: str) -> None:
    shown(page, tmp_path, ODD[name], parts=["maps", "cancel", "tiles"])
    for k in range(page.value("H.program.count")):
        select(page, k)
    assert not page.said
    assert not page.asked


def test_values_that_regions_read_are_shown_as_operands_are(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, PROGRAMS["read by regions"], parts=["maps"])
    select(page, page.value("H.program.name.indexOf('r')"))
    tags = "[...document.querySelectorAll('.card .tag')].map((tag) => tag.textContent)"
    assert page.value(tags) == ["output", "operand 0", "captured 0", "captured 1"]
    names = "H.program.readsOf(H.state.k).map((k) => H.program.name[k])"
    assert page.value(names) == ["p", "y", "x"]
    page.value("H.view.elements.pin({ output: 0, at: [1, 2] })")
    lit = {card["number"]: card["elements"] for card in page.value(LIGHT)[1:]}
    assert lit == {0: [[[]]], 1: [[[2, 1]]], 2: [[[2, 2]]]}


def test_elements_of_a_tensor_that_cannot_be_drawn_are_told(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, ODD["a huge tensor"], parts=["maps"])
    page.value("H.view.elements.pin({ output: 0, at: [5, 1048575, 7] })")
    assert page.value(LIGHT)[1]["elements"] == [[[5, 1048575, 7]]]
    said = page.value("document.querySelector('.card.operand').textContent")
    assert "too many elements to be drawn" in said
    assert "1 element [5, 1048575, 7]" in said
    page.until("location.hash === '#e/n?at=5,1048575,7'", 20)


@pytest.mark.slow
def test_nothing_of_a_hostile_program_runs(page: Browser, tmp_path: Path, full: bool) -> None:
    for text in programs(100 if full else 6):
        shown(page, tmp_path, text)
        for k in range(page.value("H.program.count")):
            select(page, k)
        page.value("Promise.all(['op_name', 'source'].map((mode) => H.view.rows.show(mode)))")
        assert page.value("window.hit") is None
        assert (
            page.value("document.querySelectorAll('img, iframe, object, a, svg script').length")
            == 0
        )
        assert not page.said
        assert not page.asked


def test_hostile_text_is_shown_as_it_is(page: Browser, tmp_path: Path) -> None:
    bad = next(text for text in HOSTILE if text.startswith("<img"))
    root = f'ROOT n = f32[2] negate(p), metadata={{op_name="{bad}"}}'
    shown(page, tmp_path, f"ENTRY e {{ p = f32[2] parameter(0) {root} }}")
    page.value(ALL_COLUMNS)
    assert bad in page.value("H.view.overview.element.textContent")
    page.value("document.querySelector('.costs tr.leads').click()")
    page.until(f"H.view.about.element.textContent.includes({bad!r})")


def test_the_page_opens_on_where_the_step_goes_and_leads_to_kernels_and_back(
    page: Browser, tmp_path: Path
) -> None:
    text = (
        "HloModule m\nf { x = f32[64,512] parameter(0) ROOT n = f32[64,512] negate(x) }\nENTRY e {"
        " p = f32[64,512] parameter(0) a = f32[64,512] fusion(p), kind=kLoop, calls=f"
        " ROOT b = f32[64,512] fusion(a), kind=kLoop, calls=f }"
    )
    shown(page, tmp_path, text)
    assert page.value("document.documentElement.classList.contains('at-overview')")
    rows = page.value("[...document.querySelectorAll('.costs tbody tr')].map((r) => r.textContent)")
    assert "2 × a" in rows[0]
    assert rows[-1].endswith("all")
    page.value("document.querySelector('.costs tr.leads').click()")
    page.until("H.state.k >= 0 && H.program.name[H.state.k] === 'a'")
    assert not page.value("document.documentElement.classList.contains('at-overview')")
    page.value("document.querySelector('header .brand').click()")
    page.until("document.documentElement.classList.contains('at-overview')")


def test_the_page_of_an_invalid_program_opens_on_what_is_invalid(
    page: Browser, tmp_path: Path
) -> None:
    text = "ENTRY e { p = f32[2] parameter(0) b = f32[3] abs(p) ROOT n = f32[2] negate(p) }"
    program = hloscope.read(text)
    for parts in (["maps"], ["maps", "cost"]):
        found = explore(program, parts=parts, invalid=Invalid(program.module))
        page.open(saved(tmp_path, found.to_html()))
        assert page.value("document.documentElement.classList.contains('at-overview')")
        [finding] = hloscope.verify(text)
        shown = page.value("document.querySelector('.overview .findings').textContent")
        assert f"b: {finding.message}" in shown
        page.value("document.querySelector('.overview .findings .link').click()")
        page.until("H.state.k >= 0 && H.program.name[H.state.k] === 'b'")
        page.until(f"H.view.maps.element.textContent.includes({json.dumps(finding.message)})")


def test_the_memory_of_a_scheduled_program_is_drawn_and_leads_to_instructions(
    page: Browser, tmp_path: Path
) -> None:
    shown(page, tmp_path, EXAMPLES / "layers.hlo", parts=["cost", "memory"])
    texts = page.value("[...document.querySelectorAll('.hm text')].map((t) => t.textContent)")
    assert {"peak 104 MiB at 14", "forward", "backward"} <= {*texts}
    legend = page.value("[...document.querySelectorAll('.legend > div')].map((d) => d.textContent)")
    assert "64 MiB, 61.5 %model.py:13" in legend
    held = "[...document.querySelectorAll('.peak-holders ~ .wide tbody tr')]"
    rows = page.value(f"{held}.map((r) => r.textContent)")
    assert rows[0].startswith("64 MiB61.5 %")
    assert rows[-1].startswith("104 MiB")
    block = (
        "[...document.querySelectorAll('.hm .leads')].find((b) => b.textContent.startsWith('s2 '))"
    )
    fill = page.value(f"getComputedStyle({block}).fill")
    assert fill == "rgb(59, 130, 196)"
    page.value(f"{block}.dispatchEvent(new MouseEvent('click'))")
    page.until("H.state.k >= 0 && H.program.name[H.state.k] === 's2'")
    page.key("h")
    page.until("document.documentElement.classList.contains('at-overview')")
    assert not page.said


def test_a_program_without_moments_has_sums_in_place_of_a_picture(
    page: Browser, tmp_path: Path
) -> None:
    text = "ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }"
    shown(page, tmp_path, text, parts=["memory"])
    said = page.value("H.view.overview.element.textContent")
    assert "no moments: the program has no schedule" in said
    assert "parameters 32 bytes, outputs 32 bytes" in said
    assert "largest arrays" in said
    verdict = page.value("document.querySelector('.verdict').textContent")
    assert "outputs 32 bytes" in verdict
    assert "largest arrays" not in verdict


def test_a_page_that_is_tampered_with_cannot_run_scripts_or_load(
    page: Browser, tmp_path: Path
) -> None:
    text = page_of("ENTRY e { ROOT p = f32[2] parameter(0) }", parts=["maps"])
    bad = "<script>window.hit = 1</script><img src='missing.png' onerror='window.hit = 1'>"
    page.open(saved(tmp_path, text.replace('<div id="app">', f'{bad}<div id="app">')))
    assert page.value("window.hit") is None
    assert any("Content Security Policy" in line for line in page.said)
    page.said.clear()


def long_program(count: int) -> str:
    body = "\n".join(f"n{k} = f32[8,16] negate({f'n{k - 1}' if k else 'p'})" for k in range(count))
    return (
        f"ENTRY e {{ p = f32[8,16] parameter(0)\n{body}\nROOT r = f32[8,16] copy(n{count - 1}) }}"
    )


def test_few_rows_are_elements_however_long_the_program_is(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, long_program(10_000), parts=["maps"])
    assert page.value("H.view.rows.list.length") > 10_000
    for place in (0, 100_000, 10**9):
        page.value(f"H.view.rows.element.scrollTop = {place}")
        page.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")
        assert 10 < page.value("H.view.rows.drawn") < 120
    assert page.value("document.getElementsByTagName('*').length") < 1500


def test_an_address_leads_to_an_instruction_and_an_element(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, PROGRAMS["moved"], "#e/t?at=2,5", parts=["maps"])
    assert page.value("H.program.name[H.state.k]") == "t"
    assert page.value("H.view.elements.asked.at") == [2, 5]
    assert page.value(LIGHT)[1]["elements"] == [[[5, 2]]]
    shown(page, tmp_path, PROGRAMS["moved"], "#e/t?from=0.0&at=5,2", parts=["maps"])
    assert page.value(LIGHT)[0]["elements"] == [[[2, 5]]]
    page.value("H.view.elements.move(0, 1)")
    page.until("location.hash === '#e/t?from=0.0&at=5,3'", 20)


@pytest.mark.slow
def test_a_key_held_is_few_steps_of_the_history_and_back_returns(
    page: Browser, tmp_path: Path
) -> None:
    shown(page, tmp_path, PROGRAMS["moved"], "#e/t", parts=["maps"])
    page.value("tell = history.pushState.bind(history), steps = []")
    page.value(
        "history.pushState = (...given) => { steps.push(performance.now()); tell(...given); }, 0"
    )
    page.value(
        "new Promise((done) => { let n = 0; const press = () => {"
        "  document.body.dispatchEvent("
        "    new KeyboardEvent('keydown', {key: n++ % 2 ? 'j' : 'k', bubbles: true}));"
        "  n < 400 ? setTimeout(press, 4) : done(); }; press(); })"
    )
    name = page.value("H.program.name[H.state.k]")
    page.until(f"location.hash.endsWith('/{name}')")
    assert not page.said  # a browser that passed over a change would say so
    steps = page.value("steps")  # however slow the machine: none sooner than the browser allows
    assert steps
    assert all(later - sooner > 50 for sooner, later in pairwise(steps))
    page.key("k")
    page.until(f"!location.hash.endsWith('/{name}')")
    page.key("Backspace")
    page.until(f"H.program.name[H.state.k] === '{name}'")


@pytest.mark.parametrize(
    "fragment", ["#nothing/here", "#e/t?at=99,99", "#e/t?out=7", "#%", "#e/t?from=9.9"]
)
def test_an_address_that_leads_nowhere_shows_the_program(
    page: Browser, tmp_path: Path, fragment: str
) -> None:
    shown(page, tmp_path, PROGRAMS["moved"], fragment, parts=["maps"])
    assert page.value("H.state.k >= 0 && H.view.elements.asked.at.length === 3 || H.state.k > 0")
    assert not page.said


def test_keys_move_search_and_unfold(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, EXAMPLES / "softmax.hlo", parts=["maps"])
    start = page.value("H.state.k")
    page.key("ArrowUp")
    page.until(f"H.state.k === {start - 1}")
    page.key("/")
    assert page.value("document.activeElement === H.view.search")
    page.value("H.view.search.value = 'op:reduce'")
    page.value("H.view.search.dispatchEvent(new Event('input'))")
    page.until("H.view.rows.words.length === 1 && H.view.rows.list.length === 2")
    page.key("Enter")
    page.until("H.program.opcodeOf(H.state.k) === 'reduce'")
    page.key("Escape")
    page.until("H.view.rows.words.length === 0")
    assert page.value("H.view.rows.list.some((row) => row.k === H.state.k)")
    page.key("?")
    page.until("document.querySelector('dialog') !== null")


def test_what_is_grouped_holds_every_instruction(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, EXAMPLES / "softmax.hlo", parts=["maps"])
    for mode in ("op_name", "source"):
        page.value(f"H.view.rows.show('{mode}')")
        for _ in range(12):  # unfold all
            page.value("H.view.rows.list.forEach((r) => r.fold && H.view.rows.open.add(r.fold))")
            page.value("H.view.rows.update()")
        listed = page.value(
            "H.view.rows.list.filter((row) => row.k !== undefined).map((row) => row.k)"
        )
        assert sorted(listed) == list(range(page.value("H.program.count")))


@pytest.mark.parametrize("mode", ["op_name", "source"])
def test_what_is_selected_is_unfolded_in_its_group(
    page: Browser, tmp_path: Path, mode: str
) -> None:
    shown(page, tmp_path, EXAMPLES / "training_step.hlo", parts=["maps"])
    page.value(f"H.view.rows.show('{mode}')")
    for k in range(page.value("H.program.count")):
        select(page, k)
        assert page.value("document.querySelector('.row.selected') !== null"), k


def test_changes_lead_to_their_instructions(page: Browser, tmp_path: Path) -> None:
    older = hloscope.read("ENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] tan(p) }")
    shown(
        page, tmp_path, "ENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] tanh(p) }", before=older
    )
    page.value("[...document.querySelectorAll('.tab')].at(-1).click()")
    page.until("document.querySelector('.change.changed button') !== null")
    assert "tan → tanh" in page.value("document.querySelector('.differences').textContent")


BIG: Final = {
    "(d0) -> (d0 * 9007199254740993), domain: d0 in [0, 9]": 9007199254740993 * 7,
    "(d0) -> ((d0 * -9007199254740993) / 2), domain: d0 in [0, 9]": 9007199254740993 * -7 // 2,
    "(d0) -> ((d0 * -9007199254740993) mod 10), domain: d0 in [0, 9]": 9007199254740993 * -7 % 10,
    "(d0) -> ((d0 - 20) / 3), domain: d0 in [0, 9]": -13 // 3,
    "(d0) -> ((d0 - 20) mod 3), domain: d0 in [0, 9]": -13 % 3,
    "(d0) -> ((d0 - 20) ceildiv 3), domain: d0 in [0, 9]": -(13 // 3),
    "(d0) -> (min(d0, 3) + max(d0, 8)), domain: d0 in [0, 9]": 3 + 8,
}


def test_expressions_are_evaluated_as_in_python(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, "ENTRY e { ROOT p = f32[2] parameter(0) }", parts=["maps"])
    for text, value in BIG.items():
        m = hloscope.IndexingMap.parse(text)
        data = map_json(m)
        (result,) = data["results"]
        values = f"H.evaluate({json.dumps(data['nodes'])}, {{ d: [7], s: [], r: [] }})"
        found = page.value(f"{values}[{result}].toString()")
        assert int(found) == value == m.evaluate((7,))[0], text


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["", "dark"])
def test_on_paper_nothing_covers_anything_and_text_is_dark(
    page: Browser, tmp_path: Path, theme: str
) -> None:
    shown(page, tmp_path, EXAMPLES / "softmax.hlo", parts=["maps", "coalesce"])
    page.value(f"document.documentElement.dataset.theme = '{theme}'")
    paper = {"width": 780, "height": 1100, "deviceScaleFactor": 1, "mobile": False}
    scheme = [{"name": "prefers-color-scheme", "value": theme or "light"}]
    page.call("Emulation.setEmulatedMedia", {"media": "print", "features": scheme})
    page.call("Emulation.setDeviceMetricsOverride", paper)
    try:
        boxes = page.value(
            "['.path', '.graph svg', '.elements', '.about', '.maps', '.verdicts'].map((one) => {"
            "const box = document.querySelector(one).getBoundingClientRect();"
            "return [box.top, box.bottom, box.right] })"
        )
        assert all(upper[1] <= lower[0] + 1 for upper, lower in pairwise(boxes))
        assert all(box[2] <= 781 for box in boxes)
        assert page.value("getComputedStyle(document.body).color") == "rgb(27, 36, 48)"
        assert page.value("getComputedStyle(document.querySelector('.left')).display") == "none"
    finally:
        page.call("Emulation.setEmulatedMedia", {"media": "", "features": []})
        page.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.slow
def test_of_many_changes_some_are_shown_and_all_are_counted(page: Browser, tmp_path: Path) -> None:
    newer = long_program(3000).replace("negate(", "tanh(")
    shown(page, tmp_path, newer, parts=["maps"], before=hloscope.read(long_program(3000)))
    page.value("[...document.querySelectorAll('.tab')].at(-1).click()")
    page.until("document.querySelector('.differences') !== null")
    groups = page.value("[...document.querySelectorAll('.change')].map((g) => g.textContent)")
    assert groups == [
        "~1 × tanh op: negate → tanhn0 in e",
        "−1 × negate f32[8,16]n1 in e",
        "+2,998 × tanh f32[8,16]",
        "−2,997 × negate f32[8,16]",
        "~1 × tanh op: negate → tanhoperand 0: another valuen2999 in e",
    ]
    page.value("document.querySelectorAll('.change')[2].open = true")
    page.until("document.querySelectorAll('.change')[2].querySelectorAll('.one').length === 500")
    assert "and 2,498 more" in page.value("document.querySelectorAll('.change')[2].textContent")


@pytest.mark.slow
def test_what_is_shown_first_computes_something(page: Browser, tmp_path: Path) -> None:
    for text in (
        "ENTRY e { p = f32[2] parameter(0) n = f32[2] negate(p) t = (f32[2]) tuple(n) "
        "ROOT u = ((f32[2]), f32[2]) tuple(t, p) }",
        "func.func @main(%p: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {"
        " %n = stablehlo.negate %p : tensor<2xf32>"
        " return %n, %p : tensor<2xf32>, tensor<2xf32> }",
    ):
        shown(page, tmp_path, text, parts=["maps"])
        assert page.value("H.program.name[H.state.k]") == "n"
