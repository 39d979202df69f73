"""Rules for reductions, sorts, the largest elements of lines, and scans."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from math import prod
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.affine import Const, Dim, Expr
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.dependence import (
    UNUSED,
    Bodies,
    Dependence,
    Fold,
    History,
    Use,
    body_of,
    fold,
    use_of,
    uses_of,
    weakened_by_use,
    weakened_by_uses,
)
from hloscope.indexing.rules.registry import (
    NEVER,
    Instances,
    MapBuilder,
    all_output_sizes,
    dims,
    dynamic_dimensions,
    everything,
    everything_map,
    everywhere,
    exact,
    identity,
    input_to_output,
    leaves,
    output_sizes,
    output_to_input,
    over,
    reads_bodies,
    sizes,
)
from hloscope.ir import Dims, Instruction
from hloscope.ops import Reduce, Scan, Sort, TopK

# --------------------------------------------------------------------------------------------------
# Reductions, sorts, and the largest elements of lines.


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
    # A reduction of several elements is not ordered in StableHLO.
    initial = everything(target, sizes(ins.operands[-1].type))
    uses, count = _folded(ins, op, bodies), len(ins.operands) // 2
    return (
        *weakened_by_uses(uses.elements[output], count, elements),
        *weakened_by_uses(uses.initial[output], count, initial),
    )


@input_to_output(Reduce, bodies=True)
def _(ins: Instruction, op: Reduce, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    count, uses = len(ins.operands) // 2, _folded(ins, op, bodies)
    if operand >= count:
        by = [row[operand - count] for row in uses.initial]
        return tuple(map(weakened_by_use, by, everywhere(ins, operand)))
    source = sizes(ins.operands[operand].type)
    kept = [Dim(k) for k in range(len(source)) if k not in op.dimensions]
    found = exact(MapBuilder(source).map(kept))
    return tuple(weakened_by_uses(uses_of(operand, uses.elements), count, found))


@reads_bodies(Reduce)
def _(ins: Instruction, op: Reduce, output: int, bodies: Bodies) -> Iterator[Instances]:
    """Yield the accesses from an output element to results of the reduction's body.

    All applications of the body read the same captured values, so one application represents all.
    """
    return applications(_folded(ins, op, bodies), everything(output_sizes(ins, output), ()), output)


def applications(uses: Fold, accesses: Accesses, output: int) -> Iterator[Instances]:
    """Yield the accesses from an output of the fold `acc = body(acc, element)` to body results.

    Args:
        uses: Dependences of the fold.
        accesses: Accesses from an element of the output to a result of the body.
        output: Number of the output.
    """
    for k, use in uses.results[output].items():
        yield Instances(0, k, weakened_by_use(use, accesses))


def _line(shape: Dims, target: Dims, dimension: int) -> Accesses:
    """Return the access to all elements along `dimension`, with the same other coordinates.

    Args:
        shape: Sizes of the tensor that the access starts from.
        target: Sizes of the accessed tensor.
        dimension: The dimension.
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


# Sort: an output element reads the whole line of its own operand, and of every operand that the
# comparator reads.

_ORDER = "the comparator does not look at any element"


def _compared(ins: Instruction, op: Sort, bodies: Bodies) -> dict[int, Use]:
    """Return the operands that the comparator reads, each with whether it is always read."""
    if not bodies:
        return dict.fromkeys(range(len(ins.operands)), Use.ALWAYS)
    if sizes(ins.operands[0].type)[op.dimension] < 2:
        return {}  # there is nothing to compare
    sure = {number // 2 for number in bodies[0].sure[0]}
    return {n // 2: use_of(True, n // 2 in sure) for n in bodies[0].reads[0]}


def _sorted_line(
    op: Sort, compared: dict[int, Use], k: int, here: Dims, there: Dims, *, is_own: bool
) -> Accesses:
    """Return the access from an element to another array's elements along the sorted dimension.

    Args:
        op: The sort.
        compared: How the comparator uses each operand.
        k: Number of the operand.
        here: Sizes of the array that the access starts from.
        there: Sizes of the accessed array.
        is_own: Whether operand and output have the same number.
    """
    # One type may declare a bound and the other a smaller size; the smaller one counts.
    shape = tuple(map(min, here, there))
    line = _line(shape, shape, op.dimension)
    if is_own:
        # Without a comparison the order is not defined, so any element of the line may be the one.
        is_decided = bool(compared) or shape[op.dimension] < 2
        return weakened_by_use(Use.ALWAYS if is_decided else Use.SOMETIMES, line, _ORDER)
    return weakened_by_use(compared[k], line)


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


@reads_bodies(Sort)
def _(ins: Instruction, op: Sort, output: int, bodies: Bodies) -> Iterator[Instances]:
    shape = output_sizes(ins, output)
    if shape[op.dimension] > 1:
        yield Instances(0, 0, everything(shape, ()))


# --------------------------------------------------------------------------------------------------
# Scan: the body is applied to consecutive slices and passes carries on. Step `t` of an output
# depends on step `t` of the inputs and, through the carries, on earlier steps; the distance is the
# number of steps in between. The body gets slices. If it reads a slice at other indices than the
# result's, any element of the slices may matter.


_SLICES = "the body may combine any elements of the slices"
MOST_RUNS: Final = 4
"""Maximum number of intervals of distances; with more, one interval covers them all."""
UNROLLED: Final = 64
"""Number of steps that are followed one by one if the dependences of carries are periodic."""

Runs: TypeAlias = tuple[tuple[int, int], ...]
"""Distances in steps: disjoint intervals with both ends included."""


class Reach(Struct, frozen=True):
    """The steps at which a result of a scan's body reads a parameter, counted backwards.

    Attributes:
        runs: The distances, in steps; 0 is the step of the result.
        is_sure: Whether the parameter is read at each of these distances for all values.
        is_aligned: Whether an element reads only elements at its own index within the slice.
    """

    runs: Runs
    is_sure: bool
    is_aligned: bool


def reaches(body: Dependence, parameters: int, carries: int, steps: int) -> tuple[Reach, ...]:
    """Return the `Reach` of each result of the body to each parameter, results first.

    Carries are the last parameters and the last results.

    Args:
        body: Dependences of the body.
        parameters: Number of parameters.
        carries: Number of carries.
        steps: Number of steps of the scan.

    >>> [reach.runs for reach in reaches(Dependence.of_everything(2, 2), 2, 1, 8)]
    [((0, 7),), ((0, 7),), ((0, 7),), ((0, 7),)]
    """
    possible = _distances(body.reads, parameters, carries, steps)
    sure = _distances(body.sure, parameters, carries, steps)
    found = []
    for k in range(len(body.reads)):
        for j in range(parameters):
            runs, is_known = _runs(*possible[k][j], steps)
            is_sure = is_known and possible[k][j] == sure[k][j]
            found.append(
                Reach(runs, is_sure, not _reads_other_indices(body, k, j, parameters, carries))
            )
    return tuple(found)


def _distances(
    rows: tuple[frozenset[int], ...], parameters: int, carries: int, steps: int
) -> list[list[tuple[tuple[bool, ...], bool]]]:
    """Return, for each result and parameter, the distances in steps at which the parameter is read.

    Args:
        rows: For each result of the body, the parameters that it reads.
        parameters: Number of parameters.
        carries: Number of carries.
        steps: Number of steps of the scan.

    Returns:
        By result and parameter, a flag for each distance from 0 on, and whether the last flag holds
            for all later distances.
    """
    results, first = len(rows), parameters - carries
    shift = results - parameters
    # Only carries lead to an earlier step; carry `j` of a step is the result `j + shift` of the
    # step before.
    back = tuple([frozenset(j + shift for j in row if j >= first) for row in rows])
    history = History(back, tuple([frozenset([k]) for k in range(results)]))
    count = min(steps, max(history.length, UNROLLED) if history.is_complete else history.length)
    states = [history.at(n) for n in range(count)]
    stays = count == steps or history.is_steady
    return [
        [
            (tuple([any(j in rows[r] for r in state[k]) for state in states]), stays)
            for j in range(parameters)
        ]
        for k in range(results)
    ]


def _runs(reads: tuple[bool, ...], is_constant: bool, steps: int) -> tuple[Runs, bool]:
    """Return the distances with a true flag as intervals, and whether the intervals are exact.

    Args:
        reads: A flag for each distance from 0 on.
        is_constant: Whether the last flag holds for all later distances below `steps`.
        steps: Number of steps of the scan.
    """
    runs: list[tuple[int, int]] = []
    for value, group in groupby(range(len(reads)), key=reads.__getitem__):
        members = [*group]
        if value:
            runs.append((members[0], members[-1]))
    if runs and is_constant and reads[-1]:
        runs[-1] = (runs[-1][0], steps - 1)
    if is_constant and len(runs) <= MOST_RUNS:
        return tuple(runs), True
    return ((0, steps - 1),), False


def _reads_other_indices(
    body: Dependence, result: int, parameter: int, parameters: int, carries: int
) -> bool:
    """May a result of a scan's body read a parameter at another index within the slice?

    Paths of reads through carries are followed, in which a carry is a result of the step before.

    Args:
        body: Dependences of the body.
        result: Number of the result.
        parameter: Number of the parameter.
        parameters: Number of parameters.
        carries: Number of carries.
    """
    first, shift = parameters - carries, len(body.reads) - parameters
    seen: set[tuple[int, bool]] = set()
    todo = [(result, False)]
    while todo:
        row, was_loose = at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        for j in body.reads[row]:
            loose = was_loose or j not in body.aligned[row]
            if j == parameter and loose:
                return True
            if j >= first:
                todo.append((j + shift, loose))
    return False


class _ScannedValue(Struct, frozen=True):
    """An operand or output of a scan.

    Attributes:
        sizes: Sizes of the value.
        is_carry: Whether it has no scanned dimension.
    """

    sizes: Dims
    is_carry: bool

    def lines(self, dimension: int) -> Dims:
        """Return the sizes of the value in one step: those without the scanned dimension."""
        return self.sizes if self.is_carry else without_dimension(self.sizes, dimension)


def without_dimension(sizes: Dims, dimension: int) -> Dims:
    """Return the sizes without one dimension.

    >>> without_dimension((4, 5, 6), 1)
    (4, 6)
    """
    return (*sizes[:dimension], *sizes[dimension + 1 :])


class _Scanned:
    """Dependences between the operands and outputs of a scan, element by element."""

    def __init__(self, ins: Instruction, op: Scan, bodies: Bodies) -> None:
        self._op = op
        shapes = [sizes(operand.type) for operand in ins.operands], all_output_sizes(ins)
        self.operands, self.outputs = (
            [_ScannedValue(s, k >= len(some) - op.num_carries) for k, s in enumerate(some)]
            for some in shapes
        )
        stacked = [p.sizes for p in (*self.operands, *self.outputs) if not p.is_carry]
        self._steps = stacked[0][op.scan_dimension] if stacked else op.scan_dim_size or 0
        results, parameters = len(self.outputs), len(self.operands)
        body = bodies[0] if bodies else Dependence.of_everything(results, parameters)
        self._reaches = reaches(body, parameters, op.num_carries, self._steps)

    def accesses(self, output: int, operand: int, *, back: bool) -> Accesses:
        """Return the accesses from an output to an operand; with `back`, in the other direction."""
        result, read = self.outputs[output], self.operands[operand]
        if not self._steps and result.is_carry and read.is_carry:
            same = len(self.outputs) - output == len(self.operands) - operand
            return identity(result.sizes) if same else NEVER
        reach = self._reaches[output * len(self.operands) + operand]
        lines = result.lines(self._op.scan_dimension), read.lines(self._op.scan_dimension)
        in_line = reach.is_aligned and lines[0] == lines[1]
        here, there = (read, result) if back else (result, read)
        maps = [self._map(here, there, run, in_line, back) for run in reach.runs]
        found = [m for m in maps if m is not None]
        if not in_line and lines != ((), ()):
            return over(_SLICES, *found)
        return exact(*found) if reach.is_sure else over(UNUSED, *found)

    def _map(
        self,
        here: _ScannedValue,
        there: _ScannedValue,
        run: tuple[int, int],
        in_line: bool,
        back: bool,
    ) -> IndexingMap | None:
        """Return the map between elements whose steps have a distance in the interval `run`.

        The result is `None` if no step has such a distance.

        Args:
            here: The value that the map starts from.
            there: The value that it reaches.
            run: First and last distance, in steps.
            in_line: Keep the index within the slice; otherwise all are reached.
            back: `here` is the operand.
        """
        last, place = self._steps - 1, self._op.scan_dimension
        at = MapBuilder(here.sizes)
        mine = dims(len(here.sizes))
        own = None if here.is_carry else mine.pop(place)
        rest = iter(mine)
        index: list[Expr] = []
        step: Expr | None = None
        for k, size in enumerate(there.sizes):
            if k == place and not there.is_carry:
                step = at.range(size)
                index.append(step)
            else:
                index.append(next(rest) if in_line else at.range(size))
        later, earlier = (step, own) if back else (own, step)
        # A final carry is of the last step; an initial one is read before the first step.
        distance = self._steps_before(later, last) - self._steps_before(earlier, 0)
        if isinstance(distance, Const):
            return at.map(index) if run[0] <= distance.value <= run[1] else None
        if run != (0, last) or (later is not None and earlier is not None):
            at.require(distance, *run)
        return at.map(index)

    def _steps_before(self, index: Expr | None, otherwise: int) -> Expr:
        """Return the number of steps before the step at `index` of the scanned dimension.

        For a carry, `index` is `None` and the result is `otherwise`.
        """
        if index is None:
            return Const(otherwise)
        return Const(self._steps - 1) - index if self._op.is_reverse else index


@output_to_input(Scan, precision=Precision.OVER, reason=_SLICES, bodies=True)
def _(ins: Instruction, op: Scan, output: int, bodies: Bodies) -> tuple[Accesses, ...]:
    scan = _Scanned(ins, op, bodies)
    return tuple([scan.accesses(output, k, back=False) for k in range(len(scan.operands))])


@input_to_output(Scan, precision=Precision.OVER, reason=_SLICES, bodies=True)
def _(ins: Instruction, op: Scan, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    scan = _Scanned(ins, op, bodies)
    return tuple([scan.accesses(k, operand, back=True) for k in range(len(scan.outputs))])


@reads_bodies(Scan)
def _(ins: Instruction, op: Scan, output: int, bodies: Bodies) -> Iterator[Instances]:
    """Yield accesses from an output element to results of the scan's body, over-approximated.

    The element depends on results of its own step and, through the carries, of earlier steps.
    """
    here = output_sizes(ins, output)
    for k, type in enumerate(leaves(ins.calls[0].root.type)):
        yield Instances(0, k, over(_SLICES, everything_map(here, sizes(type))))
