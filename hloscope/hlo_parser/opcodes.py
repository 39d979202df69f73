"""Table of HLO opcodes: the op of each, its operands, its result and its attributes.

A line of the table: `opcode | op | operands | result | attribute …`.  Kinds of operands and results
are

* `array`; `scalar`, an array of rank 0; `tuple`; `token`; `any`;
* `arrays`, of results: an array, or a tuple of one or more of them.

`kind*` is any number of operands, `kind+` one or more, `kind?` one or none. Kinds or names of
elements follow a `:` where HLO restricts elements more than StableHLO; of repeated operands the
first one is restricted. `like` after the result's kind: if the text omits the type, its layout is
the first operand's.

An attribute is `name`, rule, `kind`, and `>field` if the op's field has another name. Rules: `!`
required; `+` optional, but always printed; `?` optional, printed if it differs from its default.
Attributes are in XLA's print order. Their kinds are the grammars of `values`, or

* `call`, `calls`: computations, stored on the instruction in this order;
* `setting`: stored as text in the op's `settings`, since it does not affect data;
  `setting/kind` is checked against a grammar.

Field `a,b` takes a value of several parts; `group.field` belongs to the op's value `group`.

Source: XLA docs "Operation semantics" and the attribute names of HLO text; `hlo_parser.cc` (numbers
of operands), `hlo_verifier.cc` (kinds), `shape_inference.cc` (elements: `InferUnaryOpShape`,
`InferElementwiseBinaryOpShape`, `InferTriangularSolveShape`, `InferBatchNormTrainingShape`,
`InferGatherShape` …).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec import NODEFAULT, Struct

from hloscope.hlo_parser.values import KINDS as VALUES, Kind
from hloscope.ir import Op, defaults_of
from hloscope.ops import ELEMENTWISE, NO_WINDOW, OPS, DotDimensions
from hloscope.support.lazy import lazy, pattern

if TYPE_CHECKING:
    import hloscope.hlo_parser.devices as groups
else:
    groups = lazy("hloscope.hlo_parser.devices")

_ROWS: Final = """
    parameter                | parameter                |                                      | any         |
    constant                 | constant                 |                                      | any         |
    iota                     | iota                     |                                      | array       | iota_dimension!int
    tuple                    | tuple                    | any*                                 | tuple       |
    get-tuple-element        | get_tuple_element        | tuple                                | any         | index!int
    call                     | call                     | any*                                 | any         | to_apply!call is_composite?setting/bool
    fusion                   | fusion                   | any*                                 | any         | kind!fusion_kind output_to_operand_aliasing?setting calls!call
    while                    | while                    | any                                  | any         | condition!call body!call
    conditional              | case                     | scalar any*                          | any         | true_computation?call false_computation?call branch_computations?calls
    async-start              | async_start              | any*                                 | tuple       | async_execution_thread?setting calls!call output_to_operand_aliasing?setting
    async-update             | async_update             | any+                                 | any         | async_execution_thread?setting calls?call
    async-done               | async_done               | any                                  | any         | async_execution_thread?setting calls?call
    copy-start               | copy-start               | array                                | tuple       | cross_program_prefetch_index?setting/int
    copy-done                | copy-done                | any                                  | any         |
    after-all                | after_all                | any*                                 | token       |
    add-dependency           | add-dependency           | any token                            | any like    |
    opt-barrier              | optimization_barrier     | any                                  | any         |
    domain                   | domain                   | any                                  | any         | domain!setting
    custom-call              | custom_call              | any*                                 | any         | window?window dim_labels?dim_labels>dimensions feature_group_count?int batch_group_count?int padding_type?setting/padding_type custom_call_target!string>call_target_name operand_precision?setting/precision operand_layout_constraints?setting custom_call_has_side_effect?bool>has_side_effect literal?setting output_to_operand_aliasing?setting schedule?setting/schedule api_version?setting/api_version to_apply?calls called_computations?calls

    broadcast                | broadcast_in_dim         | array                                | array       | dimensions+dims>broadcast_dimensions
    reshape                  | reshape                  | array                                | array       | inferred_dimension?int
    dynamic-reshape          | dynamic_reshape          | array scalar*                        | array       |
    transpose                | transpose                | array                                | array       | dimensions!dims>permutation
    reverse                  | reverse                  | array                                | array like  | dimensions!dims
    bitcast                  | bitcast                  | any                                  | any         |
    bitcast-convert          | bitcast_convert          | array                                | array       |
    concatenate              | concatenate              | array+                               | array       | dimensions!dim>dimension
    pad                      | pad                      | array scalar                         | array       | padding!padding>edge_padding_low,edge_padding_high,interior_padding
    slice                    | slice                    | array                                | array       | slice!ranges>start_indices,limit_indices,strides
    dynamic-slice            | dynamic_slice            | array array*:signed,unsigned         | array       | dynamic_slice_sizes!dims>slice_sizes
    dynamic-update-slice     | dynamic_update_slice     | array array array*:signed,unsigned   | array       |
    get-dimension-size       | get_dimension_size       | array                                | scalar      | dimensions!first_dim>dimension
    set-dimension-size       | set_dimension_size       | array scalar:s32                     | array like  | dimensions!first_dim>dimension
    gather                   | gather                   | array array:signed,unsigned          | array       | offset_dims!dims collapsed_slice_dims!dims start_index_map!dims operand_batching_dims?dims start_indices_batching_dims?dims index_vector_dim!int slice_sizes!dims indices_are_sorted?bool
    scatter                  | scatter                  | array array array array*             | arrays like | update_window_dims!dims inserted_window_dims!dims scatter_dims_to_operand_dims!dims input_batching_dims?dims scatter_indices_batching_dims?dims index_vector_dim!int indices_are_sorted?bool unique_indices?bool to_apply!call

    map                      | map                      | array+                               | array       | dimensions+dims to_apply!call
    reduce                   | reduce                   | array array array*                   | arrays      | dimensions!dims to_apply!call
    scan                     | scan                     | array*                               | any         | dimensions!dim>scan_dimension num_carries!int is_reverse?bool is_associative?word to_apply!call
    sort                     | sort                     | array+                               | arrays like | dimensions!dim>dimension is_stable?bool to_apply!call
    topk                     | top_k                    | array                                | tuple       | k!int largest+bool
    reduce-window            | reduce_window            | array array array*                   | arrays      | window+window to_apply!call
    select-and-scatter       | select_and_scatter       | array array scalar                   | array like  | window+window select!call scatter!call
    convolution              | convolution              | array array                          | array       | window+window dim_labels!dim_labels>dimensions feature_group_count?int batch_group_count?int operand_precision?precision>precision_config padding_type?setting conv_kind?setting convolution_kind?setting/convolution_kind sparsity_config?setting
    dot                      | dot_general              | array array array*                   | array       | lhs_batch_dims?dims>dimensions.lhs_batch lhs_contracting_dims+dims>dimensions.lhs_contracting rhs_batch_dims?dims>dimensions.rhs_batch rhs_contracting_dims+dims>dimensions.rhs_contracting sparsity?word sparsity_config?word operand_precision?precision>precision_config algorithm?word
    scaled-dot               | scaled_dot               | array array array array              | array       | lhs_batch_dims?dims>dimensions.lhs_batch lhs_contracting_dims+dims>dimensions.lhs_contracting rhs_batch_dims?dims>dimensions.rhs_batch rhs_contracting_dims+dims>dimensions.rhs_contracting operand_precision?precision>precision_config algorithm?word
    ragged-dot               | ragged_dot               | array array array                    | array       | lhs_batch_dims?dims>dimensions.lhs_batch lhs_contracting_dims+dims>dimensions.lhs_contracting rhs_batch_dims?dims>dimensions.rhs_batch rhs_contracting_dims+dims>dimensions.rhs_contracting lhs_ragged_dims+dims>lhs_ragged rhs_group_dims?dims>rhs_group operand_precision?precision>precision_config
    batch-norm-training      | batch_norm_training      | array:float array array              | tuple       | epsilon!float feature_index!int
    batch-norm-inference     | batch_norm_inference     | array:float array array array array  | array like  | epsilon!float feature_index!int
    batch-norm-grad          | batch_norm_grad          | array:float array array array array  | tuple       | epsilon!float feature_index!int

    cholesky                 | cholesky                 | array:float,complex                  | array like  | lower?bool
    triangular-solve         | triangular_solve         | array:float,complex array            | array       | left_side+bool lower+bool unit_diagonal?bool transpose_a?transpose_a
    fft                      | fft                      | array                                | array like  | fft_type!fft_type fft_length!dims
    rng                      | rng                      | scalar scalar array?                 | array       | distribution!distribution>rng_distribution
    rng-bit-generator        | rng_bit_generator        | array                                | arrays      | algorithm!rng_algorithm>rng_algorithm
    rng-get-and-update-state | rng-get-and-update-state |                                      | array       | delta!int

    all-gather               | all_gather               | array+                               | arrays      | channel_id?int replica_groups?groups constrain_layout?setting dimensions!first_dim>all_gather_dim use_global_device_ids?bool mode?setting
    all-reduce               | all_reduce               | array+                               | arrays      | channel_id?int replica_groups?groups constrain_layout?setting use_global_device_ids?bool mode?setting to_apply!call
    reduce-scatter           | reduce_scatter           | array+                               | arrays      | channel_id?int replica_groups?groups constrain_layout?setting use_global_device_ids?bool mode?setting dimensions!first_dim>scatter_dimension to_apply!call
    all-to-all               | all_to_all               | array+                               | arrays      | channel_id?int replica_groups?groups constrain_layout?setting dimensions?dim2>split_dimension,concat_dimension
    ragged-all-to-all        | ragged_all_to_all        | array array array array array array  | array       | channel_id?int replica_groups?groups constrain_layout?setting dimensions?setting
    collective-broadcast     | collective_broadcast     | array+                               | arrays      | channel_id?int replica_groups?groups constrain_layout?setting
    collective-permute       | collective_permute       | any+                                 | arrays      | channel_id?int source_target_pairs!pairs slice_sizes?groups
    partition-id             | partition_id             |                                      | scalar      |
    replica-id               | replica_id               |                                      | scalar      |
    send                     | send                     | any token                            | tuple       | channel_id?int is_host_transfer?bool
    send-done                | send-done                | tuple                                | token       | channel_id?int is_host_transfer?bool
    recv                     | recv                     | token                                | tuple       | channel_id?int is_host_transfer?bool
    recv-done                | recv-done                | tuple                                | tuple       | channel_id?int is_host_transfer?bool
    infeed                   | infeed                   | token                                | tuple       | infeed_config?string
    outfeed                  | outfeed                  | any token                            | token       | outfeed_shape?setting outfeed_config?string

    compare                  | compare                  | array array                          | array       | direction!direction>comparison_direction type?compare_type>compare_type
    reduce-precision         | reduce_precision         | array:float                          | array       | exponent_bits!int mantissa_bits!int
    copy                     | copy                     | any                                  | any         |
    stochastic-convert       | stochastic_convert       | array:float array:unsigned           | array       |
"""  # noqa: E501  (a table reads best with one row a line)

_PLAIN: Final = """
    signed,float,complex          | abs sign
    any                           | add clamp convert maximum minimum multiply select
    pred,signed,unsigned          | and not or xor
    float,complex                 | atan2 imag real
    float                         | ceil floor is-finite round-nearest-afz round-nearest-even
    f32,f64                       | complex
    signed,unsigned               | count-leading-zeros popcnt
    signed,unsigned,float,complex | divide negate power remainder shift-left
    signed,unsigned,float,complex | shift-right-arithmetic shift-right-logical subtract
"""
"""Element-wise opcodes without attributes.

Each line has the element types that HLO allows for the first operand, then opcodes. An op has the
opcode's name with `_` for `-`; its class has the number of operands.
"""

_ACCURATE: Final = """
    float                         | cbrt erf
    float,complex                 | cosine exponential exponential-minus-one log log-plus-one
    float,complex                 | logistic rsqrt sine sqrt tan tanh acos>chlo.acos
    float,complex                 | acosh>chlo.acosh asin>chlo.asin asinh>chlo.asinh
    float,complex                 | atanh>chlo.atanh cosh>chlo.cosh sinh>chlo.sinh
"""
"""Unary opcodes with the attribute `result_accuracy`, in lines as in `_PLAIN`.

`opcode>op` has the op's name if it differs.
"""

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
"""Attributes that every instruction may have; all but control predecessors are stored as text."""


class Attribute(Struct, frozen=True):
    """One attribute of an opcode.

    Attributes:
        name: Name in the text.
        required: Whether the attribute must be present.
        always: Whether the attribute is printed even if it has its default.
        kind: Name of its grammar, or `call`, `calls`, `setting`.
        grammar: Reader and writer of the value; `None` if it is not stored in fields.
        fields: Names of the op's fields (one for most), of the setting, or of the group's field.
        group: Name of the op's field whose value has `fields`; empty if the op has them itself.
        default: Value if the attribute is omitted.
    """

    name: str
    required: bool
    always: bool
    kind: str
    grammar: Kind | None
    fields: tuple[str, ...]
    group: str
    default: Any


class Spelling:
    """How HLO text expresses ops of one class: opcode, kinds of operands and result, attributes.

    Attributes:
        opcode: Opcode in the text.
        op: The op class.
        operands: Kind of each operand, with its allowed element types, as in the table.
        result: Kind of the result.
        has_first_layout: Whether a result whose type is not written has the layout of the first
            operand.
        callees: Names of the attributes that name one computation.
    """

    def __init__(self, row: list[str]) -> None:
        self.opcode, name, operands, result, attributes = row
        self.op: Final = OPS[name]
        self.operands: Final = tuple(operands.split())
        self.result, _, like = result.partition(" ")
        self.has_first_layout: Final = like == "like"
        self._attributes: Final = attributes.split()
        self.callees: Final = [t[:-5] for t in self._attributes if t.endswith(("!call", "?call"))]

    # Computed on demand: a program has few of all opcodes.
    @cached_property
    def attributes(self) -> dict[str, Attribute]:
        """Attributes by name, in the order in which they are printed."""
        return {part.name: part for part in (_attribute(t, self.op) for t in self._attributes)}


KINDS: Final = {
    **VALUES,
    "groups": Kind(lambda text: groups.HloGroups(text), lambda value: groups.groups_text(value)),
}
"""Grammars of attribute values, by the names that the table of opcodes uses for them."""

GROUPS: Final[dict[str, type]] = {"dimensions": DotDimensions}
"""Classes of the op's fields that several attributes set together, by the field's name."""

_ATTRIBUTE: Final = pattern(r"([\w-]+)([!+?])(\w+)(?:/(\w+))?(?:>([\w.,]+))?")
_EMPTY: Final[dict[str, Any]] = {
    "dims": (),
    "bool": False,
    "transpose_a": "TRANSPOSE_INVALID",
    "window": NO_WINDOW,
}
"""Default values of fields whose class declares none, by the kind of the attribute."""


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
        defaults = defaults_of(op)
        given = tuple(defaults[part] for part in parts)
        if NODEFAULT not in given:
            default = given if len(given) > 1 else given[0]
    return Attribute(name, rule == "!", rule != "?", kind, grammar, parts, group, default)


def _rows() -> Iterator[list[str]]:
    """Yield the lines of the table, element-wise ops included, each split into columns."""
    for row in filter(str.strip, _ROWS.splitlines()):
        yield [cell.strip() for cell in row.split("|")]
    for table, attributes in ((_PLAIN, ""), (_ACCURATE, "result_accuracy?setting")):
        for row in filter(str.strip, table.splitlines()):
            elements, words = row.split("|")
            for word in words.split():
                opcode, _, called = word.partition(">")
                name = called or opcode.replace("-", "_")
                more = ["array"] * (ELEMENTWISE[name].arity - 1)
                operands = [f"array:{elements.strip()}".removesuffix(":any"), *more]
                yield [opcode, name, " ".join(operands), "array", attributes]


def _spellings() -> dict[str, Spelling]:
    table: dict[str, Spelling] = {}
    for row in _rows():
        assert row[0] not in table, row[0]
        table[row[0]] = Spelling(row)
    return table


SPELLINGS: Final[dict[str, Spelling]] = _spellings()
"""The entry of each opcode, except asynchronous ones (`<opcode>-start`, `-update`, `-done`)."""

OPCODES: Final[dict[type[Op], str]] = {row.op: row.opcode for row in SPELLINGS.values()}
"""The opcode of each op class in HLO."""
