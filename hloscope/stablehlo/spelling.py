"""The table of StableHLO and CHLO ops: which op each one is, and which attributes it has.

A row reads `op | attribute …`; the op's name without its dialect finds its class.  An attribute is
`name`, `(name in the pretty form)`, rule, kind, and `>field` where the class calls it differently.
Rules: `!` required; `?` optional.  Kinds are the readers of `attributes`; `setting` is kept as
written among the op's `settings`, `call` names functions.

Source: StableHLO spec, section "Ops"; names in the pretty form from its examples.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hloscope.ops import OPS
from hloscope.ops.base import Op
from hloscope.ops.elementwise import ELEMENTWISE, IMPLICIT_BROADCAST, ImplicitBroadcast

_GATHER: Final = """
    offset_dims?dims collapsed_slice_dims?dims operand_batching_dims?dims
    start_indices_batching_dims?dims start_index_map?dims index_vector_dim?int
"""
_WINDOW: Final = """
    window_strides?dims padding?pairs lhs_dilation?dims rhs_dilation?dims window_reversal?bools
    dimension_numbers!text feature_group_count?int batch_group_count?int
    precision_config(precision)?setting
"""
_GROUPS: Final = """
    replica_groups?groups channel_id?int channel_type?setting use_global_device_ids?bool
"""
_DOT: Final = """
    lhs_batching_dimensions?dims rhs_batching_dimensions?dims
    lhs_contracting_dimensions?dims rhs_contracting_dimensions?dims
    precision_config(precision)?setting algorithm?setting
"""

_ROWS: Final = f"""
    constant             | value!text>literal
    iota                 | iota_dimension(dim)!int
    tuple                |
    get_tuple_element    | index!int
    while                |
    case                 |
    if                   |
    after_all            |
    create_token         |
    optimization_barrier |
    return               |
    custom_call          | call_target_name!string has_side_effect?bool backend_config?setting
                           api_version?setting called_computations?call operand_layouts?setting
                           result_layouts?setting output_operand_aliases?setting
    composite            | name!string>composite_name decomposition!call version?int
                           composite_attributes?setting
    broadcast_in_dim     | broadcast_dimensions(dims)!dims
    broadcast            | broadcast_sizes(sizes)!dims
    reshape              |
    transpose            | permutation(dims)!dims
    reverse              | dimensions(dims)!dims
    bitcast_convert      |
    concatenate          | dimension(dim)!int
    pad                  | edge_padding_low(low)!dims edge_padding_high(high)!dims
                           interior_padding(interior)!dims
    slice                | start_indices!dims limit_indices!dims strides!dims
    dynamic_slice        | slice_sizes(sizes)!dims
    dynamic_update_slice |
    real_dynamic_slice   |
    dynamic_reshape      |
    dynamic_broadcast_in_dim | broadcast_dimensions(dims)!dims known_expanding_dimensions?dims
                           known_nonexpanding_dimensions?dims
    dynamic_iota         | iota_dimension(dim)!int
    dynamic_pad          |
    get_dimension_size   | dimension(dim)!int
    set_dimension_size   | dimension(dim)!int
    gather               | {_GATHER} slice_sizes!dims indices_are_sorted?bool
    dynamic_gather       | {_GATHER} indices_are_sorted?bool
    scatter              | update_window_dims?dims inserted_window_dims?dims
                           input_batching_dims?dims scatter_indices_batching_dims?dims
                           scatter_dims_to_operand_dims?dims index_vector_dim?int
                           indices_are_sorted?bool unique_indices?bool
    torch_index_select   | dim!int batch_dims!int
    map                  | dimensions!dims
    reduce               | dimensions!dims
    sort                 | dimension?int is_stable?bool
    batch_norm_training  | epsilon!float feature_index!int
    batch_norm_inference | epsilon!float feature_index!int
    batch_norm_grad      | epsilon!float feature_index!int
    reduce_window        | window_dimensions!dims window_strides?dims base_dilations?dims
                           window_dilations?dims padding?pairs
    select_and_scatter   | window_dimensions?dims window_strides?dims padding?pairs
    convolution          | {_WINDOW}
    dynamic_conv         | {_WINDOW}
    dot_general          | {_DOT}
    dot                  | precision_config(precision)?setting
    einsum               | einsum_config(config)!string
    unary_einsum         | einsum_config(config)!string
    cholesky             | lower?bool
    triangular_solve     | left_side!bool lower!bool unit_diagonal!bool transpose_a!enum
    fft                  | fft_type(type)!enum fft_length(length)!dims
    rng                  | rng_distribution(distribution)!enum
    rng_bit_generator    | rng_algorithm(algorithm)!enum
    all_gather           | {_GROUPS} all_gather_dim!int
    all_reduce           | {_GROUPS}
    reduce_scatter       | {_GROUPS} scatter_dimension!int
    all_to_all           | {_GROUPS} split_dimension!int concat_dimension!int split_count!int
    collective_broadcast | {_GROUPS}
    collective_reduce    | {_GROUPS}
    collective_permute   | channel_id?int channel_type?setting source_target_pairs!pairs
    cross-replica-sum    | replica_groups?groups
    partition_id         |
    replica_id           |
    send                 | channel_id?int channel_type?setting is_host_transfer?bool
                           source_target_pairs?setting
    recv                 | channel_id?int channel_type?setting is_host_transfer?bool
                           source_target_pairs?setting
    infeed               | infeed_config?string layout?setting
    outfeed              | outfeed_config?string
    compare              | comparison_direction!setting compare_type?setting
    reduce_precision     | exponent_bits!setting mantissa_bits!setting
    uniform_quantize     |
    uniform_dequantize   |
    chlo.erf             |
    chlo.tan             |
    chlo.top_k           | k!int largest?bool
    chlo.constant        | value!text>literal
    chlo.broadcast_compare | comparison_direction!setting compare_type?setting
                           broadcast_dimensions?dims
    chlo.constant_like   | value!setting
    chlo.ragged_dot      | lhs_batching_dimensions?dims rhs_batching_dimensions?dims
                           lhs_contracting_dimensions?dims rhs_contracting_dimensions?dims
                           lhs_ragged_dimensions?dims>lhs_ragged
                           rhs_group_dimensions?dims>rhs_group precision_config?setting
"""

_CLASSES: Final = {
    "if": "case",
    "chlo.top_k": "top_k",
    "chlo.constant": "constant",
    "chlo.ragged_dot": "ragged_dot",
    "chlo.erf": "erf",
    "chlo.tan": "tan",
}
"""Ops whose class is named differently."""

_ATTRIBUTE: Final = re.compile(r"(\w+)(?:\((\w+)\))?([!?])(\w+)(?:>(\w+))?")


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an op.

    Attributes:
        name: In the generic form.
        pretty: Keyword of the pretty form, or the name.
        required: Must be given.
        kind: Name of its reader, or `setting`, `call`.
        field: Name of the op's field.
    """

    name: str
    pretty: str
    required: bool
    kind: str
    field: str


@dataclass(frozen=True, slots=True)
class Spelling:
    """An op of the text: its class and its attributes by name."""

    name: str
    op: type[Op]
    attributes: dict[str, Attribute]


def _rows() -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for line in _ROWS.strip().splitlines():
        name, bar, attributes = line.partition("|")
        if bar:
            rows.append((name.strip(), attributes))
        else:
            rows[-1] = rows[-1][0], f"{rows[-1][1]} {line}"
    return rows


def _attributes(text: str) -> dict[str, Attribute]:
    found = {}
    for token in text.split():
        match = _ATTRIBUTE.fullmatch(token)
        assert match is not None, token
        name, pretty, rule, kind, field = match.groups()
        found[name] = Attribute(name, pretty or name, rule == "!", kind, field or name)
    return found


def _elementwise(cls: type[Op]) -> dict[str, Attribute]:
    names = getattr(cls, "parameters", ())
    dims = "broadcast_dimensions?dims" if issubclass(cls, ImplicitBroadcast) else ""
    return _attributes(" ".join([dims, *[f"{name}?setting" for name in names]]))


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


_NOT_HERE: Final = ("erf", "copy", "stochastic_convert")
"""Element-wise ops of HLO, or of CHLO under another name."""

SPELLINGS: Final[dict[str, Spelling]] = _table()
"""Every op of the table by its full name."""
