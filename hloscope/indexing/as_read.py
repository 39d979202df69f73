"""Maps as relations that carry what they read at run time, for proofs by isl.

A runtime variable that is read at an index which runs stands for many values: what a tensor holds
at each index.  To isl it would be one unknown constant, and the same variable of the inverse map,
read at an index over other variables, another one.  So each pair of indices here carries along
every element it reads: its index and its value.  Where two such relations are equal, the maps are,
whatever the tensors hold.  (The other way round need not be: two maps may read different elements
and mean the same.)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby, permutations, product
from math import factorial, prod
from typing import Final

from hloscope.affine import Expr, Interval, Range, Runtime, Var, variables
from hloscope.indexing.base import MapBase
from hloscope.indexing.variables import substituted, substituted_constraints
from hloscope.simplifier import isl
from hloscope.simplifier.isl_relations import System

MAX_ORDERS: Final = 120
"""Variables read from one tensor are told apart by isl in every order, up to so many."""

Key = tuple[Hashable, ...]
"""A tensor, the bounds its values are clamped to, and its rank."""


def reads_as_it_runs(m: MapBase) -> bool:
    """Has the map a runtime variable whose index depends on another variable?

    >>> from hloscope.indexing import IndexingMap, RuntimeVariable, Variable
    >>> from hloscope.affine import Dim, Interval
    >>> few = Interval(0, 3)
    >>> taken = RuntimeVariable(few, index=(Dim(0),))
    >>> reads_as_it_runs(IndexingMap([Variable(few)], (), [taken], [Runtime(0)]))
    True
    """
    return any(variables(*v.arguments) for v in m.runtime)


def prove_same_reads(
    first: Iterable[MapBase], second: Iterable[MapBase], *, inverse: bool, budget: int
) -> bool:
    """Are two unions equal (or inverse) with every element they read carried along?

    Only asked where some index runs; elsewhere the values are constants to isl, which is enough.
    """
    first, second = [*first], [*second]
    if not any(map(reads_as_it_runs, first + second)):
        return False
    number: dict[Key, int] = {}
    there = _grouped(first, number, inverse=False)
    back = _grouped(second, number, inverse=inverse)
    for key in dict.fromkeys((*there, *back)):
        sides = there.get(key, ()), back.get(key, ())
        if all(sides):
            proof = isl.prove_equal(*sides, budget=budget)
        else:
            proof = isl.prove_empty([*sides[0], *sides[1]], budget=budget)
        if not proof.is_proved:
            return False
    return True


def _grouped(
    maps: Iterable[MapBase], number: dict[Key, int], *, inverse: bool
) -> dict[tuple[int, ...], list[System]]:
    """The relations by the tensors they read."""
    found: dict[tuple[int, ...], list[System]] = {}
    for m in maps:
        keys = [_numbered(m, i, number) for i in range(len(m.runtime))]
        found.setdefault(tuple(sorted(keys)), []).extend(_systems(m, keys, inverse=inverse))
    return found


def _numbered(m: MapBase, i: int, number: dict[Key, int]) -> int:
    v = m.runtime[i]
    key: Key = ((i, v.name) if v.source is None else v.source, v.values, len(v.arguments))
    return number.setdefault(key, len(number))


def _systems(m: MapBase, keys: Sequence[int], *, inverse: bool) -> Iterator[System]:
    """One relation for each order of variables read from one tensor."""
    place: dict[Var, Expr] = {v: Range(i) for i, v in enumerate(m.box)}
    dims = [Range(i) for i in range(len(m.dims))]
    results = substituted(m.results, place)
    sides = (*results, *dims) if inverse else (*dims, *results)
    columns = [
        (place[Runtime(i)], *substituted(v.arguments, place)) for i, v in enumerate(m.runtime)
    ]
    box: dict[Var, Interval] = {Range(i): interval for i, interval in enumerate(m.box.values())}
    constraints = substituted_constraints(m.constraints, place)
    for order in _orders(keys):
        read = [e for i in order for e in columns[i]]
        yield System(0, len(box), box, constraints, [*sides, *read])


def _orders(keys: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All orders in which the keys are sorted, or one where there are too many."""
    by_key = sorted(range(len(keys)), key=keys.__getitem__)
    groups = [tuple(group) for _, group in groupby(by_key, key=keys.__getitem__)]
    if prod(factorial(len(group)) for group in groups) > MAX_ORDERS:
        yield tuple(by_key)
        return
    for parts in product(*(permutations(group) for group in groups)):
        yield tuple(i for part in parts for i in part)
