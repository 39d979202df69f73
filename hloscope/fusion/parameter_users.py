"""Accesses from the parameters of a computation to its outputs, for all parameters at once."""

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
"""With more outputs, each queried parameter has its own traversal to the users."""
MANY_PARAMETERS, FEW_QUESTIONS = 256, 4
"""With more than `MANY_PARAMETERS`, the first `FEW_QUESTIONS` queries are computed singly."""
Reached: TypeAlias = dict[int, Accesses]
"""Accesses to each output that is reached, by output."""
Table: TypeAlias = dict[tuple[int, int], Reached]
"""Results by parameter and leaf."""


class Reaching:
    """Accesses from parameters to outputs, memoized by the structure of the computation.

    Args:
        analysis: Gives the dependences of single instructions.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._analysis: Final = analysis
        # One table serves every parameter of every computation of a structure.
        self._tables: Final[dict[int, tuple[Computation, Table]]] = {}
        self._asked: Final[Counter[int]] = Counter()
        self._users: Final = Recent[Users](lambda callee: analysis.users(callee.instructions))

    def of(
        self, callee: Computation, number: int, parameter: int, leaf: int
    ) -> tuple[Computation, Reached]:
        """Return the accesses from one parameter leaf to the outputs, and their computation.

        The computation has the same structure as `callee`; runtime variables are read from its
        instructions.

        Args:
            callee: The computation.
            number: Number of its structure.
            parameter: Number of the parameter.
            leaf: Number of the parameter's leaf.
        """
        if len(self._analysis.leaves(callee.root.type)) > MAX_ENDS:
            return callee, self._walked(callee, callee.parameters[parameter], leaf)
        owner, table = self._table(callee, number, parameter)
        return owner, table.get((parameter, leaf), {})

    def _walked(self, callee: Computation, start: Instruction, leaf: int) -> Reached:
        """Return the accesses to each output by one traversal from a parameter to the users."""
        about = self._analysis
        walk = Walk(about.interner, about.leaves)
        walk.begin(start, leaf)
        walk.to_users(self._users(callee), about.writes)
        found = walk.found.get(callee.root, {})
        return {k: tuple(accesses.values()) for k, accesses in sorted(found.items())}

    def _table(self, callee: Computation, number: int, parameter: int) -> tuple[Computation, Table]:
        """Return a table with the results of `parameter`, and its computation.

        One traversal gives the results of all parameters.  With very many parameters, the first
        queries have traversals of their own.
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
        """Return the accesses from each parameter to each output, by one traversal per output.

        Args:
            callee: The computation.
            through: The values to pass through; all if `None`.
        """
        about = self._analysis
        table: Table = {}
        for output, type in enumerate(about.leaves(callee.root.type)):
            walk = Walk(about.interner, about.leaves, type)
            walk.begin(callee.root, output)
            position = about.positions(callee).get
            walk.from_producers(position, about.places, about.writes, through)
            for number, parameter in enumerate(callee.parameters):
                for leaf, accesses in walk.found.get(parameter, {}).items():
                    table.setdefault((number, leaf), {})[output] = tuple(accesses.values())
        return table


def _dependent(callee: Computation, parameter: int) -> set[Instruction]:
    """Return a parameter and all values that may depend on it."""
    found = {callee.parameters[parameter]}
    for ins in callee.instructions:
        if ins.calls or not found.isdisjoint(ins.operands):  # what is called may capture values
            found.add(ins)
    return found
