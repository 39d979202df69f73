"""Computations as an analysis takes them: those of one structure once, the innermost first.

What was found out about one is told of the others of its structure: where runtime variables are
read from is renamed to the instructions in the same places.

It is built on what is known of the computations that are called, which would take as many Python
frames as calls are nested.  So of a deep chain some computations are looked at first, the innermost
before the others: no more than `EVERY` levels are ever left.
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
    """Numbers values by equality, asking for their hash once per object."""

    def __init__(self) -> None:
        self._by_value: dict[object, int] = {}
        self.known: Final[dict[int, tuple[object, int]]] = {}
        """Values and their numbers, by identity."""

    def __call__(self, value: object) -> int:
        """Number of `value`; equal values have equal numbers."""
        known = self.known.get(id(value))
        if known is None:
            number = self._by_value.setdefault(value, len(self._by_value))
            known = self.known[id(value)] = (value, number)
        return known[1]


class Blueprints:
    """Gives every computation a number; equal numbers mean equal structure.

    Structure is what indexing can depend on: ops, types with layouts, wiring, called computations.
    Names, metadata, spans and the values of floating-point constants are no part of it.
    """

    def __init__(self) -> None:
        self.op_number = Numbering()
        self.type_number = Numbering()
        self._numbers: dict[object, int] = {}
        self._of: dict[Computation, int] = {}

    def op_of(self, ins: Instruction) -> int:
        """Number of the instruction's op; floating-point constants share one."""
        if type(ins.op) is Constant and not _is_integer(ins.type):
            return -1
        return self.op_number(ins.op)

    def number(self, computation: Computation) -> int:
        """Number of the computation's structure."""
        known = self._of.get(computation)
        if known is None:
            for inner in inside_out(computation, self._of):
                self._of[inner] = self._number_of(inner)
            known = self._of[computation]
        return known

    def _number_of(self, computation: Computation) -> int:
        return self._numbers.setdefault(self._key(computation), len(self._numbers))

    def _key(self, computation: Computation) -> object:
        position: dict[Instruction, int] = {}
        row: list[object] = []
        ops, types, numbers = self.op_number.known, self.type_number.known, self._of
        for at, ins in enumerate(computation.instructions):
            position[ins] = at
            op, of_type = ops.get(id(ins.op)), types.get(id(ins.type))
            row += (
                self.op_of(ins) if op is None or type(ins.op) is Constant else op[1],
                self.type_number(ins.type) if of_type is None else of_type[1],
                *[position.get(value, value) for value in ins.operands],  # a region may read others
            )
            for callee in ins.calls:
                number = numbers.get(callee)
                row.append(callee if number is None else ~number)  # itself: it calls this one
            row.append(None)
        row.append(position[computation.root])
        return tuple(row)


def _is_integer(type: Type) -> bool:
    return isinstance(type, TensorType) and type.element.kind in ("pred", "signed", "unsigned")


def has_runtime(accesses: Accesses) -> bool:
    """Does any access depend on what instructions are when the program runs?"""
    return any([access.via or (access.map and access.map.runtime) for access in accesses])


def origins_of(accesses: Accesses) -> dict[Instruction, None]:
    """The instructions whose values the runtime variables are."""
    return {
        variable.origin: None
        for access in accesses
        if access.map is not None
        for variable in access.map.runtime
        if variable.origin is not None
    }


def origin_text(origin: Instruction) -> str:
    """What a runtime variable is read from: `parameter(1)`, `constant(3)`, else the name.

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
    """The access with some origins, and collectives on the way, replaced."""
    map, replica = (_renamed(map, new) for map in (access.map, access.replica))
    via = _all_renamed(access.via, new)
    if map is access.map and replica is access.replica and via == access.via:
        return access
    return replace(access, map=map, replica=replica, via=via)


def _renamed(map: IndexingMap | None, new: Mapping[Instruction, Instruction]) -> IndexingMap | None:
    if map is None or not map.runtime:
        return map
    runtime = [_variable_renamed(variable, new) for variable in map.runtime]
    if runtime == [*map.runtime]:
        return map
    renamed = map.with_(runtime=runtime)
    if map.is_simplified:  # where values are read makes no difference to that
        renamed.mark_simplified()
    return renamed


def _variable_renamed(
    variable: RuntimeVariable, new: Mapping[Instruction, Instruction]
) -> RuntimeVariable:
    origin, collective = (
        None if ins is None else renamed_value(ins, new)
        for ins in (variable.origin, variable.collective)
    )
    via = _all_renamed(variable.via, new)
    return replace(variable, origin=origin, collective=collective, via=via)


def renamed_value(value: Instruction, new: Mapping[Instruction, Instruction]) -> Instruction:
    """The instruction in a value's place; that of a call's value, in the call's place."""
    calls: list[tuple[Instruction, int]] = []
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
    return tuple([new.get(step, step) for step in steps]) if steps else steps


class Summary:
    """Flows through a computation, told for every computation of equal structure."""

    def __init__(self, computation: Computation, flows: tuple[Flow, ...]) -> None:
        self._computation = computation
        self._flows = flows

    @cached_property
    def _has_runtime(self) -> bool:
        return any([has_runtime(flow.accesses or ()) for flow in self._flows])

    def for_(self, computation: Computation) -> tuple[Flow, ...]:
        """The flows, with runtime variables read from instructions of `computation`."""
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
    """The instruction of `other` in the place of each of `one`, called computations included."""
    new: dict[Instruction, Instruction] = {}
    stack = [(one, other)]
    while stack:
        for here, there in zip(*stack.pop(), strict=True):
            if here not in new:
                new[here] = there
                stack.extend(zip(here.calls, there.calls, strict=True))
    return new


class Recent(Generic[_T]):
    """A function of a computation that remembers its answers about those asked about last.

    In between, what a computation calls is asked about: one answer is not enough.
    """

    def __init__(self, find: Callable[[Computation], _T]) -> None:
        self._find = find
        self._known: dict[Computation, _T] = {}

    def __call__(self, computation: Computation) -> _T:
        """The answer about a computation."""
        known = self._known
        found = known.pop(computation, None)
        if found is None:
            found = self._find(computation)
            if len(known) >= MOST_RECENT:
                known.pop(next(iter(known)), None)  # another thread may have been faster
        known[computation] = found
        return found


MOST_RECENT: Final = 64
"""Computations whose answers are remembered."""
EVERY: Final = 16
"""Of so many levels of calls the innermost computation is looked at ahead."""
RECURSIVE: Final = "a function that calls itself"
"""The reason why nothing is known of what such a function reads."""


class Nesting:
    """How deep computations call others; each is looked at once."""

    def __init__(self) -> None:
        self._depth: dict[Computation, int] = {}
        self._ahead: dict[str, set[Computation]] = {}

    def depth(self, computation: Computation) -> int:
        """The number of computations in the longest chain of calls that begins here.

        A call of a computation whose chain is being followed, its own, counts as none.
        """
        depth = self._depth
        if computation not in depth:
            for top in inside_out(computation, depth):
                depth[top] = 1 + max([depth.get(callee, 0) for callee in top.callees], default=0)
        return depth[computation]

    def ahead(self, question: str, computation: Computation) -> list[Computation]:
        """The computations to ask a question about before this one, inner ones first, each once."""
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
