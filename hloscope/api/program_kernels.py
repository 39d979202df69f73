"""Memory traffic of all kernels of a program: coalescing and footprints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from hloscope.api.costs import Cost, cost_of
from hloscope.api.invalid import Invalid, check, check_part
from hloscope.api.memory import Model
from hloscope.cost import KernelCost, is_judged_by_threads, running, target_of
from hloscope.display import (
    COALESCE_SCHEMA,
    FOOTPRINT_SCHEMA,
    Grouping,
    Shown,
    Table,
    coalescing_json,
    coalescing_text,
    groups_svg,
    provenance_of,
    run_json,
    styled,
    table_text,
    warps_html,
    warps_svg,
)
from hloscope.errors import UnsupportedError
from hloscope.ir import Computation, Instruction, Module
from hloscope.memory import Coalescing as Answer, Memory
from hloscope.support.devices import DEFAULT, gpu_of

if TYPE_CHECKING:
    from hloscope.api.program import Program

INVALID: Final = "invalid"
"""Value of `Refused.maker` for an invalid kernel, in place of the name of an emitter."""


class Refused(Struct, frozen=True):
    """A kernel without a result.

    Attributes:
        name: Name of the fusion or instruction.
        reason: Why there is no result.
        maker: What made the kernel's code, by `hloscope.memory.kind_of`: XLA's emitters, Triton or
            a library.
    """

    name: str
    reason: str
    maker: str = ""


class ProgramCoalescing(Shown):
    """Coalescing of a program's kernels.

    Attributes:
        cost: The costs of the kernels, with how often they run.
        kernels: The coalescing of each kernel that has a thread map, in program order.
        refused: Kernels without a thread map, with the reason.
    """

    def __init__(self, program: Program, cost: Cost, refused: Iterable[Refused] = ()) -> None:
        """Store the costs of a program's kernels; kernels without a thread map go to `refused`.

        Args:
            program: The program.
            cost: The costs of its valid kernels.
            refused: The invalid kernels, which `cost` lacks.
        """
        self._program: Final = program
        self.cost: Final = cost
        self._known: Final = [
            (kernel, kernel.coalescing) for kernel in cost.kernels if kernel.coalescing is not None
        ]
        self.kernels: Final = tuple([answer for _, answer in self._known])
        self.refused: Final = tuple(
            [
                Refused(k.instruction.name, k.reason, k.maker)
                for k in cost.kernels
                if k.coalescing is None
            ]
            + list(refused)
        )

    def check_refused(self) -> None:
        """Raise the first finding about kernels without a thread map.

        Raises:
            VerifyError: One of these kernels is invalid.
        """
        without = [k.instruction for k in self.cost.kernels if k.coalescing is None]
        if without:
            check_part(self._program.module, without)

    @property
    def lowest(self) -> float:
        """Return the lowest efficiency of an access; 1 without accesses."""
        return min([answer.lowest for answer in self.kernels], default=1.0)

    @property
    def wasted(self) -> int:
        """Return the unused bytes that all kernels transfer, in all runs."""
        return sum([answer.wasted * kernel.runs for kernel, answer in self._known])

    @property
    def refused_by_maker(self) -> dict[str, int]:
        """Return the number of kernels without a result by maker, largest number first."""
        return dict(Counter([one.maker for one in self.refused]).most_common())

    def table(self, top: int | None = None, by: str = "group") -> Table:
        """Return the groups of accesses with the most unused bytes as rows of text, with their sum.

        `top` is the maximum number of groups, `by` the grouping: see `Cost.groups`.
        """
        return self.cost.access_table(by, top)

    def to_json(self, by: str = "group") -> dict[str, Any]:
        """Return an object of schema `hloscope.coalesce/2`; `by` is the grouping of accesses."""
        module = self._program.module
        return {
            "schema": COALESCE_SCHEMA,
            "file": self._program.file,
            "module": module.name,
            "wasted_bytes": self.wasted,
            "efficiency": self.lowest,
            "by": by,
            "groups": self.cost.access_groups_json(by),
            "kernels": [
                coalescing_json(
                    answer,
                    computation=kernel.computation.name,
                    **provenance_of(kernel.instruction, module).to_json(),
                    runs=kernel.runs,
                )
                for kernel, answer in self._known
            ],
            "refused": [
                {"name": r.name, "reason": r.reason, "maker": r.maker} for r in self.refused
            ],
        }

    def __str__(self) -> str:
        return table_text(self.table())

    def to_text(self) -> str:
        """Return the coalescing of every kernel as text, in program order."""
        return "\n\n".join(map(coalescing_text, self.kernels))

    def to_svg(self) -> str:
        """Return a picture of the kernel with the most unused bytes.

        Raises:
            UnsupportedError: No kernel has a thread map.
        """
        if not self.kernels:
            raise UnsupportedError("there is no kernel to draw")
        return warps_svg(self._most_wasteful(1)[0])

    def to_html(self, top: int = 10) -> str:
        """Return an HTML page about the `top` kernels with the most unused bytes.

        Raises:
            UnsupportedError: No kernel has a thread map.
        """
        chosen = self._most_wasteful(top)
        if not chosen:
            raise UnsupportedError("there is no kernel to draw")
        return warps_html(chosen, [coalescing_text(answer) for answer in chosen])

    def _most_wasteful(self, top: int) -> list[Answer]:
        by_waste = sorted(self._known, key=lambda known: -known[1].wasted * known[0].runs)
        return [answer for _, answer in by_waste[:top]]


class ProgramFootprint(Shown):
    """The bytes that a program's kernels read and write.

    Attributes:
        cost: The costs of the kernels, with how often they run.
    """

    def __init__(self, program: Program, cost: Cost) -> None:
        self._program: Final = program
        self.cost: Final = cost

    @property
    def kernels(self) -> list[KernelCost]:
        """Return the kernels that run, most bytes first."""
        return sorted(self.cost.kernels, key=lambda kernel: -kernel.bytes)

    @property
    def total(self) -> int:
        """Return the bytes that all kernels read and write, in all runs."""
        return sum([kernel.bytes for kernel in self.cost.kernels])

    @property
    def notes(self) -> list[str]:
        """Return the assumptions about how often kernels run."""
        return self.cost.assumed

    def table(self, top: int | None = None, by: str = "group") -> Table:
        """Return the groups of kernels that read and write most as rows of text, and the sum.

        `top` is the maximum number of groups, `by` the grouping: see `Cost.groups`.
        """
        return self.cost.footprint_table(by, top)

    def to_svg(self, top: int = 20, by: str = "group") -> str:
        """Return a picture of the `top` groups of kernels that read and write most.

        `by` is the grouping: see `Cost.groups`.
        """
        name = self._program.file or self._program.module.name
        grouping = Grouping(by, self._program.module)
        return groups_svg(self.cost.groups(by, sort="bytes"), grouping, name, top)

    def __str__(self) -> str:
        return table_text(self.table())

    def _repr_html_(self) -> str:
        return styled(self.to_svg())

    def to_json(self, by: str = "group") -> dict[str, Any]:
        """Return an object of schema `hloscope.footprint/1`; `by` is the grouping of kernels."""
        module = self._program.module
        return {
            "schema": FOOTPRINT_SCHEMA,
            "file": self._program.file,
            "module": module.name,
            "bytes": self.total,
            "assumed": self.notes,
            "by": by,
            "groups": self.cost.groups_json(by, sort="bytes"),
            "kernels": [
                run_json(kernel, provenance_of(kernel.instruction, module))
                for kernel in self.kernels
            ],
        }


def kernels_of(module: Module) -> list[tuple[Computation, Instruction]]:
    """Return every kernel of a program: fusions, and instructions that run by themselves.

    Instructions inside fusions and reducers are part of those kernels. Loops and branches have the
    kernels of their bodies.
    """
    return [(place.computation, i) for place in running(module) for i in place.kernels]


def refuse_other_targets(program: Program, device: str, *, is_named: bool) -> None:
    """Raise an error for a program that was compiled for another kind of device than a GPU.

    Args:
        program: The program.
        device: Name of the GPU whose threads the query is about.
        is_named: Does the query name kernels? Then a program that was not compiled is allowed: each
            kernel is treated as if compiled alone.

    Raises:
        UnsupportedError: The program was compiled for a CPU or TPU, or not compiled.
    """
    target = target_of(program.module)
    if is_judged_by_threads(program.module, target, gpu_of(device)):
        return
    if is_named and not target.is_compiled:
        return
    check(program.module)  # if the program is invalid, that is the more useful error
    compiled = f"compiled for {target.kind}" if target.is_compiled else "not compiled"
    raise UnsupportedError(
        f"the program is {compiled} ({target.evidence}), so threads of {device} do not judge it:"
        f" --as-if {device} judges it as if they did"
    )


def coalescing_of_all(
    program: Program,
    memory: Memory,
    places: Iterable[tuple[Computation, Instruction]],
    invalid: Invalid | None = None,
) -> ProgramCoalescing:
    """Return the coalescing of many kernels; those without a result are listed with the reason.

    Args:
        program: The program.
        memory: The model of the GPU's threads.
        places: The kernels, with their computations.
        invalid: Findings about the program; kernels with findings are only listed. `None` for a
            valid program.

    Raises:
        VerifyError: A kernel is invalid.
    """
    refused: list[Refused] = []
    if invalid is not None and invalid.reasons:
        refused = [Refused(ins.name, reason, INVALID) for ins, reason in invalid.reasons.items()]
        places = [place for place in places if invalid.is_answered(*place)]
    return ProgramCoalescing(program, cost_of(program, memory, places, transfers=True), refused)


def footprint_of_program(
    program: Program,
    device: str = DEFAULT,
    invalid: Invalid | None = None,
    shown: Callable[[Sequence[Any]], Iterable[Any]] = iter,
) -> ProgramFootprint:
    """Return the bytes that the kernels of a program read and write.

    Args:
        program: The program.
        device: Name of the GPU, which decides which updates are in place.
        invalid: Findings about the program; kernels with findings are left out. `None` for a valid
            program.
        shown: Iterates over the kernels; it may show progress.

    Raises:
        VerifyError: A kernel is invalid.
    """
    memory = Model(device).memory(program.analysis)
    cost = cost_of(program, memory, transfers=False, invalid=invalid, shown=shown)
    return ProgramFootprint(program, cost)
