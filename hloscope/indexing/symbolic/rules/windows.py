"""Ops over sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.affine import Const, Dim, Expr
from hloscope.indexing.rules.build import over
from hloscope.indexing.symbolic.maps import SizedBuilder
from hloscope.indexing.symbolic.rules.asking import RULES, Answer, Asked, dims
from hloscope.indexing.symbolic.rules.reduction import begun, folded
from hloscope.indexing.symbolic.rules.shape import element
from hloscope.indexing.symbolic.symbols import Shape
from hloscope.ops import ReduceWindow, SelectAndScatter, Window

_CHOICE: Final = "which element of its window a source element goes to depends on the data"


def taps(at: SizedBuilder, window: Window) -> list[Expr]:
    """Return a range variable per dimension of a window; 0 for dimensions of size 1."""
    return [at.range(Const(size)) if size != 1 else Const(0) for size in window.sizes]


def base_index(
    at: SizedBuilder, window: Window, k: int, position: Expr, tap: Expr, size: Expr, before: Expr
) -> Expr:
    """Return the element of the base under a tap of a window, and require that it exists."""
    coordinate = position * window.strides[k] + tap * window.window_dilations[k] - before
    return element(at, coordinate, window.base_dilations[k], size)


def _base(at: SizedBuilder, window: Window, positions: Sequence[Expr], shape: Shape) -> list[Expr]:
    """Return every element of the base under windows."""
    return [
        base_index(at, window, k, positions[k], tap, shape[k], Const(window.padding[k][0]))
        for k, tap in enumerate(taps(at, window))
    ]


def _positions(at: SizedBuilder, window: Window, shape: Shape) -> list[Expr]:
    """Return every position whose window has an element."""
    found = []
    for k, tap in enumerate(taps(at, window)):
        coordinate = Dim(k) * window.base_dilations[k] - tap * window.window_dilations[k]
        coordinate = coordinate + window.padding[k][0]
        found.append(element(at, coordinate, window.strides[k], shape[k]))
    return found


@RULES.add(ReduceWindow)
def _(asked: Asked, op: ReduceWindow) -> Answer:
    count, at = len(asked.operands) // 2, asked.builder()
    index = _base(at, op.window, dims(asked.result), asked.shape(0))
    return [*folded(asked, at.map(index), count), *begun(asked, count)]


@RULES.add(SelectAndScatter)
def _(asked: Asked, op: SelectAndScatter) -> Answer:
    """An element is compared with those that share a window with it."""
    at, among = asked.builder(), asked.builder()
    windows = _positions(at, op.window, asked.shape(1))
    shared = _positions(among, op.window, asked.shape(1))
    compared = _base(among, op.window, shared, asked.shape(0))
    initial = [access.map for access in asked.everything(2) if access.map is not None]
    return [
        over(_CHOICE, among.map(compared)),
        over(_CHOICE, at.map(windows)),
        over(_CHOICE, *initial),
    ]
