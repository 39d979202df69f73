"""Dependences of a computation's results on its parameters, also when it is applied repeatedly.

A body that an op applies to elements (of a reduction, a sort, a scatter …) reaches the op's rules
as one `Dependence`: the parameters that each result reads, by the structure of the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.rules.registry import NEVER, leaves
from hloscope.ir import Computation, Instruction

UNUSED: Final = "the body does not use it in every case"
MOST_STATES: Final = 1024
"""Maximum number of distinct states of a repeated body that are followed.

With more, no use counts as sure.
"""


class Dependence(Struct, frozen=True):
    """Dependences of each result of a computation on its parameters.

    Leaves of the root are numbered in order, and so are the leaves of all parameters together.

    Attributes:
        reads: For each leaf of the root, the leaves of parameters that it may read.
        sure: For each leaf of the root, those of its `reads` that it reads for all values.
        aligned: For each leaf of the root, those of its `reads` of which an element reads only the
            element at its own index.
        unchanged: For each leaf of the root, the parameter leaf that it equals; -1 if none.
    """

    reads: tuple[frozenset[int], ...]
    sure: tuple[frozenset[int], ...]
    aligned: tuple[frozenset[int], ...]
    unchanged: tuple[int, ...]

    @classmethod
    def of_everything(cls, results: int, parameters: int) -> Dependence:
        """Return the dependence of each result on all parameters, element by element.

        >>> Dependence.of_everything(1, 2).reads
        (frozenset({0, 1}),)
        """
        rows = (frozenset(range(parameters)),) * results
        return cls(rows, rows, rows, (-1,) * results)

    @property
    def used(self) -> frozenset[int]:
        """The leaves of parameters that some result may read."""
        return frozenset[int]().union(*self.reads)


Bodies: TypeAlias = tuple[Dependence, ...]
"""One dependence for each computation that an instruction calls, in order."""


def body_of(bodies: Bodies, count: int) -> Dependence:
    """Return the first of the bodies, which combines `count` accumulators with as many elements.

    Without bodies, return one in which each result depends on everything.
    """
    return bodies[0] if bodies else Dependence.of_everything(count, 2 * count)


Reader: TypeAlias = Callable[[Instruction], Bodies]
"""Function that returns the dependences of the computations that an instruction calls."""


def by_convention(ins: Instruction, known: Bodies = ()) -> Bodies:
    """Return dependences in which each result of a computation depends on all its parameters.

    Args:
        ins: The instruction that calls the computations.
        known: Their real dependences. A result that reads a parameter at other indices also does so
            in the returned dependence.
    """
    every = [_everything(callee) for callee in ins.calls]
    for k, body in enumerate(known):
        if body.aligned != body.reads:
            every[k] = replace(every[k], aligned=(frozenset(),) * len(every[k].reads))
    return tuple(every)


def _everything(callee: Computation) -> Dependence:
    count = sum(len(leaves(p.type)) for p in callee.parameters)
    return Dependence.of_everything(len(leaves(callee.root.type)), count)


class Use(Enum):
    """Certainty with which a value is used: never, sometimes or always."""

    NEVER = 0
    SOMETIMES = 1
    ALWAYS = 2


def use_of(possible: bool, sure: bool) -> Use:
    """Return the `Use` of a value from two facts.

    `possible` says that the value is used for some data, `sure` that it is used for all data.
    """
    return Use.ALWAYS if sure else Use.SOMETIMES if possible else Use.NEVER


def weakened_by_use(use: Use, accesses: Accesses, reason: str = UNUSED) -> Accesses:
    """Return the accesses of a value, weakened by how certainly it is used (`use`).

    There are none if the value is never used. If it is used sometimes, exact accesses become
    `OVER`, with the reason.
    """
    match use:
        case Use.NEVER:
            return NEVER
        case Use.ALWAYS:
            return accesses
        case Use.SOMETIMES:
            return tuple(
                replace(a, precision=Precision.OVER, reason=reason)
                if a.precision is Precision.EXACT
                else a
                for a in accesses
            )


class Uses(dict[int, Use]):
    """Uses of values, by the number of the value; absent values are never used.

    >>> Uses({7: Use.ALWAYS})[8]
    <Use.NEVER: 0>
    """

    def __missing__(self, _: int) -> Use:
        return Use.NEVER


def weakened_by_uses(
    uses: Uses, count: int, accesses: Accesses, reason: str = UNUSED
) -> list[Accesses]:
    """Return the same accesses for each of `count` values, each weakened by its use.

    The values are numbered from 0. There are no accesses if `uses` does not have the value. If it
    is used sometimes, exact accesses become `OVER`, with the reason `reason`.

    >>> weakened_by_uses(Uses({1: Use.ALWAYS}), 3, ())
    [(), (), ()]
    """
    found = [NEVER] * count
    for k, use in uses.items():
        found[k] = weakened_by_use(use, accesses, reason)
    return found


def uses_of(value: int, rows: Iterable[Uses]) -> Uses:
    """Return the numbers of the `Uses` in `rows` that use value number `value`, with that use.

    >>> uses_of(7, (Uses(), Uses({7: Use.ALWAYS})))
    {1: <Use.ALWAYS: 2>}
    """
    return Uses({k: row[value] for k, row in enumerate(rows) if value in row})


State: TypeAlias = tuple[frozenset[int], ...]
"""For each final result of a fold, the numbers of the values that it depends on.

The values are accumulators or elements.
"""


def state_before(rows: tuple[frozenset[int], ...], state: State) -> State:
    """Return the state before one application of the body, given the state after it.

    `rows` has, for each result of the body, the values that it reads.
    """
    return tuple([frozenset[int]().union(*[rows[j] for j in known]) for known in state])


class History:
    """States of a repeatedly applied body, the one after the last application first.

    A state says which values each final result depends on at that point.

    >>> swap = (frozenset({1}), frozenset({0}))
    >>> past = History(swap, (frozenset({0}),))
    >>> [sorted(past.at(n)[0]) for n in (0, 1, 2, 1001)]
    [[0], [1], [0], [1]]
    """

    def __init__(self, rows: tuple[frozenset[int], ...], last: State) -> None:
        self._states: list[State] = [last]
        known = {last: 0}
        while len(self._states) < MOST_STATES:
            state = state_before(rows, self._states[-1])
            # Each state follows from the one before, so a state that occurs again starts a cycle.
            if state in known:
                self._first = known[state]
                self.is_complete = True
                return
            known[state] = len(self._states)
            self._states.append(state)
        self._first = 0
        self.is_complete = False

    @property
    def is_steady(self) -> bool:
        """Return whether the last of the known states repeats itself from then on."""
        return self.is_complete and self._first == len(self._states) - 1

    @property
    def length(self) -> int:
        """Number of different states that are known."""
        return len(self._states)

    def at(self, number: int) -> State:
        """Return the state `number` applications before the end.

        States must have been followed to a cycle or to that number.
        """
        if number < len(self._states):
            return self._states[number]
        period = len(self._states) - self._first
        return self._states[self._first + (number - self._first) % period]

    def between(self, least: int, most: int) -> list[State]:
        """Return the different states from `least` to `most` applications before the end.

        If the states were not followed to a cycle, return all known states.
        """
        if not self.is_complete:
            return self._states
        return [self.at(n) for n in range(least, min(most, least + len(self._states)) + 1)]


class Fold(Struct, frozen=True):
    """Dependences of the results of a fold `acc = body(acc, element)`.

    Attributes:
        initial: For each result, its use of each initial value.
        elements: For each result, its use of the elements of each input.
        results: For each result of the fold, its use of the results of the body.
    """

    initial: tuple[Uses, ...]
    elements: tuple[Uses, ...]
    results: tuple[Uses, ...]


def fold(body: Dependence, count: int, least: int, most: int) -> Fold:
    """Return the dependences of the results of a fold with `count` accumulators.

    Args:
        body: Dependence of the body, which takes the accumulators and then as many elements.
        count: Number of accumulators.
        least: Smallest number of applications of the body.
        most: Largest number of applications of the body.

    >>> last = Dependence.of_everything(1, 2)
    >>> fold(last, 1, 3, 3).elements
    ({0: <Use.ALWAYS: 2>},)
    """
    # One accumulator depends on itself or not: no more changes after one application.
    if count == 1:
        if most > 0 and body.sure == _BOTH:  # as most do
            return _OF_BOTH
        least, most = min(least, 2), min(most, 2)
    return _fold(body, count, least, most)


_BOTH: Final = (frozenset([0, 1]),)
_OF_BOTH: Final = Fold(*[(Uses({0: Use.ALWAYS}),)] * 3)
"""The dependences of a fold whose body always uses the accumulator and the element."""


def _fold(body: Dependence, count: int, least: int, most: int) -> Fold:
    if len(body.reads) != count or any(k >= 2 * count for k in body.used):
        body = Dependence.of_everything(count, 2 * count)
    last = tuple(frozenset([k]) for k in range(count))
    possible = _Backwards(body.reads, count, last)
    sure = _Backwards(body.sure, count, last)
    return Fold(
        _uses(count, possible.initial(least, most), sure.initial(least, most)),
        _uses(count, possible.elements(most), sure.elements(most)),
        _uses(count, possible.results(most), sure.results(most)),
    )


def _uses(count: int, possible: list[State], sure: list[State]) -> tuple[Uses, ...]:
    """Return, for each of `count` results, its uses of values.

    A result uses a value if some state in `possible` says so. The use is certain if all states in
    `sure` do.
    """
    rows = []
    for k in range(count):
        some = frozenset[int]().union(*[state[k] for state in possible])
        always = frozenset[int].intersection(*[state[k] for state in sure]) if sure else frozenset()
        rows.append(Uses({j: use_of(True, j in always) for j in sorted(some | always)}))
    return tuple(rows)


class _Backwards:
    """A fold `acc = body(acc, element)` traced backwards from its result.

    `rows` are either the possible or the sure reads of the body.
    """

    def __init__(self, rows: tuple[frozenset[int], ...], count: int, last: State) -> None:
        self._elements = tuple(frozenset(j - count for j in row if j >= count) for row in rows)
        accumulators = tuple(frozenset(j for j in row if j < count) for row in rows)
        self._history = History(accumulators, last)

    def initial(self, least: int, most: int) -> list[State]:
        """Return the initial values that results depend on, for each number of applications.

        The number is from `least` to `most`; equal states are not repeated.
        """
        return self._states(least, most)

    def elements(self, most: int) -> list[State]:
        """Return the elements that results depend on, the last application first.

        There is one state for each of up to `most` applications; repeated states are left out.
        """
        return [state_before(self._elements, state) for state in self.results(most)]

    def results(self, most: int) -> list[State]:
        """Return the results of the body that final results depend on, the last application first.

        There is one state for each of up to `most` applications; repeated states are left out.
        """
        return self._states(0, most - 1) if most > 0 else []

    def _states(self, least: int, most: int) -> list[State]:
        """Return the states from `least` to `most` applications before the end.

        An empty state is added if the states were not followed to a cycle, so that no use counts as
        sure.
        """
        states = self._history.between(least, most)
        if self._history.is_complete:
            return states
        nothing: State = (frozenset[int](),) * len(states[0])
        return [*states, nothing]  # an empty state, so that no use counts as sure
