"""What the files of a dump folder state is read; damaged ones are refused at the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from hloscope.errors import InputError, ParseError, UnknownNameError
from hloscope.memory.dumps import (
    BufferSlice,
    DumpFolder,
    parse_buffers,
    parse_thunk_names,
    parse_thunks,
)
from hloscope.support.source import Source
from tests.memory.dumps.folders import BUFFERS, NAMES, THUNKS, VALUES, write_module

OLD_THUNKS = (
    "kKernel\t(no annotation)\n"
    "000: kKernel [source | sink] , kernel = fusion_1, launch dimensions = "
    "blocks: {40, 2, 1}, threads/block: {256, 1, 1}\n"
)


def test_launches_are_read_with_nested_thunks_and_unknown_kinds() -> None:
    thunks = parse_thunks(Source("t", THUNKS), parse_thunk_names(Source("m", NAMES)))
    assert [(t.id, t.kind, t.kernel, t.blocks, t.threads, t.shared_bytes) for t in thunks] == [
        (1, "kCustomKernel", "loop_negate_fusion_1", (16, 1, 1), (128, 1, 1), 0),
        (2, "kWhile", "", None, None, 0),
        (3, "kCustomKernel", "compare", (1, 1, 1), (1, 1, 1), 0),
        (4, "kSomethingNew", "", None, None, 0),
        (5, "kCustomKernel", "sort_6", (16, 2, 1), (1024, 1, 1), 4096),
        (6, "kCustomKernel", "sort_6__1", (64, 1, 1), (128, 1, 1), 0),
    ]
    assert thunks[0].instruction == "loop_negate_fusion.1"


def test_older_launch_dimensions_are_read() -> None:
    (thunk,) = parse_thunks(Source("t", OLD_THUNKS))
    assert (thunk.kernel, thunk.blocks, thunk.threads) == ("fusion_1", (40, 2, 1), (256, 1, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (THUNKS[: THUNKS.index("threads")], "t:1:19: error: the thunk sequence is cut: expected"),
        (THUNKS[: THUNKS.index("    005") + 12], "the file ends within a line"),
        (
            THUNKS[: THUNKS.index("    005")],
            "thunk 005, `fusion` in thunk_metadata.txt, is missing",
        ),
        (THUNKS.replace("grid: [16, 2, 1]", "grid: [16, 2"), "t:7:23: error: thunk 005: expected"),
    ],
)
def test_damaged_thunk_sequences_are_refused_at_the_place(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_thunks(Source("t", text), parse_thunk_names(Source("m", NAMES)))
    assert message in str(caught.value)


def test_allocations_are_rows_with_their_values() -> None:
    buffers = parse_buffers(Source("b", BUFFERS), Source("v", VALUES))
    assert buffers.total_bytes == 33112
    argument, output, heap, constant, local = buffers.allocations
    assert (argument.parameter, argument.parameter_index, argument.is_live_out) == (0, (), True)
    assert [value.name for value in argument.values] == ["p", "loop_negate_fusion.1"]
    assert (output.parameter, output.is_live_out) == (None, True)
    assert (heap.color, heap.is_temporary) == (1, True)
    assert (heap.values[0].name, heap.values[0].index, heap.values[0].offset) == (
        "phi.1",
        (1,),
        256,
    )
    assert (constant.is_constant, local.is_thread_local) == (True, True)


def test_values_are_in_the_bytes_of_their_positions() -> None:
    slices = parse_buffers(Source("b", BUFFERS), Source("v", VALUES)).slices
    assert slices["t", (0,)] == slices["loop_negate_fusion.1", ()] == BufferSlice(0, 0, 32768)
    assert slices["p", ()].overlaps(slices["t", (0,)])
    assert not slices["p", ()].overlaps(slices["t", ()])


def test_values_at_the_end_of_the_same_file_are_read() -> None:
    assert parse_buffers(Source("b", BUFFERS + VALUES)).positions[4][1] == ("t", (0,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("HloModule m\n", "b:1:1: error: expected `BufferAssignment:` in the first line"),
        (BUFFERS[: BUFFERS.index("(size")], "b:3:1: error: expected `value: <ID NAME @COLOR>"),
        (BUFFERS[: BUFFERS.index("allocation 3")], "the allocations have 33,104 bytes, XLA states"),
        (BUFFERS[: BUFFERS.index("allocation 4") + 20], "expected `allocation N: size BYTES, …:`"),
    ],
)
def test_damaged_buffer_assignments_are_refused_at_the_place(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_buffers(Source("b", text), Source("v", VALUES))
    assert message in str(caught.value)


def test_a_folder_gives_launches_and_files_by_instruction_or_kernel(tmp_path: Path) -> None:
    write_module(tmp_path, 7, "jit_f")
    module = DumpFolder(tmp_path).module()
    assert (module.label, module.name, module.number) == ("module_0007.jit_f", "jit_f", 7)
    launch = module.launch("loop_negate_fusion.1")
    assert launch is not None
    assert launch == module.launch("loop_negate_fusion_1")
    assert module.ptx("loop_negate_fusion.1") == tmp_path / "module_0007.jit_f.1.ptx"
    assert [thunk.kernel for thunk in module.launches("fusion")] == ["sort_6", "sort_6__1"]
    assert module.launch("fusion") is None
    assert module.ptx("compare") is None


def test_shared_memory_is_that_of_the_launch_and_of_static_arrays(tmp_path: Path) -> None:
    arrays = "\t.shared .align 4 .b8 shared_0[8320];\n\t.shared .align 16 .b8 s1[16];\n"
    outside = ".extern .shared .align 16 .b8 global_smem[];\n"
    ptx = f"{outside}.visible .entry sort_6(\n)\n{{\n{arrays}}}\n"
    write_module(tmp_path, 1, "jit_f", thunks=THUNKS.replace("sort_6__1", "other"), ptx=ptx)
    module = DumpFolder(tmp_path).module()
    assert module.shared_bytes("sort_6") == 4096 + 8320 + 16
    assert module.shared_bytes("compare") is None


def test_what_a_folder_does_not_hold_is_none(tmp_path: Path) -> None:
    write_module(tmp_path, 1, "jit_f", thunks=None, names=None, buffers=None, values=None, ptx=None)
    module = DumpFolder(tmp_path).module()
    assert module.thunks is None
    assert module.buffers is None
    assert module.launch("loop_negate_fusion.1") is None
    assert module.ptx("loop_negate_fusion.1") is None


def test_one_of_several_modules_is_named(tmp_path: Path) -> None:
    write_module(tmp_path, 1, "jit_f")
    write_module(tmp_path, 12, "jit_g.1")
    folder = DumpFolder(tmp_path)
    assert folder.module("jit_f").number == folder.module("1").number == 1
    assert folder.module("module_0012.jit_g.1").name == "jit_g.1"
    with pytest.raises(UnknownNameError, match=r"holds 2 compiled programs: .*module_0001\.jit_f"):
        folder.module()
    with pytest.raises(UnknownNameError, match=r"no compiled program `jit_h`.*did you mean"):
        folder.module("jit_h")


def test_folders_without_a_compiled_program_are_refused(tmp_path: Path) -> None:
    (tmp_path / "module_0001.jit_f.before_optimizations.txt").write_text("HloModule f")
    with pytest.raises(InputError, match="without a compiled program"):
        DumpFolder(tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        DumpFolder(tmp_path / "nowhere")


def test_files_that_are_not_text_are_refused(tmp_path: Path) -> None:
    write_module(tmp_path, 1, "jit_f")
    (tmp_path / "module_0001.jit_f.thunk_sequence.txt").write_bytes(b"001: \xff")
    with pytest.raises(InputError, match="not UTF-8: see byte 5"):
        _ = DumpFolder(tmp_path).module().thunks
