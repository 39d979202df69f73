"""PTX: kernels are read and executed on numpy arrays, with every memory access counted."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.ptx.answers import (
        KINDS as KINDS,
        ArrayAccess as ArrayAccess,
        InstructionAccess as InstructionAccess,
        PtxRun as PtxRun,
        SharedAccess as SharedAccess,
        Touched as Touched,
        answer_of as answer_of,
    )
    from hloscope.ptx.counting import (
        Accesses as Accesses,
        Counts as Counts,
        bank_words as bank_words,
        count_requests as count_requests,
    )
    from hloscope.ptx.errors import KernelError as KernelError
    from hloscope.ptx.reader import parse_ptx as parse_ptx
    from hloscope.ptx.running import (
        Argument as Argument,
        Executed as Executed,
        Given as Given,
        Launch as Launch,
        Limits as Limits,
        Same as Same,
        execute as execute,
    )
    from hloscope.ptx.syntax import (
        Instruction as Instruction,
        Kernel as Kernel,
        PtxModule as PtxModule,
        Variable as Variable,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
