"""Static equivalents of dynamic ops whose sizes are constants.

Refinement uses the result types of the static op, canonicalisation replaces the dynamic op by
it.  Both read this table, so that they agree.

Source: StableHLO `StablehloRefineShapes.cpp`, `StablehloCanonicalizeDynamism.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from hloscope.ir import Dims
from hloscope.mlir import Attribute, Operation, Value
from hloscope.passes.dynamism.constants import i64_array, i64_tensor, ints


class Form(NamedTuple):
    """A static op: name, operands and attributes."""

    name: str
    operands: tuple[Value, ...]
    properties: Mapping[str, Attribute]


Static: TypeAlias = "Callable[[Operation], Form | None]"


def conv(op: Operation) -> Form | None:
    """Return the static form of `dynamic_conv`; `None` unless the padding is constant."""
    lhs, rhs, padding = op.operands
    amounts = ints(padding)
    if amounts is None or len(amounts) % 2:
        return None
    given = i64_tensor(amounts, (len(amounts) // 2, 2))
    return Form("stablehlo.convolution", (lhs, rhs), {**op.properties, "padding": given})


def gather(op: Operation) -> Form | None:
    """Return the static form of `dynamic_gather`; `None` unless the slice sizes are constant."""
    operand, indices, sizes = op.operands
    found = ints(sizes)
    if found is None:
        return None
    properties = {**op.properties, "slice_sizes": i64_array(found)}
    return Form("stablehlo.gather", (operand, indices), properties)


_EDGES: Final = ("edge_padding_low", "edge_padding_high", "interior_padding")


def pad(op: Operation) -> Form | None:
    """Return the static form of `dynamic_pad`; `None` unless all amounts are constant."""
    amounts = [ints(value) for value in op.operands[2:]]
    found = {name: i64_array(n) for name, n in zip(_EDGES, amounts, strict=True) if n is not None}
    if len(found) < len(_EDGES):
        return None
    return Form("stablehlo.pad", op.operands[:2], found)


def slice_of(op: Operation) -> Form | None:
    """Return the static form of `real_dynamic_slice`; `None` unless its bounds are constant."""
    numbers = [ints(value) for value in op.operands[1:]]
    names = ("start_indices", "limit_indices", "strides")
    found = {name: i64_array(n) for name, n in zip(names, numbers, strict=True) if n is not None}
    if len(found) < len(names):
        return None
    return Form("stablehlo.slice", op.operands[:1], found)


def slice_sizes(op: Operation) -> Dims | None:
    """Return the sizes of a `real_dynamic_slice` of stride 1 with limits `start + constant`.

    `None` for any other slice.
    """
    _, start, limit, strides = op.operands
    steps = ints(strides)
    if steps is None or any(step != 1 for step in steps):
        return None
    adding = limit.owner
    if not isinstance(adding, Operation) or adding.name != "stablehlo.add":
        return None
    first, second = adding.operands
    if first is start:
        return ints(second)
    return ints(first) if second is start else None


STATIC: Final[dict[str, Static]] = {
    "stablehlo.dynamic_conv": conv,
    "stablehlo.dynamic_gather": gather,
    "stablehlo.dynamic_pad": pad,
    "stablehlo.real_dynamic_slice": slice_of,
}
"""Functions that return the static form, by dynamic op."""
