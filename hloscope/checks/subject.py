"""The program under check, with the analyses that several rules share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from hloscope.checks.findings import Finding
from hloscope.cost import Place, ProgramCost, program_cost, running
from hloscope.devices import DEFAULT, gpu_of
from hloscope.display import Provenance, provenance_of
from hloscope.fusion import Analysis, leaf_types
from hloscope.ir import Computation, Instruction, Module, TensorType, Type
from hloscope.memory import Memory
from hloscope.ops import AsyncStart, Call, Case, Parameter as Argument, While
from hloscope.walks import nearest_first

_STEPS: Final = (Call, Case, While, AsyncStart)
"""Ops that run the computations they call instruction by instruction."""


class Subject:
    """A program under check.

    Attributes:
        module: The program graph.
        file: Its name in findings.
    """

    def __init__(self, module: Module, file: str, known_cost: ProgramCost | None = None) -> None:
        """Take the program, and the cost of all its kernels if the caller has it already."""
        self.module: Final = module
        self.file: Final = file
        self._known_cost: Final = known_cost
        self._costs: Final[dict[tuple[str, bool | None], ProgramCost]] = {}

    # All rules share the properties below, and `finding` reads two of them for each finding.
    @cached_property
    def analysis(self) -> Analysis:
        """The analysis of the program's maps, shared by all rules."""
        return Analysis(has_regions=self.module.has_tree)

    @cached_property
    def places_run(self) -> dict[Computation, Place]:
        """How often each computation runs, for those that are not part of a kernel."""
        return {place.computation: place for place in running(self.module)}

    def cost(self, device: str, *, transfers: bool | None = None) -> ProgramCost:
        """The cost of every kernel on a GPU.

        Args:
            device: Name of the GPU.
            transfers: Count the transfers of threads for every target of the program.
        """
        known = self._known_cost
        if known is not None and transfers is None and known.device == gpu_of(device):
            return known
        key = device, transfers
        if key not in self._costs:  # rules about one device share it
            memory = Memory(self.analysis, gpu_of(device))
            self._costs[key] = program_cost(self.module, memory, memory.device, transfers=transfers)
        return self._costs[key]

    @cached_property
    def step_bytes(self) -> int:
        """Least bytes that all kernels read and write in one run of the program."""
        cost = self._known_cost
        if cost is None:
            memory = Memory(self.analysis, gpu_of(DEFAULT))
            cost = program_cost(self.module, memory, memory.device, transfers=False)
        return sum([kernel.bytes for kernel in cost.kernels])

    @cached_property
    def computations(self) -> tuple[Computation, ...]:
        """All computations, including regions."""
        return tuple(nearest_first(self.module, lambda computation: computation.callees))

    @cached_property
    def _callers(self) -> dict[Computation, list[Instruction]]:
        """The instructions that call each computation."""
        callers = defaultdict[Computation, list[Instruction]](list)
        for computation in self.computations:
            for ins in computation:
                for callee in ins.calls:
                    callers[callee].append(ins)
        return callers

    def sources(self, computation: Computation, ins: Instruction) -> Iterator[Instruction]:
        """Yield the values that a value comes from.

        They are the operands, the results of called computations, and for a parameter the arguments
        of its callers.
        """
        yield from ins.operands
        for callee in ins.calls:
            yield callee.root
            yield from callee.root.operands
        if isinstance(ins.op, Argument):
            count = len(computation.parameters)
            for caller in self._callers.get(computation, ()):
                given = caller.operands
                number = ins.op.number
                # Operands match parameters by position, except for ops such as loops, whose
                # operands are all possible sources.
                yield from given[number : number + 1] if len(given) == count else given

    @cached_property
    def steps(self) -> tuple[Computation, ...]:
        """The computations whose instructions run one by one: not those of fusions and reducers."""
        module = self.module
        roots = [module.entry] if not module.has_tree else list(module)

        def onward(computation: Computation) -> Iterator[Computation]:
            return (c for ins in computation if isinstance(ins.op, _STEPS) for c in ins.calls)

        return tuple(nearest_first(roots, onward))

    def places(self, *, everywhere: bool = False) -> Iterator[tuple[Computation, Instruction]]:
        """Yield the instructions that run one by one, with their computations.

        With `everywhere`, yield all instructions.
        """
        for computation in self.computations if everywhere else self.steps:
            for ins in computation:
                yield computation, ins

    def provenance(self, ins: Instruction) -> Provenance:
        """The framework's name and source position of an instruction."""
        return provenance_of(ins, self.module)

    def finding(
        self,
        rule: str,
        computation: Computation,
        ins: Instruction,
        message: str,
        value: float = 0,
        *,
        cause: str = "",
        of_bytes: bool = False,
    ) -> Finding:
        """A finding at an instruction.

        Args:
            rule: Name of the rule.
            computation: The computation of the instruction.
            ins: The instruction.
            message: What was found and what is expected.
            value: Amount of the violation in one run.
            cause: Key that findings of one cause share.
            of_bytes: Is the value a number of bytes that each run costs?
        """
        origin, span = self.provenance(ins), ins.span
        place = self.places_run.get(computation)
        runs = place.times if place is not None and of_bytes else 1
        total = value * runs
        # A copy may not count as a kernel's bytes, so the share is limited to 1.
        step = max(self.step_bytes, total) if of_bytes else 0
        return Finding(
            rule,
            message,
            self.file,
            ins.name,
            computation.name,
            span.line_col[0] if span is not None else 0,
            origin.op_name,
            origin.place,
            total,
            cause=cause,
            runs=runs,
            share=total / step if step else None,
        )


def arrays_of(type_: Type) -> list[TensorType]:
    """The arrays of a type, including those in tuples."""
    return [leaf for leaf in leaf_types(type_) if isinstance(leaf, TensorType)]
