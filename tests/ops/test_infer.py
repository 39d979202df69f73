"""Result types of ops: what follows from the operands, and what is refused with which label."""

from __future__ import annotations

import pickle
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

from hloscope.errors import VerifyError
from hloscope.hlo_parser import parse_hlo
from hloscope.hlo_parser.types import parse_type, print_type
from hloscope.ir.op import Callee, Op, Signature
from hloscope.ir.types import TensorType, TupleType, Type
from hloscope.mlir.types import spell
from hloscope.ops.collectives import AllReduce, AllToAll, CollectivePermute
from hloscope.ops.contraction import Dot, DotDimensions, DotGeneral, RaggedDot
from hloscope.ops.control import (
    AsyncDone,
    AsyncStart,
    Case,
    CopyDone,
    CopyStart,
    Fusion,
    GetTupleElement,
    Tuple,
    While,
)
from hloscope.ops.convolution import ConvDimensions, Convolution
from hloscope.ops.dynamic import GetDimensionSize, SetDimensionSize
from hloscope.ops.elementwise import ELEMENTWISE, IMPLICIT_BROADCAST
from hloscope.ops.gather_scatter import Gather, Scatter
from hloscope.ops.inference import OPS, may_equal, without_layouts
from hloscope.ops.linalg import Cholesky, Fft, TriangularSolve
from hloscope.ops.reduction import Map, Reduce, Scan, Sort, TopK
from hloscope.ops.shape import Concatenate, Iota, Pad, Reshape, Reverse, Transpose
from hloscope.ops.slicing import DynamicSlice, DynamicUpdateSlice, Slice
from hloscope.ops.transfers import RecvDone, Send
from hloscope.ops.windows import ReduceWindow, SelectAndScatter, Window


def calling(*roots: str) -> tuple[Callee, ...]:
    return tuple(Signature(results=(parse_type(r),)) for r in roots)


def window(
    sizes: tuple[int, ...],
    strides: tuple[int, ...] = (),
    padding: tuple[tuple[int, int], ...] = (),
    base: tuple[int, ...] = (),
    dilations: tuple[int, ...] = (),
) -> Window:
    ones = (1,) * len(sizes)
    return Window(
        sizes,
        strides or ones,
        padding or ((0, 0),) * len(sizes),
        base or ones,
        dilations or ones,
        (False,) * len(sizes),
    )


def e(name: str) -> Op:
    return ELEMENTWISE[name]()


ROWS = DotDimensions((), (), (1,), (0,))
BATCHED = DotDimensions((0,), (0,), (2,), (1,))
NHWC = ConvDimensions(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
GATHER = Gather((1, 2), (0,), (), (), (0,), 1, (1, 4, 2))
BATCH_GATHER = Gather((2,), (1,), (0,), (0,), (1,), 2, (1, 1, 5))
SCATTER = Scatter((1,), (0,), (), (), (0,), 1)

CASES: list[tuple[Op, str, str, tuple[Callee, ...]]] = [
    (e("abs"), "f32[2,3]{0,1}", "f32[2,3]", ()),
    (e("abs"), "c64[2]", "f32[2]", ()),
    (e("real"), "c128[2]", "f64[2]", ()),
    (e("imag"), "f32[2]", "f32[2]", ()),
    (e("complex"), "f32[2]; f32[2]", "c64[2]", ()),
    (e("is_finite"), "bf16[2]", "pred[2]", ()),
    (e("compare"), "s32[4]; s32[4]", "pred[4]", ()),
    (e("add"), "bf16[4]; f32[4]", "f32[4]", ()),
    (e("add"), "f32[<=4]; f32[<=4]", "f32[<=4]", ()),
    (e("add"), "f32[<=4]; f32[4]", "f32[4]", ()),
    (e("add"), "f32[?]; f32[4]", "f32[4]", ()),
    (e("select"), "pred[]; s32[4]; s32[4]", "s32[4]", ()),
    (e("select"), "pred[4]; s32[4]; s32[4]", "s32[4]", ()),
    (e("clamp"), "f32[]; f32[4]; f32[4]", "f32[4]", ()),
    (e("copy"), "(f32[2]{0}, token[])", "(f32[2], token[])", ()),
    (IMPLICIT_BROADCAST["add"](), "f32[3,1]; f32[4]", "f32[3,4]", ()),
    (IMPLICIT_BROADCAST["compare"]((0,)), "f32[3]; f32[3,4]", "pred[3,4]", ()),
    (Transpose((2, 0, 1)), "f32[2,3,4]", "f32[4,2,3]", ()),
    (Reverse((0,)), "f32[2,3]", "f32[2,3]", ()),
    (Concatenate(1), "f32[2,3]; f32[2,5]", "f32[2,8]", ()),
    (Concatenate(0), "f32[<=3]; f32[5]", "f32[<=8]", ()),
    (Pad((1, -1), (2, 0), (1, 0)), "f32[3,4]; f32[]", "f32[8,3]", ()),
    (Pad((1,), (1,), (3,)), "f32[0]; f32[]", "f32[2]", ()),
    (Slice((1, 0), (5, 3), (2, 3)), "f32[8,3]", "f32[2,1]", ()),
    (DynamicSlice((2, 1)), "f32[4,3]; s32[]; s32[]", "f32[2,1]", ()),
    (DynamicSlice((2, 1)), "f32[4,3]; s32[2]", "f32[2,1]", ()),
    (DynamicUpdateSlice(), "f32[4]; f32[2]; u8[]", "f32[4]", ()),
    (Reduce((1,)), "f32[2,3]; f32[]", "f32[2]", ()),
    (Reduce((0,)), "f32[3]; s32[3]; f32[]; s32[]", "(f32[], s32[])", calling("(f32[], s32[])")),
    (Reduce((0,)), "bf16[3]; bf16[]", "f32[]", calling("f32[]")),
    (Map((0,)), "f32[3]; f32[3]", "pred[3]", calling("pred[]")),
    (Sort(1), "f32[2,3]; s32[2,3]", "(f32[2,3], s32[2,3])", ()),
    (Sort(0), "f32[3]", "f32[3]", ()),
    (TopK(2), "bf16[5,4]", "(bf16[5,2], s32[5,2])", ()),
    (Scan(1, 1), "f32[2,9]; f32[2]", "(f32[2,9], f32[2])", calling("(f32[2], f32[2])")),
    (ReduceWindow(window((2, 3), (1, 2), ((1, 1), (0, 0)))), "f32[4,9]; f32[]", "f32[5,4]", ()),
    (ReduceWindow(window((3,), base=(2,), dilations=(2,))), "f32[5]; f32[]", "f32[5]", ()),
    (ReduceWindow(window((7,))), "f32[5]; f32[]", "f32[0]", ()),
    (SelectAndScatter(window((2,), (2,))), "f32[4]; f32[2]; f32[]", "f32[4]", ()),
    (
        Convolution(window((3, 3), (2, 1), ((1, 1), (0, 0))), NHWC),
        "f32[5,8,8,6]; f32[3,3,6,4]",
        "f32[5,4,6,4]",
        (),
    ),
    (
        Convolution(window((1, 1)), NHWC, feature_group_count=3),
        "f32[5,8,8,6]; f32[1,1,2,9]",
        "f32[5,8,8,9]",
        (),
    ),
    (
        Convolution(window((1, 1)), NHWC, batch_group_count=5),
        "f32[5,8,8,6]; f32[1,1,6,10]",
        "f32[1,8,8,10]",
        (),
    ),
    (DotGeneral(ROWS), "f32[2,3]; f32[3,4]", "f32[2,4]", ()),
    (DotGeneral(BATCHED), "bf16[7,2,3]; bf16[7,3,4]", "bf16[7,2,4]", ()),
    (Dot(), "f32[3]; f32[3,4]", "f32[4]", ()),
    (
        RaggedDot(DotDimensions((), (), (1,), (1,)), (0,), (0,)),
        "f32[2,3]; f32[5,3,4]; s32[5]",
        "f32[2,4]",
        (),
    ),
    (RaggedDot(ROWS, (1,), ()), "f32[2,3]; f32[3,4]; s32[5]", "f32[5,2,4]", ()),
    (GATHER, "f32[9,4,6]; s32[7,1]", "f32[7,4,2]", ()),
    (BATCH_GATHER, "f32[3,8,5]; s32[3,6,1]", "f32[3,6,5]", ()),
    (SCATTER, "f32[9,4]; s32[7,1]; f32[7,4]", "f32[9,4]", calling("f32[]")),
    (Cholesky(), "f32[2,3,3]", "f32[2,3,3]", ()),
    (
        TriangularSolve(True, True, False, "NO_TRANSPOSE"),
        "f32[3,3]; f32[3,5]",
        "f32[3,5]",
        (),
    ),
    (Fft("RFFT", (8,)), "f32[2,8]", "c64[2,5]", ()),
    (Fft("IRFFT", (8,)), "c64[2,5]", "f32[2,8]", ()),
    (Fft("FFT", (4, 8)), "c64[4,8]", "c64[4,8]", ()),
    (GetDimensionSize(0), "f32[3]", "s32[]", ()),
    (SetDimensionSize(1), "f32[3,5]; s32[]", "f32[3,<=5]", ()),
    (Tuple(), "f32[3]{0}; token[]", "(f32[3], token[])", ()),
    (GetTupleElement(1), "(f32[3], (s32[], token[]))", "(s32[], token[])", ()),
    (Fusion("kLoop"), "f32[3]", "(f32[3], f32[])", calling("(f32[3]{0}, f32[])")),
    (While(), "(s32[], f32[3])", "(s32[], f32[3])", calling("pred[]", "(s32[], f32[3])")),
    (Case(), "s32[]; f32[3]; f32[3]", "f32[3]", calling("f32[3]", "f32[3]{0}")),
    (CopyStart(), "f32[3]", "(f32[3], f32[3], u32[])", ()),
    (CopyDone(), "(f32[3], f32[3], u32[])", "f32[3]", ()),
    (AsyncStart(e("abs")), "f32[3]", "((f32[3]), f32[3])", ()),
    (AsyncStart(AllReduce()), "f32[3]; s32[]", "(f32[3], s32[])", ()),
    (AsyncDone(), "((f32[3]), s32[7], u32[])", "s32[7]", ()),
    (AsyncDone("all-reduce"), "(f32[3], s32[])", "(f32[3], s32[])", ()),
    (AllReduce(), "f32[3]; s32[4]", "(f32[3], s32[4])", ()),
    (AllToAll(split_dimension=0, concat_dimension=1, split_count=2), "f32[4,3]", "f32[2,6]", ()),
    (AllToAll(), "f32[4]; f32[4]", "(f32[4], f32[4])", ()),
    (CollectivePermute(), "f32[4]", "f32[4]", ()),
    (Send(), "f32[4]; token[]", "(f32[4], u32[], token[])", ()),
    (RecvDone(), "(f32[4], u32[], token[])", "(f32[4], token[])", ()),
]


def types(texts: str) -> tuple[Type, ...]:
    return tuple(parse_type(t.strip()) for t in texts.split(";"))


@pytest.mark.parametrize(
    ("op", "operands", "result", "calls"), CASES, ids=[f"{c[0].name}({c[1]})" for c in CASES]
)
def test_type_follows_from_operands(
    op: Op, operands: str, result: str, calls: tuple[Callee, ...]
) -> None:
    assert print_type(op.infer(types(operands), calls), layout=False) == result


REFUSED: list[tuple[Op, str, str, str]] = [
    (Reduce((0,)), "f32[2]; f32[2]; f32[]", "", "as many inputs as inits"),
    (Cholesky(), "f32[3,4]", "cholesky_c3", "equal size, got shape 3, 4."),
    (Cholesky(), "f32[3]", "cholesky_c2", "rank >= 2, got shape 3."),
    (Fft("RFFT", (8,)), "f32[2,7]", "fft_c4", "Got: 2, 7 but wanted 8."),
    (GetTupleElement(2), "(f32[3], s32[])", "get_tuple_element_c1", "index 2 is out of bounds"),
    (GetTupleElement(0), "f32[3]", "", "is a tensor, needs a tuple"),
    (Fusion("kLoop"), "f32[3]", "", "calls 0 computations, needs 1"),
]


@pytest.mark.parametrize(
    ("op", "operands", "rule", "message"), REFUSED, ids=[f"{r[0].name}({r[1]})" for r in REFUSED]
)
def test_broken_constraint_is_named(op: Op, operands: str, rule: str, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        op.infer(types(operands))
    assert caught.value.rule == rule
    assert message in caught.value.message_in(spell)


@pytest.mark.parametrize(
    ("op", "operands"),
    [(Reshape(), "f32[4]"), (Iota(0), "f32[]"), (e("convert"), "f32[4]")],
    ids=["reshape", "iota", "convert"],
)
def test_type_that_must_be_written_is_asked_for(op: Op, operands: str) -> None:
    with pytest.raises(VerifyError, match="write it before the op"):
        op.infer(types(operands))


WRITTEN = """
    all_gather bitcast bitcast_convert broadcast_in_dim custom_call
    dynamic_broadcast_in_dim dynamic_conv dynamic_iota dynamic_pad dynamic_reshape
    einsum infeed interpreter.run_parallel iota parameter real_dynamic_slice recv reduce_scatter
    reshape rng_bit_generator sdy.manual_computation torch_index_select unary_einsum unknown
""".split()
"""Ops whose result type is part of the program."""


def test_every_op_infers_or_is_listed() -> None:
    assert {name for name, cls in OPS.items() if cls.infer is Op.infer} == set(WRITTEN)


def mismatches(path: Path) -> list[str]:
    """Instructions of a program whose written type is not the inferred one."""
    found = []
    for computation in parse_hlo(path.read_text(), name=path.name):
        for ins in computation:
            if type(ins.op).infer is Op.infer:
                continue
            try:
                inferred = ins.op.infer(tuple(o.type for o in ins.operands), ins.calls)
            except VerifyError as error:
                if "write it before the op" not in error.message:
                    found.append(f"{path.name}: {ins.name}: {error.message}")
                continue
            written = without_layouts(ins.type)
            if isinstance(ins.op, DotGeneral | Convolution):
                assert isinstance(written, TensorType)
                assert isinstance(inferred, TensorType)
                inferred = replace(inferred, element=written.element)
            if isinstance(ins.op, AsyncStart) and isinstance(written, TupleType):
                written = TupleType(written.elements[:2])  # contexts are the backend's
            if inferred != written:
                found.append(f"{path.name}: {ins.name}: {inferred}, written {written}")
    return found


@pytest.mark.slow
def test_written_types_of_real_programs_are_inferred(shared: Path, full: bool) -> None:
    paths = sorted((shared / "real" / "models").glob("*.hlo.txt"))
    assert paths
    found = [line for path in paths[:: 1 if full else 8] for line in mismatches(path)]
    assert not found, "\n".join(found[:10])


def test_type_left_out_in_the_text_is_inferred() -> None:
    text = (
        "ENTRY e { a = f32[2,3] parameter(0) b = transpose(a), dimensions={1,0} ROOT c = abs(b) }"
    )
    root = parse_hlo(text).entry.root
    assert print_type(without_layouts(root.type)) == "f32[3,2]"


def test_dimension_left_out_in_hlo_is_dynamic_if_any_operand_is() -> None:
    text = "ENTRY e { a = f32[<=4] parameter(0) b = f32[4] parameter(1) ROOT c = add(a, b) }"
    root = parse_hlo(text).entry.root
    assert print_type(without_layouts(root.type)) == "f32[<=4]"


@pytest.mark.parametrize("name", OPS)
def test_a_class_is_pickled_by_its_name(name: str) -> None:
    assert pickle.loads(pickle.dumps(OPS[name])) is OPS[name]


def test_sizes_that_are_known_are_equal_or_not() -> None:
    extents = [(3, None), (4, None), (None, None), (None, 3), (None, 4)]
    for a, b in product(extents, repeat=2):
        assert may_equal(a, b) == (None in (a[0], b[0]) or a == b), (a, b)
