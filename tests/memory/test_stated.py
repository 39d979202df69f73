"""What a dump folder states of kernels stands beside the model; differences are findings."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from shutil import copytree
from typing import Final

import pytest

import hloscope
from hloscope.affine import Dim, Range, Var, evaluate
from hloscope.errors import ParseError
from hloscope.memory import Launch
from hloscope.memory.coalescing import Memory
from hloscope.memory.dumps import FIRST_INDEX, TritonAccess, parse_triton
from hloscope.memory.thread_maps import access_by_thread
from hloscope.support.devices import device_of
from hloscope.support.source import Source
from tests.memory.dumps.folders import HLO, THUNKS, write_module

DUMP: Final = Path(__file__).parents[2] / "examples" / "dump"
GEMM: Final = Path(__file__).parent / "dumps" / "data" / "gemm_fusion_dot_1.triton-to-llvm.txt"
LABEL: Final = "module_0001.jit_softmax"


def sectors_of(access: TritonAccess, blocks: int, threads: int, vector: int) -> tuple[int, int]:
    """Requests and sectors of 4-byte elements, by looking at each lane of each warp."""
    assert access.address is not None
    assert access.layout is not None
    registers = access.layout.size_of["register"]
    found: list[int] = []
    for block, warp, first in product(
        range(blocks), range(threads // 32), range(0, registers, vector)
    ):
        for loops in product(*map(range, access.loops)):
            bytes_of = list[int]()
            for lane, register in product(range(32), range(first, first + vector)):
                index = access.layout(register=register, lane=lane, warp=warp)
                at: dict[Var, int] = {Dim(0): block}
                at |= {Dim(FIRST_INDEX + d): i for d, i in enumerate(index)}
                at |= {Range(k): i for k, i in enumerate(loops)}
                if all(i.lo <= evaluate(e, at) <= i.hi for e, i in access.mask):
                    bytes_of.append(evaluate(access.address, at) * 4)
            if bytes_of:
                found.append(len({byte // 32 for byte in bytes_of}))
    return len(found), sum(found)


def test_requests_of_a_softmax_are_those_of_its_compiled_code() -> None:
    # 1,024 requests and 16,000 sectors were counted by executing the kernel's PTX.
    answer = hloscope.read(DUMP)["triton_softmax.2"].coalescing()
    assert str(answer.kernel.launch) == "128 threads × 64 blocks"
    for array in answer.arrays:
        assert array.traffic is not None
        assert (array.traffic.requests, array.traffic.sectors) == (1024, 16000)
        assert (array.traffic.lines, array.traffic.asked) == (4768, 512_000)
        assert dict(array.traffic.histogram) == {13: 128, 16: 896}
    assert answer.answer.findings == ()


@pytest.mark.slow
def test_requests_of_a_loop_are_those_of_every_lane() -> None:
    memory = Memory(hloscope.read(HLO).analysis, device_of("h100"))
    launch = Launch.of(64, 3)
    for access, vector in zip(
        parse_triton(Source("t", GEMM.read_text())).accesses, (4, 2, 2), strict=True
    ):
        one = access_by_thread(access, launch, 32)
        assert (one.bits, one.vector) == (32, vector)
        traffic = memory.counted(one.map, one.bits, launch, one.vector).traffic
        assert traffic is not None
        assert (traffic.requests, traffic.sectors) == sectors_of(access, 3, 64, vector)


STORE: Final = """\
// -----// IR Dump Before A //----- //
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
"builtin.module"() ({
  "tt.func"() <{sym_name = "k"}> ({
  ^bb0(%arg0: !tt.ptr<f32> "k", %arg1: !tt.ptr<f32> "k"):
    %0 = "tt.make_range"() <{end = 16 : i32, start = 0 : i32}> : () -> tensor<16xi32, #b> "k"
    %1 = "tt.splat"(%arg0) : (!tt.ptr<f32>) -> tensor<16x!tt.ptr<f32>, #b> "k"
    %2 = "tt.addptr"(%1, %0) : (tensor<16x!tt.ptr<f32>, #b>, tensor<16xi32, #b>) -> \
tensor<16x!tt.ptr<f32>, #b> "k"
    %3 = "tt.load"(%2) : (tensor<16x!tt.ptr<f32>, #b>) -> tensor<16xf32, #b> "k"
    "tt.store"(%2, %3) : (tensor<16x!tt.ptr<f32>, #b>, tensor<16xf32, #b>) -> () "k"
    %4 = "tt.load"(%arg1) : (!tt.ptr<f32>) -> f32 "k"
    "tt.store"(%arg1, %4) : (!tt.ptr<f32>, f32) -> () "k"
    "tt.return"() : () -> () "k"
  }) : () -> () "k"
}) {"ttg.num-warps" = 4 : i32} : () -> () "k"
"""


def test_all_holders_of_an_element_load_it_and_the_first_stores_it() -> None:
    memory = Memory(hloscope.read(HLO).analysis, device_of("h100"))
    launch = Launch.of(128, 1)
    found = []
    for access in parse_triton(Source("t", STORE)).accesses:
        one = access_by_thread(access, launch, 32)
        traffic = memory.counted(one.map, one.bits, launch, one.vector).traffic
        assert traffic is not None
        found.append((traffic.requests, traffic.sectors, traffic.lanes))
    assert found == [(4, 8, 128), (1, 2, 16), (4, 4, 128), (1, 1, 1)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example."""
    return copytree(DUMP, tmp_path / "dump")


def changed(folder: Path, end: str, old: str, new: str) -> Path:
    """Replace a text in one of the folder's files."""
    path = folder / f"{LABEL}.{end}"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return folder


def test_another_launch_is_a_finding_and_a_loop_is_counted_under_it(tmp_path: Path) -> None:
    write_module(tmp_path, 1, "jit_f", thunks=THUNKS.replace("[16, 1, 1]", "[8, 1, 1]"))
    answer = hloscope.read(tmp_path)["loop_negate_fusion.1"].coalescing().answer
    assert answer.findings == (
        "XLA launches 128 threads × 8 blocks, the model says 128 threads × 64 blocks",
    )
    assert str(answer.kernel.launch) == "128 threads × 8 blocks"
    assert not any(array.reason for array in answer.arrays)


def test_a_launch_that_no_emitter_has_leaves_figures_of_the_model_with_a_reason(
    tmp_path: Path,
) -> None:
    thunks = THUNKS.replace("[16, 1, 1] threads: [128, 1, 1]", "[4, 2, 1] threads: [16, 8, 1]")
    write_module(tmp_path, 1, "jit_f", thunks=thunks)
    answer = hloscope.read(tmp_path)["loop_negate_fusion.1"].coalescing().answer
    assert answer.findings == (
        "XLA launches 16x8 threads × 4x2 blocks, the model says 128 threads × 64 blocks",
    )
    assert all("not XLA's" in array.reason for array in answer.arrays)


def test_an_instruction_without_a_kernel_is_a_finding(tmp_path: Path) -> None:
    thunks = THUNKS.replace("kCustomKernel [source       | next=002 (1)]", "kCopy [source]")
    write_module(tmp_path, 1, "jit_f", thunks=thunks)
    (finding,) = hloscope.read(tmp_path)["loop_negate_fusion.1"].coalescing().answer.findings
    assert finding.startswith("XLA runs it as `kCopy`, the model says")


def test_operands_and_outputs_of_one_memory_are_noted(tmp_path: Path) -> None:
    write_module(tmp_path, 1, "jit_f")
    notes = hloscope.read(tmp_path)["loop_negate_fusion.1"].coalescing().answer.notes
    assert "operand 0 and output 0 are one memory (allocation 0)" in notes


def test_another_tile_is_a_finding(folder: Path) -> None:
    changed(folder, "triton_softmax.2.ttir.txt", "%c0] [2, 1024] [1, 1] : memref",
            "%c0] [4, 1024] [1, 1] : memref")  # fmt: skip
    answer = hloscope.read(folder)["triton_softmax.2"].coalescing().answer
    assert answer.findings == ("XLA's tile of operand 0 is 4x1024, the model's 2x1000",)


def test_a_folder_of_another_gpu_is_not_compared(folder: Path) -> None:
    answer = hloscope.read(folder)["triton_softmax.2"].coalescing("a100").answer
    assert answer.findings == ()
    assert answer.kernel.launch is None
    assert any("compiled for NVIDIA H100 80GB HBM3 (132 cores)" in n for n in answer.notes)


@pytest.mark.parametrize(
    ("file", "note"),
    [
        (f"{LABEL}.thunk_sequence.txt", ""),
        ("jit_softmax.triton_softmax_2.triton-to-llvm.txt", "--xla_dump_emitter_re=.*"),
    ],
)
def test_without_a_file_the_model_answers(folder: Path, file: str, note: str) -> None:
    (folder / file).unlink()
    answer = hloscope.read(folder)["triton_softmax.2"].coalescing().answer
    assert all(array.traffic is None and array.tile is not None for array in answer.arrays)
    assert note in "".join(answer.notes)


def test_code_of_two_modules_of_one_name_is_not_taken(folder: Path) -> None:
    for path in [*folder.glob(f"{LABEL}.*")]:
        path.with_name(path.name.replace("0001", "0002")).write_text(path.read_text())
    answer = hloscope.read(f"{folder}#2")["triton_softmax.2"].coalescing().answer
    assert any("several modules of the folder are called `jit_softmax`" in n for n in answer.notes)
    assert all(array.traffic is None for array in answer.arrays)


def test_a_cut_file_is_refused_when_it_is_needed(folder: Path) -> None:
    changed(folder, "thunk_sequence.txt", " threads: [128, 1, 1]  shared_memory: 32 bytes\n", "")
    program = hloscope.read(folder)
    with pytest.raises(ParseError, match="the thunk sequence is cut"):
        program["triton_softmax.2"].coalescing()


def test_a_cut_kernel_is_a_finding_and_others_are_answered(folder: Path) -> None:
    path = folder / "jit_softmax.triton_softmax_2.triton-to-llvm.txt"
    path.write_text(path.read_text()[:3000])
    answer = hloscope.read(folder)["triton_softmax.2"].coalescing().answer
    (finding,) = answer.findings
    assert finding.startswith(f"{path}:")
    assert finding.endswith("the file is cut")
    assert str(answer.kernel.launch) == "128 threads × 64 blocks"


def test_the_users_own_launch_is_not_compared(tmp_path: Path) -> None:
    write_module(tmp_path, 1, "jit_f")
    answer = hloscope.read(tmp_path)["loop_negate_fusion.1"].coalescing(threads=64).answer
    assert answer.findings == ()
