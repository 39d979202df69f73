"""Dataflow through tuples, calls, loops and branches, and live ranges of values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from hloscope.cost.buffers.schedule import Positions
from hloscope.hlo_parser import INPUT_OUTPUT_ALIAS, ShapeIndex, aliasing_in
from hloscope.ir import ByOp, Computation, Instruction, Module, Op, TupleType
from hloscope.ops import (
    ELEMENTWISE,
    AddDependency,
    AllGather,
    AllReduce,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Bitcast,
    Call,
    Case,
    CollectivePermute,
    CopyDone,
    CopyStart,
    Domain,
    GetTupleElement,
    OptimizationBarrier,
    Parameter,
    RecvDone,
    Send,
    Tuple,
    While,
)

# --------------------------------------------------------------------------------------------------
# Dataflow through tuples, calls, loops and branches: the value that each position shows.
#
# A value is one array, or one tuple's table of pointers, that one instruction writes at one shape
# index; it has the number of that position.  Most instructions write all parts of their result.
# Ops in the rows of `ALIAS_RULES` do not: parts of their results are values of operands, of called
# computations, or of callers.
#
# Where several values can arrive, at a loop's parameters and at the result of a `conditional`,
# there is a new value, a phi.  A phi that only one other value can reach is replaced by that value:
# a part that a loop carries unchanged is its initial value.
#
# Source: XLA `HloDataflowAnalysis` (`InitializeInstructionValueSets`, `Update…ValueSet`, in SSA
# form), `PhiGraph::Optimize`.


_WHOLE: Final[ShapeIndex] = ()


class AliasedPart(NamedTuple):
    """A part of a result that is an alias of a part of another instruction's result.

    Attributes:
        output: Shape index of the part of the result.
        source: The other instruction.
        inside: Shape index of the part of the other result.
        arrays_only: Does the instruction write new tuple tables, so that only arrays are aliases?
    """

    output: ShapeIndex
    source: Instruction
    inside: ShapeIndex = _WHOLE
    arrays_only: bool = False


Runs: TypeAlias = tuple[Computation, ...]
AliasRule: TypeAlias = Callable[[Instruction, Runs], Iterator[AliasedPart]]


class AliasRow(NamedTuple):
    """A rule about ops whose results are aliases in part; the ops write all other parts.

    Attributes:
        ops: The classes of ops.
        parts: Yields the aliases of an instruction, given the computations that it runs.
        about: The rule as text.
    """

    ops: tuple[type[Op], ...]
    parts: AliasRule
    about: str


def _of_operand(
    output: ShapeIndex = _WHOLE, inside: ShapeIndex = _WHOLE, *, arrays_only: bool = False
) -> AliasRule:
    """Return the rule that part `output` of a result is part `inside` of the first operand."""

    def parts(ins: Instruction, _: Runs) -> Iterator[AliasedPart]:
        for operand in ins.operands[:1]:
            yield AliasedPart(output, operand, inside, arrays_only)

    return parts


def _element(ins: Instruction, _: Runs) -> Iterator[AliasedPart]:
    assert isinstance(ins.op, GetTupleElement)
    yield AliasedPart(_WHOLE, ins.operands[0], (ins.op.index,))


def _elements(ins: Instruction, _: Runs) -> Iterator[AliasedPart]:
    yield from (AliasedPart((k,), operand) for k, operand in enumerate(ins.operands))


def _copied_table(ins: Instruction, _: Runs) -> Iterator[AliasedPart]:
    if isinstance(ins.type, TupleType):
        for k in range(len(ins.type.elements)):
            yield AliasedPart((k,), ins.operands[0], (k,))


def _callee_root(_: Instruction, runs: Runs) -> Iterator[AliasedPart]:
    yield from (AliasedPart(_WHOLE, callee.root) for callee in runs[:1])


def _async_start(ins: Instruction, runs: Runs) -> Iterator[AliasedPart]:
    assert isinstance(ins.op, AsyncStart)
    match ins.op.wrapped:
        case AllReduce():
            return
        case AllGather() | CollectivePermute():
            runs = ()
            if len(ins.operands) == 1:
                yield AliasedPart((0,), ins.operands[0], arrays_only=True)
                return
    for k, operand in enumerate(ins.operands):
        yield AliasedPart((0, k), operand, arrays_only=True)
    for callee in runs[:1]:
        yield AliasedPart((1,), callee.root, arrays_only=True)


def _async_done(ins: Instruction, _: Runs) -> Iterator[AliasedPart]:
    start = _start_of(ins)
    wrapped = start.op.wrapped if isinstance(start.op, AsyncStart) else None
    if isinstance(wrapped, AllReduce):
        yield AliasedPart(_WHOLE, ins.operands[0])
    else:
        yield AliasedPart(_WHOLE, ins.operands[0], (1,), arrays_only=True)


ALIAS_RULES: Final = (
    AliasRow(
        (Bitcast, OptimizationBarrier, AddDependency, Domain),
        _of_operand(),
        "every part shows the operand's",
    ),
    AliasRow((GetTupleElement,), _element, "shows element `index` of the operand"),
    AliasRow((Tuple,), _elements, "writes its table; its elements show the operands"),
    AliasRow(
        (ELEMENTWISE["copy"],),
        _copied_table,
        "of a tuple copies the table only; of an array, the array",
    ),
    AliasRow((Call,), _callee_root, "shows the root of what it calls"),
    AliasRow(
        (AsyncStart,),
        _async_start,
        "{0} shows the operands and {1} the wrapped computation's root; tables and contexts are "
        "written; all-gather-start and collective-permute-start write {1}, all-reduce-start all",
    ),
    AliasRow(
        (AsyncUpdate,),
        _of_operand(arrays_only=True),
        "arrays show the operand's; tables are written",
    ),
    AliasRow(
        (AsyncDone,),
        _async_done,
        "arrays show those of {1} of the start, all-reduce-done the whole; tables are written",
    ),
    AliasRow((CopyStart,), _of_operand((1,)), "{1} shows the operand; the copy {0} is written"),
    AliasRow((CopyDone,), _of_operand(inside=(0,)), "shows {0} of the operand"),
    AliasRow((Send,), _of_operand((0,), arrays_only=True), "{0} shows the operand"),
    AliasRow(
        (RecvDone,), _of_operand((0,), (0,), arrays_only=True), "{0} shows {0} of the operand"
    ),
)
"""Rules about ops whose results are aliases of other instructions' results.

Source: XLA `HloDataflowAnalysis::InitializeInstructionValueSets`, `UpdateInstructionValueSet`.
"""

_RULES: Final = ByOp[AliasRule]()
for _row in ALIAS_RULES:
    _RULES.add(*_row.ops)(_row.parts)


def _start_of(ins: Instruction) -> Instruction:
    """Return the `async-start` of an asynchronous update or done."""
    while isinstance(ins.op, AsyncDone | AsyncUpdate) and ins.operands:
        ins = ins.operands[0]
    return ins


class Dataflow:
    """The value at every position: an array or tuple table in an instruction's result.

    See `Positions`.

    Attributes:
        positions: The numbered positions.
        value: For each position, the position that writes the value there. That position is the
            value's number.
    """

    def __init__(self, positions: Positions) -> None:
        """Find the value at every position of a schedule."""
        self.positions: Final = positions
        self.value: Final = [*range(positions.count)]
        self._phis: Final[dict[int, tuple[int, ...]]] = {}
        runs = positions.schedule.runs
        for ins in positions.schedule.instructions:
            match ins.op:
                case While():
                    # The parameters of condition and body, and the loop, show what arrives.
                    inputs = loop_inputs(ins, runs[ins])
                    parameters = [p for callee in runs[ins] for p in callee.parameters[:1]]
                    for shown in (*parameters, ins):
                        self._join(shown, inputs)
                case Case():
                    self._join(ins, [callee.root for callee in runs[ins]])
                case _:
                    rule = _RULES.find(ins.op)
                    for part in rule(ins, runs.get(ins, ())) if rule is not None else ():
                        self._set_alias(ins, part)
        # All edges must exist before they are followed: a loop's body may show values written
        # later.
        self._alias_parameters()
        self._resolve()

    def _set_alias(self, ins: Instruction, part: AliasedPart) -> None:
        positions = self.positions
        for own, other in positions.pairs(ins, part.output, part.source, part.inside):
            if not (part.arrays_only and isinstance(positions.type(own), TupleType)):
                self.value[own] = other

    def _join(self, ins: Instruction, sources: list[Instruction]) -> None:
        """Make each position of `ins` a phi of the corresponding positions of `sources`."""
        ranges = [self.positions.within(source) for source in sources]
        for k, own in enumerate(self.positions.within(ins)):
            self._phis[own] = tuple([part[k] for part in ranges if k < len(part)])

    def _alias_parameters(self) -> None:
        """Make the parameters of called computations aliases of the callers' operands.

        Parameters of loops are phis already.
        """
        for callee, (caller, number) in self.positions.schedule.callers.items():
            if isinstance(caller.op, While):
                continue
            operands = caller.operands
            if isinstance(caller.op, Case):
                operands = caller.operands[number + 1 : number + 2]
            for parameter in callee.parameters:
                assert isinstance(parameter.op, Parameter)
                if parameter.op.number < len(operands):
                    self._set_alias(parameter, AliasedPart(_WHOLE, operands[parameter.op.number]))

    def _resolve(self) -> None:
        """Resolve aliases to the positions that write the values, then resolve phis."""
        value = self.value
        for position in range(len(value)):
            self._root(position)
        inputs = {phi: {self._root(p) for p in of} for phi, of in self._phis.items()}
        # The first method handles cycles of phis, the second phis whose inputs became equal by
        # that.
        self._resolve_closed(inputs)
        self._resolve_single(inputs)
        for position in range(len(value)):
            self._root(position)

    def _root(self, position: int) -> int:
        """Return the position whose instruction writes the value found at `position`.

        A position is the number of an array or tuple table in one result. The chain of aliases is
        shortened (union-find).
        """
        value, root = self.value, position
        seen = 0
        while value[root] != root:
            root = value[root]
            seen += 1
            if seen > len(value):  # a text in which a value shows itself; verification refuses it
                value[root] = root
        while value[position] != root:
            value[position], position = root, value[position]
        return root

    def _users(self, inputs: dict[int, set[int]]) -> dict[int, list[int]]:
        """Return, for each value, the phis that have it as an input.

        Args:
            inputs: Values that are inputs of each phi.
        """
        users: dict[int, list[int]] = defaultdict(list)
        for phi, of in inputs.items():
            for value in of:
                users[value].append(phi)
        return users

    def _resolve_closed(self, inputs: dict[int, set[int]]) -> None:
        """Replace phis that only one written value can reach, directly or through other phis.

        Written values propagate along phis until nothing changes. A phi stores the first value that
        arrives and is marked as ambiguous at the second, so that each phi propagates at most twice.

        Args:
            inputs: Values that are inputs of each phi.
        """
        users = self._users(inputs)
        reaching: dict[int, int] = {}
        ambiguous: set[int] = set()
        todo = [(phi, value) for phi, of in inputs.items() for value in of if value not in inputs]
        while todo:
            phi, value = todo.pop()
            if phi in ambiguous or reaching.get(phi) == value:
                continue
            if phi in reaching:
                ambiguous.add(phi)
                # From two values on, the phi's users are ambiguous as well: two values suffice to
                # show that.
                sent = [reaching[phi], value]
            else:
                reaching[phi] = value
                sent = [value]
            todo += [(user, one) for user in users[phi] for one in sent]
        for phi, value in reaching.items():
            if phi not in ambiguous:
                self.value[phi] = value

    def _resolve_single(self, inputs: dict[int, set[int]]) -> None:
        """Replace each phi that has only one input apart from itself, until none is left.

        `inputs` has the values that are inputs of each phi.
        """
        users = self._users(inputs)
        todo = [phi for phi in reversed(inputs) if self.value[phi] == phi]
        while todo:
            phi = todo.pop()
            if self.value[phi] != phi:
                continue
            arriving = {self._root(value) for value in inputs[phi]} - {phi}
            if len(arriving) == 1:
                (one,) = arriving
                self.value[phi] = one
                users[one] += users[phi]
                todo += users[phi]


def loop_inputs(ins: Instruction, runs: Runs) -> list[Instruction]:
    """Return the values that become a `while`'s parameter: its operand and its body's root.

    `runs` are the condition and the body.
    """
    return [*ins.operands[:1], *[callee.root for callee in runs[1:2]]]


# --------------------------------------------------------------------------------------------------
# Live ranges of values: from the moment they are written to the last moment they are needed.
#
# A moment is the position of an instruction in the schedule, counted from 0; the end of the program
# is the moment after the last.  Ranges include both ends.
#
# Source: XLA `HloLiveRange` (`CalculateBufferStartEndMap`, `ComputeValueLiveRangeEnd`,
# `GetLastUsageTime`, `NormalizeAliasedBuffers`), `HloValue::ComputeUses`.


Range: TypeAlias = tuple[int, int]
"""First and last moment of a live range, both included; a moment is an instruction's number in the
schedule.
"""
_READS_TABLE_ONLY: Final = (GetTupleElement, ELEMENTWISE["copy"], Domain)
"""Ops that read the table of a tuple, but not its arrays."""


def value_ranges(module: Module, flow: Dataflow) -> dict[int, list[int]]:
    """Return the first and last moment at which each value is live, by the value's number.

    A moment is an instruction's number in the schedule. The ranges of one buffer's values may still
    overlap; `align` shortens them.
    """
    positions, schedule = flow.positions, flow.positions.schedule
    last_table, last_parts = _last_uses(positions)
    done = _async_ends(positions)
    ranges: dict[int, list[int]] = {}
    for position, value in enumerate(flow.value):
        if position == value:
            ranges[value] = [*_own_range(positions, position, done)]
    for position, value in enumerate(flow.value):
        # A value is live as long as an instruction that shows it runs, or is used: the last of
        # these moments ends its range. A use of a whole tuple reads the table; its inner parts are
        # read by other ops than tuple accesses.
        ins = positions.instruction(position)
        is_table = position == positions.first[ins]
        used = (last_table if is_table else last_parts).get(ins, -1)
        shown = positions.moment[position]
        computation = positions.computation(position)
        if ins is computation.root:
            shown = schedule.spans[computation][1]
        found = ranges[value]
        found[1] = max(found[1], shown, used)
    for position in _undonated_parameters(module, positions):
        ranges[position][1] = schedule.end
    return ranges


def _own_range(positions: Positions, position: int, done: dict[Computation, int]) -> Range:
    """Return the first and last moment at which the writing instruction needs its value.

    A moment is the number of an instruction in the schedule.

    Args:
        positions: The positions: numbers of arrays and tuple tables in results.
        position: Number of the value.
        done: Moment of the `done` of each asynchronous computation.
    """
    moment, ins = positions.moment[position], positions.instruction(position)
    computation = positions.computation(position)
    start, stop = positions.schedule.spans[computation]
    first = start if isinstance(ins.op, Parameter) else moment
    last = stop if ins is computation.root else moment
    return first, max(last, done.get(computation, last))


def _last_uses(positions: Positions) -> tuple[dict[Instruction, int], dict[Instruction, int]]:
    """Return the last moments at which instructions' values are read.

    A moment is an instruction's number in the schedule. The first result is for whole values, the
    second for their inner parts. A `call` reads nothing, because its callee does. A `while` reads
    its operand when its body starts.
    """
    schedule = positions.schedule
    table: dict[Instruction, int] = {}
    parts: dict[Instruction, int] = {}
    for moment, user in enumerate(schedule.instructions):
        if isinstance(user.op, Call):
            continue
        at = moment
        if isinstance(user.op, While):
            body = schedule.runs[user][-1]
            if body.parameters:
                at = positions.moment[positions.first[body.parameters[0]]]
        for operand in user.operands:
            table[operand] = max(table.get(operand, -1), at)
            if not isinstance(user.op, _READS_TABLE_ONLY):
                parts[operand] = max(parts.get(operand, -1), at)
    return table, parts


def _async_ends(positions: Positions) -> dict[Computation, int]:
    """Return when asynchronous computations end: the moment of the `done`, by computation.

    Their callees are included. A moment is the number of an instruction in the schedule.
    """
    schedule = positions.schedule
    ends: dict[Instruction, int] = {}
    for moment, ins in enumerate(schedule.instructions):
        if isinstance(ins.op, AsyncDone):
            ends[_start_of(ins)] = moment
    found: dict[Computation, int] = {}
    # `callers` lists callers before callees, so the outer computation is known by now.
    for callee, (caller, _) in schedule.callers.items():
        if isinstance(caller.op, AsyncStart) and caller in ends:
            found[callee] = ends[caller]
        else:
            outer = schedule.computations[positions.moment[positions.first[caller]]]
            if outer in found:
                found[callee] = found[outer]
    return found


def _undonated_parameters(module: Module, positions: Positions) -> Iterable[int]:
    """Yield the positions of entry parameters that are not donated.

    The caller of the program keeps their memory, so they are live until the end.
    """
    entry = module.entry
    replaced = {(a.taken, a.inside) for a in aliasing_in(module.extras, INPUT_OUTPUT_ALIAS)}
    for parameter in entry.parameters:
        assert isinstance(parameter.op, Parameter)
        for position in positions.within(parameter):
            if (parameter.op.number, positions.index(position)) not in replaced:
                yield position


def align(ranges: dict[int, list[int]], values: list[int]) -> None:
    """Shorten the live ranges of one buffer's values so that they overlap only at their ends.

    Args:
        ranges: First and last moment of each value, by number; changed in place.
        values: Numbers of the buffer's values.
    """
    ordered = sorted(values, key=lambda value: (*ranges[value], value))
    for a, b in pairwise(ordered):
        # A value that outlives the next one hands the rest of its range on; then it ends where the
        # next one starts. The union of the ranges stays the same.
        ranges[b][1] = max(ranges[a][1], ranges[b][1])
        ranges[a][1] = min(ranges[a][1], ranges[b][0])


def intervals(ranges: dict[int, list[int]], values: list[int]) -> tuple[Range, ...]:
    """Return the moments at which any of the values is live, as disjoint ranges in order.

    Args:
        ranges: First and last moment of each value, by number.
        values: Numbers of the values.
    """
    found: list[list[int]] = []
    for start, end in sorted(ranges[value] for value in values):
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return tuple([(start, end) for start, end in found])
