"""What an op of dynamic sizes is once those sizes are constants: the op of static sizes.

Refinement asks for the types of that op's results, canonicalisation puts it into the place of the
dynamic one; so what the two believe is stated once.

Source: StableHLO `StablehloRefineShapes.cpp`, `StablehloCanonicalizeDynamism.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from hloscope.ir import Dims
from hloscope.mlir import Attribute, Operation, Value
from hloscope.passes.dynamism.constants import i64_array, i64_tensor, ints


class Form(NamedTuple):
    """An op that could take the place of another one: its name, operands and attributes."""

    name: str
    operands: tuple[Value, ...]
    properties: Mapping[str, Attribute]


Static: TypeAlias = "Callable[[Operation], Form | None]"


def conv(op: Operation) -> Form | None:
    """`dynamic_conv` whose padding is known."""
    lhs, rhs, padding = op.operands
    amounts = ints(padding)
    if amounts is None or len(amounts) % 2:
        return None
    given = i64_tensor(amounts, (len(amounts) // 2, 2))
    return Form("stablehlo.convolution", (lhs, rhs), {**op.properties, "padding": given})


def gather(op: Operation) -> Form | None:
    """`dynamic_gather` whose slice sizes are known."""
    operand, indices, sizes = op.operands
    found = ints(sizes)
    if found is None:
        return None
    properties = {**op.properties, "slice_sizes": i64_array(found)}
    return Form("stablehlo.gather", (operand, indices), properties)


_EDGES: Final = ("edge_padding_low", "edge_padding_high", "interior_padding")


def pad(op: Operation) -> Form | None:
    """`dynamic_pad` whose amounts are known."""
    amounts = [ints(value) for value in op.operands[2:]]
    found = {name: i64_array(n) for name, n in zip(_EDGES, amounts, strict=True) if n is not None}
    if len(found) < len(_EDGES):
        return None
    return Form("stablehlo.pad", op.operands[:2], found)


def slice_of(op: Operation) -> Form | None:
    """`real_dynamic_slice` all of whose numbers are known."""
    numbers = [ints(value) for value in op.operands[1:]]
    names = ("start_indices", "limit_indices", "strides")
    found = {name: i64_array(n) for name, n in zip(names, numbers, strict=True) if n is not None}
    if len(found) < len(names):
        return None
    return Form("stablehlo.slice", op.operands[:1], found)


def slice_sizes(op: Operation) -> Dims | None:
    """The sizes of a `real_dynamic_slice` that takes elements side by side from where it starts."""
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
"""The op of static sizes, by the dynamic op."""
