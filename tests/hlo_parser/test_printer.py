"""Printing: XLA's styles, and nothing gets lost."""

from __future__ import annotations

import pytest

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import parse_hlo
from hloscope.hlo_parser.printer import (
    STYLES,
    Style,
    joined,
    print_hlo,
    print_instruction,
    rest_printer,
)
from hloscope.ir.graph import Body, Computation, Instruction, Module
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from hloscope.ops.control import Parameter
from hloscope.ops.elementwise import ELEMENTWISE
from tests.hlo_parser.compare import difference

TEXT = """\
HloModule m, entry_computation_layout={(f32[2]{0}, s32[])->f32[2]{0}}, frontend_attributes={a="b"}

FileNames
1 "a.py"


%c (p: (f32[2], s32[])) -> pred[] {
  %p = (f32[2]{0}, s32[]) parameter(0)
  ROOT %r.1 = pred[] constant(false)
}

%b (p.1: (f32[2], s32[])) -> (f32[2], s32[]) {
  ROOT %p.1 = (f32[2]{0}, s32[]) parameter(0)
}, execution_thread="host"

ENTRY %e (x: f32[2], i: s32[]) -> f32[2] {
  %k = f32[12]{0} constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
  %x = f32[2]{0} parameter(0), sharding={replicated}, origin={{"x"}}
  %i = s32[] parameter(1), strange_attribute={x}
  %t = (f32[2]{0}, s32[]) tuple(%x, %i)
  %w = (f32[2]{0}, s32[]) while(%t), condition=%c, body=%b, control-predecessors={%k}, \
metadata={op_name="foo"}, backend_config={"n":"5"}
  %six = (f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, /*index=5*/f32[2]{0}) \
tuple(%x, %x, %x, %x, %x, /*index=5*/%x), metadata={}
  ROOT %g = f32[2]{0} get-tuple-element(%w), index=0
}

"""


def test_xlas_long_form_is_a_fixpoint() -> None:
    assert print_hlo(parse_hlo(TEXT)) == TEXT


def test_short_form() -> None:
    assert (
        print_hlo(parse_hlo(TEXT), style="short")
        == """\
HloModule m, entry_computation_layout={(f32[2]{0}, s32[])->f32[2]{0}}, frontend_attributes={a="b"}

c {
  p = (f32[2]{0}, s32[]) parameter(0)
  ROOT r.1 = pred[] constant(false)
}

b {
  ROOT p.1 = (f32[2]{0}, s32[]) parameter(0)
}, execution_thread="host"

ENTRY e {
  k = f32[12]{0} constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
  x = f32[2]{0} parameter(0), sharding={replicated}, origin={{"x"}}
  i = s32[] parameter(1), strange_attribute={x}
  t = (f32[2]{0}, s32[]) tuple(x, i)
  w = (f32[2]{0}, s32[]) while(t), condition=c, body=b, backend_config={"n":"5"}
  six = (f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, /*index=5*/f32[2]{0}) \
tuple(x, x, x, x, x, x)
  ROOT g = f32[2]{0} get-tuple-element(w), index=0
}

"""
    )


def test_canonical_form_renumbers_and_inlines() -> None:
    printed = print_hlo(parse_hlo(TEXT), style="canonical")
    assert (
        printed.partition("ENTRY ")[2]
        == """\
e {
  tmp_0 = f32[12]{0} constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
  tmp_1 = f32[2]{0} parameter(0), sharding={replicated}, origin={{"x"}}
  tmp_2 = s32[] parameter(1), strange_attribute={x}
  tmp_3 = (f32[2]{0}, s32[]) tuple(f32[2]{0} tmp_1, s32[] tmp_2)
  tmp_4 = (f32[2]{0}, s32[]) while((f32[2]{0}, s32[]) tmp_3), condition=
  {
    tmp_0 = (f32[2]{0}, s32[]) parameter(0)
    ROOT tmp_1 = pred[] constant(false)
  }, body=
  {
    ROOT tmp_0 = (f32[2]{0}, s32[]) parameter(0)
  }, execution_thread="host"
  tmp_5 = (f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, f32[2]{0}, /*index=5*/f32[2]{0}) \
tuple(f32[2]{0} tmp_1, f32[2]{0} tmp_1, f32[2]{0} tmp_1, f32[2]{0} tmp_1, f32[2]{0} tmp_1, \
f32[2]{0} tmp_1)
  ROOT tmp_6 = f32[2]{0} get-tuple-element((f32[2]{0}, s32[]) tmp_4), index=0
}

"""
    )


def test_without_metadata_nothing_else_is_lost() -> None:
    kept = TEXT.replace(', metadata={op_name="foo"}', "").replace(", metadata={}", "")
    assert print_hlo(parse_hlo(TEXT), metadata=False) == kept.replace(
        'FileNames\n1 "a.py"\n\n\n', ""
    )


@pytest.mark.parametrize(
    ("style", "line"),
    [
        (Style(), '%y = f32[2]{0} add(%x, %x), metadata={}, backend_config="b"'),
        (Style(percent=False), 'y = f32[2]{0} add(x, x), metadata={}, backend_config="b"'),
        (Style(layouts=False), '%y = f32[2] add(%x, %x), metadata={}, backend_config="b"'),
        (Style(metadata=False, backend_config=False), "%y = f32[2]{0} add(%x, %x)"),
        ("verbose",
         '%y = f32[2]{0} add(f32[2]{0} %x, f32[2]{0} %x), metadata={}, backend_config="b"'),
    ],
)  # fmt: skip
def test_each_option_changes_the_line(style: Style | str, line: str) -> None:
    module = parse_hlo(
        "HloModule m\nENTRY e {\n x = f32[2]{0} parameter(0)\n"
        ' ROOT y = f32[2]{0} add(x, x), metadata={}, backend_config="b"\n}\n'
    )
    assert print_instruction(module.entry.root, style=style) == line


@pytest.mark.parametrize(
    ("style", "texts"),
    [
        (Style(), ["0), sharding={replicated}", "{1, 2})", "", "k={1}, metadata={}", "), a=b"]),
        (Style(metadata=False), ["0), sharding={replicated}", "{1, 2})", "", "k={1}", "), a=b"]),
    ],
)
def test_what_follows_the_operands_is_printed_alone(style: Style, texts: list[str]) -> None:
    module = parse_hlo(
        "HloModule m\nENTRY e {\n x = f32[2] parameter(0), sharding={replicated}\n"
        " c = f32[2] constant({1, 2})\n a = f32[2] add(x, c)\n"
        " b = f32[2] add(a, c), metadata={}, k={1}\n ROOT t = () tuple(), a=b\n}\n"
    )
    rest = rest_printer(style)
    assert [rest(ins) for ins in module.entry] == texts


def test_large_constants_can_be_left_out() -> None:
    style = Style(large_constants=False)
    lines = print_hlo(parse_hlo(TEXT), style=style).splitlines()
    assert "  %k = f32[12]{0} constant({...})" in lines
    assert "  ROOT %r.1 = pred[] constant(false)" in lines


@pytest.mark.parametrize("style", STYLES)
def test_every_style_but_canonical_reads_back_as_the_same_graph(style: str) -> None:
    module = parse_hlo(TEXT)
    again = parse_hlo(print_hlo(module, style=style), strict=True)
    if style in ("default", "verbose"):
        assert difference(module, again) == ""
    elif style == "short":
        assert [i.name for c in again for i in c] == [i.name for c in module for i in c]
    assert [len(c) for c in again][-1] == len(module.entry)


def test_ops_that_hlo_lacks_are_refused() -> None:
    f32 = TensorType(ELEMENT_TYPES["f32"], ())
    x = Instruction("x", f32, Parameter(0))
    y = Instruction("y", f32, ELEMENTWISE["chlo.digamma"](), (x,))
    entry = Computation("e", Body((x, y), (x,), y))
    with pytest.raises(UnsupportedError, match=r"no op `chlo.digamma`"):
        print_hlo(Module("m", {"e": entry}, entry))


def test_unknown_styles_are_refused() -> None:
    with pytest.raises(ValueError, match="no style `pretty`; there are default"):
        print_hlo(parse_hlo(TEXT), style="pretty")


def test_every_fifth_item_is_numbered() -> None:
    assert joined(list("abcde")) == "a, b, c, d, e"
    assert joined(list("abcdefghijk")).count("/*index=") == 2
    assert joined(list("abcdefghijk")).endswith("j, /*index=10*/k")
