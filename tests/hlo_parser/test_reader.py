"""What the reader makes of every construct of HLO text."""

from __future__ import annotations

import gc
import threading

import pytest

from hloscope.errors import ParseError
from hloscope.hlo_parser import parse_hlo, parse_hlo_all
from hloscope.hlo_parser.literals import HloLiteral
from hloscope.hlo_parser.types import print_type
from hloscope.ir.graph import Computation, Module
from hloscope.ops.control import AsyncStart, CustomCall, Fusion, Parameter, UnknownOp
from hloscope.ops.shape import BroadcastInDim, Constant
from hloscope.support.limits import MOST_NESTING


def shown(module: Module) -> str:
    """One word per instruction: `*` root, `name=op(operands)`, `[calls]`, `:type`."""
    return " | ".join(
        f"{'!' if computation is module.entry else ''}{computation.name}: {body(computation)}"
        for computation in module
    )


def body(computation: Computation) -> str:
    words = []
    for ins in computation:
        mark = "*" if ins is computation.root else ""
        operands = ",".join(o.name for o in ins.operands)
        calls = f"[{','.join(c.name for c in ins.calls)}]" if ins.calls else ""
        words.append(f"{mark}{ins.name}={ins.op.name}({operands}){calls}:{print_type(ins.type)}")
    return " ".join(words)


CASES = {
    "percent signs and signature": (
        "HloModule m\n\n%f (x: f32[2]) -> f32[2] {\n  %x = f32[2]{0} parameter(0)\n"
        "  ROOT %y = f32[2]{0} abs(%x)\n}\n\nENTRY %e (x: f32[2]) -> f32[2] {\n"
        "  %x = f32[2]{0} parameter(0)\n"
        "  ROOT %z = f32[2]{0} fusion(%x), kind=kLoop, calls=%f\n}\n",
        "f: x=parameter():f32[2]{0} *y=abs(x):f32[2]{0} | "
        "!e: x=parameter():f32[2]{0} *z=fusion(x)[f]:f32[2]{0}",
    ),
    "no percent signs, no signature": (
        "HloModule m\nf {\n  x = f32[] parameter(0)\n  ROOT y = f32[] abs(x)\n}\n"
        "ENTRY e {\n  x = f32[] parameter(0)\n  ROOT z = f32[] call(x), to_apply=f\n}\n",
        "f: x=parameter():f32[] *y=abs(x):f32[] | !e: x=parameter():f32[] *z=call(x)[f]:f32[]",
    ),
    "percent signs here and there": (
        "HloModule m\n%f { ROOT x = f32[] parameter(0) }\n"
        "ENTRY e {\n  %a = f32[] parameter(0)\n  b = f32[] add(a, %a)\n"
        "  ROOT c = f32[] call(%b), to_apply=f\n}",
        "f: *x=parameter():f32[] | !e: a=parameter():f32[] b=add(a,a):f32[] *c=call(b)[f]:f32[]",
    ),
    "the last instruction is the root": (
        "HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  b = f32[] abs(a)\n}",
        "!e: a=parameter():f32[] *b=abs(a):f32[]",
    ),
    "a root before the end": (
        "HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  ROOT b = f32[] abs(a)\n"
        "  c = f32[] negate(a)\n}",
        "!e: a=parameter():f32[] *b=abs(a):f32[] c=negate(a):f32[]",
    ),
    "the last computation is the entry": (
        "HloModule m\nf { a = f32[] parameter(0) }\ng { a = f32[] parameter(0) }",
        "f: *a=parameter():f32[] | !g: *a=parameter():f32[]",
    ),
    "the entry may come first": (
        "HloModule m\nENTRY f { a = f32[] parameter(0) }\ng { a = f32[] parameter(0) }",
        "!f: *a=parameter():f32[] | g: *a=parameter():f32[]",
    ),
    "everything in one line": (
        "HloModule m, is_scheduled=true ENTRY e { a = f32[2] parameter(0) "
        "c = f32[2,2] broadcast(a), dimensions={0} ROOT b = f32[2,2] abs(c) }",
        "!e: a=parameter():f32[2] c=broadcast_in_dim(a):f32[2,2] *b=abs(c):f32[2,2]",
    ),
    "an instruction over many lines": (
        "HloModule m\nENTRY e {\n a = f32[2]\n parameter(0)\n b = f32[2,2] broadcast(\na)\n,\n"
        " dimensions=\n{0\n}}",
        "!e: a=parameter():f32[2] *b=broadcast_in_dim(a):f32[2,2]",
    ),
    "attributes on lines of their own": (
        "HloModule m\nENTRY e {\n  a = f32[2] parameter(0)\n  ROOT b = f32[2,2] broadcast(a),\n"
        '    dimensions={0},\n    metadata={op_name="x"}\n}',
        "!e: a=parameter():f32[2] *b=broadcast_in_dim(a):f32[2,2]",
    ),
    "commas at the start of a line": (
        "HloModule m\nENTRY e {\n  a = f32[2] parameter(0)\n  ROOT b = f32[2,2] broadcast(a)\n"
        "    , dimensions={0}\n}",
        "!e: a=parameter():f32[2] *b=broadcast_in_dim(a):f32[2,2]",
    ),
    "carriage returns": (
        "HloModule m\r\nENTRY e {\r\n  a = f32[2] parameter(0)\r\n  b = f32[2] abs(a)\r\n}\r\n",
        "!e: a=parameter():f32[2] *b=abs(a):f32[2]",
    ),
    "comments": (
        "// c\nHloModule m // x\n/* multi\n } */ ENTRY /* n */ e { // {\n"
        " a = /* c */ f32[2] parameter(0) // foo\n"
        " ROOT b = f32[2,2] broadcast(/*k*/a), /*} */ dimensions={0} // bar }\n}",
        "!e: a=parameter():f32[2] *b=broadcast_in_dim(a):f32[2,2]",
    ),
    "a comment that hides a computation": (
        "HloModule m\ne {\n  a = f32[] parameter(0) /*\n}\n\nf {\n  b = f32[] parameter(0)\n*/\n}",
        "!e: *a=parameter():f32[]",
    ),
    "index comments": (
        "HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n"
        "  ROOT t = (f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[]) "
        "tuple(a, a, a, a, a, /*index=5*/a)\n}",
        "!e: a=parameter():f32[] "
        "*t=tuple(a,a,a,a,a,a):(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[])",
    ),
    "a string over several lines that looks like an end": (
        "HloModule m\nENTRY e {\n  a = f32[2] parameter(0)\n"
        '  ROOT c = f32[2] custom-call(a), custom_call_target="x\n}\n\nfoo {\n"\n}',
        "!e: a=parameter():f32[2] *c=custom_call(a):f32[2]",
    ),
    "operand types": (
        "HloModule m\nENTRY %e {\n  %a = f32[2]{0} parameter(0)\n"
        "  %b = (f32[2]{0}, f32[2]) tuple(f32[2]{0} %a, f32[2] %a)\n"
        "  ROOT %c = f32[2]{0} get-tuple-element((f32[2]{0}, f32[2]{0}) %b), index=1\n}",
        "!e: a=parameter():f32[2]{0} b=tuple(a,a):(f32[2]{0}, f32[2]) "
        "*c=get_tuple_element(b):f32[2]{0}",
    ),
    "types left out": (
        "HloModule m\nENTRY e {\n  a = f32[2,3] parameter(0)\n  b = abs(a)\n  c = tuple(a, b)\n"
        "  ROOT d = get-tuple-element(c), index=1\n}",
        "!e: a=parameter():f32[2,3] b=abs(a):f32[2,3] c=tuple(a,b):(f32[2,3], f32[2,3]) "
        "*d=get_tuple_element(c):f32[2,3]",
    ),
    "instructions as operands": (
        "HloModule m\nENTRY e {\n  a = f32[2] parameter(0)\n"
        "  ROOT b = f32[2] add(f32[2] abs(a), abs(f32[2] constant({1,2})))\n}",
        "!e: a=parameter():f32[2] abs.anon=abs(a):f32[2] constant.anon=constant():f32[2] "
        "abs.anon.1=abs(constant.anon):f32[2] *b=add(abs.anon,abs.anon.1):f32[2]",
    ),
    "a computation inside an instruction": (
        "HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  ROOT b = f32[] call(a), to_apply={\n"
        "    x = f32[] parameter(0)\n    ROOT y = f32[] abs(x)\n  }\n}",
        "b_computation: x=parameter():f32[] *y=abs(x):f32[] | "
        "!e: a=parameter():f32[] *b=call(a)[b_computation]:f32[]",
    ),
    "computations inside computations inside instructions": (
        "HloModule m\nENTRY e { a = f32[] parameter(0) ROOT b = f32[] call(a), to_apply={ "
        "b = f32[] parameter(0) ROOT c = f32[] call(b), to_apply={ d = f32[] parameter(0) } } }",
        "c_computation: *d=parameter():f32[] | "
        "b_computation: b=parameter():f32[] *c=call(b)[c_computation]:f32[] | "
        "!e: a=parameter():f32[] *b=call(a)[b_computation]:f32[]",
    ),
    "several computations called": (
        "HloModule m\nc { x = f32[] parameter(0) ROOT p = pred[] constant(true) }\n"
        "b { ROOT x = f32[] parameter(0) }\n"
        "ENTRY e { a = f32[] parameter(0)\n  ROOT w = f32[] while(a), body=b, condition=%c }",
        "c: x=parameter():f32[] *p=constant():pred[] | b: *x=parameter():f32[] | "
        "!e: a=parameter():f32[] *w=while(a)[c,b]:f32[]",
    ),
    "a list of computations": (
        "HloModule m\nf { ROOT x = f32[] parameter(0) }\ng { ROOT x = f32[] parameter(0) }\n"
        "ENTRY e {\n  i = s32[] parameter(0)\n  x = f32[] parameter(1)\n"
        "  ROOT c = f32[] conditional(i, x, x), branch_computations={%g, %f}\n}",
        "f: *x=parameter():f32[] | g: *x=parameter():f32[] | !e: i=parameter():s32[] "
        "x=parameter():f32[] *c=case(i,x,x)[g,f]:f32[]",
    ),
    "parameters in another order": (
        "HloModule m\nENTRY e {\n  b = f32[] parameter(1)\n  a = f32[2] parameter(0)\n}",
        "!e: b=parameter():f32[] *a=parameter():f32[2]",
    ),
    "names with dots and dashes": (
        "HloModule a.b-c\nENTRY e.1 {\n  a-1.x_ = f32[] parameter(0)\n"
        "  ROOT b- = f32[] abs(a-1.x_)\n}",
        "!e.1: a-1.x_=parameter():f32[] *b-=abs(a-1.x_):f32[]",
    ),
    "dynamic sizes": (
        "HloModule m\nENTRY e {\n  a = f32[<=5,2]{1,0} parameter(0)\n"
        "  b = f32[?,2] parameter(1)\n}",
        "!e: a=parameter():f32[<=5,2]{1,0} *b=parameter():f32[?,2]",
    ),
    "layouts with tiles": (
        "HloModule m\nENTRY e {\n  a = (f32[8,128]{1,0:T(8,128)S(1)}, s4[4]{0:E(4)}) parameter(0)\n"
        "  ROOT b = f32[8,128]{1,0:T(8,128)(2,1)} get-tuple-element(a), index=0\n}",
        "!e: a=parameter():(f32[8,128]{1,0:T(8,128)S(1)}, s4[4]{0:E(4)}) "
        "*b=get_tuple_element(a):f32[8,128]{1,0:T(8,128)(2,1)}",
    ),
    "computations without header": (
        "f { a = f32[] parameter(0) }\nENTRY e { a = f32[] parameter(0) }",
        "f: *a=parameter():f32[] | !e: *a=parameter():f32[]",
    ),
    "one instruction": (
        '%b = f32[2] add(f32[2] %a, f32[2] %a), metadata={op_name="x"}',
        "!_: a=parameter():f32[2] *b=add(a,a):f32[2]",
    ),
    "one instruction without names": (
        "f32[2] add(f32[2], f32[2])",
        "!_: _0=parameter():f32[2] _1=parameter():f32[2] *_=add(_0,_1):f32[2]",
    ),
    "one instruction with its computation": (
        "b = f32[2] fusion(f32[2]{0} a), kind=kLoop, calls=\n{ p = f32[2] parameter(0)\n"
        " ROOT r = f32[2] abs(p) }",
        "b_computation: p=parameter():f32[2] *r=abs(p):f32[2] | "
        "!_: a=parameter():f32[2]{0} *b=fusion(a)[b_computation]:f32[2]",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lazy"])
def test_text_becomes_graph(text: str, expected: str, strict: bool) -> None:
    assert shown(parse_hlo(text, strict=strict)) == expected


def test_parameters_are_ordered_by_number() -> None:
    entry = parse_hlo("e { b = f32[] parameter(1) a = f32[2] parameter(0) }").entry
    assert [p.name for p in entry.parameters] == ["a", "b"]
    assert [p.op for p in entry.parameters] == [Parameter(0), Parameter(1)]


HEADER = """HloModule jit_f, is_scheduled=true, input_output_alias={ {0}: (1, {}, may-alias) },\
 entry_computation_layout={(f32[2]{0}, /*index=1*/f32[])->f32[2]{0}}, num_partitions=2

FileNames
1 "a.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}


ENTRY %e (a: f32[2], b: f32[]) -> f32[2] {
  %b = f32[] parameter(1)
  ROOT %a = f32[2]{0} parameter(0)
}, execution_thread="host"
"""


def test_header_and_tables_are_kept() -> None:
    module = parse_hlo(HEADER)
    assert module.name == "jit_f"
    assert dict(module.extras) == {
        "is_scheduled": "true",
        "input_output_alias": "{ {0}: (1, {}, may-alias) }",
        "entry_computation_layout": "{(f32[2]{0}, /*index=1*/f32[])->f32[2]{0}}",
        "num_partitions": "2",
    }
    assert module.preamble.startswith('FileNames\n1 "a.py"')
    assert module.preamble.endswith("1 {file_location_id=1 parent_frame_id=1}")
    assert module.entry.extras == (("execution_thread", '"host"'),)


@pytest.mark.parametrize(
    ("old", "new"), [("\n", "\r\n"), ("\n", "\n\t"), ("\n}", "\n  }"), ("\n}", " // x\n}")]
)
def test_other_white_space_changes_nothing(old: str, new: str) -> None:
    module, other = parse_hlo(HEADER), parse_hlo(HEADER.replace(old, new), strict=True)
    assert shown(other) == shown(module)
    assert other.extras == module.extras
    assert other.preamble.split() == module.preamble.split()
    assert other.entry.extras == module.entry.extras


@pytest.mark.parametrize("mark", ["", "%"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("inside", "names"),
    [
        ("", []),
        ("a", ["a"]),
        ("%a", ["a"]),
        ("a, b", ["a", "b"]),
        ("%a, %b", ["a", "b"]),
        ("%a, b", ["a", "b"]),
        ("a, %b", ["a", "b"]),
        ("a, b, a", ["a", "b", "a"]),
        ("%b, %b, %a, b", ["b", "b", "a", "b"]),
        ("a, b, /*index=2*/a", ["a", "b", "a"]),
        ("f32[2] a, f32[2]{0} b, f32[2] %a", ["a", "b", "a"]),
        ("%a, f32[2] %b", ["a", "b"]),
        ("a,b", ["a", "b"]),
    ],
)
def test_marks_of_names_change_nothing(
    mark: str, ending: str, inside: str, names: list[str]
) -> None:
    lines = [
        "HloModule m",
        "ENTRY e {",
        f"  {mark}a = f32[2] parameter(0)",
        f"  {mark}b = f32[2] negate({mark}a)",
        f'  ROOT {mark}c = (f32[2]) custom-call({inside}), custom_call_target="t"',
        "}",
        "",
    ]
    root = parse_hlo(ending.join(lines), strict=True).entry.root
    assert [operand.name for operand in root.operands] == names


@pytest.mark.parametrize("mark", ["", "%"])
@pytest.mark.parametrize("value", ["1", "%1", "1, 2", "{1, 2}", "%a, %b", "nan"])
def test_what_is_no_operand_stays_as_written(mark: str, value: str) -> None:
    text = f"HloModule m\n\nENTRY e {{\n  ROOT {mark}x = f32[2] constant({value})\n}}\n"
    op = parse_hlo(text, strict=True).entry.root.op
    assert isinstance(op, Constant)
    assert op.literal == HloLiteral(value)
    with pytest.raises(ParseError, match="expected a parameter number, found `%0`"):
        parse_hlo(text.replace(f"constant({value})", "parameter(%0)"), strict=True)


@pytest.mark.parametrize(
    "header",
    [
        "HloModule m, is_scheduled=true, num_partitions=2",
        "HloModule m\n, is_scheduled=true,\n  num_partitions=2",
        "HloModule m /* c */, is_scheduled=true, /* d */ num_partitions=2 // e",
        "  HloModule %m: , is_scheduled=true , num_partitions=2",
    ],
)
def test_header_forms(header: str) -> None:
    module = parse_hlo(f"{header}\n\nENTRY e {{ a = f32[] parameter(0) }}")
    assert module.name == "m"
    assert module.extras == (("is_scheduled", "true"), ("num_partitions", "2"))


TAIL = r"""HloModule m

%f (x: f32[2]) -> f32[2] {
  ROOT %x = f32[2] parameter(0)
}

ENTRY %e (a: f32[2]) -> f32[2] {
  %a = f32[2] parameter(0), sharding={replicated}, metadata={op_name="a"}
  %b = f32[2] abs(%a), metadata={op_name="jit(f)/vmap({'x'})/\"}, calls=%z\"" stack_frame_id=7}
  %c = f32[2] fusion(%b), kind=kLoop, calls=%f, metadata={}, backend_config={"a":{"b":["}, x="]}}
  %d = f32[2] negate(%c), backend_config="raw", frontend_attributes={m={n = 1 : i32}, s="{"}
  %g = f32[2] negate(%d), control-predecessors={%a, %b}, metadata={op_name="g"}
  %h = f32[2] broadcast(%g), metadata={op_name="h"}, dimensions={0}, unheard_of={a={1}}
  ROOT %i = f32[2] custom-call(%h), custom_call_target="t, metadata={", schedule=SCHEDULE_LATEST
}
"""


def test_attributes_without_meaning_are_kept_as_written() -> None:
    entry = parse_hlo(TAIL).entry
    assert {ins.name: ins.extras for ins in entry} == {
        "a": (("sharding", "{replicated}"), ("metadata", '{op_name="a"}')),
        "b": (
            (
                "metadata",
                r"""{op_name="jit(f)/vmap({'x'})/\"}, calls=%z\"" stack_frame_id=7}""",
            ),
        ),
        "c": (("metadata", "{}"), ("backend_config", '{"a":{"b":["}, x="]}}')),
        "d": (
            ("backend_config", '"raw"'),
            ("frontend_attributes", '{m={n = 1 : i32}, s="{"}'),
        ),
        "g": (("metadata", '{op_name="g"}'),),
        "h": (("unheard_of", "{a={1}}"), ("metadata", '{op_name="h"}')),
        "i": (),
    }


def test_attributes_with_meaning_are_found_among_the_others() -> None:
    entry = parse_hlo(TAIL).entry
    assert entry["c"].op == Fusion("kLoop")
    assert [c.name for c in entry["c"].calls] == ["f"]
    assert entry["g"].control_predecessors == (entry["a"], entry["b"])
    assert entry["h"].op == BroadcastInDim((0,))
    call = entry["i"].op
    assert isinstance(call, CustomCall)
    assert call.call_target_name == "t, metadata={"


@pytest.mark.parametrize(
    "literal",
    ["{...}", "{ { 1, -2 }, { nan(0x7f), -inf } }", "(1, -0)", "{ (1, 2), (3, 4) }", "0x1.8p3", ""],
)
def test_literals_stay_text(literal: str) -> None:
    entry = parse_hlo(f"HloModule m\nENTRY e {{\n  a = f32[2,2] constant({literal})\n}}").entry
    assert entry.root.op == Constant(HloLiteral(literal))


def test_a_literal_over_several_lines() -> None:
    entry = parse_hlo("e { a = f32[2,2] constant({\n {1,2},\n {3,4} })\n}").entry
    assert entry.root.op == Constant(HloLiteral("{\n {1,2},\n {3,4} }"))


def test_sugared_asynchronous_ops_wrap_the_op() -> None:
    text = """HloModule m
f { ROOT x = f32[2] parameter(0) }
ENTRY e {
  a = f32[2] parameter(0)
  s = ((f32[2]), f32[2], u32[]) call-start(a), to_apply=f, async_execution_thread="t"
  ROOT d = f32[2] call-done(s)
}"""
    entry = parse_hlo(text).entry
    start = entry["s"].op
    assert isinstance(start, AsyncStart)
    assert start.settings == (("async_execution_thread", '"t"'),)
    assert [c.name for c in entry["s"].calls] == ["f"]


def test_an_unknown_op_keeps_everything() -> None:
    text = """HloModule m
f { ROOT x = f32[2] parameter(0) }
ENTRY e {
  a = f32[2] parameter(0)
  ROOT z = f32[2] frobnicate-all(a, a), weight={1,2}, to_apply=%f, metadata={op_name="z"}
}"""
    root = parse_hlo(text).entry.root
    assert root.op == UnknownOp("frobnicate-all", (("weight", "{1,2}"), ("to_apply", "%f")))
    assert [o.name for o in root.operands] == ["a", "a"]
    assert [c.name for c in root.calls] == ["f"]
    assert root.extras == (("metadata", '{op_name="z"}'),)


def test_equal_texts_share_types_and_ops() -> None:
    entry = parse_hlo(
        "e {\n  a = f32[2]{0} parameter(0)\n  b = f32[2]{0} abs(a)\n  c = f32[2]{0} abs(b)\n}"
    ).entry
    assert entry["b"].type is entry["c"].type
    assert entry["b"].op is entry["c"].op


@pytest.mark.parametrize(
    ("name", "text", "at"),
    [
        ("a", "%a = f32[2] parameter(0)", (3, 3)),
        ("b", 'ROOT %b = f32[2] abs(%a), metadata={op_name="é"}', (4, 3)),
    ],
)
def test_spans_cover_the_instruction(name: str, text: str, at: tuple[int, int]) -> None:
    whole = (
        "HloModule m\nENTRY %e (a: f32[2]) -> f32[2] {\n  %a = f32[2] parameter(0)\n"
        '  ROOT %b = f32[2] abs(%a), metadata={op_name="é"}\n}\n'
    )
    for source in (whole, whole.replace("\n", "\r\n"), whole.replace("f32[2] ", "f32[2]  ")):
        span = parse_hlo(source).entry[name].span
        assert span is not None
        found = source[span.start : span.end].replace("f32[2]  ", "f32[2] ")
        assert (found, span.line_col) == (text, at)


def test_spans_of_computations_cover_header_and_braces() -> None:
    module = parse_hlo(HEADER)
    span = module.entry.span
    assert span is not None
    text = HEADER[span.start : span.end]
    assert text.startswith("ENTRY %e (a")
    assert text.endswith('}, execution_thread="host"')


BROKEN_BODY = """HloModule m
f {
  a = f32[] parameter(0)
  ROOT b = f32[] abs(x)
}
ENTRY e {
  a = f32[] parameter(0)
}
"""


def test_bodies_are_read_when_first_visited() -> None:
    module = parse_hlo(BROKEN_BODY)
    assert [c.is_read for c in module] == [False, False]
    assert module.entry.root.name == "a"
    assert [c.is_read for c in module] == [False, True]
    with pytest.raises(ParseError, match="operand `x` is not defined"):
        module.computations["f"].root  # noqa: B018
    with pytest.raises(ParseError, match="operand `x` is not defined"):
        parse_hlo(BROKEN_BODY, strict=True)


def test_strict_reads_all_bodies() -> None:
    module = parse_hlo(CASES["several computations called"][0], strict=True)
    assert all(c.is_read for c in module)


def test_threads_see_one_body() -> None:
    lines = "\n".join(f"  v{i + 1} = f32[] add(v{i}, v{i})" for i in range(2000))
    module = parse_hlo(f"HloModule m\nENTRY e {{\n  v0 = f32[] parameter(0)\n{lines}\n}}")
    roots = []
    threads = [threading.Thread(target=lambda: roots.append(module.entry.root)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(roots) == 8
    assert len(set(roots)) == 1


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        parse_hlo(BROKEN_BODY.replace("abs(x)", "abs(a)"), strict=True)
        assert gc.isenabled() is enabled
        with pytest.raises(ParseError):
            parse_hlo(BROKEN_BODY, strict=True)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_several_modules() -> None:
    text = """// a
HloModule m
ENTRY e { a = f32[] parameter(0) }
// -----
HloModule n, num_partitions=2
// -----
ENTRY f { b = f32[] parameter(0) }
"""
    modules = parse_hlo_all(text)
    assert [shown(m) for m in modules] == ["!e: *a=parameter():f32[]", "!f: *b=parameter():f32[]"]
    span = modules[1].entry.root.span
    assert span is not None
    assert span.line_col == (7, 11)


def test_several_instructions_between_lines() -> None:
    first, second = parse_hlo_all(
        "a = s32[] constant(1)\n// -----\nb = s32[] constant(2)\n// -----"
    )
    assert [first.entry.root.name, second.entry.root.name] == ["a", "b"]
    span = second.entry.root.span
    assert span is not None
    assert span.line_col == (3, 1)


def test_bytes_and_byte_order_mark() -> None:
    for data in (b"e { a = f32[] parameter(0) }", b"\xef\xbb\xbfe { a = f32[] parameter(0) }"):
        assert shown(parse_hlo(data)) == "!e: *a=parameter():f32[]"


# --------------------------------------------------------------------------------- large texts


@pytest.mark.slow
def test_a_chain_of_100_000_instructions() -> None:
    lines = "\n".join(f"  v{i + 1} = f32[] add(v{i}, v{i})" for i in range(100_000))
    module = parse_hlo(
        f"HloModule m\nENTRY e {{\n  v0 = f32[] parameter(0)\n{lines}\n}}", strict=True
    )
    assert len(module.entry) == 100_001
    assert module.entry.root.operands[0].name == "v99999"


def test_a_chain_in_one_line_takes_linear_time() -> None:
    words = " ".join(f"v{i + 1} = f32[] add(v{i}, v{i})" for i in range(10_000))
    module = parse_hlo(f"e {{ v0 = f32[] parameter(0) {words} }}", strict=True)
    assert len(module.entry) == 10_001


def test_deeply_nested_tuples() -> None:
    nested = "(" * MOST_NESTING + "f32[]" + ")" * MOST_NESTING
    entry = parse_hlo(f"HloModule m\nENTRY e {{\n  a = {nested} parameter(0)\n}}").entry
    assert print_type(entry.root.type) == nested


def test_a_long_chain_of_calls_with_types_left_out() -> None:
    calls = "\n".join(
        f"c{i} {{ p = f32[2] parameter(0) ROOT r = call(p), to_apply=c{i - 1} }}"
        for i in range(1, 3000)
    )
    text = f"HloModule m\nc0 {{ p = f32[2] parameter(0) ROOT r = abs(p) }}\n{calls}"
    assert print_type(parse_hlo(text).entry.root.type) == "f32[2]"
