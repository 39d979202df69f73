"""The table of HLO opcodes: which op each one is, and which attributes it has.

A row reads `opcode | op | attribute …`; an attribute is `name`, rule, `kind`, and `>field` where
the op calls it differently.  Rules: `!` required; `+` optional, but always written; `?` optional,
written where it differs from its default.  Attributes stand in XLA's print order.  Kinds are the
grammars of `values`, or

* `call`, `calls`: computations, kept on the instruction in this order;
* `setting`: kept as written among the op's `settings`, as it means nothing for the data;
  `setting/kind` is checked against a grammar.

Field `a,b` receives a value of several parts; `group.field` belongs to the op's value `group`.

Source: XLA docs "Operation semantics" and the attribute names of HLO text.
"""

from __future__ import annotations

from typing import Any, Final

from hloscope.hlo_parser.replica_groups import HloGroups, groups_text
from hloscope.hlo_parser.values import KINDS as VALUES, Kind
from hloscope.ir import REQUIRED
from hloscope.lazy import dataclass, pattern
from hloscope.ops import NO_WINDOW, OPS, DotDimensions, Op

_ROWS: Final = """
    parameter             | parameter             |
    constant              | constant              |
    iota                  | iota                  | iota_dimension!int
    tuple                 | tuple                 |
    get-tuple-element     | get_tuple_element     | index!int
    call                  | call                  | to_apply!call is_composite?setting/bool
    fusion                | fusion                | kind!fusion_kind output_to_operand_aliasing?setting calls!call
    while                 | while                 | condition!call body!call
    conditional           | case                  | true_computation?call false_computation?call branch_computations?calls
    async-start           | async_start           | async_execution_thread?setting calls!call output_to_operand_aliasing?setting
    async-update          | async_update          | async_execution_thread?setting calls?call
    async-done            | async_done            | async_execution_thread?setting calls?call
    copy-start            | copy-start            | cross_program_prefetch_index?setting/int
    copy-done             | copy-done             |
    after-all             | after_all             |
    add-dependency        | add-dependency        |
    opt-barrier           | optimization_barrier  |
    domain                | domain                | domain!setting
    custom-call           | custom_call           | window?window dim_labels?dim_labels>dimensions feature_group_count?int batch_group_count?int padding_type?setting custom_call_target!string>call_target_name operand_precision?setting operand_layout_constraints?setting custom_call_has_side_effect?bool>has_side_effect literal?setting output_to_operand_aliasing?setting schedule?setting api_version?setting to_apply?calls called_computations?calls

    broadcast             | broadcast_in_dim      | dimensions+dims>broadcast_dimensions
    reshape               | reshape               | inferred_dimension?int
    dynamic-reshape       | dynamic_reshape       |
    transpose             | transpose             | dimensions!dims>permutation
    reverse               | reverse               | dimensions!dims
    bitcast               | bitcast               |
    bitcast-convert       | bitcast_convert       |
    concatenate           | concatenate           | dimensions!dim>dimension
    pad                   | pad                   | padding!padding>edge_padding_low,edge_padding_high,interior_padding
    slice                 | slice                 | slice!ranges>start_indices,limit_indices,strides
    dynamic-slice         | dynamic_slice         | dynamic_slice_sizes!dims>slice_sizes
    dynamic-update-slice  | dynamic_update_slice  |
    get-dimension-size    | get_dimension_size    | dimensions!first_dim>dimension
    set-dimension-size    | set_dimension_size    | dimensions!first_dim>dimension
    gather                | gather                | offset_dims!dims collapsed_slice_dims!dims start_index_map!dims operand_batching_dims?dims start_indices_batching_dims?dims index_vector_dim!int slice_sizes!dims indices_are_sorted?bool
    scatter               | scatter               | update_window_dims!dims inserted_window_dims!dims scatter_dims_to_operand_dims!dims input_batching_dims?dims scatter_indices_batching_dims?dims index_vector_dim!int indices_are_sorted?bool unique_indices?bool to_apply!call

    map                   | map                   | dimensions+dims to_apply!call
    reduce                | reduce                | dimensions!dims to_apply!call
    scan                  | scan                  | dimensions!dim>scan_dimension num_carries!int is_reverse?bool is_associative?word to_apply!call
    sort                  | sort                  | dimensions!dim>dimension is_stable?bool to_apply!call
    topk                  | top_k                 | k!int largest+bool
    reduce-window         | reduce_window         | window+window to_apply!call
    select-and-scatter    | select_and_scatter    | window+window select!call scatter!call
    convolution           | convolution           | window+window dim_labels!dim_labels>dimensions feature_group_count?int batch_group_count?int operand_precision?precision>precision_config padding_type?setting conv_kind?setting convolution_kind?setting sparsity_config?setting
    dot                   | dot_general           | lhs_batch_dims?dims>dimensions.lhs_batch lhs_contracting_dims+dims>dimensions.lhs_contracting rhs_batch_dims?dims>dimensions.rhs_batch rhs_contracting_dims+dims>dimensions.rhs_contracting sparsity?word sparsity_config?word operand_precision?precision>precision_config algorithm?word
    scaled-dot            | scaled_dot            | lhs_batch_dims?dims>dimensions.lhs_batch lhs_contracting_dims+dims>dimensions.lhs_contracting rhs_batch_dims?dims>dimensions.rhs_batch rhs_contracting_dims+dims>dimensions.rhs_contracting operand_precision?precision>precision_config algorithm?word
    ragged-dot            | ragged_dot            | lhs_batch_dims?dims>dimensions.lhs_batch lhs_contracting_dims+dims>dimensions.lhs_contracting rhs_batch_dims?dims>dimensions.rhs_batch rhs_contracting_dims+dims>dimensions.rhs_contracting lhs_ragged_dims+dims>lhs_ragged rhs_group_dims?dims>rhs_group operand_precision?precision>precision_config
    batch-norm-training   | batch_norm_training   | epsilon!float feature_index!int
    batch-norm-inference  | batch_norm_inference  | epsilon!float feature_index!int
    batch-norm-grad       | batch_norm_grad       | epsilon!float feature_index!int

    cholesky              | cholesky              | lower?bool
    triangular-solve      | triangular_solve      | left_side+bool lower+bool unit_diagonal?bool transpose_a?transpose_a
    fft                   | fft                   | fft_type!fft_type fft_length!dims
    rng                   | rng                   | distribution!distribution>rng_distribution
    rng-bit-generator     | rng_bit_generator     | algorithm!rng_algorithm>rng_algorithm
    rng-get-and-update-state | rng-get-and-update-state | delta!int

    all-gather            | all_gather            | channel_id?int replica_groups?groups constrain_layout?setting dimensions!first_dim>all_gather_dim use_global_device_ids?bool mode?setting
    all-reduce            | all_reduce            | channel_id?int replica_groups?groups constrain_layout?setting use_global_device_ids?bool mode?setting to_apply!call
    reduce-scatter        | reduce_scatter        | channel_id?int replica_groups?groups constrain_layout?setting use_global_device_ids?bool mode?setting dimensions!first_dim>scatter_dimension to_apply!call
    all-to-all            | all_to_all            | channel_id?int replica_groups?groups constrain_layout?setting dimensions?dim2>split_dimension,concat_dimension
    ragged-all-to-all     | ragged_all_to_all     | channel_id?int replica_groups?groups constrain_layout?setting dimensions?setting
    collective-broadcast  | collective_broadcast  | channel_id?int replica_groups?groups constrain_layout?setting
    collective-permute    | collective_permute    | channel_id?int source_target_pairs!pairs slice_sizes?groups
    partition-id          | partition_id          |
    replica-id            | replica_id            |
    send                  | send                  | channel_id?int is_host_transfer?bool
    send-done             | send-done             | channel_id?int is_host_transfer?bool
    recv                  | recv                  | channel_id?int is_host_transfer?bool
    recv-done             | recv-done             | channel_id?int is_host_transfer?bool
    infeed                | infeed                | infeed_config?string
    outfeed               | outfeed               | outfeed_shape?setting outfeed_config?string

    compare               | compare               | direction!direction>comparison_direction type?compare_type>compare_type
    reduce-precision      | reduce_precision      | exponent_bits!int mantissa_bits!int
"""  # noqa: E501  (a table reads best with one row a line)

_PLAIN: Final = """
    abs add and atan2 ceil clamp complex convert copy count-leading-zeros divide floor imag
    is-finite maximum minimum multiply negate not or popcnt power real remainder
    round-nearest-afz round-nearest-even select shift-left shift-right-arithmetic
    shift-right-logical sign stochastic-convert subtract xor
"""
"""Element-wise opcodes without attributes; their ops are named alike, with `_` for `-`."""

_ACCURATE: Final = """
    cbrt cosine erf exponential exponential-minus-one log log-plus-one logistic rsqrt sine sqrt
    tan tanh acos>chlo.acos acosh>chlo.acosh asin>chlo.asin asinh>chlo.asinh atanh>chlo.atanh
    cosh>chlo.cosh sinh>chlo.sinh
"""
"""Unary opcodes with `result_accuracy`; `>` names an op that is called differently."""

COMMON: Final = (
    "sharding",
    "origin",
    "frontend_attributes",
    "control-predecessors",
    "parameter_replication",
    "statistics",
    "metadata",
    "backend_config",
)
"""Attributes every instruction may have; all but the predecessors are kept as written."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an opcode.

    Attributes:
        name: As in the text.
        required: Must be given.
        always: Is written even if it has its default.
        kind: Name of its grammar, or `call`, `calls`, `setting`.
        grammar: Reader and writer, where it has one.
        fields: Names of the op's fields (one for most), of the setting, or of the group's field.
        group: Field whose value holds `fields`, or `""`.
        default: Value where it is not given.
    """

    name: str
    required: bool
    always: bool
    kind: str
    grammar: Kind | None
    fields: tuple[str, ...]
    group: str
    default: Any


@dataclass(frozen=True, slots=True)
class Spelling:
    """How HLO text writes one op class."""

    opcode: str
    op: type[Op]
    attributes: dict[str, Attribute]


KINDS: Final = {**VALUES, "groups": Kind(HloGroups, groups_text)}
"""Every grammar by the name the rows use."""

GROUPS: Final[dict[str, type]] = {"dimensions": DotDimensions}
"""Classes of the fields that several attributes fill together."""

_ATTRIBUTE: Final = pattern(r"([\w-]+)([!+?])(\w+)(?:/(\w+))?(?:>([\w.,]+))?")
_EMPTY: Final[dict[str, Any]] = {
    "dims": (),
    "bool": False,
    "transpose_a": "TRANSPOSE_INVALID",
    "window": NO_WINDOW,
}
"""Defaults of fields for which the class has none."""


def _attribute(text: str, op: type[Op]) -> Attribute:
    found = _ATTRIBUTE.fullmatch(text)
    assert found is not None, text
    name, rule, kind, check, target = found.groups()
    group, _, names = (target or name).rpartition(".")
    parts = tuple(names.split(","))
    if kind in ("call", "calls"):
        return Attribute(name, rule == "!", rule != "?", kind, None, (), "", None)
    grammar = KINDS[check or kind] if check or kind != "setting" else None
    default = _EMPTY.get(kind)
    if kind != "setting" and not group:
        given = tuple(op.fields[part] for part in parts)
        if REQUIRED not in given:
            default = given if len(given) > 1 else given[0]
    return Attribute(name, rule == "!", rule != "?", kind, grammar, parts, group, default)


def _spellings() -> dict[str, Spelling]:
    rows = [[cell.strip() for cell in row.split("|")] for row in _ROWS.splitlines() if row.strip()]
    rows += [[opcode, opcode.replace("-", "_"), ""] for opcode in _PLAIN.split()]
    for word in _ACCURATE.split():
        opcode, _, name = word.partition(">")
        rows.append([opcode, name or opcode.replace("-", "_"), "result_accuracy?setting"])
    table: dict[str, Spelling] = {}
    for opcode, name, attributes in rows:
        op = OPS[name]
        parts = [_attribute(text, op) for text in attributes.split()]
        assert opcode not in table, opcode
        table[opcode] = Spelling(opcode, op, {part.name: part for part in parts})
    return table


SPELLINGS: Final[dict[str, Spelling]] = _spellings()
"""Every opcode but the sugared asynchronous ones (`<opcode>-start`, `-update`, `-done`)."""

OPCODES: Final[dict[type[Op], str]] = {row.op: row.opcode for row in SPELLINGS.values()}
"""The opcode of each op class that HLO has."""
