"""Where runtime variables are read from, and renaming it from one computation to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hloscope.fusion.walk import Flow
from hloscope.indexing import Access, Accesses, IndexingMap, RuntimeVariable
from hloscope.ir import CalledValue, Computation, Instruction, called_value
from hloscope.ops import Constant, Parameter


def has_runtime(accesses: Accesses) -> bool:
    """Does any access depend on what instructions are when the program runs?"""
    return any(access.via or (access.map and access.map.runtime) for access in accesses)


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
    return map if runtime == [*map.runtime] else map.with_(runtime=runtime)


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
        self._has_runtime = any(has_runtime(flow.accesses or ()) for flow in flows)

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
