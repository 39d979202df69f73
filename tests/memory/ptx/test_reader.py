"""PTX is read as written; what is not PTX is refused at its place."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from hloscope.errors import ParseError, UnsupportedError
from hloscope.memory.ptx import parse_ptx
from tests.memory.ptx.kernels import HEAD, kernel_text, run_body


def test_declarations_guards_vectors_and_addresses() -> None:
    text = kernel_text(
        """
  .shared .align 8 .b8 tile[64];
  .loc 1 2 3
  .pragma "nounroll";
  @!%p1 ld.global.nc.v2.b32 {%r1, _}, [%d10+-4];  // a comment
  /* another
     one */
$L__BB0_2:
  setp.lt.and.s32 %p1|%p2, %r1, -5, !%p3;
  mov.f32 %r2, 0f3F800000;
  @%p1 bra.uni $L__BB0_2;
  ret;""",
        more=".global .align 4 .b8 table[8] = {1, 2, 0xFF};\n.extern .func other(.param .b32 x);\n",
    )
    module = parse_ptx(text, "a.ptx")
    kernel = module.kernels["k"]
    assert (module.target, module.functions) == ("sm_90a", ("other",))
    assert [(v.name, v.size, v.data) for v in module.variables] == [("table", 8, b"\1\2\xff")]
    assert [(v.name, v.space, v.align) for v in kernel.variables] == [("tile", "shared", 8)]
    names = [i.name for i in kernel.code]
    assert names[2:] == ["ld.global.nc.v2.b32", "setp.lt.and.s32", "mov.f32", "bra.uni", "ret"]
    assert kernel.code[2].guard is not None
    assert kernel.code[2].guard.negated
    assert kernel.labels == {"$L__BB0_2": 3}


def test_registers_of_inner_blocks_hide_outer_ones() -> None:
    body = """
  mov.u32 %r1, 7;
  { .reg .b32 %r1; mov.u32 %r1, 9; st.global.b32 [%d10], %r1; }
  st.global.b32 [%d10+4], %r1;
  ret;"""
    assert run_body(body, np.zeros(2, np.int32), block=1).outputs["p0"].tolist() == [9, 7]


WRONG = [
    ("  frob.b32 %r1, %r2;", "frob", "unknown instruction"),
    ("  sbu.s32 %r1, %r2, %r3;", "sbu", "did you mean `sub`"),
    ("  add.frob.s32 %r1, %r2, %r3;", "add", "unknown modifier `.frob`"),
    ("  add.s33 %r1, %r2, %r3;", "add", "the type is missing or unknown"),
    ("  popc.s32 %r1, %r2;", "popc", "type .s32 is not one of this instruction"),
    ("  add.s32 %r1, %r2;", "add", "expected 3 operands, found 2"),
    ("  add.s32 %r1, %r2, %r77;", "add", "register `%r77` is not declared"),
    ("  add.s64 %d1, %r2, %d3;", "add", "is of type .b32, which does not hold .s64"),
    ("  mov.b32 %r1, nothing;", "mov", "unknown name `nothing`"),
    ("  ld.global.v4.b32 {%r1, %r2}, [%d1];", "ld", "expected 4 registers, found 2"),
    ("  ld.nowhere.b32 %r1, [%d1];", "ld", "unknown modifier `.nowhere`"),
    ("  bra $L9;", "bra", "unknown label `$L9`"),
    ("  setp.s32 %p1, %r1, %r2;", "setp", "expected one comparison"),
    ("  cvt.rn.bf16x2.s32 %r1, %r2, %r3;", "cvt", "no conversion of 2 operands"),
    ("  atom.global.cas.f32 %r1, [%d1], %r2, %r3;", "atom", "no operation .cas of .f32"),
    ("  shfl.sync.b32 %r1, %r2, 1, 31, -1;", "shfl", "expected .up, .down, .bfly or .idx"),
]


@pytest.mark.parametrize(("line", "at", "message"), WRONG, ids=[w[2] for w in WRONG])
def test_wrong_instructions_are_refused_at_their_place(line: str, at: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        run_body(line + "\n  ret;", np.zeros(2, np.int32))
    text = str(caught.value)
    assert message in text
    shown, caret = text.splitlines()[-2:]
    assert shown.index(at) == caret.index("^")


BROKEN = [
    ("", None),
    (".version 8.8\n.target sm_90\n$", "<string>:3:1: error"),
    (f"{HEAD}.entry k( .param .u64 p", "expected `,` or `)`"),
    (f"{HEAD}.entry k() {{ add.s32 %r1 %r2; }}", "expected `,` or `;`"),
    (f"{HEAD}.entry k() {{ ret;", "end of file"),
    (f"{HEAD}.entry k() {{ .reg .b33 %r1; }}", "unknown type `.b33`"),
    (f"{HEAD}.entry k() {{ .reg .b32 %r<999999999>; }}", "registers"),
    (f"{HEAD}.entry k() {{ .reg .b32 %r1; .reg .b32 %r1; }}", "declared twice"),
    (f"{HEAD}.entry k() {{ L: L: ret; }}", "defined twice"),
    (f"{HEAD}.entry k() {{ ret; }}\n.entry k() {{ ret; }}", "defined twice"),
    (f"{HEAD}.global .b8 x[99999999999999];", "bytes, more than"),
    (f"{HEAD}.global .b8 x[2] = {{1, 2, 3}};", "do not fit"),
    (f"{HEAD}.global .b32 x = 089;", "089"),
    (f"{HEAD}.frob", "expected a directive"),
    (f"{HEAD}{{", "expected a directive"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_broken_texts_are_refused(text: str, message: str | None) -> None:
    if message is None:
        assert parse_ptx(text).kernels == {}
        return
    with pytest.raises(ParseError) as caught:
        parse_ptx(text)
    assert message in str(caught.value)
    assert caught.value.span is not None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 %r1, %r2, %r3, %r4;", "matrix"),
        ("cp.async.ca.shared.global [%r1], [%d1], 4;", "asynchronous copies"),
        ("call.uni (%r1), other, (%r2);", "calls of device functions"),
        ("bar.red.popc.u32 %r1, 0, %p1;", "reduce a predicate"),
    ],
)
def test_valid_instructions_that_are_not_executed_say_why(line: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason) as caught:
        run_body(f"  {line}\n  ret;", np.zeros(2, np.int32))
    assert caught.value.span is not None


def test_every_cut_of_a_text_is_read_or_refused() -> None:
    text = kernel_text("  @%p1 ld.global.v2.b32 {%r1, %r2}, [%d10+4];\n  ret;")
    for end in range(len(text)):
        with suppress(ParseError):  # any other exception fails
            parse_ptx(text[:end])
