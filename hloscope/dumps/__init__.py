"""Dump folders of XLA: what the compiler states of launches, buffers and Triton's layouts."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.dumps.buffers import (
        Allocation as Allocation,
        Buffers as Buffers,
        BufferSlice as BufferSlice,
        BufferValue as BufferValue,
        parse_buffers as parse_buffers,
    )
    from hloscope.dumps.folder import DumpedModule as DumpedModule, DumpFolder as DumpFolder
    from hloscope.dumps.thunks import (
        Thunk as Thunk,
        parse_thunk_names as parse_thunk_names,
        parse_thunks as parse_thunks,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
