"""What the parameters of a computation reach of its outputs: few walks that answer for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import TYPE_CHECKING, Final, TypeAlias

from hloscope.fusion.structural_ids import Recent
from hloscope.fusion.traversal import Users, Walk
from hloscope.indexing import Accesses
from hloscope.ir import Computation, Instruction

if TYPE_CHECKING:
    from hloscope.fusion.analysis import Analysis

MAX_ENDS: Final = 4
"""A computation of more outputs is walked from each parameter that is asked about."""
MANY_PARAMETERS, FEW_QUESTIONS = 256, 4
"""Of computations with more parameters, the first so many questions are answered one by one."""
Reached: TypeAlias = dict[int, Accesses]
"""By output, what is reached of it."""
Table: TypeAlias = dict[tuple[int, int], Reached]
"""By parameter and leaf."""


class Reaching:
    """What parameters reach, remembered by structure.

    Args:
        analysis: Knows what each instruction reads and reaches.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._analysis: Final = analysis
        self._tables: Final[dict[int, tuple[Computation, Table]]] = {}
        self._asked: Final[Counter[int]] = Counter()
        self._users: Final = Recent[Users](lambda callee: analysis.users(callee.instructions))

    def of(
        self, callee: Computation, number: int, parameter: int, leaf: int
    ) -> tuple[Computation, Reached]:
        """What a leaf of a parameter reaches, and the computation of this structure it is said of.

        Args:
            callee: The computation.
            number: Of its structure.
            parameter: Which parameter.
            leaf: Which leaf of it.
        """
        if len(self._analysis.leaves(callee.root.type)) > MAX_ENDS:
            return callee, self._walked(callee, callee.parameters[parameter], leaf)
        owner, table = self._table(callee, number, parameter)
        return owner, table.get((parameter, leaf), {})

    def _walked(self, callee: Computation, start: Instruction, leaf: int) -> Reached:
        """What a parameter reaches of each output: one walk to the users."""
        about = self._analysis
        walk = Walk(about.pool, about.leaves)
        walk.begin(start, leaf)
        walk.to_users(self._users(callee), about.writes)
        found = walk.found.get(callee.root, {})
        return {k: tuple(accesses.values()) for k, accesses in sorted(found.items())}

    def _table(self, callee: Computation, number: int, parameter: int) -> tuple[Computation, Table]:
        """What a parameter reaches, and perhaps all others, and the computation they are of.

        One walk answers for all parameters; of very many, the first questions have walks of
        their own.
        """
        known = self._tables.get(number)
        if known is not None:
            return known
        self._asked[number] += 1
        if len(callee.parameters) > MANY_PARAMETERS and self._asked[number] <= FEW_QUESTIONS:
            return callee, self._all(callee, _dependent(callee, parameter))
        known = self._tables[number] = callee, self._all(callee)
        return known

    def _all(self, callee: Computation, through: Container[Instruction] | None = None) -> Table:
        """What each parameter reaches of each output, if asked so only through some values.

        One walk for each output.
        """
        about = self._analysis
        table: Table = {}
        for output, type in enumerate(about.leaves(callee.root.type)):
            walk = Walk(about.pool, about.leaves, type)
            walk.begin(callee.root, output)
            position = about.positions(callee).get
            walk.from_producers(position, about.places, about.writes, through)
            for number, parameter in enumerate(callee.parameters):
                for leaf, accesses in walk.found.get(parameter, {}).items():
                    table.setdefault((number, leaf), {})[output] = tuple(accesses.values())
        return table


def _dependent(callee: Computation, parameter: int) -> set[Instruction]:
    """A parameter, and all values that may depend on it."""
    found = {callee.parameters[parameter]}
    for ins in callee.instructions:
        if ins.calls or not found.isdisjoint(ins.operands):  # what is called may capture values
            found.add(ins)
    return found
