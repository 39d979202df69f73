"""How much an instruction computes and moves: figures to sort a program by.

Flops: a multiplication and an addition for each element of the first operand that an element of a
product or convolution reads, padding included; one for each element of other arithmetic; those of
bodies as often as they run.  Custom calls that are no known product count nothing.  Bytes: what is
read of the operands and written, each once and whole.
Source: XLA `HloCostAnalysis`, which leaves out convolutions' padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Final

from hloscope.errors import HloscopeError
from hloscope.fusion.leaves import leaf_types
from hloscope.indexing import output_to_input
from hloscope.ir import Computation, Instruction, Op, TensorType, Type, backend_config, inside_out
from hloscope.ops import (
    AfterAll,
    AsyncStart,
    Bitcast,
    Call,
    Case,
    Composite,
    Constant,
    Convert,
    Convolution,
    CustomCall,
    Dot,
    DotGeneral,
    DynamicConv,
    Elementwise,
    Fusion,
    GetTupleElement,
    Map,
    Parameter,
    RaggedDot,
    Reduce,
    ReduceWindow,
    Return,
    ScaledDot,
    Scatter,
    Tuple,
    While,
)

PRODUCTS: Final[tuple[type[Op], ...]] = (
    Dot,
    DotGeneral,
    RaggedDot,
    ScaledDot,
    Convolution,
    DynamicConv,
    CustomCall,
)
ALIASES: Final = (Parameter, Constant, Tuple, GetTupleElement, Bitcast, AfterAll, Return)
"""Ops that move nothing: their value is there already, or is another's memory."""
_MOVES: Final = {"copy", "real", "imag", "complex"}


def bytes_moved(ins: Instruction) -> int:
    """Bytes of the operands and of the value; of unknown sizes, those of their bounds."""
    if isinstance(ins.op, ALIASES):
        return 0
    return sum(size_in_bytes(value.type) for value in (*dict.fromkeys(ins.operands), ins))


def size_in_bytes(type: Type) -> int:
    """Bytes of all tensors of a type; elements of less than a byte are packed.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> size_in_bytes(parse_type("(f32[2,3], s4[3], ())"))
    26
    """
    return sum(
        -(-prod(_sizes(leaf)) * leaf.element.bits // 8)
        for leaf in leaf_types(type)
        if isinstance(leaf, TensorType)
    )


def _sizes(type: TensorType) -> Iterable[int]:
    for size, bound in zip(type.sizes, type.bounds or [None] * len(type.sizes), strict=True):
        yield (bound or 0) if size is None else size


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
                return max(_elements(ins.operands[:1]) - _elements([ins]), 0) * self._called(ins)
            case ReduceWindow(window=window):
                return _elements([ins]) * max(prod(window.sizes) - 1, 0) * self._called(ins)
            case Map():
                return _elements([ins]) * self._called(ins)
            case Scatter():
                return _elements(ins.operands[-1:]) * self._called(ins)
            case Elementwise() if not isinstance(op, Convert) and op.name not in _MOVES:
                return _elements([ins])
            case _ if isinstance(op, PRODUCTS):
                return 2 * _elements([ins]) * _read_by_element(ins)
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


def _elements(values: Iterable[Instruction]) -> int:
    """Elements of the first tensor of each value."""
    first = [leaf_types(value.type)[:1] for value in values]
    return sum(prod(_sizes(t)) for leaves in first for t in leaves if isinstance(t, TensorType))


def _read_by_element(ins: Instruction) -> int:
    """How many elements of operand 0 an element of output 0 reads; 0 if that is not known."""
    if not leaf_types(ins.type):
        return 0
    try:
        answer = output_to_input(ins, 0)
    except HloscopeError:
        return 0
    maps = [access.map for access in answer[0]] if answer else []
    known = [m for m in maps if m is not None and not m.is_known_empty]
    if len(known) != len(maps):
        return 0
    return sum(prod(v.interval.hi - v.interval.lo + 1 for v in m.ranges) for m in known)


def known_trip_count(ins: Instruction) -> int | None:
    """How often a loop runs, where the backend knows."""
    try:
        return int(backend_config(ins.extras)["known_trip_count"]["n"])
    except (HloscopeError, KeyError, TypeError, ValueError):
        return None


def trip_count(ins: Instruction) -> int:
    """How often a loop runs, where the backend knows; else once."""
    known = known_trip_count(ins)
    return 1 if known is None else known
