"""Values of runtime variables for a trial: integers known before the program runs, else any.

A value that depends on nothing but constants and iotas is computed with numpy, element by element.
Any other is drawn from what the variable can be, always the same one for the same element.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hloscope.affine import POS_INF
from hloscope.indexing import Precision, RuntimeVariable, output_to_input, ravel, unravel
from hloscope.ir import Instruction, TensorType
from hloscope.ops import (
    ELEMENTWISE,
    Bitcast,
    BroadcastInDim,
    Compare,
    Concatenate,
    Constant,
    Elementwise,
    Iota,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_ELEMENTS: Final = 1 << 16
MAX_DEPTH: Final = 64
A_FEW: Final = 8
"""Positions are drawn from so many where the number of devices is not written."""
_MOVES: Final = (
    BroadcastInDim,
    Reshape,
    Transpose,
    Slice,
    Reverse,
    Bitcast,
    Concatenate,
    Pad,
    ELEMENTWISE["copy"],
)
_DIRECTIONS: Final = {"LT": "less", "LE": "less_equal", "GT": "greater", "GE": "greater_equal",
                      "EQ": "equal", "NE": "not_equal"}  # fmt: skip


class Table(NamedTuple):
    """What is known of the elements of a tensor of any rank: in a row, the last index the fastest.

    Attributes:
        shape: Of the tensor.
        values: Its elements.
        is_known: Which of them are known.
    """

    shape: tuple[int, ...]
    values: NDArray[np.int64]
    is_known: NDArray[np.bool_]

    def position(self, index: Sequence[Any]) -> Any:
        """Where the elements of these indices stand."""
        import numpy as np

        return ravel(index, self.shape) if index else np.int64(0)


class Values:
    """What runtime variables are in one trial, as functions of instruction and index."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._number: dict[Hashable, int] = {}
        self._known: dict[Instruction, Table | None] = {}
        self.drawn = False  # was there a value that is not known?

    def read(
        self, variable: RuntimeVariable, index: list[NDArray[np.int64]], name: int
    ) -> NDArray[np.int64]:
        """The values of a variable at many indices, clamped to what it can be.

        Args:
            variable: What is read.
            index: Where, an array for each of its `index`.
            name: Tells variables without origin.
        """
        import numpy as np

        origin, values = variable.origin, variable.values

        shape = np.broadcast_shapes(*(i.shape for i in index)) if index else ()
        mixed = np.full(shape, self._seed * 7919 + 17, dtype=np.uint64)
        source = variable.source
        key = self._number.setdefault(source, len(self._number)) if source else 1000 + name
        mixed = np.atleast_1d(mixed)  # numpy warns of overflow in scalars
        for i in [np.asarray(key), *index]:
            mixed = (mixed ^ i.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        size = min(values.size, 1 << 40)
        if variable.collective and values.hi == POS_INF:
            size = A_FEW
        drawn = values.lo + (mixed % np.uint64(size)).astype(np.int64).reshape(shape)
        table = None
        if origin is not None:
            table = self.known(origin)  # the same on every device
        index = index[: len(variable.index)]
        if table is None or len(index) != len(table.shape):
            self.drawn = True
            return drawn
        inside = np.ones(shape, np.bool_)
        for i, extent in zip(index, table.shape, strict=True):
            inside &= (i >= 0) & (i < extent)
        at = table.position([np.where(inside, i, 0) for i in index])
        is_known = inside & table.is_known[at]
        if not is_known.all():
            self.drawn = True
        return np.where(is_known, np.clip(table.values[at], values.lo, values.hi), drawn)

    def known(self, ins: Instruction, depth: int = 0) -> Table | None:
        """The elements of an integer tensor, and which of them are known; `None`: none is."""
        if ins not in self._known:
            found = self._compute(ins, depth) if depth < MAX_DEPTH else None
            self._known[ins] = found if found is not None and found.is_known.any() else None
        return self._known[ins]

    def _compute(self, ins: Instruction, depth: int) -> Table | None:
        import numpy as np

        type = ins.type
        if not isinstance(type, TensorType) or not type.is_static:
            return None
        if type.element.kind not in ("pred", "signed", "unsigned"):
            return None
        shape = type.shape
        count = prod(shape)
        if count > MAX_ELEMENTS:
            return None
        match ins.op:
            case Constant(literal):
                numbers = literal.integers(type)
                if not numbers or any(abs(n) >= 1 << 62 for n in numbers):
                    return None
                values = np.array(numbers * (count if len(numbers) == 1 else 1), np.int64)
                return Table(shape, values, np.ones(count, np.bool_))
            case Iota(dimension):
                values = unravel(np.arange(count), shape)[dimension]
                return Table(shape, values, np.ones(count, np.bool_))
            case op if isinstance(op, _MOVES):
                return self._moved(ins, shape, depth)
            case Elementwise() as op:
                return self._arithmetic(ins, op, shape, depth)
        return None

    def _moved(self, ins: Instruction, shape: tuple[int, ...], depth: int) -> Table:
        import numpy as np

        count = prod(shape)
        values, known = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        index = unravel(np.arange(count), shape)
        for operand, accesses in zip(ins.operands, output_to_input(ins, 0), strict=True):
            table = self.known(operand, depth + 1)
            for access in accesses:
                m = access.map
                if m is None or access.precision is not Precision.EXACT or m.ranges or m.runtime:
                    return Table(shape, values, np.zeros(count, np.bool_))
                if table is None:
                    continue
                here = np.broadcast_to(m.satisfies_array(index), count)
                at = table.position([np.where(here, i, 0) for i in m.evaluate_array(index)])
                values = np.where(here, table.values[at], values)
                known = known | (here & table.is_known[at])
        return Table(shape, values, known)

    def _arithmetic(
        self, ins: Instruction, op: Elementwise, shape: tuple[int, ...], depth: int
    ) -> Table | None:
        import numpy as np

        compute = _arithmetic_of(op)
        if compute is None:
            return None
        nothing = Table((), np.zeros(1, np.int64), np.zeros(1, np.bool_))
        tables = [self.known(o, depth + 1) or nothing for o in ins.operands]
        values = compute(*[t.values for t in tables])
        known = np.logical_and.reduce(np.broadcast_arrays(*[t.is_known for t in tables]))
        if op.name == "select":
            (_, c, c_known), (_, _, t_known), (_, _, f_known) = tables
            known = c_known & np.where(c != 0, t_known, f_known)
        limits = _limits(ins.type)
        known = known & (values >= limits[0]) & (values <= limits[1])
        count = prod(shape)
        return Table(shape, np.broadcast_to(values, count), np.broadcast_to(known, count))


def _limits(type: Any) -> tuple[int, int]:
    if type.element.kind == "pred":
        return 0, 1
    bits = min(type.element.bits, 62)
    if type.element.kind == "signed":
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


def _arithmetic_of(op: Elementwise) -> Callable[..., Any] | None:
    import numpy as np

    def quotient(x: Any, y: Any) -> Any:  # HLO rounds towards zero
        y = np.where(y == 0, 1, y)
        return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))

    if isinstance(op, Compare):
        compare = getattr(np, _DIRECTIONS.get(op.comparison_direction, ""), None)
        return None if compare is None else lambda x, y: compare(x, y).astype(np.int64)
    match op.name:
        case "divide":
            return quotient
        case "remainder":
            return lambda x, y: x - quotient(x, y) * np.where(y == 0, 1, y)
        case "select":
            return lambda c, x, y: np.where(c != 0, x, y)
        case "clamp":
            return lambda low, x, high: np.minimum(np.maximum(x, low), high)
        case "convert":
            return lambda x: x
        case "abs" | "add" | "subtract" | "multiply" | "maximum" | "minimum":
            return getattr(np, op.name)  # type: ignore[no-any-return]
        case "negate":
            return np.negative
    return None
