"""How much an instruction computes and moves: figures to sort a program by.

Flops: a multiplication and an addition for each element of the first operand that an element of a
product or convolution reads, padding included; one for each element of other arithmetic; those of
bodies as often as they run.  Custom calls that are no known product count nothing.  Bytes: what is
read of the operands and written, each once and whole.
Source: XLA `HloCostAnalysis`, which leaves out convolutions' padding.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

from hloscope.cost.trip_counts import trip_count
from hloscope.fusion import PRODUCTS, elements_of, multiplications
from hloscope.ir import Computation, Instruction, Op, inside_out
from hloscope.ops import (
    AsyncStart,
    Call,
    Case,
    Composite,
    Convert,
    CustomCall,
    Elementwise,
    Fusion,
    Map,
    Reduce,
    ReduceWindow,
    Scatter,
    While,
)

_MOVES: Final = {"copy", "real", "imag", "complex"}


class Flops:
    """Arithmetic of instructions; that of a computation is counted once.

    With numbers of structures, that of all of one structure, if it follows from that.
    """

    def __init__(self, structure: Callable[[Computation], int] | None = None) -> None:
        """Take what numbers the structure of computations, as `Blueprints.number` does."""
        self._structure: Final = structure
        self._known: dict[Computation, int] = {}
        self._by_structure: dict[int, int] = {}
        self._follows: dict[Computation, bool] = {}

    def __call__(self, ins: Instruction) -> int:
        """Floating-point operations of an instruction, what it calls included.

        What calls itself is counted without that call: how deep it goes is not known.
        """
        for callee in ins.calls:
            for inner in inside_out(callee, self._known):
                self._known[inner] = self._of_computation(inner)
        return self._of_op(ins, ins.op)

    def _of_op(self, ins: Instruction, op: Op) -> int:
        match op:
            case Fusion() | Call() | Composite():
                return self._called(ins)
            case While():
                return self._called(ins) * trip_count(ins)
            case Case():
                return max([self._known.get(branch, 0) for branch in ins.calls], default=0)
            case AsyncStart(wrapped) if wrapped is not None:
                return self._of_op(ins, wrapped)
            case AsyncStart():
                return self._called(ins)
            case Reduce():
                return max(elements_of(ins.operands[:1]) - elements_of([ins]), 0) * self._called(
                    ins
                )
            case ReduceWindow(window=window):
                return elements_of([ins]) * max(prod(window.sizes) - 1, 0) * self._called(ins)
            case Map():
                return elements_of([ins]) * self._called(ins)
            case Scatter():
                return elements_of(ins.operands[-1:]) * self._called(ins)
            case Elementwise() if not isinstance(op, Convert) and op.name not in _MOVES:
                return elements_of([ins])
            case _ if isinstance(op, PRODUCTS):
                return 2 * multiplications(ins)
            case _:
                return 0

    def _called(self, ins: Instruction) -> int:
        return sum([self._known.get(callee, 0) for callee in ins.calls])

    def _of_computation(self, computation: Computation) -> int:
        """What a computation counts, whose callees are known."""
        number = None if self._structure is None else self._structure(computation)
        known = None if number is None else self._by_structure.get(number)
        if known is None:
            known = sum([self._of_op(ins, ins.op) for ins in computation])
            if number is not None and self._follows_from_structure(computation):
                self._by_structure[number] = known
        return known

    def _follows_from_structure(self, computation: Computation) -> bool:
        """Does nothing that counts stand beside ops and types, as how often a loop runs does?"""
        for inner in inside_out(computation, self._follows):
            self._follows[inner] = not any(
                [isinstance(ins.op, While | CustomCall | AsyncStart) for ins in inner]
            ) and all([self._follows.get(callee, False) for callee in inner.callees])
        return self._follows[computation]
