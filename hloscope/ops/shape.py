"""Ops that move elements without computing: broadcast, reshape, transpose, bitcast and the like."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from hloscope.ops.base import Callee, Dims, Op, Type, op
from hloscope.ops.infer_util import (
    Extent,
    array,
    bare,
    check_dims,
    common_element,
    count,
    extents,
    require,
    resized,
    same_sizes,
    scalar,
    static,
    tensor,
    tensors,
)


def _with(dims: Sequence[Extent], d: int, extent: Extent) -> list[Extent]:
    return [*dims[:d], extent, *dims[d + 1 :]]


def _padded(size: int, *, edges: int, interior: int) -> int:
    return size + max(size - 1, 0) * interior + edges


def _added(a: Extent, b: Extent) -> Extent:
    size = None if a[0] is None or b[0] is None else a[0] + b[0]
    bounds = [x[1] if x[0] is None else x[0] for x in (a, b)]
    return size, None if None in bounds else sum(filter(None, bounds))


@op("broadcast_in_dim")
class BroadcastInDim(Op):
    """`result[i] = operand[i[broadcast_dimensions[d]] or 0 where the operand's size is 1]`.

    HLO's `broadcast` is the same op.  Source: StableHLO spec `broadcast_in_dim`.
    """

    broadcast_dimensions: Dims


@op("broadcast")
class Broadcast(Op):
    """StableHLO's old `broadcast`: adds `broadcast_sizes` as new leading dimensions."""

    broadcast_sizes: Dims

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        for d, size in enumerate(self.broadcast_sizes):
            require(size >= 0, "", f"broadcast_sizes[{d}] is {size}, needs at least 0")
        return array(t.element, [*static(self.broadcast_sizes), *extents(t)])


@op("reshape")
class Reshape(Op):
    """Same elements in row-major order under another shape."""

    inferred_dimension: int | None = None


@op("transpose")
class Transpose(Op):
    """`result[i] = operand[j]` with `j[permutation[d]] = i[d]`."""

    permutation: Dims

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        require(
            sorted(self.permutation) == list(range(t.rank)),
            "transpose_c2",
            f"permutation {list(self.permutation)} is not one of the {t.rank} dimensions",
        )
        dims = extents(t)
        return array(t.element, [dims[d] for d in self.permutation])


@op("reverse")
class Reverse(Op):
    """`result[i] = operand[i]` with `i[d]` counted from the end for `d` in `dimensions`."""

    dimensions: Dims

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        check_dims(self.dimensions, t.rank, "dimensions", unique="reverse_c2", inside="reverse_c3")
        return bare(t)


@op("bitcast")
class Bitcast(Op):
    """Same bytes in memory under another type and layout (HLO)."""

    result_layout: str = ""


@op("bitcast_convert")
class BitcastConvert(Op):
    """Same bits as another element type; a narrower one adds a last dimension."""


@op("iota")
class Iota(Op):
    """`result[i] = i[iota_dimension]`."""

    iota_dimension: int


@op("constant")
class Constant(Op):
    """A literal, kept as written until somebody asks for its value."""

    literal: str


@op("concatenate")
class Concatenate(Op):
    """Operands one after the other along `dimension`."""

    dimension: int

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1, at_least=True)
        types = tensors(self.name, operands)
        first, axis = types[0], self.dimension
        require(
            0 <= axis < first.rank,
            "concatenate_c4",
            f"dimension {axis} is not in [0, {first.rank})",
        )
        for i, t in enumerate(types):
            require(
                t.rank == first.rank,
                "concatenate_c2",
                f"operand {i} has rank {t.rank}, needs {first.rank}",
            )
        apart = [array(t.element, _with(extents(t), axis, (1, None))) for t in types]
        dims = same_sizes(self.name, apart, "concatenate_c2")
        lengths = [extents(t)[axis] for t in types]
        dims[axis] = reduce(_added, lengths)
        return array(common_element(self.name, types, "concatenate_c1"), dims)


@op("pad")
class Pad(Op):
    """`result[low + i * (interior + 1)] = operand[i]`, the padding value elsewhere.  Elements.

    Operands: the array, the padding value.  Negative `low` and `high` cut.
    """

    edge_padding_low: Dims
    edge_padding_high: Dims
    interior_padding: Dims

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 2)
        t = tensor(self.name, operands[0], "the operand")
        value = scalar(self.name, operands[1], "the padding value", "pad_i2")
        amounts = (self.edge_padding_low, self.edge_padding_high, self.interior_padding)
        for what, given in zip(("low", "high", "interior"), amounts, strict=True):
            require(
                len(given) == t.rank,
                "pad_c2",
                f"{what} padding is given for {len(given)} dimensions, needs {t.rank}",
            )
        dims: list[Extent] = []
        for d, (size, low, high, interior) in enumerate(zip(extents(t), *amounts, strict=True)):
            require(interior >= 0, "pad_c3", f"dimension {d}: interior padding {interior} < 0")
            edges = low + high
            dims.append(resized(size, partial(_padded, edges=edges, interior=interior)))
            least = min((x for x in dims[d] if x is not None), default=0)
            require(
                least >= 0, "pad_c4", f"dimension {d}: size {least} of the result, needs at least 0"
            )
        return array(common_element(self.name, (t, value), "pad_c1"), dims)
