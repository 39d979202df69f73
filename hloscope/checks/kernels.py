"""Rules about kernels and their data: data movement, loops, element types, donated buffers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hloscope.checks.rule import (
    Finding,
    Parameter,
    Rule,
    Subject,
    arrays_of,
    one_of,
    share,
    size,
    text,
    texts,
)
from hloscope.cost import NOT_JUDGED, TripCount, loops_of
from hloscope.display import access_cause, glob, opcode_of, shape_text
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.fusion import ALIASES, leaf_types, size_in_bytes
from hloscope.hlo_parser import (
    BUFFER_DONOR,
    INPUT_OUTPUT_ALIAS,
    ShapeIndex,
    aliasing_in,
    index_text,
)
from hloscope.indexing import Precision
from hloscope.ir import ELEMENT_TYPES, Instruction, Op, TupleType, size_text
from hloscope.mlir import ArrayAttr, DictAttr
from hloscope.movement import is_view
from hloscope.ops import (
    AsyncDone,
    AsyncStart,
    Call,
    Case,
    Collective,
    Constant,
    CopyStart,
    CustomCall,
    Fusion,
    Iota,
    Parameter as Argument,
    Return,
    Tuple,
    While,
)
from hloscope.stablehlo import Function

# --------------------------------------------------------------------------------------------------
# Rules about kernels: memory efficiency, precision of maps, and fusion.


def _utilisation(
    subject: Subject, min_share: float, min_wasted: int, device: str, as_if: str
) -> Iterator[Finding]:
    """Yield a finding for each access of a kernel that uses too few of the bytes that it transfers.

    Args:
        subject: The program.
        min_share: Least share of needed sectors that is allowed.
        min_wasted: Unused bytes below which an access is ignored.
        device: Name of the GPU.
        as_if: Name of a GPU whose threads are assumed for any program; empty for none.
    """
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
"""Ops that fusions cannot contain, that move nothing, or whose kernels are elsewhere."""


def _fused(subject: Subject, op_name: str, opcode: str) -> Iterator[Finding]:
    """Yield a finding for each instruction that should be in a fusion and is not.

    Args:
        subject: The program.
        op_name: Pattern of the framework's path of the op; without `*`, a part of it.
        opcode: Pattern of the opcode.
    """
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


# --------------------------------------------------------------------------------------------------
# Rules about moved data: copies, transposes, large constants.


_FOLLOWED: Final = ("bitcast", "reshape", "convert")
"""Ops that may follow the copy or transpose in a fusion that does nothing else."""


def _copies(subject: Subject, max_bytes: int, opcodes: tuple[str, ...]) -> Iterator[Finding]:
    """Yield a finding for each copy or transpose that writes more than `max_bytes` in one run.

    Args:
        subject: The program.
        max_bytes: The limit.
        opcodes: Opcodes that are reported, as HLO spells them.
    """
    for computation, ins in subject.places():
        for moved in _written(ins):
            opcode = opcode_of(moved).removesuffix("-start")
            target = moved.operands[0] if isinstance(moved.op, CopyStart) else moved
            count = size_in_bytes(target.type)
            if opcode not in opcodes or count <= max_bytes or (moved is ins and is_view(ins)):
                continue
            inside = " that the fusion returns" if moved is not ins else ""
            limit = f", at most {size_text(max_bytes)}" if max_bytes else ""
            message = f"{opcode} of {size_text(count)}{inside}{limit}"
            # Each element that is written is read once.
            yield subject.finding(
                "copies", computation, ins, message, 2 * count, cause=opcode, of_bytes=True
            )


def _written(ins: Instruction) -> list[Instruction]:
    """Return the values whose ops write a kernel's results.

    For a fusion, bitcasts, reshapes and converts at the end are followed to their operand. For any
    other instruction the result is the instruction itself.
    """
    if not isinstance(ins.op, Fusion) or len(ins.calls) != 1:
        return [ins] if ins.operands else []
    root = ins.calls[0].root
    found = []
    for result in root.operands if isinstance(root.op, Tuple) else (root,):
        while result.op.name in _FOLLOWED and result.operands:
            result = result.operands[0]
        found.append(result)
    return found


COPIES: Final = Rule(
    "copies",
    "No copies or transposes that write more than some bytes.",
    {
        "max-bytes": Parameter(0, "Smaller ones are allowed.", size),
        "opcodes": Parameter(("copy", "transpose"), "The opcodes to find.", texts),
    },
    _copies,
    of_bytes=True,
)


def _constants(subject: Subject, max_bytes: int) -> Iterator[Finding]:
    for computation, ins in subject.places(everywhere=True):
        if isinstance(ins.op, Constant) and (count := size_in_bytes(ins.type)) > max_bytes:
            message = f"constant of {size_text(count)}, at most {size_text(max_bytes)}"
            yield subject.finding("constants", computation, ins, message, count)


CONSTANTS: Final = Rule(
    "constants",
    "No constants of more than some bytes.",
    {"max-bytes": Parameter(1 << 20, "Smaller ones are allowed.", size)},
    _constants,
)


# --------------------------------------------------------------------------------------------------
# The rule about loops: annotated trip counts must agree with the program.


def _trip_counts(subject: Subject) -> Iterator[Finding]:
    for loop in loops_of(subject.module):
        trip = loop.trip_count
        if trip.differs:
            message = f"annotated to run {_times(trip.annotated)}, but {_computed(trip)}"
            yield subject.finding(
                "trip-counts", loop.computation, loop.instruction, message, _distance(trip)
            )


def _times(count: int | None) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _computed(trip: TripCount) -> str:
    """Return words on how often a loop runs by the program, for a wrong annotation."""
    if trip.count is not None:
        return f"runs {_times(trip.count)}"
    if trip.high is not None:
        return f"runs {trip.low:,} to {trip.high:,} times: {trip.reason}"
    if trip.origin == "program":
        return trip.reason
    return f"runs at least {_times(trip.low)}: {trip.reason}"


def _distance(trip: TripCount) -> int:
    """Return how far a loop's annotated trip count is from the nearest possible one, at least 1."""
    annotated = trip.annotated or 0
    beyond = 0 if trip.high is None else annotated - trip.high
    return max(trip.low - annotated, beyond, 1)


TRIP_COUNTS: Final = Rule(
    "trip-counts",
    "No loop with a `known_trip_count` that contradicts the program.",
    {},
    _trip_counts,
)


# --------------------------------------------------------------------------------------------------
# Rules about types and arguments: element types, dynamic sizes, donated buffers.


def _types(subject: Subject, absent: tuple[str, ...]) -> Iterator[Finding]:
    for name in absent:
        if name not in ELEMENT_TYPES:
            raise UnknownNameError(f"no element type `{name}`{did_you_mean(name, ELEMENT_TYPES)}")
    for computation, ins in subject.places(everywhere=True):
        found = _elements(ins) & {*absent}
        # Report only where the type first occurs: a value computed from such values is a result of
        # an earlier finding.
        if found - set().union(*map(_elements, subject.sources(computation, ins))):
            names = ", ".join(sorted(found))
            message = f"{shape_text(ins.type)}: {names} begins here, expected none"
            yield subject.finding("types", computation, ins, message, size_in_bytes(ins.type))


def _elements(ins: Instruction) -> set[str]:
    return {array.element.name for array in arrays_of(ins.type)}


TYPES: Final = Rule(
    "types",
    "No values of some element types.",
    {"absent": Parameter(("f64", "c128"), "Names of element types as HLO has them.", texts)},
    _types,
)


def _dynamic_sizes(subject: Subject) -> Iterator[Finding]:
    for computation, ins in subject.places(everywhere=True):
        if _is_dynamic(ins) and not any(map(_is_dynamic, subject.sources(computation, ins))):
            message = f"{shape_text(ins.type)}: a size that is known at run time begins here"
            yield subject.finding("dynamic-sizes", computation, ins, message, 1)


def _is_dynamic(ins: Instruction) -> bool:
    return any(not array.is_static or any(array.bounds) for array in arrays_of(ins.type))


DYNAMIC_SIZES: Final = Rule(
    "dynamic-sizes", "No sizes that are known at run time only.", {}, _dynamic_sizes
)


def _donation(subject: Subject, min_bytes: int) -> Iterator[Finding]:
    module = subject.module
    entry = module.entry
    for number, index in sorted(_donated(subject)):
        if number >= len(entry.parameters):
            continue
        parameter = entry.parameters[number]
        type_ = parameter.type
        for k in index:
            inner = type_.elements if isinstance(type_, TupleType) else ()
            type_ = inner[k] if k < len(inner) else type_
        if (count := size_in_bytes(type_)) >= min_bytes:
            where = f" {index_text(index)}" if index else ""
            message = f"argument {number}{where} of {size_text(count)} is donated, but no result"
            yield subject.finding(
                "donation", entry, parameter, f"{message} takes its memory", count
            )


def _donated(subject: Subject) -> set[tuple[int, ShapeIndex]]:
    """Return the donated buffers that no result takes: parameter number and shape index in it.

    `subject` is the program; its module header or the attributes of its entry's arguments state the
    donations.
    """
    extras = subject.module.extras
    found = _buffers(extras, BUFFER_DONOR) - _buffers(extras, INPUT_OUTPUT_ALIAS)
    function = subject.module.entry
    if isinstance(function, Function):
        given = function.operation.get("arg_attrs")
        for number, entries in enumerate(given.elements if isinstance(given, ArrayAttr) else ()):
            names = {k for k, _ in entries.entries} if isinstance(entries, DictAttr) else set()
            if "jax.buffer_donor" in names and "tf.aliasing_output" not in names:
                found.add((number, ()))
    return found


def _buffers(extras: Iterable[tuple[str, str]], name: str) -> set[tuple[int, ShapeIndex]]:
    return {(one.taken, one.inside) for one in aliasing_in(extras, name)}


DONATION: Final = Rule(
    "donation",
    "Every donated buffer is taken by a result.",
    {"min-bytes": Parameter(0, "Smaller ones are allowed.", size)},
    _donation,
)
