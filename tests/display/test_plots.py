"""Plots show what the answer says, in the axes that are given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

import hloscope as hs
from docs import plots

EXAMPLES = Path(__file__).parents[2] / "examples"
DOT = """
f { a = f32[64,32] parameter(0) b = f32[32,128] parameter(1)
    ROOT d = f32[64,128] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
ENTRY e { a = f32[64,32] parameter(0) b = f32[32,128] parameter(1)
          ROOT product = f32[64,128] fusion(a, b), kind=kCustom, calls=f }"""


@pytest.fixture
def axes() -> Any:
    return Figure().subplots()


def texts(axes: Any) -> str:
    return "\n".join([axes.get_title(), *[text.get_text() for text in axes.texts]])


def test_a_roofline_has_a_point_for_each_group_that_computes(axes: Any) -> None:
    cost = hs.read(EXAMPLES / "training_step.hlo").cost(device="h100")
    assert cost.plot(axes) is axes
    points = np.concatenate([found.get_offsets() for found in axes.collections])
    computing = [group.first for group in cost.groups() if group.first.flops]
    expected = [(k.flops / k.bytes, k.flops / (k.runs * k.time.seconds)) for k in computing]
    np.testing.assert_allclose(sorted(points.tolist()), sorted(expected))
    (star,) = [line for line in axes.lines if line.get_marker() == "*"]
    assert star.get_xdata()[0] == pytest.approx(cost.flops / cost.bytes)
    assert "1  residual_fusion" in texts(axes)
    assert "3,352 GB/s" in texts(axes)


def test_a_roofline_needs_a_bandwidth_and_flops(axes: Any) -> None:
    program = hs.read("ENTRY e { p = f32[8] parameter(0) ROOT c = f32[8] copy(p) }")
    with pytest.raises(hs.UnsupportedError, match="no kernel computes"):
        program.cost(device="h100").plot(axes)
    with pytest.raises(hs.UnsupportedError, match="whose bandwidth is known"):
        program.cost(device="cpu").plot(axes)


def test_live_bytes_are_those_of_the_answer(axes: Any) -> None:
    memory = hs.read(EXAMPLES / "layers.hlo").memory()
    memory.plot(axes)
    heights = [patch.get_data() for patch in axes.patches]
    assert max([data.values.max() for data in heights]) == max(memory.model.device.live)
    assert heights[-1].values.tolist() == list(memory.model.device.least)
    assert axes.get_legend() is not None


def test_a_program_without_moments_is_not_drawn(axes: Any) -> None:
    with pytest.raises(hs.HloscopeError, match="schedule"):
        hs.read("ENTRY e { ROOT p = f32[8] parameter(0) }").memory().plot(axes)


def test_a_heat_map_has_the_fewest_bytes_of_tilings_that_fit(axes: Any) -> None:
    costs = hs.read(DOT).root.tiles().costs(device="h100")
    costs.plot(axes)
    cells = axes.collections[0].get_array().reshape(7, 8)
    rows = [row for row in costs.records() if row["fits"]]
    cheapest = min([row["bytes_moved"] for row in rows if (row["d1"], row["d2"]) == (16, 64)])
    assert cells[4, 6] == cheapest
    assert cells.min() == costs.best(1)[0].bytes_moved
    assert "d2: tile size of dimension 1" in axes.get_xlabel()


def test_axes_are_chosen_by_number(axes: Any) -> None:
    costs = hs.read(DOT).root.tiles().costs()
    costs.plot(axes, x=0, y=2)
    assert "contracted dimension 1" in axes.get_xlabel()
    with pytest.raises(hs.UnknownNameError, match="no tile size d3; there are d0 to d2"):
        costs.plot(axes, x=3)
    with pytest.raises(hs.UnknownNameError, match="both axes"):
        costs.plot(axes, x=1, y=1)


def test_a_plot_of_tiles_needs_two_sizes(axes: Any) -> None:
    tiles = hs.read("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }").root.tiles()
    with pytest.raises(hs.UnsupportedError, match="needs two tile sizes, there is 1"):
        tiles.plot(axes)


def test_the_allowed_region_is_that_of_the_constraint(axes: Any) -> None:
    tiles = hs.read(EXAMPLES / "split_heads.hlo").root.tiles()
    tiles.plot(axes)
    cells = axes.collections[0].get_array().reshape(16, 128)
    for d1, d2 in [(1, 7), (16, 128), (4, 128), (4, 64), (16, 1)]:
        assert bool(cells[d1 - 1, d2 - 1]) == tiles.symbolic.constraints.holds((1, d1, d2))
    assert "158 of 2,048 sizes are allowed" in axes.get_title()


def test_a_warp_shows_the_bytes_of_each_sector(axes: Any) -> None:
    answer = hs.read(EXAMPLES / "training_step.hlo")["residual_fusion"].coalescing()
    answer.plot(axes)
    cells = axes.collections[0].get_array().reshape(32, 32)
    assert np.nansum(np.ma.filled(cells.astype(float), 0)) == 32 * 4
    assert "operand 1, y f32[1024,768]" in axes.get_title()
    assert "32 sectors, 128 of 1024 bytes used" in axes.get_title()
    other = Figure().subplots()
    answer.plot(other, array=0)
    assert "operand 0, x" in other.get_title()


def test_without_axes_a_figure_of_pyplot_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    plt.switch_backend("agg")
    axes = hs.read(EXAMPLES / "split_heads.hlo").root.tiles().plot()
    assert plt.gcf() is axes.figure
    plt.close(axes.figure)


def test_without_matplotlib_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str, *rest: Any) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("hloscope.support.system.import_module", missing)
    with pytest.raises(hs.InputError, match=re.escape("pip install 'hloscope[notebook]'")):
        hs.read(EXAMPLES / "split_heads.hlo").root.tiles().plot()


@pytest.mark.slow
@pytest.mark.parametrize("name", plots.PLOTS)
def test_the_plots_of_the_docs_are_those_of_today(name: str) -> None:
    """Drawing twice gives the same file; texts are compared, as shapes depend on the version."""
    today = plots.drawn(name)
    assert today == plots.drawn(name)
    shown = (plots.ROOT / f"docs/{name}.svg").read_text()
    of = re.compile(r"<text[^>]*>([^<]*)</text>")
    assert of.findall(today) == of.findall(shown), "out of date; `make docs` writes it anew"
    assert mpl.rcParams["svg.hashsalt"] != "hloscope"
