"""What results depend on, seen by running: numbered elements, and elements that are changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hloscope.ir.types import QuantizedType, TensorType, TokenType, TupleType
from tests.agreement.instances import Arguments, Array, Instance, arguments, drawn
from tests.indexing.truth.marks import Case, Marks, Operand, empty

Bools = NDArray[np.bool_]

_SPECIAL: Final = (np.nan, np.inf, -np.inf)
MOST_TRIES: Final = 40
NO_NAN: Final = {"sort", "triangular_solve", "uniform_quantize"}
"""Ops for which a NaN says nothing: it would be refused, or spread further than a number."""


# ------------------------------------------------------------------------- numbered elements


def numbered(one: Instance) -> Case:
    """The case with the marks of what its results are, operands being numbered by element.

    What operands with known values (indices, sizes) tell is taken from the case.
    """
    case = one.case
    given = [[_numbers(o, member) for o in case.operands] for member in range(case.group)]
    outputs = []
    for array, expected in zip(one.run(given), case.outputs, strict=True):
        assert array.shape == expected.shape
        marks = empty(expected.shape)
        for at in np.ndindex(expected.shape):
            number = int(array[at])
            steering = expected[at] & _steering(case)
            marks[at] = (1 << number - 1 if number else 0) | steering
        outputs.append(marks)
    return replace(case, outputs=tuple(outputs))


def _steering(case: Case) -> int:
    """The marks of all operands with known values."""
    bits = 0
    for operand in case.operands:
        if operand.values is not None:
            for mark in operand.marks.reshape(-1):
                for member in range(case.group):
                    bits |= mark << member * operand.marks.size
    return bits


def _numbers(operand: Operand, member: int) -> Any:
    if operand.values is not None:
        return operand.values.astype(np.int32)
    parts = []
    for leaf, first in zip(operand.leaves, operand.first, strict=True):
        start = 1 + first + member * leaf.size
        parts.append(np.arange(start, start + leaf.size, dtype=np.float32).reshape(leaf.shape))
    return tuple(parts) if isinstance(operand.ins.type, TupleType) else parts[0]


# ------------------------------------------------------------------------- changed elements


class Seen:
    """Which elements of an operand's leaf each output has been seen to depend on."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.expected: dict[tuple[int, int, int], Bools] = {
            (o, k, leaf): case.relation(o, k, leaf)
            for o in range(len(case.outputs))
            for k, operand in enumerate(case.operands)
            for leaf in range(len(operand.leaves))
        }
        self.found = {key: np.zeros_like(rows) for key, rows in self.expected.items()}

    def is_complete(self, operand: int, leaf: int, column: int) -> bool:
        """Has everything been seen to depend on the element that should?"""
        return all(
            not (self.expected[key][:, column] & ~self.found[key][:, column]).any()
            for key in self.found
            if key[1:] == (operand, leaf)
        )

    def marks(self) -> tuple[Marks, ...]:
        """What has been seen, as the marks of the outputs."""
        outputs = []
        for o, expected in enumerate(self.case.outputs):
            flat = empty((expected.size,))
            for (output, operand, leaf), rows in self.found.items():
                if output == o:
                    first = self.case.operands[operand].first[leaf]
                    for row, column in zip(*np.nonzero(rows), strict=True):
                        flat[row] |= 1 << (first + int(column))
            outputs.append(flat.reshape(expected.shape))
        return tuple(outputs)


def changed(one: Instance, seed: int) -> Case:
    """The case with the marks of what its results are seen to depend on.

    Elements are changed one at a time, to some other values, beside several choices of the rest;
    it is enough to have seen a dependence once.
    """
    case, rng = one.case, np.random.default_rng(seed)
    seen = Seen(case)
    for attempt in range(MOST_TRIES):
        given = arguments(case, rng, min(attempt, 1))
        before = one.run(given)
        missing = False
        for member in range(case.group):
            for k, operand in enumerate(case.operands):
                if operand.values is not None:
                    _trust(seen, k)
                elif not isinstance(operand.ins.type, TokenType):
                    for leaf in range(len(operand.leaves)):
                        missing |= _change_all(
                            one, seen, given, before, (member, k, leaf), attempt, rng
                        )
        if not missing:
            break
    return replace(case, outputs=seen.marks())


def _trust(seen: Seen, operand: int) -> None:
    """Indices and sizes are not changed: what depends on them is taken from the case."""
    for key, rows in seen.expected.items():
        if key[1] == operand:
            seen.found[key] |= rows


def _change_all(
    one: Instance,
    seen: Seen,
    given: list[Arguments],
    before: list[Array],
    place: tuple[int, int, int],
    attempt: int,
    rng: np.random.Generator,
) -> bool:
    """Change every element of a leaf that is not done with; is anything still missing?"""
    member, k, leaf = place
    array = _leaf(given[member][k], leaf)
    missing = False
    for i in range(array.size):
        column = member * array.size + i
        if attempt and seen.is_complete(k, leaf, column):
            continue
        other = array.copy()
        beside = [x for x in given[member] if hasattr(x, "dtype") and x.shape == array.shape]
        twins = [np.reshape(x, -1)[i] for x in beside if x.dtype == array.dtype]
        if attempt % 4 == 3 and len(twins) > 1:  # now and then, what is equal
            other.reshape(-1)[i] = twins[rng.integers(len(twins))]
        else:
            other.reshape(-1)[i] = _another(one, k, leaf, array.reshape(-1)[i], attempt, rng)
        arguments = [list(row) for row in given]
        arguments[member][k] = _with_leaf(given[member][k], leaf, other)
        for output, (a, b) in enumerate(zip(before, one.run(arguments), strict=True)):
            seen.found[output, k, leaf][:, column] |= _differs(a, b)
        missing |= not seen.is_complete(k, leaf, column)
    return missing


def _leaf(value: Any, leaf: int) -> Array:
    return np.asarray(value[leaf] if isinstance(value, tuple) else value)


def _with_leaf(value: Any, leaf: int, array: Array) -> Any:
    if isinstance(value, tuple):
        return (*value[:leaf], array, *value[leaf + 1 :])
    return array


def _another(
    one: Instance, operand: int, leaf: int, old: Any, attempt: int, rng: np.random.Generator
) -> Any:
    """Another value of the same type: NaN and the infinities first, where they tell something."""
    type_ = one.case.operands[operand].ins.type
    if isinstance(type_, TupleType):
        type_ = type_.elements[leaf]
    assert isinstance(type_, TensorType)
    element = type_.element
    if isinstance(element, QuantizedType):
        element = element.storage
    is_float = element.kind in ("float", "complex") and one.ins.op.name not in NO_NAN
    if is_float and attempt < len(_SPECIAL):
        return _SPECIAL[attempt]
    for kind in (attempt % 2, 1, 1, 0):
        value = drawn(rng, element, (), kind)
        if value != old:
            return value
    return value


def _differs(a: Array, b: Array) -> Bools:
    """Where arrays differ, bit by bit."""
    assert a.shape == b.shape
    if not a.size:
        return np.zeros(0, bool)
    rows = [np.ascontiguousarray(x).reshape(-1, 1).view(np.uint8) for x in (a, b)]
    result: Bools = (rows[0] != rows[1]).any(axis=1)
    return result
