"""Attributes of instructions in protobuf's binary form: the text of each, or none."""

from __future__ import annotations

from typing import Final

import pytest

from hloscope.errors import HloscopeError
from hloscope.hlo_parser.proto.module import proto_text
from tests.hlo_parser.test_proto import F32, f, ins, instructions, shape


def tail(opcode: str, *fields: bytes) -> str:
    """What the text of an instruction has behind its operand."""
    parameter = ins("p", "parameter", shape(F32, 4), 1)
    whole = ins("x", opcode, shape(F32, 4), 2, f(36, [1]), *fields)
    text = proto_text(instructions(parameter, whole, root=2), "m")
    (line,) = [line for line in text.splitlines() if "%x = " in line]
    return line.partition(")")[2]


def m(number: int, *fields: bytes) -> bytes:
    """A field that is a message."""
    return f(number, b"".join(fields))


def n(number: int, *values: int) -> bytes:
    """A field that is a message whose fields 1, 2, 3 … are numbers."""
    return m(number, *[f(k, value) for k, value in enumerate(values, 1)])


Row = tuple[str, str, bytes]
WINDOW: Final = m(15, n(1, 2, 3, 1, 4, 2, 3, 1))
LABELS: Final = m(
    16, f(7, 0), f(8, 1), f(11, [2]), f(3, 2), f(4, 1), f(6, [0]), f(9, 2), f(10, 0), f(12, [1])
)
ONE_GROUP: Final = f(50, 1) + f(58, 1)
CUSTOM: Final = ONE_GROUP + f(28, "t")
SIDED: Final = "window={size=2 stride=3 pad=1_4 lhs_dilate=3 rhs_dilate=2 rhs_reversal=1}"
T: Final = 'custom_call_target="t"'
CUSTOM_CALLS: list[Row] = [
    ("custom-call", T, f(28, "t")),
    ("custom-call", T, CUSTOM),
    ("custom-call", T, CUSTOM + m(15)),
    ("custom-call", f"{SIDED}, {T}", CUSTOM + WINDOW),
    ("custom-call", f"dim_labels=bf0_0oi->f0b, {T}", CUSTOM + LABELS),
    ("custom-call", 'feature_group_count=2, batch_group_count=3, custom_call_target="t\\""',
     f(50, 2) + f(58, 3) + f(28, 't"')),
    ("custom-call", f"padding_type=PADDING_VALID, {T}", CUSTOM + f(75, 1)),
    ("custom-call", f"padding_type=PADDING_SAME, {T}", CUSTOM + f(75, 2)),
    ("custom-call", f"{T}, custom_call_has_side_effect=true", CUSTOM + f(65, 1)),
    ("custom-call", f"{T}, schedule=SCHEDULE_LATEST", CUSTOM + f(76, 1)),
    ("custom-call", f"{T}, schedule=SCHEDULE_EARLIEST", CUSTOM + f(76, 2)),
    ("custom-call", T, CUSTOM + f(77, 1)),
    ("custom-call", f"{T}, api_version=API_VERSION_STATUS_RETURNING", CUSTOM + f(77, 2)),
    ("custom-call", f"{T}, api_version=API_VERSION_STATUS_RETURNING_UNIFIED", CUSTOM + f(77, 3)),
    ("custom-call", f"{T}, api_version=API_VERSION_TYPED_FFI", CUSTOM + f(77, 4)),
    ("custom-call", f"{T}, operand_layout_constraints={{f32[4]{{0}}}}",
     CUSTOM + f(56, 1) + f(57, shape(F32, 4))),
    ("custom-call", T, CUSTOM + f(57, shape(F32, 4))),
    ("custom-call", T, CUSTOM + m(51, f(1, [0, 0]))),
    ("custom-call", f"{T}, operand_precision={{default,highest,high}}",
     CUSTOM + m(51, f(1, [0, 2, 1]))),
    ("custom-call", f"{T}, output_to_operand_aliasing={{{{1}}: (0, {{2, 3}}), {{}}: (4, {{}})}}",
     CUSTOM + m(74, f(1, [1]), f(2, 0), f(3, [2, 3])) + m(74, f(2, 4))),
]  # fmt: skip
NUMBERS: list[Row] = [
    ("reduce-window", "window={}", b""),
    ("convolution", "window={}", ONE_GROUP),
    ("convolution",
     f"{SIDED}, dim_labels=bf0_0oi->f0b, feature_group_count=2, batch_group_count=4",
     WINDOW + LABELS + f(50, 2) + f(58, 4)),
    ("slice", "slice={[0:4:1], [2:5:3]}", n(17, 0, 4, 1) + n(17, 2, 5, 3)),
    ("dynamic-slice", "dynamic_slice_sizes={2,3}", f(20, [2, 3])),
    ("pad", "padding=1_2", m(21, n(1, 1, 2))),
    ("pad", "padding=1_2_3x0_0_0", m(21, n(1, 1, 2, 3), n(1, 0, 0, 0))),
    ("dot", "lhs_contracting_dims={0}, rhs_contracting_dims={2}", m(30, f(1, [0]), f(2, [2]))),
    ("dot",
     "lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={3}, rhs_contracting_dims={2}, "
     "operand_precision={highest,default}, algorithm=dot_any_f8_any_f8_f32",
     m(30, f(1, [1]), f(2, [2]), f(3, [0]), f(4, [3])) + m(51, f(1, [2, 0]), f(2, 1))),
    ("ragged-dot",
     "lhs_contracting_dims={1}, rhs_contracting_dims={2}, lhs_ragged_dims={0}, rhs_group_dims={3}",
     m(90, m(1, f(1, [1]), f(2, [2])), f(2, [0]), f(3, [3]))),
    ("gather",
     "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={3}, index_vector_dim=2, "
     "slice_sizes={1,4}",
     m(33, f(1, [1]), f(2, [0]), f(3, [3]), f(4, 2)) + f(34, [1, 4])),
    ("gather",
     "offset_dims={2}, collapsed_slice_dims={}, start_index_map={1}, operand_batching_dims={0}, "
     "start_indices_batching_dims={1}, index_vector_dim=2, slice_sizes={}, indices_are_sorted=true",
     m(33, f(1, [2]), f(3, [1]), f(4, 2), f(5, [0]), f(6, [1])) + f(67, 1)),
    ("scatter",
     "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={3}, "
     "index_vector_dim=2",
     m(48, f(1, [1]), f(2, [0]), f(3, [3]), f(4, 2))),
    ("scatter",
     "update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, "
     "input_batching_dims={2}, scatter_indices_batching_dims={3}, index_vector_dim=0, "
     "indices_are_sorted=true, unique_indices=true",
     m(48, f(5, [2]), f(6, [3])) + f(67, 1) + f(69, 1)),
    ("topk", "k=0, largest=false", b""),
    ("topk", "k=2, largest=true", f(81, 2) + f(85, 1)),
    ("sort", "dimensions={0}", f(14, [0])),
    ("sort", "dimensions={0}, is_stable=true", f(14, [0]) + f(60, 1)),
    ("reduce-precision", "exponent_bits=5, mantissa_bits=0", f(18, 5)),
    ("batch-norm-training", "epsilon=0.5, feature_index=0", f(24, 0.5)),
    ("get-tuple-element", "index=0", b""),
    ("rng-get-and-update-state", "delta=7", f(66, 7)),
    ("transpose", "dimensions={}", b""),
    ("iota", "iota_dimension=1", f(14, [1])),
    ("scan", "dimensions={}, num_carries=0", b""),
    ("scan", "dimensions={0}, num_carries=1, is_reverse=true, is_associative=true",
     f(14, [0]) + f(95, 1) + f(94, 1) + f(96, 1)),
    ("scan", "dimensions={}, num_carries=1, is_associative=false", f(95, 1) + f(96, 2)),
]  # fmt: skip
WORDS: list[Row] = [
    *[("rng-bit-generator", f"algorithm={word}", f(70, k))
      for k, word in enumerate(("rng_default", "rng_three_fry", "rng_philox"))],
    *[("rng", f"distribution={word}", f(23, k))
      for k, word in enumerate(("rng_uniform", "rng_normal"), 1)],
    *[("fft", f"fft_type={word}, fft_length={{4}}", f(31, k) + f(32, [4]))
      for k, word in enumerate(("FFT", "IFFT", "RFFT", "IRFFT"))],
    ("compare", "direction=LT", f(63, "LT")),
    ("compare", "direction=GE, type=TOTALORDER", f(63, "GE") + f(72, "TOTALORDER")),
    ("cholesky", "lower=false", b""),
    ("cholesky", "lower=true", n(62, 1)),
    ("triangular-solve", "left_side=true, lower=false, transpose_a=NO_TRANSPOSE",
     n(59, 1, 0, 0, 1)),
    ("triangular-solve", "left_side=false, lower=true, unit_diagonal=true, transpose_a=TRANSPOSE",
     n(59, 0, 1, 1, 2)),
    ("triangular-solve", "left_side=false, lower=false, transpose_a=ADJOINT", n(59, 0, 0, 0, 3)),
    ("fusion", "kind=kLoop", f(11, "kLoop")),
    ("call", "", b""),
    ("call", "is_composite=true", f(89, 1)),
    ("exponential", "", m(91)),
    ("exponential", "result_accuracy={mode=highest}", n(91, 1)),
    ("exponential", "result_accuracy={tolerance={atol=0.5,rtol=0,ulps=2}}",
     m(91, m(2, b"\x09" + b"\0" * 6 + b"\xe0\x3f", f(3, 2)))),
]  # fmt: skip
TRANSFERS: list[Row] = [
    ("all-to-all", "replica_groups={}", b""),
    ("all-to-all", "replica_groups={}, dimensions={1}", f(14, [1])),
    ("ragged-all-to-all", "replica_groups={}", b""),
    ("all-reduce", "replica_groups={}", b""),
    ("all-reduce", "channel_id=1, replica_groups={}", f(26, 1)),
    ("all-reduce", "channel_id=2, replica_groups={}", f(45, 2)),
    ("all-reduce", "channel_id=3, replica_groups={}", f(26, 3) + f(45, 2)),
    ("all-reduce", "replica_groups={}", f(26, -1)),
    ("all-reduce", "replica_groups={}, constrain_layout=true, use_global_device_ids=true",
     f(71, 1) + f(56, 1)),
    ("collective-permute", "source_target_pairs={}", b""),
    ("collective-permute", "source_target_pairs={{0,1},{2,0}}", n(52, 0, 1) + n(52, 2, 0)),
    ("send", "channel_id=1", f(26, 1)),
    ("send", "channel_id=1, is_host_transfer=true", f(26, 1) + f(47, 1)),
    ("infeed", "", b""),
    ("infeed", 'infeed_config="a\\""', f(27, 'a"')),
    ("outfeed", "", b""),
    ("outfeed", 'outfeed_shape=f32[4]{0}, outfeed_config="c"', f(22, "c") + f(29, shape(F32, 4))),
    ("copy-start", "", b""),
    ("copy-start", "cross_program_prefetch_index=0", f(80, 0)),
    ("copy-start", "cross_program_prefetch_index=2", f(80, 2)),
    ("domain", 'domain={kind="sharding", entry={replicated}, exit={maximal device=1}}',
     m(54) + m(55, f(1, 1), f(4, [1]))),
]  # fmt: skip


def leaf(name: str, *index: int) -> bytes:
    return m(2, f(1, name), f(2, [*index])) if index else m(2, f(1, name))


OF_ALL: list[Row] = [
    ("abs", "", b""),
    ("abs", "sharding={replicated}", m(40)),
    ("abs", "origin={}", m(88)),
    ("abs", "origin=[synthetic_call]", m(88, f(2, 1))),
    ("abs", 'origin={"v"}', m(88, m(1, leaf("v")))),
    ("abs", 'origin={"v" {1}}', m(88, m(1, leaf("v", 1)))),
    ("abs", "origin={}", m(88, m(1))),
    ("abs", 'origin={("a", ("b", ))}',
     m(88, m(1, f(1, [0]), leaf("a")), m(1, f(1, [1, 0]), leaf("b")), m(1, f(1, [1, 1])))),
    ("abs", 'origin={(("a", "b"), "c" {0})}',
     m(88, m(1, f(1, [0, 0]), leaf("a")), m(1, f(1, [0, 1]), leaf("b")),
       m(1, f(1, [1]), leaf("c", 0)))),
    ("abs", "", m(68)),
    ("abs", 'frontend_attributes={a={y},b="x"}',
     m(68, m(1, f(1, "b"), f(2, "x")), m(1, f(1, "a"), f(2, "{y}")))),
    ("abs", "", n(82, 1)),
    ("abs", "statistics={visualizing_index=1,s=0}", m(82, f(1, 1), m(2, f(1, "s")))),
    ("abs", "", f(43, "")),
    ("abs", "backend_config={}", f(43, "{}")),
    ("abs", 'backend_config="{"', f(43, "{")),
    ("abs", 'backend_config="}"', f(43, "}")),
    ("abs", 'backend_config="a"', f(43, "a")),
    ("parameter", "", b""),
    ("parameter", "parameter_replication={true,false}", m(61, f(1, [1, 0]))),
]  # fmt: skip
TABLES = {
    "custom calls": CUSTOM_CALLS,
    "numbers": NUMBERS,
    "words": WORDS,
    "transfers": TRANSFERS,
    "of all": OF_ALL,
}


@pytest.mark.parametrize("name", TABLES)
def test_attributes_have_their_text_and_defaults_have_none(name: str) -> None:
    rows = [(opcode, f", {text}" if text else "", data) for opcode, text, data in TABLES[name]]
    assert [(opcode, tail(opcode, data), data) for opcode, _, data in rows] == rows


@pytest.mark.parametrize(
    ("opcode", "data", "message"),
    [
        ("convolution", m(16, f(7, 0), f(8, 0)), r"\(0, 0\) are not the dimensions of input"),
        ("convolution", m(16, f(7, 1), f(8, 2)), r"\(1, 2\) are not the dimensions of input"),
        ("dot", m(51, f(1, [3])), r"operand_precision.*values \(3,\) are not known"),
        ("fft", f(31, 4), r"fft_type.*value 4 is not known"),
        ("rng", f(23, 0), r"distribution.*value 0 is not known"),
        ("abs", m(99), "configs outside of the instruction are not read"),
    ],
)
def test_attributes_without_a_text_are_refused(opcode: str, data: bytes, message: str) -> None:
    with pytest.raises(HloscopeError, match=message):
        tail(opcode, data)
