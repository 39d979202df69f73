"""Type text ⇄ types."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from hloscope.errors import ParseError
from hloscope.hlo_parser.types import COMBINED, parse_type, print_type, read_type, type_end
from hloscope.ir.types import (
    ELEMENT_TYPES,
    BufferType,
    Layout,
    OpaqueType,
    TensorType,
    TokenType,
    TupleType,
    Type,
)
from hloscope.support.limits import MOST_NESTING

F32 = ELEMENT_TYPES["f32"]
S4 = ELEMENT_TYPES["s4"]

CASES = [
    ("f32[]", TensorType(F32, ())),
    ("f32[10,20]", TensorType(F32, (10, 20))),
    ("f32[0,3]", TensorType(F32, (0, 3))),
    ("f32[10,20]{0,1}", TensorType(F32, (10, 20), Layout((0, 1)))),
    ("s4[2]{0:E(4)}", TensorType(S4, (2,), Layout((0,), element_bits=4))),
    ("s4[]{:E(4)}", TensorType(S4, (), Layout((), element_bits=4))),
    (
        "f32[8,128]{1,0:T(8,128)(2,1)S(1)}",
        TensorType(F32, (8, 128), Layout((1, 0), ((8, 128), (2, 1)), 1)),
    ),
    ("f32[4]{0:T(*,8)}", TensorType(F32, (4,), Layout((0,), ((COMBINED, 8),)))),
    (
        "f32[4,4]{1,0:D(D,C)T(8)L(16)#(u32)*(s32)E(4)S(5)SC(0:3)M(8)}",
        TensorType(
            F32,
            (4, 4),
            Layout(
                (1, 0), ((8,),), 5, 4, ("D(D,C)", "L(16)", "#(u32)", "*(s32)", "SC(0:3)", "M(8)")
            ),
        ),
    ),
    (
        "f32[4]{0:P(f32[2]{0})}",
        TensorType(F32, (4,), Layout((0,), extras=("P(f32[2]{0})",))),
    ),
    ("f32[<=512]", TensorType(F32, (None,), None, (512,))),
    ("f32[<=1801,1]", TensorType(F32, (None, 1), None, (1801, None))),
    ("f32[?,784]", TensorType(F32, (None, 784), None, (None, None))),
    ("token[]", TokenType()),
    ("opaque[]", OpaqueType()),
    ("b(f32[8]{0})", BufferType(TensorType(F32, (8,), Layout((0,))))),
    ("()", TupleType(())),
    ("((), (), f32[])", TupleType((TupleType(()), TupleType(()), TensorType(F32, ())))),
    (
        "(token[], (f32[2], b(f32[])))",
        TupleType(
            (
                TokenType(),
                TupleType((TensorType(F32, (2,)), BufferType(TensorType(F32, ())))),
            )
        ),
    ),
]


@pytest.mark.parametrize(("text", "type_"), CASES, ids=[text for text, _ in CASES])
def test_text_and_type_correspond(text: str, type_: Type) -> None:
    assert parse_type(text) == type_
    assert print_type(type_) == text
    assert read_type(f"{text} add(x)", 0) == (type_, len(text))
    assert type_end(f"{text} add(x)", 0) == len(text)


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_every_element_type_is_read_by_its_name(name: str) -> None:
    type_ = parse_type(f"{name}[3]")
    assert isinstance(type_, TensorType)
    assert type_.element is ELEMENT_TYPES[name]


LOOSE = [
    (" f32[ 2 , 3 ] {1, 0} ", "f32[2,3]{1,0}"),
    ("f32[]{}", "f32[]"),
    ("(f32[1],f32[2],/*index=2*/f32[3])", "(f32[1], f32[2], f32[3])"),
    ("( /* nothing */ )", "()"),
    ("F32[2]", "f32[2]"),
    ("f32[3]{0:S(0)}", "f32[3]{0}"),
]


@pytest.mark.parametrize(("text", "printed"), LOOSE)
def test_loose_writing_is_printed_in_the_usual_form(text: str, printed: str) -> None:
    assert print_type(parse_type(text)) == printed


def test_long_tuples_are_numbered_as_xla_does() -> None:
    text = "(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[], f32[])"
    type_ = parse_type(text)
    assert isinstance(type_, TupleType)
    assert len(type_.elements) == 7
    assert print_type(type_) == text


def test_layouts_can_be_left_out() -> None:
    type_ = parse_type("(f32[2,3]{1,0}, (s8[4]{0:T(4)}))")
    assert print_type(type_, layout=False) == "(f32[2,3], (s8[4]))"


def test_equal_texts_give_the_same_object() -> None:
    assert parse_type("f32[2,3]{1,0}") is parse_type("f32[2,3]{1,0}")


def test_tuples_of_tuples_are_read_as_deep_as_they_may_be() -> None:
    text = "(" * MOST_NESTING + "f32[2]" + ")" * MOST_NESTING
    assert print_type(parse_type(text)) == text


ERRORS = [
    ("f33[2]", 0, "did you mean `f32`?"),
    ("g[2]", 0, "unknown element type `g`"),
    ("f32[2", 0, "expected a type"),
    ("f32[a]", 4, "expected a size, found `a`"),
    ("f32[2,-1]", 6, "expected a size, found `-1`"),
    ("f32[2]{1}", 1, "not a permutation of 1 dimensions"),
    ("f32[2,3]{0}", 1, "not a permutation of 2 dimensions"),
    ("f32[2,3]{0,0}", 1, "not a permutation of 2 dimensions"),
    ("f32[2]{0:Q[1]}", 3, "unknown part of a layout"),
    ("f32[2]{0:T(x)}", 5, "expected a number, found `x`"),
    ("f32[2]{0:S(2,128)}", 4, "`S` of a layout has one number, found 2"),
    ("(f32[2], s32[", 9, "expected a type"),
    ("(f32[2]", 0, "tuple type is not closed"),
    ("(f32[2] s32[])", 8, "expected `,` or `)`"),
    ("f32[2] f32[3]", 7, "expected the end of the type"),
    ("token[2]", 6, "`token` has no dimensions"),
    ("b(token[])", 2, "a buffer holds an array"),
    ("b(f32[]", 7, "expected `)`"),
    ("", 0, "expected a type"),
]


@pytest.mark.parametrize(("text", "start", "message"), ERRORS)
def test_errors_say_where(text: str, start: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_type(text)
    assert message in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.start == start


@pytest.mark.parametrize("text", ["(f32[2]", "x y", "b(f32[2]", "f32"])
def test_a_missing_end_is_an_error(text: str) -> None:
    with pytest.raises(ParseError):
        type_end(text, 0)


# ------------------------------------------------------------------------------------ laws

sizes = st.integers(0, 2000)


@st.composite
def tensors(draw: st.DrawFn) -> TensorType:
    element = draw(st.sampled_from(sorted(ELEMENT_TYPES)))
    shape = draw(st.lists(st.one_of(sizes, st.none()), max_size=4))
    bounds: tuple[int | None, ...] = ()
    if None in shape:
        bounds = tuple(None if s is not None else draw(st.none() | sizes) for s in shape)
    layout = None
    if draw(st.booleans()):
        order = draw(st.permutations(range(len(shape))))
        tile = st.lists(st.integers(1, 128), min_size=1, max_size=2).map(tuple)
        layout = Layout(
            tuple(order),
            tuple(draw(st.lists(tile, max_size=2))),
            draw(st.integers(0, 5)),
            draw(st.sampled_from((0, 4))),
            tuple(draw(st.lists(st.sampled_from(("L(8)", "SC(0:3)")), max_size=2, unique=True))),
        )
        if not shape and layout == Layout(()):
            layout = None  # a scalar's trivial layout is not written
    return TensorType(ELEMENT_TYPES[element], tuple(shape), layout, bounds)


types = st.recursive(
    st.one_of(tensors(), st.just(TokenType()), st.just(OpaqueType()), tensors().map(BufferType)),
    lambda inner: st.lists(inner, max_size=7).map(lambda parts: TupleType(tuple(parts))),
)


def _in_order(type_: Type) -> Type:
    """Extras are printed in XLA's order."""
    return parse_type(print_type(type_))


@pytest.mark.slow
@settings(max_examples=60)
@given(types)
def test_printed_types_are_read_back(type_: Type) -> None:
    text = print_type(type_)
    again = parse_type(text)
    assert print_type(again) == text
    assert again == _in_order(type_)
    assert type_end(text, 0) == len(text)
    if "SC" not in text:
        assert again == type_
