"""Search for the chains of a module: one for every value that is moved for the last time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from hloscope.ir import Instruction
from hloscope.movement.chains import Chain
from hloscope.movement.flow import Flow, computes, moves
from hloscope.movement.patterns import Pattern, Patterns
from hloscope.movement.plans import Planner
from hloscope.movement.walking import Role, Surroundings, Walk
from hloscope.walks import reached


def chains_of(flow: Flow, through: Iterable[Instruction] | None = None) -> Iterator[Chain]:
    """Yield the chain of every value that is moved for the last time, in the order of the text.

    Args:
        flow: The values of a module.
        through: Only chains that may pass through one of these values.
    """
    chains = _Chains(flow)
    if through is None:
        yield from chains.every()
        return
    for ins in flow.in_order(_onward_of(flow, through)):
        if chains.ends_in(ins):
            yield chains.better(ins)


def chain_to(flow: Flow, value: Instruction) -> Chain | None:
    """Return the chain of a value; `None` if the value is moved again or is not moved."""
    chains = _Chains(flow)
    return chains.better(value) if chains.ends_in(value) else None


def _onward_of(flow: Flow, values: Iterable[Instruction]) -> set[Instruction]:
    """Return the values, and all values that are moved or computed from them."""

    def onward(value: Instruction) -> list[Instruction]:
        return [user for user in flow.users(value) if moves(user) or computes(user)]

    return {*reached(values, onward)}


class _Chains:
    """Finds the chains of a module; of equal chains one is traversed."""

    def __init__(self, flow: Flow) -> None:
        self._flow: Final = flow
        self._around: Final = Surroundings(flow)
        self._planner: Final = Planner(flow)
        # Every value of the module is asked, and the answer depends on all users after it.
        self._goes_on: Final[dict[Instruction, bool]] = {}
        self._models: Final[dict[tuple[int, ...], Chain]] = {}
        self._patterns: Final = Patterns(flow, self._around, self.ends_in, self._chain_inside)

    def every(self) -> Iterator[Chain]:
        """Yield all chains of the module, in the order of the text."""
        for computation in self._flow.computations():
            known = self._patterns.of(computation)
            if known is None:
                for ins in computation:
                    if self.ends_in(ins):
                        yield self.better(ins)
                continue
            here = computation.instructions
            for place, ends, pattern in known:
                if pattern is not None:
                    yield self._repeated(here, place, pattern)
                elif ends or (ends is None and self.ends_in(here[place])):
                    yield self.better(here[place])

    def _repeated(self, here: Sequence[Instruction], place: int, pattern: Pattern) -> Chain:
        """Return the chain of a pattern among these instructions."""
        around, model = [here[k] for k in pattern.places], pattern.model
        return Chain(self._flow, here[place], model.walk, around, model, pattern)

    def _chain_inside(
        self, sink: Instruction, is_inside: Callable[[Instruction], bool]
    ) -> tuple[Chain, list[Instruction]] | None:
        """Return the model of a sink's chain and the values around it.

        `None` if not all of the values are inside.
        """
        # No step inside is written to memory, so a chain through ops on several arrays cannot save
        # more: the plain one is the right one.
        plain = self._chain(sink, through_sums=False)
        around = self._around.of(sink, through_sums=False)
        values = [*around.values]
        if plain.ends_in_sums:
            values += self._around.of(sink, through_sums=True).values
        model = self._models.get(around.key)
        if model is None or not all(map(is_inside, values)):
            return None
        return model, around.values

    def ends_in(self, value: Instruction) -> bool:
        """Is the value moved, for the last time?"""
        return self._around.moves(value) and not self.goes_on(value)

    def goes_on(self, value: Instruction) -> bool:
        """Do all users move the value, at once or after computing on it alone?

        False for a value whose users form a cycle.
        """
        known = self._goes_on
        if value in known:
            return known[value]
        # Depth-first on an explicit stack, as chains of users are long. A user in a cycle is still
        # open when it is asked for, and counts as false.
        opened = {value: self._readers(value)}
        stack = [value]
        while stack:
            top = stack[-1]
            readers = opened[top] or ()
            waiting = [r for r in readers if r not in known and r not in opened]
            if waiting:
                opened.update([(reader, self._readers(reader)) for reader in waiting])
                stack += waiting
                continue
            if top not in known:
                found = opened[top]
                known[top] = found is not None and all([known.get(r, False) for r in found])
            stack.pop()
        return known[value]

    def _readers(self, value: Instruction) -> Sequence[Instruction] | None:
        """Return the users that compute on the value alone.

        `None` if there is no user, or one that neither computes on the value alone nor moves it.
        """
        readers = self._flow.users_if(value, self._goes_through)
        if not readers:
            return None
        return [reader for reader in readers if self._around.seen(reader).role is Role.ALONE]

    def _goes_through(self, reader: Instruction) -> bool:
        """Does the user move the value, or compute on it alone?"""
        return self._around.seen(reader).role in (Role.ALONE, Role.MOVED)

    def better(self, sink: Instruction) -> Chain:
        """Return the chain up to ops on several arrays, or through them if that saves more."""
        plain = self._chain(sink, through_sums=False)
        if not plain.ends_in_sums:
            return plain
        through = self._chain(sink, through_sums=True)
        saved = self._planner.saved_alone
        return through if saved(through) > saved(plain) else plain

    def _chain(self, sink: Instruction, *, through_sums: bool) -> Chain:
        """Return the chain of a sink; equal surroundings share one traversal."""
        around = self._around.of(sink, through_sums)
        known = self._models.get(around.key)
        if known is not None:
            return Chain(self._flow, sink, known.walk, around.values, known)
        walk = Walk(self._flow, sink, self._around, through_sums)
        found = Chain(self._flow, sink, walk, around.values)
        inside = {at.value for at in walk.read}
        if inside.issubset(around.opened):  # otherwise more was read than the key has
            self._models[around.key] = found
        return found
