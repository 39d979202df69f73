"""Printing of the tree: values' names, nesting, forms, aliases and locations."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from hloscope.ir.types import TensorType
from hloscope.mlir.definitions import Dialect, Dialects, Suggestion
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.ir import Block, Operation, Region, Value
from hloscope.mlir.text.asm import AsmPrinter, Form, UnfitError
from hloscope.mlir.text.numbering import _SourceNames
from hloscope.mlir.text.parser import parse_mlir
from hloscope.mlir.text.printer import print_mlir, source_printer
from hloscope.mlir.types import ELEMENTS, I32


def printed(text: str, dialects: Dialects = DIALECTS, **how: Any) -> str:
    return print_mlir(parse_mlir(dedent(text), dialects=dialects), dialects=dialects, **how)


def same(text: str, **how: Any) -> None:
    text = dedent(text).lstrip()
    assert printed(text, **how) == text


def test_numbers_restart_in_each_function_and_go_on_in_regions() -> None:
    same("""
        module {
          func.func @f(%arg0: tensor<i1>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
            %0 = stablehlo.add %arg1, %arg1 : tensor<2xf32>
            %1 = "stablehlo.if"(%arg0) ({
              %3 = stablehlo.abs %0 : tensor<2xf32>
              stablehlo.return %3 : tensor<2xf32>
            }, {
              %3 = stablehlo.negate %0 : tensor<2xf32>
              stablehlo.return %3 : tensor<2xf32>
            }) : (tensor<i1>) -> tensor<2xf32>
            %2 = stablehlo.add %1, %1 : tensor<2xf32>
            return %2 : tensor<2xf32>
          }
          func.func private @g(%arg0: tensor<2xf32>) -> tensor<2xf32> {
            %0 = stablehlo.abs %arg0 : tensor<2xf32>
            return %0 : tensor<2xf32>
          }
        }
        """)


def test_names_that_ops_suggest_are_told_apart_by_a_common_count() -> None:
    same("""
        module {
          func.func @f(%arg0: tensor<i32>) -> tensor<i32> {
            %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
            %c = stablehlo.constant dense<1> : tensor<i32>
            %c_0 = stablehlo.constant dense<2> : tensor<i32>
            %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
            %c_2 = stablehlo.constant dense<true> : tensor<i1>
            %0:2 = stablehlo.while(%iterArg = %c, %iterArg_3 = %arg0) : tensor<i32>, tensor<i32>
            cond {
              %c_4 = stablehlo.constant dense<3> : tensor<i32>
              %1 = stablehlo.compare LT, %iterArg, %c_4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %1 : tensor<i1>
            } do {
              %1 = stablehlo.add %iterArg, %iterArg_3 : tensor<i32>
              stablehlo.return %1, %iterArg_3 : tensor<i32>, tensor<i32>
            }
            return %0#1 : tensor<i32>
          }
        }
        """)


def test_results_with_names_of_their_own_are_defined_one_by_one() -> None:
    same("""
        module {
          func.func @f(%arg0: tensor<16xf32>) -> tensor<8xi32> {
            %values, %indices = chlo.top_k(%arg0, k = 8) : tensor<16xf32> -> (tensor<8xf32>, tensor<8xi32>)
            %true = arith.constant true
            %c1 = arith.constant 1 : index
            %c-1_i32 = arith.constant -1 : i32
            %cst = arith.constant 1.000000e+00 : f32
            return %indices : tensor<8xi32>
          }
        }
        """)  # noqa: E501


def test_in_the_generic_form_no_number_occurs_twice() -> None:
    same(
        """
        "builtin.module"() ({
          "func.func"() <{function_type = (tensor<i1>) -> (), sym_name = "f"}> ({
          ^bb0(%arg1: tensor<i1>):
            %1:2 = "a.b"(%arg1) <{z = 1 : i64}> ({
              %3 = "a.c"() : () -> i32
            }, {
              %2 = "a.c"() : () -> i32
            }) {y} : (tensor<i1>) -> (i32, i32)
            "func.return"() : () -> ()
          }) : () -> ()
          "func.func"() <{function_type = (i32) -> (), sym_name = "g", sym_visibility = "private"}> ({
          ^bb0(%arg0: i32):
            %0 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
            "func.return"() : () -> ()
          }) : () -> ()
        }) : () -> ()
        """,  # noqa: E501
        generic=True,
    )


def test_names_of_the_source_are_kept() -> None:
    text = """
        module {
          func.func @f(%x: tensor<i1>, %7: tensor<2xf32>) -> tensor<2xf32> {
            %sum.1 = stablehlo.add %7, %7 : tensor<2xf32>
            %both:2 = "a.b"(%x) ({
              %in = stablehlo.abs %7 : tensor<2xf32>
              "a.c"(%in) : (tensor<2xf32>) -> ()
            }, {
              %in = stablehlo.abs %sum.1 : tensor<2xf32>
              "a.c"(%in) : (tensor<2xf32>) -> ()
            }) : (tensor<i1>) -> (tensor<2xf32>, tensor<2xf32>)
            %in = stablehlo.abs %both#1 : tensor<2xf32>
            %a, %b:2 = "a.d"() : () -> (i1, i1, i1)
            "a.e"(%a, %b#0, %b#1) : (i1, i1, i1) -> ()
            return %in : tensor<2xf32>
          }
          func.func @g(%x: tensor<2xf32>) {
            %0 = "a.b"(%x) ({
              %0 = stablehlo.abs %x : tensor<2xf32>
              "a.c"(%0) : (tensor<2xf32>) -> ()
            }) : (tensor<2xf32>) -> tensor<2xf32>
            "a.br"()[^left] : () -> ()
          ^left:  // pred: ^bb0
            "a.br"()[^exit] : () -> ()
          ^exit:  // pred: ^left
            return
          }
        }
        """
    same(text, names="source")
    assert "%0 = stablehlo.add %arg1" in printed(text)


def test_values_without_a_name_get_one_that_is_free() -> None:
    type_ = TensorType(ELEMENTS["f32"], (2,))

    def op(operands: tuple[Value, ...], name: str = "") -> Operation:
        return Operation("a.b", operands, (Value(type_, name=name),))

    argument = Value(type_)
    first = op((argument,), "0")
    second = op((first.result,), "0")
    third = op((second.result,))
    block = Block((argument, Value(type_, name="arg0")), (first, second, third))
    module = Operation("builtin.module", regions=(Region((block,)),))
    lines = print_mlir(module, dialects=Dialects(), names="source").splitlines()
    assert [line.strip().split(" :")[0] for line in lines[1:4]] == [
        '%0 = "a.b"(%arg1)', '%1 = "a.b"(%0)', '%2 = "a.b"(%1)',
    ]  # fmt: skip


def test_blocks_have_labels_and_tell_where_control_comes_from() -> None:
    same("""
        module {
          func.func @f(%arg0: i1) {
            "a.br"(%arg0)[^bb1, ^bb2] : (i1) -> ()
          ^bb1:  // 2 preds: ^bb0, ^bb2
            "a.br"()[^bb3] : () -> ()
          ^bb2(%0: i32, %1: i32):  // pred: ^bb0
            "a.br"(%0)[^bb1] : (i32) -> ()
          ^bb3:  // pred: ^bb1
            return
          ^bb4:  // no predecessors
            "a.r"() ({
            ^bb0:
            }, {
            }, {
            ^bb0(%arg1: i32):
            }) : () -> ()
            return
          }
        }
        """)


def test_functions_show_their_attributes() -> None:
    same("""
        module @m attributes {a.b = 1 : i32, c.d} {
          func.func private @"a b"(tensor<2xf32> {a.x}, i32) -> (tensor<2xf32> {a.y = "q"}, i32) attributes {a.z, no_inline}
          func.func public @f(%arg0: tensor<2xf32> {a.x = [1, "s", unit]}, %arg1: i32) -> (tensor<2xf32> {a.y}) {
            %0:2 = call @"a b"(%arg0, %arg1) {a.w} : (tensor<2xf32>, i32) -> (tensor<2xf32>, i32)
            %f = constant @f : (tensor<2xf32>, i32) -> tensor<2xf32>
            %1 = call_indirect %f(%0#0, %0#1) : (tensor<2xf32>, i32) -> tensor<2xf32>
            %2 = builtin.unrealized_conversion_cast %1 : tensor<2xf32> to tensor<2xi32>
            return {a.v} %1 : tensor<2xf32>
          }
          func.func @g() -> ((i32) -> i32) {
            %f = constant @h : (i32) -> i32
            return %f : (i32) -> i32
          }
          module @inner {
          }
        }
        """)  # noqa: E501


def test_locations_are_aliases_that_stand_where_they_may() -> None:
    same(
        """
        #loc = loc(unknown)
        #loc1 = loc("x")
        #loc2 = loc("a.py":1:2 to :5)
        #loc4 = loc("b"(#loc2))
        module {
          func.func @f(%arg0: tensor<2xf32> loc("x"), %arg1: i32 loc("b"(#loc2))) {
            "a.r"() ({
            ^bb0(%arg2: i32 loc(unknown)):
              "a.b"(%arg2) : (i32) -> () loc(#loc6)
            }) : () -> () loc(#loc8)
            return loc(#loc4)
          } loc(#loc)
        } loc(#loc)
        #loc3 = loc("k":1:2 to 3:4)
        #loc5 = loc("q"(#loc3))
        #loc6 = loc(callsite(#loc5 at #loc4))
        #loc7 = loc(fused<"m">[#loc3, #loc6])
        #loc8 = loc("with \\22quotes\\22"(#loc7))
        """,
        locations=True,
    )


def test_what_says_no_location_is_where_it_stands_in_the_source() -> None:
    text = dedent("""
        func.func @f(%a: i32, %b: i32 loc("b")) {
          "a.r"() ({ ^bb0(%c: i32): "a.end"() : () -> () }) : () -> ()
          %e = "a.c"(%a) : (i32) -> i32 loc(unknown)
          return
        }
        """)
    module = parse_mlir(text, "m.mlir", dialects=DIALECTS)
    found = print_mlir(module, dialects=DIALECTS, locations=True, aliases=False)
    assert (
        found
        == dedent("""
        module {
          func.func @f(%arg0: i32 loc("m.mlir":2:14), %arg1: i32 loc("b")) {
            "a.r"() ({
            ^bb0(%arg2: i32 loc("m.mlir":3:19)):
              "a.end"() : () -> () loc("m.mlir":3:29)
            }) : () -> () loc("m.mlir":3:3)
            %0 = "a.c"(%arg0) : (i32) -> i32 loc(unknown)
            return loc("m.mlir":5:3)
          } loc("m.mlir":2:1)
        } loc("m.mlir":0:0)
        """).lstrip()
    )
    assert printed(found, locations=True, aliases=False) == found


def test_what_a_form_stands_for_is_where_the_form_is() -> None:
    text = dedent("""
        func.func @f(%a: tensor<2xf32>, %b: tensor<f32>) {
          %0 = stablehlo.reduce (%a init: %b) applies stablehlo.add across dimensions = [0]
            : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
          return
        }
        """)
    module = parse_mlir(text, "m", dialects=DIALECTS)
    found = print_mlir(module, dialects=DIALECTS, generic=True, locations=True, aliases=False)
    lines = [line for line in found.splitlines() if 'loc("m":3:' in line]
    assert len(lines) == 4  # arguments, addition, return, reduction
    assert all('loc("m":3:25)' in line for line in lines)


def test_equal_lines_keep_their_locations() -> None:
    same(
        """
        module {
          func.func @f(%arg0: i32 loc(unknown)) {
            "a.c"(%arg0) : (i32) -> () loc("x")
            "a.c"(%arg0) : (i32) -> () loc("x")
            "a.c"(%arg0) : (i32) -> () loc("x")
            return loc(unknown)
          } loc(unknown)
        } loc(unknown)
        """,
        locations=True,
        aliases=False,
    )


def test_locations_may_be_written_out() -> None:
    same(
        """
        module {
          "a.b"() : () -> () loc(callsite("f"("a.py":1:2) at fused["b.py":3:4, unknown]))
        } loc(unknown)
        """,
        locations=True,
        aliases=False,
    )


def test_a_chain_of_a_thousand_call_sites_is_printed() -> None:
    lines = ["#l0 = loc(unknown)"]
    lines += [f'#l{i} = loc(callsite("f{i}" at #l{i - 1}))' for i in range(1, 1001)]
    text = "\n".join([*lines, '"a.b"() : () -> () loc(#l1000)'])
    found = printed(text, locations=True)
    assert found.count("callsite(") == 1000
    assert printed(found, locations=True) == found
    assert printed(found, locations=True, aliases=False).count("callsite(") == 1000


def test_long_attributes_and_types_have_aliases() -> None:
    wide = ", ".join(["i1"] * 17)
    text = f"""
        !tuple = tuple<{wide}>
        #map = affine_map<(d0) -> (d0)>
        #map1 = affine_map<(d0) -> (d0 + 1)>
        #set = affine_set<(d0) : (d0 >= 0)>
        #sparse = #sparse_tensor.encoding<{{ map = (d0) -> (d0 : compressed) }}>
        !tuple1 = tuple<tensor<2xf32, #sparse>, {wide}>
        module {{
          "a.b"() {{m = [#map, #map1], n = #map, s = #set}} : () -> (!tuple)
          "a.b"() {{t = !tuple1}} : () -> (tensor<2xf32, #sparse>, tuple<!tuple>)
        }}
        """
    text = dedent(text).lstrip()
    text = text.replace('  "a.b"() {m', '  %0 = "a.b"() {m').replace("(!tuple)", "!tuple")
    text = text.replace('  "a.b"() {t', '  %1:2 = "a.b"() {t')
    same(text)
    written_out = printed(text, aliases=False)
    assert "#map" not in written_out
    assert "= affine_map<(d0) -> (d0)>, s" in written_out


def test_resources_stand_at_the_end() -> None:
    same("""
        module {
          "a.b"() {v = dense_resource<big> : tensor<1xi8>} : () -> ()
        }

        {-#
          dialect_resources: {
            builtin: {
              big: "0x0800000001"
            }
          }
        #-}
        """)


@pytest.mark.slow
def test_five_thousand_regions_in_each_other_are_printed() -> None:
    inner = Operation("a.b", results=(Value(I32),))
    for _ in range(5000):
        inner = Operation("a.r", regions=(Region((Block((), (inner,)),)),))
    text = print_mlir(inner, dialects=Dialects())
    assert text.count("a.r") == 5000
    assert print_mlir(inner, dialects=Dialects(), names="source").count("a.r") == 5000


def test_an_op_in_a_module_is_printed_as_it_stands_there() -> None:
    module = parse_mlir("""
        func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
          %b = stablehlo.abs %a : tensor<2xf32>
          %c = stablehlo.add %a, %b : tensor<2xf32>
          return %c : tensor<2xf32>
        }
        """, dialects=DIALECTS)  # fmt: skip
    (function,) = module.regions[0].block
    add = function.regions[0].block.operations[1]
    assert print_mlir(add, dialects=DIALECTS) == "%1 = stablehlo.add %arg0, %0 : tensor<2xf32>"
    kept = print_mlir(add, dialects=DIALECTS, names="source")
    assert kept == "%c = stablehlo.add %a, %b : tensor<2xf32>"


def test_a_value_that_nothing_defines_is_told() -> None:
    op = Operation("a.b", (Value(I32), Value(I32, name="x")))
    assert (
        print_mlir(op, dialects=Dialects())
        == '"a.b"(<<UNKNOWN SSA VALUE>>, %x) : (i32, i32) -> ()\n'
    )


def _write(printer: AsmPrinter, op: Operation) -> None:
    if not op.regions:
        raise UnfitError("no region")
    printer.write(" before ")
    printer.region(op.regions[0], arguments=False, terminator=False)
    printer.newline()
    printer.write("after ")
    printer.region(op.regions[1])
    printer.dictionary(op, ("hidden",), keyword=True)


def test_a_form_may_write_around_regions_or_decline() -> None:
    def read(*_: object) -> None:
        raise NotImplementedError

    dialect = Dialect(
        "a",
        {"a.b": frozenset()},
        {"a.b": Form(read, _write)},
        suggestions={"a.c": Suggestion(lambda op: ("c", ""), lambda region: ("own",))},
        inside={"a.b": "a"},
        open=True,
    )
    same_text = """
        "a.b"() ({
        ^bb0(%x: i32):
          %y:3 = "a.c"() ({
          ^bb0(%z: i32, %w: i32):
            "a.b"() : () -> ()
          }) : () -> (i32, i32, i32)
          "a.end"() : () -> ()
        }, {
        ^bb0(%x: i32):
          "a.b"() ({ "a.end"() : () -> () }, {}) : () -> ()
        }) {hidden, shown} : () -> ()
        """
    expected = """
        module {
          a.b before {
            %c:3 = "a.c"() ({
            ^bb0(%own: i32, %arg1: i32):
              "a.b"() : () -> ()
            }) : () -> (i32, i32, i32)
          }
          after {
          ^bb0(%arg0: i32):
            b before {
            }
            after {
            }
          } attributes {shown}
        }
        """
    assert printed(same_text, Dialects([dialect])) == dedent(expected).lstrip()


@pytest.mark.parametrize("how", [{}, {"generic": True}, {"names": "source"}, {"locations": True}])
def test_printing_twice_changes_nothing(how: dict[str, Any]) -> None:
    text = """
        func.func @f(%a: tensor<2xf32>) -> tensor<f32> {
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %r = stablehlo.reduce(%a init: %zero) across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
            reducer(%x: tensor<f32> loc("x"), %y: tensor<f32>) {
              %s = stablehlo.maximum %x, %y : tensor<f32> loc("m")
              %t = stablehlo.add %s, %y : tensor<f32>
              stablehlo.return %t : tensor<f32>
            }
          return %r : tensor<f32>
        }
        """  # noqa: E501
    once = printed(text, **how)
    assert printed(once, **how) == once


class Counting(set[str]):
    """A set that counts how often it is asked."""

    asked = 0

    def __contains__(self, item: object) -> bool:
        self.asked += 1
        return super().__contains__(item)


def test_names_that_are_given_are_passed_once_however_many_regions_ask() -> None:
    count = 300
    region = '"a.r"() ({\n  "a.o"() : () -> ()\n  %n = "a.b"() : () -> i32\n}) : () -> ()\n'
    lines = [f'%{k} = "a.b"() : () -> i32\n' for k in range(count)]
    root = parse_mlir("".join(lines) + region * count, dialects=Dialects())
    names = _SourceNames(root)
    for op in root.regions[0].blocks[0].operations[count:]:  # values without a name of their own
        op.regions[0].blocks[0].operations[1].results[0].name = ""
    names.given = counted = Counting(names.given - {"n"})
    names.run(root)
    assert counted.asked < 10 * count


def test_many_ops_are_printed_as_each_is_alone() -> None:
    root = parse_mlir(
        "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        "%0 = stablehlo.abs %x : tensor<2xf32>\n%a = stablehlo.negate %0 : tensor<2xf32>\n"
        "return %a : tensor<2xf32> }",
        dialects=DIALECTS,
    )
    write = source_printer(DIALECTS)
    (block,) = root.regions[0].blocks
    for op in (root, block.operations[0], *block.operations[0].regions[0].blocks[0].operations):
        assert write(op) == print_mlir(op, dialects=DIALECTS, names="source")
