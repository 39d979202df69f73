"""Rules for products summed over dimensions: dot, scaled-dot, einsum, ragged-dot."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain, groupby
from typing import Final, TypeAlias

from hloscope.affine import Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.registry import (
    NEVER,
    MapBuilder,
    everything,
    everywhere,
    exact,
    input_to_output,
    output_to_input,
    over,
    sizes,
)
from hloscope.ir import Dims, Instruction
from hloscope.ops import Dot, DotDimensions, DotGeneral, Einsum, RaggedDot, ScaledDot, UnaryEinsum

# --------------------------------------------------------------------------------------------------
# Products summed over dimensions: dot, scaled-dot, einsum. `ragged` has ragged-dot.
#
# All are einsums: each dimension has a label, and equal labels share an index. An index of one
# array fixes its labels; the other labels become range variables over their sizes.


Labels: TypeAlias = Sequence[Hashable]
SPARSE: Final = "a dot of compressed (sparse) operands"


def dot_labels(
    dimensions: DotDimensions, lhs_rank: int, rhs_rank: int
) -> tuple[list[int], list[int], list[int]]:
    """Return the labels of the dimensions of `lhs`, `rhs` and the result.

    A label is a number; dimensions with equal labels have one common index. The result has batch
    labels, then free ones of `lhs`, then of `rhs`. `lhs_rank` and `rhs_rank` are the ranks of the
    operands.

    >>> dot_labels(DotDimensions((0,), (0,), (2,), (1,)), 3, 3)
    ([0, 1, 2], [0, 2, 5], [0, 1, 5])
    """
    lhs = list(range(lhs_rank))
    rhs = list(range(lhs_rank, lhs_rank + rhs_rank))
    for left, right in zip(
        (*dimensions.lhs_batch, *dimensions.lhs_contracting),
        (*dimensions.rhs_batch, *dimensions.rhs_contracting),
        strict=True,
    ):
        rhs[right] = lhs[left]
    batch = [lhs[k] for k in dimensions.lhs_batch]
    shared = {*batch, *[lhs[k] for k in dimensions.lhs_contracting]}
    free = [label for label in (*lhs, *rhs) if label not in shared]
    return lhs, rhs, [*batch, *free]


def index_by_labels(
    at: MapBuilder, here: Labels, there: Labels, shape: Dims, order: Labels = ()
) -> list[Expr]:
    """Return the index into an array whose dimensions have the labels `there`.

    Labels that are not in `here` become range variables.

    Args:
        at: Builder of the map, whose dimensions have the labels `here`.
        here: Labels of the dimensions; dimensions with equal labels must have equal indices.
        there: Labels of the results.
        shape: Sizes of the results.
        order: Labels outside `here`, in the order that their range variables should have; others
            follow.
    """
    where: dict[Hashable, Expr] = {}
    for k, label in enumerate(here):
        if label in where:
            at.require(Dim(k) - where[label], 0, 0)
        else:
            where[label] = Dim(k)
    extent = dict(zip(there, shape, strict=True))
    for label in (*order, *there):
        if label in extent and label not in where:
            where[label] = at.range(extent[label])
    return [where[label] for label in there]


def _by_labels(here: Dims, there: Dims, labels: tuple[Labels, Labels, Labels]) -> Accesses:
    from_, to, order = labels
    at = MapBuilder(here)
    return exact(at.map(index_by_labels(at, from_, to, there, order)))


def check_dense(op: DotGeneral | ScaledDot, lhs: Dims, rhs: Dims) -> None:
    """Check that the operands are dense: that contracting sizes of both sides agree.

    `lhs` and `rhs` are the sizes of the operands.

    Raises:
        UnsupportedError: An operand is compressed (sparse).
    """
    pairs = zip(op.dimensions.lhs_contracting, op.dimensions.rhs_contracting, strict=True)
    if any(lhs[left] != rhs[right] for left, right in pairs):
        raise UnsupportedError(SPARSE)


@output_to_input(DotGeneral)
def _(ins: Instruction, op: DotGeneral, output: int) -> tuple[Accesses, ...]:
    lhs, rhs = (sizes(operand.type) for operand in ins.operands[:2])
    check_dense(op, lhs, rhs)
    left, right, result = dot_labels(op.dimensions, len(lhs), len(rhs))
    target = sizes(ins.type)
    order = op.dimensions.lhs_contracting
    return (
        _by_labels(target, lhs, (result, left, order)),
        _by_labels(target, rhs, (result, right, order)),
    )


@input_to_output(DotGeneral)
def _(ins: Instruction, op: DotGeneral, operand: int) -> tuple[Accesses, ...]:
    lhs, rhs = (sizes(operand.type) for operand in ins.operands[:2])
    check_dense(op, lhs, rhs)
    left, right, result = dot_labels(op.dimensions, len(lhs), len(rhs))
    labels = left if operand == 0 else right
    return (_by_labels((lhs, rhs)[operand], sizes(ins.type), (labels, result, ())),)


def _old_dot(lhs: Dims, rhs: Dims) -> tuple[str, str, str]:
    """Return the labels of the dimensions of HLO's old `dot`, of `lhs`, `rhs` and result.

    A label is a letter; dimensions with equal labels have one common index. The op contracts the
    last dimension of `lhs` with the first one of `rhs`.
    """
    return {
        (1, 1): ("k", "k", ""),
        (2, 1): ("mk", "k", "m"),
        (1, 2): ("k", "kn", "n"),
        (2, 2): ("mk", "kn", "mn"),
    }[len(lhs), len(rhs)]


def _einsum_labels(ins: Instruction, op: Dot | Einsum | UnaryEinsum) -> tuple[str, ...]:
    """Return the labels of the dimensions of each operand, then of the result.

    A label is a letter; dimensions with equal labels have one common index.
    """
    shapes = [sizes(operand.type) for operand in ins.operands]
    if isinstance(op, Dot):
        return _old_dot(*shapes)
    inputs, _, result = op.einsum_config.replace(" ", "").partition("->")
    labels = (*inputs.split(","), result)
    ranks = [len(shape) for shape in (*shapes, sizes(ins.type))]
    if [len(part) for part in labels] != ranks or not all(map(str.isalpha, "".join(labels))):
        raise UnsupportedError(f"the einsum `{op.einsum_config}`")
    named = zip("".join(labels), chain(*shapes, sizes(ins.type)), strict=True)
    for label, several in groupby(sorted(set(named)), lambda pair: pair[0]):
        found = [size for _, size in several]
        if len(found) > 1:  # the verifier leaves it open
            raise UnsupportedError(f"the einsum `{op.einsum_config}`: `{label}` of sizes {found}")
    return labels


@output_to_input(Dot, Einsum, UnaryEinsum)
def _(ins: Instruction, op: Dot | Einsum | UnaryEinsum, output: int) -> tuple[Accesses, ...]:
    *inputs, result = _einsum_labels(ins, op)
    target = sizes(ins.type)
    return tuple(
        _by_labels(target, sizes(operand.type), (result, labels, ()))
        for operand, labels in zip(ins.operands, inputs, strict=True)
    )


@input_to_output(Dot, Einsum, UnaryEinsum)
def _(ins: Instruction, op: Dot | Einsum | UnaryEinsum, operand: int) -> tuple[Accesses, ...]:
    labels, result = _einsum_labels(ins, op)[operand], _einsum_labels(ins, op)[-1]
    source = sizes(ins.operands[operand].type)
    return (_by_labels(source, sizes(ins.type), (labels, result, ())),)


# Scaled dot: a scale belongs to a block of neighbouring elements of its side, per dimension.


def _blocks(side: Dims, scale: Dims) -> Dims:
    """Return, per dimension, the number of elements of an operand that share one scale.

    `side` has the sizes of the operand, `scale` those of the array of its scales.

    >>> _blocks((2, 64), (2, 2))
    (1, 32)
    """
    if any(n == 0 or size % n for size, n in zip(side, scale, strict=True)):
        raise UnsupportedError(f"scales of sizes {scale} for an operand of sizes {side}")
    return tuple(size // n for size, n in zip(side, scale, strict=True))


@output_to_input(ScaledDot)
def _(ins: Instruction, op: ScaledDot, output: int) -> tuple[Accesses, ...]:
    lhs, rhs, *scales = (sizes(operand.type) for operand in ins.operands)
    check_dense(op, lhs, rhs)
    *sides, result = dot_labels(op.dimensions, len(lhs), len(rhs))
    target = sizes(ins.type)
    answer = []
    for labels, shape in zip(sides, (lhs, rhs), strict=True):
        answer.append(_by_labels(target, shape, (result, labels, op.dimensions.lhs_contracting)))
    for labels, side, scale in zip(sides, (lhs, rhs), scales, strict=False):
        if 0 in side:
            answer.append(NEVER)
            continue
        if len(scale) != len(side):  # the operand of scales is a scalar, which stands for no scales
            answer.append(everything(target, scale))
            continue
        at = MapBuilder(target)
        index = index_by_labels(at, result, labels, side, op.dimensions.lhs_contracting)
        blocks = _blocks(side, scale)
        scaled = [e // block if block > 1 else e for e, block in zip(index, blocks, strict=True)]
        answer.append(exact(at.simplified(scaled)))
    return tuple(answer)


@input_to_output(ScaledDot)
def _(ins: Instruction, op: ScaledDot, operand: int) -> tuple[Accesses, ...]:
    lhs, rhs = (sizes(operand.type) for operand in ins.operands[:2])
    check_dense(op, lhs, rhs)
    *sides, result = dot_labels(op.dimensions, len(lhs), len(rhs))
    labels, side, target = sides[operand % 2], (lhs, rhs)[operand % 2], sizes(ins.type)
    source = sizes(ins.operands[operand].type)
    if operand < 2:
        return (_by_labels(source, target, (labels, result, ())),)
    if 0 in side:
        return (NEVER,)  # an operand without elements reads no scale
    if len(source) != len(side):
        return everywhere(ins, operand)
    at = MapBuilder(source)
    where: dict[Hashable, Expr] = {}
    for k, block in enumerate(_blocks(side, source)):
        if labels[k] in result:
            where[labels[k]] = Dim(k) * block + (at.range(block) if block > 1 else 0)
    return (exact(at.map(_index(at, where, result, target))),)


def _index(
    at: MapBuilder, where: Mapping[Hashable, Expr], labels: Labels, shape: Dims
) -> list[Expr]:
    return [
        where[label] if label in where else at.range(size)
        for label, size in zip(labels, shape, strict=True)
    ]


# --------------------------------------------------------------------------------------------------
# Ragged dot: one dimension of the left side is divided into groups whose sizes are an operand.
#
# The rows of group `g` start at the sum of the sizes before `g` and end at that sum plus its own
# size. This is a condition on runtime variables, with one map per group. With many groups one
# superset replaces the maps. A group of negative size has no rows, like a group of size 0. Source:
# JAX `lax.ragged_dot_general`, whose three modes HLO has as well.


MAX_GROUPS = 32
"""Maximum number of groups that have a map each; with more, one map ignores the group sizes."""
_GROUPS = "which group an element belongs to depends on the group sizes"
_GROUP = "group"


def _labels(ins: Instruction, op: RaggedDot) -> list[list[int | str]]:
    """Return the labels of the dimensions of lhs, rhs and result, as three lists.

    A label is a number, or "group" for the dimension that numbers groups, which rhs or the result
    has. Dimensions with equal labels have one common index.
    """
    ranks = [len(sizes(operand.type)) for operand in ins.operands[:2]]
    left, right, result = (list[int | str](x) for x in dot_labels(op.dimensions, *ranks))
    for k in op.rhs_group:
        result.remove(right[k])
        right[k] = _GROUP
    if not op.rhs_group and op.lhs_ragged[0] in op.dimensions.lhs_contracting:
        result.insert(0, _GROUP)
    return [left, right, result]


def _earlier_labels(ins: Instruction, labels: Sequence[list[int | str]]) -> list[int | str]:
    """Return the labels of the leading dimensions of lhs that index the group sizes.

    They come before the ragged dimension if dimensions of lhs are taken in this order: batch, then
    contracting ones if the ragged one is contracting, else free ones. `labels` has the labels of
    lhs, rhs and result.
    """
    assert isinstance(ins.op, RaggedDot)
    dimensions, (ragged,) = ins.op.dimensions, ins.op.lhs_ragged
    batch, contracting = dimensions.lhs_batch, dimensions.lhs_contracting
    free = [d for d in range(len(labels[0])) if d not in (*batch, *contracting)]
    order = (*batch, *(contracting if ragged in contracting else free))
    count = len(sizes(ins.operands[2].type)) - 1
    return [labels[0][d] for d in order[: order.index(ragged)]][:count]


def _shapes(ins: Instruction) -> list[Dims]:
    return [*(sizes(operand.type) for operand in ins.operands[:2]), sizes(ins.type)]


def _maps(ins: Instruction, op: RaggedDot, here: int, there: int) -> Accesses:
    """Return the accesses from array `here` to array `there`; 0 is lhs, 1 rhs, 2 the result."""
    labels, shapes = _labels(ins, op), _shapes(ins)
    ragged = labels[0][op.lhs_ragged[0]]
    groups = sizes(ins.operands[2].type)[-1]
    uses = [_GROUP in labels[k] or ragged in labels[k] for k in (here, there)]
    if groups > MAX_GROUPS or not all(uses):
        return over(_GROUPS, _map(ins, labels, shapes, (here, there), None, ragged))
    if _GROUP not in (*labels[here], *labels[there]):  # any row that is in a group at all
        return exact(_map(ins, labels, shapes, (here, there), range(groups), ragged))
    return exact(
        *[_map(ins, labels, shapes, (here, there), range(g, g + 1), ragged) for g in range(groups)]
    )


def _map(
    ins: Instruction,
    labels: Sequence[list[int | str]],
    shapes: Sequence[Dims],
    arrays: tuple[int, int],
    groups: range | None,
    ragged: int | str,
) -> IndexingMap:
    """Return the map between two arrays for elements in a run of consecutive groups.

    Args:
        ins: The ragged dot.
        labels: Labels of the dimensions of lhs, rhs and result.
        shapes: Sizes of lhs, rhs and result.
        arrays: The array that the map starts from and the one that it reaches: 0 is lhs, 1 rhs, 2
            the result.
        groups: The groups; `None` for elements in any or in no group.
        ragged: Label of the ragged dimension.
    """
    here, there = arrays
    at = MapBuilder(shapes[here])
    leading = [] if groups is None else _earlier_labels(ins, labels)
    names = list(dict.fromkeys([*labels[there], *([] if groups is None else [*leading, ragged])]))
    extent = {n: s for k in range(3) for n, s in zip(labels[k], shapes[k], strict=True)}
    index = index_by_labels(at, labels[here], names, tuple(extent[n] for n in names))
    where = dict(zip(names, index, strict=True))
    where |= {n: Dim(k) for k, n in enumerate(labels[here])}
    if groups is not None:
        batch: list[Expr] = [where[n] for n in leading]
        size = extent[ragged]
        origin = ins.operands[2]
        reads = [at.read(0, size, origin, (*batch, Const(g))) for g in range(groups.stop)]
        # The first group of the run begins after the sizes of all groups before it.
        before: Expr = Const(0)
        for read in reads[: groups.start]:
            before = before + read
        end: Expr = before
        for read in reads[groups.start :]:
            end = end + read
        at.require(where[ragged] - before, 0, size - 1)
        at.require(end - where[ragged], 1, size * groups.stop)
        if _GROUP in where and len(groups) == 1:
            at.require(where[_GROUP], groups.start, groups.start)
    return at.map([where[n] for n in labels[there]])


@output_to_input(RaggedDot, shared=False, precision=Precision.OVER, reason=_GROUPS)
def _(ins: Instruction, op: RaggedDot, output: int) -> tuple[Accesses, ...]:
    group_sizes = everything(sizes(ins.type), sizes(ins.operands[2].type))
    return (_maps(ins, op, 2, 0), _maps(ins, op, 2, 1), group_sizes)


@input_to_output(RaggedDot, shared=False, precision=Precision.OVER, reason=_GROUPS)
def _(ins: Instruction, op: RaggedDot, operand: int) -> tuple[Accesses, ...]:
    if operand == 2:
        return everywhere(ins, operand)
    return (_maps(ins, op, operand, 2),)
