"""Elements that HLO's ops take, as XLA's own parser says of these texts."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec import NODEFAULT

from hloscope.errors import HloscopeError
from hloscope.hlo_parser import parse_hlo
from hloscope.hlo_parser.opcodes import SPELLINGS
from hloscope.hlo_parser.signatures import signature
from hloscope.ir import Op, defaults_of
from hloscope.verifier import verify_hlo

TRIED: Final = "pred s32 u32 f32 f64 c64".split()
TAKEN: Final = """
    s32 f32 f64 c64              | abs sign
    pred s32 u32 f32 f64 c64     | add maximum minimum multiply
    pred s32 u32                 | and not or xor
    f32 f64 c64                  | atan2 cosine exponential exponential-minus-one imag log
    f32 f64 c64                  | log-plus-one logistic real rsqrt sine sqrt tan tanh
    f32 f64 c64                  | acos acosh asin asinh atanh cosh sinh
    f32 f64                      | cbrt ceil complex erf floor is-finite
    f32 f64                      | round-nearest-afz round-nearest-even
    s32 u32                      | count-leading-zeros popcnt
    s32 u32 f32 f64 c64          | divide negate power remainder subtract
    s32 u32 f32 f64 c64          | shift-left shift-right-arithmetic shift-right-logical
"""
"""Of each element-wise opcode without attributes, the elements that both operands may have."""
CASES: Final = {
    opcode: elements.split()
    for elements, opcodes in (row.split("|") for row in TAKEN.strip().splitlines())
    for opcode in opcodes.split()
}
OTHERS: Final = [
    ("cholesky(s), lower=true", 0),
    ("triangular-solve(s, s), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", 0),
    ("reduce-precision(s), exponent_bits=5, mantissa_bits=5", 0),
    ("bf16[2,2] stochastic-convert(s, s)", 0),
    ("bf16[2,2] stochastic-convert(x, s)", 1),
    ("batch-norm-training(s, v, v), epsilon=0.1, feature_index=1", 0),
    ("batch-norm-inference(s, v, v, v, v), epsilon=0.1, feature_index=1", 0),
    ("batch-norm-grad(s, v, v, v, s), epsilon=0.1, feature_index=1", 0),
    (
        "gather(x, x), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1},"
        " index_vector_dim=1, slice_sizes={1,1}",
        1,
    ),
    ("dynamic-slice(x, z, z), dynamic_slice_sizes={1,1}", 1),
    ("dynamic-update-slice(x, x, z, z)", 2),
    ("set-dimension-size(x, z), dimensions={0}", 1),
]
"""Programs with an operand whose elements the op does not take: `s` and `v` hold integers."""


def refused(text: str) -> list[str]:
    """What is wrong with a text, whether it is found on reading or later."""
    try:
        return [found.message for found in verify_hlo(parse_hlo(text, strict=True))]
    except HloscopeError as error:
        return [error.message]


@pytest.mark.parametrize("opcode", CASES)
def test_an_element_wise_op_takes_the_elements_that_xla_takes(opcode: str) -> None:
    needed = signature(made(SPELLINGS[opcode].op))
    assert needed is not None
    operands = ", ".join("a" for _ in needed.operands)
    text = "ENTRY e { a = ELEMENT[2,2] parameter(0) ROOT r = OP(ARGS) }"
    text = text.replace("OP", opcode).replace("ARGS", operands)
    taken = [element for element in TRIED if not refused(text.replace("ELEMENT", element))]
    assert taken == CASES[opcode]


@pytest.mark.parametrize(("text", "operand"), OTHERS, ids=[text for text, _ in OTHERS])
def test_an_operand_of_other_elements_is_refused(text: str, operand: int) -> None:
    module = f"""ENTRY e {{ s = s32[2,2] parameter(0) v = s32[2] parameter(1)
      x = f32[2,2] parameter(2) z = f32[] parameter(3) ROOT r = {text} }}"""
    assert any(f"operand {operand} has element type" in said for said in refused(module))


def test_every_opcode_of_which_elements_are_demanded_is_tried() -> None:
    tried = {*CASES, *(text.partition("(")[0].split()[-1] for text, _ in OTHERS)}
    demanding = {name for name, row in SPELLINGS.items() if any(":" in o for o in row.operands)}
    assert not demanding - tried, "an element-wise opcode needs a place in a row of TAKEN"


def made(cls: type[Op]) -> Op:
    """An op of a class, whatever its fields are."""
    return cls(**{name: None for name, default in defaults_of(cls).items() if default is NODEFAULT})
