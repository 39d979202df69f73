"""Integers of constants, as shape refinement reads them.

Source: StableHLO `Base.cpp` (`matchInts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.ir import ELEMENT_TYPES, Dims, TensorType
from hloscope.mlir import INDEX, DenseArrayAttr, DenseAttr, Operation, Value
from hloscope.stablehlo import integers_in

S64: Final = ELEMENT_TYPES["s64"]
_CONSTANTS: Final = frozenset(["stablehlo.constant", "arith.constant"])
_MOST: Final = 1 << 12
"""Largest number of elements that is read: a tensor of sizes is not longer."""


def literal_of(value: Value) -> DenseAttr | None:
    """Return the literal of a constant; `None` for another value."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name not in _CONSTANTS:
        return None
    literal = owner.get("value")
    return literal if isinstance(literal, DenseAttr) else None


def is_integers(type: object) -> bool:
    """Is it a static tensor of integers, booleans or `index`?"""
    return (
        isinstance(type, TensorType)
        and type.is_static
        and (type.element.kind in ("signed", "unsigned", "pred") or type.element == INDEX)
    )


def ints(value: Value) -> Dims | None:
    """Return the integers of a constant in row-major order; their bits are read as signed.

    >>> from hloscope.mlir import parse_mlir
    >>> tree = parse_mlir('%0 = "arith.constant"() {value = dense<[1, 255]> : tensor<2xui8>}'
    ...     ' : () -> tensor<2xui8>')
    >>> ints(tree.regions[0].block.operations[0].result)
    (1, -1)
    """
    literal = literal_of(value)
    if literal is None or not is_integers(literal.type):
        return None
    type = literal.type
    assert isinstance(type, TensorType)
    if type.num_elements > _MOST:
        return None
    found = integers_in(literal)
    if found is None:
        return None
    # Upstream sign-extends whatever the element type is, as the example shows.
    bits = 1 if type.element.kind == "pred" else type.element.bits or 64
    top, whole = 1 << (bits - 1), 1 << bits
    return tuple([n - whole if n >= top else n for n in found])


def integer(value: Value) -> int | None:
    """Return the integer of a constant of rank 0; `None` for another value."""
    found = ints(value)
    type = value.type
    is_scalar = isinstance(type, TensorType) and type.rank == 0
    return found[0] if found and is_scalar else None


def i64_array(values: Sequence[int]) -> DenseArrayAttr:
    """Return `array<i64: …>` of these values."""
    return DenseArrayAttr(S64, tuple(values))


def i64_tensor(values: Sequence[int], shape: Sequence[int]) -> DenseAttr:
    """Return `dense<…>` of type `i64` with this shape; equal values become a splat.

    >>> from hloscope.mlir import dense_text
    >>> dense_text(i64_tensor([1, 2, 3, 4], [2, 2]))
    'dense<[[1, 2], [3, 4]]>'
    """
    if len(values) > 1 and len(set(values)) == 1:
        values = values[:1]
    raw = b"".join(value.to_bytes(8, "little", signed=True) for value in values)
    return DenseAttr(raw, TensorType(S64, tuple(shape)))


def number_literal(number: int, type: TensorType) -> DenseAttr:
    """Return a splat of an integer, truncated to the bits of the element type.

    >>> from hloscope.mlir import dense_text, parse_type
    >>> dense_text(number_literal(-1, parse_type("tensor<ui8>")))
    'dense<255>'
    """
    bits = 1 if type.element.kind == "pred" else type.element.bits or 64
    width = (bits + 7) // 8
    return DenseAttr((number & (1 << bits) - 1).to_bytes(width, "little"), type)
