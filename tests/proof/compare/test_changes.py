"""What is different between two programs: nothing by names and order, what was changed else."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

import hloscope as hs
from hloscope.cli.app import app
from tests.generator import generate, hlo_text, options_of, stablehlo_text

UNARY = ("tan", "tanh", "cosine", "negate", "abs")
BINARY = ("add", "multiply", "subtract", "maximum")


class Graph:
    """A random program: each node its op and the numbers of what it reads."""

    def __init__(self, seed: int, size: int = 40) -> None:
        chance = random.Random(seed)
        self.nodes: list[tuple[str, tuple[int, ...]]] = [("parameter", ()), ("parameter", ())]
        for at in range(2, size):
            if chance.random() < 0.4:
                self.nodes.append((chance.choice(UNARY), (chance.randrange(at),)))
            else:
                read = (chance.randrange(max(at - 6, 0), at), chance.randrange(at))
                self.nodes.append((chance.choice(BINARY), read))
        self.nodes.append(("tuple", tuple(range(size - 3, size))))

    def text(self, seed: int) -> str:
        """Its HLO, with names and an order of the seed."""
        chance = random.Random(seed)
        names = [f"v{number}" for number in chance.sample(range(10_000), len(self.nodes))]
        done: list[int] = []
        left = set(range(len(self.nodes)))
        while left:
            ready = sorted(n for n in left if not left.intersection(self.nodes[n][1]))
            at = chance.choice(ready)
            left.remove(at)
            done.append(at)
        lines = []
        for at in done:
            op, read = self.nodes[at]
            inside = str(at) if op == "parameter" else ", ".join(f"%{names[r]}" for r in read)
            last = at == len(self.nodes) - 1
            shape = "(f32[4], f32[4], f32[4])" if last else "f32[4]"
            mark = "ROOT " if last else ""
            source = f"metadata={{source_line={chance.randrange(99)}}}"
            lines.append(f"  {mark}%{names[at]} = {shape} {op}({inside}), {source}")
        return "\n".join([f"ENTRY e{seed} {{", *lines, "}"])


def different(a: str, b: str) -> list[str]:
    found = hs.diff(hs.read(a), hs.read(b))
    kinds = [change.kind for part in found.parts for change in part.changes]
    assert found.none == (not kinds and not found.header and not found.parts)
    return kinds


@pytest.mark.parametrize("seed", range(20))
def test_renamed_and_reordered_it_is_the_same(seed: int) -> None:
    graph = Graph(seed)
    assert different(graph.text(1), graph.text(2)) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_changed_op_is_found_where_it_is(seed: int) -> None:
    graph, changed = Graph(seed), Graph(seed)
    at = random.Random(seed).randrange(2, 40)
    changed.nodes[at] = ("exponential", changed.nodes[at][1][:1])
    found = hs.diff(hs.read(graph.text(1)), hs.read(changed.text(2)))
    assert not found.none
    assert sum(len(part.changes) for part in found.parts) <= 3
    ops = {c.after.op.name for part in found.parts for c in part.changes if c.after is not None}
    assert "exponential" in ops


@pytest.mark.parametrize("seed", range(20))
def test_an_inserted_op_is_one_that_is_added(seed: int) -> None:
    graph, longer = Graph(seed), Graph(seed)
    reader = random.Random(seed).randrange(30, 40)
    op, read = longer.nodes[reader]
    longer.nodes.insert(-1, ("sign", (read[0],)))
    new = len(longer.nodes) - 2
    longer.nodes[reader] = (op, (new, *read[1:]))
    kinds = different(graph.text(1), longer.text(2))
    assert kinds.count("added") == 1
    assert len(kinds) <= 3
    kinds = different(longer.text(1), graph.text(2))
    assert kinds.count("removed") == 1
    assert len(kinds) <= 3


def test_programs_are_what_their_artifacts_are(full: bool) -> None:
    for seed in range(2000 if full else 40):
        text = stablehlo_text(generate(seed, options_of(seed, "mlir")))
        try:
            data = hs.serialize(text)
        except hs.HloscopeError:
            continue
        found = hs.diff(hs.read(text), hs.read(data))
        rest = {a.what for part in found.parts for c in part.changes for a in c.aspects}
        assert rest <= {"channel_type"}, f"seed {seed}"
        assert not found.header


def test_programs_are_the_same_as_themselves(full: bool) -> None:
    for seed in range(2000 if full else 40):
        text = hlo_text(generate(seed, options_of(seed, "hlo")))
        assert hs.diff(hs.read(text), hs.read(text)).none, f"seed {seed}"


LAYOUTS = "ENTRY e {{ p = f32[4,8]{0} parameter(0) ROOT r = f32[4,8]{1} negate(p) }}"


def texts_of_types(a: str, b: str) -> list[tuple[str | None, str | None]]:
    found = hs.diff(hs.read(a), hs.read(b))
    changes = [change for part in found.parts for change in part.changes]
    return [(a.before, a.after) for c in changes for a in c.aspects if a.what == "type"]


@pytest.mark.parametrize("written", ["{1,0}", ""])
def test_a_layout_that_is_not_written_is_the_default_one(written: str) -> None:
    plain = LAYOUTS.format("", "")
    assert different(plain, LAYOUTS.format("{1,0}", written)) == []
    assert texts_of_types(plain, LAYOUTS.format(written, "{0,1}")) == [
        ("f32[4,8]{1,0}", "f32[4,8]{0,1}")
    ]


@pytest.mark.parametrize("layout", ["{0,1}", "{1,0:T(8,128)}", "{1,0:S(5)}", "{1,0:E(4)}"])
def test_layouts_that_differ_are_shown(layout: str) -> None:
    found = texts_of_types(LAYOUTS.format("", ""), LAYOUTS.format("", layout))
    assert found == [("f32[4,8]{1,0}", f"f32[4,8]{layout}")]


def test_layouts_inside_tuples_and_of_scalars_count_too() -> None:
    text = "ENTRY e {{ p = s32[]{0} parameter(0) ROOT t = (s32[], f32[2,3]{1}) custom-call(p), "
    text += 'custom_call_target="x" }}'
    assert different(text.format("", ""), text.format("{}", "{1,0}")) == []
    assert texts_of_types(text.format("", ""), text.format("", "{0,1}")) == [
        ("(s32[], f32[2,3]{1,0})", "(s32[], f32[2,3]{0,1})")
    ]


def test_types_of_other_sizes_are_told_without_layouts_unless_those_differ() -> None:
    other = LAYOUTS.replace("4,8", "4,9")
    assert set(texts_of_types(LAYOUTS.format("", ""), other.format("", ""))) == {
        ("f32[4,8]", "f32[4,9]")
    }
    found = texts_of_types(LAYOUTS.format("", ""), other.format("", "{0,1}"))
    assert ("f32[4,8]{1,0}", "f32[4,9]{0,1}") in found


MLIR = """func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @inner(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %c = stablehlo.constant dense<1.0> : tensor<2xf32>
  %1 = stablehlo.add %0, %c : tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @inner(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @other() -> tensor<i32> {
  %0 = stablehlo.constant dense<3> : tensor<i32>
  return %0 : tensor<i32>
}"""

SAME = {
    "a constant that is written otherwise": ("dense<1.0>", "dense<[1.0, 1.0]>"),
    "a function of another name": ("@inner", "@renamed"),
    "an attribute that says what goes without saying": (
        "func.func @other",
        "func.func public @other",
    ),
}
CHANGED = {
    "another constant": (
        ("dense<1.0>", "dense<[1.0, -1.0]>"),
        "value: dense<1.0> : tensor<2xf32> → dense<[1.0, -1.0]> : tensor<2xf32>",
    ),
    "another op in a function": (("stablehlo.tanh", "stablehlo.tan"), "op: tanh → tan"),
    "another function that nothing calls": (("dense<3>", "dense<4>"), "other: "),
    "a function more": (
        ("func.func @other", "func.func @more() { return }\nfunc.func @other"),
        "+ more: 1 instructions",
    ),
    "another operand": (("add %0, %c", "add %0, %a"), "operand 1: c → a"),
    "an attribute": (
        ("add %0, %c :", 'add %0, %c {mhlo.sharding = "{replicated}"} :'),
        "mhlo.sharding: none →",
    ),
}


@pytest.mark.parametrize("what", SAME)
def test_what_is_only_written_otherwise_is_the_same(what: str) -> None:
    assert different(MLIR, MLIR.replace(*SAME[what])) == []


@pytest.mark.parametrize("what", CHANGED)
def test_what_is_changed_is_said(what: str, tmp_path: Path) -> None:
    change, line = CHANGED[what]
    a, b = tmp_path / "a.mlir", tmp_path / "b.mlir"
    a.write_text(MLIR)
    b.write_text(MLIR.replace(*change))
    run = CliRunner().invoke(app, ["diff", str(a), str(b)])
    assert run.exit_code == 1
    assert line in run.output, run.output
    assert CliRunner().invoke(app, ["diff", str(a), str(a)]).output == "the same\n"
    told = json.loads(CliRunner().invoke(app, ["diff", "--json", str(a), str(b)]).output)
    assert told["schema"] == "hloscope.diff/1"
    assert not told["same"]


DRAWN = """ENTRY e {
  a = f32[] constant(0)
  b = f32[] constant(1)
  r = f32[4] rng(a, b), distribution=rng_uniform
  s = f32[4] rng(a, b), distribution=rng_uniform
  ROOT t = (f32[4], f32[4]) tuple(r, s)
}"""


def test_values_without_users_that_share_a_type_only_are_not_one_change() -> None:
    text = "ENTRY e { p = f32[4] parameter(0) UNUSED ROOT r = f32[4] negate(p) }"
    before, after = "u = f32[4] iota(), iota_dimension=0", "w = f32[4] constant({1,2,3,4})"
    found = different(text.replace("UNUSED", before), text.replace("UNUSED", after))
    assert sorted(found) == ["added", "removed"]


def test_a_copy_after_the_root_is_added_and_the_root_keeps_its_partner() -> None:
    head = "ENTRY e { p = f32[2,3] parameter(0) "
    before = head + "x = f32[2,3] tanh(p) ROOT r = f32[3,2] transpose(x), dimensions={1,0} }"
    after = (
        head + "x = f32[2,3] abs(p) t = f32[3,2] transpose(x), dimensions={1,0} "
        "ROOT c = f32[3,2] copy(t) }"
    )
    assert different(before, after) == ["changed", "added"]


def test_what_is_drawn_twice_is_not_what_is_drawn_once() -> None:
    assert different(DRAWN, DRAWN.replace("tuple(r, s)", "tuple(s, r)")) == []
    assert different(DRAWN, DRAWN.replace("tuple(r, s)", "tuple(r, r)")) == ["changed"]


def test_what_is_made_of_what_is_drawn_is_followed() -> None:
    text = DRAWN.replace("ROOT", "  x = f32[4] tan(r)\n  y = f32[4] tan(s)\nROOT")
    text = text.replace("tuple(r, s)", "tuple(x, y)")
    assert different(text, text.replace("tuple(x, y)", "tuple(y, x)")) == []
    assert different(text, text.replace("tuple(x, y)", "tuple(x, x)"))
    pure = text.replace("rng(a, b), distribution=rng_uniform", "broadcast(a), dimensions={}")
    assert different(pure, pure.replace("tuple(x, y)", "tuple(y, x)")) == []


def test_layouts_and_configurations_count_and_metadata_do_not() -> None:
    text = "ENTRY e { p = f32[2,3]{1,0} parameter(0), metadata={op_name=\"x\"} ROOT r = " \
        "f32[2,3]{1,0} tan(p), backend_config={\"a\":1} }"  # fmt: skip
    assert different(text, text.replace('"x"', '"y"')) == []
    assert different(text, text.replace('"a":1', '"a":2')) == ["changed"]
    assert different(text, text.replace("tan(p)", "tan(p), sharding={replicated}")) == ["changed"]
    assert different(text, text.replace("{1,0}", "{0,1}")) == ["changed", "changed"]


def test_long_differences_are_cut_and_wrong_files_are_refused(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in ("a.hlo", "b.hlo", "c.hlo"))
    a.write_text(Graph(1).text(1))
    b.write_text(Graph(2).text(1))
    c.write_text("ENTRY {")
    invoke = CliRunner().invoke
    assert "more changes" in invoke(app, ["diff", "--top", "3", str(a), str(b)]).output
    assert invoke(app, ["diff", str(a), str(c)]).exit_code == 3
    assert invoke(app, ["diff", str(a), str(tmp_path / "d.hlo")]).exit_code == 3
    assert invoke(app, ["diff", "-", "-"]).exit_code == 2
    assert invoke(app, ["diff", "-", str(a)], input=Graph(1).text(5)).exit_code == 0


CAPTURING = """func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %a = stablehlo.OUTER %x : tensor<4xf32>
  %r = "stablehlo.if"(%p) ({
    %y = stablehlo.INNER %a : tensor<4xf32>
    stablehlo.return %y : tensor<4xf32>
  }, {
    stablehlo.return %a : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""


def test_a_value_that_a_region_reads_from_outside_is_paired_there_as_well() -> None:
    before, after = (
        hs.read(CAPTURING.replace("OUTER", outer).replace("INNER", inner))
        for outer, inner in (("tanh", "negate"), ("cosine", "abs"))
    )
    parts = hs.diff(before, after).parts
    changes = [change for part in parts for change in part.changes]
    told = [(one.what, one.before, one.after) for change in changes for one in change.aspects]
    assert told == [("op", "tanh", "cosine"), ("op", "negate", "abs")]


@pytest.mark.parametrize(
    ("before", "after", "aspects"),
    [
        ("replica_count=2", "replica_count=4", [("replica_count", "2", "4")]),
        ("replica_count=2", "num_partitions=2",
         [("num_partitions", None, "2"), ("replica_count", "2", None)]),
        ("replica_count=2", "replica_count=2", []),
        ("is_scheduled=true", "replica_count=2", [("replica_count", None, "2")]),
        ("is_scheduled=true", "entry_computation_layout={(f32[2]{0})->f32[2]{0}}", []),
    ],
)  # fmt: skip
def test_attributes_of_the_module_count_but_those_that_follow_from_it(
    before: str, after: str, aspects: list[tuple[str, str | None, str | None]]
) -> None:
    entry = "ENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] negate(p) }"
    a, b = (hs.read(f"HloModule m, {header}\n{entry}") for header in (before, after))
    found = hs.diff(a, b)
    assert [*map(tuple, found.header)] == aspects
    assert found.none == (not aspects)
    assert found.parts == ()
