"""Proofs about relations between integer tuples, by isl.

A `System` is a relation `{ dims -> results : some ranges in the box satisfy the constraints }`.
Each function returns a `Proof`: proved, refuted with a counter-example, or undecided with the
reason. isl counts its steps and gives up at the budget, so that every call ends.

Runtime variables are parameters of the relation. Two systems of one call share a parameter if their
keys are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from enum import StrEnum
from time import perf_counter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import NEG_INF, POS_INF, Expr, Interval
from hloscope.simplifier.isl_relations import (
    BUDGET,
    Builder,
    Parameters,
    System,
    UndecidedError,
    budgeted,
    isl_context,
    shape_of,
    union_of,
)


class Verdict(StrEnum):
    """Outcome of a proof: the statement is true, it is false, or isl did not decide."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


class Table(Struct, frozen=True):
    """Contents of a tensor in a counter-example.

    Attributes:
        name: Name of the tensor.
        origin: The tensor, or a key that identifies it.
        entries: Pairs of an index and its value.
        formula: Value of the elements that are not listed, over `Dim(i)`, their index; `None` if
            they are arbitrary.
        rank: Number of dimensions.

    >>> print(Table("i", None, (((2, 0), 5),), rank=2))
    i[2, 0] = 5
    """

    name: str
    origin: Hashable
    entries: tuple[tuple[tuple[int, ...], int], ...] = ()
    formula: Expr | None = None
    rank: int = 0

    def __str__(self) -> str:
        said = [f"{self.name}{_index(at)} = {value}" for at, value in self.entries]
        if self.formula is not None and (self.rank or not said):
            index = [f"d{i}" for i in range(self.rank)]
            said.append(f"{self.name}{_index(index)} = {self.formula}")
        return ", ".join(said)


def _index(at: Sequence[object]) -> str:
    return f"[{', '.join(map(str, at))}]" if at else ""


class CounterExample(Struct, frozen=True):
    """A pair `dims -> results` that refutes a statement.

    It is, for example, in only one of two relations.

    Attributes:
        dims: The index on the left of the relation.
        results: The index on the right.
        runtime: Values of runtime variables, by key.
        only_in: The relation that has the pair: 0 is the first, 1 the second.
        tables: Contents of the tensors that are read at run time.
    """

    dims: tuple[int, ...]
    results: tuple[int, ...]
    runtime: tuple[tuple[Hashable, int], ...] = ()
    only_in: int = 0
    tables: tuple[Table, ...] = ()

    def __str__(self) -> str:
        where = ("first", "second")[self.only_in]
        return f"{self.pair} only in the {where}{self.reading}"

    @property
    def pair(self) -> str:
        """Text `(dims) -> (results)` of the pair."""
        return f"{as_tuple(self.dims)} -> {as_tuple(self.results)}"

    @property
    def reading(self) -> str:
        """Text ` where …` with the contents of the tables; empty if there are none."""
        return f" where {', '.join(map(str, self.tables))}" if self.tables else ""


def as_tuple(values: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, values))})"


class Proof(Struct, frozen=True):
    """Result of a proof, with a counter-example or the reason why it is undecided.

    Attributes:
        verdict: Proved, refuted or undecided.
        counter_example: A pair that refutes the statement.
        reason: Why it is undecided, or what is wrong.
        seconds: Elapsed wall time.
    """

    verdict: Verdict
    counter_example: CounterExample | None = None
    reason: str = ""
    seconds: float = 0.0

    def __eq__(self, other: object) -> bool:
        if type(other) is not Proof:
            return NotImplemented
        return (
            self.verdict == other.verdict
            and self.counter_example == other.counter_example
            and self.reason == other.reason
        )

    def __hash__(self) -> int:
        return hash((self.verdict, self.counter_example, self.reason))

    def __repr__(self) -> str:
        why = self.counter_example or self.reason
        return f"<Proof {self.verdict}{f': {why}' if why else ''}>"

    @property
    def is_proved(self) -> bool:
        return self.verdict is Verdict.PROVED

    @property
    def is_refuted(self) -> bool:
        return self.verdict is Verdict.REFUTED


PROVED: Final = Proof(Verdict.PROVED)


def _prove(question: Callable[[Any], Proof], budget: int) -> Proof:
    start = perf_counter()
    try:
        with budgeted(budget) as isl:
            proof = question(isl)
    except UndecidedError as error:
        proof = Proof(Verdict.UNDECIDED, reason=str(error))
    return replace(proof, seconds=perf_counter() - start)


def prove_subset(
    first: Sequence[System], second: Sequence[System], *, budget: int = BUDGET
) -> Proof:
    """Prove that every pair of the first union of relations is in the second.

    The proof is for all values of runtime variables.
    """
    return _compare(first, second, budget, both=False)


def prove_equal(
    first: Sequence[System], second: Sequence[System], *, budget: int = BUDGET
) -> Proof:
    """Prove that two unions of relations have the same pairs, for all values of runtime variables.

    >>> from hloscope.affine import Dim
    >>> d0, box = Dim(0), {Dim(0): Interval(0, 9)}
    >>> halves = System(1, 0, box, (), [d0 // 2])
    >>> prove_equal([halves], [System(1, 0, box, (), [(d0 * 2 + 1) // 4])]).verdict
    <Verdict.PROVED: 'proved'>
    >>> print(prove_equal([halves], [System(1, 0, box, (), [d0 // 3])]).counter_example)
    (2) -> (1) only in the first
    """
    return _compare(first, second, budget, both=True)


def _compare(
    first: Sequence[System], second: Sequence[System], budget: int, *, both: bool
) -> Proof:
    parameters = Parameters.of(*first, *second)

    def question(isl: Any) -> Proof:
        shape = shape_of(*first, *second)
        a, b = union_of(isl, first, parameters, shape), union_of(isl, second, parameters, shape)
        return _compare_relations(isl, a, b, parameters, shape[0], both=both)

    return _prove(question, budget)


def _compare_relations(
    isl: Any, a: Any, b: Any, parameters: Parameters, num_dims: int, *, both: bool = True
) -> Proof:
    """Prove that two `islpy.Map`s have the same pairs.

    Unless `both`, only that `b` has all of `a`'s.
    """
    differences = (a.subtract(b), b.subtract(a)) if both else (a.subtract(b),)
    for number, difference in enumerate(differences):
        if not difference.is_empty():
            return Proof(Verdict.REFUTED, _sample(isl, difference, parameters, num_dims, number))
    return PROVED


def _sample(
    isl: Any, relation: Any, parameters: Parameters, num_dims: int, only_in: int = 0
) -> CounterExample:
    """Return a pair of a nonempty `islpy.Map` as a counter-example.

    Args:
        isl: The module `islpy`.
        relation: The map.
        parameters: Its isl parameters.
        num_dims: Number of coordinates on the left.
        only_in: The relation that has the pair; see `CounterExample`.
    """
    point = relation.wrap().sample_point()

    def coordinates(kind: Any) -> tuple[int, ...]:
        count = point.get_space().dim(kind)
        return tuple([int(str(point.get_coordinate_val(kind, i))) for i in range(count)])

    pair, values = coordinates(isl.dim_type.set), coordinates(isl.dim_type.param)
    runtime = tuple([(key, values[i]) for key, i in parameters.number.items()])
    return CounterExample(pair[:num_dims], pair[num_dims:], runtime, only_in)


def prove_empty(systems: Sequence[System], *, budget: int = BUDGET) -> Proof:
    """Prove that the relations have no pair; the counter-example is one of their pairs.

    >>> from hloscope.affine import Dim
    >>> d0, box = Dim(0), {Dim(0): Interval(0, 9)}
    >>> prove_empty([System(1, 0, box, [(d0 % 4, Interval(5, 9))], [d0])]).is_proved
    True
    """
    return prove_subset(systems, (), budget=budget)


def prove_within(system: System, expr: Expr, interval: Interval, *, budget: int = BUDGET) -> Proof:
    """Prove that the values of `expr` lie in the interval on the whole domain of the relation.

    The counter-example has the dimensions and ranges as `dims`, and the value as `results`.
    """
    parameters = Parameters.of(system)

    def question(isl: Any) -> Proof:
        builder = Builder(isl, isl_context(), system, parameters)
        points = builder.domain()
        outside = points.subtract(builder.restrict(points, expr, interval))
        if outside.is_empty():
            return PROVED
        relation = isl.Map.from_domain(outside).flat_range_product(builder.expr(expr).as_map())
        relation = relation.intersect_domain(outside)
        count = system.num_dims + system.num_ranges
        return Proof(Verdict.REFUTED, _sample(isl, relation, parameters, count))

    return _prove(question, budget)


def tight_bounds(system: System, expr: Expr, *, budget: int = BUDGET) -> Interval | None:
    """Return the smallest interval that contains all values of `expr` on the domain.

    The result is `None` if isl does not decide within the budget.

    >>> from hloscope.affine import Dim
    >>> d0, box = Dim(0), {Dim(0): Interval(0, 9)}
    >>> tight_bounds(System(1, 0, box, [(d0 % 4, Interval(3, 3))], []), d0)
    Interval(lo=3, hi=7)
    """
    try:
        with budgeted(budget) as isl:
            builder = Builder(isl, isl_context(), system, Parameters.of(system))
            points = builder.domain()
            if points.is_empty():
                return Interval.EMPTY
            values = builder.expr(expr).intersect_domain(points)
            low, high = values.min_val(), values.max_val()
            return Interval(
                int(str(low)) if low.is_int() else NEG_INF,
                int(str(high)) if high.is_int() else POS_INF,
            )
    except UndecidedError:
        return None


def prove_inverse(
    first: Sequence[System], second: Sequence[System], *, budget: int = BUDGET
) -> Proof:
    """Prove that the second union is the inverse of the first: the same pairs with sides exchanged.

    Raises:
        ValueError: The numbers of coordinates do not allow it.
    """
    if not first or not second:
        return prove_empty(first or second, budget=budget)
    parameters = Parameters.of(*first, *second)
    there, back = shape_of(*first), shape_of(*second)
    if there != back[::-1]:
        raise ValueError(
            f"{there[0]} -> {there[1]} cannot be the inverse of {back[0]} -> {back[1]}"
        )

    def question(isl: Any) -> Proof:
        a = union_of(isl, first, parameters, there)
        b = union_of(isl, second, parameters, back).reverse()
        return _compare_relations(isl, a, b, parameters, there[0])

    return _prove(question, budget)


def prove_composed(
    first: Sequence[System],
    second: Sequence[System],
    composed: Sequence[System],
    *,
    budget: int = BUDGET,
) -> Proof:
    """Prove that `composed` is the composition of `first` and then `second`.

    Valid only for relations without runtime variables whose index depends on dimensions.
    """
    if not first or not second:
        return prove_empty(composed, budget=budget)
    parameters = Parameters.of(*first, *second, *composed)
    inner, outer = shape_of(*first), shape_of(*second)
    whole = shape_of(*composed) if composed else (inner[0], outer[1])

    def question(isl: Any) -> Proof:
        a = union_of(isl, first, parameters, inner).apply_range(
            union_of(isl, second, parameters, outer)
        )
        b = union_of(isl, composed, parameters, whole)
        return _compare_relations(isl, a, b, parameters, whole[0])

    return _prove(question, budget)


def prove_injective(systems: Sequence[System], *, budget: int = BUDGET) -> Proof:
    """Prove that no two indices share a result.

    The counter-example has the two indices as `dims` and `results`; `reason` says so.

    >>> from hloscope.affine import Dim
    >>> box = {Dim(0): Interval(0, 9)}
    >>> prove_injective([System(1, 0, box, [(Dim(0) // 2, Interval(1, 1))], [])]).reason[:36]
    'two indices have a result in common:'
    """

    def question(isl: Any) -> Proof:
        return _one_to_one(isl, systems, reverse=False)

    return _prove(question, budget)


def prove_single_valued(systems: Sequence[System], *, budget: int = BUDGET) -> Proof:
    """Prove that every index has at most one result.

    The counter-example has two results of one index as `dims` and `results`; `reason` says so.
    """

    def question(isl: Any) -> Proof:
        return _one_to_one(isl, systems, reverse=True)

    return _prove(question, budget)


def _one_to_one(isl: Any, systems: Sequence[System], *, reverse: bool) -> Proof:
    """Prove that the relation is injective; with `reverse`, that it is single-valued."""
    if not systems:
        return PROVED
    parameters = Parameters.of(*systems)
    shape = shape_of(*systems)
    relation = union_of(isl, systems, parameters, shape)
    if reverse:
        relation, shape = relation.reverse(), shape[::-1]
    if relation.is_injective():
        return PROVED
    # `R` then its inverse relates all left sides that share a right side; only equal ones may be
    # related.
    pairs = relation.apply_range(relation.reverse())
    same = isl.Map.identity(pairs.get_space())
    example = _sample(isl, pairs.subtract(same), parameters, shape[0])
    both = f"{as_tuple(example.dims)}, {as_tuple(example.results)}"
    what = "an index has two results" if reverse else "two indices have a result in common"
    return Proof(Verdict.REFUTED, example, f"{what}: {both}")


def prove_onto(
    systems: Sequence[System], boxes: Sequence[Sequence[Interval]], *, budget: int = BUDGET
) -> Proof:
    """Prove that the domain of the relation is the box `boxes[0]`, and its range `boxes[1]`.

    The counter-example is an index without a result or outside of the box (empty `results`), or a
    result without an index or outside of the box (empty `dims`).
    """

    def question(isl: Any) -> Proof:
        parameters = Parameters.of(*systems)
        relation = union_of(isl, systems, parameters, shape_of(*systems))
        for number, box in enumerate(boxes):
            mine = relation.range() if number else relation.domain()
            # The box is built in the set's own space, so that the parameters agree.
            whole = isl.Set.universe(mine.get_space())
            for i, side in enumerate(box):
                for bound, restrict in ((side.lo, "lower_bound_val"), (side.hi, "upper_bound_val")):
                    value = isl.Val.read_from_str(isl_context(), str(bound))
                    whole = getattr(whole, restrict)(isl.dim_type.set, i, value)
            whole = parameters.possible(isl, whole)
            # Equal sets have no difference on either side; each side has its own message.
            for points, text in (
                (whole.subtract(mine), ("index {} has no result", "nothing leads to {}")),
                (mine.subtract(whole), ("index {} is outside", "result {} is outside")),
            ):
                if not points.is_empty():
                    at = _sample(isl, isl.Map.from_domain(points), parameters, len(box)).dims
                    pair = ((), at) if number else (at, ())
                    reason = text[number].format(as_tuple(at))
                    return Proof(Verdict.REFUTED, CounterExample(*pair), reason)
        return PROVED

    return _prove(question, budget)
