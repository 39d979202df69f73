"""Accesses of a kernel's inputs by its threads, and the lanes that load a select's operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, reduce
from itertools import chain, product
from math import prod
from operator import add, sub
from typing import Final, TypeAlias

from msgspec.structs import replace

from hloscope.affine import Box, Const, Dim, Expr, Interval, Range, Runtime, Var, as_sum, bounds
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
from hloscope.memory.fused import Edge, Fused, Load
from hloscope.memory.kernel import Kernel, Reading
from hloscope.memory.storage import array_of, is_array
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

# --------------------------------------------------------------------------------------------------
# Accesses of a kernel's inputs by its threads.


MOST_STEPS: Final = 1 << 10
"""Maximum number of loop steps of a thread that are compared with masks.

With more steps, all of them count as executed.
"""
Place: TypeAlias = tuple[int, int]
"""Number of a kernel's operand, and number of the array in it, both counted from 0."""


class Reads:
    """The accesses by which the threads of a kernel load its input arrays.

    Attributes:
        by_array: For each input array, pairs of a `Reading`, whose value needs elements of the
            array, and the access from that value to the array. Loads of old elements that LLVM adds
            before a store are left out.
    """

    def __init__(self, analysis: Analysis, fused: Fused, kernel: Kernel) -> None:
        self._analysis: Final = analysis
        self._fused: Final = fused
        self._kernel: Final = kernel
        self._from_heroes: Final = frozenset(kernel.heroes if kernel.emitter != "loop" else ())
        readings = tuple([reading for reading in kernel.readings if reading.before is None])
        self._readings: Final = readings or (() if kernel.launch else self._of_roots())
        self.by_array: Final = self._found()

    def loaded(self, place: Place) -> list[tuple[Reading, Access]]:
        """Return the loads of the input array `place`.

        Each load is a `Reading`, whose value needs elements of the array, and the access from that
        value to the array. Loads of old elements that LLVM adds before a store are included. If
        selects choose between loads, only the lanes that choose the array load it.
        """
        found = (self.by_array if self._selects is None else self._chosen).get(place, [])
        return [*found, *self.old(place)]

    def old(self, place: Place) -> list[tuple[Reading, Access]]:
        """Return the loads of an input array's old elements that LLVM adds before a store.

        LLVM expands an atomic update to such a load and a store. Each load is a `Reading`, whose
        value needs elements of the array, and the access from that value to the array.

        Args:
            place: Number of the kernel's operand, and number of the array in it.
        """
        return [
            (reading, access)
            for reading in self._kernel.readings
            if reading.before is not None
            for access in self._edge(reading, with_masks=False).get(place, ())
        ]

    def loads(self, place: Place) -> list[tuple[Reading, Load]] | None:
        """Return the loads of an input array, each with its own accesses.

        In each pair, the value of the `Reading` needs elements of the array, and one load
        instruction fetches them by the accesses in `Load`. `None` if it is unknown which accesses
        belong to one load instruction.

        Args:
            place: Number of the kernel's operand, and number of the array in it.
        """
        return None if self._loads is None else self._loads.get(place, [])

    def predicate(self, place: Place) -> tuple[int, ...]:
        """Return the widths in bytes of the loads into which LLVM splits one of four predicates.

        The tuple is empty if LLVM does not split such loads of the array.

        Args:
            place: Number of the kernel's operand, and number of the array in it.
        """
        if self._selects is None:
            return ()
        return self._selects.predicates.get(self._fused.edge[place[0]], ())

    def _of_roots(self) -> tuple[Reading, ...]:
        """Return a `Reading` of each written array that needs every element of the array.

        They replace `kernel.readings` for kernels whose threads are not modelled.
        """
        return tuple(
            [
                Reading(root, leaf, IndexingMap.identity(type.shape))
                for _, root, leaf, type in self._fused.outputs(self._analysis)
                if is_array(type)
            ]
        )

    def _register_values(self, reading: Reading) -> frozenset[Instruction]:
        """Return the instructions at which the loads of `reading` end, before the kernel's inputs.

        They are the heroes of an emitter other than the loop, whose results are already in
        registers or shared memory. The set is empty if `reading` loads an operand of a hero.
        """
        return frozenset() if reading.is_hero else self._from_heroes

    def _found(self) -> dict[Place, list[tuple[Reading, Access]]]:
        found: dict[Place, list[tuple[Reading, Access]]] = {}
        analysis, fused = self._analysis, self._fused
        for reading in self._readings:
            edge = fused.reads(
                analysis, reading.value, reading.leaf, self._register_values(reading)
            )
            for place, accesses in edge.items():
                found.setdefault(place, []).extend((reading, access) for access in accesses)
        for k, value in enumerate(fused.edge):
            for leaf, type in enumerate(analysis.tensors(value.type)):
                if isinstance(type, TensorType):
                    found.setdefault((k, leaf), [])
        return dict(sorted(found.items()))

    # Asked for each reading (4,043 reads, 600 computed, in Llama 3.1 70B).
    @cached_property
    def _selects(self) -> Selects | None:
        """Return the analysis of the kernel's selects; `None` if it has no selects or no launch."""
        if self._kernel.launch is None:
            return None
        if not any(isinstance(ins.op, Select) for ins in self._fused.inside):
            return None
        of_elements = self._kernel.emitter == "loop" and self._kernel.unroll == 1
        users = self._fused.users
        found = Selects(
            self._analysis,
            self._fused.inside,
            lambda value: users.get(value, ()),
            of_elements=of_elements,
        )
        return found if found.between_loads or found.masks or found.predicates else None

    def _edge(self, reading: Reading, *, with_masks: bool) -> Edge:
        reads = None if self._selects is None else self._selects.reads(with_masks=with_masks)
        ends = self._register_values(reading)
        return self._fused.reads(self._analysis, reading.value, reading.leaf, ends, reads)

    # Asked for each array of a kernel with selects; it has those of all arrays.
    @cached_property
    def _chosen(self) -> dict[Place, list[tuple[Reading, Access]]]:
        found: dict[Place, list[tuple[Reading, Access]]] = {}
        for reading in self._readings:
            parts = self._within_masks(reading)
            for place, accesses in self._edge(reading, with_masks=False).items():
                part = parts.get(place, reading)
                if part is not None:
                    found.setdefault(place, []).extend((part, access) for access in accesses)
        return found

    def _within_masks(self, reading: Reading) -> dict[Place, Reading | None]:
        """Return, for each masked input array, `reading` in the steps in which the mask may hold.

        Keys are (number of the operand, number of the array in it). The entry is `None` if the mask
        holds in no step of the thread's loops.
        """
        if self._selects is None or not self._selects.masks:
            return {}
        masked = self._edge(reading, with_masks=True)
        plain = self._edge(reading, with_masks=False)
        return {
            place: _without_masked_steps(reading, masked.get(place, ()))
            for place, accesses in plain.items()
            if masked.get(place, ()) != accesses
        }

    # Asked for each array with ambiguous loads; it has those of all arrays.
    @cached_property
    def _loads(self) -> dict[Place, list[tuple[Reading, Load]]] | None:
        found: dict[Place, list[tuple[Reading, Load]]] = {}
        reads = None if self._selects is None else self._selects.reads()
        for reading in self._readings:
            ends = self._register_values(reading)
            edge = self._fused.loads(self._analysis, reading.value, reading.leaf, ends, reads)
            if edge is None:
                return None
            parts = self._within_masks(reading)
            for place, loads in edge.items():
                part = parts.get(place, reading)
                if part is not None:
                    found.setdefault(place, []).extend((part, load) for load in loads)
        return found


def _without_masked_steps(reading: Reading, accesses: Iterable[Access]) -> Reading | None:
    """Return the load, restricted to loop steps in which a thread may need an element.

    Args:
        reading: The load.
        accesses: The needed elements, with masks as conditions.

    Returns:
        `None` if no thread needs an element in any step.
    """
    loops = [v.interval for v in reading.map.ranges]
    maps = [reading.map.compose(a.map) for a in accesses if a.map is not None]
    if prod([i.size for i in loops]) > MOST_STEPS:
        return reading
    needed: list[tuple[int, ...]] = [
        step
        for step in product(*[range(i.lo, i.hi + 1) for i in loops])
        if any(_may_hold(map, step) for map in maps)
    ]
    if not needed:
        return None
    found = reading.map
    # Bounds per loop keep a superset of the needed steps: the loops stay a box.
    for k, steps in enumerate(zip(*needed, strict=True)):
        found = found.add_constraint(Range(k), Interval(min(steps), max(steps)))
    return replace(reading, map=found.simplify(replace_points=False))


def _may_hold(map: IndexingMap, step: tuple[int, ...]) -> bool:
    """Can the constraints of a map hold for a thread in one step of its loops?

    Args:
        map: Map from threads and loops to elements.
        step: Values of the first loops, outermost first; the other loops may have any value.
    """
    box: Box = {**map.box, **{Range(k): Interval.point(value) for k, value in enumerate(step)}}
    return not any((bounds(e, box) & interval).is_empty for e, interval in map.constraints)


# --------------------------------------------------------------------------------------------------
# Selects in a kernel: the lanes that load each of the alternatives.
#
# Two loads that a select chooses between become one load of the chosen address, so each array is
# read by the lanes that choose it. Any other load is made by all lanes, unless the choice is the
# same for all of them: if indices decide a mask, LLVM removes the loop steps that it excludes.
#
# Source: LLVM `llvm/lib/CodeGen/SelectionDAG/DAGCombiner.cpp` (`SimplifySelectOps`),
# `llvm/lib/Transforms/Scalar/CorrelatedValuePropagation.cpp`.


MOVES: Final = (Bitcast, BroadcastInDim, Reshape, Reverse, Slice, Transpose)
"""Ops that change only the index of an element, so that a load through them is the same load."""
LOGIC: Final = ("and", "not", "or", "xor")
LARGEST: Final = 1 << 62


LIMITS: Final = {
    "EQ": Interval(0, 0),
    "LT": Interval(-LARGEST, -1),
    "LE": Interval(-LARGEST, 0),
    "GT": Interval(1, LARGEST),
    "GE": Interval(0, LARGEST),
}
"""Values of `a - b` for which each comparison of `a` and `b` holds."""
ReadsOf: TypeAlias = Callable[[Instruction, int], Iterable[Flow]]
Condition: TypeAlias = tuple[Constraint, ...]
"""Constraints on the index of an element, all of which hold."""


class Selects:
    """The selects of a kernel, and which lanes load each of their operands."""

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
            ins: found if (found := self._condition(ins.operands[0])) and len(found) == 1 else None
            for ins in selects
            if is_direct and all(self._is_load(ins, operand) for operand in ins.operands[1:])
        }
        """Selects between two loads, each with its condition on indices; `None` if data decides."""
        self.masks: Final = {
            ins: condition
            for ins in selects
            if ins not in self.between_loads and (condition := self._condition(ins.operands[0]))
        }
        """Other selects whose predicate depends on indices only, each with that condition."""

    # Asked for each array of a kernel with selects; it has those of all arrays.
    @cached_property
    def predicates(self) -> dict[Instruction, tuple[int, ...]]:
        """Return the kernel inputs that are predicates of selects, with the widths of their loads.

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
        """Return the values from which a predicate is computed by logic and data-movement ops."""
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

    def reads(self, *, with_masks: bool = False) -> ReadsOf:
        """Return a function that yields an instruction's accesses of its operands.

        Its arguments are the instruction and the number of an array in its result. The accesses
        through a select are restricted to the elements for which the select chooses the operand.

        Args:
            with_masks: Restrict also the selects in `masks`, and not only those in `between_loads`.
        """
        chosen: dict[Instruction, Condition | None] = dict(self.between_loads)
        if with_masks:
            chosen |= self.masks

        def reads(ins: Instruction, leaf: int) -> Iterable[Flow]:
            flows = self._analysis.reads(ins, leaf)
            if ins not in chosen:
                return flows
            return [_accesses_through_select(flow, ins, chosen[ins]) for flow in flows]

        return reads

    def _is_load(self, select: Instruction, value: Instruction) -> bool:
        """Does a value only move an element of an input array, for this select alone?"""
        type = array_of(value)
        if type is None or type.element.bits < 8 or type.element.name == "pred":
            return False
        user = select
        while value in self._inside:
            if not isinstance(value.op, MOVES) or tuple(self._users(value)) != (user,):
                return False
            user, value = value, value.operands[0]
        return tuple(self._users(value)) == (user,)

    # --------------------------------------------------------------------- values of indices

    def _condition(self, value: Instruction) -> Condition | None:
        """Return the condition on indices under which a predicate holds; `None` if data decides.

        `value` is the predicate: a comparison of indices, an `and` of such, or a moved one.
        """
        if value not in self._inside:
            return None
        if isinstance(value.op, Compare) and len(value.operands) == 2:
            a, b = [self._integer(operand) for operand in value.operands]
            if a is None or b is None:
                return None
            # `a < b` is `a - b < 0`, so each comparison is one interval of the difference.
            difference = a - b
            limits = LIMITS.get(value.op.comparison_direction)
            if limits is None:
                return None
            const = as_sum(difference)[1]
            lo, hi = [at if abs(at) == LARGEST else at - const for at in (limits.lo, limits.hi)]
            return ((difference - const, Interval(lo, hi)),)
        if value.op.name == "and" and isinstance(value.op, Elementwise):
            parts = [self._condition(operand) for operand in value.operands]
            known = [part for part in parts if part is not None]
            return tuple(chain(*known)) if len(known) == len(parts) else None
        if isinstance(value.op, MOVES) and (map := _only_map(value)) is not None:
            inner = self._condition(value.operands[0])
            if inner is None:
                return None
            new: dict[Var, Expr] = {Dim(k): e for k, e in enumerate(map.results)}
            return tuple(substituted_constraints(inner, new))
        return None

    def _integer(self, value: Instruction) -> Expr | None:
        """Return an integer value as an expression in the element's index; `None` if it is data."""
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
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            return reduce(sub if value.op.name == "subtract" else add, known)
        return None


def _accesses_through_select(flow: Flow, select: Instruction, condition: Condition | None) -> Flow:
    """Return an operand's accesses, restricted to the elements that the select takes from it.

    Args:
        flow: Accesses of one operand of the select.
        select: The select.
        condition: Condition on the index under which the second operand is taken; `None` if data
            decides.
    """
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
    """Return the map with the constraints of `condition` added, simplified."""
    return map.with_(constraints=[*map.constraints, *condition]).simplify()


def _opposite(constraint: Constraint) -> list[Constraint]:
    """Return the negation of a constraint: constraints below and above its interval.

    One of them must hold.
    """
    e, interval = constraint
    sides = [Interval(-LARGEST, interval.lo - 1), Interval(interval.hi + 1, LARGEST)]
    return [(e, side) for side in sides if not side.is_empty]


def _only_map(value: Instruction) -> IndexingMap | None:
    """Return the only map of a data-movement op to its operand.

    `None` if it has range variables, runtime variables or constraints.
    """
    accesses = output_to_input(value)[0]
    map = accesses[0].map if len(accesses) == 1 else None
    if map is None or map.ranges or map.runtime or map.constraints:
        return None
    return map
