"""The page as a file: what stands in it, and what cannot."""

from __future__ import annotations

import gzip
import hashlib
import html
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hloscope
from hloscope.api import EXPLORER_PARTS, exploring
from hloscope.display.explorer.page import LIBRARY
from hloscope.support.source import visible
from hloscope.support.system import CAN_FORK
from tests.display.explorer.pages import EXAMPLES, chunk, names_of, page_of

MOST_WITHOUT_DATA = 400_000
PUBLISHED = "54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578"
"""Of dagre 3.1.3's minified file."""
HOSTILE = [
    "</script><script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    "<!--<script>",
    '"><svg onload=window.hit=1>',
    "'-window.hit-'",
    "javascript:window.hit=1",
    "]]>&lt;script&gt;",
    "\u2028window.hit=1\u2029",
    "\x1b[2J\x07\u202e",
    "__proto__",
    "constructor",
    "${window.hit=1}`",
    "<iframe srcdoc='<script>parent.hit=1</script>'>",
]


def programs(count: int) -> list[str]:
    """Programs whose names and metadata are hostile."""
    rng = random.Random(7)
    found = []
    for k in range(count):
        bad, other = rng.choice(HOSTILE), rng.choice(HOSTILE)
        quoted = "".join(c if c.isprintable() and c not in '"\\' else " " for c in bad + other)
        if k % 2:
            found.append(
                f'module @"{quoted}" {{ func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n'
                f'  %y = stablehlo.negate %x : tensor<4xf32> loc("{quoted}"("a.py":1:2))\n'
                f'  return %y : tensor<4xf32> }} }} loc("{quoted}":3:4)'
            )
        else:
            found.append(
                f"HloModule m{k}\nENTRY e {{ p = f32[4] parameter(0)\n"
                f"  ROOT n = f32[4] negate(p), metadata="
                f'{{op_name="{quoted}" source_file="{quoted}" source_line=3}}, '
                f'frontend_attributes={{x="{quoted}"}}\n}}'
            )
    return found


def test_a_page_is_small_without_its_data() -> None:
    page = page_of("ENTRY e { ROOT p = f32[2] parameter(0) }")
    assert len(page.encode()) < MOST_WITHOUT_DATA


@pytest.mark.parametrize("name", ["softmax.hlo", "layer.mlir", "softmax.mlir"])
def test_a_page_asks_for_nothing_from_elsewhere(name: str) -> None:
    page = page_of(EXAMPLES / name).replace("http://www.w3.org/2000/svg", "")  # a name only
    assert not re.search(r"""(src|href|action)\s*=|@import|url\((?!#)|http:|https:|fetch\(""", page)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]


def test_the_library_of_layouts_is_as_published_and_stands_under_its_licence() -> None:
    vendor = Path(hloscope.__file__).parent / "display/explorer/app/vendor"
    library = (vendor / LIBRARY).read_bytes()
    assert hashlib.sha256(library).hexdigest() == PUBLISHED
    assert re.findall(rb"\beval\b|\bFunction\b|\bimport\b|fetch\(|</script|<!--", library) == []
    page = page_of("ENTRY e { ROOT p = f32[2] parameter(0) }")
    licence = (vendor / f"{LIBRARY}.LEGAL.txt").read_text("utf-8")
    assert "Copyright (c)" in licence
    assert "Permission is hereby granted" in licence
    assert page.index(licence) < page.index("var dagre=")
    assert "sourceMappingURL" not in page


def test_the_same_program_gives_the_same_page() -> None:
    assert page_of(EXAMPLES / "softmax.hlo") == page_of(EXAMPLES / "softmax.hlo")


@pytest.mark.parametrize("text", programs(100))
def test_nothing_of_a_program_is_markup(text: str) -> None:
    page = page_of(text, parts=["maps"])
    title = re.search("<title>(.*?)</title>", page, re.DOTALL)
    assert title is not None
    assert "<" not in title[1]
    assert len(re.findall("<script[ >]", page)) == page.count("</script>")
    for name in ("rows", "details", "answers", "kernels"):
        chunk(page, name)
    shell = re.sub(r"<style>.*?</style>|<script[^>]*>.*?</script>|<title>.*?</title>", "", page,
                   flags=re.DOTALL)  # fmt: skip
    assert "hit" not in shell
    assert "<img" not in shell


def test_commands_of_terminals_are_shown_and_not_obeyed() -> None:
    page = page_of('ENTRY e { ROOT p = f32[2] parameter(0), metadata={op_name="a\u202eb\x1b[2J"} }')
    assert chunk(page, "details")["op_names"] == ["a\\u202eb\\x1b[2J"]


COMMANDS = "a\x1b[2J\u202eb\x9b\u2028"


def strings(value: object) -> Iterator[str]:
    """Every string of data, keys too."""
    todo = [value]
    while todo:
        top = todo.pop()
        if isinstance(top, str):
            yield top
        elif isinstance(top, dict):
            todo += [*top, *top.values()]
        elif isinstance(top, list):
            todo += top


@pytest.mark.parametrize("program", [
    'HloModule m, x="BAD"\nENTRY e { p = f32[8,4] parameter(0), sharding={"BAD"}\n'
    't = f32[4,8] transpose(p), dimensions={1,0}, backend_config="BAD", metadata={op_name="BAD"\n'
    'source_file="BAD" source_line=3}\nROOT c = f32[8,4] transpose(t), dimensions={1,0}, '
    'frontend_attributes={x="BAD"} }',
    'ENTRY e { p = f32[8,4] parameter(0)\nROOT c = f32[] custom-call(p), '
    'custom_call_target="BAD", metadata={op_type="BAD"} }',
    'module @"BAD" attributes {x.y = "BAD"} { func.func @"f BAD"(%x: tensor<4xf32> '
    '{x.z = "BAD"} loc("BAD")) -> tensor<4xf32> {\n'
    '%y = stablehlo.custom_call @"BAD"(%x) : (tensor<4xf32>) -> tensor<4xf32> '
    'loc("BAD"("BAD":1:2))\nreturn %y : tensor<4xf32> } } loc("BAD":3:4)',
])  # fmt: skip
def test_no_part_of_the_data_has_a_command_of_terminals(program: str) -> None:
    older = hloscope.read(program.replace("BAD", "good" + COMMANDS).replace("f32", "f64"))
    page = page_of(program.replace("BAD", COMMANDS), before=older)
    assert page == visible(page)
    named = re.findall('id="data-(\\w+)"', page)
    assert "diff" in named
    for name in named:
        for text in strings(chunk(page, name)):
            assert text == visible(text), name
    assert any(visible(COMMANDS) in text for text in strings(chunk(page, "diff")))


def test_equal_answers_are_stored_once() -> None:
    body = "\n".join(f"n{k} = f32[8] negate({f'n{k - 1}' if k else 'p'})" for k in range(200))
    page = page_of(f"ENTRY e {{ p = f32[8] parameter(0)\n{body}\nROOT r = f32[8] copy(n199) }}")
    told = chunk(page, "answers")
    assert len(told["accesses"]) <= 2
    assert len(told["answers"]) <= 2
    assert len(set(told["of"])) <= 3


def test_equal_layers_of_stablehlo_are_stored_once() -> None:
    body = "\n".join(
        f"%z{k} = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f"%b{k} = stablehlo.broadcast_in_dim %z{k}, dims = [] : (tensor<f32>) -> tensor<8x4xf32>\n"
        f"%m{k} = stablehlo.add {f'%r{k - 1}' if k else '%p'}, %b{k} : tensor<8x4xf32>\n"
        f"%t{k} = stablehlo.transpose %m{k}, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>\n"
        f"%r{k} = stablehlo.transpose %t{k}, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>"
        for k in range(200)
    )
    page = page_of(
        f"func.func @main(%p: tensor<8x4xf32>) -> tensor<8x4xf32> {{\n{body}\n"
        "return %r199 : tensor<8x4xf32> }"
    )
    assert len(chunk(page, "details")["texts"]) < 12
    assert len(chunk(page, "kernels")["facts"]) < 24
    assert sum(isinstance(name, str) for name in chunk(page, "rows")["name"]) < 12
    assert [name for name in names_of(page) if name[0] == "t"] == [f"t{k}" for k in range(200)]


def test_data_is_no_larger_than_the_text_allows() -> None:
    text = (EXAMPLES / "softmax.hlo").read_text()
    body = "\n".join(f"n{k} = f32[8] negate({f'n{k - 1}' if k else 'p'})" for k in range(5000))
    long = f"{text.partition('ENTRY')[0]}ENTRY e {{ p = f32[8] parameter(0)\n{body}\n"
    long += "ROOT r = f32[8] copy(n4999) }"
    page = page_of(long, parts=["maps"])
    empty = len(page_of("ENTRY e { ROOT p = f32[2] parameter(0) }", parts=["maps"]).encode())
    assert len(page.encode()) - empty < 1.5 * len(gzip.compress(long.encode(), 9))


def test_the_page_has_the_memory_of_a_program_once_and_small() -> None:
    text = (EXAMPLES / "layers.hlo").read_text()
    page = page_of(text, parts=["memory"])
    memory = chunk(page, "memory")
    names = names_of(page)
    blocks = {names[k]: tip for *_, tip, k in memory["picture"]["shapes"] if k >= 0}
    assert blocks["s0"].startswith("s0 f32[1024,4096]: 16 MiB\nlives 3 to ")
    assert "data-memory" not in page_of(text, parts=["maps"])
    lines = chunk(page_of(EXAMPLES / "layer.mlir", parts=["memory"]), "memory")["lines"]
    assert lines[0].startswith("no moments: the program has no schedule")


def test_the_memory_of_an_invalid_program_is_not_told() -> None:
    text = (EXAMPLES / "layers.hlo").read_text().replace("tanh(a2)", "tanh(h2)")
    memory = chunk(page_of(text, parts=["memory"]), "memory")
    assert "picture" not in memory
    assert "tanh" in memory["lines"][0]


def test_a_notebook_shows_the_page_in_a_frame_of_its_own() -> None:
    found = hloscope.read(EXAMPLES / "softmax.hlo").explore(parts=["maps"])
    frame = found._repr_html_()
    inside = re.fullmatch(
        r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts"[^<>]*></iframe>', frame
    )
    assert inside is not None
    assert html.unescape(inside[1]) == found.to_html()


def test_an_unknown_part_is_refused() -> None:
    program = hloscope.read("ENTRY e { ROOT p = f32[2] parameter(0) }")
    with pytest.raises(ValueError, match="no part `costs`"):
        program.explore(parts=["costs"])
    with pytest.raises(hloscope.HloscopeError, match="h101"):
        program.explore(device="h101")


@pytest.mark.parametrize("without", ["maps", "coalesce", "footprint", "cancel", "tiles"])
def test_parts_can_be_left_out(without: str) -> None:
    program = hloscope.read(EXAMPLES / "softmax.hlo")
    parts = [part for part in ("maps", "coalesce", "footprint", "cancel", "tiles")]
    parts.remove(without)
    page = program.explore(parts=parts).to_html()
    if without == "maps":
        assert "data-answers" not in page.partition("<script>")[0]
    else:
        assert without not in chunk(page, "kernels")["of"]


FORKS = pytest.mark.skipif(not CAN_FORK, reason="needs processes that are forked")


@pytest.mark.slow(keep=4)
@FORKS
@pytest.mark.timeout(60)
@pytest.mark.parametrize("parts", [EXPLORER_PARTS, ("cancel",), ("maps",), ("footprint", "tiles")])
@pytest.mark.parametrize("name", ["softmax.hlo", "training_step.hlo", "tan.mlir"])
def test_parts_told_side_by_side_are_those_told_one_after_the_other(
    name: str, parts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = page_of(EXAMPLES / name, parts=parts)
    assert exploring.MANY > 1000
    monkeypatch.setattr(exploring, "MANY", 0)
    monkeypatch.setattr(
        exploring._PageBuilder, "_compute_parts", in_children(exploring._PageBuilder._compute_parts)
    )
    assert beside(name, parts=parts) == told


def beside(name: str, **options: Any) -> str:
    """The page of an example whose parts are told side by side."""
    program = hloscope.read(EXAMPLES / name)
    return exploring.explore(program, jobs=len(exploring.TOGETHER) + 1, **options).to_html()


def in_children(tell: Callable[..., None]) -> Callable[..., None]:
    """The function, which fails in this process."""
    mine = os.getpid()

    def told(*given: Any) -> None:
        assert os.getpid() != mine or not given[1], "it is told here"
        tell(*given)

    return told


@FORKS
@pytest.mark.timeout(60)
def test_what_a_process_beside_does_not_tell_is_told_here(monkeypatch: pytest.MonkeyPatch) -> None:
    told = page_of(EXAMPLES / "softmax.hlo")
    monkeypatch.setattr(exploring, "MANY", 0)
    with monkeypatch.context() as patched:
        patched.setattr(
            exploring._PageBuilder, "_compute_in_child", lambda *_: os.kill(os.getpid(), 9)
        )
        assert beside("softmax.hlo") == told

    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    assert beside("softmax.hlo") == told


@FORKS
@pytest.mark.timeout(60)
def test_processes_beside_end_where_the_page_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    fork = os.fork

    def noted() -> int:
        pid = fork()
        begun.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", noted)
    monkeypatch.setattr(exploring, "MANY", 0)
    monkeypatch.setattr(exploring._PageBuilder, "_compute_in_child", lambda *_: time.sleep(1000))

    def interrupted(items: Any, _: str) -> Iterator[Any]:
        yield items[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        beside("softmax.hlo", shown=interrupted)
    assert len(begun) == len(exploring.TOGETHER)
    for pid in begun:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, 0)


def test_what_differs_from_an_older_program_is_told() -> None:
    older = "ENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] tan(p) }"
    newer = "ENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] tanh(p) }"
    page = hloscope.read(newer).explore(before=hloscope.read(older)).to_html()
    (part,) = chunk(page, "diff")["computations"]
    assert [change["kind"] for change in part["changes"]] == ["changed"]


@pytest.mark.parametrize("name", ["unet_fwd.gpu.opt.hlo.txt", "vit_fwd.stablehlo.mlir"])
def test_instructions_that_are_alike_have_the_same_answers(shared: Path, name: str) -> None:
    program = hloscope.read(shared / "real" / "models" / name)
    analysis = program.analysis
    answers: dict[object, object] = {}
    asked = 0
    for ins in [ins for computation in program.module for ins in computation]:
        alike = analysis.key_of_maps(ins)
        if alike is None:
            continue
        there = [analysis.output_to_input(ins, k) for k in range(len(analysis.tensors(ins.type)))]
        back = [analysis.input_to_output(ins, k) for k in range(len(ins.operands))]
        assert answers.setdefault(alike, (there, back)) == (there, back), ins
        asked += 1
    assert 0 < 2 * len(answers) < asked


TAKEN = """
taken.K {
  a = f32[9,4] parameter(0)
  at.K = s32[] parameter(1)
  zero = s32[] constant(0)
  twice.K = s32[] add(at.K, at.K)
  ROOT s = f32[1,4] dynamic-slice(a, twice.K, zero), dynamic_slice_sizes={1,4}
}
"""


def test_fusions_that_are_alike_name_their_own_values() -> None:
    text = "".join([TAKEN.replace("K", str(k)) for k in (1, 2)])
    text += """
ENTRY e {
  p = f32[9,4] parameter(0)
  i = s32[] parameter(1)
  x = f32[1,4] fusion(p, i), kind=kLoop, calls=taken.1
  y = f32[1,4] fusion(p, i), kind=kLoop, calls=taken.2
  ROOT t = (f32[1,4], f32[1,4]) tuple(x, y)
}"""
    page = page_of(text)
    answers, names = chunk(page, "answers"), names_of(page)
    for fusion, origin in (("x", "twice.1"), ("y", "twice.2")):
        answer = answers["answers"][answers["of"][names.index(fusion)]]
        rows = [answers["rows"][row] for _, some in answer["reads"] for row in some]
        accesses = [answers["accesses"][k] for row in rows for k in row[2]]
        told = [variable[3] for access in accesses for variable in access.get("runtime", ())]
        assert told
        assert all(origin in text for text in told)


def test_custom_calls_are_alike_where_their_configurations_are() -> None:
    config = '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["%d"]'
    config += ',"rhs_contracting_dimensions":["0"]}}}'
    product = 'f32[4,4] custom-call(p, p), custom_call_target="__cublas$gemm", metadata={op_name='
    product += '"n" scheduling_name="%s"}, backend_config=' + config
    lines = [f"  {name} = {product % (name, k)}" for name, k in (("a", 0), ("b", 1), ("c", 1))]
    text = "HloModule m\nENTRY e {\n  p = f32[4,4] parameter(0)\n" + "\n".join(lines)
    text += "\n  ROOT t = (f32[4,4], f32[4,4], f32[4,4]) tuple(a, b, c)\n}"
    page = page_of(text)
    names, answers, details = names_of(page), chunk(page, "answers"), chunk(page, "details")
    a, b, c = [names.index(name) for name in "abc"]
    assert answers["of"][a] != answers["of"][b] == answers["of"][c]
    assert details["text"][a] != details["text"][b] == details["text"][c]
    assert config % 1 in details["texts"][details["text"][b]]
    assert details["op_names"][details["op_name"][a]] == "n"


def test_of_instructions_with_other_metadata_each_tells_its_own() -> None:
    lines = [
        f'  n{k} = f32[2] negate(p), metadata={{op_name="{name}" scheduling_name="{said}"}}'
        for k, (name, said) in enumerate((("x", "s"), ("x", "t"), ("y", "s"), ("x s", "s")))
    ]
    text = "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n" + "\n".join(lines)
    text += "\n  ROOT r = f32[2] add(n0, n1)\n}"
    page = page_of(text)
    details = chunk(page, "details")
    told = [details["op_names"][k] for k in details["op_name"]]
    assert told[1:5] == ["x", "x", "y", "x s"]
