"""Triton's layout attributes: blocked, linear, dot accumulators, and slices of these.

Source: Triton `TritonGPUAttrDefs.td`, `LinearLayoutConversions.cpp`; PTX ISA, "Matrix Fragments for
mma.m16n8k8", accumulators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hloscope.errors import ParseError, UnsupportedError
from hloscope.layouts import Blocked, LinearLayout, Side
from hloscope.lazy import pattern

_SLICE: Final = pattern(r"#ttg\.slice<\{dim = (\d{1,2}), parent = (.*)\}>")
_LINEAR: Final = pattern(r"#ttg\.linear<\{(.*)\}>")
_SIDE: Final = pattern(r"(\w+) = \[((?:\[(?:\d{1,18}(?:, \d{1,18})*)?\](?:, )?)*)\]")
_BASIS: Final = pattern(r"\[((?:\d{1,18}(?:, \d{1,18})*)?)\]")
_MMA: Final = pattern(
    r"#ttg\.nvidia_mma<\{versionMajor = 2, versionMinor = 0, "
    r"warpsPerCTA = \[(\d{1,4}), (\d{1,4})\], instrShape = \[16, 8\]\}>"
)
MOST_SLICES: Final = 8
"""Maximum depth of nested slices."""


def layout_of(text: str, shape: Sequence[int], aliases: Mapping[str, str]) -> LinearLayout:
    """Return the linear layout of an attribute, over a tile of this shape.

    Args:
        text: An alias (`#blocked1`) or an attribute (`#ttg.slice<{dim = 1, parent = #blocked}>`).
        shape: Sizes of the tile, powers of two.
        aliases: The attribute of each alias.

    Raises:
        ParseError: The text of a layout is damaged.
        UnsupportedError: The layout is of another kind, or does not fit the shape.

    >>> blocked = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 32], "
    >>> blocked += "warpsPerCTA = [4, 1], order = [1, 0]}>"
    >>> found = layout_of("#ttg.slice<{dim = 0, parent = #b}>", (128,), {"#b": blocked})
    >>> found.size_of["lane"], found.size_of["warp"], found(lane=1), found(warp=3)
    (32, 4, (4,), (0,))
    """
    # Linear layouts map bits to bits, so every size is a power of two.
    if any(size < 1 or size & (size - 1) for size in shape):
        raise UnsupportedError(f"a tile of sizes {list(shape)}, which are not powers of two")
    removed: list[int] = []
    sizes = [*shape]
    for _ in range(MOST_SLICES):
        text = aliases.get(text, text)
        found = _SLICE.fullmatch(text)
        if found is None:
            break
        dim = int(found[1])
        if dim > len(sizes):
            raise UnsupportedError(f"dimension {dim} of the layout `{text[:80]}` does not exist")
        # A slice is the parent's layout on a tile of size 1 along the removed dimension.
        sizes.insert(dim, 1)
        removed.append(dim)
        text = found[2]
    layout = _whole(text, sizes)
    for dim in reversed(removed):
        layout = _without(layout, dim)
    return layout


def _whole(text: str, shape: Sequence[int]) -> LinearLayout:
    if text.startswith("#ttg.blocked"):
        return Blocked.parse(text).to_linear(shape)
    if (mma := _MMA.fullmatch(text)) and len(shape) == 2:
        return _accumulators((int(mma[1]), int(mma[2])), shape)
    linear = _LINEAR.fullmatch(text)
    if linear is None:
        kind = text.partition("<")[0]
        raise UnsupportedError(f"its layout is `{kind}`, which is not read")
    sides = []
    for name, bases in _SIDE.findall(linear[1]):
        rows = [tuple([int(n) for n in b.split(",") if n.strip()]) for b in _BASIS.findall(bases)]
        sides.append(Side(name, tuple(rows)))
    outs = tuple([(f"dim{d}", n) for d, n in enumerate(shape)])
    try:
        return LinearLayout(tuple(sides), outs)
    except ValueError as error:
        raise ParseError(f"`{text[:60]}`: {error}") from None


def _accumulators(warps: tuple[int, int], shape: Sequence[int]) -> LinearLayout:
    """Return the layout of the accumulators of `mma.m16n8`.

    A thread holds pairs along a row. 4 lanes hold a row, 8 rows follow, and the second register
    pair is 8 rows below. Warps follow along rows first, then registers repeat the whole over the
    tile. Parts beyond the tile wrap around, so several lanes or warps hold the same element.
    """
    steps = [
        *[("register", 1, 1)],
        *[("lane", 1, 2), ("lane", 1, 4), ("lane", 0, 1), ("lane", 0, 2), ("lane", 0, 4)],
        *[("register", 0, 8)],
    ]
    reached = [16, 8]
    for d in (1, 0):
        for _ in range(warps[d].bit_length() - 1):
            steps.append(("warp", d, reached[d]))
            reached[d] *= 2
    for d in (1, 0):
        while reached[d] < shape[d]:
            steps.append(("register", d, reached[d]))
            reached[d] *= 2
    bases: dict[str, list[tuple[int, ...]]] = {"register": [], "lane": [], "warp": [], "block": []}
    for name, d, value in steps:
        kept = value if value < shape[d] else 0
        bases[name].append((kept, 0) if d == 0 else (0, kept))
    sides = [Side(name, tuple(found)) for name, found in bases.items()]
    return LinearLayout(tuple(sides), tuple([(f"dim{d}", n) for d, n in enumerate(shape)]))


def _without(layout: LinearLayout, dim: int) -> LinearLayout:
    """Return the layout without one output, and without registers that then repeat elements."""
    sides = []
    for side in layout.ins:
        bases = [tuple([n for k, n in enumerate(b) if k != dim]) for b in side.bases]
        if side.name == "register":
            bases = [basis for basis in bases if any(basis)]
        sides.append(Side(side.name, tuple(bases)))
    return LinearLayout(tuple(sides), tuple([o for k, o in enumerate(layout.outs) if k != dim]))
