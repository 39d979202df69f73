"""CuTe layouts: nested sizes and strides, as functions of one index, and their algebra.

The first mode varies fastest. `f(x) = sum of ((x / (s_0 * ... * s_{i-1})) mod s_i) * d_i`, and a
swizzle xors some bits of the result with others.

Source: CUTLASS documentation, "CuTe Layouts" and "CuTe Layout Algebra".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.affine import Const, Dim, Expr, linear
from hloscope.errors import ParseError, UnsupportedError
from hloscope.indexing import IndexingMap, below, prove_equal
from hloscope.indexing.layouts.digits import Mode, Strided
from hloscope.indexing.layouts.sums import separated
from hloscope.support.lazy import pattern

IntTuple: TypeAlias = "int | tuple[IntTuple, ...]"
MOST_NESTING: Final = 64
_TOKEN: Final = pattern(r"\s*(?:_?(-?\d{1,30})|([(),:]))")
_SWIZZLED: Final = pattern(r"\s*Sw<(\d{1,3}),(\d{1,3}),(-?\d{1,3})>\s*o\s*_?0\s*o\s*(.*)", re.S)


class Swizzle(Struct, frozen=True):
    """The swizzle `Sw<bits,base,shift>`.

    The `bits` bits from bit `base` on are xored with the bits that are `shift` higher.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if not 0 <= self.bits <= abs(self.shift) <= 64 or not 0 <= self.base <= 64:
            raise ValueError(f"{self}: bits overlap, or there are none of them")

    def __call__(self, x: int) -> int:
        """Return the swizzled number.

        >>> Swizzle(2, 0, 2)(0b1001)
        11
        """
        mask = ((1 << self.bits) - 1) << (self.base + max(0, self.shift))
        moved = x & mask
        return x ^ (moved >> self.shift if self.shift >= 0 else moved << -self.shift)

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"


class CuteLayout(Struct, frozen=True):
    """A CuTe layout: nested sizes and strides, with an optional swizzle of the result.

    >>> layout = CuteLayout.parse("(4,(2,3)):(2,(1,8))")
    >>> layout.size, layout.cosize, [layout(x) for x in range(6)]
    (24, 24, [0, 2, 4, 6, 1, 3])
    """

    shape: IntTuple
    stride: IntTuple
    swizzle: Swizzle | None = None

    def __post_init__(self) -> None:
        modes = list(_modes(self.shape, self.stride))
        if any(size < 1 for size, _ in modes):
            raise ValueError("a mode has fewer than one element")

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Return the (size, stride) pairs without nesting, the fastest-varying first."""
        return tuple(_modes(self.shape, self.stride))

    @property
    def flat(self) -> Strided:
        """Return the function from index to value without the swizzle."""
        return Strided(self.modes)

    @property
    def size(self) -> int:
        """Return the number of indices."""
        return prod(mode.size for mode in self.modes)

    @property
    def cosize(self) -> int:
        """Return one more than the largest value, without the swizzle.

        Strides must not be negative.
        """
        return 1 + sum((mode.size - 1) * mode.stride for mode in self.modes)

    def __call__(self, x: int) -> int:
        """Return the value at an index."""
        value = self.flat(x)
        return value if self.swizzle is None else self.swizzle(value)

    def __str__(self) -> str:
        text = f"{_text(self.shape)}:{_text(self.stride)}"
        return text if self.swizzle is None else f"{self.swizzle} o _0 o {text}"

    @classmethod
    def parse(cls, text: str) -> CuteLayout:
        """Parse a layout in CuTe's form, `shape:stride`; static integers may begin with `_`.

        Raises:
            ParseError: The text is not a layout.

        >>> print(CuteLayout.parse("Sw<3,0,3> o _0 o (_8,_8):(_8,_1)"))
        Sw<3,0,3> o _0 o (8,8):(8,1)
        """
        swizzle = None
        if (found := _SWIZZLED.fullmatch(text)) is not None:
            swizzle = Swizzle(int(found[1]), int(found[2]), int(found[3]))
            text = found[4]
        parts = text.split(":")
        if len(parts) != 2:
            raise ParseError(f"expected `shape:stride`, found `{text[:60]}`")
        try:
            return cls(_parsed(parts[0]), _parsed(parts[1]), swizzle)
        except ValueError as error:
            raise ParseError(f"`{text[:60]}` is not a layout: {error}") from None

    def to_map(self, *, by_mode: bool = False) -> IndexingMap:
        """Return the layout as a map of one dimension.

        With `by_mode`, the map has a dimension for each outermost mode.

        >>> print(CuteLayout.parse("(4,8):(8,1)").to_map(by_mode=True))
        (d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]
        """
        groups = [Strided(self.modes)]
        if by_mode and isinstance(self.shape, tuple) and isinstance(self.stride, tuple):
            pairs = zip(self.shape, self.stride, strict=True)
            groups = [Strided(tuple(_modes(*pair))) for pair in pairs]
        terms: list[tuple[Expr, int]] = [(g.expression(Dim(k)), 1) for k, g in enumerate(groups)]
        value = linear(*terms) if terms else Const(0)
        if self.swizzle is not None:
            value = _swizzled(value, self.swizzle)
        return IndexingMap([below(g.size) for g in groups], results=[value]).simplify(
            replace_points=False
        )

    def coalesce(self) -> CuteLayout:
        """Return the layout with the fewest modes for the same function."""
        return _of_modes(self.flat.merged().modes, self.swizzle)

    def compose(self, inner: CuteLayout) -> CuteLayout:
        """Return the layout of `x -> self(inner(x))`, with the nesting of `inner`.

        It is proved that the result is this function.

        Raises:
            UnsupportedError: The composition is not a layout, as sizes and strides do not divide,
                or `inner` has values outside of this layout.

        >>> a, b = CuteLayout.parse("(6,2):(8,2)"), CuteLayout.parse("(4,3):(3,1)")
        >>> print(a.compose(b))
        ((2,2),3):((24,2),8)
        """
        if inner.swizzle is not None:
            raise UnsupportedError("a layout of swizzled values")
        if inner.cosize > self.size:
            raise UnsupportedError(f"values up to {inner.cosize - 1}, indices below {self.size}")
        modes = self.flat.merged().modes
        shape, stride = _composed_tree(modes, inner.shape, inner.stride)
        # The digits of one mode may carry into the next, which mode-by-mode composition does not
        # see; so equality with the composed maps is proved.
        found = CuteLayout(shape, stride)
        plain = CuteLayout(self.shape, self.stride).to_map()
        if not prove_equal([found.to_map()], [inner.to_map().compose(plain)]).is_proved:
            raise UnsupportedError("modes of the inner layout carry into each other")
        return CuteLayout(shape, stride, self.swizzle)

    def complement(self, size: int) -> CuteLayout:
        """Return the layout of the values below `size` that this layout leaves out.

        Raises:
            UnsupportedError: Values overlap, or strides do not divide.

        >>> print(CuteLayout.parse("4:2").complement(24))
        (2,3):(1,8)
        """
        if self.swizzle is not None:
            raise UnsupportedError("a complement of swizzled values")
        modes: list[Mode] = []
        current = 1
        for n, d in sorted(self.flat.merged().modes, key=lambda mode: mode.stride):
            if d == 0:
                continue
            # The modes, sorted by stride, must nest: each begins where the values below end.
            if d < current or d % current:
                raise UnsupportedError(f"stride {d} is not a multiple of {current}")
            modes.append(Mode(d // current, current))
            current = n * d
        modes.append(Mode(-(-size // current), current))
        return _of_modes(Strided(tuple(modes)).merged().modes)

    def logical_divide(self, tiler: CuteLayout) -> CuteLayout:
        """Divide the layout into tiles: first the elements of a tile, then the tiles.

        The result is `self o (tiler, complement(tiler, size))`.

        >>> print(CuteLayout.parse("16:1").logical_divide(CuteLayout.parse("4:2")))
        (4,(2,2)):(2,(1,8))
        """
        rest = tiler.complement(self.size)
        both = CuteLayout((tiler.shape, rest.shape), (tiler.stride, rest.stride))
        return self.compose(both)


def cute_of(m: IndexingMap) -> CuteLayout:
    """Return a map to one number as a CuTe layout.

    The layout has a mode for each variable, dimensions first. `layout.to_map(by_mode=True)` is
    proved to be the same relation. A map of one variable is a layout without nesting.

    Raises:
        UnsupportedError: The map is not a CuTe layout; the message gives the reason.

    >>> m = IndexingMap.parse("(d0, d1) -> (d1 * 4 + d0), domain: d0 in [0, 3], d1 in [0, 7]")
    >>> print(cute_of(m))
    (4,8):(1,4)
    """
    if len(m.results) != 1:
        raise UnsupportedError(f"{len(m.results)} results, a CuTe layout has one: linearise first")
    ((base, digits),) = separated(m)
    if base:
        raise UnsupportedError(f"a layout begins at 0, this map at {base}: offset the pointer")
    pairs = [_tree(form.modes) for _, form in digits]
    if len(pairs) == 1:
        return CuteLayout(*pairs[0])
    return CuteLayout(tuple(shape for shape, _ in pairs), tuple(stride for _, stride in pairs))


def _tree(modes: Sequence[Mode]) -> tuple[IntTuple, IntTuple]:
    if not modes:
        return 1, 0
    if len(modes) == 1:
        return modes[0].size, modes[0].stride
    return tuple(mode.size for mode in modes), tuple(mode.stride for mode in modes)


def _of_modes(modes: Sequence[Mode], swizzle: Swizzle | None = None) -> CuteLayout:
    return CuteLayout(*_tree(modes), swizzle)


def _modes(shape: IntTuple, stride: IntTuple) -> Iterator[Mode]:
    """Yield the (size, stride) pairs of a shape and a stride with the same nesting, fastest first.

    Raises:
        ValueError: The nestings differ, or are too deep.
    """
    stack = [(shape, stride, 0)]
    while stack:
        size, step, depth = stack.pop()
        if depth > MOST_NESTING:
            raise ValueError(f"nested more than {MOST_NESTING} deep")
        if isinstance(size, int) and isinstance(step, int):
            yield Mode(size, step)
        elif isinstance(size, tuple) and isinstance(step, tuple) and len(size) == len(step):
            stack += [(a, b, depth + 1) for a, b in zip(size[::-1], step[::-1], strict=True)]
        else:
            raise ValueError("shape and stride are not nested alike")


def _composed_tree(
    modes: Sequence[Mode], shape: IntTuple, stride: IntTuple
) -> tuple[IntTuple, IntTuple]:
    """Compose `modes` with each mode of an inner layout; return nested shape and stride.

    The nesting is that of the inner layout.

    Args:
        modes: Modes of the outer layout, without nesting.
        shape: Shape of the inner layout.
        stride: Stride of the inner layout.
    """
    leaves = iter([_tree(_composed(modes, mode)) for mode in _modes(shape, stride)])
    shapes: list[list[IntTuple]] = [[]]
    strides: list[list[IntTuple]] = [[]]
    # `None` marks the end of a tuple, so that deep nesting needs no recursion.
    todo: list[IntTuple | None] = [shape]
    while todo:
        at = todo.pop()
        if at is None:
            done = tuple(shapes.pop()), tuple(strides.pop())
            shapes[-1].append(done[0])
            strides[-1].append(done[1])
        elif isinstance(at, tuple):
            shapes.append([])
            strides.append([])
            todo += [None, *at[::-1]]
        else:
            size, step = next(leaves)
            shapes[-1].append(size)
            strides[-1].append(step)
    return shapes[0][0], strides[0][0]


def _composed(modes: Sequence[Mode], inner: Mode) -> tuple[Mode, ...]:
    """Return the modes of the composition of a layout with one inner mode.

    Args:
        modes: Modes of the outer layout.
        inner: The inner mode.

    Raises:
        UnsupportedError: `inner` does not select whole digits.
    """
    rest, step = inner
    if step == 0 or not modes:
        return (Mode(rest, 0),)
    if step < 0:
        raise UnsupportedError(f"a negative stride, {step}")
    found: list[Mode] = []
    for size, stride in modes[:-1]:
        # The stride skips this digit completely: every selected element has the digit 0 here.
        if step % size == 0:
            step //= size
            continue
        if size % step:
            raise UnsupportedError(f"a stride of {step} and a mode of {size} do not divide")
        count = min(size // step, rest)
        if rest % count:
            raise UnsupportedError(f"{rest} elements do not come in {count}s")
        found.append(Mode(count, step * stride))
        rest //= count
        step = 1
        if rest == 1:
            break
    if rest > 1:
        found.append(Mode(rest, step * modes[-1].stride))
    return tuple(found) or (Mode(1, 0),)


def _swizzled(value: Expr, swizzle: Swizzle) -> Expr:
    """Return the expression for `value` after a swizzle; each xor is the parity of two bits."""
    terms: list[tuple[Expr, int]] = [(value, 1)]
    for b in range(swizzle.base, swizzle.base + swizzle.bits):
        to, place = b - min(0, swizzle.shift), b + max(0, swizzle.shift)
        here, other = (value // (1 << to)) % 2, (value // (1 << place)) % 2
        # Replace bit `to` by the parity: add the new bit, subtract the old one.
        terms += [((here + other) % 2, 1 << to), (here, -(1 << to))]
    return linear(*terms)


def _text(tree: IntTuple) -> str:
    return str(tree).replace(" ", "").replace(",)", ")")


def _parsed(text: str) -> IntTuple:
    """Parse a nested tuple of integers, such as `(4,(2,2))`.

    Raises:
        ValueError: The text is not a nested tuple of integers.
    """
    stack: list[list[IntTuple]] = [[]]
    at = 0
    while text[at:].strip():
        token = _TOKEN.match(text, at)
        if token is None or token[2] == ":":
            raise ValueError(f"`{text[at : at + 10]}`")
        at = token.end()
        if token[1] is not None:
            stack[-1].append(int(token[1]))
        elif token[2] == "(":
            stack.append([])
        elif token[2] == ")":
            if len(stack) < 2:
                raise ValueError("a `)` too many")
            done = tuple(stack.pop())
            stack[-1].append(done)
        if len(stack) > MOST_NESTING:
            raise ValueError(f"nested more than {MOST_NESTING} deep")
    if len(stack) != 1 or len(stack[0]) != 1:
        raise ValueError(f"`{text}` is not one number or tuple")
    return stack[0][0]
