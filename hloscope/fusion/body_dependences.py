"""What computations depend on, told from the maps through them, and what they hand on as it is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias

from msgspec.structs import replace

from hloscope import indexing
from hloscope.affine import Expr, Range, Runtime, Var, variables
from hloscope.fusion.overapproximate import join_reasons
from hloscope.fusion.traversal import Flow
from hloscope.indexing import (
    Access,
    Dependence,
    Direction,
    IndexingMap,
    Precision,
    RuntimeVariable,
    Variable,
    lookup,
    substituted,
    substituted_constraints,
)
from hloscope.ir import Computation, Instruction, TensorType, Type, captured
from hloscope.ops import (
    ELEMENTWISE,
    AddDependency,
    Bitcast,
    Call,
    Composite,
    CopyDone,
    CopyStart,
    Domain,
    Elementwise,
    Fusion,
    GetTupleElement,
    OptimizationBarrier,
    Parameter,
    Reshape,
    Return,
    Tuple,
    While,
)
from hloscope.walks import reached

Source: TypeAlias = tuple[Instruction, int]
"""A value and one of its leaves."""

_ALL_OPERANDS: Final = Tuple, Return, OptimizationBarrier
_FIRST_OPERAND: Final = AddDependency, Domain, CopyDone, Bitcast, Reshape, ELEMENTWISE["copy"]
_CALLS: Final = Call, Fusion, Composite
_rule_of: Final = partial(lookup, Direction.OUTPUT_TO_INPUT)


class Numbers(Protocol):
    """Numbers leaves, and remembers sources: an analysis does."""

    @property
    def sources(self) -> dict[tuple[Computation, int], Source]:
        """The sources found so far, by computation and leaf of its root."""

    def leaves(self, type: Type) -> tuple[Type, ...]:
        """Types of the leaves of a type."""

    def offset(self, type: Type, index: int) -> int:
        """Number of the first leaf of an element of a tuple."""

    def starts(self, ins: Instruction) -> tuple[int, ...]:
        """The first leaf of each operand among the leaves of all operands, and their number."""


def source_in(at: Numbers, callee: Computation, leaf: int) -> Source:
    """The first value that a leaf of a computation's root is, as it is.

    Follows tuples, copies, calls, parts that loops hand on; ends at the parameters of the
    computation, at values from outside of it and at what is computed or chosen.  What a function
    that calls itself returns is computed.
    """
    known = at.sources
    if (callee, leaf) in known:
        return known[callee, leaf]
    opened: dict[tuple[Computation, int], Source] = {(callee, leaf): (callee.root, leaf)}
    stack = [(callee, leaf)]
    while stack:
        top = stack[-1]
        source = opened[top]
        try:
            while _is_in(top[0], source[0]):
                before = _before(at, *source)
                if before is None:
                    break
                source = before
        except _UnknownError as error:
            opened[top] = source
            if error.called in opened:
                known[error.called] = error.called[0].root, error.called[1]
            else:
                opened[error.called] = error.called[0].root, error.called[1]
                stack.append(error.called)
            continue
        known[top] = source
        stack.pop()
    return known[callee, leaf]


class _UnknownError(Exception):
    """The source of a leaf of a called computation is to be found first."""

    def __init__(self, called: tuple[Computation, int]) -> None:
        super().__init__(called)
        self.called = called


def _source(at: Numbers, callee: Computation, leaf: int) -> Source:
    """The source of a leaf of a called computation, if it is known."""
    found = at.sources.get((callee, leaf))
    if found is None:
        raise _UnknownError((callee, leaf))
    return found


def is_handed_on(at: Numbers, callee: Computation, parameter: int, leaf: int, of: int) -> bool:
    """Is leaf `of` of what a computation returns a leaf of a parameter, as it is?"""
    return source_in(at, callee, of) == (callee.parameters[parameter], leaf)


def _is_in(callee: Computation, ins: Instruction) -> bool:
    return callee.body.by_name.get(ins.name) is ins


def _before(at: Numbers, ins: Instruction, leaf: int) -> Source | None:
    """One step towards the source."""
    match ins.op:
        case GetTupleElement(index):
            return ins.operands[0], at.offset(ins.operands[0].type, index) + leaf
        case op if isinstance(op, _ALL_OPERANDS):
            return _operand(ins, _part(at, ins, leaf))
        case CopyStart():
            count = len(at.leaves(ins.operands[0].type))
            return (ins.operands[0], leaf % count) if leaf < 2 * count else None
        case op if isinstance(op, _FIRST_OPERAND):
            source = ins.operands[0]
            return (source, leaf) if at.leaves(ins.type) == at.leaves(source.type) else None
        case op if isinstance(op, _CALLS) and ins.calls:
            return _outside(ins, ins.calls[0], _source(at, ins.calls[0], leaf))
        case While() if len(ins.calls) == 2:
            part = _part(at, ins, leaf)
            if part is None:
                return None
            handed = ins.calls[1].parameters[part[0]], part[1]
            return _operand(ins, part) if _source(at, ins.calls[1], leaf) == handed else None
        case _:
            return None


def _part(at: Numbers, ins: Instruction, leaf: int) -> tuple[int, int] | None:
    """The operand, and its leaf, where the operands' leaves follow each other."""
    starts = at.starts(ins)
    if leaf >= starts[-1]:
        return None
    k = bisect_right(starts, leaf) - 1
    return k, leaf - starts[k]


def _operand(ins: Instruction, part: tuple[int, int] | None) -> Source | None:
    return None if part is None else (ins.operands[part[0]], part[1])


def _outside(ins: Instruction, callee: Computation, found: Source) -> Source | None:
    """What the source of a called computation's result is for the caller."""
    source, leaf = found
    if not _is_in(callee, source):
        return found
    number = source.op.number if isinstance(source.op, Parameter) else len(ins.operands)
    return (ins.operands[number], leaf) if number < len(ins.operands) else None


VARIES: Final = "read at an index that differs between applications of a body"
MOST_POINTS: Final = 256
"""A map with conditions is looked at for so many values of its range variables."""


def dependence_of(
    callee: Computation, at: Numbers, summary: Callable[[Computation, int], Iterable[Flow]]
) -> Dependence:
    """What each result of a computation depends on.

    Args:
        callee: The computation.
        at: Numbers leaves.
        summary: What a leaf of its root reads of its parameters.
    """
    first = [0]
    for parameter in callee.parameters:
        first.append(first[-1] + len(at.leaves(parameter.type)))
    leaves = range(len(at.leaves(callee.root.type)))
    plain = _of_scalars(callee)
    if plain is None or len(plain) != len(leaves):
        rows = [_row(summary(callee, leaf), first) for leaf in leaves]
    else:
        rows = [(read, read, read) for read in plain]
    unchanged = []
    for leaf in leaves:
        source, inner = source_in(at, callee, leaf)
        is_parameter = source in callee.parameters
        unchanged.append(first[callee.parameters.index(source)] + inner if is_parameter else -1)
    reads, sure, aligned = zip(*rows, strict=True) if rows else ((), (), ())
    return Dependence(reads, sure, aligned, tuple(unchanged))


_Row: TypeAlias = tuple[frozenset[int], frozenset[int], frozenset[int]]
"""What a result reads, what of it surely, and what of it at its own index only."""


def _of_scalars(callee: Computation) -> list[frozenset[int]] | None:
    """What each result reads, where scalars are combined element by element; `None` elsewhere.

    Such an op reads all its operands, whatever their values are: no map is needed to tell.
    """
    root = callee.root
    results = root.operands if isinstance(root.op, Tuple | Return) else (root,)
    found: dict[Instruction, frozenset[int]] = {}
    for ins in callee.instructions:
        if ins is root and results != (root,):
            continue
        if not isinstance(ins.type, TensorType) or ins.type.sizes:
            return None
        if isinstance(ins.op, Parameter):
            found[ins] = frozenset([ins.op.number])
        elif not ins.operands or _rule_of(type(ins.op)) is _rule_of(Elementwise):
            found[ins] = frozenset[int]().union(*[found.get(v, ()) for v in ins.operands])
        else:
            return None
    return [found.get(value, frozenset()) for value in results]


def _row(flows: Iterable[Flow], first: Sequence[int]) -> _Row:
    """The row of a result, told from the maps to the parameters' leaves."""
    reads, sure, aligned = set[int](), set[int](), set[int]()
    for flow in flows:
        if isinstance(flow.operand, int):
            number = first[flow.operand] + flow.leaf
            accesses = flow.accesses
            reads.add(number)
            if accesses is None or any(map(_is_sure, accesses)):
                sure.add(number)
            if accesses is None or all(a.map and a.map.is_identity for a in accesses):
                aligned.add(number)
    return frozenset(reads), frozenset(sure), frozenset(aligned)


def _is_sure(access: Access) -> bool:
    """Is something read, whatever the values are that are read at run time?"""
    map = access.map
    if map is None or access.precision is not Precision.EXACT or map.runtime:
        return False
    if not map.constraints:
        return not map.is_known_empty
    count = 1
    for variable in map.ranges:
        count *= variable.interval.size
    return not map.dims and count <= MOST_POINTS and bool(map.points(()))


def varying(outside: Iterable[Instruction], origin: Instruction) -> bool:
    """Is a value inside a body another one where the body is applied to other elements?

    Args:
        outside: The values that the body reads without being handed them.
        origin: The value, in the body or in a computation that it calls; or one from outside.
    """
    fixed = frozenset(outside)

    def read(ins: Instruction) -> tuple[Instruction, ...]:
        return () if ins in fixed else (*ins.operands, *captured(ins))

    found = reached([origin], read)
    return any(isinstance(ins.op, Parameter) for ins in found if ins not in fixed)


def in_every_application(access: Access, is_varying: Callable[[Instruction], bool]) -> Access:
    """The access for all applications of a body: values that differ between them run freely."""
    if access.map is None:
        return access
    map = indexing.joined(access)
    loose = _varying_variables(map, is_varying)
    if not loose:
        return access
    new: dict[Var, Expr] = {}
    ranges, runtime = [*map.ranges], list[RuntimeVariable]()
    for i, variable in enumerate(map.runtime):
        if i in loose:
            new[Runtime(i)] = Range(len(ranges))
            ranges.append(Variable(variable.interval))
        else:
            new[Runtime(i)] = Runtime(len(runtime))
            runtime.append(variable)
    found = map.with_(
        ranges=ranges,
        runtime=[v.at(substituted(v.arguments, new)) for v in runtime],
        results=substituted(map.results, new),
        constraints=substituted_constraints(map.constraints, new),
    )
    reason = join_reasons(access.reason, VARIES)
    over = replace(access, precision=Precision.OVER, reason=reason)
    return indexing.parted(over, found, len(access.map.results), access.via)


def _varying_variables(
    map: IndexingMap, is_varying: Callable[[Instruction], bool]
) -> frozenset[int]:
    """The runtime variables that differ, also those read at an index that does."""
    found = {
        i
        for i, v in enumerate(map.runtime)
        if v.collective is None and (v.origin is None or is_varying(v.origin))
    }
    while True:
        more = {
            i
            for i, v in enumerate(map.runtime)
            if i not in found and any(Runtime(j) in variables(*v.arguments) for j in found)
        }
        if not more:
            return frozenset(found)
        found |= more
