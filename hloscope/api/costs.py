"""Answers about the cost of a whole program: its kernels in groups, with totals that add up."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Protocol

from hloscope.cost import AccessCost, Group, KernelCost, ProgramCost, grouped, program_cost
from hloscope.display import (
    COST_SCHEMA,
    Grouping,
    Table,
    access_cause,
    access_table,
    accesses_json,
    columns,
    cost_of_group_json,
    cost_of_kernel_json,
    cost_table,
    cost_totals_json,
    count_text,
    footprint_table,
    groups_json,
    provenance_of,
    time_text,
)
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.fusion import Analysis
from hloscope.ir import Computation, Instruction, Module
from hloscope.memory import Memory, size_text

COST_SORTS: Final = ("bound", "bytes", "flops", "waste")
"""Amounts that the groups of a program's kernels can be sorted by."""
_AMOUNTS: Final[dict[str, Callable[[KernelCost], int]]] = {
    "bound": lambda kernel: kernel.bound * kernel.runs,
    "bytes": lambda kernel: kernel.bytes,
    "flops": lambda kernel: kernel.flops,
    "waste": lambda kernel: kernel.wasted or 0,
}


class Costed(Protocol):
    """A program, as far as its cost depends on it."""

    @property
    def module(self) -> Module: ...
    @property
    def file(self) -> str: ...
    @property
    def analysis(self) -> Analysis: ...


class Cost:
    """The cost of a program; prints the groups of kernels with the largest bound of time.

    >>> import hloscope
    >>> program = hloscope.read("ENTRY e { p = f32[1024] parameter(0) "
    ...                         "n = f32[1024] negate(p) ROOT m = f32[1024] negate(n) }")
    >>> cost = program.cost()
    >>> [(group.total, len(group.members)) for group in cost.groups(sort="bytes")]
    [(16384, 2)]

    Attributes:
        program: The program.
        model: Every kernel with its figures.
    """

    def __init__(self, program: Costed, model: ProgramCost) -> None:
        self.program: Final = program
        self.model: Final = model

    @property
    def kernels(self) -> tuple[KernelCost, ...]:
        """Every kernel that runs, in program order, callers first."""
        return self.model.kernels

    def groups(self, by: str = "group", *, sort: str = "bound") -> list[Group[KernelCost]]:
        """The kernels in groups, the group with the largest total first.

        Args:
            by: `group`, `kernel`, `source`, `scope`, `scope:N`, `opcode` or `computation`.
            sort: The amount that totals state: `bound` (picoseconds), `bytes`, `flops` or
                `waste` (bytes).

        Raises:
            UnknownNameError: No grouping or amount has that name.
        """
        if sort not in _AMOUNTS:
            near = did_you_mean(sort, COST_SORTS)
            raise UnknownNameError(f"no amount `{sort}`{near}; known: {', '.join(COST_SORTS)}")
        grouping = Grouping(by, self.program.module)
        return grouped(self.kernels, lambda k: grouping.key(k, lambda: _equal(k)), _AMOUNTS[sort])

    def table(self, by: str = "group", *, sort: str = "bound", top: int | None = None) -> Table:
        """The groups as rows of text, with the rest and the sum of everything."""
        grouping = Grouping(by, self.program.module)
        return cost_table(self.groups(by, sort=sort), grouping, sort, top)

    def footprint_table(self, by: str = "group", top: int | None = None) -> Table:
        """The groups that read and write most bytes."""
        return footprint_table(
            self.groups(by, sort="bytes"), Grouping(by, self.program.module), top
        )

    def accesses(self, by: str = "group") -> list[Group[AccessCost]]:
        """The accesses that transfer bytes nobody asked for, in groups."""
        grouping = Grouping(by, self.program.module)
        wasteful = [access for access in self.model.accesses if access.wasted]
        return grouped(
            wasteful,
            lambda access: grouping.key(access, lambda: _equal_access(access)),
            lambda access: access.wasted,
        )

    def access_table(self, by: str = "group", top: int | None = None) -> Table:
        """The accesses that transfer most bytes nobody asked for."""
        return access_table(self.accesses(by), Grouping(by, self.program.module), top)

    def groups_json(self, by: str = "group", *, sort: str = "bound") -> list[dict[str, Any]]:
        """The groups as in schema `hloscope.cost/1`."""
        grouping = Grouping(by, self.program.module)
        return groups_json(
            self.groups(by, sort=sort), lambda group: cost_of_group_json(group, grouping)
        )

    def access_groups_json(self, by: str = "group") -> list[dict[str, Any]]:
        """The groups of accesses as in schema `hloscope.coalesce/2`."""
        grouping = Grouping(by, self.program.module)
        return groups_json(self.accesses(by), lambda group: accesses_json(group, grouping))

    def to_json(self, by: str = "group", *, sort: str = "bound") -> dict[str, Any]:
        """An object of schema `hloscope.cost/1`."""
        module = self.program.module
        groups = self.groups_json(by, sort=sort)
        return {
            "schema": COST_SCHEMA,
            "file": self.program.file,
            "module": module.name,
            "device": self.model.device.name,
            "by": by,
            "sort": sort,
            "total": sum([group["total"] for group in groups]),
            "totals": cost_totals_json(self.kernels),
            "assumed": self.notes,
            "groups": groups,
            "kernels": [
                cost_of_kernel_json(kernel, provenance_of(kernel.instruction, module))
                for kernel in self.kernels
            ],
        }

    @property
    def about(self) -> str:
        """The device and the size of the program, in one line."""
        totals = cost_totals_json(self.kernels)
        return (
            f"{totals['kernels']:,} kernels, {totals['runs']:,} runs; bounds for "
            f"{self.model.device.name}"
        )

    @property
    def figures(self) -> list[tuple[str, str]]:
        """Names of the program's totals with their texts."""
        totals = cost_totals_json(self.kernels)
        return [
            ("least time of all kernels", time_text(totals["bound_ps"])),
            ("bytes at least", size_text(totals["bytes"])),
            ("flops", count_text(totals["flops"])),
            ("unused bytes transferred", size_text(totals["unused_bytes"])),
        ]

    @property
    def notes(self) -> list[str]:
        """What was assumed about how often kernels run, each note once."""
        return list(dict.fromkeys([note for kernel in self.kernels for note in kernel.notes]))

    def __str__(self) -> str:
        table = self.table(top=20)
        return columns([table.header, *table.rows], right=table.right)

    __repr__ = __str__


def _equal(kernel: KernelCost) -> Hashable:
    """What kernels of one row have in common: who makes them, and the bytes of one run."""
    return kernel.maker, kernel.footprint.bytes


def _equal_access(access: AccessCost) -> Hashable:
    """What accesses of one row have in common: their kernels, unused bytes and cause."""
    array = access.array
    each = access.wasted // access.runs if access.runs else 0
    return _equal(access.kernel), array.is_output, each, access_cause(array)


def cost_of(
    program: Costed,
    memory: Memory,
    only: Iterable[tuple[Computation, Instruction]] | None = None,
    *,
    transfers: bool = True,
) -> Cost:
    """The cost of a program, or of some of its instructions, under a model of a device.

    Args:
        program: The program.
        memory: The model of what threads transfer, with the device.
        only: The instructions to count with their computations; all kernels if not given.
        transfers: Count what threads transfer, too; else bytes and flops only.

    Raises:
        VerifyError: An instruction is invalid.
    """
    return Cost(program, program_cost(program.module, memory, only, transfers=transfers))
