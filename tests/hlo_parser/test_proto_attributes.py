# ruff: noqa: E501  (tables read best with one row a line)
"""Attributes of instructions in protos, as text: written, with their default values, and empty."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser.proto.module import proto_text
from hloscope.hlo_parser.proto.schema import FIELDS
from tests.hlo_parser.test_proto import F32, f, instructions, shape, varint


def message(name: str, **fields: Any) -> bytes:
    """A message of the fields by name: a dictionary is a message, a list a repeated field."""
    out = b""
    for field, value in fields.items():
        known = FIELDS[name][field]
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                out += f(known.number, message(known.kind, **one))
            elif known.kind == "double":
                out += varint(known.number << 3 | 1) + struct.pack("<d", one)
            else:
                out += f(known.number, one)
    return out


def attributes(opcode: str, **fields: Any) -> str:
    """The text of the attributes of an instruction without operands."""
    own = f(1, "r") + f(2, opcode) + f(3, shape(F32, 4)) + message("HloInstructionProto", **fields)
    text = proto_text(instructions(f(2, own + f(35, 5)), root=5), "m")
    [line] = [line for line in text.splitlines() if "ROOT" in line]
    return re.sub(r"^.*?\(\)(?:, )?", "", line)


GATHER = {
    "offset_dims": [1, 2],
    "collapsed_slice_dims": [0],
    "start_index_map": [0],
    "index_vector_dim": 1,
}
SCATTER = {
    "update_window_dims": [1],
    "inserted_window_dims": [0],
    "scatter_dims_to_operand_dims": [0],
    "index_vector_dim": 2,
}
DOT = {"lhs_contracting_dimensions": [1], "rhs_contracting_dimensions": [0]}
BATCHED = DOT | {"lhs_batch_dimensions": [2], "rhs_batch_dimensions": [3]}
CASES: list[tuple[str, dict[str, Any], str]] = [
    (
        "gather",
        dict(gather_dimension_numbers=GATHER, gather_slice_sizes=[1, 2, 3]),
        "offset_dims={1,2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2,3}",
    ),
    (
        "gather",
        dict(gather_dimension_numbers={}),
        "offset_dims={}, collapsed_slice_dims={}, start_index_map={}, index_vector_dim=0, slice_sizes={}",
    ),
    (
        "gather",
        dict(
            gather_dimension_numbers=GATHER
            | dict(operand_batching_dims=[3], start_indices_batching_dims=[0]),
            gather_slice_sizes=[1],
            indices_are_sorted=1,
        ),
        "offset_dims={1,2}, collapsed_slice_dims={0}, start_index_map={0}, operand_batching_dims={3}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1}, indices_are_sorted=true",
    ),
    (
        "scatter",
        dict(scatter_dimension_numbers=SCATTER),
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=2",
    ),
    (
        "scatter",
        dict(
            scatter_dimension_numbers=SCATTER
            | dict(input_batching_dims=[3], scatter_indices_batching_dims=[0]),
            unique_indices=1,
        ),
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, input_batching_dims={3}, scatter_indices_batching_dims={0}, index_vector_dim=2, unique_indices=true",
    ),
    (
        "scatter",
        dict(scatter_dimension_numbers={}),
        "update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, index_vector_dim=0",
    ),
    ("dot", dict(dot_dimension_numbers=DOT), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    (
        "dot",
        dict(dot_dimension_numbers=BATCHED),
        "lhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_batch_dims={3}, rhs_contracting_dims={0}",
    ),
    ("dot", dict(dot_dimension_numbers={}), "lhs_contracting_dims={}, rhs_contracting_dims={}"),
    (
        "dot",
        dict(dot_dimension_numbers=DOT, precision_config=dict(operand_precision=[0, 0])),
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    (
        "dot",
        dict(
            dot_dimension_numbers=DOT, precision_config=dict(operand_precision=[1, 2], algorithm=3)
        ),
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={high,highest}, algorithm=dot_f16_f16_f16",
    ),
    (
        "ragged-dot",
        dict(
            ragged_dot_dimension_numbers=dict(
                dot_dimension_numbers=DOT, lhs_ragged_dimensions=[0], rhs_group_dimensions=[0]
            )
        ),
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={0}, rhs_group_dims={0}",
    ),
    ("all-to-all", dict(), "replica_groups={}"),
    ("all-to-all", dict(dimensions=[1]), "replica_groups={}, dimensions={1}"),
    ("custom-call", dict(custom_call_target="f"), 'custom_call_target="f"'),
    (
        "custom-call",
        dict(custom_call_target="f", custom_call_api_version=1),
        'custom_call_target="f"',
    ),
    (
        "custom-call",
        dict(custom_call_target="f", custom_call_api_version=2),
        'custom_call_target="f", api_version=API_VERSION_STATUS_RETURNING',
    ),
    (
        "custom-call",
        dict(
            custom_call_target="f",
            custom_call_api_version=4,
            custom_call_has_side_effect=1,
            custom_call_schedule=1,
            padding_type=1,
            feature_group_count=1,
            batch_group_count=2,
        ),
        'batch_group_count=2, padding_type=PADDING_VALID, custom_call_target="f", custom_call_has_side_effect=true, schedule=SCHEDULE_LATEST, api_version=API_VERSION_TYPED_FFI',
    ),
    (
        "custom-call",
        dict(
            custom_call_target="f", feature_group_count=2, batch_group_count=1, backend_config="{a}"
        ),
        'feature_group_count=2, custom_call_target="f", backend_config={a}',
    ),
    (
        "custom-call",
        dict(custom_call_target="f", backend_config="{a"),
        'custom_call_target="f", backend_config="{a"',
    ),
    (
        "custom-call",
        dict(custom_call_target="f", backend_config="a}"),
        'custom_call_target="f", backend_config="a}"',
    ),
    (
        "custom-call",
        dict(custom_call_target="f", constrain_layout=1),
        'custom_call_target="f", operand_layout_constraints={}',
    ),
    (
        "custom-call",
        dict(
            custom_call_target="f",
            output_operand_aliasing=[
                dict(output_shape_index=[0, 1], operand_index=2, operand_shape_index=[]),
                dict(output_shape_index=[], operand_index=0, operand_shape_index=[1]),
            ],
        ),
        'custom_call_target="f", output_to_operand_aliasing={{0, 1}: (2, {}), {}: (0, {1})}',
    ),
    ("exponential", dict(), ""),
    ("exponential", dict(result_accuracy=dict(mode=1)), "result_accuracy={mode=highest}"),
    (
        "exponential",
        dict(result_accuracy=dict(tolerance=dict(atol=0.5, rtol=0.25, ulps=2))),
        "result_accuracy={tolerance={atol=0.5,rtol=0.25,ulps=2}}",
    ),
    (
        "collective-permute",
        dict(
            source_target_pairs=[dict(source=0, target=1), dict(source=1, target=0)], channel_id=3
        ),
        "channel_id=3, source_target_pairs={{0,1},{1,0}}",
    ),
    ("collective-permute", dict(source_target_pairs=[]), "source_target_pairs={}"),
    ("all-reduce", dict(all_reduce_id=2), "channel_id=2, replica_groups={}"),
    (
        "all-reduce",
        dict(channel_id=1, all_reduce_id=2, use_global_device_ids=1, constrain_layout=1),
        "channel_id=1, replica_groups={}, constrain_layout=true, use_global_device_ids=true",
    ),
    ("rng-bit-generator", dict(rng_algorithm=0), "algorithm=rng_default"),
    ("rng-bit-generator", dict(rng_algorithm=2), "algorithm=rng_philox"),
    (
        "compare",
        dict(comparison_direction="EQ", comparison_type="TOTALORDER"),
        "direction=EQ, type=TOTALORDER",
    ),
    ("cholesky", dict(cholesky_options=dict(lower=1)), "lower=true"),
    ("cholesky", dict(), "lower=false"),
    (
        "triangular-solve",
        dict(triangular_solve_options=dict(left_side=1, lower=1, unit_diagonal=1, transpose_a=2)),
        "left_side=true, lower=true, unit_diagonal=true, transpose_a=TRANSPOSE",
    ),
    (
        "triangular-solve",
        dict(triangular_solve_options=dict(transpose_a=1)),
        "left_side=false, lower=false, transpose_a=NO_TRANSPOSE",
    ),
    ("fft", dict(fft_type=2, fft_length=[4, 3]), "fft_type=RFFT, fft_length={4,3}"),
    ("sort", dict(dimensions=[0], is_stable=1), "dimensions={0}, is_stable=true"),
    ("sort", dict(dimensions=[0]), "dimensions={0}"),
    ("topk", dict(k=0), "k=0, largest=false"),
    ("topk", dict(k=2, largest=1), "k=2, largest=true"),
    (
        "reduce-precision",
        dict(exponent_bits=0, mantissa_bits=7),
        "exponent_bits=0, mantissa_bits=7",
    ),
    (
        "negate",
        dict(parameter_replication=dict(replicated_at_leaf_buffers=[1, 0])),
        "parameter_replication={true,false}",
    ),
    (
        "negate",
        dict(frontend_attributes=dict(map=[dict(key="b", value="x"), dict(key="a", value="{y}")])),
        'frontend_attributes={a={y},b="x"}',
    ),
    ("negate", dict(frontend_attributes=dict(map=[])), ""),
    (
        "negate",
        dict(
            statistics_viz=dict(
                stat_index_to_visualize=1, statistics=[dict(stat_name="s", stat_val=0.5)]
            )
        ),
        "statistics={visualizing_index=1,s=0.5}",
    ),
    ("negate", dict(statistics_viz=dict(stat_index_to_visualize=1)), ""),
    ("rng-get-and-update-state", dict(delta=0), "delta=0"),
    ("outfeed", dict(outfeed_config="c"), 'outfeed_config="c"'),
    ("send", dict(channel_id=2, is_host_transfer=1), "channel_id=2, is_host_transfer=true"),
    ("infeed", dict(infeed_config="c"), 'infeed_config="c"'),
    ("slice", dict(slice_dimensions=[dict(start=1, limit=4, stride=2)]), "slice={[1:4:2]}"),
    (
        "pad",
        dict(
            padding_config=dict(
                dimensions=[
                    dict(edge_padding_low=1, edge_padding_high=2, interior_padding=3),
                    dict(),
                ]
            )
        ),
        "padding=1_2_3x0_0_0",
    ),
    (
        "pad",
        dict(padding_config=dict(dimensions=[dict(edge_padding_low=1, edge_padding_high=2)])),
        "padding=1_2",
    ),
    ("dynamic-slice", dict(dynamic_slice_sizes=[2]), "dynamic_slice_sizes={2}"),
    ("get-tuple-element", dict(tuple_index=0), "index=0"),
    ("copy-start", dict(), ""),
    ("copy-start", dict(cross_program_prefetch_index=0), "cross_program_prefetch_index=0"),
    ("iota", dict(dimensions=[0]), "iota_dimension=0"),
    ("batch-norm-inference", dict(epsilon=0.5, feature_index=0), "epsilon=0.5, feature_index=0"),
    ("negate", dict(original_value=dict(is_synthetic_call=1)), "origin=[synthetic_call]"),
    (
        "negate",
        dict(original_value=dict(elements=[dict(original_array=dict(instruction_name="p"))])),
        'origin={"p"}',
    ),
    (
        "negate",
        dict(
            original_value=dict(
                elements=[
                    dict(
                        shape_index=[0], original_array=dict(instruction_name="p", shape_index=[1])
                    ),
                    dict(shape_index=[1, 0], original_array=dict(instruction_name="q")),
                    dict(shape_index=[1, 1]),
                ]
            )
        ),
        'origin={("p" {1}, ("q", ))}',
    ),
    (
        "negate",
        dict(
            original_value=dict(
                elements=[
                    dict(shape_index=[0, 0], original_array=dict(instruction_name="p")),
                    dict(shape_index=[0, 1], original_array=dict(instruction_name="q")),
                    dict(shape_index=[1], original_array=dict(instruction_name="r")),
                ]
            )
        ),
        'origin={(("p", "q"), "r")}',
    ),
    (
        "custom-call",
        dict(
            custom_call_target="f",
            window=dict(dimensions=[dict(size=2, stride=3, window_dilation=1, base_dilation=1)]),
        ),
        'window={size=2 stride=3}, custom_call_target="f"',
    ),
]
"""Opcode, fields of the instruction, and the text of its attributes."""


def test_attributes_are_written_unless_they_have_the_default_value() -> None:
    for opcode, fields, text in CASES:
        assert attributes(opcode, **fields) == text, (opcode, fields)


def test_configs_outside_of_the_instruction_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="configs outside of the instruction are not read"):
        attributes("custom-call", custom_call_target="f", backend_config_payload={})


def test_unknown_precisions_are_refused() -> None:
    for known in (0, 1, 2):
        attributes(
            "dot", dot_dimension_numbers=DOT, precision_config={"operand_precision": [known]}
        )
    with pytest.raises(UnsupportedError, match="are not known"):
        attributes("dot", dot_dimension_numbers=DOT, precision_config={"operand_precision": [0, 9]})
