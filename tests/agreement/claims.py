"""Maps of programs as matrices, runtime variables at the values a run had.

The output is that of the first device; where the input is, the maps tell.

A variable whose value is not known, or that had several, runs over all it may have: the matrix then
contains what is touched, and is not definite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hloscope.affine import Dim, Range, Runtime, Var, evaluate_array, variables
from hloscope.affine.nodes import Expr
from hloscope.indexing import Access, IndexingMap, Precision
from hloscope.indexing.access import groups_of
from hloscope.indexing.variables import RuntimeVariable
from hloscope.ir.graph import Instruction

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Values = Mapping[Instruction, Sequence[Any]]

MOST_POINTS: Final = 200_000


@dataclass(slots=True)
class Claim:
    """What the accesses of one leaf say together.

    Attributes:
        touched: `[element asked about, device of the input, element touched]`.
        precision: The weakest that is claimed.
        is_definite: Were all values known that are read at run time?
    """

    touched: Bools
    precision: Precision = Precision.EXACT
    is_definite: bool = True

    @property
    def is_exact(self) -> bool:
        return self.precision is Precision.EXACT and self.is_definite


class WrongMapError(AssertionError):
    """A map that cannot be: of another rank, or it leaves its tensor."""


def claim(
    accesses: Iterable[Access],
    source: Sequence[int],
    target: Sequence[int],
    values: Values,
    devices: int = 1,
) -> Claim:
    """What accesses of a tensor of sizes `target` say, asked about one of sizes `source`."""
    found = Claim(np.zeros((prod(source), devices, prod(target)), dtype=bool))
    for access in accesses:
        found.precision = max(found.precision, access.precision)
        if access.map is None:
            found.touched[:] = True
        else:
            found.is_definite &= _add(access, source, target, values, found.touched)
        if access.precision is not Precision.EXACT and not access.reason:
            raise WrongMapError(f"not exact, and no reason: {access.map}")
    return found


def _add(
    access: Access, source: Sequence[int], target: Sequence[int], values: Values, touched: Bools
) -> bool:
    """Add what an access touches; are its variables known?"""
    m = access.map
    assert m is not None
    if m.is_known_empty or not touched.size:
        return True
    if len(m.dims) != len(source) or len(m.results) != len(target):
        raise WrongMapError(f"maps {len(source)} to {len(target)} dimensions: {m}")
    spans = [(v.interval.lo, v.interval.hi) for v in m.ranges]
    free, choices = [], []
    for variable in m.runtime:
        known = _known(variable, values)
        choices.append(known)
        if known is None or len(known) > 1:
            free.append(
                (variable.interval.lo, variable.interval.hi)
                if known is None
                else (0, len(known) - 1)
            )
    counts = [hi - lo + 1 for lo, hi in (*spans, *free)]
    if prod(source) * prod(counts) > MOST_POINTS:
        touched[:] = True
        return False
    dims = [c[:, None] for c in _grid(source)]
    columns = [c[None, :] + lo for c, (lo, _) in zip(_grid(counts), (*spans, *free), strict=True)]
    box: dict[Var, Ints] = {Dim(i): a for i, a in enumerate(dims)}
    box |= {Range(i): a for i, a in enumerate(columns[: len(spans)])}
    shape = (prod(source), prod(counts))
    runtime = _runtime(m, box, shape, choices, columns[len(spans) :])
    holds = np.broadcast_to(m.satisfies_array(dims, columns[: len(spans)], runtime), shape)
    where = np.zeros(shape, dtype=np.int64)
    results = m.evaluate_array(dims, columns[: len(spans)], runtime)
    for result, size in zip(results, target, strict=True):
        full = np.broadcast_to(result, shape)
        if (holds & ((full < 0) | (full >= size))).any():
            raise WrongMapError(f"leaves a dimension of size {size}: {m}")
        where = where * size + full
    rows, points = np.nonzero(holds)
    which = _devices(access, dims, columns[: len(spans)], runtime, shape)
    touched[rows, which[rows, points], where[rows, points]] = True
    return not free


def _devices(
    access: Access,
    dims: list[Ints],
    ranges: list[Ints],
    runtime: list[Ints],
    shape: tuple[int, int],
) -> Ints:
    """The device of the input at every point: positions in groups lead there from the first one."""
    at = np.zeros(shape, dtype=np.int64)
    if access.replica is None:
        return at
    positions = access.replica.evaluate_array(dims, ranges, runtime)
    for collective, position in zip(access.via, positions, strict=True):
        rows = groups_of(collective).rows
        place = np.broadcast_to(position, shape)
        if rows:
            members = np.array(
                [next(row for row in rows if d in row) for d in sorted(sum(rows, ()))]
            )
            at = members[at, np.clip(place, 0, members.shape[1] - 1)]
        else:
            at = place
    return at


def _known(variable: RuntimeVariable, values: Values) -> list[Any] | None:
    """The tensors the variable may be read from: one if it is known."""
    origin = variable.origin
    if variable.collective is not None and not variable.via and not variable.is_every:
        rows = groups_of(variable.collective).rows
        return [np.array(next((row.index(0) for row in rows if 0 in row), 0))]
    if origin is None or variable.collective is not None or variable.via or origin not in values:
        return None
    found: list[Any] = []
    for value in values[origin]:
        array = np.asarray(value)
        if array.ndim != len(variable.index):
            return None  # the body was run on whole arrays
        if not any(a.shape == array.shape and (a == array).all() for a in found):
            found.append(array)
    return found if len(found) <= 4 else None


def _runtime(
    m: IndexingMap,
    box: dict[Var, Ints],
    shape: tuple[int, int],
    choices: list[list[Any] | None],
    free: list[Ints],
) -> list[Ints]:
    """Values of the runtime variables at every point, clamped as they say."""
    rest = iter(free)
    chosen: list[Ints | None] = [
        next(rest) if known is None or len(known) > 1 else None for known in choices
    ]
    left = list(range(len(m.runtime)))
    while left:  # an index may use other runtime variables, in any order
        i = next(i for i in left if choices[i] is None or _is_ready(m.runtime[i].index, box))
        left.remove(i)
        variable, known, choice = m.runtime[i], choices[i], chosen[i]
        if known is None:
            assert choice is not None
            box[Runtime(i)] = np.broadcast_to(choice, shape)
            continue
        read = [_read(array, variable.index, box, shape) for array in known]
        value = read[0] if choice is None else np.choose(np.broadcast_to(choice, shape), read)
        box[Runtime(i)] = np.clip(value, variable.values.lo, variable.values.hi)
    return [box[Runtime(i)] for i in range(len(m.runtime))]


def _is_ready(index: Sequence[Expr], box: Mapping[Var, Ints]) -> bool:
    return variables(*index) <= box.keys()


def _read(
    array: Any, index: Sequence[Expr], box: Mapping[Var, Ints], shape: tuple[int, int]
) -> Ints:
    """The elements of an array at an index; outside, those at the edge."""
    if not array.size:
        return np.zeros(shape, dtype=np.int64)
    at = [np.broadcast_to(evaluate_array(e, box), shape) for e in index]
    inside = tuple(np.clip(x, 0, n - 1) for x, n in zip(at, array.shape, strict=True))
    found = array[inside] if at else np.broadcast_to(array, shape)
    return np.asarray(found, dtype=np.int64)


def _grid(shape: Sequence[int]) -> list[Ints]:
    """The coordinates of every index, one flat array for each dimension."""
    if not shape:
        return []
    return list(np.indices(tuple(shape), dtype=np.int64).reshape(len(shape), -1))
