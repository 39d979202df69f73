"""Footprints as text, tables, JSON and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hloscope.cost import ArrayFootprint, Footprint, Group, KernelCost, kernels_and_runs
from hloscope.display.grouped import Grouping, share_text
from hloscope.display.parts import padding_text
from hloscope.display.picture import page_box, svg_document
from hloscope.display.provenance import Provenance
from hloscope.display.table import columns
from hloscope.hlo_parser import brief_type
from hloscope.ir import array_bytes, size_text
from hloscope.support.source import in_page

# --------------------------------------------------------------------------------------------------
# Footprints as text, tables and JSON.


FOOTPRINT_SCHEMA: Final = "hloscope.footprint/1"


def footprint_text(footprint: Footprint) -> str:
    """Return the bytes that one kernel must read and write, as text."""
    rows = [["", "array", "touched", "in", "elements", "reuse"]]
    rows += [_row("reads operand", array) for array in footprint.reads]
    rows += [_row("writes output", array) for array in footprint.writes]
    table = columns(rows, right=(2, 3, 4, 5)).splitlines()
    lines = [footprint.name, *[f"  {line}" for line in table], ""]
    lines.append(
        f"  {size_text(footprint.read)} read, {size_text(footprint.written)} written, "
        f"{footprint.flops:,} flops: {footprint.intensity:.3g} flops for each byte"
    )
    lines += [f"  note: {note}" for note in footprint.notes]
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


def footprint_json(footprint: Footprint) -> dict[str, Any]:
    """Return one kernel as in schema `hloscope.footprint/1`."""
    return {
        "name": footprint.name,
        "read_bytes": footprint.read,
        "written_bytes": footprint.written,
        "flops": footprint.flops,
        "intensity": footprint.intensity,
        "reuse": footprint.reuse,
        "exact": footprint.is_exact,
        "reads": [_array_json(array) for array in footprint.reads],
        "writes": [_array_json(array) for array in footprint.writes],
        "notes": list(footprint.notes),
    }


def run_json(kernel: KernelCost, origin: Provenance) -> dict[str, Any]:
    """Return one kernel of a program as JSON, with the number of its runs and its origin."""
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


# --------------------------------------------------------------------------------------------------
# Pictures of footprints: the accessed part of each array, and a program's bytes by group.
#
# They are SVG without scripts, fonts or links, with other colours on dark pages.


BAR, HIGH, STEP, PAD, CHARACTER = 520, 14, 24, 18, 7.3
NAMES: Final = 54
"""Maximum number of letters of a name; the tooltip has the whole name."""
_STYLE: Final = (
    ".hf .page{fill:#ffffff}.hf text{fill:#1c2733}.hf .faint{fill:#66717f}.hf .whole{fill:#e3e8ee}"
    ".hf .read{fill:#1864ab}.hf .written{fill:#e8590c}"
    "@media(prefers-color-scheme:dark){.hf .page{fill:#14191f}.hf text{fill:#dfe6ee}"
    ".hf .faint{fill:#97a3b0}.hf .whole{fill:#2b343e}.hf .read{fill:#9fd0ff}"
    ".hf .written{fill:#ff8a4c}}"
)


class _Bar(NamedTuple):
    """A bar of a picture, with its name and its label.

    Each of `parts` has a shade and a number of bytes; `whole` is the bytes at the full width.
    """

    name: str
    about: str
    parts: tuple[tuple[str, int], ...]
    whole: int = 0


def footprint_svg(footprint: Footprint) -> str:
    """Return the arrays of one kernel as a picture of bars; the accessed part is coloured."""
    bars = [_array("operand", "read", array) for array in footprint.reads]
    bars += [_array("output", "written", array) for array in footprint.writes]
    caption = (
        f"{size_text(footprint.read)} read, {size_text(footprint.written)} written, "
        f"{footprint.intensity:.3g} flops for each byte"
    )
    return _drawn([footprint.name, caption, *footprint.notes], bars)


def groups_svg(groups: Sequence[Group[KernelCost]], grouping: Grouping, name: str, top: int) -> str:
    """Return the groups of kernels with the most bytes as a picture of bars.

    Args:
        groups: All groups; their totals are bytes.
        grouping: The grouping of the kernels.
        name: Name of the program.
        top: Maximum number of groups with a bar.
    """
    total = sum([group.total for group in groups])
    bars = [_group(group, grouping, total) for group in groups[:top]]
    count, _ = kernels_and_runs(groups)
    kernels = f"{count:,} kernel{'' if count == 1 else 's'}"
    caption = f"{size_text(total)} of {kernels}; read: blue, written: orange"
    return _drawn([name, caption], bars)


def _array(kind: str, shade: str, array: ArrayFootprint) -> _Bar:
    """Return the bar of one array, whose accessed part is coloured.

    Args:
        kind: Words before the array's number, `operand` or `output`.
        shade: CSS class of the accessed part.
        array: The array.
    """
    touched = array.touched
    whole = array.size
    at_most = "" if touched.is_exact else "≤ "
    share = f" = {100 * touched.bytes / whole:.3g} %" if whole else ""
    about = f"{at_most}{size_text(touched.bytes)} of {size_text(whole)}{share}"
    if touched.reuse > 1:
        about += f", each {touched.reuse:.3g} times"
    name = f"{kind} {array.number}  {array.name}  {brief_type(array.type)}"
    return _Bar(name, about, ((shade, touched.bytes),), whole)


def _group(group: Group[KernelCost], grouping: Grouping, total: int) -> _Bar:
    """Return the bar of a group of kernels: the bytes that they read and write in all runs.

    Args:
        group: The group.
        grouping: The grouping, which names the group.
        total: Bytes of all groups.
    """
    kernels, runs = kernels_and_runs([group])
    share = share_text(group.total / total) if total else ""
    often = f", {runs:,} runs" if runs != kernels else ""
    where = grouping.origin(group).place.rpartition("/")[2]
    about = f"{size_text(group.total)} = {share}{often}{f', {where}' if where else ''}"
    read = sum([kernel.footprint.read * kernel.runs for kernel in group.members])
    return _Bar(grouping.label(group), about, (("read", read), ("written", group.total - read)))


def _drawn(caption: Sequence[str], bars: Sequence[_Bar]) -> str:
    longest = max([max(bar.whole, sum(n for _, n in bar.parts)) for bar in bars], default=0)
    scale = BAR / longest if longest else 0.0
    left = PAD + CHARACTER * min(max([len(bar.name) for bar in bars], default=0), NAMES) + 12
    body: list[str] = []
    y = float(PAD)
    for k, line in enumerate(caption):
        y += STEP - 6
        look = ' font-weight="bold"' if k == 0 else ' class="faint"'
        body.append(f'<text x="{PAD}" y="{y:g}"{look}>{in_page(line)}</text>')
    y += 10
    width = left + max([len(line) * CHARACTER for line in caption])
    for bar in bars:
        x = left
        text = y + HIGH - 2.5
        shown = bar.name if len(bar.name) <= NAMES else f"{bar.name[: NAMES - 1]}…"
        tip = f"<title>{in_page(f'{bar.name}: {bar.about}')}</title>"
        body.append(f'<g>{tip}<text x="{PAD}" y="{text:g}">{in_page(shown)}</text>')
        if bar.whole:
            body.append(_rect("whole", x, y, bar.whole * scale))
        for shade, size in bar.parts:
            body.append(_rect(shade, x, y, size * scale))
            x += size * scale
        end = max(x, left + bar.whole * scale) + 8
        body.append(f'<text class="faint" x="{end:g}" y="{text:g}">{in_page(bar.about)}</text></g>')
        width = max(width, end + len(bar.about) * CHARACTER)
        y += STEP
    extent = f"{width + PAD:g}", f"{y + PAD:g}"
    return svg_document("hf", f"{caption[0]}: bytes", _STYLE, extent, [page_box(*extent), *body])


def _rect(shade: str, x: float, y: float, width: float) -> str:
    """Return a bar as an SVG element; a bar that is not 0 has a visible width.

    Args:
        shade: CSS class of the bar.
        x: Left x coordinate.
        y: Upper y coordinate.
        width: Width of the bar.
    """
    wide = max(width, 1.0) if width > 0 else 0.0
    return f'<rect class="{shade}" x="{x:g}" y="{y:g}" width="{wide:.2f}" height="{HIGH}"/>'
