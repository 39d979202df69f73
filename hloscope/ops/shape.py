"""Ops that rearrange elements: broadcast, reshape, transpose, bitcast and the like."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from math import prod
from operator import itemgetter
from typing import ClassVar

from hloscope.errors import MessageTemplate, Name, message_of
from hloscope.ir import (
    ELEMENT_TYPES,
    Callees,
    Dims,
    ElementType,
    IncompatibleTypesError,
    Literal,
    Op,
    QuantizedType,
    TensorType,
    Type,
    Types,
    compatible_elements,
)
from hloscope.ops.inference import (
    PRED,
    Extent,
    array,
    common_element,
    concatenated,
    count,
    extents,
    may_be_one_size,
    op,
    raw_size,
    raw_sizes,
    require,
    resized,
    same_sizes,
    scalar,
    size_text,
    sizes_text,
    static,
    tensor,
    tensors,
    with_element,
    without_layouts,
)
from hloscope.ops.quantization import (
    any_quantized,
    check_broadcast,
    check_reshape,
    check_same_scale,
    check_transpose,
)


def _with(dims: Sequence[Extent], d: int, extent: Extent) -> list[Extent]:
    return [*dims[:d], extent, *dims[d + 1 :]]


def _padded(size: int, *, edges: int, interior: int) -> int:
    return size + max(size - 1, 0) * interior + edges


def _pair(op: Op, operands: Types, results: Types) -> list[TensorType]:
    """Return the array types of the only operand and of the first result of an op.

    Raises:
        VerifyError: There are several operands, or a type is not an array type.
    """
    count(op.name, operands, 1)
    operand = tensor(op.name, operands[0], "the operand")
    return [operand, tensor(op.name, results[0], "the result")]


def check_compatible_elements(a: TensorType, b: TensorType, rule: str) -> None:
    """Check that element types are compatible; the scales of quantized types may differ.

    `rule` is the label of the constraint.
    """
    require(
        compatible_elements(a.element, b.element),
        rule,
        "requires compatible element types for all operands and results",
    )


def check_element_counts(operand: TensorType, result: TensorType, rule: str) -> None:
    """Check that operand and result have equally many elements, if all sizes are known.

    `rule` is the label of the constraint.
    """
    if operand.is_static and result.is_static:
        found, needed = prod(result.shape), prod(operand.shape)
        require(
            found == needed,
            rule,
            f"number of output elements ({found}) doesn't match expected number of elements"
            f" ({needed})",
        )


def check_unique(dims: Dims, rule: str) -> None:
    """Check that the entries of `broadcast_dimensions` are distinct.

    `dims` are these entries, `rule` is the label of the constraint.
    """
    message = "broadcast_dimensions should not have duplicates"
    require(len(set(dims)) == len(dims), rule, message)


@op("broadcast_in_dim")
class BroadcastInDim(Op):
    """`result[i] = operand[j]` with `j[d] = i[broadcast_dimensions[d]]`, or 0 along a size of 1.

    HLO's `broadcast` is the same op.  Source: StableHLO spec `broadcast_in_dim`.

    Attributes:
        broadcast_dimensions: Result dimension of each operand dimension.
    """

    broadcast_dimensions: Dims

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        t, result = _pair(self, operands, results)
        dims = self.broadcast_dimensions
        if not t.element.kind == result.element.kind == "float":  # HLO may mix their widths
            check_compatible_elements(t, result, "broadcast_in_dim_c1")
        check_same_scale(t, result, "broadcast_in_dim_c1")
        require(
            len(dims) == t.rank,
            "broadcast_in_dim_c2",
            f"broadcast_dimensions size ({len(dims)}) does not match operand rank ({t.rank})",
        )
        check_unique(dims, "broadcast_in_dim_c4")
        goals = extents(result)
        for d, (size, target) in enumerate(zip(t.sizes, dims, strict=True)):
            require(
                0 <= target < result.rank,
                "broadcast_in_dim_c3",
                f"broadcast_dimensions contains invalid value {target} for result with rank"
                f" {result.rank}",
            )
            require(
                size is None or size == 1 or size in goals[target],
                "broadcast_in_dim_c5",
                f"size of operand dimension {d} ({size_text(size)}) is not equal to 1 or size of"
                f" result dimension {target} ({raw_size(result.sizes[target])})",
            )
        check_broadcast(t, result, dims, "broadcast_in_dim_c6")


@op("broadcast")
class Broadcast(Op):
    """The former `broadcast` of StableHLO: adds `broadcast_sizes` as leading dimensions."""

    broadcast_sizes: Dims

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        for size in self.broadcast_sizes:
            require(size >= 0, "", f"Broadcast with negative dimension size {size}")
        return array(t.element, [*static(self.broadcast_sizes), *extents(t)])


@op("reshape")
class Reshape(Op):
    """The elements in row-major order, in another shape.

    Attributes:
        inferred_dimension: The dynamic dimension that HLO infers, if it is stated.
    """

    inferred_dimension: int | None = None

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        t, result = _pair(self, operands, results)
        check_compatible_elements(t, result, "reshape_c1")
        check_element_counts(t, result, "reshape_c2")
        if t.is_static and result.is_static and any_quantized(t, result):
            check_reshape(t, result, ("reshape_c1", "reshape_c3"))


@op("transpose")
class Transpose(Op):
    """`result[i] = operand[j]` with `j[permutation[d]] = i[d]`."""

    permutation: Dims
    result_rule: ClassVar[str] = "transpose_c3"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        self._check(t.rank)
        dims = extents(t)
        return array(t.element, [dims[d] for d in self.permutation])

    def _check(self, rank: int) -> None:
        found = self.permutation
        require(
            len(found) == rank,
            "transpose_c2",
            f"TransposeOp operand rank {rank} does not match permutation size {len(found)}",
        )
        require(
            sorted(found) == list(range(rank)),
            "transpose_c2",
            f"attribute permutation must be a permutation of [{sizes_text(range(rank))}] but got"
            f" {sizes_text(found)}",
        )

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        t, result = _pair(self, operands, results)
        check_compatible_elements(t, result, "transpose_c1")
        if any_quantized(t, result):
            check_transpose(t, result, self.permutation)
        super().verify(operands, results, calls)


@op("reverse")
class Reverse(Op):
    """`result[i] = operand[i]` with `i[d]` counted from the end for `d` in `dimensions`."""

    dimensions: Dims
    result_rule: ClassVar[str] = "reverse_c1"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        self._check(t.rank)
        return without_layouts(t)

    def _check(self, rank: int) -> None:
        dims = self.dimensions
        message = f"dimensions should be unique. Got: {sizes_text(dims)}"
        require(len(set(dims)) == len(dims), "reverse_c2", message)
        for d in dims:
            message = f"all dimensions should be non-negative. Got dimension: {d}."
            require(d >= 0, "reverse_c3", message)
            message = f"all dimensions should be between [0, {rank}). Got dimension: {d}."
            require(d < rank, "reverse_c3", message)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        self._check(_pair(self, operands, results)[0].rank)
        super().verify(operands, results, calls)


@op("bitcast")
class Bitcast(Op):
    """The bytes in memory, with another type and layout (HLO)."""

    result_layout: str = ""


def _complex(t: TensorType) -> bool:
    return t.element.kind == "complex"


def _bits(element: ElementType, bits_of_pred: int) -> int:
    if isinstance(element, QuantizedType):
        element = element.storage
    return bits_of_pred if element == PRED else element.bits


@op("bitcast_convert")
class BitcastConvert(Op):
    """The bits as another element type; a narrower type adds a last dimension.

    A boolean has 1 bit; HLO also accepts 8.
    """

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        t, result = _pair(self, operands, results)
        require(
            _complex(t) == _complex(result),
            "bitcast_convert_c2",
            message_of(
                "cannot convert between real and complex types, but got: {} and {}", t, result
            ),
        )
        message = _bits_differ(t, result, 1)
        require(not message, "bitcast_convert_c1", message)

    def fits_with_bytes(self, operand: Type, result: Type) -> bool:
        """Can operand and result have the same bits if a boolean has 8 bits?"""
        before, after = _pair(self, (operand,), (result,))
        return not _bits_differ(before, after, 8)


def _bits_differ(t: TensorType, result: TensorType, bits_of_pred: int) -> str | MessageTemplate:
    """Return the reason why the arrays cannot have the same bits; empty if they can.

    `t` is the type of the operand. A boolean has `bits_of_pred` bits.
    """
    # The array of narrower elements has one more dimension, which covers one wide element.
    width, new = _bits(t.element, bits_of_pred), _bits(result.element, bits_of_pred)
    (small, low), (big, high) = (
        ((t, width), (result, new))
        if width < new
        else (
            (result, new),
            (t, width),
        )
    )
    both = message_of("Got: {} and {}", t, result)
    outer = small.sizes
    if low != high:
        if small.rank != big.rank + 1:
            return (
                f"rank of smaller element type ({small.rank}) should be 1 more than rank of larger"
                f" element type ({big.rank}), but {small.rank} != {big.rank} + 1."
            )
        *rest, last = small.sizes
        if last is not None and last * low != high:
            bits = f"{low} * {last} != {high}"
            return message_of(f"requires compatible bit widths. {{}}, but {bits}.", both)
        outer = tuple(rest)
    unlike = len(outer) != big.rank and t.is_static and result.is_static
    if unlike or not all(map(may_be_one_size, outer, big.sizes)):
        return message_of(
            "operand and result shapes must match except for the innermost dimension of the shape"
            " with the smaller element type. {}.",
            both,
        )
    return ""


@op("iota")
class Iota(Op):
    """`result[i] = i[iota_dimension]`."""

    iota_dimension: int

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        rank = tensor(self.name, results[0], "the result").rank
        require(rank > 0, "iota_c1", "does not support scalars.")
        require(
            0 <= self.iota_dimension < rank,
            "iota_c1",
            "iota dimension cannot go beyond the output rank.",
        )


@op("constant")
class Constant(Op):
    """A constant; if the literal has a type, that is the type of the result."""

    literal: Literal

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 0)
        if self.literal.type is None:
            return super().infer(operands, calls)
        return without_layouts(self.literal.type)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        if self.literal.type is None:
            return
        inferred, result = without_layouts(self.literal.type), without_layouts(results[0])
        if isinstance(result, TensorType) and isinstance(result.element, QuantizedType):
            storage = ELEMENT_TYPES[f"s{result.element.storage.bits}"]
            result = with_element(result, storage)
        if inferred != result:
            raise IncompatibleTypesError((inferred,), results, "constant_c1")


@op("concatenate")
class Concatenate(Op):
    """The operands, joined along `dimension`."""

    dimension: int
    result_rule: ClassVar[str] = "concatenate_c6"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        none = message_of("`{}` has no operands, needs at least 1", Name(self.name))
        require(bool(operands), "concatenate_c3", none)
        types = tensors(self.name, operands)
        first, axis = types[0], self.dimension
        require(first.rank > 0, "concatenate_c4", "rank-0 values cannot be concatenated")
        require(
            0 <= axis < first.rank,
            "concatenate_c4",
            f"dimension {axis} is out-of-bounds for input rank {first.rank}",
        )
        # Thousands of operands may share one type object, so each object is checked only once, with
        # the index of its first operand for the message.
        kinds = {id(t): (i, t) for i, t in reversed([*enumerate(types)])}
        for i, t in sorted(kinds.values(), key=itemgetter(0)):
            message = f"operands (0) and ({i}) do not match rank"
            require(t.rank == first.rank, "concatenate_c2", message)
            for d, (size, other) in enumerate(zip(first.sizes, t.sizes, strict=True)):
                require(
                    d == axis or may_be_one_size(size, other),
                    "concatenate_c2",
                    f"shapes of operand (0) and ({i}) are not compatible at non-concat index {d}:"
                    f" ({raw_sizes(first)}) != ({raw_sizes(t)})",
                )
        along = {k: extents(t)[axis] for k, (_, t) in kinds.items()}
        apart = {
            k: array(t.element, _with(extents(t), axis, (1, None))) for k, (_, t) in kinds.items()
        }
        dims = same_sizes(self.name, [apart[id(t)] for t in types], "concatenate_c2")
        dims[axis] = reduce(concatenated, [along[id(t)] for t in types])
        return array(common_element(self.name, types, "concatenate_c1"), dims)


@op("pad")
class Pad(Op):
    """`result[low + i * (interior + 1)] = operand[i]`, the padding value elsewhere.

    Operands: the array, the padding value.  Amounts are in elements; negative `low` and `high` cut.
    """

    edge_padding_low: Dims
    edge_padding_high: Dims
    interior_padding: Dims
    result_rule: ClassVar[str] = "pad_c4"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 2)
        t = tensor(self.name, operands[0], "the operand")
        value = scalar(self.name, operands[1], "the padding value", "pad_i2")
        amounts = (self.edge_padding_low, self.edge_padding_high, self.interior_padding)
        names = ("edge_padding_low", "edge_padding_high", "interior_padding")
        for name, given in zip(names, amounts, strict=True):
            message = f"{name} length ({len(given)}) must match operand rank ({t.rank})"
            require(len(given) == t.rank, "pad_c2", message)
        dims: list[Extent] = []
        for d, (size, low, high, interior) in enumerate(zip(extents(t), *amounts, strict=True)):
            message = f"Interior padding cannot be negative: {interior}"
            require(interior >= 0, "pad_c3", message)
            dims.append(resized(size, partial(_padded, edges=low + high, interior=interior)))
            least = min((x for x in dims[d] if x is not None), default=0)
            what = "bound" if size[0] is None else "size"
            require(least >= 0, "pad_c4", f"Padding result in negative {what} for dimension {d}")
        return array(common_element(self.name, (t, value), "pad_c1"), dims)
