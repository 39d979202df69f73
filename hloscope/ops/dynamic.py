"""Ops that take sizes as operands, or return them."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from hloscope.errors import message_of
from hloscope.ir import Callees, Dims, Op, TensorType, Type, Types, compatible
from hloscope.ops.inference import (
    S32,
    Extent,
    array,
    count,
    extents,
    known_elements,
    may_be_one_size,
    op,
    raw_size,
    require,
    scalar,
    size_text,
    sizes_text,
    static,
    tensor,
    tensors,
)
from hloscope.ops.quantization import any_quantized, check_broadcast, check_reshape
from hloscope.ops.shape import check_compatible_elements, check_element_counts, check_unique


def _check_dimension(d: int, rank: int, rule: str) -> None:
    """Check that `d` is a dimension of an array of rank `rank`.

    `rule` is the label of the constraint.
    """
    message = f"requires non-negative dimension attribute; found ({d})"
    require(d >= 0, rule, message)
    message = f"requires dimension attribute in range [0, {rank}); found ({d})"
    require(d < rank, rule, message)


def _check_shape_operand(shape: Type, result: TensorType, rule: str) -> None:
    """Check that the sizes in operand `shape`, if they are constants, fit the result's type.

    `rule` is the label of the constraint.
    """
    sizes = known_elements(shape)
    if sizes is None:
        return
    fits = all(size >= 0 for size in sizes) and compatible(
        array(result.element, static(sizes)), result
    )
    require(
        fits,
        rule,
        message_of(
            f"output shape [{', '.join(map(str, sizes))}] is incompatible with return type of"
            " operation {}",
            result,
        ),
    )


def _check_elements_agree(operand: TensorType, result: TensorType, rule: str) -> None:
    """Check that operand and result have compatible element types, unless one is quantized.

    `rule` is the label of the constraint.
    """
    if not any_quantized(operand, result):
        require(
            compatible(array(operand.element, ()), array(result.element, ())),
            rule,
            message_of(
                "expects operand and result to have compatible element type. Got: {} and {}",
                operand,
                result,
            ),
        )


@op("dynamic_reshape")
class DynamicReshape(Op):
    """`reshape` to sizes that operands give."""

    reads_values: ClassVar[Dims] = (1,)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        count(self.name, operands, 1, at_least=True)
        t = tensor(self.name, operands[0], "the operand")
        result = tensor(self.name, results[0], "the result")
        _check_elements_agree(t, result, "dynamic_reshape_c1")
        if len(operands) != 2:  # HLO gives each size as a scalar
            return
        check_element_counts(t, result, "dynamic_reshape_c2")
        _check_shape_operand(operands[1], result, "dynamic_reshape_c4")
        shape = tensor(self.name, operands[1], "the shape")
        require(
            shape.rank == 1 and shape.sizes[0] in (result.rank, None),
            "dynamic_reshape_c4",
            "result should have a rank equal to the number of elements in output_shape",
        )
        sizes = known_elements(shape)
        if sizes is not None and t.is_static:
            require(
                prod(t.shape) == prod(sizes),
                "dynamic_reshape_c2",
                "output_shape is incompatible with input type of operation: input has"
                f" {prod(t.shape)} elements, but output_shape has {prod(sizes)}",
            )
        if any_quantized(t, result):
            check_reshape(t, result, ("dynamic_reshape_c1", "dynamic_reshape_c3"))
            check_compatible_elements(t, result, "dynamic_reshape_c1")


@op("dynamic_broadcast_in_dim")
class DynamicBroadcastInDim(Op):
    """`broadcast_in_dim` to the sizes in operand 1.

    Attributes:
        broadcast_dimensions: Result dimension of each operand dimension.
        known_expanding_dimensions: Operand dimensions that are known to expand.
        known_nonexpanding_dimensions: Operand dimensions that are known not to expand.
    """

    broadcast_dimensions: Dims
    known_expanding_dimensions: Dims | None = None
    known_nonexpanding_dimensions: Dims | None = None
    reads_values: ClassVar[Dims] = (1,)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        t, shape = tensors(self.name, operands, 2)
        result = tensor(self.name, results[0], "the result")
        _check_elements_agree(t, result, "dynamic_broadcast_in_dim_c1")
        self._check_dimensions(t, result)
        _check_shape_operand(shape, result, "dynamic_broadcast_in_dim_c7")
        self._check_hints(t.rank)
        self._check_stretched(t, known_elements(shape))
        if any_quantized(t, result):
            dims = self.broadcast_dimensions
            check_broadcast(t, result, dims, "dynamic_broadcast_in_dim_c6")
            check_compatible_elements(t, result, "dynamic_broadcast_in_dim_c1")

    def _check_dimensions(self, t: TensorType, result: TensorType) -> None:
        """Check `broadcast_dimensions` against the shapes of operand and result."""
        dims = self.broadcast_dimensions
        require(
            len(dims) == t.rank,
            "dynamic_broadcast_in_dim_c2",
            f"broadcast_dimensions size ({len(dims)}) does not match operand rank ({t.rank})",
        )
        require(
            result.rank >= t.rank,
            "dynamic_broadcast_in_dim_c3",
            f"result rank ({result.rank}) is less than operand rank ({t.rank})",
        )
        check_unique(dims, "dynamic_broadcast_in_dim_c4")
        for d, (size, target) in enumerate(zip(t.sizes, dims, strict=True)):
            require(
                0 <= target < result.rank,
                "dynamic_broadcast_in_dim_c3",
                f"broadcast_dimensions contains invalid value {target} for result with rank"
                f" {result.rank}",
            )
            require(
                size == 1 or may_be_one_size(size, result.sizes[target]),
                "dynamic_broadcast_in_dim_c5",
                f"size of operand dimension {d} ({raw_size(size)}) is not compatible with size of"
                f" result dimension {target} ({raw_size(result.sizes[target])})",
            )

    def _check_hints(self, rank: int) -> None:
        """Check that the two `known_…_dimensions` hold distinct dimensions of the operand."""
        expanding = self.known_expanding_dimensions or ()
        nonexpanding = self.known_nonexpanding_dimensions or ()
        hints = expanding + nonexpanding
        require(
            len(set(hints)) == len(hints),
            "dynamic_broadcast_in_dim_c8",
            "duplicate expansion hint for at least one operand dimension",
        )
        for hinted, rule in (
            (expanding, "dynamic_broadcast_in_dim_c9"),
            (nonexpanding, "dynamic_broadcast_in_dim_c10"),
        ):
            for d in hinted:
                require(
                    0 <= d < rank,
                    rule,
                    f"hint for expanding dimension {d} does not refer to a valid operand dimension",
                )

    def _check_stretched(self, t: TensorType, sizes: tuple[int, ...] | None) -> None:
        """Check the operand's sizes against the result's sizes, if these are constants."""
        if sizes is None or not t.is_static:
            return
        for d, (size, target) in enumerate(zip(t.sizes, self.broadcast_dimensions, strict=True)):
            require(
                size in (1, sizes[target]),
                "dynamic_broadcast_in_dim_c5",
                f"size of operand dimension {d} ({size_text(size)}) is not equal to 1 or value of"
                f" shape at index {target} ({sizes[target]})",
            )


@op("dynamic_iota")
class DynamicIota(Op):
    """`iota` with the sizes in operand 0."""

    iota_dimension: int
    reads_values: ClassVar[Dims] = (0,)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        count(self.name, operands, 1)
        shape = tensor(self.name, operands[0], "the shape")
        result = tensor(self.name, results[0], "the result")
        require(
            0 <= self.iota_dimension < result.rank,
            "dynamic_iota_c1",
            "iota dimension cannot go beyond the output rank.",
        )
        _check_shape_operand(shape, result, "dynamic_iota_c2")


@op("dynamic_pad")
class DynamicPad(Op):
    """`pad` with the amounts in operands 2 (low), 3 (high) and 4 (interior)."""

    reads_values: ClassVar[Dims] = (2, 3, 4)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        t, value, *amounts = tensors(self.name, operands, 5)
        result = tensor(self.name, results[0], "the result")
        scalar(self.name, value, "the padding value", "dynamic_pad_i2")
        for other in (value, result):
            check_compatible_elements(t, other, "dynamic_pad_c1")
        for amount in amounts:
            size = amount.sizes[0] if amount.rank == 1 else -1
            require(
                may_be_one_size(size, t.rank),
                "dynamic_pad_c2",
                f"padding operands size ({size_text(size)}) must match operand rank ({t.rank})",
            )
        low, high, interior = map(known_elements, amounts)
        if interior is None:
            return
        require(
            all(amount >= 0 for amount in interior),
            "dynamic_pad_c3",
            f"interior_padding must be non-negative, but got {sizes_text(interior)}",
        )
        require(
            t.rank == result.rank,
            "dynamic_pad_c4",
            f"the result has rank {result.rank}, needs {t.rank}",
        )
        if low is None or high is None or not (t.is_static and result.is_static):
            return
        ends = zip(t.shape, low, high, interior, result.shape, strict=True)
        for d, (size, before, after, between, found) in enumerate(ends):
            wanted = size + before + max(size - 1, 0) * between + after
            require(
                found == wanted,
                "dynamic_pad_c4",
                f"expected output dimension at index {d} to equal {wanted}, but got {found}",
            )


@op("get_dimension_size")
class GetDimensionSize(Op):
    """Size of dimension `dimension`, a scalar."""

    dimension: int

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        _check_dimension(self.dimension, t.rank, "get_dimension_size_c1")
        return array(S32, ())


@op("set_dimension_size")
class SetDimensionSize(Op):
    """The operand with the run-time size of dimension `dimension` set to operand 1.

    The former size becomes the bound.  If operand 1 is a constant equal to it, the size stays
    static.
    """

    dimension: int
    reads_values: ClassVar[Dims] = (1,)

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 2)
        t = tensor(self.name, operands[0], "the operand")
        size = tensor(self.name, operands[1], "the size")
        require(size.rank == 0, "", "size operand should be of rank-0")
        _check_dimension(self.dimension, t.rank, "")
        dims = extents(t)
        before, bound = dims[self.dimension]
        most = bound if before is None else before
        given = known_elements(size)
        after: Extent = (None, most)
        if given is not None and given == (most,):
            after = (most, None)
        dims[self.dimension] = after
        return array(t.element, dims)
