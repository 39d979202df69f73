"""Tables about a program: a row for each group, one for the other groups, and the sum."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from hloscope.cost import GROUPINGS, CostRow, Group, kernels_and_runs, shares
from hloscope.display.answer import opcode_of
from hloscope.display.provenance import Provenance, provenance_of
from hloscope.display.table import Column, Table, table_of
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.ir import Instruction, Module
from hloscope.ops import CustomCall, Fusion

R = TypeVar("R", bound=CostRow)


GroupColumn: TypeAlias = Column[Sequence[Group[R]]]
"""A column of a table of groups.

A row is a list of one group, or all groups without a row of their own, or all groups.
"""


def grouped_table(
    groups: Sequence[Group[R]],
    total: Callable[[int], str],
    label: Callable[[Group[R]], str],
    figures: Sequence[GroupColumn[R]] = (),
    origins: Sequence[GroupColumn[R]] = (),
    *,
    top: int | None = None,
    title: str = "total",
    counts: Sequence[GroupColumn[R]] | None = None,
) -> Table:
    """Return a table of groups; its last row is the sum of all others.

    Args:
        groups: All groups, largest total first.
        total: Function that formats a total.
        label: Function that names a group.
        figures: Columns between the counts and the name.
        origins: Columns after the name.
        top: Maximum number of groups with a row of their own; all other groups share one.
        title: Heading of the totals.
        counts: Columns that count members; by default the numbers of kernels and of runs.
    """
    counted: list[GroupColumn[R]] = [
        Column("kernels", _kernels),
        Column("runs", _runs, drop=2),
    ]
    figures = [*(counted if counts is None else counts), *figures]
    shown, others = groups[:top], groups[len(groups[:top]) :]
    parts: list[tuple[str, Sequence[Group[R]]]] = [(label(group), [group]) for group in shown]
    if others:
        parts.append((f"{len(others):,} more rows", others))
    sums = [sum([group.total for group in part]) for _, part in parts]
    rows = [
        _row(part, total(amount), share, [*figures, _named(name), *origins])
        for (name, part), amount, share in zip(parts, sums, shares(sums), strict=True)
    ]
    whole = (1.0 if any(sums) else 0.0, None)
    columns: list[GroupColumn[R]] = [*figures, _named("all"), *origins]
    of_all: list[GroupColumn[R]] = [
        *figures,
        _named("all"),
        *[column._replace(cell=lambda _: "") for column in origins],
    ]
    rows.append(_row(groups, total(sum(sums)), whole, of_all))
    return table_of([Column(title, str), *_SHARES, *columns], rows)


def _named(name: str) -> GroupColumn[R]:
    return Column("what", lambda _: name, False, "left")


ROWS_SHOWN: Final = 20
"""Maximum number of rows of a table of groups in the text of a result."""
_SHARES: Final = (Column("share", str), Column("cumulated", str, drop=1))
"""The columns after the total in every grouped table; `_row` writes their cells."""


def _row(
    part: Sequence[Group[R]],
    total: str,
    share: tuple[float, float | None],
    columns: Sequence[GroupColumn[R]],
) -> list[str]:
    """Return the cells of one row of a grouped table.

    Args:
        part: The group of the row, or all groups that share the row.
        total: Text of the total.
        share: Share of the total in all, and the share cumulated up to this row; `None` without
            one.
        columns: The columns after these.
    """
    this, cumulated = share
    return [
        total,
        share_text(this),
        "" if cumulated is None else share_text(cumulated),
        *[column.cell(part) for column in columns],
    ]


def _kernels(part: Sequence[Group[R]]) -> str:
    return f"{kernels_and_runs(part)[0]:,}"


def _runs(part: Sequence[Group[R]]) -> str:
    is_assumed = any(row.notes for group in part for row in group.members)
    return f"{kernels_and_runs(part)[1]:,}" + ("?" if is_assumed else "")


def share_text(share: float) -> str:
    """Return a share as percent text with one decimal.

    >>> share_text(1.0), share_text(0.1234), share_text(0.0), share_text(0.0001)
    ('100.0 %', '12.3 %', '0.0 %', '< 0.1 %')
    """
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %"


# ------------------------------------------------------------------------------------ groupings


def scope_parts(op_name: str) -> list[str]:
    """Return the parts of an op name between slashes; slashes inside brackets do not separate.

    >>> scope_parts("jit(f)/jvp(a/b)/mul")
    ['jit(f)', 'jvp(a/b)', 'mul']
    """
    parts, level, last = list[str](), 0, 0
    for k, char in enumerate(op_name):
        level += (char in "([{") - (char in ")]}")
        if char == "/" and level <= 0:
            parts.append(op_name[last:k])
            last = k + 1
    return [*parts, op_name[last:]]


def scope_of(op_name: str, depth: int | None = None) -> str:
    """Return the framework's scope of an op: its `op_name` without the op, cut to `depth` parts.

    >>> scope_of("jit(step)/layer/attention/dot_general"), scope_of("jit(f)/a/b/mul", 2)
    ('jit(step)/layer/attention', 'jit(f)/a')
    >>> scope_of("jit(f)/jvp(a/b)/mul")
    'jit(f)/jvp(a/b)'
    """
    parts = scope_parts(op_name)[:-1]
    return "/".join(parts[:depth] if depth is not None else parts)


def check_grouping(by: str, groupings: Sequence[str] = GROUPINGS) -> None:
    """Raise an error for the name of an unknown grouping.

    Args:
        by: The name.
        groupings: Names of groupings; `scope:N` is always one as well.

    Raises:
        UnknownNameError: The grouping does not exist.
    """
    if by not in groupings and not re.fullmatch("scope:[1-9][0-9]{0,3}", by):
        near = did_you_mean(by, groupings)
        known = ", ".join(groupings)
        raise UnknownNameError(f"no grouping `{by}`{near}; known: {known}, scope:N (N from 1)")


class Grouping:
    """A grouping of rows about instructions; computes keys and labels of groups."""

    names: ClassVar[Sequence[str]] = GROUPINGS

    def __init__(self, by: str, module: Module) -> None:
        """Set the grouping by its name.

        Args:
            by: One of `names`, or `scope:N` for the first N parts of scopes.
            module: The program of the rows.

        Raises:
            UnknownNameError: No grouping has that name.
        """
        check_grouping(by, self.names)
        self.name, _, depth = by.partition(":")
        self._depth: Final = int(depth) if depth else None
        self.module: Final = module

    def key(self, row: CostRow, equal: Callable[[], Hashable]) -> Hashable:
        """Return the key that the rows of a group share.

        Args:
            row: The row.
            equal: Returns the key of equal rows. It is called for the grouping `group` only, whose
                rows also share their source line.
        """
        ins = row.instruction
        match self.name:
            case "kernel":
                return ins
            case "group":
                return self.origin_of(row).place, equal()
            case "computation":
                return row.computation
            case "opcode":
                return opcode_text(ins)
            case "source":
                return self.origin_of(row).place
            case _:
                return scope_of(self.origin_of(row).op_name, self._depth)

    def short_label(self, group: Group[R]) -> str:
        """Return the name of a group, with the number of its kernels before the first one's name.

        So the number is seen where there is no room for the whole name.
        """
        count = kernels_and_runs([group])[0]
        if self.name in ("kernel", "group") and count > 1:
            return f"{count:,} × {group.first.instruction.name}"
        return self.label(group)

    def label(self, group: Group[R]) -> str:
        """Return the name of a group."""
        ins, origin = group.first.instruction, self.origin(group)
        match self.name:
            case "kernel" | "group":
                others = kernels_and_runs([group])[0] - 1
                return f"{ins.name} and {others:,} like it" if others else ins.name
            case "computation":
                return group.first.computation.name
            case "opcode":
                return opcode_text(ins)
            case "source":
                return origin.place or "no source line"
            case _:
                return scope_of(origin.op_name, self._depth) or "no scope"

    def origin_of(self, row: CostRow) -> Provenance:
        """Return the origin of a row's instruction."""
        return provenance_of(row.instruction, self.module)

    def origin(self, group: Group[R]) -> Provenance:
        """Return the origin of a group's first member."""
        return self.origin_of(group.first)


def opcode_text(ins: Instruction) -> str:
    """Return the opcode, with the kind of a fusion or the target of a custom call."""
    name = opcode_of(ins)
    if isinstance(ins.op, Fusion):
        return f"{name} {ins.op.kind}" if ins.op.kind else name
    if isinstance(ins.op, CustomCall):
        return f"{name} {ins.op.call_target_name}"
    return name


def place_text(origin: Provenance) -> str:
    """Return the innermost source line without folders; empty if it is unknown."""
    return origin.place.rpartition("/")[2]


def groups_json(
    groups: Sequence[Group[R]], further: Callable[[Group[R]], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the groups as JSON: total, share, kernels and runs.

    `further` returns more keys for a group.
    """
    found = []
    totals = [group.total for group in groups]
    for group, (share, cumulated) in zip(groups, shares(totals), strict=True):
        kernels, runs = kernels_and_runs([group])
        amounts = {"total": group.total, "share": share, "cumulated": cumulated}
        found.append({**amounts, "kernels": kernels, "runs": runs, **further(group)})
    return found
