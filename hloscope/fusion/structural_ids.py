"""Structural numbers of computations: equal numbers mean equal indexing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

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
    callees_first,
)
from hloscope.ops import Constant, Parameter
from hloscope.support.walks import needed_first

# --------------------------------------------------------------------------------------------------
# Structural numbers of computations: equal numbers mean equal indexing.
#
# Results about one computation serve all of equal structure: the origins of runtime variables are
# replaced by the instructions at the same positions.
#
# Results of a computation are built from those of the computations that it calls.  Direct recursion
# would take as many Python frames as calls are nested.  So inner computations of a deep nest are
# computed first, one in `EVERY` levels, and recursion is never deeper than that.


class Numbering:
    """Assigns numbers to hashable values; equal values have equal numbers."""

    def __init__(self) -> None:
        self.known: Final[dict[Any, int]] = {}

    def __call__(self, value: object) -> int:
        """Return the number of `value`, a new one at the first request."""
        return self.known.setdefault(value, len(self.known))


class StructureIds:
    """Assigns numbers to computations by structure; equal numbers mean equal structure.

    The structure has everything that indexing can depend on: ops, types with layouts, operands and
    called computations.  Names, metadata, source positions and the values of floating-point
    constants are ignored.
    """

    def __init__(self) -> None:
        # Numbers ops, types and structures; a computation has the number of its structure. So each
        # of the 4,233 computations of a GPT of 48 layers is hashed once, not once for each query.
        self.op_number = self.type_number = self._number = Numbering()

    def op_of(self, ins: Instruction) -> int:
        """Return the number of the instruction's op; floating-point constants share -1."""
        return -1 if _is_any_constant(ins) else self._number(ins.op)

    def number(self, computation: Computation) -> int:
        """Return the number of the computation's structure."""
        known = self._number.known
        if computation not in known:
            for inner in callees_first(computation, known):
                known[inner] = self._number(self._key(inner))  # callees are numbered already
        return known[computation]

    def _key(self, computation: Computation) -> object:
        """Return a key that is equal for computations of equal structure."""
        position: dict[Instruction, int] = {}
        row: list[object] = []
        # An instruction is its op, type and operands' positions. A captured value is not in
        # `position` and stays itself, because its identity matters. A callee's number is
        # complemented, so that it cannot equal a position. `None` ends each instruction, as
        # operand counts vary.
        for at, ins in enumerate(computation.instructions):
            position[ins] = at
            row += (
                -1 if _is_any_constant(ins) else ins.op,
                ins.type,
                *[position.get(value, value) for value in ins.operands],
            )
            for callee in ins.calls:
                number = self._number.known.get(callee)
                row.append(callee if number is None else ~number)  # recursive
            row.append(None)
        row.append(position[computation.root])
        return tuple(row)


def _is_any_constant(ins: Instruction) -> bool:
    """Is the instruction a constant of neither booleans nor integers?

    The values of such a constant do not affect maps.
    """
    return type(ins.op) is Constant and not _is_integer(ins.type)


def _is_integer(type: Type) -> bool:
    """Is the type a tensor of booleans or integers?"""
    return isinstance(type, TensorType) and type.element.kind in ("pred", "signed", "unsigned")


def has_runtime(accesses: Accesses) -> bool:
    """Does an access depend on values read at run time or on collectives?"""
    return any([access.via or (access.map and access.map.runtime) for access in accesses])


def origins_of(accesses: Accesses) -> dict[Instruction, None]:
    """Return the instructions from which runtime variables are read, each once, in order."""
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
    """Return the access with instructions replaced by `new`.

    These are origins of runtime variables, and collectives.
    """
    map, replica = (_renamed(map, new) for map in (access.map, access.replica))
    via = _all_renamed(access.via, new)
    if map is access.map and replica is access.replica and via == access.via:
        return access
    return replace(access, map=map, replica=replica, via=via)


def _renamed(map: IndexingMap | None, new: Mapping[Instruction, Instruction]) -> IndexingMap | None:
    """Return the map with origins replaced by `new`; the same object if nothing changed."""
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
    """Return the runtime variable with its origin and collectives replaced by `new`."""
    origin, collective = (
        None if ins is None else renamed_value(ins, new)
        for ins in (variable.origin, variable.collective)
    )
    via = _all_renamed(variable.via, new)
    return replace(variable, origin=origin, collective=collective, via=via)


def renamed_value(value: Instruction, new: Mapping[Instruction, Instruction]) -> Instruction:
    """Return the replacement of a value in `new`, or the value itself if it has none.

    If the value is inside a call, the call is replaced too.
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
    """Return the collectives `steps`, each replaced if it has a replacement in `new`."""
    return tuple([new.get(step, step) for step in steps]) if steps else steps


class Summary:
    """Dependences through a computation, usable for every computation of equal structure."""

    def __init__(self, computation: Computation, flows: tuple[Flow, ...]) -> None:
        self._computation = computation
        self._flows = flows
        self._has_runtime = any([has_runtime(flow.accesses or ()) for flow in flows])

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
    """Return the instruction of `other` at the same position, for each instruction of `one`.

    Called computations are included. The computations have equal structure.
    """
    new: dict[Instruction, Instruction] = {}
    stack = [(one, other)]
    while stack:
        for here, there in zip(*stack.pop(), strict=True):
            if here not in new:
                new[here] = there
                stack.extend(zip(here.calls, there.calls, strict=True))
    return new


EVERY: Final = 16
"""Maximum number of levels of calls that are computed by recursion.

In deeper nests, the computations at every level that is a multiple of it are computed before their
callers.
"""
RECURSIVE: Final = "a function that calls itself"
"""The reason of an unknown access through a recursive function."""


def computed_ahead(results: Results, question: str, computation: Computation) -> list[Computation]:
    """Return the called computations to analyse before a computation, inner ones first.

    `question` names the analysis, as in a key of `results`. Each computation is returned only once
    per question.
    """
    if not any([called.callees for called in computation.callees]):
        return []
    if depth(results, computation) <= EVERY:
        return []
    walked = _called(results, f"{question} ahead", computation)
    results.update(dict.fromkeys([(f"{question} ahead", inner) for inner in walked], True))
    return [
        inner for inner in walked if inner is not computation and not depth(results, inner) % EVERY
    ]


def depth(results: Results, computation: Computation) -> int:
    """Return the number of computations in the longest chain of calls that begins at a computation.

    A recursive call ends a chain. `results` memoizes the numbers.
    """
    for top in _called(results, "depth", computation):
        below = [results.get(("depth", callee), 0) for callee in top.callees]
        results["depth", top] = 1 + max(below, default=0)
    found: int = results["depth", computation]
    return found


def _called(results: Results, question: str, computation: Computation) -> list[Computation]:
    """Return `computation` and all that it calls, directly or indirectly, callees first.

    Computations that have an entry for `question` in `results` are left out.
    """

    def missing(computations: Iterable[Computation]) -> list[Computation]:
        return [c for c in computations if (question, c) not in results]

    return [*needed_first(missing([computation]), lambda c: missing(c.callees[::-1]))]


# --------------------------------------------------------------------------------------------------
# Memoized results of one analysis.


_T = TypeVar("_T")


class Results(dict[tuple[Any, ...], Any]):
    """Results by a key: a question and the subject of the question.

    A subject is compared by value, or is the number of a structure (`structural_ids`): then equal
    instructions and computations share the result.  Other subjects are nodes of the graph, compared
    by identity. The last column tells how much longer all maps of a program take, in both
    directions, if the result is not memoized.

    | question | subject | result | without it |
    |---|---|---|---|
    | a `Direction` | op, types, bodies | dependences by the op's rule | 4 times, GPT of 48 layers |
    | `reads`, `writes` | structure, leaf | dependences through it | exponential in nested calls |
    | `parameters` | structure | uses of all parameters | 2.1 times, cartpole rollout |
    | `first parameter` | structure | the parameter queried first | see `parameter_users` |
    | `body` | structure | dependences of a called body | 2 times, sums of 160 arrays |
    | `source` | computation, leaf | value returned unchanged | it does not end: callees first |
    | `positions` | computation | order of the instructions | 1.6 times, 1,200 outputs |
    | `users` | computation | users of each value | 4 times, 300 outputs |
    | `starts` | instruction | first leaf of each operand | 3.7 times, 1,200 outputs |
    | `offsets` | type | first leaf of each element | 6 times, loop with 640 arrays |
    | `consistent sizes` | instruction | do run-time sizes agree? | 1.1 times, 1,200 outputs |
    | `has sizes` | instruction | is there a run-time size? | 1.7 times, 1,200 operands |
    | `is valid` | instruction | its types are checked | 16 times, loop with 640 arrays |
    | `fusion that calls` | computation | its caller | two callers would not be found |
    | `depth`, `… ahead` | computation | nesting of calls | quadratic in nested calls |
    """

    def once(self, key: tuple[Any, ...], find: Callable[[], _T]) -> _T:
        """Return the result for a key; `find` computes it at the first request.

        `find` must not return `None`.

        >>> results = Results()
        >>> [results.once(("square", 3), lambda: 9), results.once(("square", 3), lambda: 0)]
        [9, 9]
        """
        known: _T | None = self.get(key)
        if known is None:
            known = self[key] = find()
        return known
