"""The instructions that are tiled as one kernel: those of a fusion, or a single one."""

from __future__ import annotations

from collections.abc import Iterable

from hloscope.ir import Computation, Instruction
from hloscope.ops import Fusion, GetTupleElement, Parameter, Result, Return, Tuple, returned_values
from hloscope.support.walks import needed_first

PROJECTIONS = (GetTupleElement, Result)
"""Ops that select one element of a tuple."""


class Fused:
    """The instructions of one kernel, with their operands inside and outside of it.

    Parameters of a fused computation are replaced by the fusion's operands. A tuple at the root is
    not an instruction of the kernel: its elements are the roots.

    Attributes:
        roots: The values that the kernel computes.
        inside: The instructions of the kernel.
    """

    def __init__(
        self,
        roots: Iterable[Instruction],
        inside: Iterable[Instruction],
        outer: dict[Instruction, Instruction] | None = None,
    ) -> None:
        self.roots = tuple(roots)
        self.inside = frozenset(inside)
        self._outer = outer or {}

    @classmethod
    def of(cls, ins: Instruction) -> Fused:
        """Return the instructions of a fusion, or the instruction alone."""
        if not isinstance(ins.op, Fusion) or not ins.calls:
            return cls((ins,), (ins,))
        computation = ins.calls[0]
        outer = dict(zip(computation.parameters, ins.operands, strict=False))
        return cls(returned_values(computation), _inside(computation), outer)

    @classmethod
    def of_producer_consumer(cls, producer: Instruction, consumer: Instruction) -> Fused:
        """Return two instructions of one computation, fusions or not, as one kernel."""
        first, second = cls.of(producer), cls.of(consumer)
        of_producer = {producer: first.roots[0]} if len(first.roots) == 1 else {}
        outer = {p: of_producer.get(o, o) for p, o in second._outer.items()}
        return cls(second.roots, first.inside | second.inside, first._outer | of_producer | outer)

    @classmethod
    def of_computation(cls, computation: Computation) -> Fused:
        """Return all instructions of a computation as one kernel."""
        return cls(returned_values(computation), _inside(computation))

    def operands(self, ins: Instruction) -> tuple[Instruction, ...]:
        """Return the operands of an instruction.

        Parameters of the fusion are replaced by the fusion's operands.
        """
        return tuple([self._outer.get(o, o) for o in ins.operands])

    def outside(self, ins: Instruction) -> Instruction:
        """Return the fusion's operand for a parameter inside; any other instruction unchanged."""
        return self._outer.get(ins, ins)

    @property
    def users_first(self) -> tuple[Instruction, ...]:
        """The instructions inside that roots depend on, users before operands."""
        inside = self.inside

        def read(ins: Instruction) -> list[Instruction]:
            return [o for o in self.operands(ins) if o in inside]

        order = [*needed_first([root for root in self.roots if root in inside], read)]
        return tuple(reversed(order))

    def source(self, ins: Instruction) -> tuple[Instruction, int]:
        """Return the instruction that computes a tuple element, and the element's number.

        Any other instruction is returned unchanged, with number 0.
        """
        output = 0
        while isinstance(ins.op, PROJECTIONS) and ins in self.inside:
            (operand,) = self.operands(ins)
            if operand not in self.inside:
                break
            output, ins = ins.op.index, operand
        return ins, output


def _inside(computation: Computation) -> list[Instruction]:
    root = computation.root
    return [
        ins
        for ins in computation
        if not isinstance(ins.op, Parameter)
        and not (ins is root and isinstance(ins.op, Tuple | Return))
    ]
