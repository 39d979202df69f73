"""Contractions: dot, scaled-dot, ragged-dot, einsum; their precisions and algorithms."""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.errors import message_of
from hloscope.ir import Callees, Dims, Op, TensorType, Type, Types
from hloscope.ops.inference import (
    Extent,
    array,
    check_distinct,
    check_in_bounds,
    count,
    extents,
    may_be_one_size,
    merged,
    op,
    require,
    sizes_text,
    tensors,
    without,
)
from hloscope.ops.quantization import any_quantized, check_dot
from hloscope.ops.result_types import check_declared_sizes, product_element

# --------------------------------------------------------------------------------------------------
# Precisions and algorithms of dots and convolutions.


Precisions: TypeAlias = tuple[str, ...]
"""Precision of each operand: `DEFAULT`, `HIGH` or `HIGHEST`; HLO has `PACKED_NIBBLE` too."""

# lhs, rhs and accumulation type, number of primitive operations
_ROWS: Final = """
    f16  f16  f16  1 | f16  f16  f32  1 | bf16 bf16 bf16 1 | bf16 bf16 f32 1 | bf16 bf16 f32 3 |
    bf16 bf16 f32  6 | tf32 tf32 f32  1 | tf32 tf32 f32  3 | f32  f32  f32 1 | f64  f64  f64 1
"""
_KNOWN: Final = {tuple(row.split()) for row in _ROWS.split("|")}
_EIGHT_BITS: Final = frozenset(
    "f8E3M4 f8E4M3 f8E4M3FN f8E5M2 f8E4M3FNUZ f8E4M3B11FNUZ f8E5M2FNUZ".split()
)


def check_dot_algorithm(
    lhs: str,
    rhs: str,
    accumulation: str,
    lhs_components: int,
    rhs_components: int,
    operations: int,
    *,
    imprecise: bool,
) -> None:
    """Check that some hardware is known to support a dot algorithm.

    Args:
        lhs: Type to which the left operand is rounded, as MLIR prints it, such as `f32`.
        rhs: Type to which the right operand is rounded.
        accumulation: Type in which products are added.
        lhs_components: Number of parts into which the left operand is split.
        rhs_components: Number of parts into which the right operand is split.
        operations: Number of primitive dots.
        imprecise: May intermediate sums be less precise than the accumulation type?

    Source: StableHLO spec `dot_general`, (C22)-(C24), (I8)-(I14).

    Raises:
        VerifyError: No such hardware is known.

    >>> check_dot_algorithm("tf32", "tf32", "f32", 1, 1, 3, imprecise=False)
    """
    message = "component count must be positive"
    require(lhs_components >= 1, "dot_general_c22", f"lhs {message}")
    require(rhs_components >= 1, "dot_general_c23", f"rhs {message}")
    require(operations >= 1, "dot_general_c24", "num primitive operations must be positive")
    # Eight-bit types are the only ones that may accumulate imprecisely.
    eight_bits = lhs in _EIGHT_BITS and rhs in _EIGHT_BITS and accumulation == "f32"
    known = (
        operations == 1
        if eight_bits
        else not imprecise and (lhs, rhs, accumulation, str(operations)) in _KNOWN
    )
    require(
        known and lhs_components == rhs_components == 1,
        "dot_general_i8",
        "dot algorithm not known to be supported on any hardware: "
        f"{{lhs:'{lhs}', rhs:'{rhs}', accum:'{accumulation}', lhs_components:{lhs_components}, "
        f"rhs_components:{rhs_components}, primitive_ops:{operations},"
        f" imprecise:{int(imprecise)}}}",
    )


def check_precisions(precisions: Precisions | None, rule: str) -> None:
    """Check that there are at most two precisions, one for each operand.

    `rule` is the label of the constraint.
    """
    number = len(precisions or ())
    message = f"expects precision config to be empty or have <= 2 elements, got {number}"
    require(number <= 2, rule, message)


# --------------------------------------------------------------------------------------------------
# Contractions: dot, scaled-dot, ragged-dot, einsum.


class DotDimensions(Struct, frozen=True):
    """Batch and contracting dimensions of both operands.

    Entry k of a list of `lhs` pairs with entry k of the same list of `rhs`.
    """

    lhs_batch: Dims
    rhs_batch: Dims
    lhs_contracting: Dims
    rhs_contracting: Dims


def _check_dimensions(
    dims: DotDimensions, lhs: TensorType, rhs: TensorType, *, sparse: bool = False
) -> None:
    """Check the dimension numbers of a dot.

    With `sparse`, an operand may have fewer contracted elements than the other one.
    """
    # The order of the checks is that of StableHLO's verifier, so that the same error is reported
    # first.
    pairs = (
        ("batching", dims.lhs_batch, dims.rhs_batch, "dot_general_c1"),
        ("contracting", dims.lhs_contracting, dims.rhs_contracting, "dot_general_c2"),
    )
    for what, of_lhs, of_rhs, rule in pairs:
        message = f"lhs and rhs should have the same number of {what} dimensions"
        require(len(of_lhs) == len(of_rhs), rule, message)
    sides = (
        ("lhs", lhs, dims.lhs_batch, dims.lhs_contracting, "dot_general_c3"),
        ("rhs", rhs, dims.rhs_batch, dims.rhs_contracting, "dot_general_c4"),
    )
    for side, _, batch, contracting, rule in sides:
        names = f"{side}_batching_dimensions", f"{side}_contracting_dimensions"
        check_distinct(batch, contracting, *names, rule)
    numbered = (
        ("lhs_batching_dimensions", lhs, dims.lhs_batch, "dot_general_c5"),
        ("lhs_contracting_dimensions", lhs, dims.lhs_contracting, "dot_general_c6"),
        ("rhs_batching_dimensions", rhs, dims.rhs_batch, "dot_general_c7"),
        ("rhs_contracting_dimensions", rhs, dims.rhs_contracting, "dot_general_c8"),
    )
    for name, t, numbers, rule in numbered:
        for d in numbers:
            message = f"{name} value: {d} is out of range: [0, {t.rank})"
            require(0 <= d < t.rank, rule, message)
    rules = ("dot_general_c9", "dot_general_c10")
    for (what, of_lhs, of_rhs, _), rule in zip(pairs, rules, strict=True):
        for i, j in zip(of_lhs, of_rhs, strict=True):
            require(
                may_be_one_size(lhs.sizes[i], rhs.sizes[j]) or (sparse and what == "contracting"),
                rule,
                f"{what} dimension sizes must match for lhs/rhs",
            )


def _contracted(dims: DotDimensions, lhs: TensorType, rhs: TensorType) -> list[Extent]:
    """Return the dimensions of the result: batch, free ones of `lhs`, free ones of `rhs`."""
    left, right = extents(lhs), extents(rhs)
    return [
        *(merged(left[i], right[j]) for i, j in zip(dims.lhs_batch, dims.rhs_batch, strict=True)),
        *without(left, dims.lhs_batch + dims.lhs_contracting),
        *without(right, dims.rhs_batch + dims.rhs_contracting),
    ]


@op("dot_general")
class DotGeneral(Op):
    """`result[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]`; HLO `dot` is the same op.

    Result dimensions: batch, free dimensions of `lhs`, free dimensions of `rhs`.  Its element type
    is the wider one of the operands, unless the program declares another.
    Source: StableHLO spec `dot_general`.

    Attributes:
        dimensions: Batch and contracting dimensions.
        precision_config: Precision of each operand; the hardware's default if `None`.
        algorithm: Requested algorithm, as written; `None` for any.
        sparsity: Sparsity pattern of an operand, as written (HLO); `None` for dense operands.
        sparsity_config: Sparsity pattern in another notation.
    """

    dimensions: DotDimensions
    precision_config: Precisions | None = None
    algorithm: str | None = None
    sparsity: str | None = None
    sparsity_config: str | None = None

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return self._typed(operands)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        result = check_declared_sizes(self._typed(operands), results, "dot_general_c12")
        require(
            self.algorithm is None or all(p == "DEFAULT" for p in self.precision_config or ()),
            "dot_general_c21",
            "must specify DEFAULT precision config when algorithm is set.",
        )
        lhs, rhs = operands[:2]
        if any_quantized(lhs, rhs, result):
            check_dot(lhs, rhs, result, self.dimensions.rhs_contracting)

    def _typed(self, operands: Types) -> TensorType:
        count(self.name, operands, 2, at_least=True)
        lhs, rhs = tensors(self.name, operands[:2])
        check_precisions(self.precision_config, "dot_general_c11")
        _check_dimensions(self.dimensions, lhs, rhs, sparse=self.sparsity is not None)
        return array(product_element(lhs, rhs), _contracted(self.dimensions, lhs, rhs))


@op("dot")
class Dot(Op):
    """The former `dot` of StableHLO, of the last dimension of `lhs` and the first of `rhs`."""

    precision_config: Precisions | None = None

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return self._typed(operands)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        check_declared_sizes(self._typed(operands), results, "")

    def _typed(self, operands: Types) -> TensorType:
        lhs, rhs = tensors(self.name, operands, 2)
        check_precisions(self.precision_config, "")
        require(
            lhs.rank in (1, 2)
            and rhs.rank in (1, 2)
            and may_be_one_size(lhs.sizes[-1], rhs.sizes[0]),
            "",
            "expected both lhs/rhs ranks to be either 1 or 2",
        )
        dims = _contracted(DotDimensions((), (), (lhs.rank - 1,), (0,)), lhs, rhs)
        return array(product_element(lhs, rhs), dims)


@op("scaled_dot")
class ScaledDot(Op):
    """`dot` of block-scaled operands.  Operands: lhs, rhs, lhs scale, rhs scale."""

    dimensions: DotDimensions
    precision_config: Precisions | None = None
    algorithm: str | None = None

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        lhs, rhs, *scales = tensors(self.name, operands, 4)
        _check_dimensions(self.dimensions, lhs, rhs)
        for scaled, scale in zip((lhs, rhs), scales, strict=True):
            require(
                scale.rank == 0 or _is_blocked(scaled, scale),
                "",
                message_of("a scale {:bare} does not divide {:bare} into blocks", scale, scaled),
            )
        return array(product_element(lhs, rhs), _contracted(self.dimensions, lhs, rhs))


def _is_blocked(scaled: TensorType, scale: TensorType) -> bool:
    """Does the scale have one element for each block of the array, along every dimension?"""
    sizes = zip(scaled.sizes, scale.sizes, strict=False)
    return scale.rank == scaled.rank and all(
        whole is None or blocks is None or (whole % blocks == 0 if blocks else whole == 0)
        for whole, blocks in sizes
    )


@op("ragged_dot")
class RaggedDot(Op):
    """`dot` with one ragged dimension split into groups.  Operands: lhs, rhs, group sizes.

    A ragged free dimension of `lhs`: `[b, m, k], [g, b, k, n] -> [b, m, n]`; a contracting one:
    `[b, m, k], [b, k, n] -> [g, b, m, n]`; a batch one: `[b, m, k], [b, k, n] -> [b, m, n]`.
    """

    dimensions: DotDimensions
    lhs_ragged: Dims
    rhs_group: Dims
    precision_config: Precisions | None = None

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return self._typed(operands)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        check_declared_sizes(self._typed(operands), results, "")

    def _typed(self, operands: Types) -> TensorType:
        lhs, rhs, group_sizes = tensors(self.name, operands, 3)
        check_precisions(self.precision_config, "")
        dims = self.dimensions
        _check_dimensions(dims, lhs, rhs)
        self._check_ragged(lhs, rhs, group_sizes)
        dropped = dims.rhs_batch + dims.rhs_contracting + self.rhs_group
        # The part of the result that comes from `lhs`; from `rhs`, the group dimension goes as
        # well.
        result = _contracted(dims, lhs, rhs)[: lhs.rank - len(dims.lhs_contracting)]
        result += without(extents(rhs), dropped)
        if self.lhs_ragged[0] in dims.lhs_contracting:
            result.insert(0, extents(group_sizes)[-1])
        return array(product_element(lhs, rhs), result)

    def _check_ragged(self, lhs: TensorType, rhs: TensorType, group_sizes: TensorType) -> None:
        """Check the ragged dimension, the group dimension and the shape of the group sizes."""
        dims = self.dimensions
        message = "There must be exactly one ragged dimension in the lhs."
        require(len(self.lhs_ragged) == 1, "", message)
        (ragged,) = self.lhs_ragged
        check_in_bounds(ragged, lhs.rank, "lhs_ragged_dim", "lhs_rank", "")
        if group_sizes.rank != 1:
            self._check_group_sizes(lhs, group_sizes, ragged)
        for d in self.rhs_group:
            check_in_bounds(d, rhs.rank, "rhs_group_dim", "rhs_rank", "")
        for name, others in (
            ("rhs_batching_dimensions", dims.rhs_batch),
            ("rhs_contracting_dimensions", dims.rhs_contracting),
        ):
            check_distinct(self.rhs_group, others, "rhs_group_dimensions", name, "")
        if ragged in dims.lhs_batch + dims.lhs_contracting:
            require(
                not self.rhs_group,
                "",
                "There must be zero group dimensions in the rhs when the ragged dimension is batch"
                " or contracting.",
            )
            return
        require(
            len(self.rhs_group) == 1,
            "",
            "There must be exactly one group dimension in the rhs when the lhs ragged dimension is"
            " non-contracting.",
        )
        found, groups = rhs.sizes[self.rhs_group[0]], group_sizes.sizes[-1]
        message = f"rhs group dimension is expected to have size={groups}, got {found}"
        require(may_be_one_size(groups, found), "", message)

    def _check_group_sizes(self, lhs: TensorType, group_sizes: TensorType, ragged: int) -> None:
        """Check group sizes of rank above 1.

        They must have one vector for each index of the left operand's dimensions before the ragged
        one.

        Args:
            lhs: Type of the left operand.
            group_sizes: Type of the group sizes.
            ragged: The ragged dimension of the left operand.
        """
        batch, contracting = self.dimensions.lhs_batch, self.dimensions.lhs_contracting
        if ragged in batch:
            before = batch[: batch.index(ragged)]
        elif ragged in contracting:
            before = batch + contracting[: contracting.index(ragged)]
        else:
            before = batch + tuple(d for d in range(ragged) if d not in batch + contracting)
        needed = tuple(lhs.sizes[d] for d in before)
        found = group_sizes.rank
        message = f"expected group_sizes to have rank {len(needed) + 1}, got {found}"
        require(found == len(needed) + 1, "", message)
        require(
            all(map(may_be_one_size, needed, group_sizes.sizes)),
            "",
            f"group_sizes is expected to have shape [{sizes_text((*needed, group_sizes.sizes[-1]))}"
            f"], got [{sizes_text(group_sizes.sizes)}]",
        )


@op("einsum")
class Einsum(Op):
    """Einstein summation of the operands by the text `einsum_config`."""

    einsum_config: str


@op("unary_einsum")
class UnaryEinsum(Op):
    """Einstein summation of one operand by the text `einsum_config`."""

    einsum_config: str
