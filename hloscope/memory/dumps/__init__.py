"""XLA's dump folders: the compiler's facts about launches, buffers and Triton's layouts."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.memory.dumps.buffers import (
        Allocation as Allocation,
        Buffers as Buffers,
        BufferSlice as BufferSlice,
        BufferValue as BufferValue,
        Thunk as Thunk,
        parse_buffers as parse_buffers,
        parse_thunk_names as parse_thunk_names,
        parse_thunks as parse_thunks,
    )
    from hloscope.memory.dumps.folder import (
        DumpedModule as DumpedModule,
        DumpFolder as DumpFolder,
        DumpTarget as DumpTarget,
        is_dump_folder as is_dump_folder,
        kernel_name as kernel_name,
    )
    from hloscope.memory.dumps.triton_code import (
        ProgramTile as ProgramTile,
        TritonAccess as TritonAccess,
        TritonKernel as TritonKernel,
        parse_tiles as parse_tiles,
        parse_triton as parse_triton,
    )
    from hloscope.memory.dumps.triton_values import (
        FIRST_INDEX as FIRST_INDEX,
        PROGRAM as PROGRAM,
        layout_of as layout_of,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
