"""Random numbers."""

from __future__ import annotations

from hloscope.ir.types import ELEMENT_TYPES
from hloscope.ops.base import Callee, Op, Type, op
from hloscope.ops.infer_util import array, count, static


@op("rng")
class Rng(Op):
    """Random numbers of a distribution with parameters from the operands."""

    rng_distribution: str


@op("rng_bit_generator")
class RngBitGenerator(Op):
    """New state and random bits from a state."""

    rng_algorithm: str


@op("rng-get-and-update-state")
class RngGetAndUpdateState(Op):
    """Reads and advances the global state (HLO)."""

    delta: int

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 0)
        return array(ELEMENT_TYPES["u64"], static((2,)))
