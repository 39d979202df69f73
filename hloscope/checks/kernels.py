"""Rules about kernels: memory efficiency, precision of maps, and fusion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.checks.findings import Finding
from hloscope.checks.rule import Parameter, Rule, one_of, share, size, text
from hloscope.checks.subject import Subject
from hloscope.cost import NOT_JUDGED
from hloscope.display import access_cause, glob, opcode_of
from hloscope.fusion import ALIASES, leaf_types
from hloscope.indexing import Precision
from hloscope.ir import Op, size_text
from hloscope.ops import (
    AsyncDone,
    AsyncStart,
    Call,
    Case,
    Collective,
    Constant,
    CustomCall,
    Fusion,
    Iota,
    Parameter as Argument,
    Return,
    While,
)


def _utilisation(
    subject: Subject, min_share: float, min_wasted: int, device: str, as_if: str
) -> Iterator[Finding]:
    cost = subject.cost(as_if or device, transfers=True if as_if else None)
    if not cost.is_judged and cost.target.is_compiled:
        evidence = f"{NOT_JUDGED} ({cost.target.kind}: {cost.target.evidence})"
        message = f"{evidence}; as-if=h100 takes an H100's"
        yield Finding("utilisation", message, subject.file, severity="note")
    for access in cost.accesses:
        array = access.array
        used = array.efficiency
        if used is None or used >= min_share or array.wasted < min_wasted:
            continue
        kind = "output" if array.is_output else "operand"
        unit = "sectors" if array.tile is None else "transactions"
        cause = access_cause(array)
        message = (
            f"{kind} {array.number} uses {100 * used:.3g} % of the {unit} it"
            f" transfers, at least {100 * min_share:.3g} %; {size_text(array.wasted)} unused:"
            f" {cause}"
        )
        yield subject.finding(
            "utilisation",
            access.computation,
            access.instruction,
            message,
            array.wasted,
            cause=f"{kind}: {cause}",
            of_bytes=True,
        )


UTILISATION: Final = Rule(
    "utilisation",
    "No access of a kernel transfers much more than it needs.",
    {
        "min-share": Parameter(0.5, "Least efficiency, as `hloscope coalesce` counts it.", share),
        "min-wasted": Parameter(0, "Accesses with fewer unused bytes are allowed.", size),
        "device": Parameter("h100", "The GPU.", text),
        "as-if": Parameter("", "A GPU whose threads judge programs compiled for others.", text),
    },
    _utilisation,
    of_bytes=True,
)

_ORDER: Final = (Precision.UNKNOWN, Precision.OVER, Precision.EXACT)


def _precision(subject: Subject, at_least: str) -> Iterator[Finding]:
    wanted = _ORDER.index(Precision(at_least))
    for computation, ins in subject.places():
        if not isinstance(ins.op, Fusion):
            continue
        reasons: dict[str, str] = {}
        for output in range(len(leaf_types(ins.type))):
            for accesses in subject.analysis.output_to_input(ins, output).values():
                for access in accesses:
                    if _ORDER.index(access.precision) < wanted:
                        reasons.setdefault(access.reason, str(access.precision))
        for reason, precision in reasons.items():
            message = f"what it reads is {precision}, at least {at_least}: {reason}"
            yield subject.finding("precision", computation, ins, message, 1)


PRECISION: Final = Rule(
    "precision",
    "What every fusion reads is known.",
    {
        "at-least": Parameter(
            "over", "`over`: never unknown; `exact`: exactly known.", one_of("over", "exact")
        )
    },
    _precision,
)

_NO_KERNEL: Final[tuple[type[Op], ...]] = (
    *ALIASES, Argument, AsyncDone, AsyncStart, Call, Case, Collective, Constant, CustomCall, Fusion,
    Iota, Return, While,
)  # fmt: skip
"""Ops that fusions cannot hold, that move nothing, or whose kernels are in other computations."""


def _fused(subject: Subject, op_name: str, opcode: str) -> Iterator[Finding]:
    wanted = glob(op_name if "*" in op_name else f"*{op_name}*")
    kind = glob(opcode)
    for computation, ins in subject.places():
        code = opcode_of(ins)
        if isinstance(ins.op, _NO_KERNEL) or not kind.fullmatch(code):
            continue
        if wanted.fullmatch(subject.provenance(ins).op_name):
            message = f"{code} is outside fusions, expected in one"
            yield subject.finding("fused", computation, ins, message, 1)


FUSED: Final = Rule(
    "fused",
    "Instructions of an op name are in fusions.",
    {
        "op-name": Parameter(None, "A part of the framework's op name, or a pattern with *.", text),
        "opcode": Parameter("*", "Only these opcodes.", text),
    },
    _fused,
)
