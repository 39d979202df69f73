"""Indexing of programs whose sizes are not known, in terms of sizes that have names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from hloscope.display import Answer, OperandAnswer, OperandAnswers, OutputAnswer
from hloscope.errors import UnsupportedError
from hloscope.indexing import (
    Accesses,
    Precision,
    SizeComparison,
    SymbolicAnalysis,
    inverted_accesses,
    unknown_reads,
)
from hloscope.ir import Computation, Instruction
from hloscope.lazy import lazy
from hloscope.simplifier import CounterExample

if TYPE_CHECKING:
    import hloscope.proof as proof
    from hloscope.api.program import Program
    from hloscope.proof import Check
else:
    proof = lazy("hloscope.proof")

Reads: TypeAlias = Mapping[tuple[int | Instruction, int], Accesses]
"""By operand (or a value that a region reads) and its array what is read of it."""


def reads_in_sizes(
    program: Program, computation: Computation, ins: Instruction, output: int
) -> Reads:
    """What an element of an output reads of each operand."""
    found = program.symbolic.reads(computation, ins, output)
    captured = program.analysis.captured(ins)
    unknown = unknown_reads(len(captured))
    answer: dict[tuple[int | Instruction, int], Accesses] = {}
    for k, accesses in enumerate(found):
        for access in accesses:
            answer[k, access.leaf] = (*answer.get((k, access.leaf), ()), replace(access, leaf=0))
    return {**answer, **{(value, 0): some for value, some in zip(captured, unknown, strict=True)}}


def reached_in_sizes(
    program: Program,
    computation: Computation,
    ins: Instruction,
    operand: int,
    leaf: int,
    outputs: range,
) -> Mapping[int, Accesses]:
    """Which elements of each output an element of one array of an operand influences."""
    if operand >= len(ins.operands):
        return dict(zip(outputs, unknown_reads(len(outputs)), strict=True))
    return {
        k: inverted_accesses(program.symbolic.reads(computation, ins, k)[operand], leaf)
        for k in outputs
    }


def parameters_in_sizes(
    program: Program, computation: Computation, ins: Instruction, output: int
) -> Mapping[tuple[Instruction, int], Accesses] | None:
    """What an element reads of the parameters of its computation.

    `None` where all sizes are known, and where the way back to the parameters is not followed.
    """
    if not program.has_unknown_sizes(computation):
        return None
    try:
        return program.symbolic.to_parameters(computation, ins, output)
    except UnsupportedError:
        return None


SAMPLES: Final = 5
"""Sizes at which maps are compared with the instruction."""
FEW: Final = 64
"""Of more operands, or tensors asked from, those of which nothing is touched are told together."""
_NOTHING: Final = "only what is touched was compared"


def proved(answer: Answer, analysis: SymbolicAnalysis, seed: int) -> Answer:
    """The answer with what comparing its maps at some sizes shows."""
    outputs = [_proved(answer, analysis, output, seed) for output in answer.outputs]
    return replace(answer, outputs=outputs)


def _proved(
    answer: Answer, analysis: SymbolicAnalysis, output: OutputAnswer, seed: int
) -> OutputAnswer:
    operands = output.operands
    is_wide = isinstance(operands, OperandAnswers) and len(operands) > FEW
    each = output.touched if is_wide else list(operands)
    told = []
    if answer.direction == "input_to_output":
        for o in each:
            compared = _compared(answer, analysis, output, (o.number, o.leaf), seed)
            told.append(replace(o, check=_check(o, compared)))
    else:
        compared = _compared(answer, analysis, output, None, seed)
        told = [replace(o, check=_check(o, compared)) for o in each]
    if is_wide:
        assert isinstance(operands, OperandAnswers)
        rest = proof.Check(proof.Outcome.UNDECIDED, reason=_NOTHING)
        return replace(output, operands=operands.proved(told, rest))
    return replace(output, operands=told)


def _compared(
    answer: Answer,
    analysis: SymbolicAnalysis,
    output: OutputAnswer,
    asked_from: tuple[int, int] | None,
    seed: int,
) -> SizeComparison | str:
    assert answer.inside is not None
    ins = answer.instruction
    if answer.order != "logical":
        return "compared in logical order only"
    try:
        return analysis.compared(answer.inside, ins, output.number, asked_from, SAMPLES, seed)
    except LookupError as error:
        return str(error)


def _check(operand: OperandAnswer, compared: SizeComparison | str) -> Check:
    """What is known of the maps of one operand."""
    if any(access.map is None for access in operand.accesses):
        return proof.Check(proof.Outcome.UNCLAIMED)
    if isinstance(compared, str) or not compared.sizes:
        why = compared if isinstance(compared, str) else "no sizes were found that fit"
        return proof.Check(proof.Outcome.UNDECIDED, reason=why)
    wrong = compared.difference
    texts = [", ".join(f"{k}={v}" for k, v in sizes.items()) for sizes in compared.sizes]
    by = (f"compared at {'; '.join(texts)}" if any(texts) else "compared at all its sizes",)
    superset = any(access.precision is Precision.OVER for access in operand.accesses)
    if wrong is not None and wrong.operand == operand.number:
        example = CounterExample(*wrong.pair, only_in=wrong.only_in)
        return proof.Check(proof.Outcome.REFUTED, by, counter_example=example)
    return proof.Check(proof.Outcome.SAMPLED, by, superset=superset)
