"""Random number ops."""

from __future__ import annotations

from typing import ClassVar

from hloscope.errors import message_of
from hloscope.ir import ELEMENT_TYPES, Callees, Op, Type, Types
from hloscope.ops.inference import (
    array,
    compatible_shapes,
    count,
    known_elements,
    op,
    require,
    static,
    tensor,
    tensors,
)
from hloscope.ops.result_types import mismatch
from hloscope.support.limits import MOST_RANK


@op("rng")
class Rng(Op):
    """Random numbers of a distribution.  Operands: its two parameters, in StableHLO also the sizes.

    HLO declares the sizes of the result.

    Attributes:
        rng_distribution: `UNIFORM` or `NORMAL`.

    Source: StableHLO spec `rng` (C1)-(C3).
    """

    rng_distribution: str
    reads_values: ClassVar[tuple[int, ...]] = (2,)

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        if len(operands) == 2:
            return Op.infer(self, operands, calls)
        a, b, shape = tensors(self.name, operands, 3)
        require(
            self.rng_distribution != "NORMAL" or a.element.kind == b.element.kind == "float",
            "rng_c2",
            "mu and sigma must be floats",
        )
        values, rank = known_elements(operands[2]), shape.sizes[0] if shape.rank == 1 else None
        if values is not None:
            return array(b.element, static(values))
        if rank is None:
            return Op.infer(self, operands, calls)
        require(rank <= MOST_RANK, "rng_c3", f"a result of {rank} dimensions: no array has so many")
        return array(b.element, [(None, None)] * rank)

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        return mismatch(inferred, declared, number="", sizes="rng_c3", element="rng_c1")


@op("rng_bit_generator")
class RngBitGenerator(Op):
    """Returns a new state and random bits, computed from a state.

    The number of words of the state, (C2), is not checked: StableHLO's verifier accepts any number,
    and HLO uses others.

    Attributes:
        rng_algorithm: `DEFAULT`, `THREE_FRY` or `PHILOX`.

    Source: StableHLO spec `rng_bit_generator` (C1).
    """

    rng_algorithm: str

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        count(self.name, operands, 1)
        before = tensor(self.name, operands[0], "the initial state")
        if len(results) != 2:
            return  # HLO may declare the bits without the state
        after = tensor(self.name, results[0], "the output state")
        require(
            compatible_shapes(before, after),
            "rng_bit_generator_c1",
            message_of(
                "output state shape must be compatible with initial state shape. Got: {} and {}",
                before,
                after,
            ),
        )


@op("rng-get-and-update-state")
class RngGetAndUpdateState(Op):
    """Returns the global random state, and advances it by `delta` (HLO)."""

    delta: int

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 0)
        return array(ELEMENT_TYPES["u64"], static((2,)))
