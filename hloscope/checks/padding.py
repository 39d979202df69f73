"""A rule about padding: memory that tiles of layouts leave empty."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from hloscope.buffers import cheapest_order, padding_causes
from hloscope.checks.findings import Finding
from hloscope.checks.rule import Parameter, Rule, number, size
from hloscope.checks.subject import Subject, arrays_of
from hloscope.hlo_parser import print_type
from hloscope.ir import Bytes, Computation, Instruction, Module, TensorType, array_bytes, size_text
from hloscope.ops import (
    AddDependency,
    AsyncStart,
    AsyncUpdate,
    Bitcast,
    Call,
    Case,
    CopyStart,
    Domain,
    GetTupleElement,
    OptimizationBarrier,
    Parameter as Argument,
    Return,
    Tuple,
    While,
)

_SHOWS_OTHERS: Final = (
    AddDependency, AsyncStart, AsyncUpdate, Bitcast, Call, Case, CopyStart, Domain, GetTupleElement,
    OptimizationBarrier, Return, Tuple, While,
)  # fmt: skip
"""Ops whose arrays belong to another op, which counts them: an operand, the root of a called
computation, or the `done` of an op that they start."""


class PaddedArrays(NamedTuple):
    """Arrays of a program that have padding.

    Attributes:
        groups: The instructions that produce them, with their computations, by type.
        sizes: Bytes of each type of array.
        total: Bytes of all arrays of the program, with padding.
    """

    groups: dict[TensorType, list[tuple[Computation, Instruction]]]
    sizes: dict[TensorType, Bytes]
    total: int


def padded_arrays(
    module: Module, places: Iterable[tuple[Computation, Instruction]]
) -> PaddedArrays:
    """The arrays of a module that have padding.

    Args:
        module: The module.
        places: The instructions that run, with their computations.
    """
    groups: dict[TensorType, list[tuple[Computation, Instruction]]] = defaultdict(list)
    total = 0
    sizes: dict[TensorType, Bytes] = {}
    every = list(places)
    starts = [ins for _, ins in every if isinstance(ins.op, AsyncStart)]
    returned = {called.root for ins in starts for called in ins.calls}  # counts at the `done`
    for computation, ins in every:
        if isinstance(ins.op, _SHOWS_OTHERS) or ins in returned:
            continue
        if isinstance(ins.op, Argument) and computation is not module.entry:
            continue  # the caller's array
        for type in arrays_of(ins.type):
            known = sizes.get(type) or array_bytes(type)
            if known is None:
                continue
            sizes[type] = known
            total += known.padded
            if known.wasted:
                groups[type].append((computation, ins))
    return PaddedArrays(groups, sizes, total)


def _padding(subject: Subject, min_wasted: int, top: int) -> Iterator[Finding]:
    groups, sizes, total = padded_arrays(subject.module, subject.places())
    rows = [(sizes[type].wasted * len(places), type, places) for type, places in groups.items()]
    rows.sort(key=lambda row: -row[0])  # stable: equal amounts stay in program order
    for wasted, type, places in [row for row in rows if row[0] >= max(min_wasted, 1)][:top]:
        found = subject.finding("padding", *places[0], _message(type, sizes[type], places), wasted)
        yield replace(found, severity=_severity(wasted, total))


def _message(type: TensorType, found: Bytes, places: list[tuple[Computation, Instruction]]) -> str:
    says = f"{print_type(type)} takes {size_text(found.padded)} for {size_text(found.unpadded)}"
    says += f" ({found.ratio:.4g}x)"
    if causes := padding_causes(type):
        says += f": {', '.join(causes)}"
    if len(places) > 1:
        whole = size_text(found.wasted * len(places))
        says += f"; {len(places)} such arrays, {whole} of padding in all"
    best = cheapest_order(type)
    if best is not None:
        size = array_bytes(best)
        assert size is not None
        saved = size_text(found.padded - size.padded)
        says += f"; {print_type(best)} takes {size_text(size.padded)}, {saved} less"
    return says


def _severity(wasted: int, total: int) -> str:
    """`error` from 10 % of the program's array bytes on, `warning` from 1 % on, else `note`."""
    if 10 * wasted >= total:
        return "error"
    return "warning" if 100 * wasted >= total else "note"


PADDING: Final = Rule(
    "padding",
    "No arrays whose tiles leave much memory empty; severity by the share of all array bytes.",
    {
        "min-wasted": Parameter(1 << 20, "Types of arrays with less padding are allowed.", size),
        "top": Parameter(20, "Most types that are reported, largest padding first.", number),
    },
    _padding,
)
