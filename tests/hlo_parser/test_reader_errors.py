"""Every error names the place: file, line, column, the line and a caret, found and expected."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from hloscope.errors import HloscopeError, ParseError
from hloscope.hlo_parser import parse_hlo, parse_hlo_all
from tests.hlo_parser.compare import corpus

HEAD = "HloModule m\nENTRY e {\n  a = f32[2] parameter(0)\n"

CASES = {
    # ---------------------------------------------------------------------------- operands
    "undefined operand": (
        HEAD + "  ROOT b = f32[2] abs(x)\n}",
        "4:23: error: operand `x` is not defined\n"
        "  ROOT b = f32[2] abs(x)\n"
        "                      ^",
    ),
    "undefined operand with a near name": (
        HEAD + "  sum.12 = f32[2] add(a, a)\n  ROOT b = f32[2] add(a, %sum.2)\n}",
        "5:26: error: operand `sum.2` is not defined; did you mean `sum.12`?\n"
        "  ROOT b = f32[2] add(a, %sum.2)\n"
        "                         ^^^^^^",
    ),
    "caret after tabs": (
        HEAD + "\tROOT b = f32[2]\tabs(x)\n}",
        "4:22: error: operand `x` is not defined\n"
        "\tROOT b = f32[2]\tabs(x)\n"
        "\t               \t    ^",
    ),
    "use before definition": (
        HEAD + "  b = f32[2] abs(c)\n  c = f32[2] abs(a)\n}",
        "4:18: error: operand `c` is defined below, in line 5: definitions come before uses\n"
        "  b = f32[2] abs(c)\n"
        "                 ^",
    ),
    "a cycle of one": (
        HEAD + "  b = f32[2] add(a, b)\n}",
        "4:21: error: `b` uses itself as an operand\n  b = f32[2] add(a, b)\n                    ^",
    ),
    "operand of another computation": (
        "HloModule m\nf {\n  x = f32[] parameter(0)\n}\nENTRY e {\n  ROOT y = f32[] abs(x)\n}",
        "6:22: error: operand `x` is not defined\n  ROOT y = f32[] abs(x)\n                     ^",
    ),
    "operand type": (
        HEAD + "  ROOT b = f32[2] abs(f32[3]{0} a)\n}",
        "4:23: error: operand `a` has type f32[2], not f32[3]{0}\n"
        "  ROOT b = f32[2] abs(f32[3]{0} a)\n"
        "                      ^^^^^^^^^",
    ),
    "no comma between operands": (
        HEAD + "  b = f32[2] add(a a)\n}",
        "4:20: error: expected `,` or `)`, found `a`\n  b = f32[2] add(a a)\n                   ^",
    ),
    "operand without name": (
        HEAD + "  b = f32[2] add(a, f32[2] =)\n}",
        "4:28: error: expected the name of an operand, found `=`\n"
        "  b = f32[2] add(a, f32[2] =)\n"
        "                           ^",
    ),
    "operand of a single instruction": (
        "b = f32[2] abs(a)",
        "1:16: error: operand `a` is not defined: in a part of a computation, add the line that "
        "defines it or write its type before it, as in `f32[2,3] %a`\n"
        "b = f32[2] abs(a)\n"
        "               ^",
    ),
    "control predecessor": (
        HEAD + "  b = f32[2] abs(a), control-predecessors={%c}\n}",
        "4:45: error: control predecessor `c` is not defined\n"
        "  b = f32[2] abs(a), control-predecessors={%c}\n"
        "                                            ^",
    ),
    # ------------------------------------------------------------------- opcodes, attributes
    "unknown opcode": (
        HEAD + "  b = f32[2] negat(a)\n}",
        "4:14: error: unknown opcode `negat`; did you mean `negate`?\n"
        "  b = f32[2] negat(a)\n"
        "             ^^^^^",
    ),
    "abbreviated opcode": (
        HEAD + "  b = f32[2] neg(a)\n}",
        "4:14: error: unknown opcode `neg`; did you mean `negate`?\n"
        "  b = f32[2] neg(a)\n"
        "             ^^^",
    ),
    "unknown attribute": (
        HEAD + "  b = f32[2,2] broadcast(a), dimension={0}\n}",
        "4:30: error: `broadcast` has no attribute `dimension`; did you mean `dimensions`?\n"
        "  b = f32[2,2] broadcast(a), dimension={0}\n"
        "                             ^^^^^^^^^",
    ),
    "attribute given twice": (
        HEAD + "  b = f32[2,2] broadcast(a), dimensions={0}, dimensions={1}\n}",
        "4:46: error: attribute `dimensions` is given twice\n"
        "  b = f32[2,2] broadcast(a), dimensions={0}, dimensions={1}\n"
        "                                             ^^^^^^^^^^",
    ),
    "attribute missing": (
        HEAD + "  b = f32[2] transpose(a)\n}",
        "4:14: error: `transpose` needs attribute `dimensions`\n"
        "  b = f32[2] transpose(a)\n"
        "             ^^^^^^^^^",
    ),
    "attribute after a comment": (
        HEAD + "  b = f32[2,2] broadcast(a), /* { */ dimensions={x}\n}",
        "4:49: error: expected a list of integers, found `{x}`\n"
        "  b = f32[2,2] broadcast(a), /* { */ dimensions={x}\n"
        "                                                ^^^",
    ),
    "comma at the end": (
        HEAD + "  b = f32[2,2] broadcast(a), dimensions={0},\n}",
        "5:1: error: expected `name=value` after the comma, found `}`\n}\n^",
    ),
    "no value": (
        HEAD + "  b = f32[2,2] broadcast(a), dimensions=, x=1\n}",
        "4:30: error: attribute `dimensions` has no value\n"
        "  b = f32[2,2] broadcast(a), dimensions=, x=1\n"
        "                             ^^^^^^^^^^^",
    ),
    "parameter number": (
        HEAD + "  b = f32[2] parameter(x)\n}",
        "4:24: error: expected a parameter number, found `x`\n"
        "  b = f32[2] parameter(x)\n"
        "                       ^",
    ),
    # ------------------------------------------------------------------------------- types
    "element type": (
        HEAD + "  b = f31[2] abs(a)\n}",
        "4:7: error: unknown element type `f31`; did you mean `f32`?\n"
        "  b = f31[2] abs(a)\n"
        "      ^^^",
    ),
    "size": (
        HEAD + "  b = f32[2,x] abs(a)\n}",
        "4:13: error: expected a size, found `x`\n  b = f32[2,x] abs(a)\n            ^",
    ),
    "type that does not follow": (
        HEAD + "  b = parameter(1)\n}",
        "4:7: error: the type of `parameter` does not follow from its operands: write it before "
        "the op\n"
        "  b = parameter(1)\n"
        "      ^^^^^^^^^",
    ),
    "type of the computation": (
        "HloModule m\nENTRY e (a: f32[2]) -> f32[3] {\n  a = f32[2] parameter(0)\n}",
        "2:24: error: `e` returns f32[3], but its root `a` has type f32[2]\n"
        "ENTRY e (a: f32[2]) -> f32[3] {\n"
        "                       ^^^^^^",
    ),
    # ---------------------------------------------------------------------- whole instructions
    "duplicate name": (
        HEAD + "  a = f32[2] abs(a)\n}",
        "4:3: error: `a` is already defined in line 3\n  a = f32[2] abs(a)\n  ^",
    ),
    "second root": (
        HEAD + "  ROOT b = f32[2] abs(a)\n  ROOT c = f32[2] abs(a)\n}",
        "5:3: error: second ROOT: `b` in line 4 is the root already\n"
        "  ROOT c = f32[2] abs(a)\n"
        "  ^^^^",
    ),
    "no equals sign": (
        HEAD + "  b f32[2] abs(a)\n}",
        "4:5: error: expected `=` after the name of the instruction, found `f32`\n"
        "  b f32[2] abs(a)\n"
        "    ^",
    ),
    "no opcode": (
        HEAD + "  b = f32[2] (a)\n}",
        "4:14: error: expected an opcode, found `(`\n  b = f32[2] (a)\n             ^",
    ),
    "no operand list": (
        HEAD + "  b = f32[2] abs a\n}",
        "4:14: error: expected a type such as `f32[2,3]`, found `abs`\n"
        "  b = f32[2] abs a\n"
        "             ^^^",
    ),
    "something else": (
        HEAD + "  ;\n}",
        "4:3: error: expected an instruction, found `;`\n  ;\n  ^",
    ),
    # --------------------------------------------------------------------------- computations
    "parameter numbers with a gap": (
        "e {\n  a = f32[] parameter(0)\n  b = f32[] parameter(2)\n}",
        "3:3: error: computation `e` has a parameter number 2, but no number 1\n"
        "  b = f32[] parameter(2)\n"
        "  ^^^^^^^^^^^^^^^^^^^^^^",
    ),
    "parameter number given twice": (
        "e {\n  a = f32[] parameter(0)\n  b = f32[] parameter(0)\n}",
        "3:3: error: parameter number 0 is given twice, first to `a` in line 2\n"
        "  b = f32[] parameter(0)\n"
        "  ^^^^^^^^^^^^^^^^^^^^^^",
    ),
    "no instructions": (
        "HloModule m\nENTRY e {\n}",
        "2:1: error: computation `e` has no instructions\nENTRY e {\n^^^^^^^^^",
    ),
    "unknown computation": (
        "HloModule m\nadd.1 {\n  a = f32[] parameter(0)\n}\nENTRY e {\n  x = f32[] parameter(0)\n"
        "  y = f32[] call(x), to_apply=%add.2\n}",
        "7:32: error: there is no computation `add.2`; did you mean `add.1`?\n"
        "  y = f32[] call(x), to_apply=%add.2\n"
        "                               ^^^^^",
    ),
    "recursion": (
        "e {\n  a = f32[] parameter(0)\n  b = f32[] call(a), to_apply=e\n}",
        "3:31: error: computation `e` cannot be called from here: it is this computation or one "
        "further down, and computations come before their callers\n"
        "  b = f32[] call(a), to_apply=e\n"
        "                              ^",
    ),
    "recursion of two": (
        "f {\n  a = f32[] parameter(0)\n  b = f32[] call(a), to_apply=e\n}\n"
        "e {\n  a = f32[] parameter(0)\n  b = f32[] call(a), to_apply=f\n}",
        "3:31: error: computation `e` cannot be called from here: it is this computation or one "
        "further down, and computations come before their callers\n"
        "  b = f32[] call(a), to_apply=e\n"
        "                              ^",
    ),
    "duplicate computation": (
        "e { a = f32[] parameter(0) }\nENTRY e { a = f32[] parameter(0) }",
        "2:1: error: computation `e` is already defined in line 1\n"
        "ENTRY e { a = f32[] parameter(0) }\n"
        "^^^^^^^^^",
    ),
    "second entry": (
        "ENTRY e { a = f32[] parameter(0) }\nENTRY f { a = f32[] parameter(0) }",
        "2:1: error: second ENTRY: `e` in line 1 is the entry already\n"
        "ENTRY f { a = f32[] parameter(0) }\n"
        "^^^^^^^^^",
    ),
    "entry without name": (
        "HloModule m\nENTRY { a = f32[] parameter(0) }",
        "2:1: error: expected the name of the computation after `ENTRY`\n"
        "ENTRY { a = f32[] parameter(0) }\n"
        "^^^^^",
    ),
    "no arrow": (
        "e (a: f32[]) f32[] { a = f32[] parameter(0) }",
        "1:14: error: expected `{` to open the body of `e`, found `f32`\n"
        "e (a: f32[]) f32[] { a = f32[] parameter(0) }\n"
        "             ^",
    ),
    # --------------------------------------------------------------------------------- module
    "module without name": (
        "HloModule\nENTRY e { a = f32[] parameter(0) }",
        "1:1: error: expected the name of the module after `HloModule`\nHloModule\n^^^^^^^^^",
    ),
    "module without computations": (
        "HloModule m, x=1\n",
        "1:1: error: module `m` has no computations\nHloModule m, x=1\n^^^^^^^^^^^",
    ),
    "a second module": (
        "HloModule m\ne { a = f32[] parameter(0) }\nHloModule n",
        "3:1: error: a second module begins here; `parse_hlo_all` reads texts of several modules\n"
        "HloModule n\n"
        "^^^^^^^^^",
    ),
    "text after the module": (
        "HloModule m\ne { a = f32[] parameter(0) }\nfoo bar",
        "3:5: error: expected `{` or `(` after the name of the computation, found `bar`\n"
        "foo bar\n"
        "    ^",
    ),
    "instruction outside": (
        "HloModule m\ne { a = f32[] parameter(0) }\nb = f32[] abs(a)\n",
        "3:1: error: this instruction is outside of any computation\n"
        "b = f32[] abs(a)\n"
        "^^^^^^^^^^^^^^^^",
    ),
    "a brace too many": (
        "HloModule m\ne { a = f32[] parameter(0) }\n}\n",
        "3:1: error: `}` closes nothing\n}\n^",
    ),
    "text after instructions": (
        "a = f32[] constant(1)\nb = f32[] constant(1)\nand more",
        "3:1: error: expected the end of the text after the last instruction, found `and`; a "
        "module begins with `HloModule`\n"
        "and more\n"
        "^",
    ),
    # ----------------------------------------------------------------------------- truncation
    "truncated computation": (
        HEAD + "  b = f32[2] abs(a)\n",
        "2:9: error: `{` is never closed: the text ends in line 4; is it cut?\n"
        "ENTRY e {\n"
        "        ^",
    ),
    "truncated attribute": (
        HEAD + '  b = f32[2] abs(a), backend_config={"a": [1',
        "4:43: error: `[` is never closed: the text ends in line 4; is it cut?\n"
        '  b = f32[2] abs(a), backend_config={"a": [1\n'
        "                                          ^",
    ),
    "truncated string": (
        HEAD + '  b = f32[2] abs(a), metadata={op_name="x',
        "4:40: error: the string is not closed\n"
        '  b = f32[2] abs(a), metadata={op_name="x\n'
        "                                       ^",
    ),
    "bracket not closed in its line": (
        HEAD + "  b = f32[2,2] broadcast(a), dimensions={0\n  c = f32[2,2] abs(b)\n}",
        "4:41: error: `{` is never closed\n"
        "  b = f32[2,2] broadcast(a), dimensions={0\n"
        "                                        ^",
    ),
    "wrong bracket": (
        HEAD + "  b = f32[2] add(a, a}\n}",
        "4:22: error: expected `)` to close the `(` opened in line 4, found `}`\n"
        "  b = f32[2] add(a, a}\n"
        "                     ^",
    ),
    # ------------------------------------------------------------------------- something else
    "HTML": (
        "<!DOCTYPE html>\n<html>",
        "1:1: error: this is HTML or XML, not HLO text\n<!DOCTYPE html>\n^^^^^^^^^^^^^^^",
    ),
    "StableHLO": (
        "module @jit_f {\n",
        "1:1: error: this is MLIR (StableHLO), not HLO text\nmodule @jit_f {\n^^^^^^^^^^^^^^^",
    ),
    "JSON": ('{"a": 1}', '1:1: error: this is JSON, not HLO text\n{"a": 1}\n^^^^^^^^'),
    "a notebook": (
        '{"cells": []}',
        '1:1: error: this is a notebook, not HLO text\n{"cells": []}\n^^^^^^^^^^^^^',
    ),
    "protobuf text": (
        'name: "m"\n',
        "1:1: error: this is an HloModuleProto in protobuf's text format, not HLO text\n"
        'name: "m"\n'
        "^^^^^^^^^",
    ),
    "character 0": (
        "HloModule \0",
        "1:11: error: this looks like a binary file: character 0 at offset 10\n"
        "HloModule \\x00\n"
        "          ^^^^",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_errors_show_the_place(text: str, expected: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_hlo(text, name="m.hlo", strict=True)
    assert str(error.value) == f"m.hlo:{expected}"


@pytest.mark.parametrize("name", CASES)
def test_errors_of_lazy_bodies_are_the_same(name: str) -> None:
    text, expected = CASES[name]
    with pytest.raises(ParseError) as error:
        print([computation.root for computation in parse_hlo(text, name="m.hlo")])
    assert str(error.value) == f"m.hlo:{expected}"


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
@pytest.mark.parametrize("before", ["", "  b = f32[2] negate(a)\n"])
def test_errors_of_metadata_show_the_place_when_it_is_read(before: str, end: str) -> None:
    line = '  ROOT c = f32[2] abs(a), metadata={op_name="x}'
    root = parse_hlo(f"{HEAD}{before}{line}{end}}}\n").entry.root
    for _ in range(2):
        with pytest.raises(ParseError) as caught:
            _ = root.extras
        column = line.index('"') + 1
        place = f"{4 + bool(before)}:{column}"
        assert f":{place}: error: string is not closed\n{line}" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "m: the text is empty; expected `HloModule`"),
        (" \n", "m: the text is empty; expected `HloModule`"),
        ("// x\n", "m: the text is nothing but comments; expected `HloModule`"),
        (b"\n\x05jit_f\x12\x04main", "m: this looks like an HLO proto in binary form; "),
        (b"ML\xefR\x0d", "m: this is MLIR bytecode; read it as StableHLO"),
        (b"\x1f\x8b\x08", "m: this is gzip-compressed; `hloscope.read` reads it"),
        (b"\xff\xfeH\0", "m: this is UTF-16 text; HLO text is UTF-8"),
        (b"HloModule m\n// caf\xe9\n", "m: not UTF-8: byte 0xe9 at offset 18, line 2 "),
    ],
)
def test_other_files_are_recognised(data: str | bytes, message: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_hlo(data, name="m")
    assert error.value.message.startswith(message)


def test_errors_of_later_modules_have_lines_of_the_file() -> None:
    text = "a = s32[] constant(1)\n// -----\nb = s32[] constan(2)"
    with pytest.raises(ParseError) as error:
        parse_hlo_all(text, name="m")
    assert str(error.value).startswith("m:3:11: error: unknown opcode `constan`")


MARKED = [
    ("custom-call(a), custom_call_target=<abc>", "expected a string, found `abc`"),
    ("broadcast(a), dimensions=<{x}>", "expected a list of integers, found `{x}`"),
    ("broadcast(a), dimensions={0}, sharding={replicated}, dimensions={1}", "given twice"),
    ("concatenate(a), dimensions=<{0,1}>", "expected one dimension, found 2"),
    ("concatenate(a), dimensions=<{}>", "expected one dimension, found 0"),
    ("get-tuple-element(a), index=<x>", "expected an integer, found `x`"),
    ("batch-norm-training(a, a, a), epsilon=<x>, feature_index=0", "expected a number, found `x`"),
    ("call(a), to_apply=e, is_composite=<yes>", "expected `true` or `false`, found `yes`"),
    ("compare(a, a), direction=<XX>", "expected one of EQ, NE, GE, GT, LE, LT, found `XX`"),
    ("rng(a, a), distribution=<x>", "expected one of rng_uniform, rng_normal, found `x`"),
    ("slice(a), slice={[0:1], <[0]>}", "expected `[start:limit:stride]`, found `[0]`"),
    ("pad(a, a), padding=<1_2x3>", "expected `low_high` or `low_high_interior`, found `3`"),
    ("pad(a, a), padding=<1_2_3_4>", "found `1_2_3_4`"),
    ("collective-permute(a), source_target_pairs={{0,1},<{2}>}", "expected a pair, found `{2}`"),
    (
        "convolution(a, a), dim_labels=b0f_0io->b0f, window=<{size=x}>",
        "window field is not a list of integers",
    ),
    (
        "convolution(a, a), dim_labels=b0f_0io->b0f, window={size=2 <w>hat=3}",
        "unknown window field `what`",
    ),
    (
        "convolution(a, a), dim_labels=b0f_0io->b0f, window={size=2 <s>ize=3}",
        "window field `size` occurs twice",
    ),
    (
        "convolution(a, a), dim_labels=b0f_0io->b0f, window=<{size=2x2 stride=3}>",
        "has 1 entries, `size` has 2",
    ),
    (
        "convolution(a, a), dim_labels=b0f_0io->b0f, window=<{size=2 rhs_reversal=0x1}>",
        "has 2 entries, `size` has 1",
    ),
    ("convolution(a, a), dim_labels=<bf>", "expected `input_kernel->output`, found `bf`"),
    ("convolution(a, a), dim_labels=bf_<i0>->bf", "expected `i`, `o` and each spatial digit"),
    ("convolution(a, a), dim_labels=<b1f>_0io->b0f", "expected `b`, `f` and each spatial digit"),
    ("convolution(a, a), dim_labels=<b0f_io->b0f>", "differ in their spatial dimensions"),
    ("dot(a, a), operand_precision=<{low}>", "found `low`"),
]
"""Instructions, with the part that is marked in angle brackets, and what the error says."""


def test_values_of_attributes_are_refused_where_they_are() -> None:
    for line, message in MARKED:
        marked = re.search(r"(?<!-)<(.*?[^-])>", line)
        text = line if marked is None else line.replace(marked[0], marked[1])
        with pytest.raises(ParseError) as caught:
            parse_hlo(f"{HEAD}  b = f32[2] {text}\n}}", strict=True)
        said, _, carets = str(caught.value).splitlines()
        assert message in said, line
        if marked is not None:
            assert carets.index("^") == len("  b = f32[2] ") + marked.start(), said
            assert carets.count("^") == len(marked[1]), said


def test_nesting_is_limited() -> None:
    operands = "abs(" * 200 + "a" + ")" * 200
    with pytest.raises(ParseError, match="nested too deeply"):
        parse_hlo(HEAD + f"  b = f32[2] {operands}\n}}", strict=True)
    inline = "abs(p)"
    for _ in range(100):
        inline = f"call(p), to_apply={{ p = f32[] parameter(0) ROOT r = f32[] {inline} }}"
    with pytest.raises(ParseError, match="nested too deeply"):
        parse_hlo(f"e {{ p = f32[] parameter(0) ROOT r = f32[] {inline} }}", strict=True)


@pytest.mark.parametrize(
    "text",
    [
        "HloModule m\nENTRY e " + "{" * 50_000,
        "HloModule m\nENTRY e {" + '"\\' * 50_000,
        "HloModule m\nENTRY e {" + "/*" * 50_000,
        "a = " * 50_000,
        "a" * 500_000,
        " " * 500_000,
        "HloModule m, " + "a=" * 50_000,
        "e {\n" + "  a = f32[\n" * 20_000,
        "e {\n" + "  a = f32[](((((\n" * 20_000 + "}",
        "HloModule m\nFileNames\n" + '1 "x"\n' * 50_000 + "x",
    ],
    ids=lambda text: text[:30].replace("\n", " "),
)
def test_garbage_is_refused_quickly(text: str) -> None:
    with pytest.raises(ParseError):
        parse_hlo(text, strict=True)


_ODD = "{}()[]\",%=/*\n :;abc019-\\'<>?"


def _damaged(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not text:
            break
        at = rng.randrange(len(text))
        end = min(len(text), at + rng.randrange(1, 40))
        text = rng.choice(
            (
                text[:at],
                text[:at] + rng.choice(_ODD) + text[at + 1 :],
                text[:at] + text[end:],
                text[:at] + rng.choice(_ODD) + text[at:],
                text[:end] + text[at:],
            )
        )
    return text


def test_damaged_texts_are_read_or_refused(shared: Path, full: bool) -> None:
    rng = random.Random(7)
    texts = [text for _, text in corpus(shared) if len(text) < 30_000]
    read, refused = 0, []
    for _ in range(20_000 if full else 1_000):
        text = _damaged(rng.choice(texts), rng)
        try:
            module = parse_hlo(text, strict=True)
            for computation in module:
                for ins in computation:
                    assert ins.span is not None
                    assert ins.extras is not None
            read += 1
        except HloscopeError as error:
            refused.append(str(error))
    assert read > 50
    assert len(refused) > 50
    assert all(refused)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ENTRY e { a = f32[" + "7" * 5000 + "] parameter(0) }", "a number of 5,000 digits"),
        ("ENTRY e { a = f32[] parameter(99999999999) }", "but no number 0"),
    ],
    ids=["size", "parameter"],
)
def test_huge_numbers_are_refused_at_once(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_hlo(text, strict=True)
