"""Bytes moved by instructions, and numbers of elements read."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

from hloscope.errors import HloscopeError
from hloscope.fusion.leaves import leaf_types
from hloscope.indexing import output_to_input
from hloscope.ir import Instruction, Op, TensorType, Type, array_bytes
from hloscope.ops import (
    AfterAll,
    Bitcast,
    Constant,
    Convolution,
    CustomCall,
    Dot,
    DotGeneral,
    DynamicConv,
    GetTupleElement,
    Parameter,
    RaggedDot,
    Return,
    ScaledDot,
    Tuple,
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
ALIASES: Final[tuple[type[Op], ...]] = (
    Parameter,
    Constant,
    Tuple,
    GetTupleElement,
    Bitcast,
    AfterAll,
    Return,
)
"""Ops that move no bytes: their value exists already or shares the memory of another value."""


def bytes_moved(ins: Instruction) -> int:
    """Return the bytes of the distinct operands and of the value, without padding.

    A bounded dynamic dimension counts with its bound.  `ALIASES` move 0 bytes.
    """
    if isinstance(ins.op, ALIASES):
        return 0
    return sum(size_in_bytes(value.type) for value in (*dict.fromkeys(ins.operands), ins))


def padded_bytes_moved(ins: Instruction) -> int:
    """Return `bytes_moved` with the padding of tiled layouts included."""
    if isinstance(ins.op, ALIASES):
        return 0
    values = (*dict.fromkeys(ins.operands), ins)
    found = [array_bytes(leaf) for value in values for leaf in leaf_types(value.type)]
    return sum([size.padded for size in found if size is not None])


def size_in_bytes(type: Type) -> int:
    """Return the bytes of all arrays of a type without padding; arrays of unknown size count 0.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> size_in_bytes(parse_type("(f32[2,3], s4[3], ())"))
    27
    """
    found = [array_bytes(leaf) for leaf in leaf_types(type)]
    return sum([size.data for size in found if size is not None])


def elements_of(values: Iterable[Instruction]) -> int:
    """Return the total number of elements of the values; of a tuple, of its first tensor only."""
    first = [leaf_types(value.type)[:1] for value in values]
    tensors = [t for leaves in first for t in leaves if isinstance(t, TensorType)]
    return sum(prod([size or 0 for size in t.most]) for t in tensors)


def elements_read(ins: Instruction) -> int:
    """Return how many elements of operand 0 the elements of output 0 read, in total.

    An element counts once for each output element that reads it. The result is 0 if a map is not
    known.
    """
    return elements_of([ins]) * _read_by_element(ins)


def _read_by_element(ins: Instruction) -> int:
    """Return how many elements of operand 0 one element of output 0 reads, as an upper bound.

    The result is 0 if a map is not known.
    """
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
