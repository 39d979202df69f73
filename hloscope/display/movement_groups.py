"""Chains of data movement in a table of the whole program, grouped by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from msgspec import Struct

from hloscope.cost import Group, Place, grouped, kernels_and_runs, shares
from hloscope.display.answer import opcode_of
from hloscope.display.cost import origin_columns
from hloscope.display.grouped import Column, Grouping, grouped_table
from hloscope.display.provenance import provenance_of
from hloscope.display.table import Table
from hloscope.hlo_parser import print_type
from hloscope.ir import Computation, Instruction, Module, TensorType, size_text
from hloscope.movement import Chain, Figures, Kind, Savings, is_view

_MOST_OPS: Final = 4
"""Most opcodes of a chain in the table."""
NO_LAYOUTS: Final = "the text has no layouts: arrays are row-major, layout copies are unknown"


NO_FUSIONS: Final = "no fusions: each op counts as a kernel"


class MovementRow(Struct, frozen=True):
    """A row of a grouped table: a chain, or a kernel of data movement.

    Attributes:
        figures: The bytes that it moves, and those that can be saved.
        instruction: The op that moves the bytes, or else the last op with an origin.
        computation: The computation of the last op.
        notes: Assumptions about how often it runs.
    """

    figures: Figures
    instruction: Instruction
    computation: Computation
    notes: tuple[str, ...]

    @property
    def runs(self) -> int:
        """How often it runs."""
        return self.figures.runs


def grouped_movement(
    savings: Savings, module: Module, places: Sequence[Place], by: str
) -> tuple[list[Group[MovementRow]], Grouping]:
    """A program's chains and kernels of movement in groups, largest saving first.

    The totals of the groups are bytes moved; they add up to the bytes of the whole program.

    Args:
        savings: The bytes of each chain and kernel.
        module: The program.
        places: How often its computations run.
        by: The grouping: one of `GROUPINGS`, or `scope:N`.

    Raises:
        UnknownNameError: No grouping has that name.
    """
    grouping, structures = Grouping(by, module), _Structures()
    homes = {ins: computation for computation in module for ins in computation}
    notes = {place.computation: place.notes for place in places}
    rows = []
    for found in savings.figures:
        home = homes.get(found.value, module.entry)
        rows.append(MovementRow(found, _origin_op(found, module), home, notes.get(home, ())))
    groups = grouped(
        rows,
        lambda row: grouping.key(row, lambda: structures(row.figures)),
        lambda row: row.figures.moved,
    )
    return sorted(groups, key=lambda group: -_saved(group)), grouping


def _saved(group: Group[MovementRow]) -> int:
    return sum([row.figures.saved for row in group.members])


class _Structures:
    """Keys of chains: equal for equal ops, types, layouts and verdicts."""

    def __init__(self) -> None:
        self._known: Final[dict[Chain, Hashable]] = {}

    def __call__(self, found: Figures) -> Hashable:
        if found.chain is None:
            return opcode_of(found.value), found.value.type, found.value.calls, found.how
        model = found.chain.model
        if model not in self._known:
            self._known[model] = (
                model.kind,
                tuple([(opcode_of(step), step.type) for step in model.steps]),
                tuple([leaf.type for leaf in model.main]),
            )
        return self._known[model], found.how


def _origin_op(found: Figures, module: Module) -> Instruction:
    """The op of a chain that moves the bytes, or else the last op with an origin."""
    values = [found.value]
    if found.chain is not None:
        blocking = found.chain.blocking
        values = [*([] if blocking is None else [blocking]), *found.chain.steps[::-1]]
    for value in values:
        origin = provenance_of(value, module)
        if origin.place or origin.op_name:
            return value
    return values[0]


def movement_table(
    groups: Sequence[Group[MovementRow]], grouping: Grouping, top: int | None
) -> Table:
    """The groups of a program's movement, the rest as one row, and the sum of everything."""
    figures: list[Column[MovementRow]] = [
        Column("could save", lambda some: size_text(sum(map(_saved, some))))
    ]
    origins: list[Column[MovementRow]] = [
        Column("verdict", _of_one(_verdict), False),
        Column("ops", _of_one(_ops), False, "right", True),
        Column("how", _of_one(_how), False, "right"),
    ]
    origins += origin_columns(grouping)
    is_of_chains = grouping.name in ("group", "kernel")
    label = _name if is_of_chains else grouping.label
    return grouped_table(
        groups, size_text, label, figures, origins if is_of_chains else [], top=top, title="moves"
    )


def _of_one(
    cell: Callable[[Group[MovementRow]], str],
) -> Callable[[Sequence[Group[MovementRow]]], str]:
    """Return a cell function that has a text for single groups only."""
    return lambda groups: cell(groups[0]) if len(groups) == 1 else ""


def _name(group: Group[MovementRow]) -> str:
    """The last op of the first chain, and the number of other chains like it."""
    others = len(group.members) - 1
    name = group.first.figures.value.name
    return f"{name} and {others:,} like it" if others else name


def _verdict(group: Group[MovementRow]) -> str:
    chain = group.first.figures.chain
    return "movement" if chain is None else str(chain.kind)


def _ops(group: Group[MovementRow]) -> str:
    first = group.first.figures
    if first.chain is None:
        return opcode_of(first.value)
    ops = [opcode_of(step) for step in first.chain.steps]
    more = f" +{len(ops) - _MOST_OPS}" if len(ops) > _MOST_OPS else ""
    return " ".join(ops[:_MOST_OPS]) + more


def _how(group: Group[MovementRow]) -> str:
    """How the group's bytes can be saved; empty if there are several ways."""
    members = [row.figures for row in group.members if row.figures.how]
    ways = dict.fromkeys([found.how for found in members])
    if len(ways) != 1:
        return ""
    likes = dict.fromkeys([found.like for found in members])
    return f"{next(iter(ways))} {next(iter(likes)) if len(likes) == 1 else '…'}".removesuffix(" …")


_NOUNS: Final = {
    Kind.NO_OP: ("no-op", "no-ops"),
    Kind.BITCAST: ("bitcast", "bitcasts"),
    Kind.TRANSPOSE: ("transpose", "transposes"),
    Kind.MOVEMENT: ("real movement", "real movements"),
    Kind.UNDECIDED: ("undecided", "undecided"),
}
"""Nouns for chains of each verdict, singular and plural."""


def movement_summary(savings: Savings) -> str:
    """Number of chains of each verdict, bytes moved, and bytes that could be saved."""
    if not savings.figures:
        return "no chains of data movement"
    chains = [found.chain for found in savings.figures if found.chain is not None]
    counts = Counter([chain.kind for chain in chains])
    said = ", ".join(
        [f"{counts[kind]:,} {_NOUNS[kind][counts[kind] != 1]}" for kind in Kind if counts[kind]]
    )
    count = f"{len(chains):,} chain{'' if len(chains) == 1 else 's'}"
    parts = [f"{count}: {said}" if said else count]
    others = len(savings.figures) - len(chains)
    if others:
        parts.append(f"{others:,} kernel{'' if others == 1 else 's'} of movement in no chain")
    moved = f"{savings.moved:,} bytes moved, {savings.saved:,} could be saved"
    return "; ".join([*parts, moved])


def about_movement(savings: Savings) -> list[str]:
    """Return notes that limit comparison of the figures with those of other texts."""
    types = [found.value.type for found in savings.figures]
    has_layouts = any([isinstance(type_, TensorType) and type_.layout for type_ in types])
    said = [] if has_layouts or not types else [NO_LAYOUTS]
    return said if savings.has_fusions or not types else [*said, NO_FUSIONS]


def movement_groups_json(
    groups: Sequence[Group[MovementRow]], grouping: Grouping, most: int
) -> list[dict[str, Any]]:
    """The groups as in schema `hloscope.cancel/2`, each with its first members."""
    every = shares([group.total for group in groups])
    return [
        {**_group_json(group, grouping, most), "share": share, "cumulated": cumulated}
        for group, (share, cumulated) in zip(groups, every, strict=True)
    ]


def _group_json(group: Group[MovementRow], grouping: Grouping, most: int) -> dict[str, Any]:
    first, origin = group.first.figures, grouping.origin(group)
    kernels, runs = kernels_and_runs([group])
    chain = first.chain
    return {
        "by": grouping.name,
        "what": _name(group) if grouping.name in ("group", "kernel") else grouping.label(group),
        "verdict": None if chain is None else str(chain.kind),
        "type": print_type(first.value.type),
        "number_of_members": len(group.members),
        "members": [member_json(row.figures) for row in group.members[:most]],
        "kernels": kernels,
        "runs": runs,
        "total": group.total,
        "bytes_moved": group.total,
        "bytes_saved": _saved(group),
        "source": origin.place or None,
        "op_name": origin.op_name or None,
        "views": [] if chain is None else [step.name for step in chain.steps if is_view(step)],
    }


def member_json(found: Figures) -> dict[str, Any]:
    """One chain or kernel of a group."""
    return {
        "name": found.value.name,
        "runs": found.runs,
        "bytes_moved": found.moved,
        "bytes_saved": found.saved,
        "how": found.how or None,
        "like": found.like or None,
    }
