"""Random maps that read tensors at run time, and their relations for tables that are known."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from itertools import product
from random import Random
from typing import TypeAlias

from hloscope.affine import Dim, Expr, Interval, Range, Runtime, Var, evaluate, variables
from hloscope.hlo_parser.types import parse_type
from hloscope.indexing import IndexingMap, RuntimeVariable, Variable
from hloscope.indexing.variables import replace_interval
from hloscope.ir.graph import Instruction
from hloscope.ops.control import Parameter
from hloscope.simplifier.verdicts import CounterExample

Tables: TypeAlias = Callable[[Hashable, tuple[int, ...]], int]
"""What is read of a tensor at an index, before it is clamped."""
Pairs: TypeAlias = set[tuple[tuple[int, ...], tuple[int, ...]]]


@cache
def origins() -> tuple[Instruction, ...]:
    """Tensors to read: two vectors, a matrix and one whose elements are 0 or 1."""
    types = {"i": "s32[4]", "j": "s32[4]", "k": "s64[4,4]", "p": "pred[4]"}
    return tuple(
        Instruction(name, parse_type(text), Parameter(at))
        for at, (name, text) in enumerate(types.items())
    )


def random_tables(rng: Random) -> Tables:
    """Tables of few values, many of them equal; what they hold is drawn when it is read."""
    known: dict[tuple[Hashable, tuple[int, ...]], int] = {}
    span = rng.choice([(0, 0), (0, 1), (0, 3), (-2, 6), (-40, 40)])
    fixed = rng.randint(*span) if rng.random() < 0.2 else None

    def read(origin: Hashable, index: tuple[int, ...]) -> int:
        if (origin, index) not in known:
            value = rng.randint(*span) if fixed is None else fixed
            is_truth = isinstance(origin, Instruction) and origin.name == "p"
            known[origin, index] = value % 2 if is_truth else value
        return known[origin, index]

    return read


def tables_of(example: CounterExample, rng: Random) -> Tables:
    """The tables of a counter-example; what it doesn't list is random."""
    rest = random_tables(rng)
    held = {table.origin: table for table in example.tables}

    def read(origin: Hashable, index: tuple[int, ...]) -> int:
        table = held.get(origin)
        listed = dict(table.entries) if table else {}
        if index in listed:
            return listed[index]
        if table is not None and table.formula is not None:
            at: dict[Var, int] = {Dim(i): value for i, value in enumerate(index)}
            return evaluate(table.formula, at)
        return rest(origin, index)

    return read


def pairs(m: IndexingMap, tables: Tables) -> Pairs:
    """The relation of a map, one point after the other."""
    if m.is_known_empty:
        return set()
    sides = [range(v.interval.lo, v.interval.hi + 1) for v in (*m.dims, *m.ranges)]
    found: Pairs = set()
    for point in product(*sides):
        at: dict[Var, int] = {Dim(i): point[i] for i in range(len(m.dims))}
        at |= {Range(i): point[len(m.dims) + i] for i in range(len(m.ranges))}
        read(m, at, tables)
        inside = all(at[Runtime(i)] in v.interval for i, v in enumerate(m.runtime))
        if inside and all(evaluate(e, at) in interval for e, interval in m.constraints):
            index = point[: len(m.dims)]
            found.add((index, tuple([evaluate(e, at) for e in m.results])))
    return found


def read(m: IndexingMap, at: dict[Var, int], tables: Tables) -> None:
    """Add the values of the runtime variables, those that others are read at first."""
    left = dict(enumerate(m.runtime))
    while left:
        for i, v in [*left.items()]:
            if variables(*v.index) <= at.keys():
                index = tuple([evaluate(e, at) for e in v.index])
                value = tables(v.name or i if v.origin is None else v.origin, index)
                at[Runtime(i)] = min(max(value, v.values.lo), v.values.hi)
                del left[i]


def random_map(
    rng: Random, *, num_dims: int, num_results: int, dims: Mapping[int, Interval] | None = None
) -> IndexingMap:
    """A map of few points with up to three runtime variables."""
    box = [Variable((dims or {}).get(i) or _interval(rng, 3)) for i in range(num_dims)]
    ranges = [Variable(_interval(rng, 3)) for _ in range(rng.randint(0, 2))]
    known: list[Var] = [Dim(i) for i in range(num_dims)] + [Range(i) for i in range(len(ranges))]
    runtime: list[RuntimeVariable] = []
    for i in range(rng.choice([1, 1, 1, 2, 2, 3])):
        origin = rng.choice(origins())
        rank = 2 if origin.name == "k" else 1
        index = tuple([_expr(rng, known, small=True) for _ in range(rank)])
        v = RuntimeVariable(_interval(rng, 4), "", origin, index)
        if rng.random() < 0.2:
            v = replace_interval(v, Interval(v.interval.lo, v.interval.lo + rng.randint(0, 1)))
        runtime.append(v)
        known.append(Runtime(i))
    rng.shuffle(known)
    results = [_expr(rng, known) for _ in range(num_results)]
    constraints = []
    if rng.random() < 0.3:
        lo = rng.randint(-2, 2)
        constraints.append((_expr(rng, known), Interval(lo, lo + rng.randint(0, 4))))
    return IndexingMap(box, ranges, runtime, results, constraints)


def _interval(rng: Random, size: int) -> Interval:
    lo = rng.choice([0, 0, 0, -1, 1])
    return Interval(lo, lo + rng.randint(0, size - 1))


def _expr(rng: Random, known: list[Var], *, small: bool = False) -> Expr:
    """Mostly a variable; else a constant or a short quasi-affine expression."""
    if not known or rng.random() < 0.15:
        return Dim(0) * 0 + rng.randint(0, 3)
    x, y = rng.choice(known), rng.choice(known)
    forms: list[Callable[[], Expr]] = [
        lambda: x + rng.randint(-1, 2),
        lambda: x + y,
        lambda: x - y,
        lambda: x * 2 + y,
        lambda: (x + y) % 2,
        lambda: (x * 3 + y) // 2,
    ]
    return x if rng.random() < (0.7 if small else 0.5) else rng.choice(forms)()


def variants(rng: Random, m: IndexingMap) -> Iterator[IndexingMap]:
    """Maps that are nearly the same, or the same in another form."""
    yield m.simplify()
    yield m.remove_unused_symbols()
    if m.ranges:
        new: dict[Var, Expr] = {Range(i): -Range(i) for i in range(len(m.ranges))}
        from hloscope.indexing.transform import replaced

        ranges = [Variable(Interval(-v.interval.hi, -v.interval.lo)) for v in m.ranges]
        yield replaced(m, new, dims=m.dims, ranges=ranges, runtime=m.runtime)
    if m.results:
        k = rng.randrange(len(m.results))
        e = rng.choice([*m.results, m.results[k] + 1, m.results[k] * 0, m.results[k] % 3])
        yield m.with_(results=[*m.results[:k], e, *m.results[k + 1 :]])
    if m.runtime:
        k = rng.randrange(len(m.runtime))
        v = m.runtime[k]
        known: list[Var] = [x for x in m.box if not isinstance(x, Runtime)]
        index = [_expr(rng, known, small=True) for _ in v.index]
        changed = RuntimeVariable(v.interval, v.name, v.origin, tuple(index), v.clamp)
        yield m.with_(runtime=[*m.runtime[:k], changed, *m.runtime[k + 1 :]])
