"""The schemas describe what is printed: all of it, and nothing that is not said."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from hloscope.api import schema, schema_names
from hloscope.cli.app import COMMANDS, app

jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema (the extra `dev`)")

ROOT = Path(__file__).parents[2]
MAP: Final = "(d0)[s0] -> (d0 * 8 / 4 + s0), domain: d0 in [0, 9], s0 in [0, 3]"
RULES: Final = (
    "--rule copies --rule collectives --rule utilisation --rule types:absent=f32"
    " --rule constants:max-bytes=0 --rule fused:op-name=* --rule donation --rule dynamic-sizes"
)
OF_PROGRAMS: Final = (
    "ls FILE --json",
    "ls FILE --tree --json",
    "ls FILE --all --sort bytes --json",
    "verify FILE --json",
    "infer FILE --json",
    "index FILE --all",
    "index FILE --from-operand 0 --json",
    "index FILE * --physical --json",
    "show FILE * --around 1 --json",
    "cost FILE --json",
    "memory FILE --json",
    "footprint FILE --json",
    "coalesce FILE --json",
    "cancel FILE --json",
    "tile FILE --json",
    "tile FILE --space --json",
    "tile FILE --sizes 2,2 --json",
    "equal FILE examples/softmax.hlo --json",
    "diff FILE examples/softmax.hlo --json",
    f"check FILE {RULES} --json",
)
"""Asked of every program."""
OTHERS: Final = (
    "ls examples --json",
    "index examples/softmax.hlo --verify --by-execution --json",
    "index examples/kv_cache.hlo embed_fusion --at 0,0 --json",
    "index examples/transpose.hlo bitcast_fusion --from-operand 0 --at 0,0,0 --json",
    "show examples/layer.mlir main --json",
    "footprint examples/training_step.hlo *fusion* --json",
    "memory examples/softmax.hlo examples/softmax.hlo --json",
    "coalesce examples/training_step.hlo *fusion* --json",
    "coalesce examples/training_step.hlo residual_fusion --xla --json",
    "coalesce examples/training_step.hlo weights_fusion --tile 32,32 --json",
    "cancel examples/attention_block.hlo * --json",
    "cancel examples/softmax.hlo examples/softmax.hlo --json",
    "tile examples/softmax.hlo --search --json",
    "tile examples/softmax.hlo --sizes 2,2,2 --json",
    "run examples/layer.mlir --random 1 --json",
    "run examples/kv_cache.hlo --random 1 --json",
    "run examples/layer.mlir --random 1 --compare examples/layer.mlir --json",
    "refine examples/symbolic.mlir --explain --json",
    "refine examples/symbolic.mlir --dims b=4,s=3 --json",
    "refine examples/symbolic.mlir --maps * --json",
    f"simplify '{MAP}' --json",
    f"compose '{MAP}' '(d0) -> (d0 mod 3), domain: d0 in [0, 99]' --json",
    f"equal '{MAP}' '(d0)[s0] -> (d0 + s0), domain: d0 in [0, 9], s0 in [0, 3]' --json",
    "banks '(th_x) -> (th_x / 32, th_x mod 32), domain: th_x in [0, 127]' --shape 4,32 --json",
    "ptx examples/saxpy.ptx --grid 2 --block 128 --args 'n=200 a=2.0 x=f32[200] y=f32[200]' --json",
    "coalesce tests/memory/ptx/dumps#module_0023.jit_tr_021 input_transpose_fusion --from-ptx"
    " --json",
    "ops --json",
    "help --json",
)
WITH_A_SCHEMA: Final = {
    schema(name)["description"].removeprefix("`hloscope ").split()[0] for name in schema_names()
}
OTHER_INPUTS: Final = {"doctor", "query", "scan"}
"""Commands that do not read programs; tests of their own compare their output with the schemas."""
OF_EVERY_PROGRAM: Final = (
    *OF_PROGRAMS,
    *[
        f"{name} FILE --json"
        for name in sorted(WITH_A_SCHEMA - OTHER_INPUTS)
        if not any(line.startswith(f"{name} ") for line in (*OF_PROGRAMS, *OTHERS))
    ],
)
"""`OF_PROGRAMS`, and `FILE --json` for each command with a schema that no other line here tries."""
PROGRAMS: Final = sorted([*(ROOT / "examples").glob("*.hlo"), *(ROOT / "examples").glob("*.mlir")])


def closed(part: Any) -> Any:
    """The schema, which then allows no keys but those that it names."""
    if isinstance(part, list):
        return [closed(one) for one in part]
    if not isinstance(part, dict):
        return part
    said = {key: closed(one) for key, one in part.items()}
    return {"additionalProperties": False, **said} if "properties" in said else said


VALIDATORS: Final = {
    name: jsonschema.Draft202012Validator(closed(schema(name))) for name in schema_names()
}


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def objects(text: str) -> Iterator[dict[str, Any]]:
    """The objects of a text, one after the other."""
    decoder, at = json.JSONDecoder(parse_constant=refuse_constant), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        found, at = decoder.raw_decode(text, at)
        yield found


def assert_described(command: str, file: Path | None = None) -> int:
    """Run a command; how many objects it prints, each as its schema says."""
    words = [str(file) if word == "FILE" else word for word in shlex.split(command)]
    done = CliRunner().invoke(app, words, prog_name="hloscope")
    assert done.exit_code != 5, f"{words}: {done.output[-400:]}"
    count = 0
    for found in objects(done.stdout):
        name = re.fullmatch(r"hloscope\.(\w+)/\d+", found["schema"])
        assert name is not None
        wrong = jsonschema.exceptions.best_match(VALIDATORS[name[1]].iter_errors(found))
        assert wrong is None, f"{words}: {wrong.json_path}: {wrong.message[:300]}"
        count += 1
    return count


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.slow(keep=10)
@pytest.mark.parametrize("name", schema_names())
def test_a_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))
    command = re.match(r"`hloscope (\w+)", schema(name)["description"])
    assert command is not None
    assert command[1] in COMMANDS


def test_every_schema_that_the_code_names_is_there() -> None:
    named = set()
    for path in sorted((ROOT / "hloscope").rglob("*.py")):
        named |= set(re.findall(r'= "(hloscope\.\w+/\d+)"', path.read_text()))
    there = {schema(name)["title"] for name in schema_names()}
    assert named == there, "`hloscope.NAME/1` in the code needs hloscope/api/schemas/NAME.json"


@pytest.mark.slow(keep=6)
@pytest.mark.parametrize("command", OF_EVERY_PROGRAM)
def test_what_is_said_of_the_examples_is_described(command: str) -> None:
    count = sum(assert_described(command, path.relative_to(ROOT)) for path in PROGRAMS)
    assert count, "a command with other arguments than FILE needs a line in OTHERS"


@pytest.mark.parametrize("command", OTHERS)
def test_what_is_printed_is_described(command: str) -> None:
    assert assert_described(command)


def test_an_artifact_as_doctor_sees_it_is_described(tmp_path: Path) -> None:
    artifact = tmp_path / "tan.bc"
    CliRunner().invoke(app, ["serialize", "examples/tan.mlir", "--output", str(artifact)])
    assert assert_described("doctor FILE --json", artifact)


def test_lines_that_are_no_maps_are_described() -> None:
    lines = "".join(json.dumps(line) + "\n" for line in ({"map": MAP}, {"map": "no"}, 7))
    done = CliRunner().invoke(app, ["simplify", "--lines"], input=lines)
    found = list(objects(done.stdout))
    assert len(found) == 3
    for one in found:
        VALIDATORS["map"].validate(one)


def test_a_wrong_program_is_described(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.hlo"
    wrong.write_text("ENTRY e { p = f32[4] parameter(0) ROOT n = f32[5] negate(p) }")
    for command in ("verify FILE --json", "infer FILE --json"):
        assert assert_described(command, wrong)


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("command", OF_EVERY_PROGRAM)
def test_what_is_said_of_conformance_programs_is_described(
    command: str, shared: Path, full: bool
) -> None:
    every = sorted(shared.glob("real/modules/**/*.hlo*")) + sorted(
        shared.glob("conformance/**/*.mlir")
    )
    assert every
    small = [path for path in every if path.stat().st_size < 20_000]
    for path in small[:: len(small) // (200 if full else 3)]:
        assert_described(command, path)


@pytest.mark.parametrize(
    ("change", "path"),
    [({"verdict": "perhaps"}, "$.verdict"), ({"compared": 3}, "$.compared"), ({"new": 1}, "$")],
)
def test_the_schemas_refuse_what_is_not_said(change: dict[str, Any], path: str) -> None:
    right = {"schema": "hloscope.equal/1", "verdict": "proved", "compared": []}
    assert VALIDATORS["equal"].is_valid(right)
    (wrong,) = VALIDATORS["equal"].iter_errors({**right, **change})
    assert wrong.json_path == path


def test_help_as_json_tells_every_command_and_which_print_json() -> None:
    told = json.loads(CliRunner().invoke(app, ["help", "--json"], prog_name="hloscope").stdout)
    assert [one["name"] for one in told["commands"]] == list(COMMANDS)
    for one in told["commands"]:
        names = {name for option in one["options"] for name in option["names"]}
        assert bool(one["schemas"]) == ("--json" in names), (
            f"{one['name']}: the description of its schema begins with `hloscope {one['name']}`"
        )
        assert all(option["help"] or option["names"] for option in one["options"])
    assert [one["code"] for one in told["exit_codes"]] == [0, 1, 2, 3, 4, 5, 130, 141]


def test_the_codes_of_the_page_are_those_of_the_code() -> None:
    told = json.loads(CliRunner().invoke(app, ["help", "--json"], prog_name="hloscope").stdout)
    page = (ROOT / "docs/command.md").read_text().replace("`", "")
    for one in told["exit_codes"]:
        code, meaning = one["code"], one["meaning"]
        assert re.search(rf"^\| {code} \| {re.escape(meaning)} \|$", page, re.MULTILINE)


def test_a_wrong_value_brings_the_help_of_its_option() -> None:
    done = CliRunner().invoke(app, ["ls", "examples/softmax.hlo", "--top", "0"])
    assert done.exit_code == 2
    assert "--top N  Only the first N." in done.output.splitlines()[-1]
