"""Commands take a dump folder as the program in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import hloscope
from tests.cli.conftest import Run
from tests.memory.dumps.folders import THUNKS, write_module

DUMP: Final = Path(__file__).parents[2] / "examples" / "dump"


def test_a_folder_with_one_program_is_that_program(run: Run) -> None:
    result = run("coalesce", str(DUMP), "triton_softmax.2")
    assert result.exit_code == 0, result.stderr
    assert "Triton, 128 threads × 64 blocks" in result.stdout
    assert "layouts and addresses are those of the compiled kernel" in result.stdout
    for command in ("cost", "verify", "print", "footprint", "cancel"):
        assert run(command, str(DUMP)).exit_code == 0, command
    assert run("ls", f"{DUMP}#jit_softmax").exit_code == 0


def test_findings_stand_below_tables_and_in_json(run: Run, tmp_path: Path) -> None:
    write_module(tmp_path, 1, "jit_f", thunks=THUNKS.replace("[16, 1, 1]", "[8, 1, 1]"))
    said = "XLA launches 128 threads × 8 blocks, the model says 128 threads × 64 blocks"
    for command in ("coalesce", "cost"):
        result = run(command, str(tmp_path), "--device", "h100")
        assert f"finding: `loop_negate_fusion.1`: {said}" in result.stderr
    told = json.loads(run("coalesce", str(tmp_path), "--json").stdout)
    (kernel,) = [k for k in told["kernels"] if k["name"] == "loop_negate_fusion.1"]
    assert kernel["findings"] == [said]
    assert json.loads(run("cost", str(tmp_path), "--json").stdout)["findings"] == [
        f"`loop_negate_fusion.1`: {said}"
    ]


def test_one_of_several_programs_is_chosen_by_name_or_number(run: Run, tmp_path: Path) -> None:
    write_module(tmp_path, 1, "jit_f")
    write_module(tmp_path, 2, "jit_g")
    result = run("cost", str(tmp_path))
    assert result.exit_code == 2
    assert "holds 2 compiled programs: module_0001.jit_f" in result.stderr
    for choice in ("jit_g", "2", "module_0002.jit_g"):
        assert run("cost", f"{tmp_path}#{choice}").exit_code == 0
    assert run("cost", f"{tmp_path}#jit_h").exit_code == 2
    dump = hloscope.read(f"{tmp_path}#jit_g").dump
    assert dump is not None
    assert dump.number == 2


def test_cut_files_end_with_their_place(run: Run, tmp_path: Path) -> None:
    write_module(tmp_path, 1, "jit_f", thunks=THUNKS[: THUNKS.index("threads")])
    result = run("coalesce", str(tmp_path))
    assert result.exit_code == 3
    assert "module_0001.jit_f.thunk_sequence.txt:1:" in result.stderr
    assert "the thunk sequence is cut" in result.stderr


def test_the_device_is_that_of_the_folder_unless_it_is_named(run: Run, tmp_path: Path) -> None:
    write_module(tmp_path, 1, "jit_f")
    target = tmp_path / "module_0001.jit_f.gpu_target_config.pbtxt"
    target.write_text(
        "gpu_device_info {\n  threads_per_warp: 32\n  core_count: 148\n"
        '  memory_bandwidth: 7672320000000\n}\ndevice_description_str: "NVIDIA B200"\n'
    )
    assert "b200: loop" in run("coalesce", str(tmp_path), "loop_negate_fusion.1").stdout
    assert "bounds for b200" in run("cost", str(tmp_path)).stderr
    other = run("cost", str(tmp_path), "--device", "h100").stderr
    assert "note: the folder was compiled for NVIDIA B200 (148 cores)" in other
    target.write_text("gpu_device_info {\n  core_count: 7\n}\n")
    assert "h100: loop" in run("coalesce", str(tmp_path), "loop_negate_fusion.1").stdout
