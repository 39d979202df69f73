"""Pictures of footprints: what of each array a kernel touches, and where a program's bytes go.

SVG without scripts, fonts or links; where the reader prefers dark pages, the colours are others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hloscope.cost import ArrayFootprint, Footprint, Run
from hloscope.display.coalescing import KernelPlace
from hloscope.hlo_parser import brief_type
from hloscope.memory import size_text
from hloscope.visible import in_page

BAR, HIGH, STEP, PAD, CHARACTER = 520, 14, 24, 18, 7.3
NAMES: Final = 54
"""Letters of a name that are shown; the whole one appears under the pointer."""
_STYLE: Final = (
    ".hf .page{fill:#ffffff}.hf text{fill:#1c2733}.hf .faint{fill:#66717f}.hf .whole{fill:#e3e8ee}"
    ".hf .read{fill:#1864ab}.hf .written{fill:#e8590c}"
    "@media(prefers-color-scheme:dark){.hf .page{fill:#14191f}.hf text{fill:#dfe6ee}"
    ".hf .faint{fill:#97a3b0}.hf .whole{fill:#2b343e}.hf .read{fill:#9fd0ff}"
    ".hf .written{fill:#ff8a4c}}"
)


class _Bar(NamedTuple):
    """One line: its name, what stands behind the bar, its parts, and how long all of it may be."""

    name: str
    about: str
    parts: tuple[tuple[str, int], ...]
    whole: int = 0


def footprint_svg(found: Footprint) -> str:
    """The arrays of one kernel, as long as they are large; the part that is touched is coloured."""
    bars = [_array("operand", "read", array) for array in found.reads]
    bars += [_array("output", "written", array) for array in found.writes]
    caption = (
        f"{size_text(found.read)} read, {size_text(found.written)} written, "
        f"{found.intensity:.3g} flops for each byte"
    )
    return _drawn([found.name, caption, *found.notes], bars)


def runs_svg(
    runs: Sequence[Run], total: int, places: Sequence[KernelPlace], name: str, top: int
) -> str:
    """The kernels of a program that move most, equal ones together."""
    groups: dict[tuple[object, ...], tuple[Run, KernelPlace, int]] = {}
    for run, place in zip(runs, places, strict=True):
        found = run.footprint
        key = (found.read, found.written, found.flops, run.times, place.origin.place)
        first, where, count = groups.get(key, (run, place, 0))
        groups[key] = first, where, count + 1
    # What moves most all together comes first.
    largest = sorted(groups.values(), key=lambda group: -group[0].bytes * group[2])[:top]
    bars = [_run(*group, total) for group in largest]
    kernels = f"{len(runs)} kernel{'' if len(runs) == 1 else 's'}"
    caption = f"{size_text(total)} of {kernels}; read: blue, written: orange"
    return _drawn([name, caption], bars)


def _array(kind: str, shade: str, array: ArrayFootprint) -> _Bar:
    touched = array.touched
    whole = array.size
    at_most = "" if touched.is_exact else "≤ "
    share = f" = {100 * touched.bytes / whole:.3g} %" if whole else ""
    about = f"{at_most}{size_text(touched.bytes)} of {size_text(whole)}{share}"
    if touched.reuse > 1:
        about += f", each {touched.reuse:.3g} times"
    name = f"{kind} {array.number}  {array.name}  {brief_type(array.type)}"
    return _Bar(name, about, ((shade, touched.bytes),), whole)


def _run(run: Run, place: KernelPlace, count: int, total: int) -> _Bar:
    found, times, size = run.footprint, run.times * count, run.bytes * count
    share = f"{100 * size / total:.3g} %" if total else ""
    often = f", {times} runs" if times != 1 else ""
    where = place.origin.place.rpartition("/")[2]
    about = f"{size_text(size)} = {share}{often}{f', {where}' if where else ''}"
    parts = (("read", found.read * times), ("written", found.written * times))
    others = f" and {count - 1} like it" if count > 1 else ""
    return _Bar(found.name + others, about, parts)


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
    wide, high = width + PAD, y + PAD
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="hf" role="img" width="{wide:g}" '
        f'height="{high:g}" viewBox="0 0 {wide:g} {high:g}" '
        f'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="12">'
        f"<title>{in_page(f'{caption[0]}: bytes')}</title><style>{_STYLE}</style>"
        f'<rect class="page" width="{wide:g}" height="{high:g}"/>{"".join(body)}</svg>\n'
    )


def _rect(shade: str, x: float, y: float, width: float) -> str:
    """A bar; what is not nothing is seen."""
    wide = max(width, 1.0) if width > 0 else 0.0
    return f'<rect class="{shade}" x="{x:g}" y="{y:g}" width="{wide:.2f}" height="{HIGH}"/>'
