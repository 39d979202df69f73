"""Queries about an instruction as a kernel: coalescing, footprint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hloscope.indexing import IndexingMap
from hloscope.lazy import lazy

if TYPE_CHECKING:
    import hloscope.api.memory as memory
    from hloscope.api.program import Program
    from hloscope.ir import Instruction
    from hloscope.memory import ThreadLayout
else:
    memory = lazy("hloscope.api.memory")


class KernelQuestions:
    """Queries about an instruction as a kernel on a GPU."""

    @property
    def _kernel(self) -> tuple[Program, Instruction]:
        """The program and the instruction of the queries."""
        raise NotImplementedError

    def coalescing(
        self,
        device: str = "h100",
        *,
        threads: int | None = None,
        launch: tuple[int, int] | None = None,
        vector: int | None = None,
        thread_map: IndexingMap | ThreadLayout | str | None = None,
        tile: Sequence[int] | None = None,
    ) -> memory.Coalescing:
        """The memory requests of the warps of this kernel.

        Args:
            device: Name of the GPU.
            threads: Threads of a block of a loop, instead of XLA's choice.
            launch: Blocks and threads of a loop.
            vector: Elements of a thread of a loop.
            thread_map: From threads to elements of the output, instead of an emitter of XLA: a
                map, or the text of one, of a layout of Triton or of CuTe.
            tile: Tile sizes of a block-level fusion, or of the layout.

        Raises:
            UnsupportedError: It has no kernel of XLA's own emitters.
            UnknownNameError: There is no such device.

        >>> import hloscope
        >>> text = "ENTRY e { p = f32[64,512] parameter(0) ROOT n = f32[64,512] negate(p) }"
        >>> print(hloscope.read(text).root.coalescing().model)
        h100: loop, 128 threads × 256 blocks (rules of 2026-08)
        """
        sizes = None if tile is None else tuple(tile)
        given = (
            memory.thread_map_of(thread_map, sizes) if isinstance(thread_map, str) else thread_map
        )
        blocks, of_block = launch if launch is not None else (None, threads)
        model = memory.Model(device, of_block, blocks, vector, given, sizes)
        program, ins = self._kernel
        with program.lock:
            answer = model.memory(program.analysis, program.dump).of_instruction(ins)
        return memory.Coalescing(answer, ins, program.module)

    def footprint(self, device: str = "h100") -> memory.Footprint:
        """The least bytes that this kernel reads and writes.

        Args:
            device: The GPU, which decides what is updated in place.

        Raises:
            UnknownNameError: There is no such device.
        """
        program, ins = self._kernel
        with program.lock:
            return memory.Footprint(memory.footprint_of(program, ins, device))
