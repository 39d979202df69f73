"""Values of runtime variables for a trial: integers known before the program runs, else any.

A value that depends on nothing but constants and iotas is computed, element by element.  Any other
is drawn from what the variable can be, always the same one for the same element.
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
"""Positions are drawn from so many where the number of devices is not written."""


class Values:
    """What runtime variables are in one trial, as functions of instruction and index."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._number: dict[Hashable, int] = {}
        self._integers = Integers()
        self.drawn = False  # was there a value that is not known?

    def read(self, variable: RuntimeVariable, index: list[Ints], name: int) -> Ints:
        """The values of a variable at many indices, clamped to what it can be.

        Args:
            variable: What is read.
            index: Where, an array for each of its `index`.
            name: Tells variables without origin.
        """
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
        """The element of an integer tensor, if it is known before the program runs."""
        found = self._integers.at(ins, [np.asarray([i], np.int64) for i in index], 1)
        return int(found.values[0]) if found.is_known[0] else None
