"""Do two maps, instructions or programs mean the same?  Proved, or an index that tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from hloscope.api.indexing import Indexing
from hloscope.api.program import Program
from hloscope.api.views import InstructionView
from hloscope.display import Answer
from hloscope.fusion import Blueprints, counterparts, with_origins
from hloscope.indexing import IndexingMap, prove_equal
from hloscope.ir import Instruction
from hloscope.proof import SECONDS_EQUAL, Compared, compare, same_of_origins
from hloscope.simplifier import Proof, Verdict

Comparable: TypeAlias = IndexingMap | InstructionView | Program
"""What can be compared with another one of its kind."""


def comparisons(
    a: Comparable, b: Comparable, *, seconds: float = SECONDS_EQUAL
) -> Iterator[Compared]:
    """Do two maps, instructions or programs touch the same elements?  Part by part.

    Args:
        a: A map; an instruction; or a program, of which is compared what each output reads of each
            parameter.
        b: Another one.
        seconds: Processor time for comparing programs.

    Raises:
        TypeError: They are not of one kind.

    >>> a, b = map(IndexingMap.parse, ["(d0) -> (d0 * 2 / 2), domain: d0 in [0, 9]",
    ...                                "(d0) -> (d0), domain: d0 in [0, 9]"])
    >>> [str(compared.proof.verdict) for compared in comparisons(a, b)]
    ['proved']
    """
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
            raise TypeError("A and B are two maps, two instructions or two programs")


def movements(a: Comparable, b: Comparable) -> Iterator[Compared]:
    """Do two maps, instructions or programs move the same data?  Part by part.

    Of instructions and programs is compared from which places in memory of which parameters the
    element at each place in memory of the outputs is made: shapes may differ, layouts count.

    Args:
        a: A map, an instruction, or a program, whose root is compared.
        b: Another one.

    Raises:
        TypeError: They are not of one kind.

    >>> import hloscope
    >>> text = "ENTRY e { p = f32[4,8] parameter(0) ROOT r = SHAPE reshape(p) }"
    >>> a, b = (hloscope.read(text.replace("SHAPE", s)) for s in ("f32[32]", "f32[2,16]"))
    >>> [str(compared.proof.verdict) for compared in movements(a, b)]
    ['proved']
    """
    match a, b:
        case Program(), Program():
            yield from movements(a.root, b.root)
        case InstructionView(), InstructionView():
            one, other = (side.to_parameters(None, linear=True) for side in (a, b))
            yield from _answers(one, other)
        case _:
            yield from comparisons(a, b)


def _answers(a: Indexing, b: Indexing) -> Iterator[Compared]:
    """Each output and operand of two answers."""
    outputs, others = a.answer.outputs, b.answer.outputs
    if len(outputs) != len(others):
        yield _different("outputs", f"{len(outputs)} outputs, and {len(others)}")
        return
    known = _counterparts(a.answer, b.answer)
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
            left, right = (
                tuple([x for x in answer.operands[number].accesses if x.leaf == leaf])
                for answer in (one, other)
            )
            right = tuple([with_origins(access, known) for access in right])
            yield Compared(what, same_of_origins(left, right))


def _counterparts(a: Answer, b: Answer) -> dict[Instruction, Instruction]:
    """For what `b` is about what `a` is about: the operands or parameters of the same numbers.

    What stands for two of them is left out.  Inside of equal computations, everything has one.
    """
    ours, theirs = (
        x.instruction.operands if x.computation is None else x.computation.parameters
        for x in (a, b)
    )
    pairs = {*zip(theirs, ours, strict=False)}
    calls = [x.instruction.calls if x.computation is None else (x.computation,) for x in (a, b)]
    number = Blueprints().number
    for mine, other in zip(*calls, strict=False):
        pairs |= {*zip(other.parameters, mine.parameters, strict=False)}
        if number(mine) == number(other):
            pairs |= {*counterparts(other, mine).items()}
    count: Counter[object] = Counter([y for y, _ in pairs])
    count.update(("other", x) for _, x in pairs)
    return {y: x for y, x in pairs if count[y] == count["other", x] == 1}


def _different(what: str, reason: str) -> Compared:
    return Compared(what, Proof(Verdict.REFUTED, reason=reason))


def verdict_of(found: list[Compared]) -> Verdict:
    """Different if anything is; equal if all is proved."""
    verdicts = {c.proof.verdict for c in found}
    for verdict in (Verdict.REFUTED, Verdict.UNDECIDED):
        if verdict in verdicts:
            return verdict
    return Verdict.PROVED
