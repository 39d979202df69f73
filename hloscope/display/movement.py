"""Chains of data movement as text, JSON and pictures, and as a table of the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from msgspec import Struct

from hloscope.affine import Dim, variables
from hloscope.cost import Group, Place, grouped, kernels_and_runs, shares
from hloscope.display.answer import opcode_of
from hloscope.display.cost import origin_columns
from hloscope.display.grouped import GroupColumn, Grouping, grouped_table
from hloscope.display.picture import COLOURS
from hloscope.display.provenance import provenance_of
from hloscope.display.table import Column, Table, columns, page
from hloscope.hlo_parser import brief_type, print_type
from hloscope.indexing import IndexingMap
from hloscope.ir import Computation, Instruction, Layout, Module, TensorType, size_text
from hloscope.movement import (
    Chain,
    Exchange,
    Figures,
    Judgement,
    Kind,
    Leaf,
    Rewriting,
    Savings,
    bytes_of,
    exchanges_of,
    is_view,
)
from hloscope.support.lazy import once_for_each
from hloscope.support.source import in_page

# --------------------------------------------------------------------------------------------------
# Chains of data movement as text and JSON; `movement_picture` draws them.


def chain_text(chain: Chain, rewriting: Rewriting, figures: Figures) -> str:
    """Return a chain as text: its ops from the sources on, the verdict, and a replacement.

    Args:
        chain: The chain.
        rewriting: The shorter program, or the reason why there is none.
        figures: The bytes that the chain moves, and those that can be saved.
    """
    rows = [["", leaf.value.name, "", print_type(leaf.type), ""] for leaf in chain.leaves]
    rows += [
        [str(k), step.name, opcode_of(step), print_type(step.type), _note(chain, step)]
        for k, step in enumerate(chain.steps, 1)
    ]
    lines = [f"{chain.sink.name}: {_verdict(chain, figures)}", "", columns(rows, indent=2)]
    lines += [f"  {line}" for line in _why(chain)]
    lines += [f"  {_exchange_text(passing)}" for passing in exchanges_of(chain)]
    if rewriting.text:
        known = {"run": "run beside the chain on numbered elements: the same", "proved": "proved"}
        lines += ["", f"instead ({known[rewriting.checked]}):", "", rewriting.text.strip()]
    elif rewriting.reason:
        lines += ["", f"instead: {rewriting.reason}"]
    return "\n".join(lines)


def _exchange_text(passing: Exchange) -> str:
    """Return a line on whether a chain's movement can be exchanged with a neighbouring op.

    If so, the line states the bytes written before and after the exchange.
    """
    where = "after" if passing.is_reduction else "before"
    told = f"{where} {opcode_of(passing.op)} `{passing.op.name}`"
    if passing.judged is None:
        return f"not {told}: {passing.reason}"
    return (
        f"{told}: {passing.judged.kind}, {passing.after:,} bytes written"
        f" instead of {passing.before:,} (proved)"
    )


def _exchange_json(passing: Exchange) -> dict[str, Any]:
    return {
        "op": passing.op.name,
        "opcode": opcode_of(passing.op),
        "verdict": None if passing.judged is None else str(passing.judged.kind),
        "bytes_before": passing.before,
        "bytes_after": passing.after,
        "proof": str(passing.proof.verdict) if passing.judged is not None else None,
        "text": passing.text or None,
        "reason": passing.reason or None,
    }


def _note(chain: Chain, step: Instruction) -> str:
    if step is chain.blocking:
        return "<- the bytes move here"
    return "a view: no bytes" if is_view(step) else ""


def _verdict(chain: Chain, figures: Figures) -> str:
    said = str(chain.kind)
    if chain.kind in (Kind.MOVEMENT, Kind.TRANSPOSE):
        said += f" of {bytes_of(chain.sink):,} bytes"
    if figures.moved:
        runs = f" in {figures.runs:,} runs" if figures.runs > 1 else ""
        said += f"; moves {figures.moved:,} bytes{runs}, could save {figures.saved:,}"
    if figures.how:
        said += f" ({f'{figures.how} {figures.like}'.strip()})"
    return said


def _why(chain: Chain) -> list[str]:
    lines: list[str] = []
    for leaf, judged in zip(chain.main, chain.judgements, strict=True):
        lines.append(f"{leaf.value.name}: {judged.kind}{_because(judged)}")
        lines += [f"  {m}" for m in leaf.maps[:4]]
        lines += [f"  {line}" for line in _layouts(judged)]
        example = judged.proof.counter_example
        if example is not None and not judged.kind.is_free:
            (address,) = example.results or (None,)
            there = "output" if not example.only_in else "source"
            lines.append(
                f"  not free: element {list(example.dims)} is at {address} in the {there} only"
            )
    if chain.is_cut:
        lines.append("incomplete: the chain has too many values")
    return lines


def _because(judged: Judgement) -> str:
    if judged.kind is Kind.TRANSPOSE and judged.form is not None:
        modes = judged.form.merged().modes[::-1]
        order = sorted(range(len(modes)), key=lambda k: -modes[k].stride)
        sizes = [modes[k].size for k in order]
        by = [order.index(k) for k in range(len(modes))]
        return f": {sizes} in memory, by {by}"
    return f": {judged.reason}" if judged.reason else ""


def _layouts(judged: Judgement) -> list[str]:
    pairs = ("output", judged.output_layout), ("source", judged.source_layout)
    said = [f"the {what} as {layout_text(layout)}" for what, layout in pairs if layout is not None]
    return [f"a bitcast with {' and '.join(said)}"] if said else []


def layout_text(layout: Layout) -> str:
    """Return the order of the dimensions in HLO's syntax, fastest-varying first."""
    return f"{{{','.join(map(str, layout.minor_to_major))}}}"


def chain_json(figures: Figures, rewriting: Rewriting | None = None) -> dict[str, Any]:
    """Return a chain as JSON; with its rewriting if that is given.

    `figures` has the chain and its bytes.
    """
    chain = figures.chain
    assert chain is not None
    described: dict[str, Any] = {
        "name": chain.sink.name,
        "verdict": str(chain.kind),
        "type": print_type(chain.type),
        "bytes": bytes_of(chain.sink),
        "runs": figures.runs,
        "bytes_moved": figures.moved,
        "bytes_saved": figures.saved,
        "how": figures.how or None,
        "like": figures.like or None,
        "blocking": None if chain.blocking is None else chain.blocking.name,
        "steps": [
            {
                "name": step.name,
                "opcode": opcode_of(step),
                "type": print_type(step.type),
                "is_view": is_view(step),
            }
            for step in chain.steps
        ],
        "sources": [
            _leaf_json(leaf, judged)
            for leaf, judged in zip(chain.main, chain.judgements, strict=True)
        ],
    }
    if rewriting is not None:
        described["passing"] = [_exchange_json(passing) for passing in exchanges_of(chain)]
        described["rewriting"] = {
            "text": rewriting.text or None,
            "checked": rewriting.checked or None,
            "reason": rewriting.reason or None,
        }
    return described


def _leaf_json(leaf: Leaf, judged: Judgement) -> dict[str, Any]:
    example = judged.proof.counter_example
    form = judged.form
    return {
        "name": leaf.value.name,
        "type": print_type(leaf.type),
        "verdict": str(judged.kind),
        "reason": judged.reason or None,
        "maps": list(map(str, leaf.maps)),
        "proof": str(judged.proof.verdict) if judged.kind.is_free else None,
        "counter_example": None
        if example is None
        else {"index": list(example.dims), "address": list(example.results)},
        "digits": None
        if form is None
        else [{"size": mode.size, "stride": mode.stride} for mode in form.modes],
        "offset": None if form is None else form.offset,
        "output_layout": _order_json(judged.output_layout),
        "source_layout": _order_json(judged.source_layout),
    }


def _order_json(layout: Layout | None) -> list[int] | None:
    return None if layout is None else list(layout.minor_to_major)


def chain_html(chain: Chain, rewriting: Rewriting, figures: Figures) -> str:
    """Return a page with a chain's picture, its verdict and its rewriting.

    `figures` has the bytes that the chain moves, and those that can be saved.
    """
    said = in_page(chain_text(chain, rewriting, figures))
    drawn = f"{chain_svg(chain, figures)}<pre>{said}</pre>\n"
    return page(f"{chain.sink.name}: {chain.kind}", drawn)


# --------------------------------------------------------------------------------------------------
# Chains of data movement in a table of the whole program, grouped by cause.


_MOST_OPS: Final = 4
"""Maximum number of opcodes of a chain in the table."""
NO_LAYOUTS: Final = "the text has no layouts: arrays are row-major, layout copies are unknown"


NO_FUSIONS: Final = "no fusions: each op counts as a kernel"


class MovementRow(Struct, frozen=True):
    """A row of a grouped table: a chain, or a kernel that only moves data.

    Attributes:
        figures: The bytes that it moves, and the bytes that can be saved.
        instruction: The op that moves the bytes, or, if it has no origin, the last op with one.
        computation: The computation of the last op.
        notes: Assumptions about how often it runs.
    """

    figures: Figures
    instruction: Instruction
    computation: Computation
    notes: tuple[str, ...]

    @property
    def runs(self) -> int:
        """Return the number of runs."""
        return self.figures.runs


def grouped_movement(
    savings: Savings, module: Module, places: Sequence[Place], by: str
) -> tuple[list[Group[MovementRow]], Grouping]:
    """Return a program's chains and moving kernels in groups, largest saving first.

    The totals of the groups are bytes moved; they add up to the bytes of the whole program.

    Args:
        savings: The bytes of each chain and kernel.
        module: The program.
        places: Runs of its computations.
        by: The grouping: one of `GROUPINGS`, or `scope:N`.

    Raises:
        UnknownNameError: No grouping has that name.
    """
    grouping = Grouping(by, module)
    structure = once_for_each(_structure)  # equal chains share their model

    def key(found: Figures) -> Hashable:
        if found.chain is None:
            return opcode_of(found.value), found.value.type, found.value.calls, found.how
        return structure(found.chain.model), found.how

    homes = {ins: computation for computation in module for ins in computation}
    notes = {place.computation: place.notes for place in places}
    rows = []
    for found in savings.figures:
        home = homes.get(found.value, module.entry)
        rows.append(MovementRow(found, _origin_op(found, module), home, notes.get(home, ())))
    groups = grouped(
        rows,
        lambda row: grouping.key(row, lambda: key(row.figures)),
        lambda row: row.figures.moved,
    )
    return sorted(groups, key=lambda group: -_saved_bytes(group)), grouping


def _saved_bytes(group: Group[MovementRow]) -> int:
    return sum([row.figures.saved for row in group.members])


def _structure(chain: Chain) -> Hashable:
    """Return a key that is equal for chains of equal ops, types, layouts and verdicts."""
    steps = [(opcode_of(step), step.type) for step in chain.steps]
    return chain.kind, tuple(steps), tuple([leaf.type for leaf in chain.main])


def _origin_op(figures: Figures, module: Module) -> Instruction:
    """Return the op of a chain that moves the bytes; if it has no origin, the last op with one.

    `module` is the program, which states the origins. If no op has an origin, the op that moves the
    bytes is returned.
    """
    values = [figures.value]
    if figures.chain is not None:
        blocking = figures.chain.blocking
        values = [*([] if blocking is None else [blocking]), *figures.chain.steps[::-1]]
    for value in values:
        origin = provenance_of(value, module)
        if origin.place or origin.op_name:
            return value
    return values[0]


def movement_table(
    groups: Sequence[Group[MovementRow]], grouping: Grouping, top: int | None
) -> Table:
    """Return the groups of movement as a table: the rest as one row, and the sum.

    Args:
        groups: All groups, with their bytes moved.
        grouping: The grouping, which names the groups.
        top: Maximum number of groups with a row of their own; `None` for all.
    """
    figures: list[GroupColumn[MovementRow]] = [
        Column("could save", lambda some: size_text(sum(map(_saved_bytes, some))))
    ]
    origins: list[GroupColumn[MovementRow]] = [
        Column("verdict", _of_one(_group_verdict), False),
        Column("ops", _of_one(_ops), False, "right", 2),
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
    """Return a function from a row's groups to a cell, which is empty for several groups.

    `cell` returns the cell for a single group.
    """
    return lambda groups: cell(groups[0]) if len(groups) == 1 else ""


def _name(group: Group[MovementRow]) -> str:
    """Return as text the last op of a group's first chain, and the number of its other chains."""
    others = len(group.members) - 1
    name = group.first.figures.value.name
    return f"{name} and {others:,} like it" if others else name


def _group_verdict(group: Group[MovementRow]) -> str:
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
    """Return how the group's bytes can be saved, as text; empty if members differ."""
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
"""For each verdict, the singular and plural noun for chains."""


def movement_summary(savings: Savings) -> str:
    """Return a line with the number of chains by verdict, and the bytes moved and saved.

    `savings` has the bytes of each chain.
    """
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
    """Return notes on why the bytes moved may not be comparable with those of other texts.

    They state that the program has no layouts, or no fusions.
    """
    types = [found.value.type for found in savings.figures]
    has_layouts = any([isinstance(type_, TensorType) and type_.layout for type_ in types])
    said = [] if has_layouts or not types else [NO_LAYOUTS]
    return said if savings.has_fusions or not types else [*said, NO_FUSIONS]


def movement_groups_json(
    groups: Sequence[Group[MovementRow]], grouping: Grouping, most: int
) -> list[dict[str, Any]]:
    """Return the groups as in schema `hloscope.cancel/2`, each with its first `most` members.

    `grouping` computes the names of the groups.
    """
    every = shares([group.total for group in groups])
    return [
        {**_group_json(group, grouping, most), "share": share, "cumulated": cumulated}
        for group, (share, cumulated) in zip(groups, every, strict=True)
    ]


def _group_json(group: Group[MovementRow], grouping: Grouping, most: int) -> dict[str, Any]:
    """Return a group of data movement as JSON, with its first `most` members.

    `grouping` computes the group's name.
    """
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
        "bytes_saved": _saved_bytes(group),
        "source": origin.place or None,
        "op_name": origin.op_name or None,
        "views": [] if chain is None else [step.name for step in chain.steps if is_view(step)],
    }


def member_json(figures: Figures) -> dict[str, Any]:
    """Return one chain or kernel of a group as JSON: name, runs, bytes moved and saved."""
    return {
        "name": figures.value.name,
        "runs": figures.runs,
        "bytes_moved": figures.moved,
        "bytes_saved": figures.saved,
        "how": figures.how or None,
        "like": figures.like or None,
    }


# --------------------------------------------------------------------------------------------------
# The picture of a chain of data movement: the dimensions of each value, coloured by the source's.
#
# A row is a value; a box is a dimension, with its size. Its stripes have the colours of the
# source's dimensions that it traverses. A hollow box traverses none: its elements are repeated. The
# line next to it is the map to the source.


_MOST_ROWS: Final = 40
"""Maximum number of ops that are drawn; of a longer chain, the first and the last ones."""
_BOX, _HIGH, _ROW, _PAD, _LEFT, _CHAR = 46, 26, 58, 18, 200, 6.9
_STYLE: Final = (
    ".hloscope-chain .page{fill:#ffffff;stroke:#d5dbe3}.hloscope-chain text{fill:#1c2733}"
    ".hloscope-chain .faint{fill:#66717f}.hloscope-chain .hollow{fill:none;stroke:#8795a5}"
    ".hloscope-chain .size{fill:#ffffff;font-weight:600}.hloscope-chain .free{fill:#2b8a3e}"
    ".hloscope-chain .moved{fill:#c2410c}.hloscope-chain .flow{stroke:#8795a5}"
    "@media (prefers-color-scheme:dark){"
    ".hloscope-chain .page{fill:#14191f;stroke:#38424e}.hloscope-chain text{fill:#dfe6ee}"
    ".hloscope-chain .faint{fill:#97a3b0}.hloscope-chain .size{fill:#ffffff}"
    ".hloscope-chain .free{fill:#69db7c}.hloscope-chain .moved{fill:#ff8a4c}}"
)


def chain_svg(chain: Chain, figures: Figures) -> str:
    """Return a chain from its sources to the last op, as an SVG document.

    `figures` has the bytes that it moves, and those that can be saved.
    """
    body: list[str] = []
    y = _PAD + 44.0
    wide = 0.0
    for leaf in chain.main:
        rows = _rows(chain, leaf)
        for k, (value, m) in enumerate(rows):
            if value is None:
                body.append(_text(_PAD, y + 17, f"… {len(leaf.via) - _MOST_ROWS} more", "faint"))
            else:
                parts, end = _row(chain, leaf, value, m, y)
                body += parts
                wide = max(wide, end)
            if k + 1 < len(rows):
                x = _LEFT + _BOX / 2
                body.append(f'<path class="flow" d="M{x:g},{y + _HIGH + 4:g}V{y + _ROW - 4:g}"/>')
            y += _ROW
        y += 8
    said = f"{chain.sink.name}: {chain.kind}"
    more = f"moves {figures.moved:,} bytes, could save {figures.saved:,}"
    width = max(wide, _PAD * 2 + len(said) * 9, _PAD * 2 + len(more) * _CHAR) + _PAD
    tone = "free" if chain.kind.is_free else "moved"
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="hloscope-chain" role="img"'
        f' width="{width:.0f}" height="{y:.0f}" viewBox="0 0 {width:.0f} {y:.0f}"'
        ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="11.5">',
        f"<title>{in_page(said)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1:.0f}" height="{y - 1:.0f}" rx="8"/>',
        _text(_PAD, _PAD + 8, said, tone, size=15),
        _text(_PAD, _PAD + 26, more, "faint"),
    ]
    return "\n".join([*head, *body, "</svg>"]) + "\n"


def _rows(chain: Chain, leaf: Leaf) -> list[tuple[Instruction | None, IndexingMap | None]]:
    """Return a source of a chain and each op after it, with their maps to the source.

    `None` stands for ops that are left out, if there are more than `_MOST_ROWS`.

    Args:
        chain: The chain.
        leaf: The source.
    """
    first = leaf.value, IndexingMap.identity(leaf.type.shape)
    found: list[tuple[Instruction | None, IndexingMap | None]] = [first, *chain.along(leaf)]
    if len(found) > _MOST_ROWS + 1:
        half = _MOST_ROWS // 2
        found = [*found[: half + 1], (None, None), *found[-half:]]
    return found


def _row(
    chain: Chain, leaf: Leaf, value: Instruction, m: IndexingMap | None, y: float
) -> tuple[list[str], float]:
    """Return the SVG elements of one value, and its width.

    They show the op, its dimensions, and the map to the source.

    Args:
        chain: The chain.
        leaf: The source.
        value: The value.
        m: Map from an index of the value to the source; `None` if unknown.
        y: Upper y coordinate.
    """
    moved = value is chain.blocking
    said = "source" if value is leaf.value else opcode_of(value)
    parts = [
        _text(_PAD, y + 11, f"{said}{'  <- moves' if moved else ''}", "moved" if moved else ""),
        _text(_PAD, y + 24, _cut(value.name, 26), "faint"),
    ]
    shape = value.type.shape if hasattr(value.type, "shape") else ()
    x = float(_LEFT)
    for k, size in enumerate(shape):
        wide = max(_BOX, len(str(size)) * 8 + 10)
        parts += _box(x, y, wide, size, _source_dimensions(m, k))
        x += wide + 5
    if not shape:
        parts.append(_text(x, y + 17, "one element", "faint"))
        x += 90
    x = max(x, _LEFT + 5 * (_BOX + 5)) + 12
    arrow = "several parts" if m is None else str(m).partition(", domain")[0]
    parts += [
        _text(x, y + 11, _cut(brief_type(value.type), 70)),
        _text(x, y + 24, _cut(arrow, 110), "faint"),
    ]
    longest = max(len(_cut(brief_type(value.type), 70)), len(_cut(arrow, 110)))
    return parts, x + longest * _CHAR


def _source_dimensions(m: IndexingMap | None, k: int) -> list[int]:
    """Return the source dimensions whose index depends on dimension `k` of a value.

    `m` maps an index of the value to the source; empty if it is `None`, for unknown.
    """
    if m is None:
        return []
    return [r for r, e in enumerate(m.results) if Dim(k) in variables(e)]


def _box(x: float, y: float, wide: float, size: int, sources: Sequence[int]) -> list[str]:
    """Return a dimension as SVG elements, with a stripe for each dimension of the source.

    Args:
        x: Left x coordinate.
        y: Upper y coordinate.
        wide: Width.
        size: Size of the dimension.
        sources: Dimensions of the source.
    """
    parts = []
    for n, source in enumerate(sources):
        colour = COLOURS[source % len(COLOURS)]
        each = wide / len(sources)
        parts.append(
            f'<rect x="{x + n * each:g}" y="{y:g}" width="{each:g}" height="{_HIGH}"'
            f' fill="{colour}"><title>dimension {source} of the source</title></rect>'
        )
    if not sources:
        box = f'x="{x:g}" y="{y + 0.5:g}" width="{wide:g}" height="{_HIGH - 1}"'
        parts.append(f'<rect class="hollow" {box}/>')
    tone = "size" if sources else "faint"
    middle = x + wide / 2 - len(str(size)) * 3.5
    return [*parts, _text(middle, y + 17, str(size), tone)]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _text(x: float, y: float, text: str, tone: str = "", *, size: float = 0) -> str:
    """Return a line of text at (x, y) as an SVG element.

    Args:
        x: Left x coordinate.
        y: The y coordinate of the baseline.
        text: The text.
        tone: CSS class; empty for none.
        size: Font size of a bold text; 0 for the usual font.
    """
    named = f' class="{tone}"' if tone else ""
    sized = f' font-size="{size:g}" font-weight="600"' if size else ""
    return f'<text{named}{sized} x="{x:g}" y="{y:g}">{in_page(text)}</text>'
