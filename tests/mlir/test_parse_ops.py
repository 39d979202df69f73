"""Operations, functions, regions, blocks and names of values."""

from __future__ import annotations

import pytest

from hloscope.errors import ParseError
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.ir import (
    ArrayAttr,
    Block,
    DictAttr,
    IntegerAttr,
    Operation,
    StringAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
)
from hloscope.mlir.text.lexer import MOST_ERRORS, TextError, split_input
from hloscope.mlir.text.parser import parse_mlir
from hloscope.mlir.types import I32, I64, type_text

F32_2 = TensorType(ELEMENT_TYPES["f32"], (2,))


def _ops(text: str) -> tuple[Operation, ...]:
    return parse_mlir(text, dialects=DIALECTS).regions[0].block.operations


def test_generic_form() -> None:
    text = """
      %0:2, %x = "a.b"() <{p = 1 : i32}> {q} : () -> (i32, i64, tensor<2xf32>)
      "c.d"(%0#1, %0, %x) : (i64, i32, tensor<2xf32>) -> ()
    """
    first, second = _ops(text)
    assert first.properties == {"p": IntegerAttr(1, I32)}
    assert first.attributes == {"q": UnitAttr()}
    assert [value.type for value in first.results] == [I32, I64, F32_2]
    assert [(value.name, value.index) for value in first.results] == [("0", 0), ("0", 1), ("x", 2)]
    assert second.operands == (first.results[1], first.results[0], first.results[2])
    assert all(value.owner is first for value in first.results)
    assert first.span is not None
    assert first.span.line_col == (2, 18)
    assert text[first.start : first.end] == '"a.b"'


def test_inherent_attributes_of_known_ops_are_properties() -> None:
    (op,) = _ops('%0 = "stablehlo.iota"() {iota_dimension = 0 : i64, mine} : () -> tensor<2xf32>')
    assert list(op.properties) == ["iota_dimension"]
    assert list(op.attributes) == ["mine"]


def test_a_module_of_the_text_is_the_module() -> None:
    module = parse_mlir('module @m attributes {a = 1} {\n  "x.y"() : () -> ()\n}')
    assert module.get("sym_name") == StringAttr(b"m")
    assert module.get("a") == IntegerAttr(1, I64)
    assert [op.name for op in module.regions[0].block] == ["x.y"]
    assert parse_mlir("module {\n}").regions[0].block.operations == ()
    two = parse_mlir("module {}\nmodule {}")
    assert [op.name for op in two.regions[0].block] == ["builtin.module"] * 2
    nested = parse_mlir("module { module @a { module @b {} } }")
    inner = nested.regions[0].block.operations[0].regions[0].block.operations[0]
    assert inner.get("sym_name") == StringAttr(b"b")


def test_resources_are_kept() -> None:
    text = '{-#\n  dialect_resources: { builtin: { w: "0x0400#-}" } }\n#-}'
    module = parse_mlir(f'"a.b"() {{x = dense_resource<w> : tensor<1xi8>}} : () -> ()\n{text}\n')
    assert module.resources == text


def test_functions() -> None:
    text = """
      func.func public @"a b"(%x: tensor<2xf32> {a.b = 1} loc("x"), %y: i32)
          -> (tensor<2xf32> {r}, i32) attributes {k} {
        return %x, %y : tensor<2xf32>, i32
      }
      func.func private @d(tensor<2xf32>, i32 {z}) -> i32
      func.func @e()
    """
    main, private, bare = _ops(text)
    assert main.get("sym_name") == StringAttr(b"a b")
    assert main.get("sym_visibility") == StringAttr(b"public")
    type = main.get("function_type")
    assert isinstance(type, TypeAttr)
    assert type_text(type.type) == "(tensor<2xf32>, i32) -> (tensor<2xf32>, i32)"
    empty = DictAttr(())
    assert main.get("arg_attrs") == ArrayAttr((DictAttr((("a.b", IntegerAttr(1, I64)),)), empty))
    assert main.get("res_attrs") == ArrayAttr((DictAttr((("r", UnitAttr()),)), empty))
    assert main.attributes == {"k": UnitAttr()}
    block = main.regions[0].block
    assert [value.name for value in block.arguments] == ["x", "y"]
    assert block.operations[0].operands == block.arguments
    assert block.operations[0].name == "func.return"
    assert private.regions[0].blocks == ()
    assert bare.get("arg_attrs") is None


def test_calls_and_casts() -> None:
    text = """
      func.func @f(%x: i32) -> i64 {
        %0 = call @f(%x) {a} : (i32) -> i64
        %1 = func.call @f(%x) : (i32) -> i64
        %f = constant @f : (i32) -> i64
        %2 = call_indirect %f(%x) : (i32) -> i64
        %3:2 = builtin.unrealized_conversion_cast %2, %x : i64, i32 to i64, i64
        return %3#1 : i64
      }
    """
    (function,) = _ops(text)
    ops = function.regions[0].block.operations
    assert [op.name for op in ops] == [
        "func.call",
        "func.call",
        "func.constant",
        "func.call_indirect",
        "builtin.unrealized_conversion_cast",
        "func.return",
    ]
    assert ops[0].get("callee") == SymbolAttr("f")
    assert ops[3].operands == (ops[2].result, function.regions[0].block.arguments[0])
    assert ops[5].operands == (ops[4].results[1],)


def test_blocks_and_successors() -> None:
    text = """
      "a.b"() ({
        "a.br"(%x)[^later, ^bb1] : (i32) -> ()
      ^bb1(%0: i32):
        "a.end"() : () -> ()
      ^later:
        %x = "a.c"() : () -> i32
        cf.br ^bb1(%x : i32)
      }, {
      }, {
      ^bb1:
        "a.end"() : () -> ()
      }) : () -> ()
    """
    (op,) = _ops(text)
    entry, one, later = op.regions[0].blocks
    assert [block.label for block in (entry, one, later)] == ["", "bb1", "later"]
    assert entry.operations[0].successors == (later, one)
    assert entry.operations[0].operands == (later.operations[0].result,)
    assert later.operations[1].successors == (one,)
    assert isinstance(one.arguments[0].owner, Block)
    assert op.regions[1].blocks == ()
    assert len(op.regions[2].blocks) == 1


def test_uses_before_the_definition_are_the_same_value() -> None:
    text = """
      "a.b"(%y, %x#1) ({
        "a.c"(%y) : (i64) -> ()
      }) : (i64, i32) -> ()
      %x:2 = "a.d"() : () -> (i64, i32)
      %y = "a.e"(%y) : (i64) -> i64
    """
    first, x, y = _ops(text)
    assert first.operands == (y.result, x.results[1])
    assert first.regions[0].block.operations[0].operands == (y.result,)
    assert y.operands == (y.result,)
    assert (x.results[1].owner, x.results[1].index) == (x, 1)


def test_names_end_with_their_region() -> None:
    text = """
      "a.b"() ({
        %0 = "a.c"() : () -> i32
      }, {
        %0 = "a.c"() : () -> i64
      }) : () -> ()
      %0 = "a.c"() : () -> f32
    """
    assert len(_ops(text)) == 2


def test_lines_of_one_text_share_what_they_have_in_common() -> None:
    text = """
      func.func @f(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.add %a, %b {x = 1} : tensor<2xf32>
        %1 = stablehlo.add %b, %0 {x = 1} : tensor<2xf32>
        %2:2 = "a.b"(%1, %1) : (tensor<2xf32>, tensor<2xf32>) -> (i32, i64) loc(#l)
        %3:2 = "a.b"(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> (i32, i64) loc(unknown)
        %4:2 = "a.b"(%1, %0) : (tensor<2xf32>, tensor<2xf32>) -> (i32, i64) loc(#l)
        "a.c"(%4#1, %3) : (i64, i32) -> ()
        "a.c"(%2#1, %4) : (i64, i32) -> ()
        return %1 : tensor<2xf32>
      }
      #l = loc("x")
    """
    (function,) = _ops(text)
    ops = function.regions[0].block.operations
    assert ops[0].attributes is ops[1].attributes
    assert ops[1].operands == (function.regions[0].block.arguments[1], ops[0].result)
    assert ops[4].operands == (ops[1].result, ops[0].result)
    assert ops[6].operands == (ops[2].results[1], ops[4].results[0])
    assert ops[2].location is ops[4].location
    assert [op.span.line_col for op in ops if op.span] == [
        (3, 14), (4, 14), (5, 16), (6, 16), (7, 16), (8, 9), (9, 9), (10, 9)
    ]  # fmt: skip
    assert [text[op.start : op.end] for op in ops[4:]] == ['"a.b"', '"a.c"', '"a.c"', "return"]
    assert all(op.parent is function.regions[0].block for op in ops)


def test_one_result_may_be_counted_on_every_line() -> None:
    text = """
      func.func @f(%a: i32) -> i32 {
        %0:1 = "a.b"(%a) : (i32) -> i32
        %1:1 = "a.b"(%0#0) : (i32) -> i32
        %2:1 = "a.b"(%1) : (i32) -> i32
        %3 = "a.b"(%2#0) : (i32) -> i32
        %4 = "a.b"(%3) : (i32) -> i32
        return %4 : i32
      }
    """
    (function,) = _ops(text)
    *ops, end = function.regions[0].block.operations
    assert [op.operands[0] for op in ops[1:]] == [op.result for op in ops[:-1]]
    assert end.operands == ops[-1].results
    assert [op.result.name for op in ops] == ["0", "1", "2", "3", "4"]


def test_regions_on_one_line_are_made_anew() -> None:
    reduce = (
        "stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]"
        " : (tensor<2xf32>, tensor<f32>) -> tensor<f32>"
    )
    text = f"""
      func.func @f(%a: tensor<2xf32>, %z: tensor<f32>) {{
        %0 = {reduce}
        %1 = {reduce}
        return
      }}
    """
    (function,) = _ops(text)
    first, second, _ = function.regions[0].block.operations
    assert first.regions[0] is not second.regions[0]
    block = second.regions[0].block
    add, end = block.operations
    assert add.operands == block.arguments
    assert end.operands == (add.result,)
    assert second.regions[0].parent is second
    assert add.parent is block
    assert all(value.owner is block for value in block.arguments)
    assert first.regions[0].block.arguments[0] is not block.arguments[0]


def test_a_line_that_goes_on_is_not_taken_for_a_whole() -> None:
    text = """
      func.func @f(%a: tensor<2xf32>) {
        %0 = stablehlo.add %a, %a : tensor<2xf32>
        %1 = stablehlo.add %a, %a : tensor<2xf32>
          loc("x")
        %2 = "a.b"(%0) {s = "%1"} : (tensor<2xf32>) -> i32
        %3 = "a.b"(%0) {s = "%2"} : (tensor<2xf32>) -> i32
        %4 = "a.b"(%0) {s = "%2"} : (tensor<2xf32>) -> i32 // comment
        return
      }
    """
    (function,) = _ops(text)
    ops = function.regions[0].block.operations
    assert str(ops[1].location) == "LazyLoc('\"x\"')"
    assert [op.get("s") for op in ops[2:5]] == [StringAttr(s) for s in (b"%1", b"%2", b"%2")]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends(newline: str) -> None:
    text = 'func.func @f() {\n  %0 = "a.b"() : () -> i32\n  %1 = "a.b"() : () -> i32\n  return\n}\n'
    (function,) = _ops(text.replace("\n", newline))
    assert len(function.regions[0].block.operations) == 3


def test_splitting() -> None:
    text = "a\n// -----\nb\nc // -----\n"
    assert split_input(text) == [(1, "a\n"), (2, "\nb\nc "), (4, "\n")]


# ------------------------------------------------------------------------------------- errors

_WRONG = """
%0 "a.b"() : () -> i32 | expected '=' after SSA name
%0:x = "a.b"() : () -> i32 | expected integer number of results
%0:0 = "a.b"() : () -> i32 | expected named operation to have at least 1 result
%0 = "a.b"() : () -> () | cannot name an operation with no results
%0:2 = "a.b"() : () -> i32 | operation defines 1 results but was provided 2 to bind
%0 = "a.b"() : () -> (i32, i32) | operation defines 2 results but was provided 1 to bind
= 3 | expected operation name in quotes
""() : () -> () | empty operation name is invalid
"a.b" : () -> () | expected '(' to start operand list
"a.b"(%x : (i32) -> () | expected ')' to end operand list
"a.b"(x) : () -> () | expected ')' to end operand list
"a.b"() () : () -> () | expected '{' to begin a region
"a.b"() ({} | expected ')' to end region list
"a.b"() {a : () -> () | expected '}' in attribute dictionary
"a.b"() () -> () | expected '{' to begin a region
"a.b"() {} () -> () | expected ':' followed by operation type
"a.b"() : i32 | expected function type
"a.b"(%x) : () -> () | expected 1 operand type but had 0
"a.b"() : (i32) -> () | expected 0 operand types but had 1
"a.b"(%x) : (i32) -> () | use of undeclared SSA value name
"a.b"()[^x] : () -> () | reference to an undefined block '^x'
"a.b"() ({ ^x: ^x: }) : () -> () | redefinition of block '^x'
"a.b"() ({ ^x }) : () -> () | expected ':' after block name
%0 = "a.b"() : () -> i32 %0 = "a.b"() : () -> i32 | redefinition of SSA value '%0'
%0 = "a.b"() : () -> i32 "a.c"(%0) : (i64) -> () | use of value '%0' expects different type than
"a.c"(%0) : (i64) -> () %0 = "a.b"() : () -> i32 | definition of SSA value '%0#0' has type 'i32'
%0 = "a.b"() : () -> i32 "a.c"(%0#1) : (i32) -> () | reference to invalid result number
foo | custom op 'foo' is unknown (tried 'builtin.foo' as well)
%0 = foo.bar | Dialect `foo' not found for custom op 'foo.bar'
stablehlo.foo | custom op 'stablehlo.foo' is unknown
func.func f() | custom op 'func.func' expected valid '@'-identifier for symbol name
func.func @f | expected '('
func.func @f(%a: i32, i32) {} | custom op 'func.func' expected SSA identifier
func.func @f(i32, %a: i32) {} | expected type instead of SSA identifier
func.func @f() {} | custom op 'func.func' expected non-empty function body
func.func @f() { | expected operation name in quotes
module { | expected operation name in quotes
module { return } | custom op 'return' is unknown (tried 'builtin.return' as well)
func.func @f() { return %x } | expected ':'
func.func @f(%a: i32) { return %a : i32, i32 } | number of operands and types do not match
func.func @f(%a: i32) { call @f(%a) : i32 } | invalid kind of type specified
#x = 1 | -
#x 1 | expected '=' in attribute alias definition
!x 1 | expected '=' in type alias definition
#x.y = 1 | attribute names with a '.' are reserved
{-# x | expected '#-}' to end file metadata
` x | unexpected character
% | invalid SSA name
^ | invalid block name
"a.b"(%0#x) : (i32) -> () | invalid SSA value result number
"""


@pytest.mark.parametrize("row", _WRONG.strip().splitlines())
def test_what_is_wrong_is_said_as_mlir_says_it(row: str) -> None:
    text, message = row.rsplit(" | ", 1)
    if message == "-":
        parse_mlir(text)
        return
    with pytest.raises(ParseError) as caught:
        parse_mlir(text, dialects=DIALECTS)
    assert message in caught.value.message
    assert caught.value.span is not None


def test_an_error_about_a_missing_token_is_where_it_is_missing() -> None:
    text = 'func.func @f() {\n  "a.b"()\n  // comment\n\n  return\n}\n'
    with pytest.raises(TextError) as caught:
        parse_mlir(text)
    assert caught.value.message == "expected ':' followed by operation type"
    assert caught.value.span is not None
    assert caught.value.span.line_col == (2, 10)


def test_notes_say_what_came_before() -> None:
    with pytest.raises(TextError) as caught:
        parse_mlir('%0 = "a.b"() : () -> i32\n%0 = "a.b"() : () -> i32')
    (found,) = caught.value.diagnostics
    assert [note.message for note in found.notes] == ["previously defined here"]
    assert "1:6: note" in str(found)


def test_all_undeclared_names_are_reported() -> None:
    with pytest.raises(TextError) as caught:
        parse_mlir('"a.b"(%x, %y) : (i32, i32) -> ()')
    assert len(caught.value.diagnostics) == 2


def test_ops_of_unknown_dialects_on_request() -> None:
    text = '"foo.bar"() : () -> ()'
    parse_mlir(text, dialects=DIALECTS)
    with pytest.raises(ParseError, match="unregistered dialect"):
        parse_mlir(text, dialects=DIALECTS, allow_unregistered=False)


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize(
    "text",
    [
        '"a.b"() ({' * 5000 + "}) : () -> ()" * 5000,
        "module {" * 5000 + "}" * 5000,
        '"a.b"() {x = ' + "[" * 5000 + "]" * 5000 + "} : () -> ()",
        '"a.b"() : () -> ' + "tuple<" * 5000 + ">" * 5000,
        '"a.b"() : ' + "(" * 5000,
        '"a.b"() : () -> () loc(' + "callsite(" * 5000 + ")",
        '"a.b"() {x = dense<' + "[" * 5000 + "]" * 5000 + "> : tensor<1xi32>} : () -> ()",
        '"a.b"() : () -> !a0\n'
        + "".join(f"!a{i} = tuple<!a{i + 1}>\n" for i in range(5000))
        + "!a5000 = i1",
        "func.func @f(%a: tensor<i1>) {" + '"stablehlo.if"(%a) ({' * 5000,
    ],
    ids=lambda text: text[:20],
)
def test_deep_nesting_is_an_error(text: str) -> None:
    with pytest.raises(ParseError):
        parse_mlir(text, dialects=DIALECTS)
    parse_mlir(text, dialects=DIALECTS, errors=[])


def test_nesting_that_people_write() -> None:
    depth = 30
    text = '"a.b"() ({' * depth + '"a.c"() : () -> ()' + "}) : () -> ()" * depth
    op = parse_mlir(text).regions[0].block.operations[0]
    for _ in range(depth):
        op = op.regions[0].block.operations[0]
    assert op.name == "a.c"


# ----------------------------------------------------------------------------------- recovery


def _errors(text: str) -> list[tuple[int, str]]:
    errors: list = []  # type: ignore[type-arg]
    parse_mlir(text, dialects=DIALECTS, errors=errors)
    return [(error.span.line_col[0], error.message) for error in errors]


def test_reading_goes_on_after_an_error() -> None:
    text = """
      func.func @a(%arg0: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.add %arg0, %arg0 : tensor<2xf33>
        %1 = stablehlo.abs %0 : tensor<2xf32>
        %2 = stablehlo.while(%x = %1) : tensor<2xf32>
          cond {
            %9 = stablehlo.foo
            stablehlo.return %9 : tensor<i1>
          } do {
            %8 = stablehlo.add %x, %zz : tensor<2xf32>
            stablehlo.return %8 : tensor<2xf32>
          }
        %1 = "a.b"() : () -> i32
        return %2 : tensor<3xf32>
      }
      func.func @b(%arg0: tensor<2xf32) {
        return
      }
      func.func @c(%a: i32) {
        return %a : i32
        %q = stablehlo.add %a, %a :
      }
      #x = dense<[1,2]> : tensor<3xi32>
    """
    found = [(line, message.partition("; did you mean")[0]) for line, message in _errors(text)]
    assert found == [
        (3, "expected non-function type"),
        (7, "custom op 'stablehlo.foo' is unknown"),
        (13, "redefinition of SSA value '%1'"),
        (
            14,
            "use of value '%2' expects different type than prior uses:"
            " 'tensor<3xf32>' vs 'tensor<2xf32>'",
        ),
        (16, "expected '>' in tensor type"),
        (21, "expected non-function type"),
        (23, "inferred shape of elements literal ([2]) does not match type ([3])"),
        (10, "use of undeclared SSA value name"),
    ]


def test_what_can_be_read_is_there() -> None:
    errors: list = []  # type: ignore[type-arg]
    text = (
        'func.func @a() {\n  %0 = foo\n  "a.b"(%0) : (i32) -> ()\n  return\n}\nbar\nfunc.func @b()'
    )
    module = parse_mlir(text, errors=errors)
    functions = module.regions[0].block.operations
    assert [f.get("sym_name") for f in functions] == [StringAttr(b"a"), StringAttr(b"b")]
    assert [op.name for op in functions[0].regions[0].block] == ["a.b", "func.return"]
    assert len(errors) == 2


def test_there_is_an_end_to_errors() -> None:
    errors = _errors("func.func @f() {\n" + "  %0 = foo\n" * 10_000 + "}\n")
    assert len(errors) == MOST_ERRORS


_NUMBERED = """
#stablehlo.channel_handle<handle = N, type = 0>
#stablehlo.gather<offset_dims = [N]>
#stablehlo.bounds<N>
#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = N,
"""


@pytest.mark.parametrize("row", _NUMBERED.strip().splitlines())
def test_numbers_of_structures_have_64_bits(row: str) -> None:
    row += " operand_tuple_indices = []>" if row.endswith(",") else ""

    def read(number: int | str) -> None:
        attribute = row.replace("N", str(number))
        parse_mlir(f'"stablehlo.abs"() {{x = {attribute}}} : () -> ()', dialects=DIALECTS)

    read((1 << 63) - 1)
    for number in (1 << 63, "0xFFFFFFFFFFFFFFFF", 1 << 64, -(1 << 63) - 1):
        with pytest.raises(ParseError):
            read(number)


def test_an_op_without_properties_is_given_none() -> None:
    message = (
        r"f:1:1: error: invalid properties {foo = 1 : i32} for op stablehlo.abs: this operation has"
        r" empty properties"
    )
    with pytest.raises(ParseError) as caught:
        parse_mlir('"stablehlo.abs"() <{foo = 1 : i32}> : () -> ()', "f", dialects=DIALECTS)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["foo", "a: {b}", "a: {b: {c}}", "a: {b: {c: 1}} x", "a: 1", ","])
def test_what_stands_at_the_end_of_a_text_has_keys(text: str) -> None:
    with pytest.raises(ParseError, match="file metadata is malformed"):
        parse_mlir(f"module {{}}\n{{-# {text} #-}}\n", dialects=DIALECTS)
    parse_mlir('module {}\n{-# a: {b: {c: "0x04", d: true}, "e f": {}}, g: {} #-}\n')
    parse_mlir("module {}\n{-# #-}\n")


@pytest.mark.parametrize("place", ["4294967296:1", "1:4294967296", "1:2 to 99999999999999999999:1"])
def test_places_have_32_bits(place: str) -> None:
    with pytest.raises(ParseError, match="expected integer line or column number in location"):
        parse_mlir(f'module {{}} loc("f":{place})')
