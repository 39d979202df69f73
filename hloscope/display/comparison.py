"""Results of programs, and the first difference of two runs, as text and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from hloscope.display.answer import opcode_of
from hloscope.display.text import headline
from hloscope.interpreter import Statistics, Value, statistics, text_size, value_text
from hloscope.ir import Instruction, TensorType, TupleType, Type
from hloscope.mlir import array_text, spell, type_text
from hloscope.proof import Aspect, Change, Compared, Differences, Finding, Part, ValueRuns, leaves
from hloscope.simplifier import Proof, Verdict
from hloscope.support.arrays import np
from hloscope.support.source import visible

# --------------------------------------------------------------------------------------------------
# Results of programs, and the first difference of two runs, as text and JSON.


MOST_SHOWN: Final = 1000
"""Maximum number of elements and rows of a result that are printed; larger ones are summarised."""


def result_text(value: Any, type_: Type, *, brief: bool = False, dense: bool = False) -> str:
    """Return a result as text; each part of a tuple is on separate lines.

    Args:
        value: The value.
        type_: Its type.
        brief: Print a summary instead of the elements.
        dense: Print literals.
    """
    if isinstance(type_, TupleType):
        parts = zip(value, type_.elements, strict=True)
        return "\n".join(result_text(v, t, brief=brief, dense=dense) for v, t in parts) or "()"
    if not isinstance(type_, TensorType):
        return type_text(type_)
    whole = TensorType(type_.element, value.shape)
    if dense:
        return array_text(value, whole)
    if brief or text_size(value.shape) > MOST_SHOWN:
        return f"{type_text(whole)}: {statistics(value)}"
    return value_text(value, type_, spell=spell)


def result_json(value: Value, type_: Type) -> Any:
    """Return a result of a program as JSON; a tuple is a list.

    An array has its type, statistics, and its elements if they are at most `MOST_SHOWN`.
    """
    if isinstance(type_, TupleType):
        assert isinstance(value, tuple)
        return [result_json(v, t) for v, t in zip(value, type_.elements, strict=True)]
    if not isinstance(type_, TensorType):
        return {"type": type_text(type_)}
    array = np.asarray(value)
    found: dict[str, Any] = {
        "type": type_text(TensorType(type_.element, array.shape)),
        "statistics": _described(statistics(array)),
    }
    if array.size <= MOST_SHOWN:
        found["values"] = [_number(x) for x in array.reshape(-1).tolist()]
    return found


def _described(found: Statistics) -> dict[str, Any]:
    return {name: _number(value) for name, value in found._asdict().items()}


def _number(value: Any) -> Any:
    """Return a number as JSON: infinities and NaN as text, a complex number as a pair."""
    if isinstance(value, complex):
        return [_number(value.real), _number(value.imag)]
    if value is None or isinstance(value, int):
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return the comparison of two programs' values as JSON, with the first difference."""
    found: dict[str, Any] = {
        "instructions": finding.instructions,
        "of": finding.of,
        "by_source": finding.by_source,
        "unlike": finding.unlike,
        "values": finding.values,
        "first": None,
    }
    ins = finding.instruction
    if ins is not None:
        line, column = ins.span.line_col if ins.span is not None else (None, None)
        found["first"] = {
            "name": ins.name,
            "op": ins.op.name,
            "other": finding.partner.name if finding.partner else None,
            "line": line,
            "column": column,
            "output": finding.part,
            "evaluation": finding.evaluation,
            "difference": str(finding.difference),
            "operands": [
                {"name": operand.name, "type": type_text(operand.type), "values": lines}
                for operand, lines in _operand_lines(finding)
            ],
        }
    return found


def finding_text(finding: Finding) -> Iterator[str]:
    """Yield lines about the first instruction whose value differs in two programs.

    They state its operands. Without a difference, one line states how many values were compared.
    """
    ins = finding.instruction
    lost = f" ({finding.left_out:,} were too many to be kept)" if finding.left_out else ""
    if ins is None and not finding.values:
        yield f"nothing was compared: no instruction of one matches one of the other{lost}"
        return
    if ins is None:
        much = f"{finding.values:,} values of {_how_many(finding)}"
        yield f"no difference in {much}{lost}"
        yield from _about_sources(finding)
        return
    where = ""
    if ins.span is not None:
        line, column = ins.span.line_col
        where = f"{ins.span.source.name}:{line}:{column}: "
    output = f", output {finding.part}" if isinstance(ins.type, TupleType) else ""
    times = f", evaluation {finding.evaluation:,}" if finding.evaluation > 1 else ""
    other = finding.partner
    there = f" ({other.op.name} there)" if other and other.op.name != ins.op.name else ""
    yield f"{where}`{ins.name}` = {ins.op.name}{there}{output}{times}: {finding.difference}"
    if ins.span is not None:
        yield ins.span.render()
    for operand, lines in _operand_lines(finding):
        yield f"operand `{operand.name}` {type_text(operand.type)}: {'; '.join(lines)}"
    yield f"no difference in {finding.values - 1 - finding.unlike:,} values before{lost}"
    yield f"compared: {_how_many(finding)}"
    yield from _about_sources(finding)


def _how_many(finding: Finding) -> str:
    """Return as text the number of compared instructions, and of all if that is known."""
    of = f" of {finding.of:,}" if finding.of else ""
    return f"{finding.instructions:,}{of} instructions"


def _about_sources(finding: Finding) -> Iterator[str]:
    """Yield notes on the instructions that were matched by their source position."""
    if finding.by_source:
        yield f"matched by op_name, source and shape: {finding.by_source:,}"
    if finding.unlike and finding.instruction is None:
        yield f"of these {finding.unlike:,} differ, which no result shows: other steps of a line"


def _operand_lines(finding: Finding) -> list[tuple[Any, list[str]]]:
    return [
        (
            operand,
            ["unknown"]
            if value is None
            else [str(statistics(array)) for array, _ in leaves(value, operand.type)],
        )
        for operand, value in finding.operands
    ]


# --------------------------------------------------------------------------------------------------
# Comparisons of maps, instructions and programs, and differences between two programs.


# --------------------------------------------------------------------------------------------------
# Comparisons of maps, instructions and programs, as text and JSON.


_MOST_SHOWN: Final = 64
"""Maximum number of elements of an argument that is shown; larger ones have statistics."""
SAME_ELEMENTS: Final = "same elements read; values not compared"
"""Verdict on instructions and programs that read the same elements."""


def comparison_text(
    comparisons: list[Compared], verdict: Verdict, equal: str = "equal"
) -> Iterator[str]:
    """Yield the verdict, then the comparisons that are not proved; equal ones share a line.

    Args:
        comparisons: The comparisons.
        verdict: Verdict on all comparisons together.
        equal: Word for the verdict if everything is proved.
    """
    word = {Verdict.PROVED: equal, Verdict.REFUTED: "different", Verdict.UNDECIDED: "undecided"}
    proved = sum(c.proof.is_proved for c in comparisons)
    many = f": {proved} of {len(comparisons)} comparisons proved" if len(comparisons) != 1 else ""
    yield f"{word[verdict]}{many}"
    alike: dict[str, list[str]] = {}
    for c in comparisons:
        if not c.proof.is_proved:
            alike.setdefault(f"{word[c.proof.verdict]}{_why(c.proof)}", []).append(c.what)
    for said, (first, *others) in alike.items():
        more = f" and {len(others)} more" if others else ""
        yield f"  {first}{more}: {said}"


def _why(proof: Proof) -> str:
    """Return the counterexample with its devices, or the reason, as text."""
    example = proof.counter_example
    if example is not None and proof.reason:
        return f": {example}: {proof.reason}"
    why = example or proof.reason
    return f": {why}" if why else ""


def compared_json(compared: Compared) -> dict[str, Any]:
    """Return one comparison of two programs as JSON: verdict, reason and counterexample."""
    proof = compared.proof
    example = proof.counter_example
    return {
        "what": compared.what,
        "verdict": str(proof.verdict),
        "reason": proof.reason or None,
        "counter_example": None
        if example is None
        else {
            "index": list(example.dims),
            "touched": list(example.results),
            "only_in": ("A", "B")[example.only_in],
        },
    }


def value_runs_text(found: ValueRuns) -> Iterator[str]:
    """Yield lines about runs of two programs.

    They state that no difference was found, or the first difference with its arguments.
    """
    on = f" on {found.replicas} x {found.partitions} devices (replicas x partitions)"
    where = on if found.replicas * found.partitions > 1 else ""
    if found.divided:
        where += f", {found.divided} partitioned"
    if found.types:
        yield f"different: {found.types}"
        return
    runs = f"{found.runs} run{'s' * (found.runs != 1)}"
    shown = found.difference
    if shown is None:
        said = f"no difference found in {runs}{where}"
        yield f"undecided: {found.reason} ({said})" if found.reason else said
        return
    yield f"different: values differ in run {shown.run}{where}"
    device = f" of device {shown.device}" if shown.device is not None else ""
    apart = shown.difference
    yield (
        f"  output {shown.output}{device} at {list(apart.index)}: {apart.found} in A,"
        f" {apart.expected} in B; {apart.count:,} of {apart.size:,} elements differ"
    )
    for number, (name, type_, value) in enumerate(shown.inputs):
        brief = not isinstance(type_, TensorType) or np.asarray(value).size > _MOST_SHOWN
        yield f"  argument {number} `{name}`: {result_text(value, type_, brief=brief)}"


def value_runs_json(found: ValueRuns) -> dict[str, Any]:
    """Return runs of two programs as JSON."""
    shown = found.difference
    verdict = "refuted" if shown is not None or found.types else "no difference found"
    return {
        "what": "values",
        "verdict": "undecided" if found.reason else verdict,
        "compared": [],
        "runs": found.runs,
        "replicas": found.replicas,
        "partitions": found.partitions,
        "partitioned": found.divided or None,
        "reason": found.types or found.reason or None,
        "difference": None
        if shown is None
        else {
            "run": shown.run,
            "output": shown.output,
            "device": None if shown.device is None else list(shown.device),
            "index": [int(n) for n in shown.difference.index],
            "A": str(shown.difference.found),
            "B": str(shown.difference.expected),
            "elements": shown.difference.count,
            "of": shown.difference.size,
            "arguments": [
                {"name": name, "value": result_json(value, type_)}
                for name, type_, value in shown.inputs
            ],
        },
    }


# --------------------------------------------------------------------------------------------------
# Differences between two programs, as text and JSON.


SIGNS: Final = {"removed": "-", "added": "+", "changed": "~"}
_LONG: Final = 60
_FEW: Final = 4


def differences_text(differences: Differences, *, most: int) -> Iterator[str]:
    """Yield the number of changes by kind, then one line for each change, by computation.

    `most` is the maximum number of changes. For equal programs the first line states that.
    """
    if differences.none:
        yield "the same"
        yield from (f"note: {note}" for note in differences.notes)
        return
    counts = [f"{count} {kind}" for kind in SIGNS if (count := differences.count(kind))]
    alone = [part for part in differences.parts if part.before is None or part.after is None]
    if alone:
        counts.append(f"{len(alone)} computations in one only")
    if differences.header:
        counts.append("the header differs")
    yield ", ".join(counts)
    for aspect in differences.header:
        yield f"  ~ {_aspect(aspect)}"
    left = most
    for part in differences.parts:
        if left <= 0:
            break
        yield f"{_title(part)}"
        for change in part.changes[:left]:
            yield from _lines(change)
        left -= max(len(part.changes), 1)
    yield from (f"note: {note}" for note in differences.notes)
    hidden = sum(len(part.changes) for part in differences.parts) - most
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
    """Return as text the line of a changed instruction, and the first few that read its value."""
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


def differences_json(differences: Differences) -> dict[str, Any]:
    """Return all differences as JSON."""
    return {
        "same": differences.none,
        "counts": {kind: differences.count(kind) for kind in SIGNS},
        "header": list(map(_aspect_json, differences.header)),
        "computations": [_part_json(part) for part in differences.parts],
        "notes": list(differences.notes),
    }


def _part_json(part: Part) -> dict[str, Any]:
    return {
        "before": None if part.before is None else part.before.name,
        "after": None if part.after is None else part.after.name,
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
