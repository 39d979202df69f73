"""Chains of fused computations, shared between fusions of equal structure.

A program has thousands of fusions and few different ones.  The values that are moved for the last
time, and the chains that are wholly inside, are computed for the first fusion of each structure.
The result holds for the others because it depends only on:

- the instructions of the computation, which are equal in op, types and operands (`StructureIds`);
- the users of its values: a value that is not returned, and that no user renames, has its users
  in the computation;
- which parameters are one value, and which are broadcast scalars: that depends on the caller, so
  it is part of the key (`Patterns._handed`);
- whether steps are written to memory: of a fusion only its results are, and they are not steps
  here.
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
    """Chains at the same positions of equal computations; compared by identity.

    Attributes:
        places: Positions of the values around the sink, in the computation.
        model: The chain that was analysed.
    """

    __slots__ = ("model", "places")

    def __init__(self, places: tuple[int, ...], model: Chain) -> None:
        self.places: Final = places
        self.model: Final = model


class Moved(NamedTuple):
    """A value that is moved in a fused computation.

    Attributes:
        place: Its position in the computation.
        ends: Does a chain end in it?  `None` if it depends on the caller.
        pattern: The chain, if it is wholly inside.
    """

    place: int
    ends: bool | None
    pattern: Pattern | None


class Patterns:
    """Moved values of fused computations, by structure.

    Args:
        flow: The values of a module.
        around: Surroundings of the values.
        ends_in: Is a value moved for the last time?
        chain_inside: Returns the chain of a value, if all its values satisfy a condition.
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
        # One entry for each structure of fused computations, which many fusions share.
        self._known: Final[dict[object, Sequence[Moved] | None]] = {}
        self._moves: Final[dict[int, bool]] = {}
        """Does a computation of this structure move anything?"""

    def of(self, computation: Computation) -> Sequence[Moved] | None:
        """Return the moved values of a computation, in order; `None` if the fusion is not plain."""
        if self._flow.has_regions or not len(computation):
            return None
        structure = self._flow.structure_ids.number(computation)
        moves = self._moves.get(structure)
        if moves is None:
            moves = self._moves[structure] = any(map(self._around.moves, computation.instructions))
        if not moves:
            return ()
        if not self._flow.is_fused(computation):
            return None
        # Equal structure is not enough: whether a parameter is a broadcast scalar changes its
        # chains.
        key = structure, *self._handed(computation)
        if key not in self._known:
            is_plain = all(map(self._is_plain, computation.instructions))
            self._known[key] = self._look_at(computation) if is_plain else None
        return self._known[key]

    def _handed(self, computation: Computation) -> list[tuple[int, int | None]]:
        """Return, per parameter, the first parameter of the same value, and `hops_to_single`."""
        first: dict[Instruction, int] = {}
        found = []
        for k, parameter in enumerate(computation.parameters):
            value = self._flow.source(parameter)
            found.append((first.setdefault(value, k), hops_to_single(self._flow, value)))
        return found

    def _is_plain(self, ins: Instruction) -> bool:
        """Has the value one name, or is it a parameter or the root?"""
        if isinstance(ins.op, Parameter):
            return True
        home = self._flow.home(ins)
        return not is_renaming(type(ins.op)) or (home is not None and home.root is ins)

    def _look_at(self, computation: Computation) -> list[Moved]:
        """Find the moved values of a computation and their chains."""
        found = []
        place = {ins: k for k, ins in enumerate(computation.instructions)}
        results = self._flow.results(computation)

        def is_inside(value: Instruction) -> bool:
            """Is the value computed here and not returned?"""
            made_here = value in place and not isinstance(value.op, Parameter)
            return made_here and value not in results and not value.calls

        for ins, k in place.items():
            if not self._around.moves(ins):
                continue
            # Depends on users outside of the computation, so it is asked for each fusion.
            if not self._is_decided(ins, is_inside):
                found.append(Moved(k, None, None))
            elif self._ends_in(ins):
                chain = self._chain_inside(ins, is_inside)
                pattern = chain and Pattern(tuple([place[v] for v in chain[1]]), chain[0])
                found.append(Moved(k, True, pattern))
        return found

    def _is_decided(self, value: Instruction, is_inside: Callable[[Instruction], bool]) -> bool:
        """Do values inside the computation decide whether a chain ends in the value?"""
        met = {value: None}
        todo = [value]
        for at in todo:
            if not is_inside(at):
                return False
            for reader in self._flow.users(at):
                if self._flow.home(reader) is not self._flow.home(at) or reader.calls:
                    return False
                # A user that computes on the value alone may pass it on, so its own users count
                # too.
                if reader not in met and self._around.seen(reader).role is Role.ALONE:
                    met[reader] = None
                    todo.append(reader)
        return True
