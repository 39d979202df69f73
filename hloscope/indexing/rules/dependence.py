"""What the results of a computation depend on, and the fixed point of applying it repeatedly.

A body that an op applies to elements (of a reduction, a sort, a scatter …) is told to the op's
rules as one `Dependence`: which parameters each result reads, as the body's structure has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.rules.build import NEVER, leaves
from hloscope.ir import Computation, Instruction

UNUSED: Final = "the body does not use it in every case"
MOST_STATES: Final = 1024
"""Repeated applications of a body that are told apart; what comes later counts as possible."""


class Dependence(Struct, frozen=True):
    """What each result of a computation depends on; leaves of parameters are numbered in order.

    Attributes:
        reads: For each leaf of the root the leaves of the parameters that it may read.
        sure: Those of them that it reads whatever the values are.
        aligned: Those of which it reads only the element at its own index.
        unchanged: For each leaf of the root the leaf that it is, as it is; -1 where it is none.
    """

    reads: tuple[frozenset[int], ...]
    sure: tuple[frozenset[int], ...]
    aligned: tuple[frozenset[int], ...]
    unchanged: tuple[int, ...]

    @classmethod
    def of_everything(cls, results: int, parameters: int) -> Dependence:
        """Each result depends on all parameters, element by element.

        >>> Dependence.of_everything(1, 2).reads
        (frozenset({0, 1}),)
        """
        rows = (frozenset(range(parameters)),) * results
        return cls(rows, rows, rows, (-1,) * results)

    @property
    def used(self) -> frozenset[int]:
        """The leaves that any result may read."""
        return frozenset[int]().union(*self.reads)


Bodies: TypeAlias = tuple[Dependence, ...]
"""One dependence for each computation that an instruction calls."""


def body_of(bodies: Bodies, count: int) -> Dependence:
    """The body that combines `count` accumulators and as many elements."""
    return bodies[0] if bodies else Dependence.of_everything(count, 2 * count)


Reader: TypeAlias = Callable[[Instruction], Bodies]
"""Tells what the computations do that an instruction calls."""


def by_convention(ins: Instruction, known: Bodies = ()) -> Bodies:
    """As if each result of a computation depended on all its parameters.

    Args:
        ins: The instruction that calls the computations.
        known: What they do: one that leaves the line of an element does so here too.
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
    """Is a value used?"""

    NEVER = 0
    SOMETIMES = 1
    ALWAYS = 2


def used(possible: bool, sure: bool) -> Use:
    """The use of a value that is possibly, or surely, used."""
    return Use.ALWAYS if sure else Use.SOMETIMES if possible else Use.NEVER


def claimed(use: Use, accesses: Accesses, reason: str = UNUSED) -> Accesses:
    """The accesses with no more claimed than the use allows."""
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
    """The uses of many values by number: the few that are used.

    >>> Uses({7: Use.ALWAYS})[8]
    <Use.NEVER: 0>
    """

    def __missing__(self, _: int) -> Use:
        return Use.NEVER


def claims(uses: Uses, count: int, accesses: Accesses, reason: str = UNUSED) -> list[Accesses]:
    """What is `claimed` by the uses of so many values of which the same is read.

    >>> claims(Uses({1: Use.ALWAYS}), 3, ())
    [(), (), ()]
    """
    found = [NEVER] * count
    for k, use in uses.items():
        found[k] = claimed(use, accesses, reason)
    return found


def uses_of(value: int, rows: Iterable[Uses]) -> Uses:
    """The results, by number, that use a value, and how.

    >>> uses_of(7, (Uses(), Uses({7: Use.ALWAYS})))
    {1: <Use.ALWAYS: 2>}
    """
    return Uses({k: row[value] for k, row in enumerate(rows) if value in row})


State: TypeAlias = tuple[frozenset[int], ...]
"""For each result the numbers of values that it comes from."""


def applied(rows: tuple[frozenset[int], ...], state: State) -> State:
    """What the values in the state come from, one application of the body earlier."""
    return tuple([frozenset[int]().union(*[rows[j] for j in known]) for known in state])


class History:
    """The states of a body that is applied again and again, the latest application first.

    >>> swap = (frozenset({1}), frozenset({0}))
    >>> past = History(swap, (frozenset({0}),))
    >>> [sorted(past.at(n)[0]) for n in (0, 1, 2, 1001)]
    [[0], [1], [0], [1]]
    """

    def __init__(self, rows: tuple[frozenset[int], ...], last: State) -> None:
        self._states: list[State] = [last]
        known = {last: 0}
        while len(self._states) < MOST_STATES:
            state = applied(rows, self._states[-1])
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
        """Does nothing change any more from some application on?"""
        return self.is_complete and self._first == len(self._states) - 1

    @property
    def length(self) -> int:
        """How many applications it takes until states come again."""
        return len(self._states)

    def at(self, number: int) -> State:
        """The state before so many applications, of a history that is complete."""
        if number < len(self._states):
            return self._states[number]
        period = len(self._states) - self._first
        return self._states[self._first + (number - self._first) % period]

    def between(self, least: int, most: int) -> list[State]:
        """The different states before `least` to `most` applications."""
        if not self.is_complete:
            return self._states
        return [self.at(n) for n in range(least, min(most, least + len(self._states)) + 1)]


class Fold(Struct, frozen=True):
    """What the results of a fold `acc = body(acc, element)` depend on.

    Attributes:
        initial: For each result its use of each initial value.
        elements: For each result its use of the elements of each input.
        results: For each result of the fold the results of the body that it comes from, by how.
    """

    initial: tuple[Uses, ...]
    elements: tuple[Uses, ...]
    results: tuple[Uses, ...]


def fold(body: Dependence, count: int, least: int, most: int) -> Fold:
    """What the results of a fold of `count` values depend on.

    Args:
        body: Of the computation, which takes accumulators and then as many elements.
        count: How many values there are.
        least: How often the body is applied at least.
        most: How often it is applied at most.

    >>> last = Dependence.of_everything(1, 2)
    >>> fold(last, 1, 3, 3).elements
    ({0: <Use.ALWAYS: 2>},)
    """
    if count == 1:  # one value comes from itself or not: no more changes after one application
        if most > 0 and body.sure == _BOTH:  # as most do
            return _OF_BOTH
        least, most = min(least, 2), min(most, 2)
    return _fold(body, count, least, most)


_BOTH: Final = (frozenset([0, 1]),)
_OF_BOTH: Final = Fold(*[(Uses({0: Use.ALWAYS}),)] * 3)
"""Of a body that always uses the value before and the element: so is all that there is."""


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
    """For each of `count` results its uses of values, by the states of both readings."""
    rows = []
    for k in range(count):
        some = frozenset[int]().union(*[state[k] for state in possible])
        always = frozenset[int].intersection(*[state[k] for state in sure]) if sure else frozenset()
        rows.append(Uses({j: used(True, j in always) for j in sorted(some | always)}))
    return tuple(rows)


class _Backwards:
    """A fold from its result back: the states of one reading of the body."""

    def __init__(self, rows: tuple[frozenset[int], ...], count: int, last: State) -> None:
        self._elements = tuple(frozenset(j - count for j in row if j >= count) for row in rows)
        accumulators = tuple(frozenset(j for j in row if j < count) for row in rows)
        self._history = History(accumulators, last)

    def initial(self, least: int, most: int) -> list[State]:
        """Initial values, for each number of applications."""
        return self._states(least, most)

    def elements(self, most: int) -> list[State]:
        """Elements of the inputs, for each place of the element, from the last one."""
        return [applied(self._elements, state) for state in self.results(most)]

    def results(self, most: int) -> list[State]:
        """Results of the body, for each application, from the last one."""
        return self._states(0, most - 1) if most > 0 else []

    def _states(self, least: int, most: int) -> list[State]:
        states = self._history.between(least, most)
        if self._history.is_complete:
            return states
        nothing: State = (frozenset[int](),) * len(states[0])
        return [*states, nothing]  # so that nothing is sure
