"""The picture of a chain of data movement: the dimensions of each value, coloured by the source's.

A row is a value; a box is a dimension, with its size. Its stripes have the colours of the source's
dimensions that it traverses. A hollow box traverses none: its elements are repeated. The line next
to it is the map to the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.affine import Dim, variables
from hloscope.display.answer import opcode_of
from hloscope.display.colours import COLOURS
from hloscope.hlo_parser import brief_type
from hloscope.indexing import IndexingMap
from hloscope.ir import Instruction
from hloscope.movement import Chain, Figures, Leaf
from hloscope.visible import in_page

_MOST_ROWS: Final = 40
"""Ops that are drawn; of a longer chain the first and the last."""
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
    """The chain from its sources to the last op, as an SVG document."""
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
    more = _saved(figures)
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


def _saved(figures: Figures) -> str:
    return f"moves {figures.moved:,} bytes, could save {figures.saved:,}"


def _rows(chain: Chain, leaf: Leaf) -> list[tuple[Instruction | None, IndexingMap | None]]:
    """The source, then each op; `None` where some are left out."""
    first = leaf.value, IndexingMap.identity(leaf.type.shape)
    found: list[tuple[Instruction | None, IndexingMap | None]] = [first, *chain.along(leaf)]
    if len(found) > _MOST_ROWS + 1:
        half = _MOST_ROWS // 2
        found = [*found[: half + 1], (None, None), *found[-half:]]
    return found


def _row(
    chain: Chain, leaf: Leaf, value: Instruction, m: IndexingMap | None, y: float
) -> tuple[list[str], float]:
    """One value: its op, its dimensions, and the map to the source."""
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
        parts += _box(x, y, wide, size, _walked(m, k))
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


def _walked(m: IndexingMap | None, k: int) -> list[int]:
    """The source's dimensions that a dimension traverses."""
    if m is None:
        return []
    return [r for r, e in enumerate(m.results) if Dim(k) in variables(e)]


def _box(x: float, y: float, wide: float, size: int, sources: Sequence[int]) -> list[str]:
    """A dimension with a stripe for each dimension of the source."""
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
    named = f' class="{tone}"' if tone else ""
    sized = f' font-size="{size:g}" font-weight="600"' if size else ""
    return f'<text{named}{sized} x="{x:g}" y="{y:g}">{in_page(text)}</text>'
