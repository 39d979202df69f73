"""Plots in docs/, drawn by the answers' own `plot`."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

import hloscope as hs

ROOT: Final = Path(__file__).parents[1]
PLOTS: Final[dict[str, Callable[[Path, Any], Any]]] = {
    "roofline": lambda of, ax: hs.read(of / "training_step.hlo").cost(device="h100").plot(ax),
    "live_bytes": lambda of, ax: hs.read(of / "layers.hlo").memory().plot(ax),
    "tile_costs": lambda of, ax: hs.read(of / "split_heads.hlo").root.tiles().costs().plot(ax),
    "allowed_sizes": lambda of, ax: hs.read(of / "split_heads.hlo").root.tiles().plot(ax),
    "warp": lambda of, ax: (
        hs.read(of / "training_step.hlo")["residual_fusion"].coalescing().plot(ax)
    ),
    "thread_values": lambda _, ax: hs.thread_values("((4,8),(2,2)):((32,1),(16,8))", (16, 8)).plot(
        ax
    ),
    "shared_banks": lambda _, ax: hs.shared_banks("Sw<3,2,3> o _0 o (8,32):(32,1)").plot(ax),
}
"""What is drawn into the axes of each file, from the folder of examples."""
_SETTINGS: Final = {"svg.hashsalt": "hloscope", "svg.fonttype": "none"}
"""Names of parts follow from the picture alone; texts stay texts."""


def drawn(name: str) -> str:
    """A plot as SVG; equal for equal answers, with one version of matplotlib."""
    text = io.StringIO()
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(7.6, 4.4), layout="constrained")
        PLOTS[name](ROOT / "examples", figure.subplots())
        figure.savefig(text, format="svg", dpi=120, metadata={"Date": None, "Creator": None})
    lines = text.getvalue().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def plots() -> Iterator[tuple[Path, str]]:
    """Every plot with its file."""
    for name in PLOTS:
        yield ROOT / f"docs/{name}.svg", drawn(name)
