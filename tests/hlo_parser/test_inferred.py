"""Types that the text leaves out get the layout XLA would give them."""

from __future__ import annotations

import pytest

from hloscope.hlo_parser import parse_hlo
from hloscope.hlo_parser.types import print_type

MODULE = """HloModule m
sum {{ x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT r = f32[] add(x, y) }}
less {{ x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT r = pred[] compare(x, y), direction=LT }}
callee {{ x = f32[2,3]{{0,1}} parameter(0)
 ROOT r = f32[2,3]{{0,1}} negate(x) }}
never {{ x = f32[2,3]{{0,1}} parameter(0)
 ROOT r = pred[] constant(false) }}
ENTRY e {{
 a = f32[2,3]{{0,1:T(4)}} parameter(0)
 b = f32[2,3] parameter(1)
 t = (f32[2,3]{{0,1}}, s32[]) parameter(2)
 c = pred[] parameter(3)
 n = s32[] parameter(4)
 s = f32[3,3]{{0,1:T(4)}} parameter(5)
 k = c64[2,8]{{0,1:T(4)}} parameter(6)
 f = f32[3] parameter(7)
 g = f32[1,3] parameter(8)
 i = s32[1] parameter(9)
 w = token[] parameter(10)
 z = f32[] constant(0)
 ROOT out = {}
}}
"""

CASES = [
    # as XLA's own parser infers them; without a layout means row-major
    ("negate(a)", "f32[2,3]{0,1:T(4)}"),
    ("add(a, b)", "f32[2,3]{0,1:T(4)}"),
    ("add(b, a)", "f32[2,3]"),
    ("compare(a, b), direction=LT", "pred[2,3]{0,1:T(4)}"),
    ("clamp(a, b, a)", "f32[2,3]"),
    ("transpose(a), dimensions={1,0}", "f32[3,2]{1,0:T(4)}"),
    ("transpose(b), dimensions={1,0}", "f32[3,2]{0,1}"),
    ("reverse(a), dimensions={0}", "f32[2,3]{0,1:T(4)}"),
    ("concatenate(a, a), dimensions={0}", "f32[4,3]"),
    ("sort(a), dimensions={0}, to_apply=less", "f32[2,3]{0,1:T(4)}"),
    ("dot(a, a), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "f32[3,3]"),
    ("tuple(a, b)", "(f32[2,3]{0,1:T(4)}, f32[2,3])"),
    ("get-tuple-element(t), index=0", "f32[2,3]{0,1}"),
    ("call(a), to_apply=callee", "f32[2,3]{0,1}"),
    ("conditional(c, a, a), true_computation=callee, false_computation=callee", "f32[2,3]{0,1}"),
    ("while(a), condition=never, body=callee", "f32[2,3]{0,1:T(4)}"),
    ("set-dimension-size(a, n), dimensions={0}", "f32[<=2,3]{0,1:T(4)}"),
    ("cholesky(s), lower=true", "f32[3,3]{0,1:T(4)}"),
    ("fft(k), fft_type=FFT, fft_length={8}", "c64[2,8]{0,1:T(4)}"),
    (
        "batch-norm-inference(a, f, f, f, f), epsilon=0.1, feature_index=1",
        "f32[2,3]{0,1:T(4)}",
    ),
    (
        "scatter(a, i, g), update_window_dims={0,1}, inserted_window_dims={},"
        " scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=sum",
        "f32[2,3]{0,1:T(4)}",
    ),
    (
        "select-and-scatter(a, g, z), window={size=2x1}, select=less, scatter=sum",
        "f32[2,3]{0,1:T(4)}",
    ),
    ("add-dependency(a, w)", "f32[2,3]{0,1:T(4)}"),
    ("pad(a, z), padding=0_0x0_0", "f32[2,3]"),
]


@pytest.mark.parametrize(("text", "type_"), CASES, ids=[text for text, _ in CASES])
def test_layouts_follow_the_operands(text: str, type_: str) -> None:
    module = parse_hlo(MODULE.format(text), strict=True)
    assert print_type(module.entry.root.type) == type_


WINDOW = """
sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }
ENTRY e { a = bf16[4] parameter(0) z = f32[] constant(0)
 ROOT r = reduce-window(a, z), window={size=2}, to_apply=sum }
"""


def test_a_window_is_of_the_type_of_the_initial_value() -> None:
    """As XLA's own parser infers it, whatever the elements of the operand are."""
    module = parse_hlo(WINDOW, strict=True)
    assert print_type(module.entry.root.type) == "f32[3]"


@pytest.mark.parametrize(
    "operands", ["f32[] a, f32[], b", "f32[], a, f32[] b", "f32[], a, f32[], b"]
)
def test_a_type_of_an_operand_may_stand_alone(operands: str) -> None:
    """As XLA reads it: a type without a name is no operand."""
    text = "ENTRY e { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(OPERANDS) }"
    root = parse_hlo(text.replace("OPERANDS", operands), strict=True).entry.root
    assert [operand.name for operand in root.operands] == ["a", "b"]
