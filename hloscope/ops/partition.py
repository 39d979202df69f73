"""Shardy ops (`sdy`), which state how values are divided among the devices of a mesh."""

from __future__ import annotations

from hloscope.ir import Callees, Op, Type, Types, Written
from hloscope.ops.inference import count, op, without_layouts


@op("sdy.sharding_constraint")
class ShardingConstraint(Op):
    """The operand, with a sharding.

    Attributes:
        sharding: The sharding; its value is a `NamedSharding`.
    """

    sharding: Written = Written()

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        return without_layouts(operands[0])


@op("sdy.manual_computation")
class ManualComputation(Op):
    """A computation on each device's part of the operands.  Callee: the computation.

    Attributes:
        in_shardings: Shardings of the operands; the value is a tuple of `NamedSharding`.
        out_shardings: Shardings of the results, in the same form.
        manual_axes: Axes along which the computation works on parts; the value is their names.
    """

    in_shardings: Written = Written()
    out_shardings: Written = Written()
    manual_axes: Written = Written()
