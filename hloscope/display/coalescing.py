"""Coalescing as text, tables and JSON, and pictures of the sectors that warps access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from hloscope.display.picture import page_box, svg_document
from hloscope.display.table import columns, page, preformatted
from hloscope.hlo_parser import brief_type
from hloscope.ir import size_text
from hloscope.memory import ArrayUse, BankUse, Coalescing, Request, Traffic
from hloscope.support.devices import SECTOR
from hloscope.support.source import in_page

# --------------------------------------------------------------------------------------------------
# Coalescing as text, tables and JSON.


COALESCE_SCHEMA: Final = "hloscope.coalesce/2"
FULL: Final = 0.995
"""Utilisation from which text states 100 %."""


def coalescing_text(answer: Coalescing) -> str:
    """Return the coalescing of a kernel as text: a row for each array, and causes of waste."""
    lines = [answer.name, f"  {answer.model}", ""]
    lines += [f"  {line}" for line in columns([_HEAD, *map(_row(answer), answer.arrays)],
                                              right=_RIGHT).splitlines()]  # fmt: skip
    said = [line for array in answer.arrays for line in _causes(array)]
    if said:
        lines += ["", *[f"  {line}" for line in said]]
    if answer.banks:
        lines += ["", "  shared memory, words that the busiest bank serves in one request:"]
        lines += [f"    {bank_text(bank)}" for bank in answer.banks]
    lines += [f"  finding: {finding}" for finding in answer.findings]
    lines += [f"  note: {note}" for note in answer.notes]
    return "\n".join(lines)


_HEAD: Final = ("", "array", "XLA heuristic", "XLA map", "sectors", "of ideal", "used",
                "asked", "moved", "touched")  # fmt: skip
_RIGHT: Final = (4, 5, 6, 7, 8, 9)


def _row(answer: Coalescing) -> Any:
    def cells(array: ArrayUse) -> list[str]:
        what = f"{'output' if array.is_output else 'operand'} {array.number}"
        name = f"{array.name}  {brief_type(array.type)}"
        heuristic = "" if array.is_output else _verdict(answer.by_heuristic)
        return [what, name, heuristic, _verdict(array.by_map), *_figures(array)]

    return cells


def _verdict(is_coalesced: bool | None) -> str:
    return "" if is_coalesced is None else "coalesced" if is_coalesced else "uncoalesced"


def _figures(array: ArrayUse) -> list[str]:
    touched = ("" if array.touched.is_exact else "≤ ") + size_text(array.touched.bytes)
    traffic = array.traffic
    if array.tile is not None:
        return [f"tile {'x'.join(map(str, array.tile.sizes))}", "",
                percent(array.tile.utilisation), "", "", touched]  # fmt: skip
    if traffic is None:
        return ["", "", "", "", "", touched]
    if not traffic.requests:
        return ["none", "", "", "0 bytes", "0 bytes", touched]
    around = "~" if traffic.precision == "sampled" else ""
    if traffic.best is not None:
        best = traffic.best
        return [
            f"{best.fewest} to {traffic.most}",
            f"{percent(traffic.efficiency)} to {percent(best.efficiency)}",
            f"{percent(traffic.utilisation)} to {percent(best.utilisation)}",
            size_text(traffic.asked),
            f"{size_text(best.moved)} to {size_text(traffic.moved)}",
            touched,
        ]
    return [
        sectors_text(traffic),
        around + percent(traffic.efficiency),
        around + percent(traffic.utilisation),
        around + size_text(traffic.asked),
        around + size_text(traffic.moved),
        touched,
    ]


def sectors_text(traffic: Traffic) -> str:
    """Return the sectors per request of an access: one number, or `fewest / mean / most`."""
    if traffic.fewest == traffic.most:
        return str(traffic.most)
    return f"{traffic.fewest} / {traffic.mean:.4g} / {traffic.most}"


def percent(share: float) -> str:
    """Return a share as percent text.

    >>> percent(1.0), percent(0.125), percent(0.9999)
    ('100 %', '12.5 %', '100 %')
    """
    return "100 %" if share >= FULL else f"{100 * share:.3g} %"


def _causes(array: ArrayUse) -> Iterable[str]:
    """Yield lines on why an array's requests transfer unused bytes, or why that is unknown."""
    head = f"{'output' if array.is_output else 'operand'} {array.number}"
    traffic = array.traffic
    if array.spoiler is not None:
        yield f"{head}: {array.spoiler}"
    if traffic is None and array.by_map is not None and array.touches == ():
        yield f"{head}: not read"
    if traffic is not None:
        yield from (f"{head}: {line}" for line in _traffic_lines(array, traffic))
    elif array.emitted_traffic is not None:
        yield f"{head}: as emitted {_requests_text(array.emitted_traffic)}"
    if array.reason:
        yield f"{head}: {array.reason}"


def _traffic_lines(array: ArrayUse, traffic: Traffic) -> Iterator[str]:
    worst = traffic.worst
    if worst is not None and array.spoiler is not None:
        asked = len({a for a in worst.addresses if a is not None}) * worst.unit
        yield f"worst request {_at(worst)}: {worst.sectors} sectors for {asked} bytes"
    if traffic.vector > 1:
        yield f"a lane touches {traffic.vector} elements at once"
    if traffic.precision == "sampled":
        yield "sampled, as there are too many different requests"
    if traffic.best is not None and any(m.runtime for touch in array.touches for m in touch.maps):
        yield "addresses depend on run-time values; worst to best case"
    if array.emitted_traffic is not None:
        yield f"as emitted {_requests_text(array.emitted_traffic)}"
        yield f"as compiled {_requests_text(traffic)}: {array.change}"
    if traffic.tries > 1:
        yield f"a request may be made up to {traffic.tries} times"


def _requests_text(traffic: Traffic) -> str:
    """Return requests and transferred bytes of an access as text; a range if there are bounds."""
    if traffic.best is None:
        return f"{traffic.requests} requests move {size_text(traffic.moved)}"
    return (
        f"{traffic.best.requests} to {traffic.requests} requests move "
        f"{size_text(traffic.best.moved)} to {size_text(traffic.moved)}"
    )


def _at(request: Request) -> str:
    return ", ".join(f"{name} {value}" for name, value in request.at.items()) or "the only one"


def bank_text(bank: BankUse) -> str:
    """Return the bank conflicts of one access as one line."""
    size = "x".join(map(str, bank.shape))
    told = "no conflicts" if bank.most <= 1 else f"{bank.mean:.3g} on average, {bank.most} at worst"
    return f"{bank.what} [{size}], {size_text(bank.bytes)}: {told}"


# ----------------------------------------------------------------------------------------- JSON


def coalescing_json(answer: Coalescing, **place: Any) -> dict[str, Any]:
    """Return one kernel as in schema `hloscope.coalesce/2`.

    Args:
        answer: The coalescing of the kernel.
        place: Its computation, origin and runs, by their keys in the schema.
    """
    kernel = answer.kernel
    launch = kernel.launch
    return {
        "name": answer.name,
        **place,
        "device": answer.device.name,
        "model": answer.model,
        "emitter": kernel.emitter,
        "launch": launch and {"threads": list(launch.threads), "blocks": list(launch.blocks)},
        "unroll": kernel.unroll,
        "xla_heuristic": answer.by_heuristic,
        "wasted_bytes": answer.wasted,
        "utilisation": answer.utilisation,
        "efficiency": answer.lowest,
        "arrays": [_array_json(array) for array in answer.arrays],
        "banks": [bank_json(bank) for bank in answer.banks],
        "notes": list(answer.notes),
        "findings": list(answer.findings),
    }


def _array_json(array: ArrayUse) -> dict[str, Any]:
    told: dict[str, Any] = {
        "role": "output" if array.is_output else "operand",
        "number": array.number,
        "leaf": array.leaf,
        "name": array.name,
        "type": brief_type(array.type),
        "xla_map": array.by_map,
        "precision": array.precision,
        "reason": array.reason,
        "touched": {
            "elements": array.touched.elements,
            "bytes": array.touched.bytes,
            "sectors": array.touched.sectors,
            "exact": array.touched.is_exact,
        },
        "accesses": [str(map) for touch in array.touches for map in touch.maps],
    }
    if array.traffic is not None:
        told |= traffic_json(array.traffic)
    if array.emitted_traffic is not None:
        told["as_emitted"] = traffic_json(array.emitted_traffic)
        told["as_compiled"] = array.change
    if array.tile is not None:
        tile = array.tile
        told["tile"] = {
            "sizes": list(tile.sizes),
            "strides": list(tile.strides),
            "run_bytes": tile.run,
            "utilisation": tile.utilisation,
        }
    if array.spoiler is not None:
        spoiler = array.spoiler
        told["spoiler"] = {
            "term": spoiler.term,
            "every_lanes": spoiler.every,
            "step_bytes": spoiler.step,
            "text": str(spoiler),
        }
    return told


def traffic_json(traffic: Traffic) -> dict[str, Any]:
    """Return the traffic of an access as JSON."""
    told: dict[str, Any] = {
        "requests": traffic.requests,
        "sectors": traffic.sectors,
        "needed_sectors": traffic.needed,
        "lines": traffic.lines,
        "asked_bytes": traffic.asked,
        "moved_bytes": traffic.moved,
        "utilisation": traffic.utilisation,
        "efficiency": traffic.efficiency,
        "vector": traffic.vector,
        "sectors_per_request": {
            "min": traffic.fewest,
            "mean": traffic.mean,
            "max": traffic.most,
            "histogram": {str(k): n for k, n in traffic.histogram.items()},
        },
    }
    for name, request in (("worst", traffic.worst), ("typical", traffic.typical)):
        if request is not None:
            told[name] = {
                "at": dict(request.at),
                "sectors": request.sectors,
                "lane_bytes": request.unit,
                "addresses": list(request.addresses),
            }
    if traffic.tries > 1:
        told["tries"] = traffic.tries
    if traffic.best is not None:
        told["best"] = traffic_json(traffic.best)
    return told


def bank_json(bank: BankUse) -> dict[str, Any]:
    """Return the bank conflicts of one access as JSON."""
    return {
        "what": bank.what,
        "shape": list(bank.shape),
        "bytes": bank.bytes,
        "requests": bank.requests,
        "mean": bank.mean,
        "max": bank.most,
        "exact": bank.is_exact,
    }


# --------------------------------------------------------------------------------------------------
# Pictures of warps: the sectors that 32 lanes access, and bank conflicts.
#
# They are SVG without scripts, fonts or links, with other colours on dark pages.


CELL, PAD, LINE, GAP = 9, 18, 17, 34
MOST_COLUMNS: Final = 64
"""Maximum number of sectors that are drawn next to each other; a note counts the others."""
MOST_ARRAYS: Final = 6
ROOM: Final = 860
"""Maximum width of a row of drawings, that of a notebook; further drawings go below."""
_STYLE: Final = (
    ".hw .page{fill:#ffffff}.hw text{fill:#1c2733}.hw .faint{fill:#66717f}"
    ".hw .empty{fill:#eef1f5}.hw .on{fill:#1864ab}.hw .bad{fill:#e8590c}.hw .used{fill:#1864ab}"
    ".hw .unused{fill:#f4c9ae}.hw .frame{fill:none;stroke:#d5dbe3}"
    "@media(prefers-color-scheme:dark){.hw .page{fill:#14191f}.hw text{fill:#dfe6ee}"
    ".hw .faint{fill:#97a3b0}.hw .empty{fill:#252d36}.hw .on{fill:#9fd0ff}.hw .bad{fill:#ff8a4c}"
    ".hw .used{fill:#9fd0ff}.hw .unused{fill:#6b3a1e}.hw .frame{stroke:#38424e}}"
)


class _Drawn(Struct, frozen=True):
    """A drawing as SVG elements, with its size."""

    parts: tuple[str, ...]
    width: float
    height: float


def warps_svg(answer: Coalescing) -> str:
    """Return a picture of typical and worst warps of a kernel's arrays, and of shared-memory banks.

    Used sectors are blue; their unused part, below, is orange.
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
    """Return a picture of the lanes of the worst request, and the bank of each lane.

    A bank with one word is blue, a bank with several words is orange. `model` is a line of the
    caption.
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
    size = f"{width + 2 * PAD:g}", f"{y + PAD:g}"
    return svg_document(
        "hw", f"{caption[0]}: lanes of a warp", _STYLE, size, [page_box(*size), *body]
    )


def _rows(drawn: Sequence[_Drawn]) -> list[list[_Drawn]]:
    """Return the drawings in rows, with as many next to each other as fit into `ROOM`."""
    rows: list[list[_Drawn]] = []
    for part in drawn:
        used = sum([other.width + GAP for other in rows[-1]]) if rows else ROOM
        if used + part.width > ROOM:
            rows.append([part])
        else:
            rows[-1].append(part)
    return rows


def _array(array: ArrayUse) -> _Drawn:
    """Return a drawing of an array's typical warp, and next to it the worst one if that differs."""
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
    """Return a drawing of the request of one warp: lanes as rows, sectors as columns.

    Below is the used part of each sector. `title` is the heading.
    """
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
        parts += _lane_number(lane, left, top)
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


def _lane_number(lane: int, left: int, top: int) -> Iterator[str]:
    """Yield the number of every eighth lane, beside its row.

    `left` and `top` are the coordinates of the first lane's first cell.
    """
    if lane % 8 == 0:
        yield (
            f'<text x="{left - 6}" y="{top + lane * CELL + 8}" text-anchor="end" '
            f'class="faint" font-size="10">{lane}</text>'
        )


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
    """Return a drawing of lanes as rows and banks as columns.

    Several words of one bank are orange.
    """
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
        parts += _lane_number(lane, left, top)
        if word is not None:
            shade = "bad" if len(words[word % 32]) > 1 else "on"
            x = left + word % 32 * CELL
            parts.append(_rect(shade, x, top + lane * CELL, CELL - 1, CELL - 1))
    wide = left + max(32 * CELL, 7.3 * len(title))
    return _Drawn(tuple(parts), wide, top + max(len(bank.worst), 1) * CELL + 4)


def _rect(shade: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{shade}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'


def warps_html(answers: Sequence[Coalescing], texts: Sequence[str]) -> str:
    """Return an HTML page: for each kernel its text from `texts`, and its picture.

    `answers` has the coalescing of each kernel.
    """
    parts = [
        preformatted(text) + warps_svg(answer) for answer, text in zip(answers, texts, strict=True)
    ]
    title = answers[0].name if len(answers) == 1 else "coalescing"
    return page(title, "".join(parts), f"<style>{_PAGE}</style>")


_PAGE: Final = (
    "body{color:#1c2733;background:#fff;font:14px/1.5 system-ui,sans-serif;padding:.5em 1em}"
    "pre{font:12.5px ui-monospace,Menlo,Consolas,monospace;overflow-x:auto}"
    "svg{max-width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){body{color:#dfe6ee;background:#14191f}}"
)
