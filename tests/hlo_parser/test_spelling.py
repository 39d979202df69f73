"""Opcode and attributes ⇄ ops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hloscope.errors import ParseError, UnsupportedError
from hloscope.hlo_parser.devices import HloGroups
from hloscope.hlo_parser.literals import HloLiteral
from hloscope.hlo_parser.opcodes import KINDS, OPCODES, SPELLINGS, Attribute
from hloscope.hlo_parser.spelling import CALL, is_opcode, opcode_of, read_op, read_unknown, template
from hloscope.hlo_parser.values import (
    quote,
    read_dim_labels,
    read_padding,
    read_window,
    unquote,
    write_dim_labels,
    write_padding,
    write_window,
)
from hloscope.ir import Op
from hloscope.ops import OPS
from hloscope.ops.collectives import AllGather, AllReduce, AllToAll, CollectivePermute
from hloscope.ops.contraction import DotDimensions, DotGeneral
from hloscope.ops.control import (
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Case,
    CustomCall,
    Fusion,
    Parameter,
    UnknownOp,
    While,
)
from hloscope.ops.convolution import ConvDimensions, Convolution
from hloscope.ops.elementwise import ELEMENTWISE, Compare, ReducePrecision
from hloscope.ops.gather_scatter import Gather
from hloscope.ops.linalg import Fft, TriangularSolve
from hloscope.ops.random import Rng
from hloscope.ops.reduction import Reduce, Scan, TopK
from hloscope.ops.shape import BroadcastInDim, Constant, Pad
from hloscope.ops.slicing import DynamicSlice, Slice
from hloscope.ops.windows import Window


def printed(op: Op, calls: tuple[str, ...] = ()) -> str:
    opcode, texts = template(op, len(calls))
    assert opcode == opcode_of(op)
    text = "".join([opcode, *(f", {text}" for text in texts)])
    for name in calls:
        text = text.replace(CALL, f"%{name}", 1)
    return text


CASES: list[tuple[str, Op, tuple[str, ...]]] = [
    ("add", ELEMENTWISE["add"](), ()),
    ("shift-right-logical", ELEMENTWISE["shift_right_logical"](), ()),
    ("acosh", ELEMENTWISE["chlo.acosh"](), ()),
    ("broadcast, dimensions={}", BroadcastInDim(()), ()),
    ("broadcast, dimensions={0,2}", BroadcastInDim((0, 2)), ()),
    ("slice, slice={[0:8:1], [2:10:4]}", Slice((0, 2), (8, 10), (1, 4)), ()),
    ("slice, slice={[0:8], [2:10]}", Slice((0, 2), (8, 10), (1, 1)), ()),
    ("slice, slice={}", Slice((), (), ()), ()),
    ("dynamic-slice, dynamic_slice_sizes={1,2}", DynamicSlice((1, 2)), ()),
    ("pad, padding=0_0_0x-1_0_2", Pad((0, -1), (0, 0), (0, 2)), ()),
    ("pad, padding=1_2", Pad((1,), (2,), (0,)), ()),
    ("compare, direction=LT, type=TOTALORDER", Compare(
        comparison_direction="LT", compare_type="TOTALORDER"), ()),
    ("reduce-precision, exponent_bits=5, mantissa_bits=10", ReducePrecision(
        exponent_bits=5, mantissa_bits=10), ()),
    ("exponential, result_accuracy={mode=highest}", ELEMENTWISE["exponential"](
        (("result_accuracy", "{mode=highest}"),)), ()),
    ("reduce, dimensions={1}, to_apply=%f", Reduce((1,)), ("f",)),
    ("while, condition=%c, body=%b", While(), ("c", "b")),
    ("fusion, kind=kLoop, calls=%f", Fusion("kLoop"), ("f",)),
    ("fusion, kind=kInput, output_to_operand_aliasing={{}: (0, {})}, calls=%f",
     Fusion("kInput", (("output_to_operand_aliasing", "{{}: (0, {})}"),)), ("f",)),
    ("conditional, true_computation=%t, false_computation=%f", Case(True), ("t", "f")),
    ("conditional, branch_computations={%a, %b, %c}", Case(False), ("a", "b", "c")),
    ('custom-call, custom_call_target="it\\\'s", custom_call_has_side_effect=true, '
     "schedule=SCHEDULE_LATEST, called_computations={%f}",
     CustomCall("it's", True, (("schedule", "SCHEDULE_LATEST"),)), ("f",)),
    ("dot, lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     DotGeneral(DotDimensions((), (), (1,), (0,))), ()),
    ("dot, lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={1}, "
     "rhs_contracting_dims={0}, operand_precision={highest,highest}, algorithm=dot_tf32",
     DotGeneral(DotDimensions((0,), (1,), (2,), (0,)),
                ("HIGHEST", "HIGHEST"), "dot_tf32"), ()),
    ("gather, offset_dims={0}, collapsed_slice_dims={}, start_index_map={0}, "
     "operand_batching_dims={1}, start_indices_batching_dims={0}, index_vector_dim=1, "
     "slice_sizes={1,2}, indices_are_sorted=true",
     Gather((0,), (), (1,), (0,), (0,), 1, (1, 2), True), ()),
    ("convolution, window={size=3x3 stride=2x1 pad=0_1x-1_0 lhs_dilate=1x2 rhs_dilate=3x1 "
     "rhs_reversal=1x0}, dim_labels=b01f_01io->b01f, feature_group_count=4",
     Convolution(Window((3, 3), (2, 1), ((0, 1), (-1, 0)), (1, 2), (3, 1), (True, False)),
                 ConvDimensions(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2)), 4), ()),
    ("all-gather, channel_id=1, replica_groups={{0,1}}, dimensions={2}, "
     "use_global_device_ids=true", AllGather(HloGroups("{{0,1}}"), 1, None, True, (), 2), ()),
    ("all-reduce, replica_groups={}, constrain_layout=true, to_apply=%f",
     AllReduce(HloGroups("{}"), settings=(("constrain_layout", "true"),)), ("f",)),
    ("all-to-all, replica_groups={{0,1}}, dimensions={1}",
     AllToAll(HloGroups("{{0,1}}"), split_dimension=1, concat_dimension=1), ()),
    ("all-to-all, replica_groups={{0,1}}", AllToAll(HloGroups("{{0,1}}")), ()),
    ("collective-permute, source_target_pairs={{0,1},{1,0}}",
     CollectivePermute(source_target_pairs=((0, 1), (1, 0))), ()),
    ("triangular-solve, left_side=true, lower=false, transpose_a=ADJOINT",
     TriangularSolve(True, False, False, "ADJOINT"), ()),
    ("fft, fft_type=RFFT, fft_length={8}", Fft("RFFT", (8,)), ()),
    ("rng, distribution=rng_normal", Rng("NORMAL"), ()),
    ("topk, k=2, largest=false", TopK(2, False), ()),
    ("scan, dimensions={0}, num_carries=1, is_reverse=true, is_associative=true, to_apply=%f",
     Scan(0, 1, True, "true"), ("f",)),
    ("async-start, async_execution_thread=\"host\", calls=%f",
     AsyncStart(None, (("async_execution_thread", '"host"'),)), ("f",)),
    ("negate-start, async_execution_thread=\"host\"",
     AsyncStart(ELEMENTWISE["negate"](), (("async_execution_thread", '"host"'),)), ()),
    ("all-reduce-start, replica_groups={}, to_apply=%f",
     AsyncStart(AllReduce(HloGroups("{}"))), ("f",)),
    ("custom-call-update", AsyncUpdate("custom-call"), ()),
    ("all-gather-done", AsyncDone("all-gather"), ()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "op", "calls"), CASES, ids=[case[0][:60] for case in CASES])
def test_text_and_op_correspond(text: str, op: Op, calls: tuple[str, ...]) -> None:
    opcode, comma, attributes = text.partition(",")
    assert read_op(opcode, comma + attributes) == (op, calls, (), ())
    assert printed(op, calls) == text


def test_what_stands_in_parentheses() -> None:
    assert read_op("parameter", ", sharding={manual}", "3")[0] == Parameter(3)
    assert read_op("constant", "", " {1, 2} ")[0] == Constant(HloLiteral("{1, 2}"))
    with pytest.raises(ParseError, match="expected a parameter number, found `x`"):
        read_op("parameter", "", "x")


ORDER = [
    ("while", ", body=b, condition=c", ("c", "b")),
    ("select-and-scatter", ", scatter=s, select=p, window={size=1}", ("p", "s")),
    ("conditional", ", false_computation=f, true_computation=t", ("t", "f")),
    ("custom-call", ', to_apply=f, custom_call_target="x"', ("f",)),
]


@pytest.mark.parametrize(("opcode", "text", "calls"), ORDER)
def test_calls_come_in_the_order_of_the_op(opcode: str, text: str, calls: tuple[str, ...]) -> None:
    assert read_op(opcode, text)[1] == calls


def test_what_any_instruction_may_have_is_kept_as_written() -> None:
    text = (
        ', dimensions={0}, sharding={devices=[2]<=[2]}, frontend_attributes={a="b, metadata="}'
        ', control-predecessors={%a, b.1}, metadata={op_name="x"}, backend_config={"k":[1]}'
    )
    op, calls, predecessors, extras = read_op("reverse", text)
    assert (op.name, calls, predecessors) == ("reverse", (), ("a", "b.1"))
    assert extras == (
        ("sharding", "{devices=[2]<=[2]}"),
        ("frontend_attributes", '{a="b, metadata="}'),
        ("metadata", '{op_name="x"}'),
        ("backend_config", '{"k":[1]}'),
    )


def test_order_of_attributes_does_not_matter() -> None:
    text = ", metadata={}, dimensions={0}, control-predecessors={}, to_apply=f"
    assert read_op("reduce", text) == (Reduce((0,)), ("f",), (), (("metadata", "{}"),))


def test_a_common_name_inside_a_value_is_no_attribute() -> None:
    op, calls, _, extras = read_op(
        "custom-call", ', custom_call_target="a, metadata={x", backend_config="y"'
    )
    assert isinstance(op, CustomCall)
    assert op.call_target_name == "a, metadata={x"
    assert (calls, extras) == ((), (("backend_config", '"y"'),))
    inline = "{ p = f32[] parameter(0), metadata={}\n ROOT n = f32[] negate(p) }"
    assert read_op("call", f", to_apply={inline}")[1] == (inline,)


def test_an_attribute_nobody_knows_is_kept() -> None:
    op, _, _, extras = read_op("add", ", new_thing={1, 2}")
    assert op == ELEMENTWISE["add"]()
    assert extras == (("new_thing", "{1, 2}"),)


ERRORS = [
    ("reduce", ", dimensions={0}, to_aply=f", 18, "did you mean `to_apply`?"),
    ("add", ", metdata={}", 2, "did you mean `metadata`?"),
    ("reduce", ", to_apply=f", 0, "`reduce` needs attribute `dimensions`"),
    ("fusion", ", kind=kLoop", 0, "needs attribute `calls`"),
    ("fusion", ", kind=kLop, calls=f", 7, "expected one of kLoop"),
    ("reverse", ", dimensions={0}, dimensions={1}", 18, "given twice"),
    ("add", ", metadata={}, metadata={}", 15, "given twice"),
    ("add", ", metadata={}, sharding={x", 24, "`{` is not closed"),
    ("iota", ", iota_dimension=x", 17, "expected an integer, found `x`"),
    ("transpose", ", dimensions={a}", 13, "expected a list of integers"),
    ("concatenate", ", dimensions={0,1}", 13, "expected one dimension, found 2"),
    ("slice", ", slice={[0]}", 9, "expected `[start:limit:stride]`"),
    ("pad", ", padding=0", 10, "expected `low_high`"),
    ("compare", ", direction=XX", 12, "expected one of EQ"),
    ("rng", ", distribution=x", 15, "expected one of rng_uniform"),
    ("sort", ", dimensions={0}, to_apply=f, is_stable=2", 40, "expected `true` or `false`"),
    ("conditional", ", true_computation=a", 0, "needs `true_computation` and"),
    ("conditional", "", 0, "needs `true_computation` and"),
    ("convolution", ", dim_labels=b0f", 13, "expected `input_kernel->output`"),
    ("convolution", ", dim_labels=b0f_0io->bf0f", 22, "each spatial digit once"),
    ("convolution", ", dim_labels=b0f_01io->b0f", 13, "differ in their spatial dimensions"),
    ("convolution", ", window={sise=3}, dim_labels=b0f_0io->b0f", 10, "unknown window field"),
    ("reduce-window", ", window={size=3 stride=1x1}, to_apply=f", 9, "has 2 entries"),
    ("collective-permute", ", source_target_pairs={{0}}", 23, "expected a pair"),
    ("custom-call", ", custom_call_target=x", 21, "expected a string"),
    ("batch-norm-training", ", epsilon=x, feature_index=0", 10, "expected a number"),
    (
        "custom-call",
        ', custom_call_target="x", api_version=API_VERSION_9',
        38,
        "expected one of API",
    ),
    (
        "custom-call",
        ', custom_call_target="x", api_version=4',
        38,
        "expected one of API_VERSION_OR",
    ),
    (
        "custom-call",
        ', custom_call_target="x", schedule=LATEST',
        35,
        "expected one of SCHEDULE_NONE",
    ),
    (
        "custom-call",
        ', custom_call_target="x", padding_type=padding_same',
        39,
        "one of PADDING_INV",
    ),
    (
        "custom-call",
        ', custom_call_target="x", operand_precision={x}',
        44,
        "expected one of default",
    ),
    (
        "convolution",
        ", dim_labels=b0f_0io->b0f, convolution_kind=FPROP",
        44,
        "expected one of fprop",
    ),
]


@pytest.mark.parametrize(("opcode", "text", "start", "message"), ERRORS)
def test_errors_say_where(opcode: str, text: str, start: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_op(opcode, text)
    assert message in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.source.text == text
    assert caught.value.span.start == start


@pytest.mark.parametrize(
    "text",
    [
        "api_version=API_VERSION_TYPED_FFI",
        "api_version=Api_Version_Original",
        "schedule=schedule_latest",
        "padding_type=PADDING_SAME",
        "operand_precision={HIGHEST,default}",
    ],
)
def test_words_are_kept_in_the_letters_that_xla_reads(text: str) -> None:
    op, calls, _, _ = read_op("custom-call", f', custom_call_target="x", {text}')
    assert f", {text}, " in f"{printed(op, calls)}, "


def test_unknown_opcodes_name_the_nearest_one() -> None:
    with pytest.raises(ParseError, match="unknown opcode `sclie`; did you mean `slice`"):
        read_op("sclie")
    with pytest.raises(ParseError, match=r"unknown opcode `frobnicate`\n"):
        read_op("frobnicate")
    with pytest.raises(ParseError, match="unknown opcode `frobnicate-start`"):
        read_op("frobnicate-start")


@pytest.mark.parametrize("step", ["start", "update", "done"])
def test_any_op_can_be_asynchronous(step: str) -> None:
    assert is_opcode(f"dynamic-slice-{step}")
    assert is_opcode(f"async-{step}")
    assert not is_opcode(f"async-{step}-{step}")
    assert not is_opcode(f"sclie-{step}")


@pytest.mark.parametrize(
    "opcode", ["all-reduce-update", "copy-update", "send-start", "recv-update", "copy-start-done"]
)
def test_steps_that_xla_lacks_are_unknown(opcode: str) -> None:
    assert not is_opcode(opcode)


def test_an_unknown_op_keeps_everything() -> None:
    op, _, predecessors, extras = read_unknown(
        "future-op", ", a={1}, control-predecessors={x}, metadata={}"
    )
    assert op == UnknownOp("future-op", (("a", "{1}"),))
    assert (predecessors, extras) == (("x",), (("metadata", "{}"),))
    assert printed(op) == "future-op, a={1}"


def test_ops_without_hlo_spelling_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"HLO text has no op `chlo.digamma`"):
        printed(ELEMENTWISE["chlo.digamma"]())


def test_an_all_to_all_that_hlo_cannot_write_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="different split and concat dimensions"):
        printed(AllToAll(split_dimension=0, concat_dimension=1))


# -------------------------------------------------------------------------- the whole table

SAMPLES = {
    "int": "3",
    "float": "0.5",
    "bool": "true",
    "groups": "{{0,1}}",
    "word": "x",
    "string": '"s"',
    "dims": "{1}",
    "dim": "{1}",
    "first_dim": "{1}",
    "dim2": "{1}",
    "pairs": "{{0,1}}",
    "ranges": "{[0:4:2]}",
    "padding": "1_2_3",
    "window": "{size=3 stride=2}",
    "dim_labels": "b0f_0io->b0f",
    "precision": "{default,highest}",
    "fusion_kind": "kOutput",
    "transpose_a": "TRANSPOSE",
    "fft_type": "IRFFT",
    "api_version": "API_VERSION_TYPED_FFI",
    "schedule": "SCHEDULE_LATEST",
    "padding_type": "PADDING_SAME",
    "convolution_kind": "wgrad",
    "distribution": "rng_uniform",
    "rng_algorithm": "rng_philox",
    "direction": "NE",
    "compare_type": "SIGNED",
    "call": "%f",
    "calls": "{%f, %g}",
}


def sample(attribute: Attribute) -> str:
    """A value of the attribute that is not its default."""
    if attribute.kind == "setting":
        names = [name for name, kind in KINDS.items() if kind is attribute.grammar]
        return SAMPLES[names[0]] if names else "3"
    return SAMPLES[attribute.kind]


EXCLUSIVE = {"true_computation", "false_computation", "to_apply"}
"""Left out for ops that have another spelling of the same calls."""


@pytest.mark.parametrize("opcode", SPELLINGS)
def test_every_attribute_of_every_opcode_is_read_and_written(opcode: str) -> None:
    attributes = SPELLINGS[opcode].attributes
    several = any(a.kind == "calls" for a in attributes.values())
    texts = [
        f"{a.name}={sample(a)}"
        for a in attributes.values()
        if not (several and a.name in EXCLUSIVE)
    ]
    inside = "3" if opcode == "parameter" else ""
    op, calls, _, extras = read_op(opcode, "".join(f", {text}" for text in texts), inside)
    assert extras == ()
    assert printed(op, calls) == ", ".join([opcode, *texts])


@pytest.mark.parametrize("opcode", SPELLINGS)
def test_each_required_attribute_is_missed(opcode: str) -> None:
    attributes = [a for a in SPELLINGS[opcode].attributes.values() if a.required]
    inside = "3" if opcode == "parameter" else ""
    for missing in attributes:
        texts = [f", {a.name}={sample(a)}" for a in attributes if a is not missing]
        with pytest.raises(ParseError, match=f"needs attribute `{missing.name}`"):
            read_op(opcode, "".join(texts), inside)


def test_each_class_has_one_opcode() -> None:
    assert len(OPCODES) == len(SPELLINGS)
    assert {row.op.name for row in SPELLINGS.values()} <= OPS.keys()


def test_opcodes_of_the_corpus_are_known(shared: Path) -> None:
    rows = json.loads((shared / "real" / "modules" / "manifest.json").read_text())["modules"]
    opcodes = {opcode for row in rows if row["parses"] for opcode in row.get("opcodes", ())}
    no_opcodes = {"b"}  # the buffer type `b(f32[8])`
    assert len(opcodes) > 150
    assert not [opcode for opcode in sorted(opcodes - no_opcodes) if not is_opcode(opcode)]


# ------------------------------------------------------------------------------------ values

small = st.integers(1, 9)


@given(st.lists(st.tuples(small, small, st.integers(-3, 9), st.integers(-3, 9), small, small,
                          st.booleans())))  # fmt: skip
def test_windows_are_read_back(
    rows: list[tuple[int, int, int, int, int, int, bool]],
) -> None:
    columns = list(zip(*rows, strict=True)) or [()] * 7
    size, stride, low, high, base, dilation, reversal = columns
    padding = tuple(zip(low, high, strict=True))
    window = Window(size, stride, padding, base, dilation, reversal)  # type: ignore[arg-type]
    assert read_window(write_window(window)) == window


@given(st.lists(st.tuples(st.integers(-3, 9), st.integers(-3, 9), st.integers(0, 3))))
def test_paddings_are_read_back(rows: list[tuple[int, int, int]]) -> None:
    low, high, interior = list(zip(*rows, strict=True)) or [()] * 3
    assert read_padding(write_padding((low, high, interior))) == (low, high, interior)


@given(st.integers(0, 3).flatmap(lambda n: st.tuples(*[st.permutations(range(n + 2))] * 3)))
def test_dimension_labels_are_read_back(sides: tuple[list[int], list[int], list[int]]) -> None:
    fields = [part for a, b, *rest in sides for part in (a, b, tuple(rest))]
    dims = ConvDimensions(*fields)  # type: ignore[arg-type]
    assert read_dim_labels(write_dim_labels(dims)) == dims


def test_missing_reversals_are_off() -> None:
    assert read_window("{size=3x3 rhs_reversal=1}").reversal == (True, False)


def test_dimensions_without_a_role_are_question_marks() -> None:
    dims = read_dim_labels("?b0f_0?io->b0?f")
    assert (dims.input_batch, dims.kernel_input_feature, dims.output_feature) == (1, 2, 3)
    assert write_dim_labels(dims) == "?b0f_0?io->b0?f"


@given(st.text())
def test_strings_are_read_back(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate is not a text
        return
    assert unquote(quote(text)) == text


def test_a_last_dimension_without_a_role_is_kept() -> None:
    text = "convolution, window={size=3}, dim_labels=b0f?_0io->b0f?"
    opcode, comma, attributes = text.partition(",")
    op = read_op(opcode, comma + attributes)[0]
    assert printed(op) == text


def test_strings_with_hexadecimal_and_octal_escapes() -> None:
    assert unquote(r'"a\x41\101\n\\"') == "aAA\n\\"
    assert unquote("bare") == "bare"
