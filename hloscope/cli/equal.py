"""`equal`: do two maps, instructions or programs mean the same?  Proved, or an index that tells."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import click

from hloscope.api import Indexing, InstructionView, Program
from hloscope.cli.common import debug_option, json_option, print_json
from hloscope.cli.files import read_right_program
from hloscope.indexing import IndexingMap, prove_equal
from hloscope.proof import SECONDS_EQUAL, Compared, compare, same
from hloscope.simplifier import Proof, Verdict

SCHEMA: Final = "hloscope.equal/1"
DIFFERENT: Final = 1
UNDECIDED: Final = 4


@click.command
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option(
    "--seconds",
    metavar="S",
    type=click.FloatRange(0, min_open=True),
    default=SECONDS_EQUAL,
    help="Processor time for comparing programs, by default 5.",
)
@json_option
@debug_option
def equal(first: str, second: str, seconds: float, as_json: bool) -> None:
    """Tell whether A and B touch the same elements: two maps, instructions or programs.

    A and B are maps as text; instructions as FILE:NAME; or FILE, a program, of which is compared
    what each output reads of each parameter.  Programs are verified first; what has the same
    structure up to names is equal, the rest is composed, for --seconds.  The exit code is 0 if
    they are proved equal, 1 if they are different, 4 if it is undecided.
    """
    read = cache(read_right_program)
    found = list(_comparisons(_side(first, read), _side(second, read), seconds))
    verdict = _verdict(found)
    if as_json:
        described = [{"what": c.what, **_described(c.proof)} for c in found]
        print_json({"schema": SCHEMA, "verdict": str(verdict), "compared": described})
    else:
        _print(found, verdict)
    ends = {Verdict.PROVED: 0, Verdict.REFUTED: DIFFERENT, Verdict.UNDECIDED: UNDECIDED}
    click.get_current_context().exit(ends[verdict])


def _side(text: str, read: Callable[[str], Program]) -> IndexingMap | InstructionView | Program:
    """What an argument means."""
    if _is_map(text):
        return IndexingMap.parse(text)
    file, colon, name = text.rpartition(":")
    if colon and not os.path.exists(text):
        return read(file)[name]
    return read(text)


def _is_map(text: str) -> bool:
    """Is a map meant, a broken one perhaps, and no file?"""
    if "->" in text or text.strip() == "KNOWN EMPTY":
        return True
    return text.lstrip().startswith("(") and not os.path.exists(text.rpartition(":")[0] or text)


def _comparisons(
    a: IndexingMap | InstructionView | Program,
    b: IndexingMap | InstructionView | Program,
    seconds: float,
) -> Iterator[Compared]:
    match a, b:
        case IndexingMap(), IndexingMap():
            yield Compared("the maps", prove_equal([a], [b]))
        case InstructionView(), InstructionView():
            yield from _answers(a.indexing(None), b.indexing(None))
        case Program(), Program():
            one, other = len(a.entry.parameters), len(b.entry.parameters)
            if one != other:
                yield _different("parameters", f"{one} parameters, and {other}")
            else:
                yield from compare(a.entry.ir, b.entry.ir, seconds=seconds)
        case _:
            raise click.UsageError("A and B are two maps, two instructions or two programs")


def _answers(a: Indexing, b: Indexing) -> Iterator[Compared]:
    """Each output and operand of two answers."""
    outputs, others = a.answer.outputs, b.answer.outputs
    if len(outputs) != len(others):
        yield _different("outputs", f"{len(outputs)} outputs, and {len(others)}")
        return
    for one, other in zip(outputs, others, strict=True):
        sizes = a.answer.sizes(one.type), b.answer.sizes(other.type)
        if sizes[0] != sizes[1]:
            said = " and ".join(str(list(size)) for size in sizes)
            yield _different(f"output {one.number}", f"sizes {said}")
            continue
        if len(one.operands) != len(other.operands):
            said = f"{len(one.operands)} {a.answer.what}s, and {len(other.operands)}"
            yield _different(f"output {one.number}", said)
            continue
        mine = {(o.number, x.leaf): None for o in one.touched for x in o.accesses}
        theirs = {(o.number, x.leaf): None for o in other.touched for x in o.accesses}
        for number, leaf in sorted({**mine, **theirs}):
            what = f"output {one.number}, {a.answer.what} {number}" + (
                f"{{{leaf}}}" if leaf else ""
            )
            pair = (
                [x for x in answer.operands[number].accesses if x.leaf == leaf]
                for answer in (one, other)
            )
            yield Compared(what, same(*pair))


def _different(what: str, reason: str) -> Compared:
    return Compared(what, Proof(Verdict.REFUTED, reason=reason))


def _verdict(found: list[Compared]) -> Verdict:
    """Different if anything is; equal if all is proved."""
    verdicts = {c.proof.verdict for c in found}
    for verdict in (Verdict.REFUTED, Verdict.UNDECIDED):
        if verdict in verdicts:
            return verdict
    return Verdict.PROVED


def _print(found: list[Compared], verdict: Verdict) -> None:
    word = {Verdict.PROVED: "equal", Verdict.REFUTED: "different", Verdict.UNDECIDED: "undecided"}
    proved = sum(c.proof.is_proved for c in found)
    many = f": {proved} of {len(found)} comparisons proved" if len(found) != 1 else ""
    click.echo(f"{word[verdict]}{many}")
    alike: dict[str, list[str]] = {}
    for c in found:
        if not c.proof.is_proved:
            alike.setdefault(f"{word[c.proof.verdict]}{_why(c.proof)}", []).append(c.what)
    for said, (first, *others) in alike.items():
        more = f" and {len(others)} more" if others else ""
        click.echo(f"  {first}{more}: {said}")


def _why(proof: Proof) -> str:
    why = proof.counter_example or proof.reason
    return f": {why}" if why else ""


def _described(proof: Proof) -> Mapping[str, Any]:
    example = proof.counter_example
    return {
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
