"""Layouts: copies to another one, and bitcasts of their memory."""

from __future__ import annotations

from tests.generator.builder import Builder, step
from tests.generator.steps.shape import factorised
from tests.generator.value_types import Tensor


@step("layouts", 0.8, languages=("hlo",))
def relayout(g: Builder) -> None:
    a, type_ = g.any(lo=1)
    order = tuple(g.permutation(len(type_.sizes)))
    laid = Tensor(type_.element, type_.sizes, layout=order)
    copied = g.emit((a,), laid, hlo=(g.pick(["copy", "copy-start"]), ""))
    sizes = factorised(g, type_.count)
    rows = tuple(reversed(range(len(sizes))))
    made = g.emit((copied,), Tensor(type_.element, sizes, layout=rows), hlo=("bitcast", ""))
    g.emit((made,), Tensor(type_.element, sizes), hlo=("copy", ""))
