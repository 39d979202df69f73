"""Fields of an indexing map in canonical form; `map.IndexingMap` adds the operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from hloscope import simplifier
from hloscope.affine import (
    NEG_INF,
    POS_INF,
    ZERO,
    Const,
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Var,
    bounds,
    first_dims,
    to_text,
    variables,
)
from hloscope.errors import TooLargeError
from hloscope.indexing.variables import (
    Constraint,
    RuntimeVariable,
    V,
    Variable,
    in_a_circle,
    printed_names,
    replace_interval,
)

if TYPE_CHECKING:
    from hloscope.simplifier import Domain

NEVER: Final[tuple[Constraint, ...]] = ((ZERO, Interval.EMPTY),)
"""The constraints of a map that is known to be empty."""

_Dims = tuple[Variable, ...]
_Runtime = tuple[RuntimeVariable, ...]
_set: Final = object.__setattr__


class MapBase:
    """Variables, results and constraints of a map. Immutable; compares by structure.

    The constructor brings the fields into canonical form. A constraint on a bare variable becomes
    its bounds, and one on a constant is decided. Several constraints on one expression are
    intersected. The others are sorted in the order of expressions. An empty interval makes the
    whole map known to be empty.

    Attributes:
        dims: Dimension variables, `Dim(i)` by position: the index that the map starts from.
        ranges: Range variables, `Range(i)`: they take every value of their intervals.
        runtime: Runtime variables, `Runtime(i)`: integers read from tensors at run time.
        results: The index reached, one expression per dimension of the other tensor.
        constraints: `(expression, interval)` pairs that all hold.
        is_undefined: Whether this is the map about which nothing is known.
    """

    __slots__ = (
        "_box",
        "_domain",
        "_hash",
        "_is_simplified",
        "_result_bounds",
        "_simple",
        "_text",
        "constraints",
        "dims",
        "is_undefined",
        "ranges",
        "results",
        "runtime",
    )

    dims: tuple[Variable, ...]
    ranges: tuple[Variable, ...]
    runtime: tuple[RuntimeVariable, ...]
    results: tuple[Expr, ...]
    constraints: tuple[Constraint, ...]
    is_undefined: bool
    _box: dict[Var, Interval] | None
    _domain: Domain | None
    _hash: int | None
    _result_bounds: tuple[Interval, ...] | None
    _is_simplified: bool
    _simple: MapBase | None
    _text: str

    def __init__(
        self,
        dims: Sequence[Variable] = (),
        ranges: Sequence[Variable] = (),
        runtime: Sequence[RuntimeVariable] = (),
        results: Sequence[Expr | int] = (),
        constraints: Iterable[Constraint] = (),
        *,
        is_undefined: bool = False,
    ) -> None:
        dims, ranges, runtime = tuple(dims), tuple(ranges), tuple(runtime)
        exprs = tuple([Const(r) if isinstance(r, int) else r for r in results])
        constraints = tuple(constraints)
        if constraints:
            dims, ranges, runtime, constraints = _canonical(dims, ranges, runtime, constraints)
        # All empty maps of one shape get the same fields, so that they are equal.
        if constraints == NEVER or _is_empty((*dims, *ranges, *runtime)):
            dims = (Variable(Interval.EMPTY),) * len(dims)
            ranges = (Variable(Interval.EMPTY),) * len(ranges)
            runtime = (RuntimeVariable(Interval.EMPTY),) * len(runtime)
            exprs, constraints = (ZERO,) * len(exprs), NEVER
        _set(self, "dims", dims)
        _set(self, "ranges", ranges)
        _set(self, "runtime", runtime)
        _set(self, "results", exprs)
        _set(self, "constraints", constraints)
        _set(self, "is_undefined", is_undefined)
        _set(self, "_is_simplified", False)
        _set(self, "_box", None)
        _set(self, "_domain", None)  # reading an unset slot would raise an exception
        _set(self, "_hash", None)
        _set(self, "_result_bounds", None)
        _set(self, "_simple", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to `{name}`: a map is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete `{name}`: a map is immutable")

    def _key(self) -> tuple[Any, ...]:
        return (
            self.results,
            self.dims,
            self.ranges,
            self.runtime,
            self.constraints,
            self.is_undefined,
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, MapBase):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        value = self._hash
        if value is None:
            kinds = self.results, self.dims, self.ranges, self.runtime
            value = hash((*kinds, self.constraints)) if self.constraints else hash(kinds)
            _set(self, "_hash", value)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        fields = self.dims, self.ranges, self.runtime, self.results, self.constraints
        return _rebuild, (type(self), fields, self.is_undefined)

    def with_(
        self,
        *,
        dims: Sequence[Variable] | None = None,
        ranges: Sequence[Variable] | None = None,
        runtime: Sequence[RuntimeVariable] | None = None,
        results: Sequence[Expr | int] | None = None,
        constraints: Iterable[Constraint] | None = None,
    ) -> Self:
        """Return the map with the given fields replaced, in canonical form.

        Fields that are `None` stay.
        """
        return type(self)(
            self.dims if dims is None else dims,
            self.ranges if ranges is None else ranges,
            self.runtime if runtime is None else runtime,
            self.results if results is None else results,
            self.constraints if constraints is None else constraints,
            is_undefined=self.is_undefined,
        )

    @property
    def result_bounds(self) -> tuple[Interval, ...]:
        """For each result an interval that contains its values over the box of the variables.

        Constraints are ignored, so the interval may be too large.
        """
        found = self._result_bounds
        if found is None:
            box = self.box  # most results are variables
            found = tuple([box.get(e) or bounds(e, box) for e in self.results])  # type: ignore[arg-type]
            _set(self, "_result_bounds", found)
        return found

    @property
    def is_known_empty(self) -> bool:
        """Is the domain known to be empty? `simplify` detects more empty domains."""
        return self.constraints == NEVER

    @property
    def is_identity(self) -> bool:
        """Does the map send every index in its bounds to itself, without constraints?"""
        return (
            self.results == first_dims(len(self.dims))
            and not self.constraints
            and not any([v.is_condition for v in self.runtime])
            and not self.is_undefined
        )

    @property
    def has_domain(self) -> bool:
        """Return whether some variable is bounded or constrained.

        The variables of a symbolic map, `(d0) -> (d0 / 2)`, are not.
        """
        every = Interval.EVERYTHING
        if self.constraints or any([v.is_condition for v in self.runtime]):
            return True
        return any([i is not every and i != every for i in self.box.values()])

    @property
    def box(self) -> dict[Var, Interval]:
        """The interval of each variable.

        The dictionary is shared between maps and must not be changed.
        """
        box = self._box
        if box is None:
            # Computed once per map: most operations on a map read the box.
            box = _box(self.dims, self.ranges, self.runtime)
            _set(self, "_box", box)
        return box

    @property
    def domain(self) -> Domain:
        """The box and the constraints as a domain of the simplifier, with its memo tables."""
        domain = self._domain
        if domain is None:
            domain = simplifier.Domain(self.box, self.constraints)
            _set(self, "_domain", domain)
        return domain

    @property
    def is_simplified(self) -> bool:
        """Is it known that `simplify` does not change the map?"""
        return self._is_simplified

    def mark_simplified(self) -> None:
        """Record that `simplify` does not change the map."""
        _set(self, "_is_simplified", True)

    @property
    def simple(self) -> MapBase | None:
        """The result of `simplify` if it was computed and differs from this map; else `None`."""
        return self._simple

    def store_simplified(self, simplified: MapBase) -> None:
        """Store the result of `simplify`, which `simple` then returns."""
        _set(self, "_simple", simplified)

    @property
    def names(self) -> Mapping[Var, str]:
        """The printed name of each variable."""
        return printed_names(self.dims, self.ranges, self.runtime)

    def expressions(self) -> Iterable[Expr]:
        """Yield every expression of the map: results, constraints, indices of runtime variables."""
        yield from self.results
        for expr, _ in self.constraints:
            yield expr
        for variable in self.runtime:
            yield from variable.arguments

    def verify(self) -> list[str]:
        """Return messages about errors in the map; empty if there are none.

        Maps from `parse` and the operations have no errors. A map built by hand may use a variable
        that it does not have, or runtime variables whose indices depend on each other.
        """
        messages = []
        for expr in dict.fromkeys(self.expressions()):
            unknown = sorted(to_text(v) for v in variables(expr) if v not in self.box)
            if unknown:
                messages.append(f"`{to_text(expr)}` uses undeclared {', '.join(unknown)}")
        if numbers := in_a_circle([v.arguments for v in self.runtime]):
            circle = ", ".join(f"rt{i}" for i in numbers)
            messages.append(f"the indices of {circle} depend on each other in a circle")
        return messages


M = TypeVar("M", bound=MapBase)


def _rebuild(cls: type[M], fields: tuple[Any, ...], is_undefined: bool) -> M:
    return cls(*fields, is_undefined=is_undefined)


def _is_empty(variables: Iterable[Variable | RuntimeVariable]) -> bool:
    """Does one of the variables have an empty interval?"""
    return any([v.interval.lo > v.interval.hi for v in variables])


def _box(dims: _Dims, ranges: _Dims, runtime: _Runtime) -> dict[Var, Interval]:
    box: dict[Var, Interval] = dict(
        zip(first_dims(len(dims)), [v.interval for v in dims], strict=True)
    )
    if ranges:
        box |= {Range(i): v.interval for i, v in enumerate(ranges)}
    return box | {Runtime(i): v.interval for i, v in enumerate(runtime)} if runtime else box


_VARIABLES: Final = frozenset((Dim, Range, Runtime))


def _canonical(
    dims: _Dims, ranges: _Dims, runtime: _Runtime, constraints: tuple[Constraint, ...]
) -> tuple[_Dims, _Dims, _Runtime, tuple[Constraint, ...]]:
    """Return the variables of a map and its constraints in canonical form; see `MapBase`.

    Raises:
        TooLargeError: A bound does not fit into 64 bits.
    """
    kept: dict[Expr, Interval] = {}
    bounds: dict[Var, Interval] = {}
    for expr, interval in constraints:
        kind = type(expr)
        if kind is Const:
            if not interval.lo <= expr.value <= interval.hi:  # type: ignore[union-attr]
                return dims, ranges, runtime, NEVER
            continue
        count = len(dims if kind is Dim else ranges if kind is Range else runtime)
        # A variable that the map does not have stays a constraint, which `verify` reports.
        is_bound = kind in _VARIABLES and expr.index < count  # type: ignore[union-attr]
        table: dict[Any, Interval] = bounds if is_bound else kept
        if interval.lo < NEG_INF or interval.hi > POS_INF:
            said = f"the bounds {interval} of `{to_text(expr)}` do not fit into 64 bits"
            raise TooLargeError(said)
        if expr in table:
            interval = table[expr] & interval
        if interval.lo > interval.hi:
            return dims, ranges, runtime, NEVER
        table[expr] = interval
    if bounds:
        dims = _narrowed(dims, Dim, bounds)
        ranges = _narrowed(ranges, Range, bounds)
        runtime = _narrowed(runtime, Runtime, bounds)
    rest = [(e, i) for e, i in kept.items() if i != Interval.EVERYTHING]
    if len(rest) > 1:
        rest.sort(key=itemgetter(0))
    return dims, ranges, runtime, tuple(rest)


def _narrowed(old: tuple[V, ...], kind: type[Var], bounds: dict[Var, Interval]) -> tuple[V, ...]:
    """Return the variables `old`, with their intervals intersected with those in `bounds`.

    `kind` is the class of the variables in `bounds`, which also has variables of other classes.
    """
    new = list(old)
    for at, interval in bounds.items():
        if type(at) is kind:
            new[at.index] = replace_interval(v := old[at.index], v.interval & interval)
    return tuple(new)
