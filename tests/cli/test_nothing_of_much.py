"""Tensors without elements whose other sizes are large: an answer or a refusal, at once."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from hloscope.cli.app import app

BODIES = """
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }
less { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = pred[] compare(x, y), direction=LT }
"""
ROOTS = """
f32[{n},{n},0] negate(p)
f32[{n},{n},0] iota(), iota_dimension=0
f32[0,{n},{n}] transpose(p), dimensions={{2,1,0}}
f32[{n},0] reduce(p, z), dimensions={{0}}, to_apply=add
f32[1,2,0] slice(p), slice={{[0:1],[0:2],[0:0]}}
f32[1,2,0] dynamic-slice(p, i, i, i), dynamic_slice_sizes={{1,2,0}}
f32[0] reshape(p)
f32[{n},{n},1] pad(p, z), padding=0_0x0_0x0_1
f32[{n},{n},0] reduce-window(p, z), window={{size=1x1x3 pad=0_0x0_0x2_0}}, to_apply=add
f32[{n},{n},0] sort(p), dimensions={{2}}, to_apply=less
(f32[{n},{n},0], s32[{n},{n},0]) topk(p), k=0, largest=true
(f32[{n},{n},0], f32[]) tuple(p, z)
""".strip().splitlines()
COMMANDS = """
run - --random 1
opt - --fold
index - --verify --by-execution
index - --from-operand 0 --verify
index - --at 0,0,0
""".strip().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("bits", [20, 29, 30])
@pytest.mark.parametrize("given", ["parameter(0)", "broadcast(z), dimensions={{}}"])
def test_every_command_answers(bits: int, given: str) -> None:
    n = 1 << bits
    for root in ROOTS:
        text = f"""{BODIES} ENTRY e {{
            z = f32[] constant(0)
            i = s32[] constant(0)
            p = f32[{n},{n},0] {given.format()}
            ROOT r = {root.format(n=n)}
        }}"""
        for command in COMMANDS:
            done = CliRunner().invoke(app, command.split(), input=text)
            assert done.exit_code in (0, 1, 2, 4), (root, command, done.output)


@pytest.mark.parametrize("n", [3, 1 << 29])
def test_literals_of_nothing_are_read_where_all_that_is_written_fits(n: int) -> None:
    constants = [f"f32[0,{n},{n}] constant({{}})", f"f32[2,0,{n},7] constant({{ {{}}, {{}} }})"]
    for constant in constants:
        text = f"ENTRY e {{ ROOT c = {constant} }}"
        assert CliRunner().invoke(app, ["verify", "-"], input=text).exit_code == 0
    text = f"ENTRY e {{ ROOT c = f32[{n + 1},{n},0] constant({{}}) }}"
    done = CliRunner().invoke(app, ["verify", "-"], input=text)
    assert done.exit_code == 3
    assert f"expected {n + 1} entries, found 0" in done.output


@pytest.mark.slow(keep=60)
@pytest.mark.parametrize("element", "i7 i3 si5 ui3 i12 i65 tf32 f80 index complex<f32>".split())
@pytest.mark.parametrize("value", ["1", "1.0", "[1, 2]", '"0x0102"', ""])
@pytest.mark.parametrize("sizes", ["2", "0", "4294967296x4294967296x0", "4294967296x4294967296"])
def test_arguments_of_any_element_type_are_arrays_or_refused(
    element: str, value: str, sizes: str
) -> None:
    text = "func.func @main(%a: tensor<2xi8>) -> tensor<2xi8> { return %a : tensor<2xi8> }"
    given = f"[dense<{value}> : tensor<{sizes}x{element}>]"
    done = CliRunner().invoke(app, ["run", "-", "--args", given], input=text)
    assert done.exit_code == 2, done.output


NO_FUNCTION = ["module {}", "module @m {\n}", "// nothing\nmodule {}"]


@pytest.mark.parametrize("text", NO_FUNCTION)
@pytest.mark.parametrize("command", ["ls", "ls --tree", "ls --all --tsv", "index", "index --all"])
def test_a_module_without_functions_lists_nothing(command: str, text: str) -> None:
    name, *options = command.split()
    done = CliRunner().invoke(app, [name, "-", *options], input=text)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no function in -\n")


@pytest.mark.parametrize("command", ["ls - main", "index - f", "ls - --like x", "run -", "tile -"])
def test_what_needs_a_function_says_that_there_is_none(command: str) -> None:
    done = CliRunner().invoke(app, command.split(), input="module {}")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "the module has no function" in done.stderr


def test_nothing_listed_is_an_empty_list_in_json() -> None:
    for options, names in ((["--json"], "instructions"), (["--json", "--tree"], "computations")):
        done = CliRunner().invoke(app, ["ls", "-", *options], input="module {}")
        assert done.exit_code == 0
        assert json.loads(done.stdout)[names] == []
