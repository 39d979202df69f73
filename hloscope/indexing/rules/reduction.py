"""Reductions, sorts, and the largest elements of lines."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from hloscope.affine import Dim
from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.build import (
    NEVER,
    MapBuilder,
    all_output_sizes,
    dims,
    dynamic_dimensions,
    everything,
    everywhere,
    exact,
    output_sizes,
    sizes,
)
from hloscope.indexing.rules.dependence import (
    Bodies,
    Fold,
    Use,
    body_of,
    claimed,
    claims,
    fold,
    used,
    uses_of,
)
from hloscope.indexing.rules.registry import Instances, comes_from, input_to_output, output_to_input
from hloscope.ir import Dims, Instruction
from hloscope.ops import Reduce, Sort, TopK

# Reduce: `acc = body(acc, element)` for the elements one after the other.  Which element is the
# last one is not defined.


def _folded(ins: Instruction, op: Reduce, bodies: Bodies) -> Fold:
    count, type = len(ins.operands) // 2, ins.operands[0].type
    most = prod(sizes(type)[k] for k in op.dimensions)
    is_dynamic = not {*dynamic_dimensions(type)}.isdisjoint(op.dimensions)
    return fold(body_of(bodies, count), count, 0 if is_dynamic else most, most)


@output_to_input(Reduce, bodies=True)
def _(ins: Instruction, op: Reduce, output: int, bodies: Bodies) -> tuple[Accesses, ...]:
    target = output_sizes(ins, output)
    at = MapBuilder(target)
    kept = iter(dims(len(target)))
    source = sizes(ins.operands[0].type)
    index = [at.range(size) if k in op.dimensions else next(kept) for k, size in enumerate(source)]
    elements = exact(at.map(index))
    initial = everything(target, sizes(ins.operands[-1].type))  # of several elements in StableHLO
    uses, count = _folded(ins, op, bodies), len(ins.operands) // 2
    return (
        *claims(uses.elements[output], count, elements),
        *claims(uses.initial[output], count, initial),
    )


@input_to_output(Reduce, bodies=True)
def _(ins: Instruction, op: Reduce, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    count, uses = len(ins.operands) // 2, _folded(ins, op, bodies)
    if operand >= count:
        by = [row[operand - count] for row in uses.initial]
        return tuple(map(claimed, by, everywhere(ins, operand)))
    source = sizes(ins.operands[operand].type)
    kept = [Dim(k) for k in range(len(source)) if k not in op.dimensions]
    found = exact(MapBuilder(source).map(kept))
    return tuple(claims(uses_of(operand, uses.elements), count, found))


@comes_from(Reduce)
def _(ins: Instruction, op: Reduce, output: int, bodies: Bodies) -> Iterator[Instances]:
    """All applications of the body see the same outer values, so any one of them counts."""
    return applications(_folded(ins, op, bodies), everything(output_sizes(ins, output), ()), output)


def applications(uses: Fold, accesses: Accesses, output: int) -> Iterator[Instances]:
    """Yield the results of a body that an output of a fold depends on."""
    for k, use in uses.results[output].items():
        yield Instances(0, k, claimed(use, accesses))


def _line(shape: Dims, target: Dims, dimension: int) -> Accesses:
    """Return the access to the whole line of `target` along a dimension.

    Other coordinates are equal.
    """
    at = MapBuilder(shape)
    index = dims(len(shape))
    index[dimension] = at.range(target[dimension])
    return exact(at.map(index))


@output_to_input(TopK)
def _(ins: Instruction, op: TopK, output: int) -> tuple[Accesses, ...]:
    target, source = output_sizes(ins, output), sizes(ins.operands[0].type)
    return (_line(target, source, len(source) - 1),)


@input_to_output(TopK)
def _(ins: Instruction, op: TopK, operand: int) -> tuple[Accesses, ...]:
    source = sizes(ins.operands[0].type)
    return tuple(_line(source, target, len(source) - 1) for target in all_output_sizes(ins))


# Sort: an output reads the whole line of its own operand and of every operand that the comparator
# looks at.

_ORDER = "the comparator does not look at any element"


def _compared(ins: Instruction, op: Sort, bodies: Bodies) -> dict[int, Use]:
    """Return the operands that the comparator reads, and how."""
    if not bodies:
        return dict.fromkeys(range(len(ins.operands)), Use.ALWAYS)
    if sizes(ins.operands[0].type)[op.dimension] < 2:
        return {}  # there is nothing to compare
    sure = {number // 2 for number in bodies[0].sure[0]}
    return {n // 2: used(True, n // 2 in sure) for n in bodies[0].reads[0]}


def _sorted_line(
    op: Sort, compared: dict[int, Use], k: int, here: Dims, there: Dims, *, is_own: bool
) -> Accesses:
    """Return the access between an element of an output and the line of operand `k`."""
    # A bound may be declared for one of them and a smaller size for the other.
    shape = tuple(map(min, here, there))
    line = _line(shape, shape, op.dimension)
    if is_own:
        # Without a comparison the order is not defined, so any element of the line may be the one.
        is_decided = bool(compared) or shape[op.dimension] < 2
        return claimed(Use.ALWAYS if is_decided else Use.SOMETIMES, line, _ORDER)
    return claimed(compared[k], line)


@output_to_input(Sort, bodies=True)
def _(ins: Instruction, op: Sort, output: int, bodies: Bodies) -> tuple[Accesses, ...]:
    compared, here = _compared(ins, op, bodies), output_sizes(ins, output)
    answer = [NEVER] * len(ins.operands)
    for k in (output, *compared):
        there = sizes(ins.operands[k].type)
        answer[k] = _sorted_line(op, compared, k, here, there, is_own=k == output)
    return tuple(answer)


@input_to_output(Sort, bodies=True)
def _(ins: Instruction, op: Sort, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    compared, here = _compared(ins, op, bodies), sizes(ins.operands[operand].type)
    return tuple(
        [
            _sorted_line(op, compared, operand, here, there, is_own=k == operand)
            if k == operand or operand in compared
            else NEVER
            for k, there in enumerate(all_output_sizes(ins))
        ]
    )


@comes_from(Sort)
def _(ins: Instruction, op: Sort, output: int, bodies: Bodies) -> Iterator[Instances]:
    shape = output_sizes(ins, output)
    if shape[op.dimension] > 1:
        yield Instances(0, 0, everything(shape, ()))
