"""Ops of Shardy, `sdy`: how values are divided among the devices of a mesh."""

from __future__ import annotations

from hloscope.ops.base import Callee, Op, Type, op
from hloscope.ops.infer_util import bare, count


@op("sdy.sharding_constraint")
class ShardingConstraint(Op):
    """The operand, divided among the devices as `sharding` says.

    Attributes:
        sharding: As written.
    """

    sharding: str = ""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        return bare(operands[0])


@op("sdy.manual_computation")
class ManualComputation(Op):
    """A computation on each device's part of the operands.  Calls: the computation.

    Attributes:
        settings: How operands and results are divided, along which axes by hand: as written.
    """

    settings: tuple[tuple[str, str], ...] = ()
