"""Random numbers."""

from __future__ import annotations

from dataclasses import dataclass

from hloscope.ops.base import Op, op


@op("rng")
@dataclass(frozen=True, slots=True)
class Rng(Op):
    """Random numbers of a distribution with parameters from the operands."""

    rng_distribution: str


@op("rng_bit_generator")
@dataclass(frozen=True, slots=True)
class RngBitGenerator(Op):
    """New state and random bits from a state."""

    rng_algorithm: str


@op("rng-get-and-update-state")
@dataclass(frozen=True, slots=True)
class RngGetAndUpdateState(Op):
    """Reads and advances the global state (HLO)."""

    delta: int
