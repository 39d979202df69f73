"""Triton's blocked encodings and the text form of its linear layouts."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from msgspec import Struct

from hloscope.affine import Dim, Expr, Interval, Range, Var, linear, substitute
from hloscope.errors import ParseError, UnsupportedError
from hloscope.indexing import IndexingMap, Variable
from hloscope.indexing.layouts.linear import LinearLayout, Side
from hloscope.support.lazy import pattern

_LIST: Final = r"\[([\d,\s]{0,400})\]"
_BLOCKED: Final = pattern(
    rf"\s*#?(?:ttg|triton_gpu|ttg\.blocked)?\.?blocked\s*<\{{\s*sizePerThread\s*=\s*{_LIST}\s*,"
    rf"\s*threadsPerWarp\s*=\s*{_LIST}\s*,\s*warpsPerCTA\s*=\s*{_LIST}\s*,"
    rf"\s*order\s*=\s*{_LIST}\s*(?:,[^>]*)?\}}>\s*"
)
_BASIS: Final = pattern(r"\s*(?:- )?\s*(\w+)=(\d{1,20}) -> \(([\d,\s]*)\)\s*")
_SINGLE: Final = pattern(r"\s*- (\w+) is a size 1 dimension\s*")
_OUTS: Final = pattern(r"\s*where out dims are: \[(.*)\]\s*")
_OUT: Final = pattern(r"(\w+) \(size (\d{1,20})\)")


class Blocked(Struct, frozen=True):
    """A blocked encoding: elements of a thread, threads of a warp, warps of a block.

    Attributes:
        size_per_thread: Consecutive elements of one thread along each dimension.
        threads_per_warp: Threads of a warp along each dimension.
        warps_per_block: Warps of a block along each dimension.
        order: Dimensions from the fastest to the slowest.
    """

    size_per_thread: tuple[int, ...]
    threads_per_warp: tuple[int, ...]
    warps_per_block: tuple[int, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        sides = self.size_per_thread, self.threads_per_warp, self.warps_per_block
        if sorted(self.order) != [*range(len(self.order))] or any(
            len(side) != len(self.order) for side in sides
        ):
            raise ValueError(f"order {list(self.order)} does not fit the sizes")
        if any(n < 1 or n & (n - 1) or n > 1 << 32 for side in sides for n in side):
            raise ValueError("a size is not a power of two")

    @classmethod
    def parse(cls, text: str) -> Blocked:
        """Parse an encoding that Triton printed.

        Raises:
            ParseError: The text is not a blocked encoding.

        >>> Blocked.parse("#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], "
        ...               "warpsPerCTA = [4, 1], order = [1, 0]}>").order
        (1, 0)
        """
        found = _BLOCKED.fullmatch(text)
        if found is None:
            raise ParseError(f"expected `#ttg.blocked<{{sizePerThread = …}}>`: `{text[:60]}`")
        try:
            return cls(*[tuple(int(n) for n in g.split(",") if n.strip()) for g in found.groups()])
        except ValueError as error:
            raise ParseError(f"`{text[:60]}`: {error}") from None

    def __str__(self) -> str:
        return (
            f"#ttg.blocked<{{sizePerThread = {list(self.size_per_thread)}, threadsPerWarp = "
            f"{list(self.threads_per_warp)}, warpsPerCTA = {list(self.warps_per_block)}, "
            f"order = {list(self.order)}}}>"
        )

    @property
    def tile(self) -> tuple[int, ...]:
        """Return the sizes of the tile in which no two threads of a block hold the same element.

        >>> Blocked((1, 4), (8, 4), (4, 1), (1, 0)).tile
        (32, 16)
        """
        sides = self.size_per_thread, self.threads_per_warp, self.warps_per_block
        return tuple([prod(sizes) for sizes in zip(*sides, strict=True)])

    def to_linear(self, shape: Sequence[int]) -> LinearLayout:
        """Return the linear layout over a tensor.

        The encoding is repeated over a larger tensor, and wraps around in a smaller one.

        Args:
            shape: Sizes of the tensor in a block, powers of two.

        Raises:
            UnsupportedError: A size is not a power of two, or the rank differs.

        Source: Triton `BlockedEncodingAttr::toLinearLayout`.

        >>> layout = Blocked((1, 4), (8, 4), (4, 1), (1, 0)).to_linear((32, 32))
        >>> print(layout_text(layout))
        - register=1 -> (0, 1)
          register=2 -> (0, 2)
          register=4 -> (0, 16)
        - lane=1 -> (0, 4)
          lane=2 -> (0, 8)
          lane=4 -> (1, 0)
          lane=8 -> (2, 0)
          lane=16 -> (4, 0)
        - warp=1 -> (8, 0)
          warp=2 -> (16, 0)
        - block is a size 1 dimension
        where out dims are: [dim0 (size 32), dim1 (size 32)]
        """
        rank = len(self.order)
        if len(shape) != rank or any(n < 1 or n & (n - 1) for n in shape):
            raise UnsupportedError(f"{list(shape)} is not a shape of powers of two of rank {rank}")
        bases: dict[str, list[tuple[int, ...]]] = {
            name: [] for name in ("register", "lane", "warp", "block")
        }
        reached = [1] * rank
        sides = self.size_per_thread, self.threads_per_warp, self.warps_per_block
        for name, side in zip(("register", "lane", "warp"), sides, strict=True):
            for d in self.order:
                for _ in range(side[d].bit_length() - 1):
                    # Bits beyond the tensor are zero bases: the threads with such a bit hold the
                    # same elements as those without it.
                    bases[name].append(_unit(rank, d, reached[d] if reached[d] < shape[d] else 0))
                    reached[d] *= 2
        for d in self.order:
            while reached[d] < shape[d]:
                bases["register"].append(_unit(rank, d, reached[d]))
                reached[d] *= 2
        ins = tuple([Side(name, tuple(found)) for name, found in bases.items()])
        return LinearLayout(ins, tuple([(f"dim{d}", n) for d, n in enumerate(shape)]))


def _unit(rank: int, d: int, value: int) -> tuple[int, ...]:
    return tuple(value if k == d else 0 for k in range(rank))


def layout_text(layout: LinearLayout) -> str:
    """Return the text of a linear layout as Triton prints it.

    Raises:
        UnsupportedError: The layout has an offset, for which Triton has no text.
    """
    if any(layout.offset):
        raise UnsupportedError(f"Triton's text has no offset, this layout {list(layout.offset)}")
    lines = []
    for side in layout.ins:
        if not side.bases:
            lines.append(f"- {side.name} is a size 1 dimension")
        for k, basis in enumerate(side.bases):
            mark = "  " if k else "- "
            lines.append(f"{mark}{side.name}={1 << k} -> ({', '.join(map(str, basis))})")
    outs = ", ".join(f"{name} (size {size})" for name, size in layout.outs)
    return "\n".join([*lines, f"where out dims are: [{outs}]"])


def parse_layout(text: str) -> LinearLayout:
    r"""Parse a linear layout that Triton printed.

    Raises:
        ParseError: The text is not a linear layout.

    >>> print(parse_layout("- lane=1 -> (2)\n  lane=2 -> (1)\nwhere out dims are: [x (size 4)]")
    ...       .ins[0].bases)
    ((2,), (1,))
    """
    sides: dict[str, list[tuple[int, ...]]] = {}
    outs: tuple[tuple[str, int], ...] | None = None
    for line in text.splitlines():
        if not line.strip():
            continue
        if outs is not None:
            raise ParseError(f"after the out dims: `{line[:60]}`")
        if found := _BASIS.fullmatch(line):
            bases = sides.setdefault(found[1], [])
            if int(found[2]) != 1 << len(bases):
                raise ParseError(f"expected {found[1]}={1 << len(bases)}, found `{line[:60]}`")
            bases.append(tuple(int(n) for n in found[3].split(",") if n.strip()))
        elif found := _SINGLE.fullmatch(line):
            sides.setdefault(found[1], [])
        elif found := _OUTS.fullmatch(line):
            outs = tuple([(name, int(size)) for name, size in _OUT.findall(found[1])])
        else:
            raise ParseError(f"no line of a linear layout: `{line[:60]}`")
    if outs is None:
        raise ParseError("a linear layout ends with `where out dims are: […]`")
    try:
        return LinearLayout(tuple([Side(n, tuple(b)) for n, b in sides.items()]), outs)
    except ValueError as error:
        raise ParseError(f"no linear layout: {error}") from None


def thread_map(layout: LinearLayout, shape: Sequence[int]) -> IndexingMap:
    """Return the map from threads and blocks to elements of a tensor, for a layout of one tile.

    The lanes of all warps are `th_x`, and the tiles of the tensor, in row-major order, are `bl_x`.
    Registers are range variables: one for the consecutive elements of a thread, and one for its
    other elements. Elements beyond the tensor are masked.

    Args:
        layout: Layout from register, lane and warp to an index in the tile.
        shape: Sizes of the tensor.

    Raises:
        UnsupportedError: The layout has other inputs, or several blocks, or another rank.

    >>> layout = Blocked((4,), (32,), (4,), (0,)).to_linear((512,))
    >>> print(thread_map(layout, (1000,)))
    (th_x, bl_x)[register] -> (th_x * 4 + bl_x * 512 + register), domain: th_x in [0, 127], \
bl_x in [0, 1], register in [0, 3], bl_x * 128 + th_x in [0, 249]
    """
    if len(shape) != len(layout.outs):
        raise UnsupportedError(f"the tile has rank {len(layout.outs)}, the tensor {len(shape)}")
    inside, threads, ranges = index_by_thread(layout)
    return over_tiles(inside, [size for _, size in layout.outs], shape, threads, ranges)


def index_by_thread(layout: LinearLayout) -> tuple[list[Expr], int, list[Variable]]:
    """Return the index in the tile that each thread holds, by thread number and registers.

    The thread number is `Dim(0)`. Registers are range variables: the last one enumerates
    consecutive elements, and another one precedes it if a thread holds more elements.

    Returns:
        The index, the threads of a block, and the ranges.

    Raises:
        UnsupportedError: The layout has other inputs, or several blocks.

    >>> layout = Blocked((1,), (32,), (4,), (0,)).to_linear((256,))
    >>> index, threads, ranges = index_by_thread(layout)
    >>> threads, *map(str, index), *[v.name for v in ranges]
    (128, '(d0 / 32) * 32 + s0 * 128 + d0 mod 32', 'register')
    """
    sizes = dict(layout.size_of)
    if sizes.get("block", 1) != 1 or not sizes.keys() <= {"register", "lane", "warp", "block"}:
        raise UnsupportedError("a layout of register, lane and warp is needed")
    m = layout.to_map(["register"])
    lanes = sizes.get("lane", 1)
    threads = lanes * sizes.get("warp", 1)
    thread: Expr = Dim(0)
    values = {"lane": thread % lanes if threads > lanes else thread, "warp": thread // lanes}
    names = [v.name for v in m.dims]
    new: dict[Var, Expr] = {
        Dim(k): values.get(name, linear((thread, 0))) for k, name in enumerate(names)
    }
    ranges = [Variable(v.interval, v.name) for v in m.ranges]
    near, registers = neighbours(layout), sizes.get("register", 1)
    if 1 < near < registers:
        new[Range(0)] = Range(0) * near + Range(1)
        outer = Variable(Interval(0, registers // near - 1), "register")
        ranges = [outer, Variable(Interval(0, near - 1), "vector")]
    return [substitute(e, new) for e in m.results], threads, ranges


def neighbours(layout: LinearLayout) -> int:
    """Return the number of contiguous elements that a thread holds in consecutive registers.

    >>> neighbours(Blocked((1, 4), (8, 4), (4, 1), (1, 0)).to_linear((32, 32)))
    4
    """
    bases = next((side.bases for side in layout.ins if side.name == "register"), ())
    count = 0
    while count < len(bases) and bases[count] == tuple([n << count for n in bases[0]]):
        count += 1
    return 1 << count if bases and sum(bases[0]) == 1 else 1


def over_tiles(
    inside: Sequence[Expr],
    tile: Sequence[int],
    shape: Sequence[int],
    threads: int,
    ranges: Sequence[Variable],
) -> IndexingMap:
    """Return the map from threads and blocks to elements of a tensor; each block has one tile.

    Args:
        inside: Index in a tile, as expressions in the thread `Dim(0)` and the ranges.
        tile: Sizes of a tile.
        shape: Sizes of the tensor; elements beyond it are masked.
        threads: Threads of a block.
        ranges: Loops and registers of a thread.
    """
    counts = [-(-n // size) for n, size in zip(shape, tile, strict=True)]
    results, masks = [], []
    tiles = 1
    for d in range(len(shape) - 1, -1, -1):
        number: Expr = Dim(1) // tiles if tiles > 1 else Dim(1)
        if d and counts[d] > 0:
            number = number % counts[d]
        tiles *= counts[d]
        element = number * tile[d] + inside[d]
        results.append(element)
        if shape[d] % tile[d]:
            masks.append((element, Interval(0, shape[d] - 1)))
    dims = [Variable(Interval(0, threads - 1), "th_x"), Variable(Interval(0, tiles - 1), "bl_x")]
    return IndexingMap(dims, ranges, (), results[::-1], masks).simplify(replace_points=False)
