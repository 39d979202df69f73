"""The picture of a program's memory: what its areas add up to, what it states and shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from hloscope.api import read
from hloscope.cost.buffers import NoMomentsError, ProgramMemory
from hloscope.display.buffer_answers import sparkline
from hloscope.display.buffers_picture import memory_picture, memory_plot
from hloscope.display.buffers_stack import MOST_BLOCKS, MOST_COLUMNS, OTHERS, Stack, stacks
from hloscope.display.picture import COLOURS
from hloscope.ir import size_text
from tests.cost.buffers.programs import GPU_MARK, answer_of, memory_of, scheduled
from tests.cost.buffers.test_answers import ADD, TRAIN, at

LOOP: Final = scheduled(
    f"""p = f32[256,1024]{{1,0}} parameter(0)
zero = s32[] constant(0)
c = f32[256,1024]{{1,0}} copy(p)
t = (s32[], f32[256,1024]{{1,0}}) tuple(zero, c)
l = (s32[], f32[256,1024]{{1,0}}) while(t), condition=cond, body=body
x1 = f32[256,1024]{{1,0}} get-tuple-element(l), index=1
flag = pred[] constant(true)
b = f32[256,1024]{{1,0}} conditional(flag, x1, x1), true_computation=yes, false_computation=no
ROOT r = f32[256,1024]{{1,0}} reverse(b), dimensions={{0}}, {at(9, "rev")}""",
    before=f"""body {{
s = (s32[], f32[256,1024]{{1,0}}) parameter(0)
i = s32[] get-tuple-element(s), index=0
x = f32[256,1024]{{1,0}} get-tuple-element(s), index=1
one = s32[] constant(1)
n = s32[] add(i, one)
w = f32[256,4096]{{1,0}} concatenate(x, x, x, x), dimensions={{1}}, {at(13, "while/body/concat")}
y = f32[256,1024]{{1,0}} slice(w), slice={{[0:256], [0:1024]}}, {at(14, "while/body/slice")}
ROOT u = (s32[], f32[256,1024]{{1,0}}) tuple(n, y)
}}
cond {{
s2 = (s32[], f32[256,1024]{{1,0}}) parameter(0)
i2 = s32[] get-tuple-element(s2), index=0
m = s32[] constant(8)
ROOT lt = pred[] compare(i2, m), direction=LT
}}
yes {{ v = f32[256,1024]{{1,0}} parameter(0) ROOT e1 = f32[256,1024]{{1,0}} exponential(v) }}
no {{ v2 = f32[256,1024]{{1,0}} parameter(0) ROOT e2 = f32[256,1024]{{1,0}} negate(v2) }}""",
)
"""A loop with a wide value in its body, and a conditional."""


def chain(count: int, kept: int) -> str:
    """A program of `count` instructions of which the first `kept` live to the end."""
    body = ["p = f32[1024]{0} parameter(0)"]
    body += [
        f"v{k} = f32[1024]{{0}} reverse({f'v{k - 1}' if k else 'p'}), dimensions={{0}}, "
        f"{at(k % 40, 'rev')}"
        for k in range(count)
    ]
    held = ", ".join(f"v{k}" for k in range(kept))
    body += [f"ROOT r = f32[{1024 * kept}]{{0}} concatenate({held}), dimensions={{0}}"]
    return scheduled("\n".join(body))


PROGRAMS: Final = {"train": TRAIN, "loop": LOOP, "long": chain(2000, 60)}


def stack_of(memory: ProgramMemory) -> Stack:
    ((found,), _) = stacks([memory])
    return found


def words(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [element.text or "" for element in root.iter() if element.tag.endswith("text")]


def tips(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [element.text or "" for element in root.iter() if element.tag.endswith("title")]


@pytest.mark.parametrize("name", PROGRAMS)
def test_areas_add_up_to_the_live_bytes_of_every_moment_shown(name: str) -> None:
    memory = memory_of(PROGRAMS[name])
    found = stack_of(memory)
    sums = [sum(heights) for heights in zip(*[a.heights for a in found.areas], strict=True)]
    assert sums == [memory.device.least[moment] for moment in found.moments]
    assert sums[found.peak_column] == memory.lower
    assert len(found.moments) == min(MOST_COLUMNS, memory.schedule.end + 1)


def test_a_result_in_place_of_an_operand_counts_once() -> None:
    memory = memory_of(TRAIN)
    moment = next(moment for moment in memory.device.placed)
    found = stack_of(memory)
    assert memory.device.live[moment] > memory.device.least[moment]
    column = found.moments.index(moment)
    assert sum(area.heights[column] for area in found.areas) == memory.device.least[moment]


def test_the_largest_temporaries_are_areas_of_their_own() -> None:
    found = stack_of(memory_of(TRAIN))
    blocks = {area.buffer.values[0].name: area for area in found.areas if area.buffer is not None}
    assert {"h1", "h2", "c1"} <= set(blocks)
    assert found.moments == tuple(range(10))
    assert blocks["c1"].heights == (0, 0, 0, 4 << 20, 4 << 20, 4 << 20, 0, 0, 0, 0)
    many = stack_of(memory_of(PROGRAMS["long"]))
    assert sum(area.buffer is not None for area in many.areas) == MOST_BLOCKS


def test_source_lines_with_most_bytes_have_colours_and_the_rest_shares_one() -> None:
    (found,), lines = stacks([memory_of(PROGRAMS["long"])])
    assert len(lines) == len(COLOURS)
    parts = {area.part for area in found.areas}
    assert parts == {"parameters", "outputs", *lines, OTHERS}
    assert sum(map(found.bytes_at_peak, parts)) == found.memory.lower


def test_a_temporary_without_a_source_line_goes_by_its_type() -> None:
    body = (
        "p = f32[1024]{0} parameter(0)\nn = f32[1024]{0} reverse(p), dimensions={0}\n"
        "ROOT r = f32[1024]{0} reverse(n), dimensions={0}"
    )
    _, lines = stacks([memory_of(scheduled(body))])
    assert lines == ["f32[1024]"]


def test_the_text_states_the_figures() -> None:
    found = answer_of(TRAIN)
    said = words(found.to_svg("a100"))
    assert "at least 7.001 MiB live at once; XLA holds about 7.001 MiB" in said
    assert "peak 7.001 MiB at 5" in said
    assert any(text.startswith("may fit: XLA will ask for about") for text in said)
    rows = said[said.index("at the peak") + 1 :]
    legend = dict(zip(rows[::2], rows[1::2], strict=False))
    assert legend["4 MiB, 57.1 %"] == "m.py:4"
    assert legend["2 MiB, 28.6 %"] == "m.py:3"
    assert legend["1 MiB, 14.3 %"] == "parameters"
    assert legend[size_text(found.lower)] == "all"


def test_passes_loops_and_branches_are_bands() -> None:
    train = [(band.name, band.first, band.last) for band in stack_of(memory_of(TRAIN)).passes]
    assert train == [("forward", 1, 6), ("backward", 6, 9)]
    memory = memory_of(LOOP)
    spans = {c.name: span for c, span in memory.schedule.spans.items()}
    bodies = {(b.name, b.first, b.last, b.depth) for b in stack_of(memory).bodies}
    assert bodies == {
        ("body of l", *spans["body"], 0),
        ("branch 0 of b", *spans["yes"], 0),
        ("branch 1 of b", *spans["no"], 0),
    }
    first, last = spans["body"]
    assert f"body of l: moments {first} to {last - 1}" in tips(answer_of(LOOP).to_svg())


def test_a_block_tells_what_it_is_and_where_it_leads() -> None:
    picture = memory_picture([("m", memory_of(TRAIN))])
    (shape,) = [s for s in picture.shapes if s.tip.startswith("c1 f32[256,4096]: 4 MiB")]
    assert shape.tip.splitlines()[1:] == ["lives 3 to 5", "m.py:4", "jit(f)/jvp()/concat"]
    assert shape.instruction is not None
    assert shape.instruction.name == "c1"


def test_a_plot_alone_has_the_legend_as_data_and_fits_beside_a_table() -> None:
    memory = memory_of(TRAIN)
    plot, whole = memory_plot("m", memory), memory_picture([("m", memory)])
    assert not whole.legend
    amounts = {part: amount for _, amount, part in plot.legend}
    assert amounts["m.py:3"] == "2 MiB, 28.6 %"
    assert amounts["parameters"] == "1 MiB, 14.3 %"
    painted = {shape.attributes.get("fill") for shape in plot.shapes} - {None}
    assert painted <= {colour for colour, _, _ in plot.legend}
    right = [
        float(shape.attributes["x"]) + float(shape.attributes["width"])
        for shape in plot.shapes
        if shape.tag == "rect"
    ]
    assert max(right, default=0) <= plot.width < whole.width / 1.5
    assert {s.instruction for s in plot.shapes} == {s.instruction for s in whole.shapes}


def test_names_stand_in_blocks_that_have_room_for_them() -> None:
    named = {s.text: s.attributes.get("class") for s in memory_picture([("m", memory_of(LOOP))])[3]}
    assert named["w"] == "inside"
    assert "t" not in named  # a table of 16 bytes


def _lines_of_device(svg: str) -> list[str]:
    return re.findall(r'<path class="device" d="M[\d.]+,([\d.]+)H', svg)


def test_a_device_is_a_line_where_it_is_near_the_peak(tmp_path: Path) -> None:
    small = tmp_path / "small.toml"
    small.write_text(f'base = "h100"\nmemory_bytes = {8 << 20}\n')
    found = answer_of(TRAIN)
    near, far = found.to_svg(str(small)), found.to_svg("a100")
    assert len(_lines_of_device(near)) == 1
    assert "small 8 MiB" in words(near)
    assert not _lines_of_device(far)  # 80 GiB
    both = found.difference(found).to_svg(str(small))
    (first, second) = map(float, _lines_of_device(both))
    assert first < second


def test_two_programs_share_scale_and_colours() -> None:
    after = TRAIN.replace("f32[256,4096]", "f32[256,2048]").replace("(h2, h2, h2, h2)", "(h2, h2)")
    svg = answer_of(TRAIN).difference(answer_of(after)).to_svg()
    fills = re.findall(r'fill="(#\w+)"[^>]*><title>(?:c1|h1) ', svg)
    assert len(fills) == 4
    assert len(set(fills)) == 2
    scale = [text for text in words(svg) if re.fullmatch(r"\d+ MiB", text)]
    assert scale[: len(scale) // 2] == scale[len(scale) // 2 :]
    assert {"at the first peak", "at the second peak", "7.001 MiB", "5.001 MiB"} <= {*words(svg)}


def test_a_program_without_moments_has_no_picture() -> None:
    found = read("ENTRY e { ROOT p = f32[8] parameter(0) }").memory()
    with pytest.raises(NoMomentsError, match="no schedule"):
        found.to_svg()
    assert "<svg" not in found._repr_html_()
    assert "no moments" in found._repr_html_()


def test_a_notebook_shows_the_picture_and_the_text() -> None:
    shown = answer_of(TRAIN)._repr_html_()
    assert shown.count("<svg") == 1
    assert "peak: moment 5 of 9" in shown
    both = answer_of(TRAIN).difference(answer_of(TRAIN))._repr_html_()
    assert both.count("<svg") == 1
    assert "XLA holds the same buffers for both" in both


def test_a_program_of_zero_bytes_is_drawn() -> None:
    svg = answer_of(scheduled("ROOT p = f32[0]{0} parameter(0)")).to_svg()
    assert "peak 0 bytes at 0" in words(svg)


def test_names_of_a_program_are_no_markup() -> None:
    nasty = "<script>'\\\"&"
    text = TRAIN.replace("/a/m.py", "/a/<i>m&.py")
    svg = answer_of(text.replace("jvp()/concat", nasty.replace('\\"', "")))
    drawn = svg.to_svg()
    ElementTree.fromstring(drawn)
    assert "<script" not in drawn
    assert "<i>" not in drawn


@pytest.mark.slow
def test_a_long_program_has_a_small_picture() -> None:
    found = answer_of(chain(8000, 60))
    assert len(stack_of(found.model).moments) == MOST_COLUMNS
    assert len(found.to_svg()) < 300_000


def test_the_course_is_a_line_of_blocks() -> None:
    found = answer_of(TRAIN)
    (line,) = [text for text in found.first_lines() if text.startswith("live: ")]
    blocks = line.removeprefix("live: ").partition("|")[0]
    assert len(blocks) == len(found.model.device.least)
    assert blocks[found.peak.number] == "█"
    assert blocks[0] == "▂"  # 1 MiB of 7
    assert "█ is 7.001 MiB" in line


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ((), 5, ""),
        ((0, 0), 5, "  "),
        ((1, 8), 5, "▁█"),
        ((1000, 1, 0), 3, "█▁ "),
        ((0, 9, 0, 0, 3, 3), 3, "█ ▃"),
    ],
)
def test_each_block_is_the_highest_of_its_part(
    values: tuple[int, ...], width: int, line: str
) -> None:
    assert sparkline(values, width) == line


def test_programs_of_gpus_are_drawn_with_an_h100_in_notebooks() -> None:
    text = TRAIN.replace("is_scheduled=true", f"is_scheduled=true{GPU_MARK}")
    assert "h100 has 80 GiB" in answer_of(text)._repr_html_()
    assert ADD in text
