"""Accesses of one instruction in both directions, and the precision of the rules of all ops.

>>> from hloscope.indexing.analysis import coverage
>>> next(row for row in coverage() if row.op == "transpose").output_to_input.value
'exact'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from hloscope.errors import UnsupportedError
from hloscope.indexing.access import UNKNOWN_COUNTS, Accesses, DeviceCounts, Precision
from hloscope.indexing.rules.dependence import Reader, by_convention
from hloscope.indexing.rules.registry import (
    Direction,
    Instances,
    body_reads_of,
    has_dynamic_sizes,
    leaves,
    lookup,
    unknown,
)
from hloscope.ir import Instruction, TupleType
from hloscope.ops import OPS
from hloscope.support.lazy import lazy

if TYPE_CHECKING:
    import hloscope.indexing.physical as layout
    from hloscope.indexing.rules import convolution, dynamic
else:
    layout = lazy("hloscope.indexing.physical")
    dynamic = lazy("hloscope.indexing.rules.dynamic")
    convolution = lazy("hloscope.indexing.rules.convolution")


def number_of_outputs(ins: Instruction) -> int:
    """Return the number of arrays and tokens in the value of an instruction."""
    return len(leaves(ins.type)) if isinstance(ins.type, TupleType) else 1


def output_to_input(
    ins: Instruction,
    output: int = 0,
    *,
    tight: bool = True,
    reader: Reader = by_convention,
    counts: DeviceCounts = UNKNOWN_COUNTS,
) -> tuple[Accesses, ...]:
    """Return, for each operand, the accesses of the elements that an output element reads.

    Indices are logical. No error is raised for a valid program: an access without a known map
    states the reason.

    Args:
        ins: The instruction.
        output: Number of the array of its value, counting through nested tuples.
        tight: Leave out elements that are read without effect: those of a convolution's kernel that
            are multiplied only with padding or holes of dilation.  XLA's own maps include them.
        reader: Function that returns the dependences of the called computations of an instruction,
            such as `fusion.Analysis.bodies`. The default lets each result depend on all parameters.
        counts: Replicas and partitions of the program, for collectives without groups.

    Raises:
        ValueError: There is no such output.
    """
    if not 0 <= output < number_of_outputs(ins):
        raise ValueError(f"no output {output}: `{ins.name}` has {number_of_outputs(ins)}")
    answer = _apply_rule(Direction.OUTPUT_TO_INPUT, ins, output, len(ins.operands), reader, counts)
    kernel = None if tight else convolution.loose_accesses(ins)
    return answer if kernel is None else (answer[0], kernel[0], *answer[2:])


def input_to_output(
    ins: Instruction,
    operand: int = 0,
    *,
    tight: bool = True,
    reader: Reader = by_convention,
    counts: DeviceCounts = UNKNOWN_COUNTS,
) -> tuple[Accesses, ...]:
    """Return, for each output, the accesses of the elements that an operand element influences.

    Indices are logical. The result is the exact inverse relation of `output_to_input`.

    Args:
        ins: The instruction.
        operand: Number of the operand; for a tuple, `Access.leaf` is the number of the array.
        tight: Leave out elements that are read without effect, as in `output_to_input`.
        reader: Function that returns the dependences of the called computations of an instruction.
        counts: Replicas and partitions of the program, for collectives without groups.

    Raises:
        ValueError: There is no such operand.
    """
    if not 0 <= operand < len(ins.operands):
        raise ValueError(f"no operand {operand}: `{ins.name}` has {len(ins.operands)}")
    kernel = convolution.loose_accesses(ins) if operand == 1 and not tight else None
    if kernel is not None:
        return (kernel[1],)
    return _apply_rule(
        Direction.INPUT_TO_OUTPUT, ins, operand, number_of_outputs(ins), reader, counts
    )


def _apply_rule(
    direction: Direction,
    ins: Instruction,
    number: int,
    answers: int,
    reader: Reader,
    counts: DeviceCounts,
) -> tuple[Accesses, ...]:
    """Return the accesses of an instruction by the rule of its op.

    They are unknown if the op has no rule or the rule fails.

    Args:
        direction: The direction of the rule.
        ins: The instruction.
        number: Number of the output or operand that the accesses start from.
        answers: Number of items of the result: one for each operand or output on the other side.
        reader: Function that returns the dependences of the called computations.
        counts: Replicas and partitions of the program.
    """
    entry = lookup(direction, type(ins.op))
    if entry is None or entry.rule is None:
        reason = entry.reason if entry else f"no rule for `{ins.op.name}`"
        return (unknown(reason),) * answers
    try:
        # A rule declares which facts it needs in addition to the instruction, so that it gets no
        # others.
        if entry.has_bodies:
            answer = entry.rule(ins, ins.op, number, reader(ins) if ins.calls else ())
        elif entry.has_counts:
            answer = entry.rule(ins, ins.op, number, counts)
        else:
            answer = entry.rule(ins, ins.op, number)
        # Rules see declared sizes; with sizes known at run time only, their maps may have too many
        # elements.
        if has_dynamic_sizes(ins):
            return dynamic.widened_for_sizes(direction, ins, number, answer)
        return answer
    except UnsupportedError as error:
        return (unknown(error.message),) * answers
    # Only an invalid program has types on which a rule fails, and an analysis must not fail on it.
    except (LookupError, ValueError, ZeroDivisionError):
        return (unknown("operands and result do not fit together"),) * answers


def instances(ins: Instruction, output: int, reader: Reader) -> tuple[Instances, ...]:
    """Return the accesses from an output element to results of the called computations.

    Through them, an output depends on values that a computation captures from outside. Without a
    rule for the op, every leaf of a called computation's root is accessed in an unknown way.
    `output` is the number of the output; `reader` returns the dependences of the called
    computations.
    """
    found = body_reads_of(type(ins.op))
    try:
        if found is not None:
            every = tuple(found(ins, ins.op, output, reader(ins)))
            if not has_dynamic_sizes(ins):
                return every
            return tuple(
                [replace(i, accesses=dynamic.over_unless_kept(ins, i.accesses)) for i in every]
            )
    except (UnsupportedError, LookupError, ValueError, ZeroDivisionError):
        pass
    return tuple(
        [
            Instances(call, k, unknown(f"from inside a computation that `{ins.op.name}` calls"))
            for call, callee in enumerate(ins.calls)
            for k in range(len(leaves(callee.root.type)))
        ]
    )


def physical(
    accesses: tuple[Accesses, ...], ins: Instruction, direction: Direction, number: int
) -> tuple[Accesses, ...]:
    """Convert the logical accesses of an instruction to physical (major-to-minor) order.

    Args:
        accesses: The result of `output_to_input` or `input_to_output`.
        ins: The instruction.
        direction: The direction of the accesses.
        number: Number of the output (`OUTPUT_TO_INPUT`) or operand (`INPUT_TO_OUTPUT`) that the
            accesses are of.
    """
    results = leaves(ins.type)
    answer = []
    for k, entry in enumerate(accesses):
        converted = []
        for access in entry:
            if direction is Direction.OUTPUT_TO_INPUT:
                here, there = results[number], leaves(ins.operands[k].type)[access.leaf]
            else:
                here, there = leaves(ins.operands[number].type)[access.leaf], results[k]
            converted.append(layout.physical_access(access, here, there))
        answer.append(tuple(converted))
    return tuple(answer)


class Coverage(Struct, frozen=True):
    """Precision of the rules of one op in both directions.

    Attributes:
        op: Name of the op.
        output_to_input: The weakest precision for valid programs.
        input_to_output: The weakest precision in the other direction.
        reason: Why a direction is not exact, or where the op is analysed instead.
    """

    op: str
    output_to_input: Precision
    input_to_output: Precision
    reason: str = ""


def coverage() -> tuple[Coverage, ...]:
    """Return the precision of the rules of each op, in alphabetical order of the ops."""
    rows = []
    for name, cls in sorted(OPS.items()):
        entries = [lookup(direction, cls) for direction in Direction]
        back, forth = [entry.precision if entry else Precision.UNKNOWN for entry in entries]
        reasons = dict.fromkeys(entry.reason if entry else "no rule" for entry in entries)
        rows.append(Coverage(name, back, forth, "; ".join(filter(None, reasons))))
    return tuple(rows)
