"""Differences between two programs, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hloscope.compare import Aspect, Change, Differences, Part
from hloscope.display.answer import opcode_of
from hloscope.display.text import headline
from hloscope.ir import Computation, Instruction
from hloscope.visible import visible

SIGNS: Final = {"removed": "-", "added": "+", "changed": "~"}
_LONG: Final = 60
_FEW: Final = 4


def differences_text(found: Differences, *, most: int) -> Iterator[str]:
    """Yield the counts, then one line for each change, grouped by computation."""
    if found.none:
        yield "the same"
        yield from (f"note: {note}" for note in found.notes)
        return
    counts = [f"{count} {kind}" for kind in SIGNS if (count := found.count(kind))]
    alone = [part for part in found.parts if part.before is None or part.after is None]
    if alone:
        counts.append(f"{len(alone)} computations in one only")
    if found.header:
        counts.append("the header differs")
    yield ", ".join(counts)
    for aspect in found.header:
        yield f"  ~ {_aspect(aspect)}"
    left = most
    for part in found.parts:
        if left <= 0:
            break
        yield f"{_title(part)}"
        for change in part.changes[:left]:
            yield from _lines(change)
        left -= max(len(part.changes), 1)
    yield from (f"note: {note}" for note in found.notes)
    hidden = sum(len(part.changes) for part in found.parts) - most
    if hidden > 0:
        yield f"… and {hidden:,} more changes"


def _title(part: Part) -> str:
    before, after = part.before, part.after
    if after is None:
        assert before is not None
        return f"- {visible(before.name)}: {len(before)} instructions"
    if before is None:
        return f"+ {visible(after.name)}: {len(after)} instructions"
    names = dict.fromkeys((before.name, after.name))
    return f"{' → '.join(map(visible, names))}: {part.pairs:,} instructions are in both"


def _lines(change: Change) -> Iterator[str]:
    ins = change.after or change.before
    assert ins is not None
    line = f"  {SIGNS[change.kind]} {headline(ins, opcode_of(ins))}"
    if change.kind != "changed":
        yield line + _around(change, ins)
        return
    assert change.before is not None
    renamed = change.before.name != ins.name
    yield (
        line + (f"  (was {visible(change.before.name)})" if renamed else "") + _around(change, ins)
    )
    for aspect in change.aspects:
        yield f"      {_aspect(aspect)}"


def _around(change: Change, ins: Instruction) -> str:
    """The users of an instruction, and its line."""
    place = f"  line {ins.span.line_col[0]}" if ins.span is not None else ""
    if not change.users:
        return place
    few = ", ".join(map(visible, change.users[:_FEW]))
    more = f" and {len(change.users) - _FEW} more" if len(change.users) > _FEW else ""
    return f"{place}  read by {few}{more}"


def _aspect(aspect: Aspect) -> str:
    before, after = map(_short, (aspect.before, aspect.after))
    return f"{visible(aspect.what)}: {before} → {after}"


def _short(text: str | None) -> str:
    if text is None:
        return "none"
    text = visible(" ".join(text.split()))
    return text if len(text) <= _LONG else f"{text[: _LONG - 2]} …"


def differences_json(found: Differences) -> dict[str, Any]:
    """Return all differences as JSON."""
    return {
        "same": found.none,
        "counts": {kind: found.count(kind) for kind in SIGNS},
        "header": list(map(_aspect_json, found.header)),
        "computations": [_part_json(part) for part in found.parts],
        "notes": list(found.notes),
    }


def _part_json(part: Part) -> dict[str, Any]:
    def named(side: Computation | None) -> str | None:
        return None if side is None else side.name

    return {
        "before": named(part.before),
        "after": named(part.after),
        "in_both": part.pairs,
        "changes": [_change_json(change) for change in part.changes],
    }


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "before": _instruction_json(change.before),
        "after": _instruction_json(change.after),
        "aspects": list(map(_aspect_json, change.aspects)),
        "operands": list(change.operands),
        "users": list(change.users),
    }


def _instruction_json(ins: Instruction | None) -> dict[str, Any] | None:
    if ins is None:
        return None
    return {
        "name": ins.name,
        "opcode": opcode_of(ins),
        "type": str(ins.type),
        "line": None if ins.span is None else ins.span.line_col[0],
    }


def _aspect_json(aspect: Aspect) -> dict[str, str | None]:
    return {"what": aspect.what, "before": aspect.before, "after": aspect.after}
