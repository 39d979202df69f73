"""Accesses of instructions with unknown sizes, in terms of symbols, also through whole graphs."""

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
"""Number of accesses of a value above which only their number is reported."""
MOST_VALUES: Final = 1 << 14
MOST_COMPARED: Final = 1 << 10
"""Largest number of compared maps over all sizes; at least one size is compared completely."""
PASSING: Final = (
    control.Result, control.GetTupleElement, control.OptimizationBarrier, control.Return,
    control.Tuple,
)  # fmt: skip
"""Ops whose value consists of unchanged operands."""
Called: TypeAlias = Callable[[Instance, int], Sequence[Accesses]]
Place: TypeAlias = tuple[Frame, Instruction, int]
"""A value with the frame that computes it, and the number of one of its arrays."""


class SizeComparison(NamedTuple):
    """The sizes at which maps were compared, and the first difference if there is one.

    `given` are operands that were not compared: integers with which the called function was
    refined.
    """

    sizes: Sequence[Mapping[str, int]]
    difference: Difference | None
    given: frozenset[int] = frozenset()


class SymbolicAnalysis:
    """Maps of a program with unknown sizes; their runtime variables are named sizes."""

    def __init__(self, module: Module, bodies: Callable[[Instruction], Bodies]) -> None:
        self._walk: Final = SizeWalk(module)
        self._bodies: Final = bodies

    def reads(self, computation: Computation, ins: Instruction, output: int) -> list[Accesses]:
        """Return the accesses of each operand that an element of an output reads."""
        return self._reads(self._walk.frame_of(computation), ins, output)

    def _reads(self, frame: Frame, ins: Instruction, output: int) -> list[Accesses]:
        if not has_unknown_sizes(ins):
            return list(output_to_input(ins, output, reader=self._bodies))
        if isinstance(ins.op, PASSING):
            return _passed_through(frame, ins, output)
        if ins in frame.inner:
            return self._called(frame.inner[ins], ins, output)
        if any(isinstance(operand.type, TupleType) for operand in ins.operands):
            if isinstance(ins.op, ELEMENTWISE["copy"]):
                return _passed_through(frame, ins, output)
            return unknown_reads(len(ins.operands))  # rules are about arrays
        known = frame.of(ins)
        shape = known[output].shape if output < len(known) else None
        if shape is None:
            return [unknown("the value is not an array")] * len(ins.operands)
        bodies = self._bodies(ins) if ins.calls else ()
        asked = Asked(frame, ins, shape, frame.operands(ins), bodies)
        found = [tuple([a for a in some if _may_read(a)]) for some in symbolic_reads(asked)]
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
        """Compare the accesses of an output, or their inverse, with the op at random sizes.

        Args:
            computation: The computation.
            ins: An instruction of it.
            output: Number of the output.
            asked_from: An operand and the number of one of its arrays, to compare the inverse;
                `None` to compare what the output reads.
            count: Number of sizes.
            seed: Seed of the random sizes.
            called: Returns the accesses of each operand for an output of a call at known sizes,
                from a function that was refined to these sizes.

        Raises:
            LookupError: The accesses depend on values even at known sizes.
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
        # The cost grows with sizes times maps, so many maps are compared at fewer sizes.
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
        """Return the accesses of a call's operands, through the parameters of the function."""
        try:
            found = _BackwardTraversal(inner, self._reads).run(inner.computation.root, output)
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
        """Return what an element of an output reads of the parameters of its computation."""
        return _BackwardTraversal(self._walk.frame_of(computation), self._reads).run(ins, output)


def _by_refining(called: Called) -> Told:
    """Return reference accesses of calls, from the called functions refined to known sizes."""

    def reads(instance: Instance, output: int) -> list[Accesses | None]:
        found = zip(called(instance, output), instance.values, strict=True)
        return [accesses if number is None else None for accesses, number in found]

    return Told(
        reads,
        lambda instance, output, place, leaf: inverted_accesses(
            called(instance, output)[place], leaf
        ),
    )


def _passed_through(frame: Frame, ins: Instruction, output: int) -> list[Accesses]:
    """Return the accesses of an op whose value consists of unchanged operands."""
    reads: list[Accesses] = [()] * len(ins.operands)
    if isinstance(ins.op, control.Result | control.GetTupleElement):
        output += first_leaf(ins.operands[0].type, ins.op.index)
    for k, operand in enumerate(ins.operands):
        count = len(leaves(operand.type))
        if output < count:
            reads[k] = (replace(_identity_access(frame, operand, output), leaf=output),)
            break
        output -= count
    return reads


def unknown_reads(count: int) -> list[Accesses]:
    """Return accesses of `count` operands about which nothing is known."""
    return [unknown(NO_RULE)] * count


def inverted_accesses(accesses: Accesses, leaf: int) -> Accesses:
    """Return the accesses of one array in the opposite direction."""
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


class _BackwardTraversal:
    """Traversal from a value back to the parameters of its computation, through calls.

    `None` among the accesses of a value means that it is the queried value itself.
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
        """Return the accesses of each parameter, by parameter and number of the array."""
        answer: dict[tuple[Instruction, int], Accesses] = {}
        self._add((self._start, ins, output), None)
        # The heap yields the latest value first, so all of a value's users are done before it is
        # visited.
        for _ in range(MOST_VALUES):
            if not self._open:
                return answer
            place = heappop(self._open)[2]
            frame, value, leaf = place
            accesses = self._found.pop(place)
            if isinstance(value.op, Parameter) and frame is self._start:
                answer[value, leaf] = tuple(
                    [a or _identity_access(frame, value, leaf) for a in accesses]
                )
            else:
                self._visit(place, list(accesses))
        raise UnsupportedError(f"more than {MOST_VALUES:,} values are between")

    def _visit(self, place: Place, accesses: list[Access | None]) -> None:
        """Add the accesses of the operands of a value, or of the value that it equals."""
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
                    if _may_read(both):
                        self._add((frame, operand, each.leaf), both)

    def _same(self, frame: Frame, ins: Instruction, leaf: int) -> Place | None:
        """Return the value that this one equals, or `None`."""
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


def _identity_access(frame: Frame, value: Instruction, leaf: int) -> Access:
    shape = frame.of(value)[leaf].shape
    if shape is None:
        return Access.unknown("the value is not an array")
    return Access(SizedBuilder(frame.symbols, shape).map([Dim(k) for k in range(len(shape))]))


def _may_read(access: Access) -> bool:
    """Can any index read an element?"""
    return access.map is None or not access.map.is_known_empty


def composed(first: Access | None, second: Access) -> Access:
    """Return the composition of two accesses; `None` as the first one is the identity."""
    if first is None:
        return replace(second, leaf=0)
    if first.map is None or second.map is None:
        return Access.unknown(first.reason if first.map is None else second.reason)
    both: IndexingMap = first.map.compose(second.map).simplify().remove_unused_symbols()
    if Precision.OVER in (first.precision, second.precision):
        return Access(both, Precision.OVER, first.reason or second.reason)
    return Access(both)
