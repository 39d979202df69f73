"""Triton's linear layouts: from bits of register, lane, warp and block to bits of an index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from hloscope.affine import Const, Dim, Expr, Interval, Range, Var, linear
from hloscope.errors import UnsupportedError
from hloscope.indexing import IndexingMap, Variable, prove_equal
from hloscope.indexing.layouts.sums import refuse_unbounded, value_at
from hloscope.support.arrays import np

# --------------------------------------------------------------------------------------------------
# Triton's linear layouts: from bits of register, lane, warp and block to bits of an index.
#
# A layout is linear over the field of two elements: `L(a xor b) = L(a) xor L(b)`, so the images of
# the powers of two, its bases, determine it. Composition, inverse and kernel are matrix algebra.
#
# Source: Triton `LinearLayout.h`; Zhou et al., "Linear Layouts".


MOST_BITS: Final = 62
"""Maximum number of bits of all inputs, and of all outputs."""
MOST_POINTS: Final = 1 << 16
"""Maximum number of points that are compared one by one; for more, isl proves equality."""


class Side(Struct, frozen=True):
    """An input of a linear layout.

    `bases` has, for each of its bits, the value that the bit xors to each output.
    """

    name: str
    bases: tuple[tuple[int, ...], ...]


class LinearLayout(Struct, frozen=True):
    """A linear layout: outputs are the xor of the bases of all set input bits.

    Attributes:
        ins: The inputs; an input with n bases has 2^n values.
        outs: Name and size of each output; sizes are powers of two.
        offset: Outputs for inputs of 0; it shares no bit with a basis.

    >>> layout = LinearLayout((Side("register", ((1,),)), Side("lane", ((2,), (4,)))), (("x", 8),))
    >>> layout(register=1, lane=3)
    (7,)
    """

    ins: tuple[Side, ...]
    outs: tuple[tuple[str, int], ...]
    offset: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "offset", self.offset or (0,) * len(self.outs))
        sizes = [size for _, size in self.outs]
        if any(size < 1 or size & (size - 1) for size in sizes):
            raise ValueError("the size of an output is not a power of two")
        if sum(len(side.bases) for side in self.ins) > MOST_BITS:
            raise ValueError(f"more than {MOST_BITS} bits")
        if sum(size.bit_length() - 1 for size in sizes) > MOST_BITS:
            raise ValueError(f"more than {MOST_BITS} bits")
        names = [side.name for side in self.ins], [name for name, _ in self.outs]
        if any(len(set(side)) < len(side) for side in names):
            raise ValueError("two dimensions of one name")
        spans = [0] * len(sizes)
        for basis in [basis for side in self.ins for basis in side.bases]:
            if len(basis) != len(sizes) or any(
                not 0 <= value < size for value, size in zip(basis, sizes, strict=True)
            ):
                raise ValueError(f"basis {basis} does not fit outputs of sizes {sizes}")
            spans = [a | b for a, b in zip(spans, basis, strict=True)]
        if len(self.offset) != len(sizes) or any(
            not 0 <= at < size or at & span
            for at, size, span in zip(self.offset, sizes, spans, strict=True)
        ):
            raise ValueError(f"offset {self.offset} has bits of a basis")

    def __call__(self, **inputs: int) -> tuple[int, ...]:
        """Return the outputs for the given inputs; missing inputs are 0.

        Raises:
            ValueError: An input is unknown or out of bounds.
        """
        found = list(self.offset)
        sides = {side.name: side.bases for side in self.ins}
        for name, value in inputs.items():
            if name not in sides or not 0 <= value < 1 << len(sides[name]):
                raise ValueError(f"no input `{name}`, or {value} is out of its bounds")
            for k, basis in enumerate(sides[name]):
                if value >> k & 1:
                    found = [a ^ b for a, b in zip(found, basis, strict=True)]
        return tuple(found)

    @property
    def size_of(self) -> Mapping[str, int]:
        """Return the size of each input."""
        return {side.name: 1 << len(side.bases) for side in self.ins}

    @property
    def columns(self) -> Columns:
        """Return the matrix over bits, as one number for each input bit.

        The number has the output bits that the input bit flips; those of the first output are
        lowest.
        """
        return tuple([self._packed(basis) for side in self.ins for basis in side.bases])

    @property
    def rank(self) -> int:
        """Return the rank of the matrix over bits."""
        return rank(self.columns)

    @property
    def is_injective(self) -> bool:
        """Do different inputs have different outputs?"""
        return self.rank == len(self.columns)

    @property
    def is_surjective(self) -> bool:
        """Is every index of the outputs reached by some input?"""
        return not any(self.offset) and self.rank == self._out_bits

    @property
    def _out_bits(self) -> int:
        return sum(size.bit_length() - 1 for _, size in self.outs)

    def _packed(self, values: Iterable[int]) -> int:
        """Return one number with the bits of each output's value; the first output is lowest."""
        packed = at = 0
        for value, (_, size) in zip(values, self.outs, strict=True):
            packed |= value << at
            at += size.bit_length() - 1
        return packed

    def kernel(self) -> tuple[dict[str, int], ...]:
        """Return a basis of the inputs whose xor with an input leaves the outputs unchanged.

        Each item has the value of every input. These are the broadcast bits.

        >>> layout = LinearLayout((Side("lane", ((1,), (0,), (1,))),), (("x", 2),))
        >>> layout.kernel()
        ({'lane': 2}, {'lane': 5})
        """
        return tuple([self._inputs(bits) for bits in kernel(self.columns)])

    def _inputs(self, bits: int) -> dict[str, int]:
        """Return the value of each input, from the bits of all inputs as one number.

        The bits of the first input are the lowest. Inputs with the value 0 are left out.
        """
        found = {}
        for side in self.ins:
            if value := bits & ((1 << len(side.bases)) - 1):
                found[side.name] = value
            bits >>= len(side.bases)
        return found

    def compose(self, then: LinearLayout) -> LinearLayout:
        """Return the layout that applies this one, then `then`.

        The outputs become the inputs of `then`, in order.

        Raises:
            ValueError: The sizes of outputs and inputs differ.

        >>> swap = LinearLayout((Side("x", ((2,), (1,))),), (("x", 4),))
        >>> swap.compose(swap).ins[0].bases
        ((1,), (2,))
        """
        if [size for _, size in self.outs] != [*then.size_of.values()]:
            raise ValueError(f"outputs {self.outs} are not inputs {dict(then.size_of)}")

        def image(values: Sequence[int]) -> tuple[int, ...]:
            named = dict(zip(then.size_of, values, strict=True))
            return tuple([a ^ b for a, b in zip(then(**named), then.offset, strict=True)])

        ins = tuple([Side(side.name, tuple(map(image, side.bases))) for side in self.ins])
        start = then(**dict(zip(then.size_of, self.offset, strict=True)))
        return LinearLayout(ins, then.outs, start)

    def inverse(self) -> LinearLayout:
        """Return the layout from outputs to inputs.

        Raises:
            UnsupportedError: The layout is not one to one, or not onto.

        >>> turn = LinearLayout((Side("x", ((2,), (3,))),), (("y", 4),))
        >>> turn.inverse().ins
        (Side(name='y', bases=((3,), (1,))),)
        """
        if not (self.is_injective and self.is_surjective):
            what = "one to one" if not self.is_injective else "onto"
            raise UnsupportedError(f"no inverse: the layout is not {what}")
        outs = tuple([(side.name, 1 << len(side.bases)) for side in self.ins])
        rows = iter(inverse(self.columns))
        ins = []
        for name, size in self.outs:
            found = [self._inputs(next(rows)) for _ in range(size.bit_length() - 1)]
            bases = tuple([tuple([x.get(out, 0) for out, _ in outs]) for x in found])
            ins.append(Side(name, bases))
        return LinearLayout(tuple(ins), outs)

    def to_map(self, ranges: Iterable[str] = ()) -> IndexingMap:
        """Return the layout as an indexing map from inputs to outputs.

        Args:
            ranges: Inputs that are range variables; the others are dimensions.

        >>> turn = LinearLayout((Side("lane", ((4,), (1,), (2,))),), (("x", 8),))
        >>> print(turn.to_map())
        (lane) -> ((lane mod 2) * 4 + lane / 2), domain: lane in [0, 7]
        """
        chosen = frozenset(ranges)
        place: dict[str, Var] = {}
        kept: tuple[list[Variable], list[Variable]] = ([], [])
        for side in self.ins:
            inner = side.name in chosen
            place[side.name] = Range(len(kept[1])) if inner else Dim(len(kept[0]))
            kept[inner].append(Variable(Interval(0, (1 << len(side.bases)) - 1), side.name))
        sources = [(place[s.name], k, basis) for s in self.ins for k, basis in enumerate(s.bases)]
        widths = {place[s.name]: len(s.bases) for s in self.ins}
        results = [
            _value([(v, k, basis[n]) for v, k, basis in sources], widths, size) + self.offset[n]
            for n, (_, size) in enumerate(self.outs)
        ]
        return IndexingMap(kept[0], kept[1], (), results)


def _value(bits: Sequence[tuple[Var, int, int]], widths: Mapping[Var, int], size: int) -> Expr:
    """Return one output as an expression of the inputs.

    Runs of bits of one variable are digits; other bits are parities.

    Args:
        bits: Variable, bit number and basis value of each input bit.
        widths: Number of bits of each variable.
        size: Size of the output.
    """
    terms: list[tuple[Expr, int]] = []
    at = 0
    most = size.bit_length() - 1
    while at < most:
        found = [(v, k) for v, k, value in bits if value >> at & 1]
        run = 1
        if len(found) == 1:
            v, k = found[0]
            while at + run < most and [
                (u, j) for u, j, value in bits if value >> (at + run) & 1
            ] == [(v, k + run)]:
                run += 1
            terms.append((_field(v, k, run, widths[v]), 1 << at))
        elif found:
            terms.append((linear(*[(v // (1 << k), 1) for v, k in found]) % 2, 1 << at))
        at += run
    return linear(*terms) if terms else Const(0)


def _field(v: Var, low: int, count: int, width: int) -> Expr:
    """Return the `count` bits of `v` from bit `low` on, as an expression; `v` has `width` bits."""
    digit: Expr = v // (1 << low) if low else v
    return digit if low + count == width else digit % (1 << count)


def linear_of(m: IndexingMap, names: Sequence[str] = ()) -> LinearLayout:
    """Return a map as a linear layout: its variables are the inputs, its results the outputs.

    The size of an output is the power of two above its largest value. `layout.to_map()` with its
    ranges is proved to be the same relation.

    Args:
        m: The map.
        names: Names of the outputs; by default `dim0`, `dim1` and so on.

    Raises:
        UnsupportedError: The map is not linear; the message gives the reason.

    >>> m = IndexingMap.parse("(lane)[r] -> (lane / 4, (lane mod 4) * 2 + r), "
    ...                       "domain: lane in [0, 31], r in [0, 1]")
    >>> linear_of(m).ins[0].bases
    ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
    """
    variables = refuse_unbounded(m)
    for v in variables:
        size = m.box[v].size
        if size & (size - 1):
            raise UnsupportedError(f"`{m.names[v]}` has {size} values, not a power of two")
    start = value_at(m, variables, {})
    ins = []
    for v in variables:
        bits = range(m.box[v].size.bit_length() - 1)
        # A linear map is determined by its values at powers of two; whether the map is linear is
        # decided below by comparing all points, or by a proof.
        images = [value_at(m, variables, {v: 1 << k}) for k in bits]
        bases = tuple([tuple(a ^ b for a, b in zip(i, start, strict=True)) for i in images])
        ins.append(Side(m.names[v], bases))
    if (
        min((x for side in ins for basis in side.bases for x in basis), default=0) < 0
        or min(start, default=0) < 0
    ):
        raise UnsupportedError("a result is negative")
    spans = list(start)
    for basis in [basis for side in ins for basis in side.bases]:
        spans = [a | b for a, b in zip(spans, basis, strict=True)]
    named = names or [f"dim{k}" for k in range(len(spans))]
    outs = tuple([(n, 1 << s.bit_length()) for n, s in zip(named, spans, strict=True)])
    try:
        found = LinearLayout(tuple(ins), outs, start)
    except ValueError as error:
        raise UnsupportedError(f"no linear layout: {error}") from None
    back = found.to_map([m.names[Range(k)] for k in range(len(m.ranges))])
    if prod(m.box[v].size for v in variables) <= MOST_POINTS:
        why = _differs(m, back)
    else:
        proof = prove_equal([m], [back])
        why = "" if proof.is_proved else str(proof.counter_example or proof.reason)
    if why:
        raise UnsupportedError(f"not linear over bits: {why}")
    return found


def _differs(m: IndexingMap, other: IndexingMap) -> str:
    """Return a point at which `m` and `other` differ, as text; empty if there is none.

    A point at which `m` has no value counts as a difference.
    """
    sizes = [v.interval.size for v in (*m.dims, *m.ranges)]
    points = np.indices(sizes).reshape(len(sizes), -1)
    dims, ranges = [*points[: len(m.dims)]], [*points[len(m.dims) :]]
    bad = ~np.broadcast_to(m.satisfies_array(dims, ranges), points.shape[1:])
    pairs = (side.evaluate_array(dims, ranges) for side in (m, other))
    for here, there in zip(*pairs, strict=True):
        bad = bad | (here != there)
    if not bad.any():
        return ""
    return f"at {points[:, int(np.argmax(bad))].tolist()}"


# --------------------------------------------------------------------------------------------------
# Matrices over the field of two elements. Bit `i` of a column is its entry in row `i`.


Columns: TypeAlias = tuple[int, ...]


def _reduced(columns: Columns) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Eliminate column by column (Gaussian elimination over bits).

    Returns:
        By highest bit, each pivot and the set of columns that sum up to it; and for each column
        that is not a pivot, a set of columns that sum up to 0.
    """
    pivots: dict[int, tuple[int, int]] = {}
    zeros = []
    for k, column in enumerate(columns):
        of = 1 << k
        while column:
            top = column.bit_length() - 1
            if top not in pivots:
                pivots[top] = column, of
                break
            # Subtraction is xor: the highest bit disappears, and `of` follows which columns were
            # added.
            column ^= pivots[top][0]
            of ^= pivots[top][1]
        else:
            zeros.append(of)
    return pivots, zeros


def rank(columns: Columns) -> int:
    """Return the number of independent columns of a matrix over bits.

    A column is a number whose bits are its entries.

    >>> rank((0b01, 0b11, 0b10))
    2
    """
    return len(_reduced(columns)[0])


def kernel(columns: Columns) -> Columns:
    """Return a basis of the sets of columns whose xor is 0.

    Bit `k` of a number is set if column `k` is in the set.

    >>> kernel((0b01, 0b11, 0b10))
    (7,)
    """
    return tuple(_reduced(columns)[1])


def inverse(columns: Columns) -> Columns:
    """Return the inverse of a square matrix over bits of full rank, as columns.

    A column is a number whose bits are its entries.

    >>> inverse((0b01, 0b11))
    (1, 3)
    """
    pivots, _ = _reduced(columns)
    found = []
    for row in range(len(columns)):
        rest, of = 1 << row, 0
        while rest:
            column, members = pivots[rest.bit_length() - 1]
            rest ^= column
            of ^= members
        found.append(of)
    return tuple(found)
