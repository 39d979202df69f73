"""Advice, ratings of tiles, and collectives of a program as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloscope.cost import Advice, Transfer, TritonUse
from hloscope.display.grouped import share_text
from hloscope.display.provenance import provenance_of
from hloscope.ir import Module, size_text


def advice_lines(found: Sequence[Advice], module: Module) -> list[str]:
    """Two lines for each advice: its text with its share, and the command that shows the proof."""
    lines = []
    for one in found:
        source = provenance_of(one.instruction, module).place
        where = f" [{source}]" if source else ""
        lines.append(
            f"{one.kind}: {one.text} ({share_text(one.share)} of {size_text(one.whole)} "
            f"{one.level}){where}"
        )
        lines.append(f"    {one.command}")
    return lines


def advice_json(one: Advice, module: Module) -> dict[str, Any]:
    """An advice as in schema `hloscope.cost/1`."""
    return {
        "kind": str(one.kind),
        "text": one.text,
        "bytes_saved": one.bytes_saved,
        "whole_bytes": one.whole,
        "share": one.share,
        "level": str(one.level),
        "name": one.instruction.name,
        "computation": one.computation.name,
        **provenance_of(one.instruction, module).to_json(),
        "members": [ins.name for ins in one.members],
        "runs": one.runs,
        "command": one.command,
    }


def triton_text(name: str, use: TritonUse) -> str:
    """The rating of a Triton fusion's tiles in one run, as a line."""
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


def collectives_text(found: Sequence[Transfer], *, is_scheduled: bool) -> str:
    """Number of collectives, bytes that a device sends, and how many are exposed.

    Empty if there are none.
    """
    if not found:
        return ""
    totals = collectives_json(found, is_scheduled=is_scheduled)
    says = f"{totals['collectives']:,}, {totals['runs']:,} runs"
    says += f"; {size_text(totals['ring_bytes'])} sent by each device of a ring"
    if unknown := totals["unknown"]:
        says += f", without {unknown:,} of unknown bytes"
    if totals["exposed"] is None:
        return f"{says}; exposed: unknown, the program is not scheduled"
    return f"{says}; {totals['exposed']:,} exposed: no kernel runs between start and done"


def collectives_json(found: Sequence[Transfer], *, is_scheduled: bool) -> dict[str, Any]:
    """Sums over the collectives of a program and all their runs."""
    rings = [(one.link.ring if one.link is not None else None, one.times) for one in found]
    return {
        "collectives": len(found),
        "runs": sum([one.times for one in found]),
        "ring_bytes": sum([ring * times for ring, times in rings if ring is not None]),
        "unknown": sum([ring is None for ring, _ in rings]),
        "exposed": sum([o.overlap.is_exposed for o in found]) if is_scheduled else None,
    }
