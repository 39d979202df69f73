"""Ops that sum products."""

from __future__ import annotations

from hloscope.affine import Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.build import exact
from hloscope.indexing.rules.contraction import SPARSE, dot_labels
from hloscope.indexing.symbolic.rules.asking import RULES, Answer, Asked
from hloscope.indexing.symbolic.symbols import Shape
from hloscope.ops import DotGeneral


@RULES.add(DotGeneral)
def _(asked: Asked, op: DotGeneral) -> Answer:
    if len(asked.operands) > 2:  # the third tells which elements there are
        raise UnsupportedError(SPARSE)
    lhs, rhs = asked.shape(0), asked.shape(1)
    left, right, result = dot_labels(op.dimensions, len(lhs), len(rhs))
    return [_by_labels(asked, result, left, lhs), _by_labels(asked, result, right, rhs)]


def _by_labels(asked: Asked, here: list[int], there: list[int], shape: Shape) -> Accesses:
    at = asked.builder()
    where: dict[int, Expr] = {label: Dim(k) for k, label in enumerate(here)}
    index = [
        where[label] if label in where else at.range(shape[k]) for k, label in enumerate(there)
    ]
    return exact(at.map(index))
