"""Comparison of maps with execution, on a small test program."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Final, TypeVar

from hloscope.errors import HloscopeError
from hloscope.fusion import Analysis, ParameterReads, leaf_types
from hloscope.indexing import UNKNOWN_COUNTS, Accesses, DeviceCounts
from hloscope.ir import Computation, Instruction
from hloscope.proof.allowance import Deadline
from hloscope.proof.check import Executed
from hloscope.proof.elements import Place
from hloscope.proof.evidence import Evidence
from hloscope.proof.instance import Instance, instance_of
from hloscope.proof.involved import NotExecutableError
from hloscope.simplifier import UndecidedError

T = TypeVar("T")

SECONDS: Final = 2.0
"""Processor time to make a test program and run it; afterwards no further run begins."""


class Execution:
    """Runs of the test program of one instruction, and checks of its maps against them.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = "ENTRY e { p = f32[4,6] parameter(0) "
    >>> text += "ROOT r = f32[6,4] transpose(p), dimensions={1,0} }"
    >>> root = parse_hlo(text).entry.root
    >>> execution = Execution(root)
    >>> result = execution.check(0, 0, 0)
    >>> result.seen, result.pairs, result.violation
    (24, 24, None)
    """

    def __init__(
        self,
        ins: Instruction,
        computation: Computation | None = None,
        seed: int = 0,
        seconds: float = inf,
        said: DeviceCounts = UNKNOWN_COUNTS,
    ) -> None:
        self.reason = ""
        self._inverse: dict[Place, Accesses] = {}
        self.evidence: Evidence | None = None
        self._deadline: Final = Deadline(min(seconds, SECONDS))
        try:
            self.instance = instance_of(ins, computation, self._deadline, said)
            devices = self.instance.devices
            counts = DeviceCounts(devices.replicas, devices.partitions)
            self._analysis: Final = Analysis(counts=counts)
            claims = _asked(self._claims)
            self.evidence = Evidence(self.instance, claims, seed, self._deadline)
        except (NotExecutableError, UndecidedError) as error:
            self.reason = str(error)
        except HloscopeError as error:
            self.reason = error.message

    def _claims(self) -> dict[Place, Accesses]:
        """Return the maps of the test program."""
        instance = self.instance
        found: dict[Place, Accesses] = {}
        inside = instance.computation
        reads = None if inside is None else ParameterReads(self._analysis, inside)
        for k in range(len(leaf_types(instance.ins.type))):
            self._deadline.check()
            if reads is not None:
                for (end, leaf), accesses in reads.of(instance.ins, k).items():
                    if end in instance.sources:
                        found[k, instance.sources.index(end), leaf] = accesses
                continue
            for (operand, leaf), some in self._analysis.output_to_input(instance.ins, k).items():
                found[k, _position(instance, operand), leaf] = some
        return found

    def inverse(self, place: Place) -> Accesses:
        """Return the test program's maps from a source to an output."""
        if place not in self._inverse:
            _, source, leaf = place
            ins = self.instance.ins
            outputs = range(len(leaf_types(ins.type)))
            self._inverse |= {(k, source, leaf): () for k in outputs}
            operand = source if source < len(ins.operands) else self.instance.sources[source]
            for k, some in self._analysis.input_to_output(ins, operand, leaf).items():
                self._inverse[k, source, leaf] = some
        return self._inverse[place]

    def check(
        self,
        output: int,
        operand: int,
        leaf: int,
        accesses: Accesses | None = None,
        *,
        inverse: bool = False,
    ) -> Executed:
        """Check the maps of an operand against the runs.

        Args:
            output: Number of the output.
            operand: Number of the operand; with a computation, of the parameter.
            leaf: Number of the operand's tensor.
            accesses: Maps of the program itself, by logical indices.  They are checked if the test
                program has the program's sizes.  Otherwise its own maps are.
            inverse: The maps lead from the operand to the output.
        """
        evidence, place = self.evidence, (output, operand, leaf)
        if evidence is None or not evidence.runs:
            return Executed(reason=self._why_not())
        if not evidence.elements.has(*place[1:]):
            return Executed(reason="it has no elements")
        # Maps of the program do not apply to a smaller test program, which has its own.
        if self.instance.is_smaller or accesses is None:
            accesses = None
            if inverse:
                try:
                    accesses = _asked(partial(self.inverse, place))
                except UndecidedError as error:
                    return Executed(reason=str(error))
        said = evidence.claims.get(place, ()) if accesses is None else accesses
        if any(a.map is None for a in said):
            return Executed(reason="nothing is claimed of the instance")
        try:
            seen, pairs, violation = evidence.shows(place, accesses, inverse)
        except UndecidedError as error:
            return Executed(reason=str(error))
        return Executed(
            evidence.runner.count, seen, pairs, self.instance.shapes, violation=violation
        )

    def suspects(self, output: int) -> frozenset[tuple[int, int]]:
        """Return the source tensors that the maps have for an output, or that may change it."""
        evidence = self.evidence
        if evidence is None or not evidence.runs or evidence.undecided:
            return frozenset()
        places = {place for place, accesses in evidence.claims.items() if accesses}
        leaves = {(output, leaf.source, leaf.number) for leaf in evidence.elements.leaves}
        places |= {place for place in leaves if evidence.is_suspect(place)}
        return frozenset([place[1:] for place in places if place[0] == output])

    def nothing_seen(self) -> Executed:
        """Return the evidence about the tensors that are not `suspects`."""
        evidence = self.evidence
        if evidence is None or not evidence.runs or evidence.undecided:
            return Executed(reason=self._why_not())
        return Executed(evidence.runner.count, shapes=self.instance.shapes)

    def _why_not(self) -> str:
        """Return the reason why nothing was run."""
        if self.evidence is None:
            return self.reason
        failures = [self.evidence.undecided or "there are no elements"]
        return [*self.evidence.failures, *failures][0]


def _asked(question: Callable[[], T]) -> T:
    """Call an analysis of a program that may be inconsistent.

    Raises:
        UndecidedError: The program is inconsistent.
    """
    try:
        return question()
    except (ValueError, LookupError, TypeError, AssertionError):
        raise UndecidedError("the program is inconsistent") from None


def _position(instance: Instance, operand: int | Instruction) -> int:
    """Return the source number of an operand or captured value."""
    if isinstance(operand, int):
        return operand
    return instance.sources.index(operand, len(instance.ins.operands))
