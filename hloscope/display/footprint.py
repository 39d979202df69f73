"""Footprints as text, tables and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hloscope.cost import ArrayFootprint, Footprint, Run
from hloscope.display.coalescing import KernelPlace
from hloscope.display.sizes import padding_text
from hloscope.display.table import Side, Table, alike, columns
from hloscope.hlo_parser import brief_type
from hloscope.ir import array_bytes
from hloscope.memory import size_text

FOOTPRINT_SCHEMA: Final = "hloscope.footprint/1"


def footprint_text(found: Footprint) -> str:
    """What one kernel reads and writes at least."""
    rows = [["", "array", "touched", "in", "elements", "reuse"]]
    rows += [_row("reads operand", array) for array in found.reads]
    rows += [_row("writes output", array) for array in found.writes]
    table = columns(rows, right=(2, 3, 4, 5)).splitlines()
    lines = [found.name, *[f"  {line}" for line in table], ""]
    lines.append(
        f"  {size_text(found.read)} read, {size_text(found.written)} written, "
        f"{found.flops:,} flops: {found.intensity:.3g} flops for each byte"
    )
    lines += [f"  note: {note}" for note in found.notes]
    return "\n".join(lines)


def _row(what: str, array: ArrayFootprint) -> list[str]:
    touched = array.touched
    at_most = "" if touched.is_exact else "≤ "
    return [
        f"{what} {array.number}",
        f"{array.name}  {brief_type(array.type)}{padding_text(array.type)}",
        at_most + size_text(touched.bytes),
        f"{at_most}{touched.sectors:,} sectors",
        f"{at_most}{touched.elements:,}",
        f"{touched.reuse:.4g}",
    ]


def runs_table(
    runs: Sequence[Run], total: int, places: Sequence[KernelPlace], top: int | None = None
) -> Table:
    """The kernels of a program and where their bytes go; equal ones once."""
    header = ("bytes", "share", "runs", "read", "written", "reuse", "flops/byte", "kernel",
              "source", "op name")  # fmt: skip
    rows = [_run_row(run, total, place) for run, place in zip(runs, places, strict=True)]
    cut: dict[int, Side] = {8: "left", 9: "left"}
    return alike(Table(header, rows, (0, 1, 2, 3, 4, 5, 6), cut, (8, 9)), (7, 9), top)


def _run_row(run: Run, total: int, place: KernelPlace) -> list[str]:
    found = run.footprint
    return [
        ("" if found.is_exact else "≤ ") + size_text(run.bytes),
        f"{100 * run.bytes / total:.3g} %" if total else "",
        str(run.times) + ("?" if run.notes else ""),
        size_text(found.read),
        size_text(found.written),
        f"{found.reuse:.4g}",
        f"{found.intensity:.3g}",
        found.name,
        place.origin.place.rpartition("/")[2],
        place.origin.op_name,
    ]


def footprint_json(found: Footprint) -> dict[str, Any]:
    """One kernel of schema `hloscope.footprint/1`."""
    return {
        "name": found.name,
        "read_bytes": found.read,
        "written_bytes": found.written,
        "flops": found.flops,
        "intensity": found.intensity,
        "reuse": found.reuse,
        "exact": found.is_exact,
        "reads": [_array_json(array) for array in found.reads],
        "writes": [_array_json(array) for array in found.writes],
        "notes": list(found.notes),
    }


def run_json(run: Run, place: KernelPlace) -> dict[str, Any]:
    """One kernel of a program, with how often it runs."""
    told = {"computation": run.computation.name, **place.origin.to_json()}
    runs = {"times": run.times, "bytes": run.bytes, "assumed": list(run.notes)}
    return {**footprint_json(run.footprint), **told, "runs": runs}


def _array_json(array: ArrayFootprint) -> dict[str, Any]:
    touched, size = array.touched, array_bytes(array.type)
    return {
        "number": array.number,
        "leaf": array.leaf,
        "name": array.name,
        "type": brief_type(array.type),
        "elements": touched.elements,
        "bytes": touched.bytes,
        "padded_bytes": size.padded if size is not None else None,
        "sectors": touched.sectors,
        "reads": touched.reads,
        "reuse": touched.reuse,
        "exact": touched.is_exact,
    }
