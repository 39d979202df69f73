"""Ops whose bodies combine or compare elements."""

from __future__ import annotations

from typing import Final

from hloscope.affine import Expr
from hloscope.indexing.access import Accesses
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.build import exact, over
from hloscope.indexing.symbolic.rules.asking import RULES, Answer, Asked, dims
from hloscope.ops import Reduce, Sort

_SOME: Final = "the body does not use all it is given in every case"


@RULES.add(Reduce)
def _(asked: Asked, op: Reduce) -> Answer:
    count = len(asked.operands) // 2
    at, kept = asked.builder(), iter(dims(asked.result))
    index: list[Expr] = [
        at.range(size) if k in op.dimensions else next(kept)
        for k, size in enumerate(asked.shape(0))
    ]
    return [*folded(asked, at.map(index), count), *begun(asked, count)]


def _uses_everything(asked: Asked) -> bool:
    """Does every result of the body depend on all its inputs, for all values?"""
    return bool(asked.bodies) and all(
        len(sure) == 2 * len(body.reads) for body in asked.bodies for sure in body.sure
    )


def folded(asked: Asked, m: IndexingMap, count: int) -> list[Accesses]:
    found = exact(m) if _uses_everything(asked) else over(_SOME, m)
    return [found] * count


def begun(asked: Asked, count: int) -> list[Accesses]:
    """Return the accesses of the initial values, which every output element reads."""
    initial = asked.everything(count)
    if not _uses_everything(asked):
        initial = over(_SOME, *[a.map for a in initial if a.map is not None])
    return [initial] * count


@RULES.add(Sort)
def _(asked: Asked, op: Sort) -> Answer:
    """The whole line is read of the output's own operand and of those that the comparator reads."""
    at, index = asked.builder(), dims(asked.result)
    index[op.dimension] = at.range(asked.result[op.dimension])
    line = at.map(index)
    if _looks_at_all(asked):
        return [exact(line)] * len(asked.operands)
    return [over(_SOME, line)] * len(asked.operands)


def _looks_at_all(asked: Asked) -> bool:
    """Does the comparator of a single operand always read both elements?"""
    body = asked.bodies[0] if asked.bodies else None
    return len(asked.operands) == 1 and body is not None and body.sure[0] == frozenset((0, 1))
