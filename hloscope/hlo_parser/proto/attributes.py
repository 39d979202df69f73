"""Attributes of an opcode in HLO text, from the fields of an `HloInstructionProto`.

The table in `opcodes` has the attributes of each opcode. Here each attribute has one function,
which returns its text, or `None` if the attribute is not written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from hloscope.hlo_parser.proto.values import (
    groups_text,
    numbers,
    shape_text,
    sharding_text,
    source_text,
)
from hloscope.hlo_parser.proto.wire import Message
from hloscope.hlo_parser.values import KINDS, quote, write_bool, write_dim_labels, write_window
from hloscope.ir import Dims
from hloscope.ops import ConvDimensions, Window

Writer: TypeAlias = Callable[[Message], str | None]

_PRECISIONS: Final = {0: "default", 1: "high", 2: "highest"}
_ALGORITHMS: Final = dict(
    enumerate(
        """unset dot_any_f8_any_f8_f32 dot_any_f8_any_f8_f32_fast_accum dot_f16_f16_f16
        dot_f16_f16_f32 dot_bf16_bf16_bf16 dot_bf16_bf16_f32 dot_bf16_bf16_f32_x3
        dot_bf16_bf16_f32_x6 dot_tf32_tf32_f32 dot_tf32_tf32_f32_x3 dot_f32_f32_f32
        dot_f64_f64_f64 dot_bf16_bf16_f32_x9""".split()
    )
)
"""Names of dot algorithms by their numbers.

Source: XLA's `PrecisionConfig.Algorithm`.
"""


def _dims(name: str) -> Writer:
    return lambda ins: f"{{{numbers(ins[name])}}}"


def _part(part: str, name: str, *, always: bool = True) -> Writer:
    return lambda ins: f"{{{numbers(ins[part][name])}}}" if always or ins[part][name] else None


def _int(name: str, default: int | None = 0) -> Writer:
    return lambda ins: str(ins[name]) if ins[name] != default else None


def _true(name: str) -> Writer:
    return lambda ins: "true" if ins[name] else None


def _enum(name: str, *words: str, default: int | None = None) -> Writer:
    table = dict(enumerate(words))
    return lambda ins: None if ins[name] == default else ins.word(name, table)


def _text(name: str) -> Writer:
    return lambda ins: ins[name] or None


def _quoted(name: str) -> Writer:
    def write(ins: Message) -> str | None:
        value = ins[name]
        if isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")
        return quote(value) if value else None

    return write


def _window(ins: Message) -> str | None:
    dims = ins["window"]["dimensions"]
    if not dims and ins["opcode"] == "custom-call":
        return None

    def column(name: str) -> Dims:
        return tuple(dim[name] for dim in dims)

    return write_window(
        Window(
            column("size"),
            column("stride"),
            tuple(zip(column("padding_low"), column("padding_high"), strict=True)),
            column("base_dilation"),
            column("window_dilation"),
            tuple(map(bool, column("window_reversal"))),
        )
    )


def _dim_labels(ins: Message) -> str | None:
    if "convolution_dimension_numbers" not in ins:
        return None
    dims = ins["convolution_dimension_numbers"]

    def side(name: str, first: str, second: str) -> tuple[int, int, Dims]:
        spatial = tuple(dims[f"{name}_spatial_dimensions"])
        found = dims[f"{name}_{first}_dimension"], dims[f"{name}_{second}_dimension"], spatial
        used = (*found[:2], *spatial)
        if sorted(used) != list(range(len(used))):
            ins.fail("convolution_dimension_numbers", f"{used} are not the dimensions of {name}")
        return found

    return write_dim_labels(
        ConvDimensions(
            *side("input", "batch", "feature"),
            *side("kernel", "input_feature", "output_feature"),
            *side("output", "batch", "feature"),
        )
    )


def _slices(ins: Message) -> str:
    parts = (
        f"[{part['start']}:{part['limit']}:{part['stride']}]" for part in ins["slice_dimensions"]
    )
    return f"{{{', '.join(parts)}}}"


def _padding(ins: Message) -> str:
    dims = ins["padding_config"]["dimensions"]
    fields = ("edge_padding_low", "edge_padding_high", "interior_padding")
    columns = tuple(tuple(dim[name] for dim in dims) for name in fields)
    return KINDS["padding"].write(columns)


def _precision(ins: Message) -> str | None:
    config = ins["precision_config"]
    values = config["operand_precision"]
    if not set(values) <= set(_PRECISIONS):
        config.refuse("operand_precision", f"values {values} are not known")
    return f"{{{','.join(_PRECISIONS[value] for value in values)}}}" if any(values) else None


def _algorithm(ins: Message) -> str | None:
    if ins["opcode"] == "rng-bit-generator":
        return _enum("rng_algorithm", "rng_default", "rng_three_fry", "rng_philox")(ins)
    config = ins["precision_config"]
    return config.word("algorithm", _ALGORITHMS) if config["algorithm"] else None


def _aliasing(ins: Message) -> str | None:
    pairs = (
        f"{{{', '.join(map(str, pair['output_shape_index']))}}}: ({pair['operand_index']}, "
        f"{{{', '.join(map(str, pair['operand_shape_index']))}}})"
        for pair in ins["output_operand_aliasing"]
    )
    text = ", ".join(pairs)
    return f"{{{text}}}" if text else None


def _constraints(ins: Message) -> str | None:
    if not ins["constrain_layout"]:
        return None
    return f"{{{', '.join(map(shape_text, ins['operand_shapes_with_layout']))}}}"


def _accuracy(ins: Message) -> str | None:
    accuracy = ins["result_accuracy"]
    if "tolerance" in accuracy:
        tolerance = accuracy["tolerance"]
        atol, rtol = (KINDS["float"].write(tolerance[name]) for name in ("atol", "rtol"))
        return f"{{tolerance={{atol={atol},rtol={rtol},ulps={tolerance['ulps']}}}}}"
    mode = accuracy.word("mode", {0: "default", 1: "highest"})
    return None if mode == "default" else f"{{mode={mode}}}"


def _pairs(ins: Message) -> str:
    pairs = (f"{{{pair['source']},{pair['target']}}}" for pair in ins["source_target_pairs"])
    return f"{{{','.join(pairs)}}}"


def _channel(ins: Message) -> str | None:
    channel = ins["channel_id"] or ins["all_reduce_id"]
    return str(channel) if channel > 0 else None


def _sharding(ins: Message) -> str | None:
    return sharding_text(ins["sharding"]) if "sharding" in ins else None


def _domain(ins: Message) -> str:
    entry, exit_ = (sharding_text(ins[f"domain_{side}_sharding"]) for side in ("entry", "exit"))
    return f'{{kind="sharding", entry={entry}, exit={exit_}}}'


def frontend_text(attributes: Message) -> str | None:
    """Return the text of frontend attributes, `{a="b"}`; `None` if there are none."""
    pairs = sorted((entry["key"], entry["value"]) for entry in attributes["map"])
    texts = (f"{key}={value if value[:1] == '{' else quote(value)}" for key, value in pairs)
    return f"{{{','.join(texts)}}}" if pairs else None


def _replication(ins: Message) -> str | None:
    if "parameter_replication" not in ins:
        return None
    leaves = ins["parameter_replication"]["replicated_at_leaf_buffers"]
    return f"{{{','.join(map(write_bool, leaves))}}}"


def _frontend(ins: Message) -> str | None:
    return frontend_text(ins["frontend_attributes"]) if ins.is_set("frontend_attributes") else None


def _statistics(ins: Message) -> str | None:
    if not ins.is_set("statistics_viz"):
        return None
    viz = ins["statistics_viz"]
    if not viz["statistics"]:
        return None
    parts = [f"visualizing_index={viz['stat_index_to_visualize']}"]
    write = KINDS["float"].write
    parts += [f"{stat['stat_name']}={write(stat['stat_val'])}" for stat in viz["statistics"]]
    return f"{{{','.join(parts)}}}"


def _config(ins: Message) -> str | None:
    if "backend_config_payload" in ins:
        ins.refuse("backend_config_payload", "configs outside of the instruction are not read")
    raw: bytes = ins["backend_config"]
    if not raw:
        return None
    text = raw.decode("utf-8", "surrogateescape")
    return text if text[0] == "{" and text[-1] == "}" else quote(text)


def _origin(ins: Message) -> str | None:
    if "original_value" not in ins:
        return None
    value = ins["original_value"]
    if value["is_synthetic_call"]:
        return "[synthetic_call]"
    if any(element["shape_index"] for element in value["elements"]):
        return _origin_tree(value)
    return "{" + ", ".join(_origin_leaf(element) for element in value["elements"]) + "}"


def _origin_leaf(element: Message) -> str:
    array = element["original_array"]
    if not array["instruction_name"]:
        return ""
    index = numbers(array["shape_index"])
    return f'"{array["instruction_name"]}"' + (f" {{{index}}}" if index else "")


def _origin_tree(value: Message) -> str:
    """Return the text of an original value: the leaves' texts, nested like their shape indices."""
    out = ""
    before: Dims = ()
    for element in value["elements"]:
        index = tuple(element["shape_index"])
        same = 0
        while same < min(len(index), len(before)) and index[same] == before[same]:
            same += 1
        if before:
            out += ")" * (len(before) - same - 1) + ", "
        out += "(" * (len(index) - same - bool(before)) + _origin_leaf(element)
        before = index
    return f"{{{out}{')' * len(before)}}}"


def _dimensions(ins: Message) -> str | None:
    dims = ins["dimensions"]
    if not dims and ins["opcode"] in ("all-to-all", "ragged-all-to-all"):
        return None
    return f"{{{numbers(dims)}}}"


_GATHER, _SCATTER = "gather_dimension_numbers", "scatter_dimension_numbers"


def _index_vector_dim(ins: Message) -> str:
    return str(ins[_SCATTER if ins["opcode"] == "scatter" else _GATHER]["index_vector_dim"])


def _dot(name: str, *, always: bool) -> Writer:
    def write(ins: Message) -> str | None:
        ragged = ins["ragged_dot_dimension_numbers"]
        inner = "dot_dimension_numbers"
        group = ragged[inner] if ins["opcode"] == "ragged-dot" else ins[inner]
        return f"{{{numbers(group[name])}}}" if always or group[name] else None

    return write


_TRIANGLE = "triangular_solve_options"

ATTRIBUTES: Final[dict[str, Writer]] = {
    "iota_dimension": lambda ins: numbers(ins["dimensions"]),
    "index": _int("tuple_index", None),
    "is_composite": _true("is_composite"),
    "kind": _text("fusion_kind"),
    "async_execution_thread": _quoted("async_execution_thread"),
    "output_to_operand_aliasing": _aliasing,
    "cross_program_prefetch_index": lambda ins: (
        str(ins["cross_program_prefetch_index"]) if "cross_program_prefetch_index" in ins else None
    ),
    "domain": _domain,
    "window": _window,
    "dim_labels": _dim_labels,
    "feature_group_count": lambda ins: _int("feature_group_count", 1)(ins) or None,
    "batch_group_count": lambda ins: _int("batch_group_count", 1)(ins) or None,
    "padding_type": _enum("padding_type", "", "PADDING_VALID", "PADDING_SAME", default=0),
    "custom_call_target": lambda ins: quote(ins["custom_call_target"]),
    "operand_precision": _precision,
    "operand_layout_constraints": _constraints,
    "custom_call_has_side_effect": _true("custom_call_has_side_effect"),
    "schedule": _enum(
        "custom_call_schedule", "", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST", default=0
    ),
    "api_version": lambda ins: (
        None
        if ins["custom_call_api_version"] in (0, 1)
        else _enum(
            "custom_call_api_version",
            "",
            "",
            "API_VERSION_STATUS_RETURNING",
            "API_VERSION_STATUS_RETURNING_UNIFIED",
            "API_VERSION_TYPED_FFI",
        )(ins)
    ),
    "dimensions": _dimensions,
    "padding": _padding,
    "slice": _slices,
    "dynamic_slice_sizes": _dims("dynamic_slice_sizes"),
    "offset_dims": _part(_GATHER, "offset_dims"),
    "collapsed_slice_dims": _part(_GATHER, "collapsed_slice_dims"),
    "start_index_map": _part(_GATHER, "start_index_map"),
    "operand_batching_dims": _part(_GATHER, "operand_batching_dims", always=False),
    "start_indices_batching_dims": _part(_GATHER, "start_indices_batching_dims", always=False),
    "index_vector_dim": _index_vector_dim,
    "slice_sizes": lambda ins: (
        _dims("gather_slice_sizes" if ins["opcode"] == "gather" else "dynamic_slice_sizes")(ins)
        if ins["gather_slice_sizes"] or ins["dynamic_slice_sizes"] or ins["opcode"] == "gather"
        else None
    ),
    "indices_are_sorted": _true("indices_are_sorted"),
    "update_window_dims": _part(_SCATTER, "update_window_dims"),
    "inserted_window_dims": _part(_SCATTER, "inserted_window_dims"),
    "scatter_dims_to_operand_dims": _part(_SCATTER, "scatter_dims_to_operand_dims"),
    "input_batching_dims": _part(_SCATTER, "input_batching_dims", always=False),
    "scatter_indices_batching_dims": _part(_SCATTER, "scatter_indices_batching_dims", always=False),
    "unique_indices": _true("unique_indices"),
    "is_reverse": _true("is_reverse"),
    "is_associative": _enum("is_associative", "", "true", "false", default=0),
    "num_carries": _int("num_carries", None),
    "is_stable": _true("is_stable"),
    "k": _int("k", None),
    "largest": lambda ins: write_bool(ins["largest"]),
    "conv_kind": _enum("conv_kind", "", "fprop", "dgrad", "wgrad", default=0),
    "lhs_batch_dims": _dot("lhs_batch_dimensions", always=False),
    "lhs_contracting_dims": _dot("lhs_contracting_dimensions", always=True),
    "rhs_batch_dims": _dot("rhs_batch_dimensions", always=False),
    "rhs_contracting_dims": _dot("rhs_contracting_dimensions", always=True),
    "lhs_ragged_dims": _part("ragged_dot_dimension_numbers", "lhs_ragged_dimensions"),
    "rhs_group_dims": _part("ragged_dot_dimension_numbers", "rhs_group_dimensions"),
    "algorithm": _algorithm,
    "epsilon": lambda ins: KINDS["float"].write(ins["epsilon"]),
    "feature_index": _int("feature_index", None),
    "lower": lambda ins: write_bool(
        ins["cholesky_options" if ins["opcode"] == "cholesky" else _TRIANGLE]["lower"]
    ),
    "left_side": lambda ins: write_bool(ins[_TRIANGLE]["left_side"]),
    "unit_diagonal": lambda ins: "true" if ins[_TRIANGLE]["unit_diagonal"] else None,
    "transpose_a": lambda ins: ins[_TRIANGLE].word(
        "transpose_a", {0: "TRANSPOSE_INVALID", 1: "NO_TRANSPOSE", 2: "TRANSPOSE", 3: "ADJOINT"}
    ),
    "fft_type": _enum("fft_type", "FFT", "IFFT", "RFFT", "IRFFT"),
    "fft_length": _dims("fft_length"),
    "distribution": lambda ins: ins.word("distribution", {1: "rng_uniform", 2: "rng_normal"}),
    "delta": _int("delta", None),
    "channel_id": _channel,
    "replica_groups": groups_text,
    "constrain_layout": _true("constrain_layout"),
    "use_global_device_ids": _true("use_global_device_ids"),
    "source_target_pairs": _pairs,
    "is_host_transfer": _true("is_host_transfer"),
    "infeed_config": _quoted("infeed_config"),
    "outfeed_config": _quoted("outfeed_config"),
    "outfeed_shape": lambda ins: (
        shape_text(ins["outfeed_shape"]) if "outfeed_shape" in ins else None
    ),
    "direction": lambda ins: ins["comparison_direction"],
    "type": _text("comparison_type"),
    "exponent_bits": _int("exponent_bits", None),
    "mantissa_bits": _int("mantissa_bits", None),
    "result_accuracy": _accuracy,
    "sharding": _sharding,
    "origin": _origin,
    "frontend_attributes": _frontend,
    "parameter_replication": _replication,
    "statistics": _statistics,
    "metadata": lambda ins: source_text(ins) or None,
    "backend_config": _config,
}
"""Functions that print attributes, by name; those that name computations are not included."""
