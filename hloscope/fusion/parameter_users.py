"""Accesses from the parameters of a computation to its outputs, for all parameters at once."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Final, TypeAlias

from hloscope.fusion.traversal import Walk
from hloscope.indexing import Accesses
from hloscope.ir import Computation, Instruction

if TYPE_CHECKING:
    from hloscope.fusion.analysis import Analysis

MAX_ENDS: Final = 4
"""Maximum number of outputs for which one traversal serves all parameters.

With more, each queried parameter has its own traversal to the users.
"""
MANY_PARAMETERS: Final = 256
"""Number of parameters above which the first query is computed for its parameter alone."""
Reached: TypeAlias = dict[int, Accesses]
"""The accesses to each output that is reached, by output number."""
Table: TypeAlias = dict[tuple[int, int], Reached]
"""The accesses to outputs, by parameter number and leaf."""


def reached_outputs(
    about: Analysis, callee: Computation, parameter: int, leaf: int
) -> tuple[Computation, Reached]:
    """Return a computation, and the accesses from one parameter leaf to its outputs.

    The computation has the same structure as `callee`; runtime variables are read from its
    instructions.

    Args:
        about: The analysis, which returns the dependences of single instructions.
        callee: The computation.
        parameter: Number of the parameter.
        leaf: Number of the parameter's leaf.
    """
    if len(about.leaves(callee.root.type)) > MAX_ENDS:
        return callee, _to_users(about, callee, callee.parameters[parameter], leaf)
    number = about.structure_ids.number(callee)
    first, key = ("first parameter", number), ("parameters", number)
    # One traversal gives the results of all parameters. With very many parameters, it takes much
    # longer than the one for a single parameter, which may be the only one.
    if len(callee.parameters) > MANY_PARAMETERS and first not in about.results:
        about.results[first] = parameter
        found = _of_parameters(about, callee, _dependent(callee, parameter))
        return callee, found.get((parameter, leaf), {})
    owner, table = about.results.once(key, lambda: (callee, _of_parameters(about, callee)))
    return owner, table.get((parameter, leaf), {})


def _to_users(about: Analysis, callee: Computation, start: Instruction, leaf: int) -> Reached:
    """Return the accesses to each output, by one traversal from a parameter leaf to its users."""
    walk = Walk(about.interner, about.leaves)
    walk.begin(start, leaf)
    users = about.results.once(("users", callee), lambda: about.users(callee.instructions))
    walk.to_users(users, about.writes)
    found = walk.found.get(callee.root, {})
    return {k: tuple(accesses) for k, accesses in sorted(found.items())}


def _of_parameters(
    about: Analysis, callee: Computation, through: Container[Instruction] | None = None
) -> Table:
    """Return the accesses from each parameter to each output, by one traversal per output.

    Args:
        about: The analysis, which returns the dependences of single instructions.
        callee: The computation.
        through: The values that the traversal may pass; all if `None`.
    """
    table: Table = {}
    for output, type in enumerate(about.leaves(callee.root.type)):
        walk = Walk(about.interner, about.leaves, type)
        walk.begin(callee.root, output)
        position = about.positions(callee).get
        walk.from_producers(position, about.places, about.writes, through)
        for number, parameter in enumerate(callee.parameters):
            for leaf, accesses in walk.found.get(parameter, {}).items():
                table.setdefault((number, leaf), {})[output] = tuple(accesses)
    return table


def _dependent(callee: Computation, parameter: int) -> set[Instruction]:
    """Return a parameter and all values that may depend on it."""
    found = {callee.parameters[parameter]}
    for ins in callee.instructions:
        if ins.calls or not found.isdisjoint(ins.operands):  # what is called may capture values
            found.add(ins)
    return found
