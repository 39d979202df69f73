"""Executed kernels as text and JSON, compared with the figures of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from hloscope.display.table import columns
from hloscope.ir import TensorType, size_text
from hloscope.memory import ArrayUse, Coalescing
from hloscope.memory.ptx import ArrayAccess, Counts, InstructionAccess, PtxRun, SharedAccess

PTX_SCHEMA: Final = "hloscope.ptx/1"


class KernelArray(Struct, frozen=True):
    """An array of a kernel: the accesses of its code, and the model's figures.

    Attributes:
        role: `operand` or `output`.
        number: Number of the operand or output.
        leaf: Index within its tuple; empty for arrays.
        type: Its type.
        shares_buffer: Does another array of the kernel have the same buffer?
        accesses: Accesses by kind: `read`, `written` or `atomic`; empty if the array is not
            accessed.
        model: The model's figures for the same array; `None` if there are none.
    """

    role: str
    number: int
    leaf: tuple[int, ...]
    type: TensorType
    shares_buffer: bool = False
    accesses: Mapping[str, ArrayAccess] = field(default_factory=dict)
    model: ArrayUse | None = None

    @property
    def name(self) -> str:
        """Return the name of the array, such as `operand 0`, `output 1` or `operand 0 {1}`."""
        leaf = f" {{{','.join(map(str, self.leaf))}}}" if self.leaf else ""
        return f"{self.role} {self.number}{leaf}"

    @property
    def code(self) -> Counts:
        """Return the sum of the requests of all kinds."""
        total = Counts()
        for access in self.accesses.values():
            total.add(access.counts)
        return total

    @property
    def agrees(self) -> bool | None:
        """Does the model have the same requests, sectors and bytes?

        `None` without a model.

        If run-time values or retries of atomic updates decide, the model has bounds: the code
        agrees if its figures are within them.
        """
        traffic = None if self.model is None else self.model.traffic
        if traffic is None:
            return None
        code = self.code
        figures = (code.requests, code.sectors, code.bytes)
        most = tuple(
            [f * traffic.tries for f in (traffic.requests, traffic.sectors, traffic.asked)]
        )
        if traffic.best is None and traffic.tries == 1:
            return figures == most
        least = traffic.best or traffic
        best = (least.requests, least.sectors, least.asked)
        return all(b <= f <= m for b, f, m in zip(best, figures, most, strict=True))


class ExecutedKernel(Struct, frozen=True):
    """A kernel of a dump folder that was executed.

    Attributes:
        instruction: Name of the HLO instruction.
        module: Label of the module in the folder.
        run: Counts of the execution.
        arrays: Arrays of the kernel, operands first.
        values: `equal`, or how the outputs differ from those of the HLO, or why they were not
            compared.
        model: The model's coalescing of the kernel; `None` if there is none.
        model_reason: Why there is no model; empty if there is one.
    """

    instruction: str
    module: str
    run: PtxRun
    arrays: tuple[KernelArray, ...]
    values: str
    model: Coalescing | None
    model_reason: str

    @property
    def is_wrong(self) -> bool:
        """Do the outputs differ from those of the HLO?"""
        return "differs" in self.values

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as an object of schema `hloscope.ptx/1`."""
        return {
            **ptx_json(self.run),
            "instruction": self.instruction,
            "module": self.module,
            "values": self.values,
            "model": None if self.model is None else self.model.model,
            "model_reason": self.model_reason,
            "comparison": [_comparison(array) for array in self.arrays],
        }

    def __str__(self) -> str:
        rows = [["array", "type", "", *_TOTALS, f"model: {_TOTALS[0]}", *_TOTALS[1:]]]
        rows += [[array.name, str(array.type), *_compared(array)] for array in self.arrays]
        model = self.model.model if self.model else f"no model: {self.model_reason}"
        outputs = f"outputs and the interpreter of the HLO: {self.values}"
        table = f"code and model ({model}):\n{_indented(rows, right=range(3, 9))}"
        head = f"{self.instruction} in {self.module}"
        return "\n\n".join([head, table, outputs, ptx_text(self.run)])


def ptx_json(run: PtxRun) -> dict[str, Any]:
    """Return a run as in schema `hloscope.ptx/1`."""
    return {
        "schema": PTX_SCHEMA,
        "file": run.file,
        "kernel": run.kernel,
        "launch": {
            "blocks": list(run.launch.grid),
            "threads": list(run.launch.block),
            "shared_memory_bytes": run.shared_bytes,
        },
        "steps": run.steps,
        "arrays": [{"name": a.array, "kind": a.kind, **_access_json(a)} for a in run.arrays],
        "instructions": [
            {"name": i.name, "line": i.line, "array": i.array, "kind": i.kind, **_totals(i.counts)}
            for i in run.instructions
        ],
        "shared_memory": [
            {"name": s.name, "line": s.line, "requests": s.requests, "mean": s.mean, "max": s.most}
            for s in run.shared
        ],
    }


def _totals(counts: Counts) -> dict[str, int]:
    return {
        "requests": counts.requests,
        "sectors": counts.sectors,
        "lines": counts.lines,
        "bytes": counts.bytes,
    }


def _access_json(access: ArrayAccess) -> dict[str, Any]:
    counts = access.counts
    return {
        **_totals(counts),
        "sectors_per_request": _histogram(counts.sectors_per_request),
        "lane_bytes": _histogram(counts.lane_bytes),
        "touched_bytes": access.touched.bytes,
        "touched_sectors": access.touched.sectors,
    }


def _histogram(amounts: dict[int, int]) -> dict[str, int]:
    return {str(n): amounts[n] for n in sorted(amounts)}


def _comparison(array: KernelArray) -> dict[str, Any]:
    traffic = None if array.model is None else array.model.traffic
    model = None
    if traffic is not None:
        model = {
            "requests": traffic.requests,
            "sectors": traffic.sectors,
            "bytes": traffic.asked,
            "precision": traffic.precision,
        }
    return {
        "role": array.role,
        "number": array.number,
        "leaf": list(array.leaf),
        "type": str(array.type),
        "shares_buffer": array.shares_buffer,
        "code": {kind: _access_json(access) for kind, access in array.accesses.items()},
        "model": model,
        "agrees": array.agrees,
    }


def ptx_text(run: PtxRun) -> str:
    """Return a run as text: launch, arrays, instructions, shared memory."""
    head = f"{run.kernel}: {_launch(run)}, {size_text(run.shared_bytes)} of shared memory"
    rows = [["array", "", *_HEAD, "touched"]]
    for access in run.arrays:
        touched = f"{size_text(access.touched.bytes)} in {access.touched.sectors:,} sectors"
        rows.append([access.array, access.kind, *_figures(access.counts), touched])
    parts = [head, _indented(rows, right=range(2, 8))]
    if run.instructions:
        parts.append(_instructions(run))
    if run.shared:
        parts.append(_shared(run))
    return "\n\n".join(parts)


_TOTALS: Final = ("requests", "sectors", "bytes")
_HEAD: Final = ("requests", "sectors", "lines", "bytes", "sectors/request")


def _figures(counts: Counts) -> list[str]:
    mean = counts.sectors / counts.requests if counts.requests else 0.0
    totals = [f"{n:,}" for n in _totals(counts).values()]
    return [*totals, f"{mean:.4g}"]


def _launch(run: PtxRun) -> str:
    blocks, threads = (_sizes(s) for s in (run.launch.grid, run.launch.block))
    return f"{threads} threads × {blocks} blocks"


def _sizes(sizes: tuple[int, int, int]) -> str:
    x, y, z = sizes
    return f"{x:,}" if (y, z) == (1, 1) else f"({x:,}, {y:,}, {z:,})"


def _instructions(run: PtxRun) -> str:
    """Return a table of the instructions of a run that access memory, as text.

    Instructions with one name that access one array share a row, with the line of the first.
    """
    groups: dict[tuple[str, str], list[InstructionAccess]] = {}
    for access in run.instructions:
        groups.setdefault((access.name, access.array), []).append(access)
    rows = [["instructions", "", "line", "array", *_HEAD]]
    for (name, array), members in groups.items():
        total = Counts()
        for member in members:
            total.add(member.counts)
        rows.append([name, _times(members), str(members[0].line), array, *_figures(total)])
    return _indented(rows, right=(1, 2, *range(4, 9)))


def _shared(run: PtxRun) -> str:
    """Return a table of a run's accesses to shared memory, as text.

    Instructions with one name share a row, with the line of the first.
    """
    groups: dict[str, list[SharedAccess]] = {}
    for access in run.shared:
        groups.setdefault(access.name, []).append(access)
    rows = [["shared memory", "", "line", "requests", "words of the busiest bank", "most"]]
    for name, members in groups.items():
        requests = sum(member.requests for member in members)
        words = sum(member.mean * member.requests for member in members)
        most = max(member.most for member in members)
        figures = [f"{requests:,}", f"{words / requests:.4g}", str(most)]
        rows.append([name, _times(members), str(members[0].line), *figures])
    return _indented(rows, right=range(1, 6))


def _times(members: Sequence[object]) -> str:
    return f"× {len(members)}" if len(members) > 1 else ""


def _indented(rows: list[list[str]], right: range | tuple[int, ...]) -> str:
    return "\n".join(f"  {line}" for line in columns(rows, right=right).splitlines())


def _compared(array: KernelArray) -> list[str]:
    kinds = " and ".join(array.accesses) or "not accessed"
    code = array.code
    figures = [f"{n:,}" for n in (code.requests, code.sectors, code.bytes)]
    traffic = None if array.model is None else array.model.traffic
    if traffic is None:
        return [kinds, *figures, "unknown"]
    theirs = [f"{n:,}" for n in (traffic.requests, traffic.sectors, traffic.asked)]
    verdict = "same" if array.agrees else "differs"
    if array.agrees and traffic.best is not None:
        verdict = "within the model's bounds"
    return [kinds, *figures, *theirs, verdict]
