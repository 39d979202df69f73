"""Pictures of warps: the sectors that 32 lanes access, and bank conflicts.

They are SVG without scripts, fonts or links, with other colours on dark pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from hloscope.devices import SECTOR
from hloscope.display.coalescing import percent, sectors_text
from hloscope.hlo_parser import brief_type
from hloscope.memory import ArrayUse, BankUse, Coalescing, Request
from hloscope.visible import in_page

CELL, PAD, LINE, GAP = 9, 18, 17, 34
MOST_COLUMNS: Final = 64
"""Sectors beside each other; of more only the first are drawn, which is said."""
MOST_ARRAYS: Final = 6
ROOM: Final = 860
"""Drawings beside each other are no wider, as a notebook is; the others stand below."""
_STYLE: Final = (
    ".hw .page{fill:#ffffff}.hw text{fill:#1c2733}.hw .faint{fill:#66717f}"
    ".hw .empty{fill:#eef1f5}.hw .on{fill:#1864ab}.hw .bad{fill:#e8590c}.hw .used{fill:#1864ab}"
    ".hw .unused{fill:#f4c9ae}.hw .frame{fill:none;stroke:#d5dbe3}"
    "@media(prefers-color-scheme:dark){.hw .page{fill:#14191f}.hw text{fill:#dfe6ee}"
    ".hw .faint{fill:#97a3b0}.hw .empty{fill:#252d36}.hw .on{fill:#9fd0ff}.hw .bad{fill:#ff8a4c}"
    ".hw .used{fill:#9fd0ff}.hw .unused{fill:#6b3a1e}.hw .frame{stroke:#38424e}}"
)


class _Drawn(Struct, frozen=True):
    """A drawing and its size."""

    parts: tuple[str, ...]
    width: float
    height: float


def warps_svg(answer: Coalescing) -> str:
    """Draw the typical and the worst warp of each array, and the banks of shared memory.

    Blue marks used sectors; orange, below, their unused part.
    """
    drawn: list[_Drawn] = []
    shown = [a for a in answer.arrays if a.traffic is not None and a.traffic.typical is not None]
    shown.sort(key=lambda a: -(a.traffic.wasted if a.traffic else 0))
    for array in shown[:MOST_ARRAYS]:
        drawn.append(_array(array))
    left_out = len(shown) - len(drawn)
    if any(bank.most > 1 for bank in answer.banks) or answer.banks:
        drawn.append(_beside([_bank(bank) for bank in answer.banks]))
    caption = [answer.name, answer.model]
    if left_out > 0:
        caption.append(f"{left_out} more arrays with fewer unused bytes are not drawn")
    if not drawn:
        caption.append("its lanes are unknown")
    return _document(caption, drawn)


def banks_svg(bank: BankUse, model: str) -> str:
    """The lanes of the worst request, and the bank that each of them accesses.

    Blue marks a bank with one word; orange a bank with several words.
    """
    return _document([bank.what, model], [_bank(bank)])


def _document(caption: Sequence[str], drawn: Sequence[_Drawn]) -> str:
    body: list[str] = []
    y = float(PAD)
    for k, line in enumerate(caption):
        y += LINE
        weight = ' font-weight="bold"' if k == 0 else ' class="faint"'
        body.append(f'<text x="{PAD}" y="{y:g}"{weight}>{in_page(line)}</text>')
    y += 12
    width = max([len(line) * 7.6 for line in caption])
    for row in _rows(drawn):
        x = float(PAD)
        for part in row:
            body.append(f'<g transform="translate({x:g},{y:g})">{"".join(part.parts)}</g>')
            x += part.width + GAP
        y += max([part.height for part in row]) + GAP / 2
        width = max(width, x - GAP - PAD)
    total, high = width + 2 * PAD, y + PAD
    title = in_page(f"{caption[0]}: lanes of a warp")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="hw" role="img" width="{total:g}" '
        f'height="{high:g}" viewBox="0 0 {total:g} {high:g}" '
        f'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="12">'
        f"<title>{title}</title><style>{_STYLE}</style>"
        f'<rect class="page" width="{total:g}" height="{high:g}"/>{"".join(body)}</svg>\n'
    )


def _rows(drawn: Sequence[_Drawn]) -> list[list[_Drawn]]:
    """The drawings side by side, as many as fit in a row."""
    rows: list[list[_Drawn]] = []
    for part in drawn:
        used = sum([other.width + GAP for other in rows[-1]]) if rows else ROOM
        if used + part.width > ROOM:
            rows.append([part])
        else:
            rows[-1].append(part)
    return rows


def _array(array: ArrayUse) -> _Drawn:
    """The typical warp, and next to it the worst one if that is another."""
    traffic = array.traffic
    assert traffic is not None
    kind = "output" if array.is_output else "operand"
    head = f"{kind} {array.number}  {array.name}  {brief_type(array.type)}"
    lines = [
        head,
        f"sectors a request: {sectors_text(traffic)}, {percent(traffic.efficiency)} of ideal",
        f"{percent(traffic.utilisation)} of the transferred bytes are used",
    ]
    if array.spoiler is not None:
        lines.append(str(array.spoiler))
    panels = []
    if traffic.typical is not None:
        panels.append(_warp("typical warp", traffic.typical))
    usual = traffic.typical.sectors if traffic.typical is not None else 0
    if traffic.worst is not None and traffic.worst.sectors != usual:
        panels.append(_warp("worst warp", traffic.worst))
    return _below(lines, _beside(panels))


def _below(lines: Sequence[str], part: _Drawn) -> _Drawn:
    texts = [
        f'<text x="0" y="{LINE * (k + 1)}"{"" if k == 0 else _FAINT}>{in_page(line)}</text>'
        for k, line in enumerate(lines)
    ]
    top = LINE * len(lines) + 10
    moved = f'<g transform="translate(0,{top})">{"".join(part.parts)}</g>'
    width = max(part.width, *[len(line) * 7.3 for line in lines])
    return _Drawn((*texts, moved), width, part.height + top)


_FAINT: Final = ' class="faint"'


def _beside(parts: Sequence[_Drawn]) -> _Drawn:
    body: list[str] = []
    x = 0.0
    for part in parts:
        body.append(f'<g transform="translate({x:g},0)">{"".join(part.parts)}</g>')
        x += part.width + GAP
    return _Drawn(tuple(body), max(x - GAP, 0), max([p.height for p in parts], default=0))


def _warp(title: str, request: Request) -> _Drawn:
    """Lanes as rows, sectors as columns; below, the used part of each sector."""
    touched = _bytes_by_sector(request)
    sectors = sorted(touched)[:MOST_COLUMNS]
    place = {sector: k for k, sector in enumerate(sectors)}
    lanes = len(request.addresses)
    left, top = 42, LINE + 8
    at = ", ".join(f"{name} {value}" for name, value in request.at.items())
    parts = [f'<text x="{left}" y="{LINE - 4}">{in_page(title)}  {in_page(at)}</text>']
    width = max(len(sectors), 1) * CELL
    parts += [_rect("empty", left, top, width, lanes * CELL)]
    is_bad = request.sectors > max(-(-_asked(request) // SECTOR), 1) + 1
    for lane, address in enumerate(request.addresses):
        if lane % 8 == 0:
            parts.append(
                f'<text x="{left - 6}" y="{top + lane * CELL + 8}" text-anchor="end" '
                f'class="faint" font-size="10">{lane}</text>'
            )
        if address is None:
            continue
        for sector in range(address // SECTOR, (address + request.unit - 1) // SECTOR + 1):
            if sector in place:
                x = left + place[sector] * CELL
                shade = "bad" if is_bad else "on"
                parts.append(_rect(shade, x, top + lane * CELL, CELL - 1, CELL - 1))
    bottom = top + lanes * CELL + 6
    for sector in sectors:
        x, high = left + place[sector] * CELL, 24
        used = high * len(touched[sector]) / SECTOR
        parts.append(_rect("unused", x, bottom, CELL - 1, high))
        parts.append(_rect("used", x, bottom + high - used, CELL - 1, used))
    asked = _asked(request)
    more = f", {len(touched) - len(sectors)} not drawn" if len(touched) > len(sectors) else ""
    count = f"{request.sectors} sector{'' if request.sectors == 1 else 's'}"
    text = f"{count}, {asked} of {request.sectors * SECTOR} bytes used{more}"
    parts.append(f'<text x="{left}" y="{bottom + 40}" class="faint">{text}</text>')
    for word, y in (("lane", top + lanes * CELL - 2), ("sector", bottom + 16)):
        parts.append(
            f'<text x="{left - 4}" y="{y:g}" text-anchor="end" class="faint" '
            f'font-size="9">{word}</text>'
        )
    wide = max(left + width, left + 7.3 * len(text), left + 7.3 * len(f"{title}  {at}"))
    return _Drawn(tuple(parts), wide, bottom + 46)


def _asked(request: Request) -> int:
    return sum(map(len, _bytes_by_sector(request).values()))


def _bytes_by_sector(request: Request) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for address in request.addresses:
        if address is not None:
            for byte in range(address, address + request.unit):
                found.setdefault(byte // SECTOR, set()).add(byte)
    return found


def _bank(bank: BankUse) -> _Drawn:
    """Draw lanes as rows and banks as columns; orange marks several words of one bank."""
    words: dict[int, set[int]] = {}
    for word in bank.worst:
        if word is not None:
            words.setdefault(word % 32, set()).add(word)
    left, top = 30, 2 * LINE + 8
    size = "x".join(map(str, bank.shape))
    title = f"{bank.what} [{size}]"
    told = "no conflicts" if bank.most <= 1 else f"{bank.most} words of one bank at once"
    parts = [
        f'<text x="{left}" y="{LINE - 4}">{in_page(title)}</text>',
        f'<text x="{left}" y="{2 * LINE - 4}" class="faint">32 banks: {told}</text>',
        _rect("empty", left, top, 32 * CELL, max(len(bank.worst), 1) * CELL),
    ]
    for lane, word in enumerate(bank.worst):
        if lane % 8 == 0:
            parts.append(
                f'<text x="{left - 6}" y="{top + lane * CELL + 8}" text-anchor="end" '
                f'class="faint" font-size="10">{lane}</text>'
            )
        if word is not None:
            shade = "bad" if len(words[word % 32]) > 1 else "on"
            x = left + word % 32 * CELL
            parts.append(_rect(shade, x, top + lane * CELL, CELL - 1, CELL - 1))
    wide = left + max(32 * CELL, 7.3 * len(title))
    return _Drawn(tuple(parts), wide, top + max(len(bank.worst), 1) * CELL + 4)


def _rect(shade: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{shade}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'


def warps_html(answers: Sequence[Coalescing], texts: Sequence[str]) -> str:
    """A complete page: for each kernel its table and its picture."""
    parts = [
        f"<pre>{_escaped(text)}</pre>\n{warps_svg(answer)}"
        for answer, text in zip(answers, texts, strict=True)
    ]
    title = in_page(answers[0].name if len(answers) == 1 else "coalescing")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title>'
        f"<style>{_PAGE}</style></head>\n<body>\n{''.join(parts)}</body></html>\n"
    )


def _escaped(text: str) -> str:
    return "\n".join(in_page(line) for line in text.splitlines())


_PAGE: Final = (
    "body{color:#1c2733;background:#fff;font:14px/1.5 system-ui,sans-serif;padding:.5em 1em}"
    "pre{font:12.5px ui-monospace,Menlo,Consolas,monospace;overflow-x:auto}"
    "svg{max-width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){body{color:#dfe6ee;background:#14191f}}"
)
