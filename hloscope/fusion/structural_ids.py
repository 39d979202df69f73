"""Structural numbers of computations: equal numbers mean equal indexing.

Results about one computation serve all of equal structure: the origins of runtime variables are
replaced by the instructions at the same positions.

Results of a computation are built from those of the computations that it calls.  Direct recursion
would take as many Python frames as calls are nested.  So inner computations of a deep nest are
computed first, one in `EVERY` levels, and recursion is never deeper than that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from hloscope.fusion.traversal import Flow
from hloscope.indexing import Access, Accesses, IndexingMap, RuntimeVariable
from hloscope.ir import (
    CalledValue,
    Computation,
    Instruction,
    TensorType,
    Type,
    called_value,
    inside_out,
)
from hloscope.ops import Constant, Parameter

_T = TypeVar("_T")


class Numbering:
    """Number values by equality; each object is hashed once."""

    def __init__(self) -> None:
        self._by_value: dict[object, int] = {}
        self.known: Final[dict[int, tuple[object, int]]] = {}
        """Values and their numbers, by `id`; a stored value keeps its `id` from being reused."""

    def __call__(self, value: object) -> int:
        """Number of `value`; equal values have equal numbers."""
        known = self.known.get(id(value))
        if known is None:
            number = self._by_value.setdefault(value, len(self._by_value))
            known = self.known[id(value)] = (value, number)
        return known[1]


class StructureIds:
    """Number computations by structure; equal numbers mean equal structure.

    The structure has everything that indexing can depend on: ops, types with layouts, operands and
    called computations.  Names, metadata, source positions and the values of floating-point
    constants are ignored.
    """

    def __init__(self) -> None:
        self.op_number = Numbering()
        self.type_number = Numbering()
        self._numbers: dict[object, int] = {}
        self._of: dict[Computation, int] = {}

    def op_of(self, ins: Instruction) -> int:
        """Return the number of the instruction's op; floating-point constants share -1."""
        if type(ins.op) is Constant and not _is_integer(ins.type):
            return -1
        return self.op_number(ins.op)

    def number(self, computation: Computation) -> int:
        """Return the number of the computation's structure."""
        known = self._of.get(computation)
        if known is None:
            for inner in inside_out(computation, self._of):
                self._of[inner] = self._number_of(inner)
            known = self._of[computation]
        return known

    def _number_of(self, computation: Computation) -> int:
        """Return the number of the computation's key; callees are numbered already."""
        return self._numbers.setdefault(self._key(computation), len(self._numbers))

    def _key(self, computation: Computation) -> object:
        """Return a key that is equal for computations of equal structure."""
        position: dict[Instruction, int] = {}
        row: list[object] = []
        ops, types, numbers = self.op_number.known, self.type_number.known, self._of
        # An instruction is its op, type and operands' positions. A captured value is not in
        # `position` and stays itself, because its identity matters. A callee's number is
        # complemented, so that it cannot equal a position. `None` ends each instruction, as
        # operand counts vary.
        for at, ins in enumerate(computation.instructions):
            position[ins] = at
            op, of_type = ops.get(id(ins.op)), types.get(id(ins.type))
            row += (
                self.op_of(ins) if op is None or type(ins.op) is Constant else op[1],
                self.type_number(ins.type) if of_type is None else of_type[1],
                *[position.get(value, value) for value in ins.operands],
            )
            for callee in ins.calls:
                number = numbers.get(callee)
                row.append(callee if number is None else ~number)  # recursive
            row.append(None)
        row.append(position[computation.root])
        return tuple(row)


def _is_integer(type: Type) -> bool:
    """Is the element type boolean or an integer?"""
    return isinstance(type, TensorType) and type.element.kind in ("pred", "signed", "unsigned")


def has_runtime(accesses: Accesses) -> bool:
    """Does an access depend on values read at run time or on collectives?"""
    return any([access.via or (access.map and access.map.runtime) for access in accesses])


def origins_of(accesses: Accesses) -> dict[Instruction, None]:
    """Return the instructions that the runtime variables are read from, in order."""
    return {
        variable.origin: None
        for access in accesses
        if access.map is not None
        for variable in access.map.runtime
        if variable.origin is not None
    }


def origin_text(origin: Instruction) -> str:
    """Return the text of a runtime variable's origin: `parameter(1)`, `constant(3)` or a name.

    Source: XLA's indexing tests, which print instructions without names.
    """
    match origin.op:
        case Parameter(number):
            return f"parameter({number})"
        case Constant(literal) if "{" not in str(literal):
            return f"constant({literal})"
        case _:
            return origin.name


def with_origins(access: Access, new: Mapping[Instruction, Instruction]) -> Access:
    """Return the access with origins of runtime variables and collectives replaced."""
    map, replica = (_renamed(map, new) for map in (access.map, access.replica))
    via = _all_renamed(access.via, new)
    if map is access.map and replica is access.replica and via == access.via:
        return access
    return replace(access, map=map, replica=replica, via=via)


def _renamed(map: IndexingMap | None, new: Mapping[Instruction, Instruction]) -> IndexingMap | None:
    """Return the map with origins replaced; the same object if nothing changed."""
    if map is None or not map.runtime:
        return map
    runtime = [_variable_renamed(variable, new) for variable in map.runtime]
    if runtime == [*map.runtime]:
        return map
    renamed = map.with_(runtime=runtime)
    if map.is_simplified:  # origins do not affect the normal form
        renamed.mark_simplified()
    return renamed


def _variable_renamed(
    variable: RuntimeVariable, new: Mapping[Instruction, Instruction]
) -> RuntimeVariable:
    """Return the runtime variable with its origin and collectives replaced."""
    origin, collective = (
        None if ins is None else renamed_value(ins, new)
        for ins in (variable.origin, variable.collective)
    )
    via = _all_renamed(variable.via, new)
    return replace(variable, origin=origin, collective=collective, via=via)


def renamed_value(value: Instruction, new: Mapping[Instruction, Instruction]) -> Instruction:
    """Return the replacement of a value.

    Of a value inside a call, the call is replaced too.
    """
    calls: list[tuple[Instruction, int]] = []
    # Unwrap the calls to the innermost value, then wrap its replacement in the replaced calls.
    while value not in new and isinstance(value, CalledValue):
        calls.append((new.get(value.call, value.call), value.first))
        value = value.value
    found = new.get(value, value)
    for call, first in reversed(calls):
        found = called_value(found, call, first)
    return found


def _all_renamed(
    steps: tuple[Instruction, ...], new: Mapping[Instruction, Instruction]
) -> tuple[Instruction, ...]:
    """Return the collectives with replacements."""
    return tuple([new.get(step, step) for step in steps]) if steps else steps


class Summary:
    """Dependences through a computation, for every computation of equal structure."""

    def __init__(self, computation: Computation, flows: tuple[Flow, ...]) -> None:
        self._computation = computation
        self._flows = flows

    # Cached: `for_` asks it for every caller of the structure, and it never changes.
    @cached_property
    def _has_runtime(self) -> bool:
        """Does a dependence have a runtime variable?"""
        return any([has_runtime(flow.accesses or ()) for flow in self._flows])

    def for_(self, computation: Computation) -> tuple[Flow, ...]:
        """Return the dependences of a computation that has the structure of the summarised one.

        Their runtime variables are read from instructions of `computation`.
        """
        if computation is self._computation or not self._has_runtime:
            return self._flows
        new = counterparts(self._computation, computation)
        return tuple(
            [
                flow
                if flow.accesses is None
                else flow._replace(accesses=tuple([with_origins(a, new) for a in flow.accesses]))
                for flow in self._flows
            ]
        )


def counterparts(one: Computation, other: Computation) -> dict[Instruction, Instruction]:
    """Map each instruction of `one` to that of `other` at the same position, callees included.

    The computations have equal structure.
    """
    new: dict[Instruction, Instruction] = {}
    stack = [(one, other)]
    while stack:
        for here, there in zip(*stack.pop(), strict=True):
            if here not in new:
                new[here] = there
                stack.extend(zip(here.calls, there.calls, strict=True))
    return new


class Recent(Generic[_T]):
    """A function of a computation with a memo of its most recently used results.

    Queries about a computation alternate with queries about its callees, so one result is not
    enough.
    """

    def __init__(self, find: Callable[[Computation], _T]) -> None:
        self._find = find
        self._known: dict[Computation, _T] = {}

    def __call__(self, computation: Computation) -> _T:
        """Return the result for a computation."""
        known = self._known
        found = known.pop(computation, None)
        if found is None:
            found = self._find(computation)
            if len(known) >= MOST_RECENT:
                known.pop(next(iter(known)), None)  # another thread may have been faster
        known[computation] = found
        return found


MOST_RECENT: Final = 64
"""Maximum number of memoized results."""
EVERY: Final = 16
"""Levels of calls between computations that are computed ahead of their callers."""
RECURSIVE: Final = "a function that calls itself"
"""The reason of an unknown map through a recursive function."""


class Nesting:
    """Depth of nested calls of computations."""

    def __init__(self) -> None:
        self._depth: dict[Computation, int] = {}
        self._ahead: dict[str, set[Computation]] = {}

    def depth(self, computation: Computation) -> int:
        """Return the number of computations in the longest chain of calls that begins here.

        A recursive call counts as none.
        """
        depth = self._depth
        if computation not in depth:
            for top in inside_out(computation, depth):
                depth[top] = 1 + max([depth.get(callee, 0) for callee in top.callees], default=0)
        return depth[computation]

    def ahead(self, question: str, computation: Computation) -> list[Computation]:
        """Return the computations to analyse first, inner ones first, each once per `question`."""
        if not any([called.callees for called in computation.callees]):
            return []
        if self.depth(computation) <= EVERY:
            return []
        asked = self._ahead.setdefault(question, set())
        walked = [*inside_out(computation, asked)]
        asked.update(walked)
        return [
            inner for inner in walked if inner is not computation and not self._depth[inner] % EVERY
        ]
