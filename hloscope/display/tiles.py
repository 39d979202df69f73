"""The tiles of an instruction as text and JSON, and a picture of what a tile reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd, prod
from typing import Any, Final

from hloscope.affine import Interval
from hloscope.display.answer import opcode_of, shape_text
from hloscope.display.parts import Box, Index, box_size, boxes_of
from hloscope.display.picture import OUTPUT, READS, Mark, Panel, svg
from hloscope.display.table import columns, page, styled
from hloscope.display.text import headline
from hloscope.indexing import ExactTiles, IndexingMap, TileVerdict, map_texts
from hloscope.ir import TensorType
from hloscope.support.source import in_page
from hloscope.tiling import (
    Choice,
    OperandTiles,
    Parameter,
    Ranking,
    Refusal,
    RefusalCode,
    SymbolicTiles,
    TiledComputation,
    TiledInstruction,
    TileReport,
)

# --------------------------------------------------------------------------------------------------
# The tiles of an instruction, as text and JSON.


SCHEMA: Final = "hloscope.tile/1"
_TOO_LARGE: Final = RefusalCode.RESOURCE_EXHAUSTED
MOST_ROWS: Final = 60
"""Maximum number of tiled instructions that are listed."""


def _by(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes)) if sizes else "1"


def tiles_text(report: TileReport) -> str:
    """Return the report about tiles as text."""
    parts = [headline(report.instruction, opcode_of(report.instruction))]
    parts.append("\n".join(_symbolic(report)))
    parts.append("\n".join(_of_dump(report)))
    if report.sizes is not None:
        parts.append("\n".join(_tiled(report)))
        parts.append("\n".join(_exactly(report)))
    if report.ranking is not None:
        parts.append("\n".join(_ranking(report.ranking)))
    return "\n\n".join(part for part in parts if part)


def _symbolic(report: TileReport) -> Iterator[str]:
    if isinstance(report.symbolic, Refusal):
        is_known = report.symbolic.code is not _TOO_LARGE
        yield "XLA's tiling refuses it" if is_known else "Too large to be analysed as XLA does"
        yield f"  {report.symbolic}"
        yield ""
    yield "Tile sizes to choose" if report.parameters else "A scalar: no tile sizes to choose"
    rows = [
        [f"  d{k}", f"1 to {p.size}" if p.size else "0", parameter_text(p)]
        for k, p in enumerate(report.parameters)
    ]
    if rows:
        yield columns(rows)
    if isinstance(report.symbolic, SymbolicTiles):
        clauses = report.symbolic.constraints.clauses
        if clauses:
            yield "Constraints on tile sizes"
            yield from [f"  {clause}" for clause in clauses]
        if report.symbolic.dropped.clauses:
            yield "Constraints that XLA omits; without them tiles miss elements"
            yield from [f"  {clause}" for clause in report.symbolic.dropped.clauses]


def _of_dump(report: TileReport) -> Iterator[str]:
    """Yield lines about the tile sizes that the dump states, with their rank among all tilings.

    Nothing is yielded if the dump states none.
    """
    chosen = report.chosen
    if chosen is None:
        return
    if report.unread:
        yield f"Tile sizes of the dump are not used: {report.unread}"
        return
    own = report.own_sizes
    if own is None:
        return
    named = (("warps", chosen.warps), ("stages", chosen.stages), ("split-k", chosen.split_k))
    more = "".join([f", {number} {name}" for name, number in named if number])
    yield f"Tile sizes of the dump ({chosen.kind}): {_by(own)}{more}"
    standing = report.ranking.standing if report.ranking is not None else None
    if standing is not None:
        yield (
            f"  rank {standing.rank:,} of {standing.among:,} by bytes moved: "
            f"{standing.choice.bytes_moved:,} bytes in {standing.choice.programs:,} programs"
        )
        if standing.choice.excess:
            yield f"  exceeds the assumed limits: {standing.choice.excess}"


def parameter_text(p: Parameter) -> str:
    """Return a text with the dimension and the instruction that a tile size belongs to."""
    of = f"dimension {p.dimension}"
    if p.is_contracting:
        return f"{of} of the left operand of {p.instruction.name}, contracted"
    return f"{of} of {p.instruction.name}"


def _tiled(report: TileReport) -> Iterator[str]:
    assert report.sizes is not None
    if not isinstance(report.tiled, TiledComputation):
        yield f"Tiles of {_by(report.sizes)}"
        if isinstance(report.tiled, Refusal):
            yield f"  XLA refuses them: {report.tiled}"
        return
    grid = f"{_by(report.tiled.tiles)} = " if len(report.tiled.tiles) > 1 else ""
    count = report.tiled.programs
    yield f"Tiles of {_by(report.sizes)}: {grid}{count:,} program{'s' * (count != 1)}"
    every = [*dict.fromkeys(report.tiled.every())]
    rows = [["  instruction", "type", "tile", "strides", "first element, for program pid_0"]]
    rows += [[f"  {cells[0]}", *cells[1:]] for cells in map(_row, every[:MOST_ROWS])]
    yield columns(rows)
    if len(every) > MOST_ROWS:
        yield f"  and {len(every) - MOST_ROWS} more"


def _row(tiled: TiledInstruction) -> list[str]:
    ins = tiled.instruction
    strides = _by(tiled.strides) if tiled.strides else ""
    return [ins.name, shape_text(ins.type), _by(tiled.sizes), strides, offsets_text(tiled)]


def offsets_text(tiled: TiledInstruction) -> str:
    """Return a text with the start of a program's tile, and which programs have one.

    A program is one instance of a Triton kernel; the start is a formula of its number.
    """
    texts = map_texts(tiled.offsets)
    found = texts.arrow.partition(" -> ")[2]
    limits = [f"{e} in [{i.lo}, {i.hi}]" for e, i in texts.constraints]
    limits = sorted([text for text in limits if " mod " in text or " / " in text])
    programs = tiled.offsets.dims[0].interval if tiled.offsets.dims else None
    if programs is not None and programs.lo:
        limits.insert(0, f"pid_0 in {programs}")
    limits += [f"{name} = {text}" for name, text in texts.parts]
    return f"{found} where {', '.join(limits)}" if limits else found


def _exactly(report: TileReport) -> Iterator[str]:
    whole = [k for k, p in enumerate(report.parameters) if p.is_contracting]
    note = ", contracted dimensions in full" if whole else ""
    yield f"Elements that a tile of {_by(report.output_sizes)} reads{note}"
    if not report.operands:
        yield "  no operand"
    for o in report.operands:
        name = o.operand.name if o.leaf == 0 else f"{o.operand.name}{{{o.leaf}}}"
        yield f"  operand {o.number}  {shape_text(o.type)}  {name}"
        yield from [f"    {line}" for line in exact_lines(o)]
    for r in report.operands[0].exact.ragged if report.operands else ():
        parts = f"{r.size // r.tile} x {r.tile} + {r.last}"
        yield f"  dimension {r.dim} of the output is ragged: {r.size} = {parts}"
    code = report.refusal.code if report.refusal is not None else None
    if report.refusal is not None and report.is_possible and code is not _TOO_LARGE:
        yield f"  possible, although XLA refuses: {report.refusal.reason}"


_VERDICTS: Final = {
    TileVerdict.BOX: "the same strided box for every whole tile",
    TileVerdict.VARYING: "strided boxes whose size or stride depends on the tile",
    TileVerdict.HOLES: "not always a strided box",
    TileVerdict.EMPTY: "nothing",
}


def exact_lines(o: OperandTiles) -> Iterator[str]:
    """Yield lines about the elements that tiles read of one operand."""
    exact = o.exact
    if not exact.is_decided:
        yield f"undecided: {exact.reason}"
        return
    yield _VERDICTS[exact.verdict] + _box(exact)
    if exact.verdict is TileVerdict.EMPTY:
        return
    yield _counts(exact)
    least = ", for the lowest run-time values" if exact.is_moved else ""
    if exact.missing is not None:
        tile, element = exact.missing
        of = f"{exact.holes:,} in all"
        yield f"holes: {of}, such as {_list(element)} of tile {_list(tile)}{least}"
    if exact.overlap is not None:
        (a, b), element = exact.overlap
        several = "" if exact.shared is None else f"{exact.shared:,} elements, "
        example = f"such as {_list(element)} of tiles {_list(a)} and {_list(b)}"
        yield f"overlap: {several}{example}{least}"
    if o.held is not None and o.xla is not None and o.held != exact.most:
        which = "more" if o.held > exact.most else "fewer"
        yield f"XLA's tile of {_by(o.xla.sizes)} has {which}: {o.held:,} elements"
    if o.claim:
        yield f"at most this: {o.claim}"


def _list(index: Sequence[int]) -> str:
    return f"({', '.join(map(str, index))})"


def _box(exact: ExactTiles) -> str:
    if exact.shape is None or not exact.is_box or not exact.shape.sizes:
        return ""
    sizes, strides = exact.shape
    apart = f", {_by([max(s, 1) for s in strides])} apart" if any(s > 1 for s in strides) else ""
    before = ", such as" if exact.verdict is TileVerdict.VARYING else ":"
    return f"{before} {_by(sizes)}{apart}"


def _counts(exact: ExactTiles) -> str:
    each = f"{exact.most:,}" if exact.least == exact.most else f"{exact.least:,} to {exact.most:,}"
    tiles = f"{exact.tiles:,} tile{'s' * (exact.tiles != 1)}"
    if exact.total == exact.union:
        return f"{each} elements for each of {tiles}; each element read once"
    return (
        f"{each} elements for each of {tiles}; {exact.total:,} read of {exact.union:,} different "
        f"ones, {exact.reuse:.3g} times each"
    )


def _ranking(ranking: Ranking) -> Iterator[str]:
    limits = ranking.limits
    yield (
        f"Tilings by bytes moved, for {limits.device} ({limits.shared:,} B of shared memory, "
        f"{limits.registers:,} registers for a program)"
    )
    some = ", some sizes left out" if ranking.is_thinned else ""
    yield (
        f"  {ranking.looked_at:,} looked at{some}; {ranking.valid:,} fulfil XLA's constraints; "
        f"{ranking.fitting:,} fit"
    )
    if ranking.best:
        head = ["  sizes", "programs", "bytes moved", "shared B", "registers", "elements"]
        rows = [[f"  {_by(c.sizes)}", *_figures(c)] for c in ranking.best]
        yield columns([head, *rows], right={1, 2, 3, 4, 5})
    if ranking.refused:
        yield "Before these, refused"
        yield from [f"  {_by(c.sizes)}: {c.excess}" for c in ranking.refused]


def _figures(c: Choice) -> list[str]:
    """Return the figures of a tiling as the cells of a table row.

    They are programs, bytes moved, bytes of shared memory, registers and elements.
    """
    figures = (c.programs, c.bytes_moved, c.shared, c.registers, c.elements)
    return [f"{n:,}" for n in figures]


# --------------------------------------------------------------------------------------- JSON


def tiles_json(report: TileReport, file: str) -> dict[str, Any]:
    """Return the report about tiles as JSON; `file` is the program's name."""
    symbolic = report.symbolic
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "file": file,
        "instruction": report.instruction.name,
        "output": report.output,
        "parameters": [
            {
                "size": p.size,
                "instruction": p.instruction.name,
                "dimension": p.dimension,
                "contracting": p.is_contracting,
            }
            for p in report.parameters
        ],
        "refusal": None if report.refusal is None else _refusal(report.refusal),
    }
    own = report.own_sizes
    if own is not None:
        found["dump_sizes"] = [*own]
        found["of_dump"] = report.is_own
    if isinstance(symbolic, SymbolicTiles):
        found["constraints"] = [str(clause) for clause in symbolic.constraints.clauses]
        found["dropped_by_xla"] = [str(clause) for clause in symbolic.dropped.clauses]
    if report.sizes is not None:
        found["sizes"] = [*report.sizes]
        found["tiles"] = _tiled_json(report.tiled)
        found["operands"] = [_operand_json(o) for o in report.operands]
        found["possible"] = report.is_possible
    if report.ranking is not None:
        found["search"] = _ranking_json(report.ranking)
    return found


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {
        "code": str(refusal.code),
        "reason": refusal.reason,
        "instruction": refusal.instruction.name if refusal.instruction is not None else None,
        "expression": None if refusal.expr is None else str(refusal.expr),
        "dimension": refusal.result,
        "constraint": refusal.constraint and "{} in {}".format(*refusal.constraint),
    }


def _tiled_json(tiled: TiledComputation | Refusal | None) -> dict[str, Any] | None:
    if not isinstance(tiled, TiledComputation):
        return None
    return {
        "grid": [*tiled.tiles],
        "programs": tiled.programs,
        "instructions": [
            {
                "instruction": t.instruction.name,
                "sizes": [*t.sizes],
                "strides": [*t.strides],
                "offsets": str(t.offsets),
            }
            for t in dict.fromkeys(tiled.every())
        ],
    }


def _operand_json(o: OperandTiles) -> dict[str, Any]:
    """Return as JSON which elements of an operand the tiles read, or why that is unknown."""
    exact = o.exact
    found: dict[str, Any] = {
        "operand": o.number,
        "leaf": o.leaf,
        "name": o.operand.name,
        "shape": shape_text(o.type),
        "verdict": str(exact.verdict),
    }
    if not exact.is_decided:
        return found | {"reason": exact.reason}
    return found | {
        "sizes": None if exact.shape is None else [*exact.shape.sizes],
        "strides": None if exact.shape is None else [*exact.shape.strides],
        "tiles": exact.tiles,
        "elements": [exact.least, exact.most],
        "read": exact.total,
        "different": exact.union,
        "reuse": exact.reuse,
        "holes": exact.holes,
        "shared": exact.shared,
        "missing": exact.missing and {"tile": exact.missing.tile, "element": exact.missing.element},
        "overlap": exact.overlap
        and {
            "tiles": exact.overlap.tiles,
            "element": exact.overlap.element,
        },
        "ragged": [{"dimension": r.dim, "size": r.size, "last": r.last} for r in exact.ragged],
        "xla_elements": o.held,
        "moved": exact.is_moved,
        "method": exact.method,
        "claim": o.claim,
    }


def _ranking_json(ranking: Ranking) -> dict[str, Any]:
    def choice(c: Choice) -> dict[str, Any]:
        return {**c._asdict(), "sizes": [*c.sizes]}

    return {
        "device": ranking.limits.device,
        "shared_there": ranking.limits.shared,
        "registers_there": ranking.limits.registers,
        "looked_at": ranking.looked_at,
        "valid": ranking.valid,
        "fitting": ranking.fitting,
        "thinned": ranking.is_thinned,
        "standing": ranking.standing
        and {
            **choice(ranking.standing.choice),
            "rank": ranking.standing.rank,
            "among": ranking.standing.among,
        },
        "best": [choice(c) for c in ranking.best],
        "refused": [choice(c) for c in ranking.refused],
    }


# --------------------------------------------------------------------------------------------------
# A picture of an output tile, and of the elements that it reads of each operand.
#
# The tile is one whose box has holes, or that shares elements with another tile, or else one in the
# middle.


MAX_POINTS: Final = 1 << 17
"""Maximum number of elements that a drawn tile reads."""
MAX_PANELS: Final = 8
_HOLES, _SHARED, _EDGE = "#c92a2a", "#dfa021", "#b79ced"


def tiles_svg(report: TileReport) -> str:
    """Return a picture of the output with a tile, and of the operand elements that the tile reads.

    Raises:
        ValueError: No tile sizes were given.
    """
    if report.sizes is None:
        raise ValueError("a picture needs tile sizes")
    shape, sizes = report.type.shape, report.output_sizes
    tile = _shown(report)
    side = [
        range(t * n, min(t * n + n, size)) for t, n, size in zip(tile, sizes, shape, strict=True)
    ]
    marks = [*_edges(shape, sizes), Mark([tuple(side)], OUTPUT, f"tile {_list(tile)}")]
    name = report.instruction.name
    panels = [Panel(f"{name} {shape_text(report.type)}", shape, marks)]
    drawn = [o for o in report.operands if isinstance(o.type, TensorType) and o.type.is_static]
    panels += [_panel(o, tile, sizes, shape) for o in drawn[:MAX_PANELS]]
    notes = [f"and {len(drawn) - MAX_PANELS} operands more"] if len(drawn) > MAX_PANELS else []
    if report.refusal is not None:
        notes.append(f"XLA refuses: {report.refusal.reason}")
    by = " x ".join(map(str, sizes)) or "1"
    return svg(panels, caption=f"What tile {_list(tile)} of {by} of {name} reads", notes=notes)


def tiles_html(report: TileReport, *, whole: bool = True) -> str:
    """Return the picture and the text of a report as HTML.

    The result is a page, or a fragment if `whole` is false. Without tile sizes there is no picture.
    """
    drawn = tiles_svg(report) if report.sizes is not None else ""
    inside = styled(f"{drawn}<pre><code>{in_page(tiles_text(report))}</code></pre>\n")
    title = headline(report.instruction, opcode_of(report.instruction))
    return page(title, inside) if whole else inside


def _shown(report: TileReport) -> Index:
    """Return the index of the tile to draw."""
    # A counterexample shows why XLA's tile is not exact: it is the most instructive tile.
    for example in ("missing", "overlap"):
        for o in report.operands:
            found = getattr(o.exact, example)
            if found is not None:
                tile: Index = found.tile if example == "missing" else found.tiles[0]
                return tile
    counts = [-(-n // t) for n, t in zip(report.type.shape, report.output_sizes, strict=True)]
    return tuple([max(count - 1, 0) // 2 for count in counts])


def _edges(shape: Index, sizes: Index) -> Iterator[Mark]:
    """Yield the partial tiles at the ends of dimensions that tile sizes do not divide.

    `shape` has the sizes of the output, `sizes` those of a tile.
    """
    for d, (n, size) in enumerate(zip(shape, sizes, strict=True)):
        if n % size:
            start = n - n % size
            box = tuple([range(start, n) if k == d else range(m) for k, m in enumerate(shape)])
            yield Mark([box], _EDGE, f"cut tiles of dimension {d}: {n % size} of {size}")


def _panel(o: OperandTiles, tile: Index, sizes: Index, shape: Index) -> Panel:
    """Return the panel of an operand, with the elements that one tile reads and the holes.

    Args:
        o: The operand with its maps.
        tile: Index of the tile.
        sizes: Sizes of a tile.
        shape: Sizes of the output.
    """
    assert isinstance(o.type, TensorType)
    title = f"{o.operand.name} {shape_text(o.type)}"
    mine = _elements(o.maps, tile, sizes)
    notes = [*exact_lines(o)]
    if any([m.runtime for m in o.maps]):
        notes.append("drawn for the lowest run-time values")
    if mine is None:
        return Panel(title, o.type.shape, [], ["not drawn: too many elements", *notes])
    inside = {e for e in mine if all([0 <= x < n for x, n in zip(e, o.type.shape, strict=True)])}
    marks = [Mark(_boxes(inside), READS[0], f"read: {len(inside):,}")] if inside else []
    holes = _holes(inside, o.exact)
    if holes:
        marks.append(Mark(_boxes(holes), _HOLES, f"holes in the box around it: {len(holes):,}"))
    shared = inside & _of_neighbours(o.maps, tile, sizes, shape) if inside else set()
    if shared:
        marks.append(Mark(_boxes(shared), _SHARED, f"read by tiles beside it too: {len(shared):,}"))
    return Panel(title, o.type.shape, marks, notes)


def _boxes(elements: set[Index]) -> Sequence[Box]:
    return boxes_of(elements)


def _elements(maps: Sequence[IndexingMap], tile: Index, sizes: Index) -> set[Index] | None:
    """Return the elements that a tile reads, with run-time values at their minimum.

    `None` if there are too many.

    Args:
        maps: Maps from the output to the operand.
        tile: Index of the tile.
        sizes: Sizes of a tile.
    """
    found: set[Index] = set()
    for m in maps:
        sides = [
            v.interval & Interval(t * n, t * n + n - 1)
            for v, t, n in zip(m.dims, tile, sizes, strict=True)
        ]
        runs = [v.interval for v in m.ranges]
        if prod([i.size for i in (*sides, *runs)]) > MAX_POINTS:
            return None
        runtime = [v.interval.lo for v in m.runtime]
        found |= m.points_of_box(sides, runtime)
    return found


def _holes(elements: set[Index], exact: ExactTiles) -> set[Index]:
    """Return the elements that a strided box has beyond `elements`; empty if `exact` has no holes.

    The box is the smallest one around `elements`. The stride of a dimension is the gcd of the
    differences of their indices. Nothing is returned if the box has over `MAX_POINTS` elements.

    Args:
        elements: Indices of the elements that a tile reads.
        exact: The tile as a formula; it states whether it has holes.
    """
    if not exact.holes or not elements or not next(iter(elements)):
        return set()
    sides = []
    for column in zip(*elements, strict=True):
        low = min(column)
        # The elements of a column are `low` plus multiples of the gcd of the differences: the
        # tightest strided box.
        step = gcd(*[x - low for x in column])
        sides.append(range(low, max(column) + 1, max(step, 1)))
    if box_size(sides) > MAX_POINTS:
        return set()
    return {*product(*sides)} - elements


def _of_neighbours(
    maps: Sequence[IndexingMap], tile: Index, sizes: Index, shape: Index
) -> set[Index]:
    """Return the elements that the neighbouring tiles read.

    Args:
        maps: Maps from the output to the operand.
        tile: Index of the tile.
        sizes: Sizes of a tile.
        shape: Sizes of the output.
    """
    found: set[Index] = set()
    for d, (t, n, size) in enumerate(zip(tile, sizes, shape, strict=True)):
        for step in (-1, 1):
            if 0 <= t + step < -(-size // n):
                other = (*tile[:d], t + step, *tile[d + 1 :])
                found |= _elements(maps, other, sizes) or set()
    return found
