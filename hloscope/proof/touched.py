"""Pairs of elements that maps claim, for the run-time values of one run, as a boolean matrix.

Rows are output elements on all devices, and columns elements of sources, as in `Elements`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final, TypeAlias

from hloscope.affine import POS_INF, Expr, Interval, Range, Runtime, Var
from hloscope.arrays import Bools, Ints, np
from hloscope.indexing import Access, Accesses, IndexingMap, Variable, joined, ravel, replaced
from hloscope.proof.allowance import Deadline
from hloscope.proof.elements import Elements, Leaf, Place, nothing, points_of
from hloscope.proof.instance import Instance
from hloscope.proof.names import AS_THEY_ARE
from hloscope.proof.points import Touching
from hloscope.proof.running import Base, Observed
from hloscope.simplifier import UndecidedError

Claims: TypeAlias = Mapping[Place, Accesses]
"""Maps by output, source and leaf; a missing place has no pairs."""


class Touched:
    """Pairs that the maps of an instance claim, for the run-time values of a run.

    Attributes:
        claims: The maps.
        is_moving: Does a map depend on values of the run?
    """

    def __init__(
        self, instance: Instance, elements: Elements, claims: Claims, deadline: Deadline
    ) -> None:
        self.claims: Final = claims
        self.is_moving: Final = any(is_moving(accesses) for accesses in claims.values())
        self._devices = instance.devices
        self._elements = elements
        self._deadline = deadline
        # Each relation is read for every run and every place, and costs an evaluation of all maps.
        self._whole: dict[int, Bools] = {}
        self._fixed: dict[Place, Bools | bool] = {}

    def relation(self, base: Base) -> Bools:
        """Return which rows depend on which columns, by all maps. Shape `[rows, columns]`.

        Raises:
            UndecidedError: A map cannot be evaluated.
            TimeOverError: The deadline is past, and the relation is not stored.
        """
        # Maps without runtime variables have the same pairs in every run.
        key = id(base) if self.is_moving else 0
        if key not in self._whole:
            elements = self._elements
            found = nothing(elements.rows, elements.size)
            for place, accesses in self.claims.items():
                self._deadline.check()
                if accesses and elements.has(*place[1:]):
                    block = np.ix_(elements.rows_of(place[0]), elements.columns_of(*place[1:]))
                    found[block] = self._known(base, place, accesses)
            self._whole[key] = found
        return self._whole[key]

    def _known(self, base: Base, place: Place, accesses: Accesses) -> Bools | bool:
        """Return the block of a place; one that is the same in all runs is computed once."""
        if is_moving(accesses):
            return self.part(base, place, accesses, False)
        if place not in self._fixed:
            self._fixed[place] = self.part(base, place, accesses, False)
        return self._fixed[place]

    def part(self, base: Base, place: Place, accesses: Accesses, inverse: bool) -> Bools | bool:
        """Return the block of a place by other maps, which may lead from the source to the output.

        `True` stands for all pairs, if a map is unknown.

        Raises:
            UndecidedError: A map cannot be evaluated.
        """
        if any(a.map is None for a in accesses):
            return True
        elements = self._elements
        leaves = elements.leaves_of(*place[1:])
        width = prod(leaves[0].shape)
        found = nothing(len(elements.rows_of(place[0])), width * len(leaves))
        row = 0
        for device in range(self._devices.count):
            # Blocks are stacked device by device, as `rows_of` and `columns_of` number them.
            output = place[0] + device * elements.outputs
            count = len(elements.chosen[output])
            rows = found[row : row + count]
            row += count
            for access in accesses:
                for at, other, column in self._pairs(base, access, device, output, leaves, inverse):
                    rows[at, other * width + column] = True
        return found

    def _pairs(
        self,
        base: Base,
        access: Access,
        device: int,
        output: int,
        leaves: list[Leaf],
        inverse: bool,
    ) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield rows of the output on a device, devices of the source, and columns there."""
        m = access.map
        assert m is not None
        if m.is_known_empty:
            return
        shape, chosen = self._elements.shapes[output], self._elements.chosen[output]
        source = leaves[0].shape
        starts = points_of(np.arange(prod(source)), source) if inverse else points_of(chosen, shape)
        ends = shape if inverse else source
        if (starts.shape[1], len(ends)) != (len(m.dims), len(m.results)):
            raise UndecidedError("the program is inconsistent: ranks differ")
        follower = Touching(Observed(base, device, self._devices))
        both = with_every_position(joined(access), self._devices.count)
        start, results = follower.results(both, starts, AS_THEY_ARE)
        rank = len(ends)
        positions = [results[:, rank + k] for k in range(len(access.via))]
        others = self._devices.reached(device, access.via, positions)
        others = np.broadcast_to(others, start.shape)
        # An over-approximated map may leave the array, and a position may have no device: such
        # results are no pairs.
        inside = (results[:, :rank] >= 0).all(axis=1) & (others >= 0)
        inside &= (results[:, :rank] < np.asarray(ends, np.int64)).all(axis=1)
        start, others = start[inside], others[inside]
        end = np.zeros(len(start), np.int64)
        if rank:
            end = ravel(tuple(results[inside, :rank].T), ends)
        if not inverse:
            yield start, others, end
            return
        # Rows are a sample of the output, so elements reached by an inverse map are looked up in
        # it.
        position = np.full(prod(shape), -1)
        position[chosen] = np.arange(len(chosen))
        at = position[end]
        yield at[at >= 0], others[at >= 0], start[at >= 0]


def is_moving(accesses: Accesses) -> bool:
    """Do the maps depend on values of the run?"""
    return any(a.map is not None and a.map.runtime for a in accesses)


def with_every_position(m: IndexingMap, count: int) -> IndexingMap:
    """Return the map with "every position of a group" as a range variable of `count` values.

    A position that a group does not have leads to no device.
    """
    bounds = Variable(Interval(0, count - 1))
    ranges = [v if v.interval.hi < POS_INF else bounds for v in m.ranges]
    every = [k for k, v in enumerate(m.runtime) if v.is_every]
    left = [k for k in range(len(m.runtime)) if k not in every]
    new: dict[Var, Expr] = {Runtime(k): Runtime(i) for i, k in enumerate(left)}
    new |= {Runtime(k): Range(len(ranges) + i) for i, k in enumerate(every)}
    inside = [(Runtime(k), m.runtime[k].interval) for k in every]
    return replaced(
        m.with_(constraints=(*m.constraints, *inside)),
        new,
        dims=m.dims,
        ranges=[*ranges, *[bounds for _ in every]],
        runtime=[m.runtime[k] for k in left],
    )
