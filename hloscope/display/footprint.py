"""Footprints as text, tables and JSON."""

from __future__ import annotations

from typing import Any, Final

from hloscope.cost import ArrayFootprint, Footprint, KernelCost
from hloscope.display.provenance import Provenance
from hloscope.display.sizes import padding_text
from hloscope.display.table import columns
from hloscope.hlo_parser import brief_type
from hloscope.ir import array_bytes, size_text

FOOTPRINT_SCHEMA: Final = "hloscope.footprint/1"


def footprint_text(found: Footprint) -> str:
    """The bytes that one kernel must read and write, as text."""
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


def footprint_json(found: Footprint) -> dict[str, Any]:
    """One kernel as in schema `hloscope.footprint/1`."""
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


def run_json(kernel: KernelCost, origin: Provenance) -> dict[str, Any]:
    """One kernel of a program, with the number of its runs."""
    placed = {"computation": kernel.computation.name, **origin.to_json()}
    runs = {"times": kernel.runs, "bytes": kernel.bytes, "assumed": list(kernel.notes)}
    footprint = {**footprint_json(kernel.footprint), "name": kernel.instruction.name}
    return {**footprint, **placed, "runs": runs}


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
