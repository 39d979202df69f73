"""PTX: kernels are read and executed on numpy arrays, with every memory access counted."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.memory.ptx.counting import (
        Accesses as Accesses,
        Counts as Counts,
        bank_words as bank_words,
        count_requests as count_requests,
    )
    from hloscope.memory.ptx.machine import KernelError as KernelError
    from hloscope.memory.ptx.reader import parse_ptx as parse_ptx
    from hloscope.memory.ptx.running import (
        KINDS as KINDS,
        Argument as Argument,
        ArrayAccess as ArrayAccess,
        Executed as Executed,
        Given as Given,
        InstructionAccess as InstructionAccess,
        Launch as Launch,
        Limits as Limits,
        PtxRun as PtxRun,
        Same as Same,
        SharedAccess as SharedAccess,
        Touched as Touched,
        answer_of as answer_of,
        execute as execute,
    )
    from hloscope.memory.ptx.syntax import (
        Instruction as Instruction,
        Kernel as Kernel,
        PtxModule as PtxModule,
        Variable as Variable,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
