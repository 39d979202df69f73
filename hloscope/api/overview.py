"""Start page of the explorer: a program's properties, cost, memory, and advised changes.

The figures are those of `Program.cost`, `Program.memory` and `check`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hloscope import checks, cost, display
from hloscope.api.invalid import Invalid, check
from hloscope.errors import HloscopeError
from hloscope.fusion import leaf_types
from hloscope.indexing import counts_of
from hloscope.ir import Instruction, Type, array_bytes, size_text
from hloscope.support.lazy import lazy
from hloscope.support.source import visible

if TYPE_CHECKING:
    import hloscope.api.costs as costs
    from hloscope.api.program import Program
else:
    costs = lazy("hloscope.api.costs")

MOST_ROWS: Final = 60
"""Maximum number of rows of each table; all other groups share one row."""
MOST_FINDINGS: Final = 5
RULES: Final = ("copies", "utilisation", "trip-counts")
"""Names of the check rules whose findings are shown.

Padding and tiles are covered by the advice about costs.
"""
COST_GROUPINGS: Final = ("group", "source", "scope", "opcode")
MEMORY_GROUPINGS: Final = ("group", "source", "scope", "kind")
_SHOWN_BY: Final = {
    "copies": "choose layouts so that none is needed; what the movement does: hloscope cancel",
    "utilisation": "let neighbouring lanes read neighbouring elements; why: hloscope coalesce",
    "trip-counts": "correct the count, or costs and bounds are wrong; the loop: hloscope show",
}
"""For each rule: what to do about its findings, and the command that shows more."""
Numbers = Mapping[Instruction, int]


def about(program: Program) -> list[list[str]]:
    """Return the properties of a program as pairs of a name and a value.

    HLO and StableHLO texts have no date; the page states that.
    """
    module = program.module
    target = cost.target_of(module)
    kind = target.kind if target.is_compiled else "not compiled"
    counts = counts_of(module)
    if counts.replicas is None or counts.partitions is None:
        devices = "not stated"
    else:
        devices = f"{counts.replicas * counts.partitions:,}"
        if counts.replicas > 1 and counts.partitions > 1:
            devices += f" ({counts.replicas:,} replicas of {counts.partitions:,} partitions)"
    found = [
        ("compiled for", f"{kind} ({target.evidence})"),
        ("when", "the text states no date"),
        ("devices", devices),
    ]
    if module.computations and module.entry.instructions:
        entry = module.entry
        given, result = [p.type for p in entry.parameters], entry.root.type
        text = f"{len(given):,} parameter{'' if len(given) == 1 else 's'}, {_bytes_of(given)}"
        results = len(leaf_types(result))
        text += f"; {results:,} result{'' if results == 1 else 's'}, {_bytes_of([result])}"
        found.append((f"entry {entry.name}", text))
    return [[visible(name), visible(value)] for name, value in found]


def _bytes_of(types: Sequence[Type]) -> str:
    """Return the bytes of all arrays of the types, as text.

    The text states if a size is unknown.
    """
    counts = [array_bytes(type) for type in types]
    known = [count.padded for count in counts if count is not None]
    return size_text(sum(known)) if len(known) == len(counts) else "of sizes not known"


class Finding(NamedTuple):
    """A finding about a program, with the change to make.

    Attributes:
        share: Time or bytes that it costs, as a share of one step; 0 if unknown.
        instruction: The instruction to show; `None` if it is about the whole program.
        kind: The rule or the kind of advice.
        severity: `error`, `warning` or `advice`.
        text: The finding.
        to_do: What to do, or the command that shows more.
    """

    share: float
    instruction: Instruction | None
    kind: str
    severity: str
    text: str
    to_do: str

    def to_json(self, numbers: Numbers) -> dict[str, Any]:
        """Return the finding as JSON, with the number of its instruction, or -1.

        `numbers` has the number of each instruction on the page.
        """
        return {
            "k": -1 if self.instruction is None else numbers.get(self.instruction, -1),
            "severity": self.severity,
            "kind": self.kind,
            "text": visible(self.text),
            "to_do": visible(self.to_do),
        }


def cost_sheet(
    program: Program, device: str, numbers: Numbers, invalid: Invalid | None
) -> dict[str, Any]:
    """Return the costs of a program by group, and the findings with the largest shares, as JSON.

    Programs compiled for a GPU, and those not compiled, have time bounds for `device`. Other
    programs have the figures of `hloscope cost` without a device.

    Args:
        program: The program.
        device: Name of a GPU.
        numbers: Number of each instruction on the page.
        invalid: Findings about the program; for an invalid program no other findings are listed.
            `None` for a valid program.
    """
    is_for_gpu = cost.target_of(program.module).kind in ("gpu", "uncompiled")
    found = costs.cost_on(program, device if is_for_gpu else None, invalid=invalid)
    sort = "bound" if any(kernel.bound for kernel in found.kernels) else "bytes"
    amounts = [(k, k.bound * k.runs if sort == "bound" else k.bytes) for k in found.kernels]
    total = sum([amount for _, amount in amounts])
    worth = [] if invalid is not None else sorted(_findings(program, found), key=lambda f: -f.share)
    return {
        "about": visible(found.about),
        "figures": [[name, visible(value)] for name, value in found.figures],
        "tables": {by: _cost_table(found, by, sort, numbers) for by in COST_GROUPINGS},
        "shares": [[numbers[k.instruction], n / total] for k, n in amounts if n],
        "findings": [one.to_json(numbers) for one in worth[:MOST_FINDINGS]],
        "notes": [visible(note) for note in found.notes],
    }


def _cost_table(found: costs.Cost, by: str, sort: str, numbers: Numbers) -> dict[str, Any]:
    """Return the table of a program's costs as JSON, with at most `MOST_ROWS` groups.

    Each row also has its share, the number of an instruction and a short name.

    Args:
        found: The costs.
        by: The grouping, as in `Cost.groups`.
        sort: The amount to sort by, as in `Cost.groups`.
        numbers: Number of each instruction on the page.
    """
    groups = found.groups(by, sort=sort)
    grouping = display.Grouping(by, found.program.module)
    table = display.cost_table(groups, grouping, sort, MOST_ROWS)
    names = [grouping.short_label(group) for group in groups[:MOST_ROWS]]
    at = table.header.index("what")
    names += [row[at] for row in table.rows[len(names) :]]
    return _table(groups, table, numbers) | {"short": [visible(name) for name in names]}


def _table(
    groups: Sequence[cost.Group[Any]], table: display.Table, numbers: Numbers
) -> dict[str, Any]:
    """Return a table as JSON, with the share and the first instruction's number of each row.

    Rows for several groups have the number -1 and no share.

    Args:
        groups: The groups, in the order of the rows.
        table: Their rows of text, then rows for the rest and the sum.
        numbers: Number of each instruction on the page.
    """
    total = sum([group.total for group in groups])
    shown = groups[:MOST_ROWS]
    others = len(table.rows) - len(shown)
    return {
        "header": list(table.header),
        "right": list(table.right),
        "rows": [[visible(cell) for cell in row] for row in table.rows],
        "first": [*[numbers.get(g.first.instruction, -1) for g in shown], *[-1] * others],
        "share": [*[g.total / total if total else 0.0 for g in shown], *[None] * others],
    }


def _findings(program: Program, found: costs.Cost) -> Iterator[Finding]:
    """Yield the findings of the rules in `RULES`, then the advice about costs.

    Args:
        program: The program.
        found: Its costs.
    """
    settings = [checks.setting_of(rule, {}) for rule in RULES]
    report = checks.check_program(program.module, program.file, settings, found.model)
    by_name = {(c.name, ins.name): ins for c in program.module for ins in c}
    for group in report.groups:
        one = group.headline
        if one.severity != "note":
            ins = by_name.get((one.computation, one.instruction))
            text = f"{one.instruction} {one.message}"
            to_do = f"{_SHOWN_BY[one.rule]} FILE {one.instruction}"
            yield Finding(group.share or 0, ins, one.rule, one.severity, text, to_do)
    for advice in found.first_advice:
        share = f"{display.share_text(advice.share)} of {size_text(advice.whole)} {advice.level}"
        text = f"{advice.text} ({share})"
        kind, command = str(advice.kind), advice.command.replace(quote(program.file), "FILE")
        yield Finding(advice.share, advice.instruction, kind, "advice", text, f"proof: {command}")


def memory_sheet(program: Program, device: str, numbers: Numbers) -> dict[str, Any]:
    """Return the memory of a program as JSON: bounds, the peak, a picture, buffers at the peak.

    For an invalid program there is only the finding; without a schedule, only the sums.

    Args:
        program: The program.
        device: Name of a GPU; the picture of a program for GPUs has a line at its memory size.
        numbers: Number of each instruction on the page.
    """
    try:
        check(program.module)
    except HloscopeError as error:
        return {"lines": [visible(error.message)], "answers": [], "notes": []}
    found = program.memory()
    holds = device if found.model.target.kind == "gpu" else None
    lines = [line for line in found.first_lines(holds) if not line.startswith("live: ")]
    told: dict[str, Any] = {
        "lines": [*map(visible, lines)],
        "answers": [*map(visible, found.answers())],
        "notes": [*map(visible, found.notes)],
    }
    if found.has_moments:
        peak = found.peak
        told["peak"] = -1 if peak.instruction is None else numbers.get(peak.instruction, -1)
        told["picture"] = _picture(found.picture(holds), numbers)
        told["tables"] = {
            by: _table(peak.by(by), peak.table(by, MOST_ROWS), numbers) for by in MEMORY_GROUPINGS
        }
    return told


def _picture(picture: display.Picture, numbers: Numbers) -> dict[str, Any]:
    """Return a picture as JSON data: title, width, height, legend and shapes.

    A shape is a list of tag, attributes, text, tooltip and number. The number is that of its
    instruction on the page; -1 if it belongs to no instruction.
    """
    return {
        "title": visible(picture.title),
        "width": picture.width,
        "height": picture.height,
        "legend": [[colour, amount, visible(part)] for colour, amount, part in picture.legend],
        "shapes": [
            [
                shape.tag,
                dict(shape.attributes),
                visible(shape.text),
                visible(shape.tip),
                -1 if shape.instruction is None else numbers.get(shape.instruction, -1),
            ]
            for shape in picture.shapes
        ],
    }
