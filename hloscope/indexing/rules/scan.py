"""Scan: a body that is applied to consecutive slices and passes carries on.

Step `t` of an output depends on step `t` of the inputs and, through the carries, on earlier steps;
their distance says which. The body sees whole slices. If it reads beyond its own line, any element
of the slices may matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.affine import Const, Expr
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.build import (
    NEVER,
    MapBuilder,
    all_output_sizes,
    dims,
    everything_map,
    exact,
    identity,
    leaves,
    output_sizes,
    over,
    sizes,
)
from hloscope.indexing.rules.dependence import UNUSED, Bodies, Dependence, History
from hloscope.indexing.rules.registry import Instances, comes_from, input_to_output, output_to_input
from hloscope.ir import Dims, Instruction
from hloscope.ops import Scan

_SLICES = "the body may combine any elements of the slices"
MOST_RUNS: Final = 4
"""Largest number of runs of distances that are distinguished."""
UNROLLED: Final = 64
"""Number of steps that are followed one by one if carries form cycles."""

Runs: TypeAlias = tuple[tuple[int, int], ...]
"""Distances in steps: intervals with both ends included and gaps between them."""


class Reach(Struct, frozen=True):
    """Distances at which a result of the body reads a parameter.

    Attributes:
        runs: The distances in steps; 0 is the same step.
        is_sure: It reads the parameter at each of them for all values.
        is_aligned: It reads only its own line.
    """

    runs: Runs
    is_sure: bool
    is_aligned: bool


def reaches(body: Dependence, parameters: int, carries: int, steps: int) -> tuple[Reach, ...]:
    """Return, for each result of the body and each parameter, the distances at which it reads it.

    Carries are the last parameters and the last results.

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
                Reach(runs, is_sure, not _leaves_its_line(body, k, j, parameters, carries))
            )
    return tuple(found)


def _distances(
    rows: tuple[frozenset[int], ...], parameters: int, carries: int, steps: int
) -> list[list[tuple[tuple[bool, ...], bool]]]:
    """Return which parameters each result reads at each distance, and if that stays so after."""
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


def _runs(reads: tuple[bool, ...], stays: bool, steps: int) -> tuple[Runs, bool]:
    """Return the intervals of distances, and whether they are exact."""
    runs: list[tuple[int, int]] = []
    for value, group in groupby(range(len(reads)), key=reads.__getitem__):
        members = [*group]
        if value:
            runs.append((members[0], members[-1]))
    if runs and stays and reads[-1]:
        runs[-1] = (runs[-1][0], steps - 1)
    if stays and len(runs) <= MOST_RUNS:
        return tuple(runs), True
    return ((0, steps - 1),), False


def _leaves_its_line(
    body: Dependence, result: int, parameter: int, parameters: int, carries: int
) -> bool:
    """Does a path of reads from the result to the parameter leave its line?"""
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
        """Return the sizes of a slice."""
        return self.sizes if self.is_carry else del_at(self.sizes, dimension)


def del_at(sizes: Dims, dimension: int) -> Dims:
    """Return the sizes without one dimension.

    >>> del_at((4, 5, 6), 1)
    (4, 6)
    """
    return (*sizes[:dimension], *sizes[dimension + 1 :])


class _Scanned:
    """Dependences between the operands and outputs of a scan."""

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
        """Return the accesses from an output to an operand.

        With `back`, from the operand to the output.
        """
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
        """Return the map for an interval of distances; `None` if no step is at such a distance."""
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
        distance = self._time(later, last) - self._time(earlier, 0)
        if isinstance(distance, Const):
            return at.map(index) if run[0] <= distance.value <= run[1] else None
        if run != (0, last) or (later is not None and earlier is not None):
            at.require(distance, *run)
        return at.map(index)

    def _time(self, place: Expr | None, otherwise: int) -> Expr:
        """Return the number of steps before the one at `place`; `otherwise` for a carry."""
        if place is None:
            return Const(otherwise)
        return Const(self._steps - 1) - place if self._op.is_reverse else place


@output_to_input(Scan, precision=Precision.OVER, reason=_SLICES, bodies=True)
def _(ins: Instruction, op: Scan, output: int, bodies: Bodies) -> tuple[Accesses, ...]:
    scan = _Scanned(ins, op, bodies)
    return tuple([scan.accesses(output, k, back=False) for k in range(len(scan.operands))])


@input_to_output(Scan, precision=Precision.OVER, reason=_SLICES, bodies=True)
def _(ins: Instruction, op: Scan, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    scan = _Scanned(ins, op, bodies)
    return tuple([scan.accesses(k, operand, back=True) for k in range(len(scan.outputs))])


@comes_from(Scan)
def _(ins: Instruction, op: Scan, output: int, bodies: Bodies) -> Iterator[Instances]:
    """Any element of the body's results may count, of the same step or through the carries."""
    here = output_sizes(ins, output)
    for k, type in enumerate(leaves(ins.calls[0].root.type)):
        yield Instances(0, k, over(_SLICES, everything_map(here, sizes(type))))
