import random

import pytest
from hypothesis import given, settings, strategies as st

from hloscope.affine import (
    AffineMap,
    Dim,
    Range,
    Runtime,
    ceildiv,
    maximum,
    minimum,
    parse_expr,
    parse_prefix,
    to_text,
)
from hloscope.errors import ParseError, TooLargeError, UnsupportedError
from tests.strategies import exprs

d0, d1, s0, rt0 = Dim(0), Dim(1), Range(0), Runtime(0)


@given(exprs)
def test_printing_and_parsing_are_inverse(e):
    assert parse_expr(to_text(e)) is e
    assert parse_expr(to_text(e, style="mlir")) is e


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(20, 60))
def test_what_shares_its_parts_is_written_with_names(seed, levels):
    """Each level uses those before it several times: written out, there are far too many."""
    rng = random.Random(seed)
    known = [d0, d1, s0, rt0]
    for _ in range(levels):
        a, b = rng.choice(known[-4:]), rng.choice(known[-6:])
        c = rng.choice([2, 3, 7])
        new = [a // c * 5 + a % c + b, (a + b) // c + a, minimum(a + 1, b * 2), maximum(b % c, a)]
        new += [a * d0 + b, ceildiv(a - b, -c) + a % (b * b + 1)]
        known.append(rng.choice(new))
    e = known[-1]
    text = to_text(e, {d0: "t1", s0: "where"})
    assert len(text) < 20_000
    assert parse_expr(text, {"t1": d0, "where": s0, "d1": d1, "rt0": rt0}) is e
    assert parse_expr(to_text(e)) is e


def test_names_for_parts():
    assert parse_expr("t0 + t1 where t0 = d0 / 4, t1 = t0 mod 3") is d0 // 4 + d0 // 4 % 3
    assert parse_expr("where + 1", {"where": d0}) is d0 + 1
    e = parse_expr("where / 2, where where = d1 * 3", {"d1": d1})
    assert e is d1 * 3 // 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t0 where t0 = t1, t1 = d0", "unknown variable 't1'"),
        ("t0 where t0 = d0, t0 = d0", "`t0` cannot be the name of a part"),
        ("t0 where t0 = d0, d1 = d0", "`d1` cannot be the name of a part"),
        ("t0 where t0 = d0, mod = d0", "`mod` cannot be the name of a part"),
        ("t0 where t0 = d0 d1", "expected `,` or the end"),
        ("t0 where t0 = d0,", "expected a name and `=`"),
        ("t0 + 1 t1 where t0 = d0", "expected an operator or the end"),
    ],
)
def test_wrong_names_for_parts(text, message):
    with pytest.raises(ParseError) as caught:
        parse_expr(text)
    assert message in caught.value.message


def read_or_refused(text):
    """The expression, or `None` where its numbers or products are too large."""
    try:
        return parse_expr(text)
    except ParseError as error:
        if "are too large" in error.message:
            return None
        raise


@pytest.mark.slow(keep=1)
@pytest.mark.timeout(60)
@pytest.mark.parametrize("step", ["t{0} * t{0}", "t{0} * t{0} * d1 + 9", "t{0} / 2 + t{0} / 3"])
def test_parts_that_double_take_no_memory(step):
    """Numbers, factors and paths double with each part that has a name."""
    parts = "".join([f", t{k + 1} = {step.format(k)}" for k in range(200)])
    for first in ("d0", "9" * 3000, "d0 * 7"):
        e = read_or_refused(f"t200 where t0 = {first}{parts}")
        if e is None:
            continue
        assert parse_expr(to_text(e)) is e
        if first != "9" * 3000:  # a constant
            with pytest.raises(TooLargeError):
                to_text(e, plain=True)
    many = "".join([f", t{k + 1} = t{k} + 1" for k in range(10_001)])
    with pytest.raises(ParseError, match="more than 10000 parts"):
        parse_expr(f"t1 where t0 = d0{many}")


CASES = [
    ("d0 + s0*2-rt0", d0 + s0 * 2 - rt0),
    ("d0 floordiv 2 * 4", (d0 // 2) * 4),
    ("d0 * 2 / 4 mod 8", d0 * 2 // 4 % 8),
    ("-d0 mod 2", -d0 % 2),
    ("-(d0 mod 2)", -(d0 % 2)),
    ("- -d0", d0),
    ("--3", parse_expr("3")),
    ("d0 - -d1", d0 + d1),
    ("d0 ceildiv -2", ceildiv(d0, -2)),
    ("min(d0, max(d1, 3))", minimum(d0, maximum(d1, 3))),
    ("-min(d0,d1)", -minimum(d0, d1)),
    ("((((d0))))", d0),
    ("d0 % 4 // 2", d0 % 4 // 2),
    ("d0 floorDiv 2 + d1 ceilDiv 3", d0 // 2 + ceildiv(d1, 3)),
    ("2 * (d0 + 1) * d1", (d0 + 1) * d1 * 2),
]


@pytest.mark.parametrize(("text", "e"), CASES, ids=[text for text, _ in CASES])
def test_parse(text, e):
    assert parse_expr(text) is e


def test_names():
    names = {"th_x": d0, "bl_x": d1}
    e = parse_expr("bl_x * 128 + th_x", names)
    assert e is d1 * 128 + d0
    assert to_text(e, {d0: "th_x", d1: "bl_x"}) == "bl_x * 128 + th_x"
    assert to_text(e, {d1: "bl_x"}) == "bl_x * 128 + d0"


@pytest.mark.slow
def test_nesting_has_no_limit():
    deep = "(" * 50_000 + "d0" + " + 1)" * 50_000
    assert parse_expr(deep) is d0 + 50_000


def test_a_prefix_stops_where_the_expression_ends():
    for rest in (", d1)", " in [0, 3]", ")", ""):
        assert parse_prefix("d0 + 1" + rest) == (d0 + 1, 6)


ERRORS = [
    ("1 + ", 1, 4, "expected a number, a variable or '(', found the end"),
    ("max(1, )", 1, 8, "expected a number, a variable or '(', found ')'"),
    ("(1 + 2", 1, 7, "expected an operator or ')' for '(' opened at 1:1, found the end"),
    ("min(1)", 1, 6, "expected an operator or ',' for 'min' opened at 1:1, found ')'"),
    ("min 1", 1, 5, "expected '(' after min, found '1'"),
    ("foo(3, 4)", 1, 1, "unknown variable 'foo'"),
    ("d0 d1", 1, 4, "expected an operator or the end, found 'd1'"),
    ("d0 $ 2", 1, 4, "expected an operator or the end, found '$'"),
    ("d0 mod mod", 1, 8, "expected a number, a variable or '(', found 'mod'"),
    ("d0 +\n\t* 2", 2, 2, "expected a number, a variable or '(', found '*'"),
    ("", 1, 1, "expected a number, a variable or '(', found the end"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors_say_what_and_where(text, line, column, message):
    with pytest.raises(ParseError) as error:
        parse_expr(text)
    assert message in str(error.value)
    assert error.value.span is not None
    assert error.value.span.line_col == (line, column)


def test_unknown_names_get_suggestions():
    with pytest.raises(ParseError, match="unknown variable 'bl_y'; did you mean `bl_x`"):
        parse_expr("bl_y + 1", {"bl_x": d0, "th_x": d1})


MAPS = [
    "(d0, d1)[s0, s1] -> (d0 + s0, d1 * s1)",
    "() -> ()",
    "(d0, d1) -> (d0, d1)",
    "()[s0, s1] -> (s0, s1)",
]


@pytest.mark.parametrize("text", MAPS)
def test_maps_print_what_they_parse(text):
    assert str(AffineMap.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(d0) (d0)", "expected '->', found '('"),
        ("(d0 -> (d0)", "expected a name or ')' in the dimension list, found '-'"),
        ("(d0)[s0 -> (d0)", "expected a name or ']' in the symbol list"),
        ("(d0) -> d0", "expected '(' before the results, found 'd'"),
        ("(d0, d0) -> ()", "'d0' is declared twice"),
        ("(d0) -> (d1)", "unknown variable 'd1'"),
        ("(d0) -> (d0) x", "expected the end"),
        ("(d0) -> (d0", "expected ',' or ')' after a result, found the end"),
    ],
)
def test_maps_in_wrong_text(text, message):
    with pytest.raises(ParseError) as error:
        AffineMap.parse(text)
    assert message in str(error.value)


def test_mlir_has_no_min():
    with pytest.raises(UnsupportedError, match=r"cannot contain max\(d0, 2\)"):
        AffineMap.parse("(d0) -> (max(d0, 2) + 1)").text("mlir")
    assert AffineMap.parse("(d0) -> (d0 / 2)").text("mlir") == "(d0) -> (d0 floordiv 2)"


def test_what_follows_a_map_is_pointed_at() -> None:
    with pytest.raises(ParseError) as caught:
        AffineMap.parse("(d0) -> (d0)   x")
    assert caught.value.span is not None
    assert caught.value.span.start == len("(d0) -> (d0)   ")
