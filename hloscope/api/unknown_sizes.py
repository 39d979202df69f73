"""Indexing of programs of unknown sizes, in terms of named sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from hloscope import passes, proof, stablehlo
from hloscope.api.artifacts import refined
from hloscope.api.invalid import analysis_of
from hloscope.display import Answer, OperandAnswer, OutputAnswer
from hloscope.errors import HloscopeError, UnsupportedError
from hloscope.fusion import ParameterReads
from hloscope.indexing import (
    Accesses,
    Called,
    Instance,
    Precision,
    SizeComparison,
    SymbolicAnalysis,
    inverted_accesses,
    is_unbounded,
    unknown_reads,
)
from hloscope.ir import Computation, Instruction, Module
from hloscope.simplifier import CounterExample

if TYPE_CHECKING:
    from hloscope.api.program import Program
    from hloscope.mlir import Operation
    from hloscope.proof import Check

Reads: TypeAlias = Mapping[tuple[int | Instruction, int], Accesses]
"""Accesses, by the number of an operand (or the captured value) and the number of its tensor."""


def reads_in_sizes(
    program: Program, computation: Computation, ins: Instruction, output: int
) -> Reads:
    """Return the accesses from an output element to each operand and captured value.

    Maps are in terms of named sizes.

    Args:
        program: The program.
        computation: Computation of the instruction.
        ins: The instruction.
        output: Number of the output.
    """
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
    """Return, for each output, the accesses from an element of one operand tensor to it.

    Maps are in terms of named sizes.

    Args:
        program: The program.
        computation: Computation of the instruction.
        ins: The instruction.
        operand: Number of the operand; captured values follow the operands.
        leaf: Number of the tensor in the operand.
        outputs: Numbers of the outputs.
    """
    if operand >= len(ins.operands):
        return dict(zip(outputs, unknown_reads(len(outputs)), strict=True))
    return {
        k: inverted_accesses(program.symbolic.reads(computation, ins, k)[operand], leaf)
        for k in outputs
    }


def parameters_in_sizes(
    program: Program, computation: Computation, ins: Instruction, output: int
) -> Mapping[tuple[Instruction, int], Accesses] | None:
    """Return the accesses from an output element to the parameters of its computation.

    Maps are in terms of named sizes. `None` if all sizes are known, or if an op on the path to the
    parameters is not supported.
    """
    if not program.has_unknown_sizes(computation):
        return None
    try:
        return program.symbolic.to_parameters(computation, ins, output)
    except UnsupportedError:
        return None


SAMPLES: Final = 5
"""Number of sizes at which maps are compared with the instruction."""
FEW: Final = 64
"""Maximum number of operands that are checked one by one.

Beyond it, operands without accesses share one check.
"""
_GIVEN: Final = "the function it calls was refined with this number"
_NOTHING: Final = "only what is touched was compared"


def proved(answer: Answer, analysis: SymbolicAnalysis, module: Module | None, seed: int) -> Answer:
    """Return the result with checks of its maps at some sizes.

    Args:
        answer: The result.
        analysis: Analysis in terms of named sizes.
        module: The program, for calls; `None` if it is unknown.
        seed: Seed of the sizes.
    """
    sampling = _Sampling(answer, analysis, _called(module, answer.instruction), seed)
    return replace(answer, outputs=[_proved(sampling, output) for output in answer.outputs])


class _Sampling(NamedTuple):
    """A result to check, the analysis to compare it with, and the seed of the sizes.

    `called` computes the accesses of a call at given sizes; `None` for other instructions.
    """

    answer: Answer
    analysis: SymbolicAnalysis
    called: Called | None
    seed: int


def _called(module: Module | None, call: Instruction) -> Called | None:
    """Return a function that computes the accesses of a call at given sizes.

    The function refines the callee at those sizes and analyses it by rules for known sizes. The
    maps to check come from rules in terms of named sizes, so the two are independent.

    `None` if `module`, the program, is not a StableHLO syntax tree or lacks the callee.
    """
    function = call.calls[0].name if call.calls else ""
    if module is None or not module.has_tree:
        return None
    tree = passes.with_entry(module.tree, function)  # type: ignore[attr-defined]
    if tree is None:
        return None
    # The outputs of one call are compared one after another at the same sizes: each refinement is
    # made once.
    known: dict[tuple[tuple[str, int], ...], tuple[Computation, ParameterReads]] = {}

    def reads(instance: Instance, output: int) -> list[Accesses]:
        key = tuple(instance.sizes.items())
        if key not in known:
            module = stablehlo.to_graph(_refined(tree, instance))
            known[key] = module.entry, ParameterReads(analysis_of(module), module.entry)
        entry, parameter_reads = known[key]
        if any([is_unbounded(ins.type) for ins in entry]):
            raise LookupError("the function it calls has sizes that stay unknown")
        found = parameter_reads.of(entry.root, output)
        return [
            tuple(
                replace(access, leaf=leaf)
                for (value, leaf), accesses in found.items()
                if value is parameter
                for access in accesses
            )
            for parameter in entry.parameters
        ]

    return reads


def _refined(tree: Operation, instance: Instance) -> Operation:
    given = [
        operand.type if value is None else value
        for operand, value in zip(instance.ins.operands, instance.values, strict=True)
    ]
    try:
        return refined(tree, given, assertions=False).tree
    except HloscopeError as error:
        raise LookupError(f"the function it calls is not refined: {error.message}") from None


def _proved(sampling: _Sampling, output: OutputAnswer) -> OutputAnswer:
    answer = sampling.answer
    operands = output.operands
    is_wide = len(operands) > FEW
    each = output.touched if is_wide else list(operands)
    told = []
    if answer.direction == "input_to_output":
        for o in each:
            compared = _compared(sampling, output, (o.number, o.leaf)) if _is_claimed(o) else ""
            told.append(replace(o, check=_check(o, compared)))
    else:
        compared = _compared(sampling, output, None) if any(map(_is_claimed, each)) else ""
        told = [replace(o, check=_check(o, compared)) for o in each]
    rest = proof.Check(proof.Outcome.UNDECIDED, reason=_NOTHING) if is_wide else None
    return replace(output, operands=operands.proved(told, rest))


def _compared(
    sampling: _Sampling, output: OutputAnswer, asked_from: tuple[int, int] | None
) -> SizeComparison | str:
    """Compare one output's maps with the instruction at some sizes.

    Return the comparison, or text that states why there is none.

    Args:
        sampling: The result to check, with the analysis and the seed.
        output: The output.
        asked_from: Operand and tensor from which the maps lead; `None` for maps from the output.
    """
    answer, analysis, called, seed = sampling
    assert answer.inside is not None
    ins = answer.instruction
    if answer.order != "logical":
        return "compared in logical order only"
    try:
        return analysis.compared(
            answer.inside, ins, output.number, asked_from, SAMPLES, seed, called
        )
    except LookupError as error:
        return str(error)


def _is_claimed(operand: OperandAnswer) -> bool:
    return all(access.map is not None for access in operand.accesses)


def _check(operand: OperandAnswer, compared: SizeComparison | str) -> Check:
    """Return the outcome for one operand: refuted, sampled, undecided with a reason, or unclaimed.

    It is unclaimed if an access has no map.

    Args:
        operand: The operand with its accesses.
        compared: The comparison at some sizes, or why there is none.
    """
    if not _is_claimed(operand):
        return proof.Check(proof.Outcome.UNCLAIMED)
    if isinstance(compared, str) or not compared.sizes:
        why = compared if isinstance(compared, str) else "no sizes were found that fit"
        return proof.Check(proof.Outcome.UNDECIDED, reason=why)
    if operand.number in compared.given:
        return proof.Check(proof.Outcome.UNDECIDED, reason=_GIVEN)
    wrong = compared.difference
    texts = [", ".join(f"{k}={v}" for k, v in sizes.items()) for sizes in compared.sizes]
    by = (f"compared at {'; '.join(texts)}" if any(texts) else "compared at all its sizes",)
    superset = any(access.precision is Precision.OVER for access in operand.accesses)
    if wrong is not None and wrong.operand == operand.number:
        example = CounterExample(*wrong.pair, only_in=wrong.only_in)
        return proof.Check(proof.Outcome.REFUTED, by, counter_example=example)
    return proof.Check(proof.Outcome.SAMPLED, by, superset=superset)
