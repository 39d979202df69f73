"""Values of runtime variables for sampling: known integers, else random ones.

A value that depends on constants and iotas only is computed.  Any other is drawn from the
variable's range, the same for the same element.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import Final

from hloscope.affine import POS_INF
from hloscope.arrays import Ints, np
from hloscope.indexing import RuntimeVariable
from hloscope.ir import Instruction
from hloscope.proof.integers import Integers

A_FEW: Final = 8
"""Number of positions to draw from if the number of devices is not known."""


class Values:
    """Values of runtime variables in one trial, as functions of origin and index."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._number: dict[Hashable, int] = {}
        self._integers = Integers()
        self.drawn = False  # was a value drawn because it is not known?

    def read(self, variable: RuntimeVariable, index: list[Ints], name: int) -> Ints:
        """Return the values of a variable at many indices, clamped to its range.

        Args:
            variable: The runtime variable.
            index: An array for each of its arguments.
            name: Distinguishes variables without origin.
        """
        origin, values = variable.origin, variable.values

        shape = np.broadcast_shapes(*(i.shape for i in index)) if index else ()
        # A hash of seed, variable and index: equal elements get equal values in one trial.
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
        if origin is None:
            self.drawn = True
            return drawn
        columns = [np.broadcast_to(i, shape).reshape(-1) for i in index[: len(variable.index)]]
        found = self._integers.at(origin, columns, prod(shape))  # the same on every device
        if not found.is_known.all():
            self.drawn = True
        clamped = np.clip(found.values, values.lo, values.hi).astype(np.int64)
        return np.where(found.is_known.reshape(shape), clamped.reshape(shape), drawn)

    def known(self, ins: Instruction, index: Sequence[int]) -> int | None:
        """Return the element of an integer tensor; `None` if it depends on the arguments."""
        found = self._integers.at(ins, [np.asarray([i], np.int64) for i in index], 1)
        return int(found.values[0]) if found.is_known[0] else None
