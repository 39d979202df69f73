"""The table of StableHLO and CHLO ops: which op each one is, and which attributes it has.

A row reads `op | attribute …`; the op's name without its dialect finds its class.  An attribute is
`name`, rule, kind, and `>field` where the class calls it differently.  Rules: `!` required; `?`
optional.  Kinds are those of `op_kinds`; `enum/name` and `enums/name` say which enumeration,
`struct/name` which structure.  What the class has no field for is kept as text in its `settings`.

The same table serves both ways, from the syntax tree to the op and back.

Source: StableHLO spec, section "Ops".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hloscope.ops import OPS
from hloscope.ops.base import Op
from hloscope.ops.elementwise import ELEMENTWISE, IMPLICIT_BROADCAST, ImplicitBroadcast

_WINDOW: Final = """
    window_strides?dims lhs_dilation?dims rhs_dilation?dims window_reversal?bools
    dimension_numbers!conv feature_group_count!int batch_group_count!int
    precision_config?enums/precision
"""
_GROUPS: Final = "replica_groups!table channel_handle?channel use_global_device_ids?unit"

_ROWS: Final = f"""
    constant             | value!literal>literal
    iota                 | iota_dimension!int
    tuple                |
    get_tuple_element    | index!i32
    while                |
    case                 |
    if                   |
    after_all            |
    create_token         |
    optimization_barrier |
    return               |
    async_done           |
    async_start          |
    custom_call          | call_target_name!str has_side_effect?bool backend_config?attribute
                           api_version?i32 called_computations?attribute operand_layouts?attribute
                           result_layouts?attribute output_operand_aliases?attribute
    composite            | name!str>composite_name version?i32 composite_attributes?attribute
    broadcast_in_dim     | broadcast_dimensions!dims
    broadcast            | broadcast_sizes!dims
    reshape              |
    transpose            | permutation!dims
    reverse              | dimensions!dims
    bitcast_convert      |
    concatenate          | dimension!int
    pad                  | edge_padding_low!dims edge_padding_high!dims interior_padding!dims
    slice                | start_indices!dims limit_indices!dims strides!dims
    dynamic_slice        | slice_sizes!dims
    dynamic_update_slice |
    real_dynamic_slice   |
    dynamic_reshape      |
    dynamic_broadcast_in_dim | broadcast_dimensions!dims known_expanding_dimensions?dims
                           known_nonexpanding_dimensions?dims
    dynamic_iota         | iota_dimension!int
    dynamic_pad          |
    get_dimension_size   | dimension!int
    set_dimension_size   | dimension!int
    gather               | dimension_numbers!struct/gather slice_sizes!dims indices_are_sorted?bool
    dynamic_gather       | dimension_numbers!struct/gather indices_are_sorted?bool
    scatter              | scatter_dimension_numbers!struct/scatter indices_are_sorted?bool
                           unique_indices?bool
    torch_index_select   | dim!int batch_dims!int
    map                  | dimensions!dims
    reduce               | dimensions!dims
    sort                 | dimension?int is_stable?bool
    batch_norm_training  | epsilon!f32 feature_index!int
    batch_norm_inference | epsilon!f32 feature_index!int
    batch_norm_grad      | epsilon!f32 feature_index!int
    reduce_window        | window_dimensions!dims window_strides?dims base_dilations?dims
                           window_dilations?dims padding?pairs
    select_and_scatter   | window_dimensions?dims window_strides?dims padding?pairs
    convolution          | padding?pairs {_WINDOW}
    dynamic_conv         | {_WINDOW}
    dot_general          | dot_dimension_numbers!struct/dot precision_config?enums/precision
                           algorithm?attribute
    dot                  | precision_config?enums/precision
    einsum               | einsum_config!str
    unary_einsum         | einsum_config!str
    cholesky             | lower?bool
    triangular_solve     | left_side!bool lower!bool unit_diagonal!bool transpose_a!enum/transpose
    fft                  | fft_type!enum/fft_type fft_length!dims
    rng                  | rng_distribution!enum/rng_distribution
    rng_bit_generator    | rng_algorithm!enum/rng_algorithm
    all_gather           | all_gather_dim!int {_GROUPS}
    all_reduce           | {_GROUPS}
    reduce_scatter       | scatter_dimension!int {_GROUPS}
    all_to_all           | split_dimension!int concat_dimension!int split_count!int
                           replica_groups!table channel_handle?channel
    collective_broadcast | replica_groups!table channel_handle?channel has_dynamic_root?unit
    collective_reduce    | {_GROUPS} has_dynamic_root?unit
    collective_permute   | source_target_pairs!table channel_handle?channel
    cross-replica-sum    | replica_groups!table
    partition_id         |
    replica_id           |
    send                 | channel_handle!channel is_host_transfer?bool
                           source_target_pairs?attribute
    recv                 | channel_handle!channel is_host_transfer?bool
                           source_target_pairs?attribute
    infeed               | infeed_config?str layout?attribute
    outfeed              | outfeed_config?str
    compare              | comparison_direction!enum/comparison_direction
                           compare_type?enum/comparison_type
    reduce_precision     | exponent_bits!i32 mantissa_bits!i32
    uniform_quantize     |
    uniform_dequantize   |
    chlo.erf             |
    chlo.tan             |
    chlo.top_k           | k!int
    chlo.constant        | value!literal>literal
    chlo.broadcast_compare | comparison_direction!enum/comparison_direction
                           compare_type?enum/comparison_type broadcast_dimensions?dims
    chlo.constant_like   | value!attribute
    chlo.ragged_dot      | ragged_dot_dimension_numbers!struct/ragged_dot
                           precision_config?enums/precision
    chlo.scan            | dimension!int>scan_dimension is_reverse?bool is_associative?flag
                           scan_dim_size?int
    check.expect_eq      |
    check.expect_eq_const | value!attribute
    check.expect_almost_eq | tolerance?attribute
    check.expect_almost_eq_const | value!attribute tolerance?attribute
    check.expect_close   | max_ulp_difference?attribute min_ulp_difference?attribute
    check.expect_serialized_eq | probe_id!str iteration?attribute
    interpreter.print    |
    interpreter.probe    | probe_id!str
    interpreter.run_parallel | programs!attribute infeed?attribute
    sdy.sharding_constraint | sharding!attribute
    sdy.manual_computation | in_shardings?attribute out_shardings?attribute manual_axes?attribute
"""

_CLASSES: Final = {
    "if": "case",
    "chlo.top_k": "top_k",
    "chlo.constant": "constant",
    "chlo.ragged_dot": "ragged_dot",
    "chlo.scan": "scan",
    "chlo.erf": "erf",
    "chlo.tan": "tan",
}
"""Ops whose class is named differently."""

STRUCTS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "gather": (
        ("offset_dims", "dims"),
        ("collapsed_slice_dims", "dims"),
        ("operand_batching_dims", "dims"),
        ("start_indices_batching_dims", "dims"),
        ("start_index_map", "dims"),
        ("index_vector_dim", "int"),
    ),
    "scatter": (
        ("update_window_dims", "dims"),
        ("inserted_window_dims", "dims"),
        ("input_batching_dims", "dims"),
        ("scatter_indices_batching_dims", "dims"),
        ("scatter_dims_to_operand_dims", "dims"),
        ("index_vector_dim", "int"),
    ),
    "dot": (
        ("lhs_batching_dimensions", "dims"),
        ("rhs_batching_dimensions", "dims"),
        ("lhs_contracting_dimensions", "dims"),
        ("rhs_contracting_dimensions", "dims"),
    ),
    "ragged_dot": (
        ("lhs_batching_dimensions", "dims"),
        ("rhs_batching_dimensions", "dims"),
        ("lhs_contracting_dimensions", "dims"),
        ("rhs_contracting_dimensions", "dims"),
        ("lhs_ragged_dimensions", "dims"),
        ("rhs_group_dimensions", "dims"),
    ),
    "conv": (
        ("input_batch_dimension", "int"),
        ("input_feature_dimension", "int"),
        ("input_spatial_dimensions", "dims"),
        ("kernel_input_feature_dimension", "int"),
        ("kernel_output_feature_dimension", "int"),
        ("kernel_spatial_dimensions", "dims"),
        ("output_batch_dimension", "int"),
        ("output_feature_dimension", "int"),
        ("output_spatial_dimensions", "dims"),
    ),
    "channel_handle": (("handle", "int"), ("type", "int")),
}
"""The fields of the structures in the order of their text, each a number or many."""

_ATTRIBUTE: Final = re.compile(r"(\w+)([!?])(\w+)(?:/(\w+))?(?:>(\w+))?")


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an op.

    Attributes:
        name: In the generic form.
        required: Must be given.
        kind: Name of its kind in `op_kinds`.
        of: Name of the enumeration or structure.
        field: Name of the op's field, or the name in its settings.
    """

    name: str
    required: bool
    kind: str
    of: str
    field: str


@dataclass(frozen=True, slots=True)
class Spelling:
    """An op of the text: its class and its attributes, in order."""

    name: str
    op: type[Op]
    attributes: tuple[Attribute, ...]


def _rows() -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for line in _ROWS.strip().splitlines():
        name, bar, attributes = line.partition("|")
        if bar:
            rows.append((name.strip(), attributes))
        else:
            rows[-1] = rows[-1][0], f"{rows[-1][1]} {line}"
    return rows


def _attributes(text: str) -> tuple[Attribute, ...]:
    found = []
    for token in text.split():
        match = _ATTRIBUTE.fullmatch(token)
        assert match is not None, token
        name, rule, kind, of, field = match.groups()
        found.append(Attribute(name, rule == "!", kind, of or "", field or name))
    return tuple(found)


def _elementwise(cls: type[Op]) -> tuple[Attribute, ...]:
    names = getattr(cls, "parameters", ())
    is_binary = issubclass(cls, ImplicitBroadcast) and cls.applies != "select"
    dims = "broadcast_dimensions?dims" if is_binary else ""
    return _attributes(" ".join([dims, *[f"{name}?attribute" for name in names]]))


_NOT_HERE: Final = ("erf", "copy", "stochastic_convert")
"""Element-wise ops of HLO, or of CHLO under another name."""


def _table() -> dict[str, Spelling]:
    table: dict[str, Spelling] = {}
    for name, text in _rows():
        full = name if "." in name else f"stablehlo.{name}"
        table[full] = Spelling(full, OPS[_CLASSES.get(name, name)], _attributes(text))
    for cls in (*ELEMENTWISE.values(), *IMPLICIT_BROADCAST.values()):
        full = cls.name if "." in cls.name else f"stablehlo.{cls.name}"
        if full not in table and cls.name not in _NOT_HERE:
            table[full] = Spelling(full, cls, _elementwise(cls))
    return table


SPELLINGS: Final[dict[str, Spelling]] = _table()
"""Every op of the table by its full name."""
