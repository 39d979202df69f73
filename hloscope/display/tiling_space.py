"""Tiling spaces, tiled kernels and symbolic tiles, as JSON and as text in XLA's format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from hloscope.display.answer import opcode_of
from hloscope.display.text import headline
from hloscope.errors import UnsupportedError, VerifyError
from hloscope.hlo_parser import STYLES, print_instruction
from hloscope.ir import Instruction
from hloscope.ops import Parameter
from hloscope.support.walks import nested
from hloscope.tiling import (
    Refusal,
    RegionInstruction,
    Tile,
    TiledKernel,
    TiledRegion,
    TilePrecision,
    TilingSpace,
)

# --------------------------------------------------------------------------------------------------
# Tiling spaces and tiled kernels as JSON, and as text that starts as XLA's does.


_STYLE: Final = replace(STYLES["default"], metadata=False, backend_config=False)


def _line(ins: Instruction) -> str:
    """Return the instruction as HLO prints it; a short form if HLO lacks the op."""
    try:
        return print_instruction(ins, style=_STYLE)
    except (UnsupportedError, VerifyError, ValueError):
        return headline(ins, opcode_of(ins))


# --------------------------------------------------------------------------------------- text


def space_text(space: TilingSpace) -> str:
    """Return the dimensions, the runtime variables and the tiles of the roots, as text.

    Source: XLA `TilingSpace::ToString`.
    """
    return "\n".join(_space_lines(space))


def _space_lines(space: TilingSpace) -> Iterator[str]:
    yield "Dimensions:"
    for i, d in enumerate(space.dimensions):
        tiled = "" if d.tile_size is None else f" tile size: {d.tile_size}"
        what = f"type: {d.kind} size: {d.size}{tiled} dim ID:{d.position}"
        yield f"  {i} {what} hlo: {_line(d.instruction)}"
    if space.runtime:
        yield "Runtime variables:"
    for i, value in enumerate(space.runtime):
        bounds = f"[{value.bounds.lo}, {value.bounds.hi}]"
        yield f"  {i} bounds: {bounds} hlo: {_line(value.origin)}"
    yield "Root tiles:"
    for i, tile in enumerate(space.root_tiles):
        yield f"  {i} root tile: {tile}"


def kernel_text(kernel: TiledKernel) -> str:
    """Return the tiling space, every tiled instruction, and notes, as text.

    Source: XLA `TiledHloComputation::ToString`.
    """
    names = _names(kernel.region)
    lines = [*_space_lines(kernel.space), "", "Tiled HLO:"]
    lines += _region_lines(kernel.region, names)
    lines += _notes(kernel, names)
    return "\n".join(lines)


def _names(region: TiledRegion) -> dict[RegionInstruction, str]:
    """Return a name for every tiled instruction, numbered in program order."""
    names: dict[RegionInstruction, str] = {}
    counts: Counter[str] = Counter()

    def inside(tiled: RegionInstruction) -> list[RegionInstruction]:
        return [inner for region in tiled.regions for inner in region.instructions]

    for tiled in nested(region.instructions, inside):
        name = tiled.instruction.name
        names[tiled] = f"{name}.tile_{counts[name]}"
        counts[name] += 1
    return names


def _region_lines(region: TiledRegion, names: dict[RegionInstruction, str]) -> Iterator[str]:
    todo: list[tuple[RegionInstruction | str, str]]
    todo = [(tiled, "  ") for tiled in reversed(region.instructions)]
    while todo:
        tiled, indent = todo.pop()
        if isinstance(tiled, str):
            yield indent + tiled
            continue
        inside = ", ".join(_operands(tiled, names))
        yield f"{indent}{names[tiled]} = {opcode_of(tiled.instruction)}({inside})  {tiled.tile}"
        for k, inner in reversed([*enumerate(tiled.regions)]):
            todo.append(("}", indent))
            todo += [(one, indent + "  ") for one in reversed(inner.instructions)]
            todo.append((f"region #{k} {{", indent))


def _operands(tiled: RegionInstruction, names: dict[RegionInstruction, str]) -> list[str]:
    op = tiled.instruction.op
    return [str(op.number)] if isinstance(op, Parameter) else [names[o] for o in tiled.operands]


def _notes(kernel: TiledKernel, names: dict[RegionInstruction, str]) -> Iterator[str]:
    """Yield lines about refusals, ops that only XLA refuses, and tiles that are not exact.

    `names` has the name of each tiled instruction of the kernel.
    """
    if kernel.refusals:
        yield from ("", "Refused:")
        yield from (f"  {refusal}" for refusal in kernel.refusals)
    if kernel.beyond:
        yield from ("", "Possible, although XLA refuses:")
        yield from (f"  {ins.name}: {why}" for ins, why in kernel.beyond)
    loose = [(name, tiled) for tiled, name in names.items() if tiled.fit is not TilePrecision.EXACT]
    if loose:
        yield from ("", "Not exact:")
        yield from (f"  {name}: {t.fit}: {'; '.join(t.reasons)}" for name, t in loose)


# --------------------------------------------------------------------------------------- JSON


def space_json(space: TilingSpace) -> dict[str, Any]:
    """Return a tiling space as JSON data."""
    found: dict[str, Any] = {
        "dimensions": [
            {
                "id": i,
                "type": str(d.kind),
                "size": d.size,
                "position": d.position,
                "instruction": d.instruction.name,
                **({} if d.tile_size is None else {"tile_size": d.tile_size}),
            }
            for i, d in enumerate(space.dimensions)
        ],
        "root_tiles": [_tile_json(tile) for tile in space.root_tiles],
    }
    if space.runtime:
        found["runtime"] = [
            {"id": i, "bounds": [v.bounds.lo, v.bounds.hi], "origin": v.origin.name}
            for i, v in enumerate(space.runtime)
        ]
    return found


def kernel_json(kernel: TiledKernel) -> dict[str, Any]:
    """Return the tiling space, tiled instructions and refusals of a kernel as JSON data."""
    names = _names(kernel.region)
    found = space_json(kernel.space)
    found["tiled"] = _region_json(kernel.region, names)
    found["refusals"] = [refusal_json(refusal) for refusal in kernel.refusals]
    if kernel.beyond:
        found["beyond_xla"] = [
            {"instruction": ins.name, "reason": why} for ins, why in kernel.beyond
        ]
    return found


def refusal_json(refusal: Refusal) -> dict[str, Any]:
    """Return a refusal as JSON data."""
    where = {} if refusal.instruction is None else {"instruction": refusal.instruction.name}
    return {"code": str(refusal.code), "reason": refusal.reason, **where}


def _tile_json(tile: Tile) -> dict[str, Any]:
    found: dict[str, Any] = {name.replace(" ", "_"): [*texts] for name, texts in tile.fields()}
    if tile.replicas:
        fields = tile.replica_fields()
        found["replica_ids"] = {name.replace(" ", "_"): [*texts] for name, texts in fields}
    return found


def _region_json(outer: TiledRegion, names: dict[RegionInstruction, str]) -> list[dict[str, Any]]:
    """Return the tiled instructions of a region, with nested regions as nested lists.

    `names` has the name of each tiled instruction.
    """
    listed: list[dict[str, Any]] = []
    todo = [(outer, listed)]
    while todo:
        region, into = todo.pop()
        for tiled in region.instructions:
            entry: dict[str, Any] = {
                "name": names[tiled],
                "instruction": tiled.instruction.name,
                "opcode": opcode_of(tiled.instruction),
                "operands": [names[o] for o in tiled.operands],
                **_tile_json(tiled.tile),
                "fit": str(tiled.fit),
                **({"reasons": [*tiled.reasons]} if tiled.reasons else {}),
            }
            if tiled.regions:
                inner: list[list[dict[str, Any]]] = [[] for _ in tiled.regions]
                entry["regions"] = inner
                todo += zip(tiled.regions, inner, strict=True)
            into.append(entry)
    return listed
