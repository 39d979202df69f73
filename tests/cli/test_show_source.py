"""`show`: where an instruction comes from, backend configs, globs; the same from `index`."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.test_ls_select import TABLES

CONFIG = '{"queue":"0","kernel":{"kind":"__triton","sizes":["1","4","1600"],"more":"' + "x" * 90
CUSTOM = (
    "ENTRY e { p = f32[2] parameter(0)\n  ROOT c = f32[2] custom-call(p), "
    f'custom_call_target="f", backend_config={CONFIG}"}}}}\n}}'
)


def test_show_tells_the_framework_name_and_the_stack(run: Any, ask: Any) -> None:
    out = run("show", "-", "dot", stdin=TABLES).stdout.splitlines()
    assert out[1:] == [
        "  from jit(step)/dense/dot_general",
        "  at /lib/layers.py:7 in dense",
        "  at /src/model/train.py:120 in step",
    ]
    shown = ask("show", "-", "dot", "--json", stdin=TABLES)
    assert shown["op_name"] == "jit(step)/dense/dot_general"
    assert shown["source"] == "/lib/layers.py:7"
    assert [frame["function"] for frame in shown["trace"]] == ["dense", "step"]


def test_index_tells_them_too(run: Any, ask: Any) -> None:
    out = run("index", "-", "dot", stdin=TABLES).stdout.splitlines()
    assert out[1] == "  from jit(step)/dense/dot_general at /lib/layers.py:7"
    answer = ask("index", "-", "dot", "--json", stdin=TABLES)
    assert answer["op_name"] == "jit(step)/dense/dot_general"
    assert answer["source"] == "/lib/layers.py:7"
    assert answer["computation"] == "body"


def test_backend_configs_are_short_or_pretty(run: Any, ask: Any) -> None:
    short = run("show", "-", "c", stdin=CUSTOM).stdout
    assert "… (" in short
    assert "xxxx" not in short
    full = run("show", "-", "c", "--full", stdin=CUSTOM).stdout
    first, head, *config = full.splitlines()
    assert first == 'c = f32[2] custom-call(p), custom_call_target="f"'
    assert head == "  backend_config:"
    assert json.loads("\n".join(config))["kernel"]["sizes"] == ["1", "4", "1600"]
    assert "xxxx" in ask("show", "-", "c", "--json", stdin=CUSTOM)["text"]


def test_a_config_that_is_no_json_is_printed_whole(run: Any) -> None:
    text = CUSTOM.replace(f'{CONFIG}"}}}}', '"' + "word " * 40 + '"')
    assert "word word" in run("show", "-", "c", "--full", stdin=text).stdout.splitlines()[0]
    assert "… (202 characters)" in run("show", "-", "c", stdin=text).stdout


def test_a_pattern_shows_every_instruction_like_it(run: Any) -> None:
    out = run("show", "-", "e/?", stdin=TABLES).stdout
    heads = [line.split(" = ")[0] for line in out.splitlines() if line[:1].isalpha()]
    assert [head for head in heads if len(head) == 1] == ["x", "w", "f", "t"]
    lines = run("show", "-", "body/*", "--json", stdin=TABLES).stdout.splitlines()
    assert [json.loads(line)["instruction"] for line in lines] == ["p", "q", "dot", "z", "r"]
    nothing = run("show", "-", "nothing*", stdin=TABLES)
    assert nothing.exit_code == 2
    assert "no instruction is like `nothing*`" in nothing.stderr


def test_index_answers_for_every_instruction_like_a_pattern(run: Any) -> None:
    out = run("index", "-", "e/*", stdin=TABLES).stdout
    assert [line.split()[0] for line in out.splitlines() if " = " in line and line[0] != " "] == [
        "x", "w", "f", "old", "twice", "t",
    ]  # fmt: skip
    lines = run("index", "-", "e/*", "--json", stdin=TABLES).stdout.splitlines()
    assert [json.loads(line)["instruction"] for line in lines] == [
        "x", "w", "f", "old", "twice", "t",
    ]  # fmt: skip
