"""Dependences of computations' results on parameters, and results returned unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeAlias

from msgspec.structs import replace

from hloscope import indexing
from hloscope.affine import Expr, Range, Runtime, Var, variables
from hloscope.fusion.overapproximate import join_reasons
from hloscope.fusion.structure import Context, operand_leaf
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
from hloscope.ir import Computation, Instruction, TensorType, captured
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
from hloscope.support.walks import reached

Source: TypeAlias = tuple[Instruction, int]
"""A value and the number of one of its leaves."""

_ALL_OPERANDS: Final = Tuple, Return, OptimizationBarrier
_FIRST_OPERAND: Final = AddDependency, Domain, CopyDone, Bitcast, Reshape, ELEMENTWISE["copy"]
_CALLS: Final = Call, Fusion, Composite
_rule_of: Final = partial(lookup, Direction.OUTPUT_TO_INPUT)


def source_in(at: Context, callee: Computation, leaf: int) -> Source:
    """Return the value and leaf that leaf `leaf` of the root equals unchanged.

    It is found by tracing back through tuples, copies, calls, and elements of a loop's state that
    the loop does not change. The trace ends at parameters, at values outside the computation, and
    at values that are computed or selected. The result of a recursive function counts as computed.
    """
    results = at.results
    if ("source", callee, leaf) in results:
        return _source(at, callee, leaf)
    opened: dict[tuple[Computation, int], Source] = {(callee, leaf): (callee.root, leaf)}
    stack = [(callee, leaf)]
    while stack:
        top = stack[-1]
        source = opened[top]
        try:
            while _is_in(top[0], source[0]):
                before = _equal_operand(at, *source)
                if before is None:
                    break
                source = before
        # The source inside a callee is missing: find it first, then go on here. An explicit stack,
        # because nested calls may be deeper than Python's recursion limit. A callee that is
        # already on the stack is recursive: its root counts as computed.
        except _UnknownError as error:
            opened[top] = source
            called, inner = error.called
            if error.called in opened:
                results["source", called, inner] = called.root, inner
            else:
                opened[error.called] = called.root, inner
                stack.append(error.called)
            continue
        results["source", *top] = source
        stack.pop()
    return source


class _UnknownError(Exception):
    """Raised if the source of a leaf of a called computation has to be found first."""

    def __init__(self, called: tuple[Computation, int]) -> None:
        super().__init__(called)
        self.called = called


def _source(at: Context, callee: Computation, leaf: int) -> Source:
    """Return the memoized result of `source_in` for leaf `leaf` of the root of `callee`.

    Raises:
        _UnknownError: There is none yet.
    """
    found: Source | None = at.results.get(("source", callee, leaf))
    if found is None:
        raise _UnknownError((callee, leaf))
    return found


def is_returned_unchanged(
    at: Context, callee: Computation, parameter: int, leaf: int, result_leaf: int
) -> bool:
    """Does leaf `result_leaf` of the root equal leaf `leaf` of a parameter, unchanged?"""
    return source_in(at, callee, result_leaf) == (callee.parameters[parameter], leaf)


def _is_in(callee: Computation, ins: Instruction) -> bool:
    """Is the instruction part of the computation?"""
    return callee.body.by_name.get(ins.name) is ins


def _equal_operand(at: Context, ins: Instruction, leaf: int) -> Source | None:
    """Return the operand and leaf that a leaf of `ins` equals; `None` if the leaf is computed.

    Raises:
        _UnknownError: The source inside a called computation has not been found yet.
    """
    match ins.op:
        case GetTupleElement(index):
            return ins.operands[0], at.offset(ins.operands[0].type, index) + leaf
        case op if isinstance(op, _ALL_OPERANDS):
            part = operand_leaf(at, ins, leaf)
            return part and (ins.operands[part[0]], part[1])
        case CopyStart():
            count = len(at.leaves(ins.operands[0].type))
            # The value is (destination, source, context): the first two parts have the operand's
            # leaves.
            return (ins.operands[0], leaf % count) if leaf < 2 * count else None
        case op if isinstance(op, _FIRST_OPERAND):
            source = ins.operands[0]
            return (source, leaf) if at.leaves(ins.type) == at.leaves(source.type) else None
        case op if isinstance(op, _CALLS) and ins.calls:
            return _outside(ins, ins.calls[0], _source(at, ins.calls[0], leaf))
        case While() if len(ins.calls) == 2:
            part = operand_leaf(at, ins, leaf)
            if part is None:
                return None
            number, inner = part
            # If the body returns this part unchanged, the loop's part equals its initial value
            # after any number of iterations.
            handed = ins.calls[1].parameters[number], inner
            is_kept = _source(at, ins.calls[1], leaf) == handed
            return (ins.operands[number], inner) if is_kept else None
        case _:
            return None


def _outside(ins: Instruction, callee: Computation, found: Source) -> Source | None:
    """Return the source of a callee's result as a value of the caller `ins`.

    `found` is the source inside the callee. The result is `None` if the source is a value that the
    callee computes, or a parameter without an operand.
    """
    source, leaf = found
    if not _is_in(callee, source):
        return found
    number = source.op.number if isinstance(source.op, Parameter) else len(ins.operands)
    return (ins.operands[number], leaf) if number < len(ins.operands) else None


VARIES: Final = "read at an index that differs between applications of a body"
MOST_POINTS: Final = 256
"""Maximum number of range values for which a map with constraints is enumerated."""


def dependence_of(
    callee: Computation, at: Context, summary: Callable[[Computation, int], Iterable[Flow]]
) -> Dependence:
    """Return the dependences of each result of a computation on the parameters' leaves.

    Args:
        callee: The computation.
        at: Flattens types, and holds memoized results.
        summary: Returns the dependences of a leaf of the root on the parameters.
    """
    first = [0]
    for parameter in callee.parameters:
        first.append(first[-1] + len(at.leaves(parameter.type)))
    leaves = range(len(at.leaves(callee.root.type)))
    # Most bodies are sums of scalars: their dependences need no maps.
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
"""Sets of parameter leaves that one result may read, surely reads, and reads at its own index."""


def _of_scalars(callee: Computation) -> list[frozenset[int]] | None:
    """Return the parameters that each result reads, if all ops are element-wise on scalars.

    The result is `None` for other computations.  An element-wise op depends on all its operands
    whatever their values are, so no map is needed.
    """
    root = callee.root
    results = root.operands if isinstance(root.op, Tuple | Return) else (root,)
    found: dict[Instruction, frozenset[int]] = {}
    for ins in callee.instructions:
        # A root tuple is not a scalar; its operands are the results.
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
    """Return three sets of parameter leaves that a result reads: all, surely read, and aligned.

    The sets are as in `Dependence`. Leaves are counted over all parameters.

    Args:
        flows: The dependences of the result on the parameters.
        first: For each parameter, the number of its first leaf.
    """
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
    """Does the access read some element for all values of runtime variables?

    The result is `False` if that is not decided.
    """
    map = access.map
    if map is None or access.precision is not Precision.EXACT or map.runtime:
        return False
    if not map.constraints:
        return not map.is_known_empty
    count = 1
    for variable in map.ranges:
        count *= variable.interval.size
    # A map from a scalar has one point per value of its range variables, so enumeration decides
    # whether any satisfies the constraints.
    return not map.dims and count <= MOST_POINTS and bool(map.points(()))


def varying(outside: Iterable[Instruction], origin: Instruction) -> bool:
    """Does a value inside a body differ between the body's applications?

    Args:
        outside: Values that the body captures; they are the same for all applications.
        origin: A value of the body, of a computation that it calls, or from outside.
    """
    fixed = frozenset(outside)

    def read(ins: Instruction) -> tuple[Instruction, ...]:
        return () if ins in fixed else (*ins.operands, *captured(ins))

    # A value differs only if it depends on a parameter; captured values end the search.
    found = reached([origin], read)
    return any(isinstance(ins.op, Parameter) for ins in found if ins not in fixed)


def in_every_application(access: Access, is_varying: Callable[[Instruction], bool]) -> Access:
    """Return an access that covers those of all applications of a body.

    Runtime variables that differ between applications become range variables, and the precision
    becomes `OVER`.

    Args:
        access: The access of one application.
        is_varying: Returns whether a value differs between applications.
    """
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
            # A free range over the same interval contains every value that an application may
            # read.
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
    return indexing.with_joined(over, found, len(access.map.results), access.via)


def _varying_variables(
    map: IndexingMap, is_varying: Callable[[Instruction], bool]
) -> frozenset[int]:
    """Return the numbers of the runtime variables that differ between applications.

    A variable that is read at an index that differs is included. `is_varying` returns whether the
    value of an instruction differs between applications.
    """
    found = {
        i
        for i, v in enumerate(map.runtime)
        if v.collective is None and (v.origin is None or is_varying(v.origin))
    }
    # Fixpoint: a variable whose arguments contain a differing variable differs too.
    while True:
        more = {
            i
            for i, v in enumerate(map.runtime)
            if i not in found and any(Runtime(j) in variables(*v.arguments) for j in found)
        }
        if not more:
            return frozenset(found)
        found |= more
