"""A command loads what it needs and no more: starting is most of what a short question costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {
    "numpy",
    "ml_dtypes",
    "islpy",
    "sympy",
    "networkx",
    "matplotlib",
    "rich",
    "importlib.metadata",
}
MAP = "(d0)[s0] -> (d0 * 8 / 4 + s0), domain: d0 in [0, 9], s0 in [0, 3]"
COMMANDS = {
    "ls": ["ls", "examples/softmax.hlo"],
    "ls --fusions": ["ls", "--fusions", "examples/softmax.hlo"],
    "show": ["show", "examples/softmax.hlo", "softmax", "--around", "1"],
    "print": ["print", "examples/softmax.hlo"],
    "print StableHLO": ["print", "examples/layer.mlir", "--locations"],
    "index": ["index", "examples/softmax.hlo"],
    "index --from-operand": ["index", "examples/softmax.hlo", "--from-operand", "0"],
    "index --json": ["index", "examples/softmax.hlo", "--json"],
    "index --physical": ["index", "examples/transpose.hlo", "transpose_fusion", "--physical"],
    "simplify": ["simplify", MAP],
    "compose": ["compose", MAP, "(d0) -> (d0 mod 3), domain: d0 in [0, 99]"],
    "--help": ["--help"],
}
PROGRAM = """
import sys
from hloscope.cli import main
try:
    main()
finally:
    sys.stderr.write("\\n".join(sys.modules))
"""


def modules_loaded_by(arguments: list[str], *, prints: bool = True) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert bool(done.stdout.strip()) == prints
    return set(done.stderr.split())


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=list(COMMANDS))
def test_a_command_loads_no_heavy_library(arguments: list[str]) -> None:
    assert not modules_loaded_by(arguments) & HEAVY


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("name", ["ls", "ls --fusions", "show", "index", "index --json"])
def test_a_question_about_hlo_loads_nothing_of_other_rooms(name: str) -> None:
    """Their doors are imported, which load none of the modules behind them."""
    loaded = modules_loaded_by(COMMANDS[name])
    rooms = ("interpreter", "verifier", "stablehlo", "proof", "mlir")
    others = (*[f"hloscope.{room}." for room in rooms], "hloscope.simplifier.isl")
    assert not {name for name in loaded - {"hloscope.mlir.dialects"} if name.startswith(others)}


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("name", ["ls", "show", "index"])
def test_what_only_errors_pages_and_pipes_need_is_not_loaded(name: str) -> None:
    assert not modules_loaded_by(COMMANDS[name]) & {"difflib", "html", "shutil"}


def test_an_answer_loads_the_rules_of_the_ops_it_is_about_and_no_simplifier() -> None:
    loaded = modules_loaded_by(COMMANDS["index"])
    room = "hloscope.indexing.rules."
    rules = {name.removeprefix(room) for name in loaded if name.startswith(room)}
    shared = {"dependence", "registry"}
    assert rules - shared == {"elementwise", "reduction", "shape"}
    assert not {name for name in loaded if name.startswith("hloscope.simplifier.")}
    careful = {"hloscope.hlo_parser.instruction", "hloscope.hlo_parser.signatures"}
    assert not loaded & {*careful, "fractions", "zlib"}


def test_an_artifact_is_examined_without_analysis(tmp_path: Path) -> None:
    artifact = tmp_path / "tan.mlir.bc"
    modules_loaded_by(["serialize", "examples/tan.mlir", "--output", str(artifact)], prints=False)
    loaded = modules_loaded_by(["doctor", str(artifact)])
    others = ("indexing", "fusion", "affine", "simplifier", "interpreter")
    assert not {m for m in loaded if m.startswith(tuple(f"hloscope.{room}." for room in others))}
    assert "hloscope.hlo_parser.reader" not in loaded


def test_inferring_types_loads_what_constants_need_and_no_more() -> None:
    loaded = modules_loaded_by(["infer", "examples/softmax.hlo"])
    assert loaded & HEAVY <= {"numpy", "ml_dtypes"}


def test_the_table_of_ops_loads_what_the_interpreter_needs_and_no_more() -> None:
    assert modules_loaded_by(["ops"]) & HEAVY <= {"numpy", "ml_dtypes"}


def test_the_version_is_told_before_anything_is_loaded() -> None:
    loaded = modules_loaded_by(["--version"])
    assert not loaded & {"click", "dataclasses", "inspect"}
    assert {name for name in loaded if name.startswith("hloscope")} == {
        "hloscope",
        "hloscope.cli",
        "hloscope.cli.interrupts",
        "hloscope.support",
        "hloscope.support.doors",
    }


def test_maps_are_simplified_without_reading_programs() -> None:
    loaded = modules_loaded_by(["simplify", MAP])
    assert not [name for name in loaded if name.startswith("hloscope.hlo_parser")]


def test_importing_the_package_loads_no_heavy_library() -> None:
    program = "import hloscope, sys; sys.stdout.write('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not set(done.stdout.split()) & HEAVY


def test_little_is_loaded_before_interrupts_are_taken_care_of() -> None:
    program = (
        "import gc, importlib, os, sys; known = set(sys.modules); import hloscope.cli; "
        "sys.stdout.write('\\n'.join(set(sys.modules) - known))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    support = {"hloscope.support", "hloscope.support.doors"}
    ours = {"hloscope", "hloscope.cli", "hloscope.cli.interrupts", *support}
    assert set(done.stdout.split()) - {"__future__"} == ours
