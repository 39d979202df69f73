"""Maps in terms of sizes: what they are, and that they are those of known sizes at any sizes."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

import hloscope
from hloscope.affine import Runtime, Var, evaluate
from hloscope.api import Program
from hloscope.indexing import IndexingMap, symbolic_instances as drawn, symbolic_rules
from hloscope.indexing.symbolic import SizeTraversal
from hloscope.indexing.symbolic_instances import bound_to, instances
from hloscope.ir import TensorType
from tests.conftest import needs_shared
from tests.passes import dynamic_corpus, sizes_with_names


def module(arguments: str, body: str, result: str) -> Program:
    return hloscope.read(f"func.func @main({arguments}) -> {result} {{\n{body}\n}}")


SIZES = """
  %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %four = stablehlo.constant dense<4> : tensor<1xi32>
  %four0 = stablehlo.constant dense<4> : tensor<i32>
  %whole = stablehlo.multiply %n, %four0 : tensor<i32>
  %whole1 = stablehlo.reshape %whole : (tensor<i32>) -> tensor<1xi32>
  %both = stablehlo.concatenate %n1, %four, dim = 0
    : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
"""
ZERO = "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
CASES = {
    "flat": (
        "%r = stablehlo.dynamic_reshape %a, %whole1 : (tensor<?x4xf32>, tensor<1xi32>)"
        " -> tensor<?xf32>",
        "(d0){a_0} -> (d0 / 4, d0 mod 4)   d0 in [0, a_0 * 4 - 1], a_0 >= 0   exact",
    ),
    "transposed": (
        "%r = stablehlo.transpose %a, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>",
        "(d0, d1){a_0} -> (d1, d0)   d1 in [0, a_0 - 1], a_0 >= 0   exact",
    ),
    "reversed": (
        "%r = stablehlo.reverse %a, dims = [0] : tensor<?x4xf32>",
        "(d0, d1){a_0} -> (-d0 + a_0 - 1, d1)   d0 in [0, a_0 - 1], a_0 >= 0   exact",
    ),
    "joined": (
        "%r = stablehlo.concatenate %a, %a, dim = 0"
        " : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>",
        "(d0, d1){a_0} -> (d0, d1)   d0 in [0, a_0 * 2 - 1], a_0 >= 0, -a_0 + d0 <= -1   exact",
    ),
    "padded": (
        ZERO + "%r = stablehlo.pad %a, %z, low = [2, 0], high = [1, 0], interior = [0, 0]"
        " : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>",
        "(d0, d1){a_0} -> (d0 - 2, d1)",
    ),
    "added": (
        "%r = stablehlo.add %a, %a : tensor<?x4xf32>",
        "(d0, d1){a_0} -> (d0, d1)   d0 in [0, a_0 - 1], a_0 >= 0   exact",
    ),
    "broadcast": (
        "%r = stablehlo.dynamic_broadcast_in_dim %a, %both, dims = [0, 1]"
        " : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x4xf32>",
        "(d0, d1){a_0} -> (d0, d1)   d0 in [0, a_0 - 1], a_0 >= 0   exact",
    ),
    "product": (
        "%r = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1]"
        " : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x?xf32>",
        "(d0, d1)[s0]{a_0} -> (d0, s0)   d0 in [0, a_0 - 1], d1 in [0, a_0 - 1], s0 in [0, 3]",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_maps_are_in_terms_of_the_sizes_of_arguments(name: str) -> None:
    body, expected = CASES[name]
    result = body.rpartition(" -> ")[2] if " -> " in body else body.rpartition(" : ")[2]
    program = module("%a: tensor<?x4xf32>", f"{SIZES}{body}\nreturn %r : {result}", result)
    found = str(program["r"].indexing(operand=0))
    assert all(part in re.sub(r"\s+", " ", found) for part in expected.split("   "))
    proof = program["r"].indexing().prove().checks
    assert {str(check.outcome) for check in proof} == {"sampled"}


NESTED = "tuple<tuple<tensor<2xf32>, tensor<3xf32>>, tensor<?xf32>>"


def test_an_element_behind_a_nested_tuple_is_the_one_that_is_taken() -> None:
    program = module(
        f"%a: {NESTED}",
        f"""%t = stablehlo.get_tuple_element %a[1] : ({NESTED}) -> tensor<?xf32>
        %r = stablehlo.negate %t : tensor<?xf32>
        return %r : tensor<?xf32>""",
        "tensor<?xf32>",
    )
    for answer in (program["t"].indexing(), program["r"].to_parameters()):
        text = re.sub(r"\s+", " ", str(answer))
        assert "a {2} (d0){a_0} -> (d0) d0 in [0, a_0 - 1], a_0 >= 0 exact" in text


def test_tuples_are_taken_apart_as_they_were_made() -> None:
    inner = "tuple<tensor<2xf32>, tensor<?xf32>>"
    program = module(
        "%b: tensor<2xf32>, %c: tensor<?xf32>, %d: tensor<?xf32>",
        f"""%t = stablehlo.tuple %b, %c : {inner}
        %u = stablehlo.tuple %t, %d : tuple<{inner}, tensor<?xf32>>
        %v = stablehlo.get_tuple_element %u[0] : (tuple<{inner}, tensor<?xf32>>) -> {inner}
        %w = stablehlo.get_tuple_element %v[1] : ({inner}) -> tensor<?xf32>
        %x = stablehlo.get_tuple_element %u[1] : (tuple<{inner}, tensor<?xf32>>) -> tensor<?xf32>
        %r = stablehlo.add %w, %x : tensor<?xf32>
        return %r : tensor<?xf32>""",
        "tensor<?xf32>",
    )
    read = {name: str(program[name].to_parameters()) for name in "wx"}
    assert [f"parameter {k}" in read["w"].partition("not read")[0] for k in range(3)] == [
        False,
        True,
        False,
    ]
    assert [f"parameter {k}" in read["x"].partition("not read")[0] for k in range(3)] == [
        False,
        False,
        True,
    ]


def test_positions_of_a_window_are_computed_if_there_surely_is_one() -> None:
    """`(n - 3) / 2 + 1` is wrong of fewer than two elements."""
    program = module(
        "%a: tensor<?xf32>",
        """%z = stablehlo.constant dense<0.0> : tensor<f32>
        %r = "stablehlo.reduce_window"(%a, %z) ({
          ^bb0(%x: tensor<f32>, %y: tensor<f32>):
            %m = stablehlo.add %x, %y : tensor<f32>
            stablehlo.return %m : tensor<f32>
        }) {window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}
          : (tensor<?xf32>, tensor<f32>) -> tensor<?xf32>
        return %r : tensor<?xf32>""",
        "tensor<?xf32>",
    )
    found = re.sub(r"\s+", " ", str(program["r"].indexing(operand=0)))
    assert "d0 in [0, r_0 - 1]" in found
    assert "with r_0 = dimension 0 of r" in found


@pytest.mark.parametrize("error", [IndexError("?"), TypeError("?"), ZeroDivisionError("?")])
def test_of_operands_that_do_not_fit_nothing_is_known(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(*_: object) -> None:
        raise error

    program = module(
        "%a: tensor<?xf32>",
        "%r = stablehlo.add %a, %a : tensor<?xf32>\nreturn %r : tensor<?xf32>",
        "tensor<?xf32>",
    )
    monkeypatch.setattr(symbolic_rules, "RULES", SimpleNamespace(find=lambda _: rule))
    found = str(program["r"].indexing())
    assert found.count("unknown: operands and result do not fit together") == 2


COMPUTED = {  # what is computed of the size of %a, and the last index of an array of that size
    "a third": (3, "divide %n, %c", "d0 in [0, a_0 / 3 - 1], a_0 >= 0"),
    "by nothing": (0, "divide %n, %c", "(d0){q} -> () d0 in [0, q - 1]"),
    "what is left over of threes": (3, "remainder %n, %c", "d0 in [0, a_0 mod 3 - 1], a_0 >= 0"),
    "what is left over of nothing": (0, "remainder %n, %c", "(d0){q} -> () d0 in [0, q - 1]"),
    "is there any": (0, "sign %n", "d0 in [0, min(a_0, 1) - 1], a_0 >= 0"),
    "how many more than": (2, "subtract %n, %c", "d0 in [0, a_0 - 3], a_0 >= 0"),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_sizes_may_be_computed_of_others(name: str) -> None:
    constant, computed, expected = COMPUTED[name]
    program = module(
        "%a: tensor<?x4xf32>",
        f"""{SIZES}{ZERO}
  %c = stablehlo.constant dense<{constant}> : tensor<i32>
  %q = stablehlo.{computed} : tensor<i32>
  %q1 = stablehlo.reshape %q : (tensor<i32>) -> tensor<1xi32>
  %r = stablehlo.dynamic_broadcast_in_dim %z, %q1, dims = []
    : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>""",
        "tensor<?xf32>",
    )
    found = str(program["r"].indexing(operand=0))
    assert expected in re.sub(r"\s+", " ", found)


def test_what_is_asserted_of_sizes_is_known() -> None:
    """Half of a size that is asserted to be even, and at least one."""
    program = module(
        "%a: tensor<?xf32>",
        """
  %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %rest = stablehlo.remainder %n, %two : tensor<i32>
  %even = stablehlo.compare EQ, %rest, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%even) {has_side_effect = true} : (tensor<i1>) -> ()
  %half = stablehlo.divide %n, %two : tensor<i32>
  %r = func.call @f(%half, %a) : (tensor<i32>, tensor<?xf32>) -> tensor<?x2xf32>
  return %r : tensor<?x2xf32>
}
func.func private @f(%h: tensor<i32> {jax.global_constant = "h"}, %a: tensor<?xf32>)
    -> tensor<?x2xf32> {
  %h1 = stablehlo.reshape %h : (tensor<i32>) -> tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %s = stablehlo.concatenate %h1, %two, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %r = stablehlo.dynamic_reshape %a, %s : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x2xf32>
  return %r : tensor<?x2xf32>""",
        "tensor<?x2xf32>",
    )
    found = str(program["f/r"].indexing(operand=0))
    assert "(d0, d1){h} -> (d0 * 2 + d1)   d0 in [0, h - 1], h >= 0   exact" in found
    assert "dimension 0 of a, divided by 2" in found
    assert "-> (d0 * 2 + d1)" in str(program.root.to_parameters())


def test_maps_are_checked_at_sizes_for_which_an_assertion_holds() -> None:
    program = module(
        "%a: tensor<?xf32>, %b: tensor<?xf32>",
        """
  %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %m = stablehlo.get_dimension_size %b, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %more = stablehlo.compare GE, %n, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%more) {has_side_effect = true} : (tensor<i1>) -> ()
  %r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>""",
        "tensor<?xf32>",
    )
    frame = SizeTraversal(program.module).frame_of(program.module.entry)
    found = [at.sizes for at in instances(frame, program["r"].ir, count=100, seed=0)]
    assert len(found) > 5
    assert all(sizes["a_0"] >= sizes["b_0"] for sizes in found)


def test_both_ways_are_told_where_it_depends_on_the_sizes() -> None:
    """A dimension of size 1 expands, any other stays."""
    program = module(
        "%a: tensor<?xf32>, %s: tensor<1xi32>",
        """%r = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [0]
        : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
        return %r : tensor<?xf32>""",
        "tensor<?xf32>",
    )
    answer = program.root.operands[0].indexing(operand=0)
    maps = [access.map for access in answer.operands[0].accesses]
    names = {"a_0": 1, "s_0": 3}
    at = [bound_to(m, names) for m in maps if m is not None]
    assert [sorted(m.points((2,))) for m in at if not m.is_known_empty] == [[(0,)]]
    names = {"a_0": 3, "s_0": 3}
    at = [bound_to(m, names) for m in maps if m is not None]
    assert [sorted(m.points((2,))) for m in at if not m.is_known_empty] == [[(2,)]]


def test_what_runs_only_sometimes_says_nothing_of_the_sizes() -> None:
    """In a branch two sizes are the same; outside of it they need not be."""
    program = module(
        "%p: tensor<i1>, %a: tensor<?xf32>, %b: tensor<?xf32>",
        """%r = "stablehlo.if"(%p) ({
          %s = stablehlo.add %a, %b : tensor<?xf32>
          stablehlo.return %s : tensor<?xf32>
        }, {
          stablehlo.return %a : tensor<?xf32>
        }) : (tensor<i1>) -> tensor<?xf32>
        %j = stablehlo.concatenate %a, %b, dim = 0
          : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
        return %j : tensor<?xf32>""",
        "tensor<?xf32>",
    )
    assert "a_0 + b_0 - 1" in str(program["j"].indexing(operand=1))
    assert "unknown" in str(program["r"].indexing())


def test_a_function_of_several_callers_is_told_for_any_arguments() -> None:
    program = hloscope.read(
        """
    func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
      %0 = func.call @f(%a, %a) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      %1 = func.call @f(%a, %b) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      return %0, %1 : tensor<?xf32>, tensor<?xf32>
    }
    func.func private @f(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
      %j = stablehlo.concatenate %x, %y, dim = 0
        : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      return %j : tensor<?xf32>
    }"""
    )
    assert "x_0 + y_0 - 1" in str(program["f/j"].indexing(operand=1))
    assert "a_0 * 2 - 1" in str(program.root.to_parameters(0))
    assert "a_0 + b_0 - 1" in str(program.root.to_parameters(1))


def test_what_is_said_of_dimensions_that_expand_is_believed() -> None:
    program = module(
        "%a: tensor<?x?xf32>, %s: tensor<2xi32>",
        """%r = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [0, 1] {
          known_expanding_dimensions = array<i64: 0>,
          known_nonexpanding_dimensions = array<i64: 1>}
        : (tensor<?x?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
        return %r : tensor<?x?xf32>""",
        "tensor<?x?xf32>",
    )
    answer = program["r"].indexing().prove()
    assert all(part in str(answer) for part in ("-> (0, d1)", "d1 in [0, a_1 - 1]"))
    assert {str(check.outcome) for check in answer.checks} == {"sampled"}


def test_inputs_of_a_window_have_the_same_sizes() -> None:
    program = module(
        "%a: tensor<?xf32>, %b: tensor<?xf32>, %z: tensor<f32>",
        """%r:2 = "stablehlo.reduce_window"(%a, %b, %z, %z) <{window_dimensions = array<i64: 9>}> ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>, %u: tensor<f32>, %v: tensor<f32>):
          %s = stablehlo.add %x, %u : tensor<f32>
          stablehlo.return %s, %y : tensor<f32>, tensor<f32>
        }) : (tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>)
          -> (tensor<?xf32>, tensor<?xf32>)
        return %r#0 : tensor<?xf32>""",
        "tensor<?xf32>",
    )
    outcomes = {str(c.outcome) for c in program["r"].indexing(None).prove().checks}
    assert "refuted" not in outcomes


def test_a_composite_is_what_its_decomposition_is() -> None:
    program = hloscope.read(
        """
    func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
      %r = stablehlo.composite "my.op" %a {decomposition = @f} : (tensor<?xf32>) -> tensor<?xf32>
      return %r : tensor<?xf32>
    }
    func.func private @f(%x: tensor<?xf32>) -> tensor<?xf32> {
      %r = stablehlo.reverse %x, dims = [0] : tensor<?xf32>
      return %r : tensor<?xf32>
    }"""
    )
    assert "(-d0 + a_0 - 1)" in str(program["main/r"].indexing())
    assert "(-d0 + a_0 - 1)" in str(program.root.to_parameters())


@pytest.mark.parametrize(
    ("number", "end"),
    [
        ("%u = stablehlo.convert %n : (tensor<i32>) -> tensor<ui8>", "u - 1"),
        (
            """%m = stablehlo.constant dense<-1> : tensor<i32>
            %u = stablehlo.convert %m : (tensor<i32>) -> tensor<ui8>""",
            "u - 1",
        ),
        (
            """%m = stablehlo.constant dense<255> : tensor<ui8>
            %u = stablehlo.add %m, %m : tensor<ui8>""",
            "u - 1",
        ),
        (
            """%m = stablehlo.constant dense<255> : tensor<i32>
            %u = stablehlo.convert %m : (tensor<i32>) -> tensor<ui8>""",
            "254",
        ),
    ],
)
def test_a_number_that_its_type_does_not_hold_is_another(number: str, end: str) -> None:
    program = module(
        "%a: tensor<?xf32>",
        f"""%n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        {number}
        %k = stablehlo.convert %u : (tensor<ui8>) -> tensor<i32>
        %s = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
        %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
        %r = stablehlo.reverse %i, dims = [0] : tensor<?xf32>
        return %r : tensor<?xf32>""",
        "tensor<?xf32>",
    )
    assert f"-> (-d0 + {end})" in str(program["r"].indexing(operand=0))


@pytest.mark.parametrize("name", ["max", "floordiv", "in", "d0", "π", "a b", "", "x" * 500])
def test_sizes_have_names_that_maps_can_be_read_with(name: str) -> None:
    program = module(
        "%a: tensor<?xf32>",
        f"""%n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        %r = func.call @f(%n, %a) : (tensor<i32>, tensor<?xf32>) -> tensor<?xf32>
        return %r : tensor<?xf32>
        }}
        func.func private @f(%h: tensor<i32> {{jax.global_constant = "{name}"}}, %a: tensor<?xf32>)
            -> tensor<?xf32> {{
        %q = stablehlo.reverse %a, dims = [0] : tensor<?xf32>
        return %q : tensor<?xf32>""",
        "tensor<?xf32>",
    )
    at = program["f/q"].indexing().operands[0].accesses[0].map
    assert at is not None
    assert str(IndexingMap.parse(str(at))) == str(at)
    assert len(at.runtime[0].name) < 80


@pytest.mark.parametrize(
    "text",
    [
        "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n"
        "  %0 = func.call @main(%a) : (tensor<?xf32>) -> tensor<?xf32>\n"
        "  return %0 : tensor<?xf32>\n}",
        "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n"
        '  %0 = "a.b"(%a) : (tensor<?xf32>) -> tensor<?xf32>\n  return %0 : tensor<?xf32>\n}',
        "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n"
        "  %0 = stablehlo.custom_call @f(%a) : (tensor<?xf32>) -> tensor<?xf32>\n"
        "  return %0 : tensor<?xf32>\n}",
        "func.func @main(%a: tensor<?x0xf32>) -> tensor<0xf32> {\n"
        "  %0 = stablehlo.reshape %a : (tensor<?x0xf32>) -> tensor<0xf32>\n"
        "  return %0 : tensor<0xf32>\n}",
    ],
)
def test_what_is_not_known_is_said(text: str) -> None:
    program = hloscope.read(text)
    for view in program:
        for answer in (view.indexing(None), view.to_parameters(None)):
            assert str(answer)
            assert answer.to_json()


def sizes_of(walk: SizeTraversal, record: dict[str, Any]) -> dict[Var, int]:
    """The values of symbols at which a recorded program was refined."""
    values: dict[Var, int] = {}
    for number, (parameter, text) in enumerate(
        zip(walk.entry.parameters, record["types"], strict=True)
    ):
        (leaf,) = walk.frame_of(walk.entry).of(parameter)
        given = [int(n) for n in re.findall(r"(\d+)x", text)]
        pairs = list(zip(leaf.shape or (), given, strict=True))
        if str(number) in record["dims"] and leaf.contents and leaf.contents[0] is not None:
            pairs.append((leaf.contents[0], record["dims"][str(number)]))
        values |= {size: n for size, n in pairs if isinstance(size, Runtime)}
    return values


@pytest.mark.slow
@needs_shared
def test_maps_of_exported_programs_are_those_at_any_sizes(full: bool) -> None:
    counts, wrong = sizes_with_names.of_programs(1 if full else 20)
    assert not wrong
    assert counts["known"] > 4 * counts["unknown"]


@needs_shared
def test_the_sizes_of_results_are_those_of_the_refined_program(full: bool) -> None:
    told = 0
    for record in [*dynamic_corpus.records()][:: 1 if full else 10]:
        program = hloscope.read(str(dynamic_corpus.path_of(record)))
        walk = SizeTraversal(program.module)
        values = sizes_of(walk, record)
        refined = hloscope.read(record["text"])
        known = walk.frame_of(walk.entry).of(walk.entry.root)
        for leaf, type in zip(known, refined.root.outputs, strict=True):
            assert isinstance(type, TensorType)
            for size, actual in zip(leaf.shape or (), type.sizes, strict=True):
                settled = walk.symbols.simplified(size)
                try:
                    found = evaluate(settled, values)
                except ValueError:  # it is decided by data
                    continue
                told += 1
                assert found == actual, record["file"]
    assert told > 20


def test_a_slice_begins_and_strides_as_constants_say() -> None:
    program = module(
        "%a: tensor<?x9xf32>",
        """%begin = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
        %end = stablehlo.constant dense<[3, 8]> : tensor<2xi32>
        %stride = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
        %r = stablehlo.real_dynamic_slice %a, %begin, %end, %stride
          : (tensor<?x9xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x3xf32>
        return %r : tensor<2x3xf32>""",
        "tensor<2x3xf32>",
    )
    answer = program["r"].indexing()
    assert "(d0, d1) -> (d0 + 1, d1 * 2 + 2)" in str(answer)
    assert "unknown" not in str(answer)


def test_sizes_come_back_from_a_call_beside_what_has_none() -> None:
    program = hloscope.read(
        """
    func.func @main(%t: !stablehlo.token, %a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
      %c:3 = func.call @f(%t, %a, %b) : (!stablehlo.token, tensor<?xf32>, tensor<?xf32>)
        -> (!stablehlo.token, tensor<?xf32>, tensor<?xf32>)
      %r = stablehlo.reverse %c#2, dims = [0] : tensor<?xf32>
      return %r : tensor<?xf32>
    }
    func.func private @f(%t: !stablehlo.token, %a: tensor<?xf32>, %b: tensor<?xf32>)
        -> (!stablehlo.token, tensor<?xf32>, tensor<?xf32>) {
      return %t, %b, %a : !stablehlo.token, tensor<?xf32>, tensor<?xf32>
    }"""
    )
    assert "(d0){a_0} -> (-d0 + a_0 - 1)" in str(program["main/r"].indexing())


def test_of_sizes_that_values_choose_those_are_known_that_are_the_same() -> None:
    program = module(
        "%p: tensor<2xi1>, %s: tensor<2xi32>, %t: tensor<1xi32>",
        """%four = stablehlo.constant dense<4> : tensor<1xi32>
        %m = stablehlo.slice %s [0:1] : (tensor<2xi32>) -> tensor<1xi32>
        %a = stablehlo.concatenate %m, %four, dim = 0
          : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
        %b = stablehlo.concatenate %t, %four, dim = 0
          : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
        %k = stablehlo.select %p, %a, %b : tensor<2xi1>, tensor<2xi32>
        %i = stablehlo.dynamic_iota %k, dim = 0 : (tensor<2xi32>) -> tensor<?x?xf32>
        %r = stablehlo.reverse %i, dims = [0, 1] : tensor<?x?xf32>
        return %r : tensor<?x?xf32>""",
        "tensor<?x?xf32>",
    )
    found = str(program["r"].indexing(operand=0))
    assert "(d0, d1){k_0} -> (-d0 + k_0 - 1, -d1 + 3)" in found


def test_what_no_size_makes_true_is_not_told() -> None:
    """Of the sides of an array it is padded at two: the value is read there, and nowhere else."""
    program = module(
        "%a: tensor<?x3xf32>",
        ZERO + "%r = stablehlo.pad %a, %z, low = [2, 0], high = [1, 0], interior = [0, 0]"
        " : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>\nreturn %r : tensor<?x3xf32>",
        "tensor<?x3xf32>",
    )
    array, value = program["r"].indexing().operands
    assert [str(a.map).partition(", d1 in")[0] for a in value.accesses] == [
        "(d0, d1){a_0} -> (), domain: d0 in [0, 1]",
        "(d0, d1){a_0} -> (), domain: d0 in [2, 9223372036854775806]",
    ]
    assert "d1 -" not in str(array)


@pytest.mark.parametrize(
    ("begin", "length", "expected"),
    [
        ("%p", "9", "-> (0, d1)"),
        ("%two", "4", "-> (0, d1 + 2)"),
        ("%p", "4", ""),
    ],
)
def test_a_part_begins_where_there_is_room(begin: str, length: str, expected: str) -> None:
    """Where a part is the whole, it does not matter what is said; elsewhere it does."""
    result = f"tensor<1x{length}xf32>"
    program = module(
        "%a: tensor<?x9xf32>, %one: tensor<1x9xf32>, %p: tensor<i32>",
        f"""%zero = stablehlo.constant dense<0> : tensor<i32>
        %two = stablehlo.constant dense<2> : tensor<i32>
        %j = stablehlo.concatenate %a, %one, dim = 0
          : (tensor<?x9xf32>, tensor<1x9xf32>) -> tensor<?x9xf32>
        %r = stablehlo.dynamic_slice %j, %zero, {begin}, sizes = [1, {length}]
          : (tensor<?x9xf32>, tensor<i32>, tensor<i32>) -> {result}
        return %r : {result}""",
        result,
    )
    answer = program["r"].indexing()
    assert expected in str(answer.operands[0])
    assert str(answer).count("unknown") == (0 if expected else 2 * len(answer.operands))


def test_compressed_operands_have_sizes_of_their_own() -> None:
    program = hloscope.read(
        """HloModule m
        ENTRY e { a = f32[?,?] parameter(0) b = f32[?,8] parameter(1) s = u16[?,?] parameter(2)
          r = f32[?,8] dot(a, b, s), lhs_contracting_dims={1}, rhs_contracting_dims={0},
            sparsity=L.1@2:4
          v = f32[?,?] reverse(a), dimensions={1}
          w = f32[?,8] reverse(b), dimensions={0}
          ROOT t = (f32[?,8], f32[?,?], f32[?,8]) tuple(r, v, w) }"""
    )
    answer = program["r"].indexing(None)
    assert str(answer).count("a dot of compressed (sparse) operands") == len(answer.operands)
    assert "(d0, -d1 + a_1 - 1)" in str(program["v"].indexing())
    assert "(-d0 + b_0 - 1, d1)" in str(program["w"].indexing())


def test_sizes_that_were_drawn_before_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    program = hloscope.read(
        "ENTRY e { p = f32[?,3] parameter(0) ROOT t = f32[3,?] transpose(p), dimensions={1,0} }"
    )
    walk, tried = SizeTraversal(program.module), []
    kept = drawn.instance_at

    def instance_at(frame: Any, ins: Any, values: Any) -> Any:
        tried.append(tuple(values.values()))
        return kept(frame, ins, values)

    monkeypatch.setattr(drawn, "instance_at", instance_at)
    entry = program.module.entry
    found = list(instances(walk.frame_of(entry), entry.root, count=100, seed=0))
    assert len(tried) == len({*tried})
    assert 1 < len(found) <= len(tried) < 100
