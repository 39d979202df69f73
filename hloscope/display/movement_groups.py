"""Chains of data movement in a table of the whole program, grouped by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from hloscope.display.answer import opcode_of
from hloscope.display.provenance import Provenance, provenance_of
from hloscope.display.table import columns
from hloscope.hlo_parser import print_type
from hloscope.ir import Module, TensorType
from hloscope.movement import Chain, Figures, Kind, Savings, is_view

GROUPINGS: Final = ("group", "chain", "source", "scope", "opcode")
"""What rows of the table may be: equal chains, chains, source lines, op_names, opcodes."""
_MOST_OPS: Final = 4
"""Opcodes of a chain that the table shows."""
NO_LAYOUTS: Final = (
    "no layouts are written: arrays are row-major, copies to another layout not seen"
)


NO_FUSIONS: Final = "no fusions: each op counts as a kernel of its own, as written"


class Row(NamedTuple):
    """What is grouped.

    Attributes:
        key: Rows with equal keys are one group.
        moved: Bytes that are moved, in all runs.
        saved: Bytes of these that can be saved.
        runs: How often it runs.
        member: The chain or kernel.
    """

    key: Hashable
    moved: int
    saved: int
    runs: int
    member: Figures


class Group(NamedTuple):
    """Rows of one key: their sums, and the members in the order of the text."""

    key: Hashable
    moved: int
    saved: int
    runs: int
    members: Sequence[Figures]


def grouped(rows: Iterable[Row]) -> list[Group]:
    """Rows by key: groups that save most first, then those that move most."""
    found: dict[Hashable, list[Row]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    groups = [
        Group(
            key,
            sum([row.moved for row in same]),
            sum([row.saved for row in same]),
            sum([row.runs for row in same]),
            [row.member for row in same],
        )
        for key, same in found.items()
    ]
    return sorted(groups, key=lambda group: (-group.saved, -group.moved))


def groups_of(savings: Savings, module: Module, by: str) -> list[Group]:
    """A program's chains and kernels of movement, grouped.

    Args:
        savings: Their bytes.
        module: The program.
        by: One of `GROUPINGS`.
    """
    keys: dict[str, Callable[[Figures], Hashable]] = {
        "group": _Structures(),
        "chain": id,
        "source": lambda found: origin_of(found, module).place or "(no source line)",
        "scope": lambda found: origin_of(found, module).op_name or "(no op_name)",
        "opcode": _opcode,
    }
    key = keys[by]
    return grouped([Row(key(f), f.moved, f.saved, f.runs, f) for f in savings.figures])


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


def origin_of(found: Figures, module: Module) -> Provenance:
    """Where a chain comes from: the op that moves the bytes, or the last one that tells."""
    values = [found.value]
    if found.chain is not None:
        blocking = found.chain.blocking
        values = [*([] if blocking is None else [blocking]), *found.chain.steps[::-1]]
    for value in values:
        origin = provenance_of(value, module)
        if origin.place or origin.op_name:
            return origin
    return provenance_of(found.value, module)


def _opcode(found: Figures) -> str:
    """The opcode of the op that moves the bytes, else of the last one."""
    blocking = None if found.chain is None else found.chain.blocking
    return opcode_of(blocking or found.value)


def movement_table(
    savings: Savings, module: Module, by: str, most: int, notes: Sequence[str] = ()
) -> str:
    """The groups of a program's movement, the rest as one row, and the sum of everything."""
    if not savings.figures:
        return "no chains"
    groups = groups_of(savings, module, by)
    chain_rows = by in ("group", "chain")
    if chain_rows:
        header = ["chain", "verdict", "ops", "to"]
    else:
        header = [{"source": "source", "scope": "op_name", "opcode": "opcode"}[by], "chains"]
    header += ["runs", "moves", "share", "could save", "how"]
    header += ["source"] if chain_rows else []
    rows = [header]
    for group in groups[:most]:
        cells = _chain_cells(group) if chain_rows else [str(group.key), f"{len(group.members):,}"]
        rows.append([*cells, *_amounts(group, savings.moved), _how(group)])
        if chain_rows:
            rows[-1].append(origin_of(group.members[0], module).place)
    rest = groups[most:]
    sums = [("the rest", rest)] if rest else []
    for name, some in [*sums, ("all", groups)]:
        whole = _sum(some)
        cells = [name, *[""] * (len(header) - (7 if chain_rows else 6))]
        if chain_rows:
            cells = [name, f"{len(some):,} group{'' if len(some) == 1 else 's'}", "", ""]
        else:
            cells = [name, f"{len(whole.members):,}"]
        rows.append([*cells, *_amounts(whole, savings.moved), ""])
        if chain_rows:
            rows[-1].append("")
    first = len(header) - (6 if chain_rows else 5)
    right = tuple(range(first, first + 4)) if chain_rows else tuple(range(1, first + 4))
    lines = [columns(rows, right=right), "", _counted(savings)]
    return "\n".join([*lines, *about_movement(savings), *notes])


def _sum(groups: Sequence[Group]) -> Group:
    members = [member for group in groups for member in group.members]
    return Group(
        None,
        sum([group.moved for group in groups]),
        sum([group.saved for group in groups]),
        sum([group.runs for group in groups]),
        members,
    )


def _amounts(group: Group, whole: int) -> list[str]:
    share = f"{100 * group.moved / whole:.1f} %" if whole else ""
    return [f"{group.runs:,}", f"{group.moved:,}", share, f"{group.saved:,}"]


def _how(group: Group) -> str:
    """How the group's bytes can be saved, if in one way."""
    ways = dict.fromkeys([found.how for found in group.members if found.how])
    if len(ways) != 1:
        return ""
    likes = dict.fromkeys([found.like for found in group.members if found.how])
    return f"{next(iter(ways))} {next(iter(likes)) if len(likes) == 1 else '…'}".removesuffix(" …")


def _chain_cells(group: Group) -> list[str]:
    first = group.members[0]
    name = first.value.name
    if len(group.members) > 1:
        name += f" and {len(group.members) - 1:,} like it"
    type_ = print_type(first.value.type)
    if first.chain is None:
        return [name, "movement", opcode_of(first.value), type_]
    ops = [opcode_of(step) for step in first.chain.steps]
    said = " ".join(ops[:_MOST_OPS]) + (f" +{len(ops) - _MOST_OPS}" if len(ops) > _MOST_OPS else "")
    return [name, str(first.chain.kind), said, type_]


def _counted(savings: Savings) -> str:
    """How many chains there are of each verdict, and the sums."""
    chains = [found.chain for found in savings.figures if found.chain is not None]
    counts = Counter([chain.kind for chain in chains])
    said = ", ".join([f"{counts[kind]:,} {kind}" for kind in Kind if counts[kind]])
    count = f"{len(chains):,} chain{'' if len(chains) == 1 else 's'}"
    parts = [f"{count}: {said}" if said else count]
    others = len(savings.figures) - len(chains)
    if others:
        parts.append(f"{others:,} kernel{'' if others == 1 else 's'} of movement in no chain")
    moved = f"{savings.moved:,} bytes moved, {savings.saved:,} could be saved"
    return "; ".join([*parts, moved])


def about_movement(savings: Savings) -> list[str]:
    """What has to be known of a program's text to compare its figures with another text's."""
    types = [found.value.type for found in savings.figures]
    has_layouts = any([isinstance(type_, TensorType) and type_.layout for type_ in types])
    said = [] if has_layouts or not types else [NO_LAYOUTS]
    return said if savings.has_fusions or not types else [*said, NO_FUSIONS]


def group_json(group: Group, module: Module, by: str, most: int) -> dict[str, Any]:
    """A group as JSON has it, with its first members."""
    first = group.members[0]
    origin = origin_of(first, module)
    return {
        "by": by,
        "key": first.value.name if by in ("group", "chain") else str(group.key),
        "verdict": None if first.chain is None else str(first.chain.kind),
        "type": print_type(first.value.type),
        "number_of_members": len(group.members),
        "members": [member_json(found) for found in group.members[:most]],
        "runs": group.runs,
        "bytes_moved": group.moved,
        "bytes_saved": group.saved,
        "source": origin.place or None,
        "op_name": origin.op_name or None,
        "views": []
        if first.chain is None
        else [step.name for step in first.chain.steps if is_view(step)],
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
