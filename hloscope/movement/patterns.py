"""Fused computations of equal structure: where chains end in one, chains end in the others.

A program has thousands of fusions and few different ones.  Which of the values of a fused
computation are moved for the last time, and which chains lie wholly inside, is found out about
the first of each structure.  Of the others it is the same, because all that is looked at is:

- the instructions of the computation, which are equal in op, types and wiring (`Blueprints`);
- how its values are read: those that it does not return, and of which no reader renames them, are
  read by the instructions around them and by nobody else;
- of what is handed to it, which parameters are one value and which are a single element: this
  depends on the caller, so it is part of what has to be equal (`Patterns._handed`);
- whether steps are written: of a fusion only what it returns is, and no such value is a step here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from hloscope.ir import Computation, Instruction
from hloscope.movement.flow import Flow, is_renaming
from hloscope.movement.walking import Role, Surroundings, hops_to_single
from hloscope.ops import Parameter

if TYPE_CHECKING:
    from hloscope.movement.chains import Chain


class Pattern:
    """Chains that lie in the same places of equal computations; compared by identity.

    Attributes:
        places: Of the values around the sink, in the computation.
        model: The chain that they are like.
    """

    __slots__ = ("model", "places")

    def __init__(self, places: tuple[int, ...], model: Chain) -> None:
        self.places: Final = places
        self.model: Final = model


class Moved(NamedTuple):
    """What is known of a value that is moved.

    Attributes:
        place: Where it stands in the computation.
        ends: Does a chain end in it?  `None`: that has to be asked of each.
        pattern: The chain, if it lies wholly inside.
    """

    place: int
    ends: bool | None
    pattern: Pattern | None


class Patterns:
    """What is moved in fused computations, told by structure.

    Args:
        flow: The values of a module.
        around: What lies around them.
        ends_in: Is a value moved for the last time?
        chain_inside: The chain of a value, if all that it may lead through fulfils a condition.
    """

    def __init__(
        self,
        flow: Flow,
        around: Surroundings,
        ends_in: Callable[[Instruction], bool],
        chain_inside: Callable[
            [Instruction, Callable[[Instruction], bool]], tuple[Chain, list[Instruction]] | None
        ],
    ) -> None:
        self._flow: Final = flow
        self._around: Final = around
        self._ends_in: Final = ends_in
        self._chain_inside: Final = chain_inside
        self._known: Final[dict[object, Sequence[Moved] | None]] = {}
        self._moves: Final[dict[int, bool]] = {}
        """Is anything moved in computations of a structure?"""

    def of(self, computation: Computation) -> Sequence[Moved] | None:
        """What is moved in a computation, in order; `None` where it is no plain fusion's."""
        if self._flow.has_regions or not len(computation):
            return None
        structure = self._flow.blueprints.number(computation)
        moves = self._moves.get(structure)
        if moves is None:
            moves = self._moves[structure] = any(map(self._around.moves, computation.instructions))
        if not moves:
            return ()
        if not self._flow.is_fused(computation):
            return None
        key = structure, *self._handed(computation)
        if key not in self._known:
            is_plain = all(map(self._is_plain, computation.instructions))
            self._known[key] = self._look_at(computation) if is_plain else None
        return self._known[key]

    def _handed(self, computation: Computation) -> list[tuple[int, int | None]]:
        """Of each parameter: the first that is the same value, and how it is a single element."""
        first: dict[Instruction, int] = {}
        found = []
        for k, parameter in enumerate(computation.parameters):
            value = self._flow.source(parameter)
            found.append((first.setdefault(value, k), hops_to_single(self._flow, value)))
        return found

    def _is_plain(self, ins: Instruction) -> bool:
        """Has its value one name, or is it what comes in, or goes out?"""
        if isinstance(ins.op, Parameter):
            return True
        home = self._flow.home(ins)
        return not is_renaming(type(ins.op)) or (home is not None and home.root is ins)

    def _look_at(self, computation: Computation) -> list[Moved]:
        found = []
        place = {ins: k for k, ins in enumerate(computation.instructions)}
        results = self._flow.results(computation)

        def is_inside(value: Instruction) -> bool:
            """Is it made here, and for nobody outside?"""
            made_here = value in place and not isinstance(value.op, Parameter)
            return made_here and value not in results and not value.calls

        for ins, k in place.items():
            if not self._around.moves(ins):
                continue
            if not self._is_decided(ins, is_inside):
                found.append(Moved(k, None, None))
            elif self._ends_in(ins):
                chain = self._chain_inside(ins, is_inside)
                pattern = chain and Pattern(tuple([place[v] for v in chain[1]]), chain[0])
                found.append(Moved(k, True, pattern))
        return found

    def _is_decided(self, value: Instruction, is_inside: Callable[[Instruction], bool]) -> bool:
        """Does it follow from what stands inside whether a chain ends in the value?"""
        met = {value: None}
        todo = [value]
        for at in todo:
            if not is_inside(at):
                return False
            for reader in self._flow.users(at):
                if self._flow.home(reader) is not self._flow.home(at) or reader.calls:
                    return False
                if reader not in met and self._around.seen(reader).role is Role.ALONE:
                    met[reader] = None
                    todo.append(reader)
        return True
