"""The first screen: what costs most, the peak and its line are seen without scrolling."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

import hloscope
from hloscope.api import overview
from hloscope.checks import check_program, setting_of
from tests.browser import Browser
from tests.display.explorer.pages import EXAMPLES, browser, chunk, page_of, saved
from tests.display.explorer.test_browser import shown

TPU: Final = """HloModule step, is_scheduled=true, num_partitions=4
ENTRY main {
  x = bf16[4096,4096]{1,0:T(8,128)(2,1)} parameter(0)
  y = bf16[4096,4096]{1,0:T(8,128)(2,1)} parameter(1)
  d = bf16[4096,4096]{1,0:T(8,128)(2,1)} dot(x, y), lhs_contracting_dims={1}, \
rhs_contracting_dims={0}, metadata={op_name="jit(step)/dot" source_file="/src/a.py" source_line=7}
  n = bf16[4096,4096]{1,0:T(8,128)(2,1)} negate(d), metadata={op_name="jit(step)/neg" \
source_file="/src/a.py" source_line=9}
  ROOT s = bf16[4096,4096]{1,0:T(8,128)(2,1)} add(n, d), metadata={op_name="jit(step)/add" \
source_file="/src/a.py" source_line=9}
}
"""
SEEN: Final = """(text) => {
  const isSeen = ({ left, top, right, bottom }) =>
    left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight && bottom > top;
  return [...document.querySelectorAll('.overview *')].some((one) => !one.childElementCount
    && one.textContent.includes(text) && isSeen(one.getBoundingClientRect()));
}"""
"""Does an element without others inside it have a text, and is all of it in the window?"""


def window(page: Browser, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    page.call("Emulation.setDeviceMetricsOverride", size)


def is_seen(page: Browser, text: str) -> bool:
    return bool(page.value(f"({SEEN})({text!r})"))


@browser
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("program", "texts"), [
    (EXAMPLES / "layers.hlo", ["a0 and 7 like it", "36.8 % of the time bound", "model.py:12",
                               "at least 104 MiB live at once", "`d3` (model.py:14)",
                               "recompute model.py:13", "peak 104 MiB at 14", "137.5 G",
                               "donates it"]),
    (TPU, ["of the bytes", "a.py:7", "at least 128 MiB live at once", "`n` (a.py:9)",
           "tpu (tiled layout", "peak 128 MiB"]),
], ids=["layers", "tpu"])  # fmt: skip
def test_what_costs_most_and_the_peak_with_its_line_are_seen_without_scrolling(
    page: Browser, tmp_path: Path, program: str | Path, texts: list[str]
) -> None:
    try:
        window(page, 1280, 800)
        shown(page, tmp_path, program)
        assert {text: is_seen(page, text) for text in texts} == dict.fromkeys(texts, True)
        window(page, 390, 844)
        shown(page, tmp_path, program)
        assert all(is_seen(page, text) for text in texts[1:5])
        assert page.value("document.documentElement.scrollWidth") <= 390
        assert not page.said
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")


@browser
def test_the_peak_leads_to_its_instruction_and_the_path_back(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, EXAMPLES / "layers.hlo")
    page.value("[...document.querySelectorAll('.verdict .link')].at(-1).click()")
    page.until("H.state.k >= 0 && H.program.name[H.state.k] === 'd3'")
    page.value("document.querySelector('.path .back').click()")
    page.until("document.documentElement.classList.contains('at-overview')")


@browser
def test_source_lines_stand_in_order_below_their_files_with_their_shares(
    page: Browser, tmp_path: Path
) -> None:
    text = TPU.replace("/src/a.py", "/src/deep/a.py").replace(
        'op_name="jit(step)/neg" source_file="/src/deep/a.py" source_line=9',
        'op_name="jit(step)/neg" source_file="/src/deep/b.py" source_line=100',
    )
    shown(page, tmp_path, text)
    rows = "H.view.rows.list.map((row) => [row.text, row.depth, row.note])"
    page.value("H.view.rows.show('source')")
    assert page.value(rows) == [
        ["/src/deep", 0, "100 %"],
        ["a.py", 1, "75 %"],
        [":7", 2, "38 %"],
        [":9", 2, "38 %"],
        ["b.py", 1, "25 %"],
        [":100", 2, "25 %"],
        ["(no source)", 0, ""],
    ]
    page.value("H.view.rows.show('op_name')")
    assert [row[0] for row in page.value(rows)] == [
        "jit(step)",
        "add",
        "dot",
        "neg",
        "(no op_name)",
    ]


@browser
def test_the_number_of_equal_kernels_and_the_names_of_buffers_are_seen(
    page: Browser, tmp_path: Path
) -> None:
    rows = "[...document.querySelectorAll('%s')].map((one) => one.textContent)"
    try:
        window(page, 1280, 800)
        shown(page, tmp_path, EXAMPLES / "layers.hlo")
        assert page.value(rows % ".sheet .costs td:last-child") == [
            "8 × a0", "8 × h1", "4 × e3", "4 × s0", "all",
        ]  # fmt: skip
        held = page.value(rows % ".peak-holders ~ .wide th")
        assert held[:4] == ["bytes", "share", "source", "what"]
        assert held[-1] == "type"
        window(page, 390, 844)
        wide = ".sheet .wide"
        assert page.value(
            f"document.querySelector('{wide}').scrollWidth <= document.querySelector('{wide}')"
            ".clientWidth"
        )
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")


@browser
def test_a_source_file_alone_is_seen_before_its_folders(page: Browser, tmp_path: Path) -> None:
    shown(page, tmp_path, TPU.replace("/src/a.py", "/home/someone/a/long/way/model.py"))
    page.value("H.view.tabs.children[1].click()")
    page.until("document.querySelector('.row .head')?.textContent === 'model.py'")
    head = "document.querySelector('.row .head')"
    assert page.value(f"{head}.title").startswith("/home/someone/a/long/way/model.py: ")
    assert page.value(f"{head}.nextSibling.textContent") == "/home/someone/a/long/way/"
    right = "document.querySelector('.rows').getBoundingClientRect().right"
    assert page.value(f"{head}.getBoundingClientRect().right <= {right}")


@browser
def test_all_tabs_and_whole_numbers_are_seen(page: Browser, tmp_path: Path) -> None:
    old = hloscope.read("ENTRY e { p = f32[8192,6400] parameter(0) "
                        "ROOT n = f32[8192,6400] tanh(p) }")  # fmt: skip
    new = hloscope.read("ENTRY e { p = f32[8192,6400] parameter(0) "
                        "ROOT n = f32[8192,6400] negate(p) }")  # fmt: skip
    try:
        window(page, 1280, 800)
        page.open(saved(tmp_path, new.explore(before=old).to_html()))
        assert page.value("H.view.tabs.lastChild.textContent") == "Changes"
        assert page.value("H.view.tabs.scrollWidth <= H.view.tabs.clientWidth")
        window(page, 390, 844)
        page.value("H.view.graph.choose(1)")
        page.until("document.querySelectorAll('.verdicts td.amount').length > 0")
        lines = page.value(
            "[...document.querySelectorAll('.verdicts td.amount')].map((one) => {"
            " const range = document.createRange(); range.selectNodeContents(one);"
            " return [one.textContent, range.getClientRects().length]; })"
        )
        assert ["52,428,800", 1] in lines
        assert {count for _, count in lines} == {1}
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")


@browser
def test_names_that_a_search_finds_are_whole(page: Browser, tmp_path: Path) -> None:
    name = "a_very_long_name_" * 6 + "ending"
    text = f"ENTRY e {{ p = f32[2] parameter(0) ROOT {name} = f32[2] negate(p) }}"
    shown(page, tmp_path, text, parts=["maps"])
    page.value("H.view.rows.search('ending')")
    page.until("document.querySelectorAll('.found-row').length === 1")
    wide = "((one) => [one.scrollWidth, one.getBoundingClientRect().width])"
    scrolled, shown_width = page.value(f"{wide}(document.querySelector('.found-row .name'))")
    assert scrolled <= shown_width + 1
    inner = page.value("document.querySelector('.rows-inner').getBoundingClientRect().width")
    assert inner >= shown_width


@browser
def test_a_config_is_folded_and_its_line_is_complete(page: Browser, tmp_path: Path) -> None:
    config = '{"a":{"quoted":"} \\" {","many":["' + "x" * 80 + '"]}}'
    text = (
        f"ENTRY e {{ p = f32[2] parameter(0) ROOT n = f32[2] negate(p), backend_config={config} }}"
    )
    shown(page, tmp_path, text, "#e/n", parts=["maps"])
    page.until("document.querySelector('.about .config') !== null")
    assert page.value("document.querySelector('.about .config').textContent") == config
    assert not page.value("document.querySelector('.about .config').open")
    assert page.value("document.querySelector('.about .line').textContent").endswith(config)


@browser
def test_what_an_instruction_reads_is_not_cut_at_the_top_of_the_graph(
    page: Browser, tmp_path: Path
) -> None:
    body = "\n".join(f"f{k} = f32[2] negate({f'f{k - 1}' if k else 'x'})" for k in range(20))
    text = (
        f"fused {{ x = f32[2] parameter(0)\n{body}\nROOT r = f32[2] negate(f19) }}\nENTRY e {{ "
        "p = f32[2] parameter(0) a = f32[2] negate(p) b = f32[2] negate(a) "
        "ROOT f = f32[2] fusion(b), kind=kLoop, calls=fused }"
    )
    shown(page, tmp_path, text, "#e/f", parts=["maps"])
    top = (
        "[...document.querySelectorAll('.graph .node')].find((n) => "
        "n.querySelector('title').textContent.startsWith('b = ')).getBoundingClientRect().top"
    )
    page.until("document.querySelector('.graph .node') !== null")
    assert page.value(f"{top} - document.querySelector('.graph').getBoundingClientRect().top") >= 0


@browser
def test_the_colours_of_elements_are_told_and_no_others(page: Browser, tmp_path: Path) -> None:
    text = """ENTRY e { p = f32[4,6] parameter(0) c = f32[9] constant({...})
      ROOT s = f32[4,6] subtract(p, p) }"""
    shown(page, tmp_path, text.replace("c = f32[9] constant({...})", ""), "#e/s", parts=["maps"])
    page.until("document.querySelectorAll('.colours > *').length > 0")
    told = "[...document.querySelectorAll('.colours > *')].map((one) => one.textContent)"
    assert page.value(told) == ["asked about", "read by it"]
    page.value("H.view.elements.pin({ output: 0, operand: 0, leaf: 0, at: [1, 2] })")
    assert page.value(told) == ["asked about", "reached by it"]
    page.value("H.view.graph.choose(0)")
    page.until("H.view.elements.k === 0")
    assert page.value(told) in ([], ["asked about"])


# ------------------------------------------------------------------------------------- the data


def test_figures_are_those_of_the_commands() -> None:
    program = hloscope.read(EXAMPLES / "training_step.hlo")
    page = program.explore().to_html()
    told, cost, memory = chunk(page, "cost"), program.cost(device="h100"), program.memory()
    assert told["figures"] == [list(pair) for pair in cost.figures]
    for by in ("group", "source", "scope", "opcode"):
        assert told["tables"][by]["rows"] == cost.table(by, top=overview.MOST_ROWS).rows
    assert chunk(page, "memory")["lines"] == memory.first_lines("h100")
    settings = [setting_of(rule, {}) for rule in overview.RULES]
    found = [g.headline for g in check_program(program.module, program.file, settings).groups]
    texts = [one["text"] for one in told["findings"]]
    assert {f"{one.instruction} {one.message}" for one in found} <= {*texts}
    assert texts[0].startswith("residual_fusion")
    assert len(texts) == len({*texts}) <= overview.MOST_FINDINGS
    assert all(one["to_do"] for one in told["findings"])


def test_a_program_for_a_tpu_has_no_bounds_of_a_gpu() -> None:
    told = chunk(page_of(TPU), "cost")
    assert "h100" not in told["about"]
    assert told["tables"]["group"]["header"][0] == "bytes"
    assert sum(share for _, share in told["shares"]) == pytest.approx(1)


@pytest.mark.parametrize(("header", "devices"), [
    ("", "not stated"), (", num_partitions=8", "8"), (", replica_count=2", "2"),
    (", replica_count=2, num_partitions=4", "8 (2 replicas of 4 partitions)"),
])  # fmt: skip
def test_what_a_program_is(header: str, devices: str) -> None:
    text = (
        f"HloModule m{header}\nENTRY e {{ p = f32[256] parameter(0) ROOT n = f32[256] negate(p) }}"
    )
    told: dict[str, Any] = dict(chunk(page_of(text, parts=["maps"]), "about"))
    assert told["devices"] == devices
    assert told["entry e"] == "1 parameter, 1 KiB; 1 result, 1 KiB"
    assert re.fullmatch(r"not compiled \(.*\)", told["compiled for"])
    assert told["when"] == "the text states no date"
