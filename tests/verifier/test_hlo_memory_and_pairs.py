"""HLO that XLA reads and its verifier refuses: aliases, open pairs, bodies, sizes."""

from __future__ import annotations

import pytest

from hloscope.hlo_parser import parse_hlo
from hloscope.verifier import verify_hlo

ADD = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }\n"
NEGATE = "f { x = s32[2] parameter(0) ROOT z = s32[2] negate(x) }\n"
COPY = "p = f32[4] parameter(0) cs = (f32[4], f32[4], u32[]) copy-start(p) "
BEGIN = "a = s32[2] parameter(0) s = ((s32[2]), s32[2], s32[]) async-start(a), calls=f "


def header(attributes: str, body: str, before: str = "") -> str:
    return f"HloModule m{attributes}\n{before}ENTRY e {{ {body} }}"


def aliased(entries: str, body: str, more: str = "") -> str:
    return header(f", input_output_alias={{ {entries} }}{more}", body)


def custom_call(operand: str, result: str, entry: str) -> str:
    return header(
        "",
        f"p = {operand} parameter(0) ROOT r = {result} custom-call(p),"
        f' custom_call_target="f", output_to_operand_aliasing={{{entry}}}',
    )


TO_TUPLE = "a = s32[4] parameter(0) ROOT b = (s32[4], s32[4]) tuple(a, a)"
WRONG = [
    (
        aliased("{}: (0, {})", "a = s32[16] parameter(0) ROOT b = s32[8] slice(a), slice={[0:8]}"),
        "parameter 0 is s32[16] of 64 bytes, part {} of the result s32[8] of 32",
    ),
    (aliased("{0}: (0, {}), {1}: (0, {})", TO_TUPLE), "memory of another part of the result"),
    (
        aliased("{}: (0, {})", "a = (s32[4]) parameter(0) ROOT b = (s32[4]) copy(a)"),
        "parameter 0 is (s32[4]), needs an array",
    ),
    (
        aliased("{0}: (0, {})", TO_TUPLE, ", buffer_donor={ (0, {}) }"),
        "buffer_donor: parameter 0 is the memory of another part",
    ),
    (custom_call("f32[4]", "f32[8]", "{}: (0, {})"), "operand 0 is f32[4], part {} of the result"),
    (custom_call("f32[4]", "bf16[4]", "{}: (0, {})"), "they need the same type"),
    (custom_call("f32[4]", "f32[4]", "{}: (1, {})"), "there is no operand 1"),
    (custom_call("f32[4]", "f32[4]", "{0}: (0, {})"), "has no part {0}"),
    (custom_call("f32[4]", "f32[4]", "{}: (0, {1})"), "operand 0, f32[4], has no part {1}"),
    (custom_call("f32[4]", "f32[4]", "nothing"), "expected {index}: (parameter"),
    (header("", COPY + "ROOT r = f32[4] negate(p)"), "which nothing ends"),
    (header("", COPY + "ROOT r = f32[4] get-tuple-element(cs), index=1"), "needs `copy-done` only"),
    (
        header(
            "",
            COPY + "d = f32[4] copy-done(cs) g = f32[4] get-tuple-element(cs), index=0 "
            "ROOT r = f32[4] add(d, g)",
        ),
        "read by `get-tuple-element` g",
    ),
    (
        header(
            "",
            "p = f32[4] parameter(0) a = f32[4] all-reduce-start(p), replica_groups={},"
            " to_apply=add ROOT r = f32[4] negate(p)",
            ADD,
        ),
        "needs one `all-reduce-done`",
    ),
    (header("", BEGIN + "ROOT r = s32[2] negate(a)", NEGATE), "needs one `async-done`"),
    (
        header(
            "",
            BEGIN + "u = ((s32[2]), s32[2], s32[]) async-update(s) ROOT r = s32[2] negate(a)",
            NEGATE,
        ),
        "`u` begins `async-update`, which nothing ends: it needs one `async-done`",
    ),
    (
        header(
            "",
            "p = f32[4] parameter(0) t = token[] after-all() "
            "s = (f32[4], u32[], token[]) send(p, t), channel_id=1 ROOT r = f32[4] negate(p)",
        ),
        "needs one `send-done`",
    ),
    (
        header(
            "",
            BEGIN + "ROOT d = s32[2] async-done(s)",
            "f { x = s32[2] parameter(0) m = s32[2] negate(x) ROOT z = s32[2] abs(m) }\n",
        ),
        "needs to be one op and its parameters; `m` is another",
    ),
    (
        header(
            "",
            "a = f32[2] parameter(0) s = ((f32[2]), f32[2], s32[]) async-start(a), calls=f "
            "ROOT d = bf16[2] async-done(s)",
            "f { x = f32[2] parameter(0) ROOT z = f32[2] negate(x) }\n",
        ),
        "`async-done` is declared bf16[2], its start makes f32[2]",
    ),
    *(
        (header("", f"ROOT p = {type_} parameter(0)"), message)
        for type_, message in [
            ("f32[2,9223372036854775808]", "number of elements exceeds 9223372036854775807"),
            ("f32[4611686018427387904,8]", "number of elements exceeds"),
            ("f32[4611686018427387904,8,0]", "number of elements exceeds"),
            ("f32[<=4611686018427387904,8]", "number of elements exceeds"),
            ("(s32[], f32[4611686018427387904,8])", "number of elements exceeds"),
            ("f32[2305843009213693952]", "whose bytes exceed"),
            ("c128[576460752303423488]", "whose bytes exceed"),
        ]
    ),
]
RIGHT = [
    aliased("{}: (0, {}, must-alias)", "a = s32[4] parameter(0) ROOT b = f32[4] convert(a)"),
    aliased("{0}: (0, {}), {1}: (1, {})", "a = s32[4] parameter(0) b = s32[4] parameter(1)"
            " ROOT c = (s32[4], s32[4]) tuple(b, a)"),
    custom_call("f32[4,2]{0,1}", "f32[4,2]{1,0}", "{}: (0, {})"),
    custom_call("(f32[4], s32[])", "(f32[4], s32[])", "{}: (0, {})"),
    header("", COPY + "ROOT r = f32[4] copy-done(cs)"),
    header("", BEGIN + "ROOT d = s32[2] async-done(s)", NEGATE),
    header("", "p = f32[4] parameter(0) a = (f32[4], f32[4]) all-gather-start(p),"
           " replica_groups={}, dimensions={0} ROOT r = f32[4] negate(p)"),
    header("", "p = f32[4] parameter(0) s = f32[4] all-reduce-start(p), replica_groups={},"
           " to_apply=add ROOT d = bf16[4] all-reduce-done(s)", ADD),
    *(
        header("", f"ROOT p = {type_} parameter(0)")
        for type_ in (
            "f32[2305843009213693951]",
            "u8[9223372036854775807]",
            "s4[9223372036854775807]",
            "f32[0,4611686018427387904,8]",
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_the_verifier_of_xla_refuses_is_a_finding(text: str, message: str) -> None:
    found = verify_hlo(parse_hlo(text))
    assert len(found) == 1
    assert message in found[0].message
    assert found[0].span is not None


@pytest.mark.parametrize("text", RIGHT)
def test_what_the_verifier_of_xla_accepts_is_fine(text: str) -> None:
    assert verify_hlo(parse_hlo(text)) == []
