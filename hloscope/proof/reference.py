"""Reference relations of one output of a program, and the comparison of maps with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from hloscope.affine import POS_INF, Dim
from hloscope.errors import UnsupportedError
from hloscope.fusion import Part
from hloscope.indexing import (
    Access,
    Accesses,
    IndexingMap,
    Precision,
    address_map,
    major_to_minor,
    padded_physical_sizes,
    sizes as sizes_of,
)
from hloscope.ir import Computation, Instruction, TensorType, Type
from hloscope.proof.graph import OWN_NAMES, Names, Reached, Steps, Walker, WalkTooLongError
from hloscope.proof.integers import Values
from hloscope.proof.relations import (
    ElementFollower,
    IslFollower,
    Relations,
    Rows,
    first_difference,
    points_of,
)
from hloscope.simplifier import CounterExample, UndecidedError, budgeted, isl_context
from hloscope.support.arrays import Ints, np, sorted_unique

# --------------------------------------------------------------------------------------------------
# Reference relations of one output of a program, by isl and from single elements.


ENUMERATED: Final = 256
"""Largest number of elements of an output for which all elements are compared."""
MORE_ENUMERATED: Final = 1 << 16
"""Largest number of elements of an output that are all compared if isl does not decide."""
SAMPLES: Final = (32, 4, 1)
"""Numbers of elements of larger outputs to compare; the next is used if one reaches too many."""
ROWS: Final = 1 << 17
"""Largest number of elements that one state of a traversal has."""
MORE_ROWS: Final = 1 << 19
"""Largest number of elements that one state of a traversal has if isl does not decide."""


class Reference:
    """The reference relations of one output: the dependences that the program itself has.

    Each relation is computed when it is first requested.
    """

    def __init__(
        self,
        steps: Steps,
        ins: Instruction,
        output: int,
        computation: Computation | None,
        values: Sequence[Instruction],
        seed: int,
        budget: int,
        left: Callable[[], float] = lambda: inf,
    ) -> None:
        self.steps, self.ins, self.computation = steps, ins, computation
        self.left = left
        self._values = values
        self.number = output
        self.output = steps.of_part(ins.type, Part(output))
        self.seed, self.budget = seed, budget
        self.here: Type = steps.leaves(ins.type)[self.output]
        # All operands of the output are compared with the same reference.
        self._known: dict[str, ReferenceRelations | UndecidedError] = {}

    def operand_type(self, operand: int, tensor: int) -> Type:
        """Return the type of tensor `tensor` of operand or parameter `operand`."""
        return self.steps.tensor_types(self._values[operand].type)[tensor]

    def walk(self, follower: Any, start: Any) -> dict[tuple[int, int], Reached[Any]]:
        """Traverse the program from the output with a follower; return what is reached.

        Args:
            follower: The `Follower`.
            start: Its state for the elements of the output from which the traversal starts.

        Returns:
            The elements reached, by the numbers of operand or parameter, and of its tensor.
        """
        walker: Walker[Any] = Walker(self.steps, follower, self.left())
        if self.computation is not None:
            found = walker.parameters(self.ins, self.output, start, self.computation)
        else:
            found = walker.operands(self.ins, self.output, start)
        parts = {(k, i): self.steps.part(self._values[k].type, i) for k, i in found}
        return {
            (k, parts[k, i].tensor): reached
            for (k, i), reached in found.items()
            if parts[k, i].dimension is None
        }

    def reached(self) -> frozenset[tuple[int, int]]:
        """Return the tensors that the output may read, by (operand or parameter, tensor).

        They are those to which a path leads on which no map is empty.

        Raises:
            UndecidedError: The program cannot be traversed.
        """
        return frozenset(self.walk(ReachabilityFollower(), True))

    def _stored(self, kind: str, make: Callable[[], ReferenceRelations]) -> ReferenceRelations:
        """Return `make()`, which is called once for each kind, or raise its error again."""
        if kind not in self._known:
            try:
                self._known[kind] = make()
            except UndecidedError as error:
                self._known[kind] = error
        found = self._known[kind]
        if isinstance(found, UndecidedError):
            raise found
        return found

    def relations(self) -> ReferenceRelations:
        """Return the reference relations as isl relations.

        Raises:
            UndecidedError: isl takes too many steps, or the traversal cannot go on.
        """

        def make() -> ReferenceRelations:
            with budgeted(self.budget) as isl:
                follower = IslFollower(isl, Values(self.seed))
                found = self.walk(follower, follower.identity(sizes_of(self.here)))
            return ReferenceRelations(follower, found)

        return self._stored("isl", make)

    def points(self) -> ReferenceRelations:
        """Return the reference relations at all elements of the output, or at a sample of them.

        It is a sample if the output is large.

        Raises:
            UndecidedError: The traversal cannot go on.
        """
        return self._stored("points", self._some_points)

    def all_points(self) -> ReferenceRelations:
        """Return the reference relations at all elements of the output.

        Raises:
            UndecidedError: The output has more than `MORE_ENUMERATED` elements, or the traversal
                cannot go on.
        """
        return self._stored("all", self._every_point)

    def _every_point(self) -> ReferenceRelations:
        shape = sizes_of(self.here)
        total = prod(shape)
        if total > MORE_ENUMERATED:
            raise UndecidedError(f"there are {total} elements")
        return self._from_points(shape, total, MORE_ROWS)

    @property
    def are_few(self) -> bool:
        """Does the output have at most `MORE_ENUMERATED` elements?"""
        try:
            return prod(sizes_of(self.here)) <= MORE_ENUMERATED
        except UnsupportedError:
            return False

    def _some_points(self) -> ReferenceRelations:
        """Return the reference relations at all elements, or at as many as the limits allow."""
        shape = sizes_of(self.here)
        total = prod(shape)
        failure = UndecidedError("the output has no elements")
        # A small output is enumerated. Otherwise fewer and fewer samples are tried, because one
        # element may reach too many others; a traversal that is too long would be so for fewer as
        # well.
        for count in (total if total <= ENUMERATED else 0, *SAMPLES):
            if 0 < count <= max(total, SAMPLES[-1]):
                try:
                    return self._from_points(shape, count, ROWS)
                except WalkTooLongError:
                    raise
                except UndecidedError as error:
                    failure = error
        raise failure

    def _from_points(self, shape: tuple[int, ...], count: int, rows: int) -> ReferenceRelations:
        """Return the reference relations at `count` elements of an output.

        `shape` is that of the output, `rows` the limit of the elements in one state of the
        traversal.

        Raises:
            UndecidedError: The traversal cannot go on.
        """
        values = Values(self.seed)
        follower = ElementFollower(values, rows)
        try:
            chosen = some_points(shape, count, self.seed)
            found = self.walk(follower, follower.start(chosen))
        except OverflowError:
            raise UndecidedError("sizes beyond 64 bits") from None
        return ReferenceRelations(follower, found, chosen, len(chosen) == prod(shape), values)


class ReachabilityFollower:
    """A follower of traversals that records only that something is reached, not which elements."""

    def through(self, reached: bool, access: Access, names: Names) -> bool | None:
        """Return true if the access may read something; `None` if its map is empty or unknown."""
        return None if access.map is None or access.map.is_known_empty else True

    def join(self, one: bool, other: bool) -> bool:
        """Return true, the only state of a traversal by reachability."""
        return True

    def key(self, reached: bool) -> bool:
        """Return true, the key of the only state."""
        return True

    def weight(self, reached: bool) -> int:
        """Return 1: a state is one Boolean."""
        return 1


class ReferenceRelations:
    """Reference relations of one kind, with the follower that computed them.

    `found` has the elements reached, by (operand, tensor). `chosen` are the indices of the output
    from which they were reached; `None` if `found` has relations of isl, which hold for all
    indices.
    """

    def __init__(
        self,
        follower: Any,
        found: dict[tuple[int, int], Reached[Any]],
        chosen: Ints | None = None,
        is_all: bool = False,
        values: Values | None = None,
    ) -> None:
        self.follower, self.found = follower, found
        self.chosen, self.is_all, self.values = chosen, is_all, values


def some_points(shape: Sequence[int], count: int, seed: int) -> Ints:
    """Return different indices of a tensor: all, or its ends, its middle and random ones.

    There are at most `count`. Shape `[n, rank]`.

    >>> some_points((2, 2), 9, 0).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    total = prod(shape)
    if total > POS_INF:
        return _far_points(shape, count, seed)
    if total <= count:
        flat = np.arange(total, dtype=np.int64)
    else:
        fixed = [total - 1, 0, total // 2][:count]
        drawn = np.random.default_rng(seed).integers(0, total, max(0, count - len(fixed)))
        flat = sorted_unique(np.concatenate([np.asarray(fixed, np.int64), drawn]))
    return points_of(flat, shape)


def _far_points(shape: Sequence[int], count: int, seed: int) -> Ints:
    """Return `some_points` of a tensor with more than 2^63 elements.

    The coordinates of an index are chosen one by one.

    Raises:
        UndecidedError: A single index exceeds 64 bits.
    """
    if max(shape) > POS_INF:
        raise UndecidedError("an index does not fit into 64 bits")
    rng = np.random.default_rng(seed)
    ends = np.asarray(shape, np.int64) - 1
    drawn = [rng.integers(0, ends, endpoint=True) for _ in range(count)]
    return np.unique(np.stack([ends, ends * 0, ends // 2, *drawn])[:count], axis=0)


# --------------------------------------------------------------------------------------------------
# Comparison of the maps of one operand with the reference relation, by isl and at elements.


Order: TypeAlias = Literal["logical", "physical", "linear"]


class ComparisonResult(Struct, frozen=True):
    """Result of a comparison of maps with the reference.

    `means` is a text of the method, `is_whole` says whether all elements were compared. `example`
    is a pair that only one of both relations has; `None` if there is none.
    """

    means: str
    is_whole: bool
    example: CounterExample | None

    def to_json(self) -> Any:
        """Return the result as JSON data."""
        x = self.example
        pair = None if x is None else [[*x.dims], [*x.results], x.only_in]
        return [self.means, self.is_whole, pair]


class Question:
    """A query: the maps of one operand, and the reference relations of the output."""

    def __init__(
        self,
        truth: Reference,
        operand: int,
        leaf: int,
        accesses: Accesses,
        order: Order,
        inverse: bool,
    ) -> None:
        self.truth, self.accesses, self.inverse = truth, accesses, inverse
        self.place = operand, leaf
        self.operand_type = truth.operand_type(operand, leaf)
        self.placed = placing(truth.here, order), placing(self.operand_type, order)
        self.is_over = any(a.precision is Precision.OVER for a in accesses)
        self.is_far = any(_is_far(t, order) for t in (truth.here, self.operand_type))

    def _reached(self, reference: ReferenceRelations) -> Reached[Any]:
        """Return the elements of the operand that the relations in `reference` reach.

        Raises:
            UndecidedError: A map on the path is unknown.
        """
        reached = reference.found.get(self.place, Reached(None))
        if reached.unknown:
            raise UndecidedError(f"unknown on the way: {reached.unknown}")
        return reached

    # --------------------------------------------------------------------------------------- isl

    def isl_json(self) -> Any:
        """Return the result of the comparison by isl, `by_isl`, as JSON data."""
        return ComparisonResult("isl", True, self.by_isl()).to_json()

    def by_isl(self) -> CounterExample | None:
        """Compare the maps with the reference relations by isl, at all elements.

        Return a pair that only one of both has; `None` if they are equal.

        Raises:
            UndecidedError: isl takes too many steps, or the traversal cannot go on.
        """
        way = self.truth.relations()
        reached = self._reached(way)
        follower: IslFollower = way.follower
        with budgeted(self.truth.budget) as isl:
            real = self._real(isl, follower, reached.elements or {})
            claimed = follower.union(self.accesses)
            if self.is_far:
                real, claimed = self._bounded(isl, follower, real, claimed)
            # Relations along different routes lead to different devices and are compared
            # separately.
            for steps in dict.fromkeys((*real, *claimed)):
                example = self._differs(isl, follower, real.get(steps), claimed.get(steps), reached)
                if example is not None:
                    return example
        return None

    def _real(self, isl: Any, follower: IslFollower, real: Relations) -> Relations:
        """Return the reference relations `real` in the index order and direction of the maps."""
        here, there = self.placed
        if here is not None:
            start = follower.relation(here, OWN_NAMES).reverse()
            real = {steps: start.apply_range(r) for steps, r in real.items()}
        if there is not None:
            real = follower.through(real, Access(there), OWN_NAMES) or {}
        if not self.inverse:
            return real
        return {steps: follower.reversed(r, len(steps)) for steps, r in real.items()}

    def _bounded(
        self, isl: Any, follower: IslFollower, real: Relations, claimed: Relations
    ) -> tuple[Relations, Relations]:
        """Return both relations restricted to indices inside the output and the operand.

        Intervals of maps cannot bound sizes beyond 64 bits.

        Args:
            isl: The module of isl.
            follower: The follower that computed the relations.
            real: The reference relation.
            claimed: The relation of the maps.
        """
        types = self.truth.here, self.operand_type
        ends = []
        for type, place in zip(types, self.placed, strict=True):
            shape = sizes_of(type)
            names = [f"i{k}" for k in range(len(shape))]
            bounds = [f"0 <= {n} < {size}" for n, size in zip(names, shape, strict=True)]
            text = f"{{ [{', '.join(names)}] : {' and '.join(bounds) or '0 = 0'} }}"
            # isl's text has integers of any size, unlike the intervals of a map.
            box = isl.Set.read_from_str(isl_context(), text)
            ends.append(box if place is None else box.apply(follower.relation(place, OWN_NAMES)))
        start, end = reversed(ends) if self.inverse else ends

        def bounded(relation: Any) -> Any:
            """Return a relation restricted to indices in the tensors.

            Device positions, after the indices, have no bounds here.
            """
            more = relation.dim(isl.dim_type.out) - end.dim(isl.dim_type.set)
            devices = isl.Set.universe(isl.Space.set_alloc(isl_context(), 0, more))
            return relation.intersect_domain(start).intersect_range(end.flat_product(devices))

        real = {steps: bounded(r) for steps, r in real.items()}
        claimed = {steps: bounded(r) for steps, r in claimed.items()}
        return real, claimed

    def _differs(
        self, isl: Any, follower: IslFollower, real: Any, claimed: Any, reached: Reached[Any]
    ) -> CounterExample | None:
        """Return a pair that only one of two isl relations has; `None` if there is none.

        Args:
            isl: The module of isl.
            follower: The follower that computed the relations.
            real: The reference relation; `None` if it is empty.
            claimed: The relation of the maps; `None` if it is empty.
            reached: What the traversal reached; it may say that the reference is too large.

        Raises:
            UndecidedError: The reference may have pairs that the program does not have, and one of
                them differs.
        """
        # An absent side is the empty relation of the same space.
        real = claimed.subtract(claimed) if real is None else real
        claimed = real.subtract(real) if claimed is None else claimed
        missing = real.subtract(claimed)
        sides = [(1, missing)] if self.is_over else [(1, missing), (0, claimed.subtract(real))]
        for only_in, difference in sides:
            # Runtime values are parameters of isl; only differences for values they can have
            # count.
            difference = follower.parameters.possible(isl, difference)
            if difference.is_empty():
                continue
            if only_in == 1 and reached.over:
                raise UndecidedError(f"on the way more may be touched than needed: {reached.over}")
            point = difference.wrap().sample_point()
            kind = isl.dim_type.set
            dims = difference.dim(isl.dim_type.in_)
            count = dims + difference.dim(isl.dim_type.out)
            pair = [int(str(point.get_coordinate_val(kind, i))) for i in range(count)]
            return CounterExample(tuple(pair[:dims]), tuple(pair[dims:]), only_in=only_in)
        return None

    # ------------------------------------------------------------------------------------ points

    def everywhere_json(self) -> Any:
        """Return the result of the comparison at all elements, by `at_points`, as JSON data."""
        return self.at_points(everywhere=True).to_json()

    def at_points(self, *, everywhere: bool = False) -> ComparisonResult:
        """Compare the maps with the reference relations at a sample of the output's elements.

        With `everywhere`, they are compared at all elements.

        Raises:
            UndecidedError: The traversal cannot go on, or sizes exceed 64 bits.
        """
        if self.is_far and self.placed != (None, None):
            raise UndecidedError("sizes beyond 64 bits")
        way = self.truth.all_points() if everywhere else self.truth.points()
        reached = self._reached(way)
        real: Rows = reached.elements or {}
        assert way.chosen is not None
        assert way.values is not None
        follower: ElementFollower = way.follower
        here, there = self.placed
        chosen = _moved(here, way.chosen)
        real = {steps: _moved_rows(there, rows) for steps, rows in real.items()}
        if self.inverse:
            example = self._back(way, chosen, real)
        else:
            claimed = follower.union(self.accesses, follower.start(chosen))
            example = self._first(chosen, real, claimed, reached)
        # Drawn runtime values are samples, and the inverse direction is only sampled.
        is_all = way.is_all and not way.values.drawn and not self.inverse
        count = len(chosen)
        means = f"enumerated {count}" if is_all else f"sampled {count}, seed {self.truth.seed}"
        return ComparisonResult(means, is_all, example)

    def _first(
        self, chosen: Ints, real: Rows, claimed: Rows, reached: Reached[Any]
    ) -> CounterExample | None:
        """Return the first pair, from chosen output indices, that only one relation has, or `None`.

        Args:
            chosen: The output indices.
            real: The pairs of the reference relation.
            claimed: The pairs of the maps.
            reached: What the traversal reached; it may say that the reference is too large.

        Raises:
            UndecidedError: The reference may have pairs that the program does not have, and one of
                them differs.
        """
        row = first_difference(real, claimed)
        only_in = 1
        if row is not None and reached.over:
            raise UndecidedError(f"on the way more may be touched than needed: {reached.over}")
        if row is None and not self.is_over:
            row, only_in = first_difference(claimed, real), 0
        if row is None:
            return None
        dims = tuple(chosen[row[0]].tolist())
        return CounterExample(dims, row[1:], only_in=only_in)

    def _back(
        self, reference: ReferenceRelations, chosen: Ints, real: Rows
    ) -> CounterExample | None:
        """Compare maps that lead from the operand to the output, at sampled elements.

        `chosen` are output indices and `real` the operand elements that they reach in the
        reference.

        Returns:
            A pair that only one of both relations has; `None` if none is found.
        """
        reached = reference.found.get(self.place, Reached(None))
        place = self.placed[1]
        width = 1 + len(place.results if place and place.results else sizes_of(self.operand_type))
        for steps, rows in real.items():
            rows = rows[:ROWS].astype(np.int64)
            rows = rows[np.random.default_rng(self.truth.seed).permutation(len(rows))[:1024]]
            touched = rows[:, 1:width]
            claimed = reference.follower.union(self.accesses, reference.follower.start(touched))
            numbers = np.arange(len(rows), dtype=np.int64)[:, None]
            pairs = np.concatenate([numbers, chosen[rows[:, 0]], rows[:, width:]], axis=1)
            row = first_difference({steps: pairs}, claimed)
            if row is not None:
                if reached.over:
                    raise UndecidedError(f"on the way more may be touched: {reached.over}")
                return CounterExample(tuple(touched[row[0]].tolist()), row[1:], only_in=1)
        if self.is_over or any(placed is not None for placed in self.placed):
            return None
        # The other direction: the maps from some operand elements give output elements, and the
        # program is traversed from these back to the operand.
        starts = some_points(sizes_of(self.operand_type), 8, self.truth.seed)
        width = 1 + len(sizes_of(self.truth.here))
        for steps, ends in reference.follower.union(
            self.accesses, reference.follower.start(starts)
        ).items():
            ends = ends[np.random.default_rng(self.truth.seed).permutation(len(ends))[:32]]
            again = self.truth.walk(reference.follower, reference.follower.start(ends[:, 1:width]))
            found: Rows = again.get(self.place, Reached(None)).elements or {}
            numbers = np.arange(len(ends), dtype=np.int64)[:, None]
            pairs = np.concatenate([numbers, starts[ends[:, 0]], ends[:, width:]], axis=1)
            row = first_difference({steps: pairs}, found)
            if row is not None:
                return CounterExample(row[1:], tuple(ends[row[0], 1:].tolist()), only_in=0)
        return None


def _is_far(type: Type, order: Order) -> bool:
    """Does the largest size of a tensor, or in linear order its element count, exceed 64 bits?"""
    shape = sizes_of(type)
    return (prod(shape) if order == "linear" else max(shape, default=0)) > POS_INF


def placing(type: Type, order: Order) -> IndexingMap | None:
    """Return the map from logical indices to indices in an order; `None` for logical order.

    Raises:
        UnsupportedError: The type is not a tensor.
        UndecidedError: Positions exceed 64 bits.
    """
    if order == "logical":
        return None
    if not isinstance(type, TensorType):
        raise UnsupportedError("only tensors have places in memory")
    if order == "linear":
        if prod(padded_physical_sizes(type)) > POS_INF:
            raise UndecidedError("a position in memory does not fit into 64 bits")
        return address_map(type)
    order_of = major_to_minor(type)
    return IndexingMap.of_sizes(sizes_of(type), (), [Dim(k) for k in order_of])


def _moved(place: IndexingMap | None, points: Ints) -> Ints:
    """Return indices in another order, from logical indices.

    `place` is the map that `placing` returns; without it the indices are unchanged. Shape `[n,
    rank]`.
    """
    if place is None or not place.results:
        return points  # a scalar has no other places
    columns = place.evaluate_array(list(points.T))
    return np.stack([np.broadcast_to(c, len(points)) for c in columns], axis=1)


def _moved_rows(place: IndexingMap | None, rows: Ints) -> Ints:
    """Return the elements of a state with indices in another order in place of the logical ones.

    Each row of `rows` has the number of a start point, the index, and positions in groups; only the
    index changes. `place` is the map that `placing` returns; without it nothing changes.
    """
    if place is None:
        return rows
    end = 1 + len(place.dims)
    moved = [rows[:, :1], _moved(place, rows[:, 1:end]), rows[:, end:]]
    return np.concatenate(moved, axis=1)
