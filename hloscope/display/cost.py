"""Costs of a program as tables and JSON: bounds, measured times, and advice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from hloscope.cost import (
    AccessCost,
    Advice,
    CostRow,
    Group,
    KernelCost,
    MeasuredCost,
    Transfer,
    TritonUse,
)
from hloscope.display.coalescing import percent, sectors_text
from hloscope.display.grouped import GroupColumn, Grouping, grouped_table, place_text, share_text
from hloscope.display.provenance import Provenance, provenance_of
from hloscope.display.table import Column, Table
from hloscope.ir import Module, four_digits, size_text
from hloscope.memory import ArrayUse

# --------------------------------------------------------------------------------------------------
# Costs of a whole program as tables: bounds of time, bytes, and unused transfers.


COST_SCHEMA: Final = "hloscope.cost/1"
R = TypeVar("R", bound=CostRow)

_DECIMAL_UNITS: Final = (
    (10**18, 10**18, "E"), (10**15, 10**15, "P"), (10**12, 10**12, "T"),
    (10**9, 10**9, "G"), (10**6, 10**6, "M"), (10**4, 10**3, "k"),
)  # fmt: skip
"""Rows of the minimum count from which a unit is used, the size of the unit, and its prefix."""
_UNITS: Final = ((10**12, "s"), (10**9, "ms"), (10**6, "µs"), (10**3, "ns"))


def time_text(picoseconds: int) -> str:
    """Return a time in the largest unit in which it is at least 1.

    >>> time_text(2_350_000_000), time_text(1_500), time_text(0)
    ('2.35 ms', '1.5 ns', '0')
    """
    for size, unit in _UNITS:
        if picoseconds >= size:
            return f"{four_digits(picoseconds / size)} {unit}"
    return f"{picoseconds} ps" if picoseconds else "0"


def count_text(count: int) -> str:
    """Return a number of operations in the largest decimal unit in which it is at least 1.

    >>> count_text(1_250_000_000), count_text(640), count_text(0)
    ('1.25 G', '640', '0')
    """
    for least, size, unit in _DECIMAL_UNITS:
        if count >= least:
            return f"{four_digits(count / size)} {unit}"
    return str(count)


def cost_table(
    groups: Sequence[Group[KernelCost]], grouping: Grouping, sort: str, top: int | None
) -> Table:
    """Return a table of groups of kernels: bound, its limit, bytes, flops, unused bytes, source.

    Args:
        groups: All groups; their totals are the amount `sort`.
        grouping: The grouping of the kernels.
        sort: Amount of the totals: `bound`, `bytes`, `flops` or `waste`.
        top: Maximum number of groups with a row of their own; all other groups share one.
    """
    columns: dict[str, GroupColumn[KernelCost]] = {
        "bound": Column("bound", lambda some: time_text(_total(some, lambda k: k.bound * k.runs))),
        "bytes": Column("bytes", _bytes),
        "flops": Column("flops", lambda some: count_text(_total(some, lambda k: k.flops))),
        "waste": Column("unused", _waste, drop=2),
    }
    texts = {"bound": time_text, "flops": count_text}
    figures: list[GroupColumn[KernelCost]] = [
        Column("limited by", _limits, is_number=False),
        *[column for name, column in columns.items() if name != sort],
    ]
    title = "unused" if sort == "waste" else sort
    text = texts.get(sort, size_text)
    return grouped_table(
        groups, text, grouping.label, figures, origin_columns(grouping), top=top, title=title
    )


def access_table(groups: Sequence[Group[AccessCost]], grouping: Grouping, top: int | None) -> Table:
    """Return a table of groups of accesses: transferred and unused bytes, and the cause.

    Args:
        groups: All groups; their totals are unused bytes.
        grouping: The grouping of the accesses.
        top: Maximum number of groups with a row of their own; all other groups share one.
    """
    figures: list[GroupColumn[AccessCost]] = [
        Column("transferred", lambda some: size_text(_total(some, lambda a: a.moved))),
        Column("of ideal", _efficiency),
    ]
    origins: list[GroupColumn[AccessCost]] = [
        Column("array", _array, False),
        Column("why", _why, False, "right"),
    ]
    origins += origin_columns(grouping)
    return grouped_table(
        groups, size_text, grouping.label, figures, origins, top=top, title="unused"
    )


def footprint_table(
    groups: Sequence[Group[KernelCost]], grouping: Grouping, top: int | None
) -> Table:
    """Return a table of groups of kernels with their footprints in bytes.

    Args:
        groups: All groups; their totals are bytes.
        grouping: The grouping of the kernels.
        top: Maximum number of groups with a row of their own; all other groups share one.
    """

    def intensity(some: Sequence[Group[KernelCost]]) -> str:
        moved = _total(some, lambda k: k.bytes)
        return f"{_total(some, lambda k: k.flops) / moved:.3g}" if moved else ""

    def reuse(some: Sequence[Group[KernelCost]]) -> str:
        return f"{some[0].first.footprint.reuse:.4g}" if len(some) == 1 else ""

    figures: list[GroupColumn[KernelCost]] = [
        Column("read", lambda some: size_text(_total(some, lambda k: k.footprint.read * k.runs))),
        Column(
            "written", lambda some: size_text(_total(some, lambda k: k.footprint.written * k.runs))
        ),
        Column("reuse", reuse, drop=2),
        Column("flops/byte", intensity, drop=2),
    ]
    return grouped_table(
        groups, size_text, grouping.label, figures, origin_columns(grouping), top=top, title="bytes"
    )


def origin_columns(grouping: Grouping) -> list[GroupColumn[R]]:
    """Return the columns for a group's origin; empty if the grouping itself shows origins."""
    if grouping.name not in ("group", "kernel", "buffer"):
        return []

    def source(groups: Sequence[Group[R]]) -> str:
        return place_text(grouping.origin(groups[0])) if len(groups) == 1 else ""

    def op_name(groups: Sequence[Group[R]]) -> str:
        return grouping.origin(groups[0]).op_name if len(groups) == 1 else ""

    return [Column("source", source, False, "left", 2),
            Column("op name", op_name, False, "left", 2)]  # fmt: skip


def _total(groups: Iterable[Group[R]], amount: Callable[[R], int]) -> int:
    return sum([amount(row) for group in groups for row in group.members])


def _bytes(groups: Sequence[Group[KernelCost]]) -> str:
    is_exact = all(k.footprint.is_exact for group in groups for k in group.members)
    return ("" if is_exact else "≤ ") + size_text(_total(groups, lambda k: k.bytes))


def _waste(groups: Sequence[Group[KernelCost]]) -> str:
    """Return the known unused bytes as text; `?` if they are unknown for all kernels."""
    known = [k.wasted for group in groups for k in group.members if k.wasted is not None]
    return size_text(sum(known)) if known else "?"


def _limits(groups: Sequence[Group[KernelCost]]) -> str:
    """Return the limit, such as memory, of the kernels with most of the groups' bound."""
    by_limit: dict[str, int] = {}
    for group in groups:
        for k in group.members:
            by_limit[k.limited_by] = by_limit.get(k.limited_by, 0) + k.bound * k.runs
    return max(by_limit, key=by_limit.__getitem__, default="")


def _efficiency(groups: Sequence[Group[AccessCost]]) -> str:
    moved = _total(groups, lambda a: a.moved)
    return percent(1 - _total(groups, lambda a: a.wasted) / moved) if moved else ""


def _array(groups: Sequence[Group[AccessCost]]) -> str:
    if len(groups) > 1:
        return ""
    array = groups[0].first.array
    kinds = {(a.array.is_output, a.array.number) for a in groups[0].members}
    role = "output" if array.is_output else "operand"
    more = f" and {len(kinds) - 1} more" if len(kinds) > 1 else ""
    return f"{role} {array.number}{more}"


def _why(groups: Sequence[Group[AccessCost]]) -> str:
    return access_cause(groups[0].first.array) if len(groups) == 1 else ""


def access_cause(array: ArrayUse) -> str:
    """Return the cause of an access's unused bytes as text: tile, map, or sectors of a request."""
    if array.tile is not None:
        sizes = "x".join(map(str, array.tile.sizes))
        return f"tile {sizes}: {array.tile.run} bytes in a row"
    if array.traffic is None:
        return array.reason
    why = str(array.spoiler) if array.spoiler else ""
    why = why or f"sectors a request: {sectors_text(array.traffic)}"
    return f"at worst: {why}" if array.traffic.best is not None else why


# ----------------------------------------------------------------------------------------- JSON


def cost_of_kernel_json(
    kernel: KernelCost, origin: Provenance, rating: TritonUse | None = None
) -> dict[str, Any]:
    """Return one kernel as in schema `hloscope.cost/1`.

    Args:
        kernel: The kernel.
        origin: Its origin in the source.
        rating: Bytes of a Triton fusion's tiles, compared with other tilings; `None` for other
            kernels.
    """
    footprint = kernel.footprint
    return {
        "name": kernel.instruction.name,
        "computation": kernel.computation.name,
        **origin.to_json(),
        "maker": kernel.maker,
        "runs": kernel.runs,
        "fewest_runs": kernel.fewest_runs,
        "most_runs": kernel.most_runs,
        "read_bytes": footprint.read,
        "written_bytes": footprint.written,
        "bytes_exact": footprint.is_exact,
        "flops": footprint.flops,
        "bound_ps": kernel.bound,
        "limited_by": kernel.limited_by,
        "unused_bytes": kernel.wasted,
        "reason": kernel.reason,
        "assumed": list(kernel.notes),
        **({} if rating is None else {"triton": triton_json(rating)}),
    }


def cost_totals_json(kernels: Sequence[KernelCost]) -> dict[str, Any]:
    """Return the sums over all runs of kernels, and the number of unknown amounts, as JSON."""
    return {
        "kernels": len(kernels),
        "runs": sum([k.runs for k in kernels]),
        "bytes": sum([k.bytes for k in kernels]),
        "flops": sum([k.flops for k in kernels]),
        "bound_ps": sum([k.bound * k.runs for k in kernels]),
        "unused_bytes": sum([k.wasted or 0 for k in kernels]),
        "kernels_without_unused_bytes": sum([k.wasted is None for k in kernels]),
    }


def cost_of_group_json(group: Group[KernelCost], grouping: Grouping) -> dict[str, Any]:
    """Return the cost of a group of kernels and the names of its members, as JSON.

    `grouping` computes the group's name.
    """
    return {
        "what": grouping.label(group),
        **grouping.origin(group).to_json(),
        **cost_totals_json(group.members),
        "limited_by": _limits([group]),
        "members": [kernel.instruction.name for kernel in group.members],
    }


def accesses_json(group: Group[AccessCost], grouping: Grouping) -> dict[str, Any]:
    """Return the transfers of a group of accesses, their cause and kernels, as JSON.

    `grouping` computes the group's name.
    """
    return {
        "what": grouping.label(group),
        **grouping.origin(group).to_json(),
        "moved_bytes": _total([group], lambda access: access.moved),
        "array": _array([group]),
        "why": access_cause(group.first.array),
        "members": list(dict.fromkeys([a.instruction.name for a in group.members])),
    }


def triton_json(use: TritonUse) -> dict[str, Any]:
    """Return as JSON how the bytes of a Triton fusion's tiles compare with other tilings.

    The bytes are those of one run.
    """
    best = use.best
    return {
        "tile": list(use.sizes),
        "least_bytes": use.least,
        "compiled_bytes": use.compiled,
        "precision": use.precision,
        "best_tile": None if best is None else list(best.sizes),
        "best_bytes": None if best is None else best.bytes_moved,
        "saved_bytes": use.saved,
        "rank": use.rank,
        "among": use.among,
        "reason": use.reason,
    }


# --------------------------------------------------------------------------------------------------
# Measured kernels as tables and JSON: time, bound, achieved bytes and operations per second.


MEASURED_SCHEMA: Final = "hloscope.measured/1"
_SECOND: Final = 10**12
"""Picoseconds in one second."""


def measured_table(
    groups: Sequence[Group[MeasuredCost]], grouping: Grouping, sort: str, top: int | None
) -> Table:
    """Return a table of groups of measured kernels, with achieved rates and lost time.

    Args:
        groups: All groups; their totals are the amount `sort`.
        grouping: The grouping of the kernels.
        sort: Amount of the totals: `lost` or `time`.
        top: Maximum number of groups with a row of their own; all other groups share one.
    """
    time = GroupColumn[MeasuredCost]("time", lambda g: time_text(_total(g, lambda row: row.time)))
    lost = GroupColumn[MeasuredCost]("lost", lambda g: time_text(_total(g, lambda row: row.lost)))
    figures: list[GroupColumn[MeasuredCost]] = [
        time if sort == "lost" else lost,
        Column("bound", lambda g: time_text(_total(g, lambda row: row.bound))),
        Column("bytes/s", _bytes_a_second, drop=2),
        Column("flops/s", _flops_a_second, drop=2),
    ]
    origins: list[GroupColumn[MeasuredCost]] = origin_columns(grouping)
    return grouped_table(groups, time_text, grouping.label, figures, origins, top=top, title=sort)


def _a_second(groups: Sequence[Group[MeasuredCost]], amount: Callable[[MeasuredCost], int]) -> int:
    """Return an amount per second: its sum over the measured time.

    `amount` returns the amount of one kernel in all runs. Only kernels with a known cost count.
    """
    time = _total(groups, lambda row: row.time if row.kernel is not None else 0)
    return _total(groups, amount) * _SECOND // time if time else 0


def _bytes_a_second(groups: Sequence[Group[MeasuredCost]]) -> str:
    return f"{count_text(_a_second(groups, lambda row: row.bytes))}B/s"


def _flops_a_second(groups: Sequence[Group[MeasuredCost]]) -> str:
    return count_text(_a_second(groups, lambda row: row.flops))


def measured_json(row: MeasuredCost, grouping: Grouping) -> dict[str, Any]:
    """Return one measured instruction as in schema `hloscope.measured/1`.

    `grouping` finds its origin in the source.
    """
    kernel = row.kernel
    return {
        "name": row.instruction.name,
        "computation": row.computation.name,
        **grouping.origin_of(row).to_json(),
        "maker": "" if kernel is None else kernel.maker,
        "runs": row.runs,
        "events": row.events,
        "time_ps": row.time,
        "bound_ps": row.bound,
        "lost_ps": row.lost,
        "limited_by": "" if kernel is None else kernel.limited_by,
        "bytes": row.bytes,
        "flops": row.flops,
    }


def measured_group_json(group: Group[MeasuredCost], grouping: Grouping) -> dict[str, Any]:
    """Return the measured and lost time of a group of kernels and its members, as JSON.

    `grouping` computes the group's name.
    """
    return {
        "what": grouping.label(group),
        **grouping.origin(group).to_json(),
        "time_ps": _total([group], lambda row: row.time),
        "bound_ps": _total([group], lambda row: row.bound),
        "lost_ps": _total([group], lambda row: row.lost),
        "bytes": _total([group], lambda row: row.bytes),
        "flops": _total([group], lambda row: row.flops),
        "members": [row.instruction.name for row in group.members],
    }


# --------------------------------------------------------------------------------------------------
# Advice, ratings of tiles, and collectives of a program as text and JSON.


def advice_lines(advice: Sequence[Advice], module: Module) -> list[str]:
    """Return two lines for each advice: its text with its share, and the proving command.

    `module` is the program, for source lines.
    """
    lines = []
    for one in advice:
        source = provenance_of(one.instruction, module).place
        where = f" [{source}]" if source else ""
        lines.append(
            f"{one.kind}: {one.text} ({share_text(one.share)} of {size_text(one.whole)} "
            f"{one.level}){where}"
        )
        lines.append(f"    {one.command}")
    return lines


def advice_json(advice: Advice, module: Module) -> dict[str, Any]:
    """Return an advice as in schema `hloscope.cost/1`.

    `module` is the program, for the source line.
    """
    return {
        "kind": str(advice.kind),
        "text": advice.text,
        "bytes_saved": advice.bytes_saved,
        "whole_bytes": advice.whole,
        "share": advice.share,
        "level": str(advice.level),
        "name": advice.instruction.name,
        "computation": advice.computation.name,
        **provenance_of(advice.instruction, module).to_json(),
        "members": [ins.name for ins in advice.members],
        "runs": advice.runs,
        "command": advice.command,
    }


def triton_text(name: str, use: TritonUse) -> str:
    """Return as one line how the bytes of a Triton fusion's tiles compare with other tilings.

    `name` is the name of the fusion; the bytes are those of one run.
    """
    least = f"{size_text(use.least)} at least"
    if use.compiled is None:
        return f"tiles of {name}: {least}; compiled tiles unknown: {use.reason}"
    about = "" if use.precision == "exact" else "about "
    own = " x ".join(map(str, use.sizes))
    says = f"tiles of {name}: {least}; as compiled {about}{size_text(use.compiled)} ({own})"
    if use.best is None:
        return f"{says}; no tiling was found that the device can run"
    best = " x ".join(map(str, use.best.sizes))
    says += f"; best found {size_text(use.best.bytes_moved)} ({best})"
    return f"{says}; rank {use.rank:,} of {use.among:,}" if use.rank is not None else says


def collectives_text(transfers: Sequence[Transfer], *, is_scheduled: bool) -> str:
    """Return a text with the number of collectives, bytes sent, and how many are exposed.

    Empty if there are none. `is_scheduled` states whether the program has a schedule; without one
    it is unknown which are exposed.
    """
    if not transfers:
        return ""
    totals = collectives_json(transfers, is_scheduled=is_scheduled)
    says = f"{totals['collectives']:,}, {totals['runs']:,} runs"
    says += f"; {size_text(totals['ring_bytes'])} sent by each device of a ring"
    if unknown := totals["unknown"]:
        says += f", without {unknown:,} of unknown bytes"
    if totals["exposed"] is None:
        return f"{says}; exposed: unknown, the program is not scheduled"
    return f"{says}; {totals['exposed']:,} exposed: no kernel runs between start and done"


def collectives_json(transfers: Sequence[Transfer], *, is_scheduled: bool) -> dict[str, Any]:
    """Return sums over all runs of a program's collectives, as JSON.

    `is_scheduled` states whether the program has a schedule; without one it is unknown how many
    collectives are exposed.
    """
    rings = [(one.link.ring if one.link is not None else None, one.times) for one in transfers]
    return {
        "collectives": len(transfers),
        "runs": sum([one.times for one in transfers]),
        "ring_bytes": sum([ring * times for ring, times in rings if ring is not None]),
        "unknown": sum([ring is None for ring, _ in rings]),
        "exposed": sum([o.overlap.is_exposed for o in transfers]) if is_scheduled else None,
    }
