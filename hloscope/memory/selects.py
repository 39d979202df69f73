"""Selects in a kernel: the lanes that load each of the alternatives.

Two loads that a select chooses between become one load of the chosen address, so each array is read
by the lanes that choose it. Any other load is made by all lanes, unless the choice is the same for
all of them: if indices decide a mask, LLVM removes the loop steps that it excludes.

Source: LLVM `llvm/lib/CodeGen/SelectionDAG/DAGCombiner.cpp` (`SimplifySelectOps`),
`llvm/lib/Transforms/Scalar/CorrelatedValuePropagation.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final, TypeAlias

from hloscope.affine import Const, Dim, Expr, Interval, Runtime, Var, as_sum
from hloscope.fusion import Analysis, Flow
from hloscope.indexing import (
    Access,
    Constraint,
    IndexingMap,
    RuntimeVariable,
    output_to_input,
    substituted,
    substituted_constraints,
)
from hloscope.ir import Instruction, TensorType
from hloscope.memory.storage import array_of
from hloscope.ops import (
    Bitcast,
    BroadcastInDim,
    Compare,
    Constant,
    DotGeneral,
    Elementwise,
    Iota,
    Reduce,
    ReduceWindow,
    Reshape,
    Reverse,
    Select,
    Slice,
    Transpose,
)

MOVES: Final = (Bitcast, BroadcastInDim, Reshape, Reverse, Slice, Transpose)
"""Ops after which a load is still the same load, at another index."""
LOGIC: Final = ("and", "not", "or", "xor")
LARGEST: Final = 1 << 62
Reads: TypeAlias = Callable[[Instruction, int], Iterable[Flow]]
Condition: TypeAlias = tuple[Constraint, ...]
"""Constraints on the index of an element, all of which hold."""


class Selects:
    """The selects of a kernel, and their effect on the loads of their operands."""

    def __init__(
        self,
        analysis: Analysis,
        inside: Sequence[Instruction],
        users: Callable[[Instruction], Sequence[Instruction]],
        *,
        of_elements: bool,
    ) -> None:
        """Classify the selects of a kernel.

        Args:
            analysis: The indexing analysis of the program.
            inside: The instructions of the kernel.
            users: Returns the instructions of the kernel that read a value.
            of_elements: Does each thread load element by element, and in no loop?
        """
        self._analysis: Final = analysis
        self._inside: Final = frozenset(inside)
        self._users: Final = users
        selects = [ins for ins in inside if isinstance(ins.op, Select)]
        loops = any(isinstance(ins.op, Reduce | ReduceWindow | DotGeneral) for ins in inside)
        is_direct = of_elements and not loops
        self.between_loads: Final = {
            ins: self._condition_of_load(ins)
            for ins in selects
            if is_direct and all(self._is_load(ins, operand) for operand in ins.operands[1:])
        }
        """Selects between two loads, with their conditions; `None` if data decides."""
        self.masks: Final = {
            ins: condition
            for ins in selects
            if ins not in self.between_loads and (condition := self._condition(ins.operands[0]))
        }
        """Other selects whose condition depends on indices and constants only."""

    # Asked for each array of a kernel with selects; it has those of all arrays.
    @cached_property
    def predicates(self) -> dict[Instruction, tuple[int, ...]]:
        """Return the predicate inputs of selects, with the widths of LLVM's partial loads.

        LLVM selects four elements by four bits. It loads the four bytes that hold the bits as two,
        one and one, or byte by byte if the predicate is combined with a computed one.
        """
        found: dict[Instruction, tuple[int, ...]] = {}
        for ins in self._inside:
            if isinstance(ins.op, Select):
                leaves = self._leaves(ins.operands[0])
                handed_in = [leaf for leaf in leaves if leaf not in self._inside]
                is_mixed = len(handed_in) < len(leaves)
                for leaf in handed_in:
                    if is_mixed or len(leaves) == 1:
                        found[leaf] = (1, 1, 1, 1) if is_mixed else (2, 1, 1)
        return found

    def _leaves(self, predicate: Instruction) -> list[Instruction]:
        """Return the values that a predicate is computed from by logic and data movement."""
        found: dict[Instruction, None] = {}
        todo = [predicate]
        while todo:
            value = todo.pop()
            is_logic = isinstance(value.op, Elementwise) and value.op.name in LOGIC
            if value in self._inside and (is_logic or isinstance(value.op, MOVES)):
                todo += value.operands
            else:
                found[value] = None
        return [*found]

    def reads(self, *, with_masks: bool = False) -> Reads:
        """Return a function that gives the operand accesses of an instruction, by choosing lanes.

        Args:
            with_masks: Restrict lanes by masks, too.
        """
        chosen: dict[Instruction, Condition | None] = dict(self.between_loads)
        if with_masks:
            chosen |= self.masks

        def reads(ins: Instruction, leaf: int) -> Iterable[Flow]:
            flows = self._analysis.reads(ins, leaf)
            if ins not in chosen:
                return flows
            return [_of_choice(flow, ins, chosen[ins]) for flow in flows]

        return reads

    def _is_load(self, select: Instruction, value: Instruction) -> bool:
        """Is a value a rearranged element of an input array, used by this select only?"""
        type = array_of(value)
        if type is None or type.element.bits < 8 or type.element.name == "pred":
            return False
        user = select
        while value in self._inside:
            if not isinstance(value.op, MOVES) or tuple(self._users(value)) != (user,):
                return False
            user, value = value, value.operands[0]
        return tuple(self._users(value)) == (user,)

    def _condition_of_load(self, select: Instruction) -> Condition | None:
        found = self._condition(select.operands[0])
        return found if found is not None and len(found) == 1 else None

    # --------------------------------------------------------------------- values of indices

    def _condition(self, value: Instruction) -> Condition | None:
        """Return the index condition under which a predicate holds; `None` if data decides."""
        if value not in self._inside:
            return None
        if isinstance(value.op, Compare) and len(value.operands) == 2:
            a, b = [self._integer(operand) for operand in value.operands]
            if a is None or b is None:
                return None
            # `a < b` is `a - b < 0`, so each comparison is one interval of the difference.
            difference = a - b
            limits = {
                "EQ": Interval(0, 0),
                "LT": Interval(-LARGEST, -1),
                "LE": Interval(-LARGEST, 0),
                "GT": Interval(1, LARGEST),
                "GE": Interval(0, LARGEST),
            }.get(value.op.comparison_direction)
            return None if limits is None else (_without_constant(difference, limits),)
        if value.op.name == "and" and isinstance(value.op, Elementwise):
            parts = [self._condition(operand) for operand in value.operands]
            if all(part is not None for part in parts):
                return tuple([c for part in parts if part is not None for c in part])
            return None
        if isinstance(value.op, MOVES) and (map := _only_map(value)) is not None:
            inner = self._condition(value.operands[0])
            if inner is None:
                return None
            new: dict[Var, Expr] = {Dim(k): e for k, e in enumerate(map.results)}
            return tuple(substituted_constraints(inner, new))
        return None

    def _integer(self, value: Instruction) -> Expr | None:
        """Return an integer value as an expression in its own index; `None` if data decides it."""
        type = array_of(value)
        if (
            value not in self._inside
            or type is None
            or type.element.kind not in ("signed", "unsigned")
        ):
            return None
        if isinstance(value.op, Iota):
            return Dim(value.op.iota_dimension)
        if isinstance(value.op, Constant):
            numbers = value.op.literal.integers(type)
            return Const(numbers[0]) if numbers is not None and len(numbers) == 1 else None
        if isinstance(value.op, MOVES) and (map := _only_map(value)) is not None:
            inner = self._integer(value.operands[0])
            if inner is None:
                return None
            return substituted([inner], {Dim(k): e for k, e in enumerate(map.results)})[0]
        if isinstance(value.op, Elementwise) and value.op.name in (
            "add",
            "subtract",
            "convert",
            "copy",
        ):
            parts = [self._integer(operand) for operand in value.operands]
            if any(part is None for part in parts):
                return None
            first, *others = [part for part in parts if part is not None]
            for other in others:
                first = first + other if value.op.name == "add" else first - other
            return first
        return None


def _of_choice(flow: Flow, select: Instruction, condition: Condition | None) -> Flow:
    """Return the dependence on an operand, restricted to the elements the select takes from it."""
    if flow.operand not in (1, 2) or flow.accesses is not None:
        return flow
    type = array_of(select)
    if type is None:
        return flow
    whole = IndexingMap.identity(type.shape)
    is_first = flow.operand == 1
    if condition is None:
        # A predicate with as many elements as the operands decides element by element; a scalar one
        # decides for all.
        index = tuple([Dim(k) for k in range(type.rank)])
        if not (isinstance(select.operands[0].type, TensorType) and select.operands[0].type.rank):
            index = ()
        chosen = RuntimeVariable(Interval(0, 1), "", select.operands[0], index)
        taken = Interval.point(int(is_first))
        maps = [IndexingMap(whole.dims, (), (chosen,), whole.results, [(Runtime(0), taken)])]
    elif is_first:
        maps = [_limited(whole, condition)]
    else:
        # The negation of a conjunction is the union of the negations, at most two intervals each.
        maps = [_limited(whole, (other,)) for one in condition for other in _opposite(one)]
    return flow._replace(accesses=tuple([Access(map) for map in maps]))


def _limited(map: IndexingMap, condition: Condition) -> IndexingMap:
    return map.with_(constraints=[*map.constraints, *condition]).simplify()


def _opposite(constraint: Constraint) -> list[Constraint]:
    """Return the constraints below and above the interval of a constraint: its negation."""
    e, interval = constraint
    found = []
    if interval.lo > -LARGEST:
        found.append((e, Interval(-LARGEST, interval.lo - 1)))
    if interval.hi < LARGEST:
        found.append((e, Interval(interval.hi + 1, LARGEST)))
    return found


def _without_constant(e: Expr, limits: Interval) -> Constraint:
    const = as_sum(e)[1]
    lo = limits.lo if limits.lo == -LARGEST else limits.lo - const
    hi = limits.hi if limits.hi == LARGEST else limits.hi - const
    return e - const, Interval(lo, hi)


def _only_map(value: Instruction) -> IndexingMap | None:
    """Return the map of a data-movement op; `None` if it has range variables or constraints."""
    accesses = output_to_input(value)[0]
    map = accesses[0].map if len(accesses) == 1 else None
    if map is None or map.ranges or map.runtime or map.constraints:
        return None
    return map
