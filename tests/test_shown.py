"""What a notebook shows of objects, and what completion offers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import hloscope as hs
from hloscope.cli.app import app

EXAMPLES = Path(__file__).parents[1] / "examples"
STEP, SOFTMAX = EXAMPLES / "training_step.hlo", EXAMPLES / "softmax.hlo"
MAP = "(th_x)[s0] -> (th_x * 2 + s0), domain: th_x in [0, 7], s0 in [0, 1], th_x + s0 in [0, 7]"


def answers() -> dict[str, Any]:
    step, layers = hs.read(STEP), hs.read(EXAMPLES / "layers.hlo").memory()
    tiles = hs.read(EXAMPLES / "split_heads.hlo").root.tiles([32, 16, 128])
    attention = hs.read(EXAMPLES / "attention_block.hlo")
    return {
        "program": step,
        "computation": step.entry,
        "instruction": step.root,
        "cost": step.cost(),
        "memory": layers,
        "moment": layers.peak,
        "memory difference": layers.difference(layers),
        "indexing": hs.read(SOFTMAX).root.indexing(),
        "coalescing": step["residual_fusion"].coalescing(),
        "footprint": step["residual_fusion"].footprint(),
        "tiles": tiles,
        "tile costs": tiles.costs(),
        "tiling space": tiles.view.tiling_space(),
        "cancellation": attention["joined"].cancellation(),
        "doctor": hs.doctor(hs.serialize(hs.read(EXAMPLES / "tan.mlir"))),
        "diff": hs.diff(SOFTMAX, STEP),
    }


@pytest.mark.parametrize("name", answers())
def test_an_answer_fits_a_notebook_and_shows_public_names_only(name: str) -> None:
    answer = answers()[name]
    html = answer._repr_html_()
    assert 'class="hloscope"' in html
    assert "overflow-x:auto" in html
    assert ".hloscope svg{max-width:100%" in html
    assert "<script" not in html
    names = dir(answer)
    assert not [n for n in names if n.startswith("_")]
    assert not {"asked_module", "while_asked", "lock"} & {*names}


def test_the_package_offers_its_public_names_only() -> None:
    _ = hs.read(SOFTMAX).root.indexing()  # loads rooms, which become attributes of the package
    assert dir(hs) == sorted(hs.__all__)
    assert {"to_networkx", "result", "cost", "memory"} <= {*dir(hs.read(SOFTMAX))}


def test_doctor_and_diff_print_as_the_commands_do(tmp_path: Path) -> None:
    artifact = tmp_path / "tan.bc"
    artifact.write_bytes(hs.serialize(hs.read(EXAMPLES / "tan.mlir")))
    printed = CliRunner().invoke(app, ["doctor", str(artifact)]).stdout
    assert f"{hs.doctor(artifact, name=str(artifact))}\n" == printed
    printed = CliRunner().invoke(app, ["diff", str(SOFTMAX), str(STEP)]).stdout
    assert f"{hs.diff(SOFTMAX, STEP)!r}\n" == printed


def test_a_cost_reads_like_an_indexing_answer() -> None:
    cost = hs.read(STEP).cost(device="h100")
    assert [*cost] == [cost[k] for k in range(len(cost))]
    assert cost["bias_fusion"].instruction.name == "bias_fusion"
    assert cost.bytes == cost.totals["bytes"]
    assert cost.flops == cost.totals["flops"]
    assert cost.bound == cost.totals["bound_ps"]
    with pytest.raises(hs.UnknownNameError, match="did you mean `bias_fusion`"):
        cost["bias_fusoin"]
    printed = CliRunner().invoke(app, ["cost", str(STEP), "--device", "h100"])
    for line in printed.stderr.splitlines():
        assert line in str(cost).splitlines()
    assert "residual_fusion" in repr(cost)


def test_memory_reads_like_an_indexing_answer() -> None:
    memory = hs.read(EXAMPLES / "layers.hlo").memory()
    assert [*memory] == memory.buffers
    assert memory[0] is memory.buffers[0]
    assert len(memory) == len(memory.buffers)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (((8,), (0,)), r"th_x = 8 is outside the domain \[0, 7\]"),
        (((7,), (1,)), r"th_x \+ s0 = 8 is outside the domain \[0, 7\]"),
        (((3,), (-1,)), r"s0 = -1 is outside the domain \[0, 1\]"),
    ],
)
def test_evaluate_outside_the_domain_says_so(point: Any, message: str) -> None:
    m = hs.IndexingMap.parse(MAP)
    with pytest.raises(ValueError, match=message):
        m.evaluate(*point, check_domain=True)
    assert m.evaluate(*point) == (point[0][0] * 2 + point[1][0],)
    assert m.evaluate((7,), (0,), check_domain=True) == (14,)


def test_indices_and_tile_sizes_are_integers() -> None:
    with pytest.raises(TypeError, match=r"indices are integers, not 1\.5"):
        hs.IndexingMap.parse(MAP).evaluate((1.5,), (0,))  # type: ignore[arg-type]
    root = hs.read(EXAMPLES / "split_heads.hlo").root
    for ask in (root.tiles, root.tiling_space):
        with pytest.raises(TypeError, match=r"tile sizes are integers, not 1\.5"):
            ask([1.5, 16, 128])
    from hloscope.tiling import sweep

    with pytest.raises(TypeError, match="tile sizes are integers"):
        sweep(root.tiles().symbolic, [[1.5, 16, 128]])


def test_a_program_as_a_graph_has_its_operands_and_calls() -> None:
    program = hs.read(STEP)
    graph = program.to_networkx()
    assert {*graph} == {f"{c.name}/{ins.name}" for c in program.computations for ins in c}
    for name in graph:
        assert program[name].name == name.rpartition("/")[2]
    kinds = [data["kind"] for _, _, data in graph.edges(data=True)]
    assert kinds.count("operand") == sum(len(ins.ir.operands) for ins in program)
    assert kinds.count("call") == sum(len(ins.ir.calls) for ins in program)


ROOTS = {
    "a bitcast": ("n = f32[8] negate(p) ROOT b = f32[2,4] bitcast(n)", "n"),
    "a tuple": ("n = f32[8] negate(p) ROOT t = (f32[8]) tuple(n)", "n"),
    "several results": (
        "n = f32[8] negate(p) s = f32[2] slice(p), slice={[0:2]} "
        "ROOT t = (f32[2], f32[8]) tuple(s, n)", "n",
    ),
    "what computes": ("b = f32[2,4] bitcast(p) ROOT n = f32[2,4] negate(b)", "n"),
    "nothing that computes": ("ROOT b = f32[2,4] bitcast(p)", "b"),
    "an element": (
        "n = f32[8] negate(p) t = (f32[8], f32[8]) tuple(p, n) "
        "ROOT g = f32[8] get-tuple-element(t), index=1", "n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "name"), ROOTS.values(), ids=list(ROOTS))
def test_index_without_a_name_is_about_what_computes(body: str, name: str) -> None:
    text = f"ENTRY e {{ p = f32[8] parameter(0) {body} }}"
    program = hs.read(text)
    assert program.result.name == name
    done = CliRunner().invoke(app, ["index", "-"], input=text)
    assert done.stdout.startswith(f"{name} = ")
    says = f"about `{name}`: the root `{program.root.name}` computes nothing"
    assert (says in done.stderr) == (name != program.root.name)


def test_index_without_a_name_is_not_about_a_return() -> None:
    done = CliRunner().invoke(app, ["index", str(EXAMPLES / "layer.mlir")])
    assert done.stdout.startswith("relu = ")
    assert "about `relu`: the root `return` computes nothing" in done.stderr
    chosen = CliRunner().invoke(app, ["index", str(EXAMPLES / "layer.mlir"), "--operand", "0"])
    assert chosen.stdout.startswith("return = ")
