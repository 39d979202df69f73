"""`ptx` and `coalesce --from-ptx`: kernels executed from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloscope.api import ptx_arguments
from hloscope.errors import InputError
from hloscope.memory.ptx import KernelError

SAXPY = ("ptx", "examples/saxpy.ptx", "--grid", "2", "--block", "128")
ARGUMENTS = ("--args", "n=200 a=2.0", "--args", "x=f32[200] y=f32[200]:1")
DUMP = "tests/memory/ptx/dumps#module_0023.jit_tr_021"


def test_a_kernel_is_executed_and_its_arrays_are_written(
    ask: Any, run: Any, tmp_path: Path
) -> None:
    x = np.arange(200, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    output = tmp_path / "out.npz"
    words = f"n=200 a=2.0 x={tmp_path / 'x.npy'} y=f32[200]:1"
    found = ask(*SAXPY, "--args", words, "-o", output, "--json")
    assert found["schema"] == "hloscope.ptx/1"
    assert found["launch"] == {
        "blocks": [2, 1, 1],
        "threads": [128, 1, 1],
        "shared_memory_bytes": 0,
    }
    assert {(a["name"], a["kind"], a["sectors"]) for a in found["arrays"]} == {
        ("x", "read", 25),
        ("y", "read", 25),
        ("y", "written", 25),
    }
    with np.load(output) as written:
        assert (written["y"] == 2 * x + 1).all()
    text = run(*SAXPY, *ARGUMENTS).stdout
    assert "saxpy: 128 threads × 2 blocks" in text
    assert "st.global.f32" in text


def test_the_standard_input_is_read(run: Any) -> None:
    text = Path("examples/saxpy.ptx").read_text()
    done = run("ptx", "-", *SAXPY[2:], *ARGUMENTS, stdin=text)
    assert done.exit_code == 0
    wrong = run("ptx", "-", *SAXPY[2:], *ARGUMENTS, stdin=text.replace("fma.rn", "fme.rn"))
    assert wrong.exit_code == 3
    assert (
        "<stdin>:33:2: error: `fme.rn.f32`: unknown instruction; did you mean `fma`" in wrong.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--args", "n=200"), 1, "has 4 parameters, 1 arguments"),
        (("--args", "n=200 n=3"), 2, "`n` is given twice"),
        (("--args", "n=many"), 2, "`n=many` is not an array"),
        (("--args", "200"), 2, "not NAME=VALUE"),
        (("--args", "n=200 a=2.0 x=f33[2] y=f32[2]"), 2, "f33"),
        (("--args", "n=200 a=2.0 x=missing.npy y=f32[2]"), 3, "missing.npy"),
        ((*ARGUMENTS, "--max-steps", "3"), 1, "more instructions than the limit"),
        ((*ARGUMENTS, "--max-threads", "3"), 1, "256 threads, more than 3"),
        ((*ARGUMENTS, "--kernel", "saxpi"), 2, "did you mean `saxpy`"),
        (("--args", "n=200 a=2.0 x=f32[40] y=f32[200]"), 1, "which has 160 bytes"),
    ],
)
def test_wrong_arguments_are_refused(
    run: Any, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = run(*SAXPY, *arguments)
    assert done.exit_code == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_sizes_of_launches_are_checked(run: Any) -> None:
    for grid, block in (("0", "128"), ("1,1,1,1", "128"), ("2", "")):
        done = run("ptx", "examples/saxpy.ptx", "--grid", grid, "--block", block, *ARGUMENTS)
        assert done.exit_code == 2


def test_words_become_arguments(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", x=np.ones(2), y=np.zeros(3))
    words = [f"y={tmp_path}/two.npz", "m=-0x10", "b=1e3", "s=s4[3]:-2", "p=pred[2]"]
    found = ptx_arguments(words)
    assert (found["y"].shape, found["m"], found["b"]) == ((3,), -16, 1000.0)  # type: ignore[union-attr]
    assert found["s"].tolist() == [-2, -2, -2]  # type: ignore[union-attr]
    assert (ptx_arguments(words)["p"] == found["p"]).all()  # type: ignore[union-attr]
    with pytest.raises(InputError, match="2 arrays, none of them `z`"):
        ptx_arguments([f"z={tmp_path}/two.npz"])
    with pytest.raises(KernelError, match="more than 100"):
        ptx_arguments(["x=f32[1000000000000]"], max_bytes=100)


def test_a_kernel_of_a_dump_folder_is_compared_with_model_and_hlo(ask: Any, run: Any) -> None:
    found = ask("coalesce", DUMP, "input_transpose_fusion", "--from-ptx", "--json")
    assert (found["values"], found["module"]) == ("equal", "module_0023.jit_tr_021")
    assert [c["agrees"] for c in found["comparison"]] == [True, True]
    text = run("coalesce", DUMP, "input_transpose_fusion", "--from-ptx").stdout
    assert "outputs and the interpreter of the HLO: equal" in text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((DUMP, "--from-ptx"), 2, "--from-ptx needs NAME"),
        ((DUMP, "x", "--inputs", "x.npz"), 2, "--from-ptx needs NAME"),
        ((DUMP, "input_transpose_fusio", "--from-ptx"), 2, "did you mean"),
        (("tests/memory/ptx/dumps", "x", "--from-ptx"), 2, "compiled programs"),
        (("examples", "x", "--from-ptx"), 3, "without a compiled program"),
        ((DUMP, "input_transpose_fusion", "--from-ptx", "--inputs", "no.npz"), 3, "no.npz"),
    ],
)
def test_wrong_questions_about_folders_are_refused(
    run: Any, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = run("coalesce", *arguments)
    assert done.exit_code == code, done.stderr
    assert message in done.stderr


def test_outputs_that_differ_are_a_failed_check(run: Any, tmp_path: Path) -> None:
    for path in Path("tests/memory/ptx/dumps").glob("module_0009.*"):
        (tmp_path / path.name).write_text(path.read_text())
    (ptx,) = tmp_path.glob("*.ptx")
    name = "loop_add_fusion"
    assert run("coalesce", tmp_path, name, "--from-ptx").exit_code == 0
    ptx.write_text(ptx.read_text().replace("add.rn.f64", "sub.rn.f64"))
    done = run("coalesce", tmp_path, name, "--from-ptx")
    assert done.exit_code == 1
    assert "output 0 differs" in done.stdout
