"""What instructions of programs of unknown sizes read, in terms of symbols, and through graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from hloscope.affine import Dim
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Access, Accesses, Precision
from hloscope.indexing.analysis import output_to_input
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.build import first_leaf, has_unknown_sizes, leaves, unknown
from hloscope.indexing.rules.dependence import Bodies
from hloscope.indexing.symbolic.frames import CALLS, Frame
from hloscope.indexing.symbolic.instances import (
    Difference,
    Instance,
    Told,
    by_rules,
    difference,
    instances,
    inverse_difference,
    of_leaf,
)
from hloscope.indexing.symbolic.maps import SizedBuilder
from hloscope.indexing.symbolic.rules import NO_RULE, Asked, symbolic_reads
from hloscope.indexing.symbolic.walk import SizeWalk
from hloscope.ir import Computation, Instruction, Module, TupleType, captures
from hloscope.ops import ELEMENTWISE, Parameter, control

MOST_WAYS: Final = 32
"""Of more ways in which a value is read only their number is told."""
MOST_VALUES: Final = 1 << 14
MOST_COMPARED: Final = 1 << 10
"""Maps that are compared with the op, those at other sizes counted; all at one of them at least."""
PASSING: Final = (
    control.Result, control.GetTupleElement, control.OptimizationBarrier, control.Return,
    control.Tuple,
)  # fmt: skip
"""Ops whose value is made of operands as they are."""
Called: TypeAlias = Callable[[Instance, int], Sequence[Accesses]]
Place: TypeAlias = tuple[Frame, Instruction, int]
"""A value where it is computed, and one of its arrays."""


class SizeComparison(NamedTuple):
    """The sizes at which maps were compared, and a difference if there is one.

    `given` are operands that were not compared: numbers that the function called was refined with.
    """

    sizes: Sequence[Mapping[str, int]]
    difference: Difference | None
    given: frozenset[int] = frozenset()


class SymbolicAnalysis:
    """Maps of a program of unknown sizes; their runtime variables are sizes with names."""

    def __init__(self, module: Module, bodies: Callable[[Instruction], Bodies]) -> None:
        self._walk: Final = SizeWalk(module)
        self._bodies: Final = bodies

    def reads(self, computation: Computation, ins: Instruction, output: int) -> list[Accesses]:
        """What an element of an output reads of each operand."""
        return self._reads(self._walk.frame_of(computation), ins, output)

    def _reads(self, frame: Frame, ins: Instruction, output: int) -> list[Accesses]:
        if not has_unknown_sizes(ins):
            return list(output_to_input(ins, output, reader=self._bodies))
        if isinstance(ins.op, PASSING):
            return _handed_on(frame, ins, output)
        if ins in frame.inner:
            return self._called(frame.inner[ins], ins, output)
        if any(isinstance(operand.type, TupleType) for operand in ins.operands):
            if isinstance(ins.op, ELEMENTWISE["copy"]):
                return _handed_on(frame, ins, output)
            return unknown_reads(len(ins.operands))  # rules are about arrays
        known = frame.of(ins)
        shape = known[output].shape if output < len(known) else None
        if shape is None:
            return [unknown("the value is not an array")] * len(ins.operands)
        bodies = self._bodies(ins) if ins.calls else ()
        asked = Asked(frame, ins, shape, frame.operands(ins), bodies)
        found = [tuple([a for a in some if _reads_any(a)]) for some in symbolic_reads(asked)]
        return [*found, *[unknown(NO_RULE)] * (len(ins.operands) - len(found))]

    def compared(
        self,
        computation: Computation,
        ins: Instruction,
        output: int,
        asked_from: tuple[int, int] | None,
        count: int,
        seed: int,
        called: Called | None = None,
    ) -> SizeComparison:
        """What an output reads, or is reached from, compared with the op at random sizes.

        Args:
            computation: The computation.
            ins: An instruction of it.
            output: The output.
            asked_from: An operand and one of its arrays; none for what the output reads.
            count: Of how many sizes.
            seed: Of the sizes.
            called: Tells what an output of an instance of a call reads of each operand, with a
                function that was refined to these sizes.

        Raises:
            LookupError: What it reads is decided by values, at known sizes too.
        """
        told = by_rules(self._bodies)
        if isinstance(ins.op, CALLS):
            if called is None:
                raise LookupError("it is what the function it calls reads")
            told = _by_refining(called)
        frame, sizes = self._walk.frame_of(computation), []
        reads = self._reads(frame, ins, output)
        reached: Accesses = ()
        if asked_from is not None:
            reached = inverted_accesses(reads[asked_from[0]], asked_from[1])
        count = max(1, min(count, MOST_COMPARED // (sum(map(len, reads)) or 1)))
        given: frozenset[int] = frozenset()
        wrong: Difference | None = None
        for instance in instances(frame, ins, count, seed):
            sizes.append(instance.sizes)
            if isinstance(ins.op, CALLS):
                given = frozenset([k for k, n in enumerate(instance.values) if n is not None])
            if asked_from is None:
                wrong = difference(instance, output, reads, told)
            elif asked_from[0] not in given:
                wrong = inverse_difference(instance, asked_from, output, reached, told)
            if wrong is not None:
                return SizeComparison(sizes, wrong, given)
        return SizeComparison(sizes, None, given)

    def _called(self, inner: Frame, call: Instruction, output: int) -> list[Accesses]:
        """What the function reads of its parameters."""
        try:
            found = _Back(inner, self._reads).run(inner.computation.root, output)
        except UnsupportedError as error:
            return [unknown(error.message)] * len(call.operands)
        reads: list[Accesses] = [()] * len(call.operands)
        for (parameter, leaf), accesses in found.items():
            number = inner.computation.parameters.index(parameter)
            reads[number] += tuple([replace(access, leaf=leaf) for access in accesses])
        return reads

    def to_parameters(
        self, computation: Computation, ins: Instruction, output: int
    ) -> dict[tuple[Instruction, int], Accesses]:
        """What an element of an output reads of the parameters of its computation."""
        return _Back(self._walk.frame_of(computation), self._reads).run(ins, output)


def _by_refining(called: Called) -> Told:
    """What calls read, by the functions they call at known sizes."""

    def reads(instance: Instance, output: int) -> list[Accesses | None]:
        found = zip(called(instance, output), instance.values, strict=True)
        return [accesses if number is None else None for accesses, number in found]

    return Told(
        reads,
        lambda instance, output, place, leaf: inverted_accesses(
            called(instance, output)[place], leaf
        ),
    )


def _handed_on(frame: Frame, ins: Instruction, output: int) -> list[Accesses]:
    """The reads of an op whose value is made of operands as they are."""
    reads: list[Accesses] = [()] * len(ins.operands)
    if isinstance(ins.op, control.Result | control.GetTupleElement):
        output += first_leaf(ins.operands[0].type, ins.op.index)
    for k, operand in enumerate(ins.operands):
        count = len(leaves(operand.type))
        if output < count:
            reads[k] = (replace(_itself(frame, operand, output), leaf=output),)
            break
        output -= count
    return reads


def unknown_reads(count: int) -> list[Accesses]:
    """Of values of which nothing is known."""
    return [unknown(NO_RULE)] * count


def inverted_accesses(accesses: Accesses, leaf: int) -> Accesses:
    """The accesses of one array in the other direction."""
    found = []
    for access in [replace(a, leaf=0) for a in of_leaf(accesses, leaf)]:
        if access.map is None:
            found.append(access)
            continue
        try:
            found.append(replace(access, map=access.map.inverse()))
        except UnsupportedError as error:
            found.append(Access.unknown(error.message))
    return tuple(found)


class _Back:
    """A walk from a value back to the parameters of its computation, through calls.

    `None` among what is read stands for the very element that is asked about.
    """

    def __init__(
        self, start: Frame, reads: Callable[[Frame, Instruction, int], list[Accesses]]
    ) -> None:
        self._start: Final = start
        self._reads: Final = reads
        self._open: list[tuple[int, int, Place]] = []
        self._found: dict[Place, dict[Access | None, None]] = {}
        self._count = 0

    def run(self, ins: Instruction, output: int) -> dict[tuple[Instruction, int], Accesses]:
        """What is read of each parameter, and of each of its arrays."""
        answer: dict[tuple[Instruction, int], Accesses] = {}
        self._add((self._start, ins, output), None)
        for _ in range(MOST_VALUES):
            if not self._open:
                return answer
            place = heappop(self._open)[2]
            frame, value, leaf = place
            accesses = self._found.pop(place)
            if isinstance(value.op, Parameter) and frame is self._start:
                answer[value, leaf] = tuple([a or _itself(frame, value, leaf) for a in accesses])
            else:
                self._visit(place, list(accesses))
        raise UnsupportedError(f"more than {MOST_VALUES:,} values are between")

    def _visit(self, place: Place, accesses: list[Access | None]) -> None:
        """Go on to what a value is, or to what it reads."""
        frame, ins, leaf = place
        same = self._same(frame, ins, leaf)
        if same is not None:
            for access in accesses:
                self._add(same, access)
            return
        if ins.calls and any(captures(callee) for callee in ins.calls):
            raise UnsupportedError(f"`{ins.name}` reads values from outside in a region")
        for operand, read in zip(ins.operands, self._reads(frame, ins, leaf), strict=True):
            for each in read:
                for access in accesses:
                    both = composed(access, each)
                    if _reads_any(both):
                        self._add((frame, operand, each.leaf), both)

    def _same(self, frame: Frame, ins: Instruction, leaf: int) -> Place | None:
        """Another value that this one is."""
        match ins.op:
            case Parameter(number) if frame.caller is not None:
                outer, call = frame.caller
                return outer, call.operands[number], leaf
            case control.Result(index) | control.GetTupleElement(index):
                return frame, ins.operands[0], first_leaf(ins.operands[0].type, index) + leaf
            case control.Return() | control.Tuple():
                for operand in ins.operands:
                    count = len(leaves(operand.type))
                    if leaf < count:
                        return frame, operand, leaf
                    leaf -= count
                return None
            case control.Call() | control.Composite() if ins in frame.inner:
                inner = frame.inner[ins]
                return inner, inner.computation.root, leaf
            case _:
                return None

    def _add(self, place: Place, access: Access | None) -> None:
        frame, value, _ = place
        if value not in frame.order:
            raise UnsupportedError(f"`{value.name}` comes from outside")
        known = self._found.get(place)
        if known is None:
            known = self._found[place] = {}
            self._count += 1
            heappush(self._open, (-frame.order[value], self._count, place))
        if len(known) >= MOST_WAYS:
            access = Access.unknown(f"it is read in more than {MOST_WAYS} ways")
            known.clear()
        known[access] = None


def _itself(frame: Frame, value: Instruction, leaf: int) -> Access:
    shape = frame.of(value)[leaf].shape
    if shape is None:
        return Access.unknown("the value is not an array")
    return Access(SizedBuilder(frame.symbols, shape).map([Dim(k) for k in range(len(shape))]))


def _reads_any(access: Access) -> bool:
    """May any index read something?"""
    return access.map is None or not access.map.is_known_empty


def composed(first: Access | None, second: Access) -> Access:
    """One access after another."""
    if first is None:
        return replace(second, leaf=0)
    if first.map is None or second.map is None:
        return Access.unknown(first.reason if first.map is None else second.reason)
    both: IndexingMap = first.map.compose(second.map).simplify().remove_unused_symbols()
    if Precision.OVER in (first.precision, second.precision):
        return Access(both, Precision.OVER, first.reason or second.reason)
    return Access(both)
