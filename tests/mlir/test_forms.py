"""Pretty forms of ops: read, written, and the same as the generic form."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from hloscope.errors import ParseError
from hloscope.mlir.dialects.forms.regions import COMMUTATIVE
from hloscope.mlir.dialects.registry import DEFINITIONS, DIALECTS
from hloscope.mlir.dialects.rows import elided
from hloscope.mlir.ir import Block, BoolAttr, DenseArrayAttr, IntegerAttr, Operation, Region, Value
from hloscope.mlir.text.parser import parse_mlir
from hloscope.mlir.text.printer import print_mlir
from hloscope.mlir.types import ELEMENTS, I32, I64

_ROWS = Path(__file__).with_name("forms.txt").read_text().splitlines()


def _case(row: str) -> tuple[str, str, str, str]:
    name, form, *properties, types = row.split(" | ")
    text = form if form.startswith("(") else f" {form}"
    return name, text, properties[0] if properties else "", types


CASES = [_case(row) for row in _ROWS if row and not row.startswith("#")]
"""Op, what stands after its name, properties, types."""


def _types(text: str) -> list[str]:
    """The types between the parentheses of `(a, b)`, or the one there is."""
    if not text.startswith("("):
        return [text]
    found, depth, start = [], 0, 1
    for at, sign in enumerate(text):
        depth += (sign in "(<{[") - (sign in ")>}]" and text[at - 1 : at + 1] != "->")
        if depth == 0 or (depth == 1 and sign == ","):
            found.append(text[start:at].strip())
            start = at + 1
    return [one for one in found if one]


def around(line: str, types: str) -> str:
    """A function around one op, of a type `(a, b) -> c`."""
    inputs, results = types.split(" -> ", 1)
    parameters = ", ".join(f"%arg{i}: {t}" for i, t in enumerate(_types(inputs)))
    count = len(_types(results))
    names = f"%r:{count} = " if count > 1 else "%r = " * count
    return f"func.func @f({parameters}) {{\n  {names}{line}\n  return\n}}"


def generic(name: str, properties: str, types: str) -> str:
    """The generic form of an op."""
    operands = ", ".join(f"%arg{i}" for i in range(len(_types(types.split(" -> ", 1)[0]))))
    inside = f" <{{{properties}}}>" if properties else ""
    return f'"{name}"({operands}){inside} : {types}'


def read(text: str) -> Operation:
    """The first op of the first function."""
    module = parse_mlir(text, dialects=DIALECTS)
    return module.regions[0].block.operations[0].regions[0].block.operations[0]


def written(text: str, *, generic: bool = False) -> str:
    """A text as it is printed."""
    return print_mlir(parse_mlir(text, dialects=DIALECTS), dialects=DIALECTS, generic=generic)


def _line(text: str) -> str:
    """The op in the text of a module, without the names of its results."""
    return re.sub(r"^\s*(?:%[\w:]+(?:, )?)+ = |^\s+", "", text.splitlines()[2])


@pytest.mark.slow(keep=50)
@pytest.mark.parametrize(
    ("name", "form", "properties", "types"), CASES, ids=[f"{x[0]}{x[1]}"[:60] for x in CASES]
)
def test_both_forms_say_the_same(name: str, form: str, properties: str, types: str) -> None:
    pretty, long = around(name + form, types), around(generic(name, properties, types), types)
    assert read(pretty).properties == read(long).properties
    for text in (pretty, long):
        assert _line(written(text)) == name + form
        assert generic(name, properties, types) in written(text, generic=True)


# ------------------------------------------------------------------------------- ops with regions

TEXTS = Path(__file__).with_name("forms_regions.mlir").read_text().split("\n// -----\n")


def in_module(text: str) -> str:
    lines = (f"  {line}" if line else "" for line in text.strip("\n").splitlines())
    return "module {\n" + "\n".join(lines) + "\n}\n"


@pytest.mark.parametrize("text", TEXTS, ids=[re.findall(r"@(\w+)\(", x)[0] for x in TEXTS])
def test_ops_with_regions_and_branches_print_as_they_were_written(text: str) -> None:
    module = in_module(text)
    assert written(module) == module
    assert written(written(module, generic=True)) == module


@pytest.mark.parametrize("name", sorted(COMMUTATIVE))
def test_every_commutative_op_may_be_applied(name: str) -> None:
    text = f"(%arg0 init: %arg1) applies {name} across dimensions = [] : (tensor<i1>, tensor<i1>)"
    function = around(
        f"stablehlo.reduce{text} -> tensor<i1>", "(tensor<i1>, tensor<i1>) -> tensor<i1>"
    )
    (inner, last) = read(function).regions[0].block.operations
    assert (inner.name, last.operands) == (name, inner.results)
    assert text in written(written(function, generic=True))


def test_locations_of_reductions_are_kept() -> None:
    text = in_module(TEXTS[0].replace(" -> tensor<2xf32>\n", ' -> tensor<2xf32> loc("here")\n'))
    op = read(text)
    assert {x.location for x in op.regions[0].block.operations} == {op.location}


def test_the_default_of_an_attribute_is_left_out_and_others_are_not() -> None:
    assert sorted(elided(DEFINITIONS["stablehlo.custom_call"])) == [
        "api_version",
        "called_computations",
        "has_side_effect",
        "output_operand_aliases",
    ]
    text = around(
        '"stablehlo.custom_call"(%arg0) <{api_version = 1 : i32, backend_config = "", '
        'call_target_name = "f", called_computations = [], has_side_effect = false}> '
        ": (tensor<i8>) -> tensor<i8>",
        "(tensor<i8>) -> tensor<i8>",
    )
    assert 'custom_call @f(%arg0) {backend_config = ""} : ' in written(text)


def test_spellings_the_printer_does_not_use_are_read() -> None:
    same = [
        ("compare #stablehlo<comparison_direction EQ>, %arg0, %arg1", "compare EQ, %arg0, %arg1"),
        ("compare  EQ ,%arg0 , %arg1", "compare EQ, %arg0, %arg1"),
    ]
    types = "(tensor<i8>, tensor<i8>) -> tensor<i1>"
    for odd, usual in same:
        text = around(f"stablehlo.{odd} : {types}", types)
        assert f"stablehlo.{usual} : {types}" in written(text)
    both = around(
        "stablehlo.add %arg0, %arg1 : (tensor<i8>, tensor<i8>) -> tensor<i8>",
        "(tensor<i8>, tensor<i8>) -> tensor<i8>",
    )
    assert "stablehlo.add %arg0, %arg1 : tensor<i8>\n" in written(both)


# ------------------------------------------------------------------------- ops that do not fit

_I8 = ELEMENTS["i8"]
_PLACES = tuple(Value(_I8, index=i) for i in range(7))


def _around(op: Operation) -> Operation:
    return Operation("test.op", regions=(Region((Block(_PLACES, (op,)),)),))


@pytest.mark.parametrize("name", sorted(DIALECTS.forms))
def test_an_op_that_its_form_cannot_say_is_printed_generically(name: str) -> None:
    odd = [
        Operation(name),
        Operation(name, _PLACES[:2]),
        Operation(name, _PLACES, (Value(_I8),)),
        Operation(name, regions=(Region(), Region((Block(),)))),
        Operation(
            name,
            _PLACES[:1],
            (Value(_I8),),
            {slot: BoolAttr(True) for slot in DIALECTS.ops.get(name, ())},
        ),
        Operation(
            name,
            _PLACES[:2],
            (Value(_I8),),
            {slot: DenseArrayAttr(I64, (1, 2)) for slot in DIALECTS.ops.get(name, ())},
        ),
        Operation(
            name, properties={slot: IntegerAttr(99, I32) for slot in DIALECTS.ops.get(name, ())}
        ),
    ]
    for op in odd:
        assert name in print_mlir(_around(op), dialects=DIALECTS)


# -------------------------------------------------------------------------------------- errors

ERRORS = [
    tuple(row.split(" | "))
    for row in Path(__file__).with_name("forms_errors.txt").read_text().splitlines()
    if row and not row.startswith("#")
]


@pytest.mark.slow(keep=50)
@pytest.mark.parametrize("row", ERRORS, ids=[row[0][:50] for row in ERRORS])
def test_errors_are_said_as_the_original_says_them(row: tuple[str, ...]) -> None:
    text, *messages = row
    types = "(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"
    with pytest.raises(ParseError) as raised:
        parse_mlir(around(f"stablehlo.{text}", types), dialects=DIALECTS)
    name = re.split(r"[ (]", text)[0]
    expected = [
        m[1:] if m.startswith("=") else f"custom op 'stablehlo.{name}' {m}" for m in messages
    ]
    said = [x.message for x in raised.value.diagnostics]  # type: ignore[attr-defined]
    assert [x.partition("; did you mean")[0] for x in said] == expected


# ------------------------------------------------------------------------------- mangled texts

_WORD = re.compile(r'"[^"]*"|[A-Za-z_][\w.]*|->|\d+|\s+|.', re.DOTALL)


def test_mangled_forms_are_refused_or_read_never_worse(full: bool) -> None:
    """What is read prints, and what was printed in the pretty form reads back the same."""
    random = Random(0)
    texts = [around(name + form, types) for name, form, _, types in CASES]
    texts += [around(generic(name, props, types), types) for name, _, props, types in CASES]
    texts += TEXTS
    words = [word for text in texts for word in _WORD.findall(text)]
    for _ in range(40_000 if full else 1_500):
        mangled = _WORD.findall(random.choice(texts))
        at = random.randrange(len(mangled))
        mangled[at : at + random.randrange(2)] = random.choices(words, k=random.randrange(2))
        try:
            module = parse_mlir("".join(mangled), dialects=DIALECTS)
        except ParseError:
            continue
        print_mlir(module, dialects=DIALECTS, generic=True)
        pretty = print_mlir(module, dialects=DIALECTS)
        try:
            again = parse_mlir(pretty, dialects=DIALECTS)
        except ParseError:
            continue  # it says an op that is wrong anyway
        assert print_mlir(again, dialects=DIALECTS) == pretty
