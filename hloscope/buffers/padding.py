"""Padding of arrays: dimensions that tiles pad, and the order of dimensions with least padding."""

from __future__ import annotations

from itertools import permutations
from typing import Final

from msgspec.structs import replace

from hloscope.ir import TensorType, array_bytes

_MOST_PERMUTED: Final = 6
"""Largest rank for which all orders of dimensions are tried: 720 orders."""


def padding_causes(type: TensorType) -> list[str]:
    """Describe the dimensions that the first tile pads, and elements wider than natural."""
    layout, causes = type.layout, []
    if layout is None:
        return []
    if layout.element_bits > max(8, type.element.bits):
        causes.append(f"elements of {layout.element_bits} bits")
    tile = layout.tiles[0] if layout.tiles else ()
    if any(t <= 0 for t in tile):
        return [*causes, "a tile that joins dimensions"]
    for place, t in enumerate(reversed(tile)):
        if place >= type.rank:
            if t > 1:
                causes.append(f"a missing dimension counts as {t}")
            continue
        dimension = layout.minor_to_major[place]
        have = type.shape[dimension]
        if padded := -have % t:
            causes.append(f"dimension {dimension} of size {have} takes {have + padded}")
    return causes


def cheapest_order(type: TensorType) -> TensorType | None:
    """The type with the order of dimensions that takes fewest bytes under the same tiles.

    Of equally cheap orders, the one closest to the present order is returned. `None` if no order
    takes fewer bytes, the rank is above 6, or there are no tiles.

    >>> from hloscope.hlo_parser import parse_type, print_type
    >>> best = cheapest_order(parse_type("s32[8388608,8,4]{2,1,0:T(8,128)}"))
    >>> print_type(best)
    's32[8388608,8,4]{0,1,2:T(8,128)}'
    """
    layout = type.layout
    found = array_bytes(type)
    if layout is None or not layout.tiles or type.rank > _MOST_PERMUTED or found is None:
        return None
    present = layout.minor_to_major
    if len(present) != type.rank:
        return None

    def cost(order: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        other = replace(type, layout=replace(layout, minor_to_major=order))
        size = array_bytes(other)
        assert size is not None
        changed = sum(a != b for a, b in zip(order, present, strict=True))
        return size.padded, changed, order

    best = min(map(cost, permutations(range(type.rank))))
    if best[0] >= found.padded:
        return None
    return replace(type, layout=replace(layout, minor_to_major=best[2]))
