"""Values that must share one buffer, whatever else XLA does.

Source: XLA `HloAliasAnalysis` (`ComputeInputOutputAliasedValues`, `ComputeWhileAliasedValues`,
`ComputeConditionalAliasedValues`, `ComputeInPlaceOperationAliasedValues`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from hloscope.buffers.dataflow import Dataflow
from hloscope.buffers.updates import in_place
from hloscope.hlo_parser import INPUT_OUTPUT_ALIAS, aliasing_in
from hloscope.ir import Module
from hloscope.ops import Case, While

Pairs: TypeAlias = Iterator[tuple[int, int]]
"""Two positions whose values share a buffer."""


class SharingRow(NamedTuple):
    """A reason for values to share a buffer.

    Attributes:
        name: The reason.
        pairs: Yields the positions, for a module and its dataflow.
        about: The rule in words.
    """

    name: str
    pairs: Callable[[Module, Dataflow], Pairs]
    about: str


def _donated(module: Module, flow: Dataflow) -> Pairs:
    entry, positions = module.entry, flow.positions
    parameters = entry.parameters
    for alias in aliasing_in(module.extras, INPUT_OUTPUT_ALIAS):
        if alias.output is None or alias.taken >= len(parameters):
            continue
        given = positions.at(parameters[alias.taken], alias.inside)
        result = positions.at(entry.root, alias.output)
        if given is not None and result is not None:
            yield given, result


def _loops(_: Module, flow: Dataflow) -> Pairs:
    positions = flow.positions
    for ins, runs in positions.schedule.runs.items():
        if not isinstance(ins.op, While):
            continue
        others = [*ins.operands[:1], *[callee.root for callee in runs[1:2]]]
        others += [parameter for callee in runs for parameter in callee.parameters[:1]]
        for other in others:
            yield from positions.pairs(ins, (), other, ())


def _conditionals(_: Module, flow: Dataflow) -> Pairs:
    positions = flow.positions
    for ins, runs in positions.schedule.runs.items():
        if isinstance(ins.op, Case):
            for callee in runs:
                yield from positions.pairs(ins, (), callee.root, ())


def _updated(_: Module, flow: Dataflow) -> Pairs:
    positions = flow.positions
    for ins in positions.schedule.instructions:
        for pair in in_place(ins):
            given = positions.at(ins.operands[pair.operand], pair.inside)
            result = positions.at(ins, pair.output)
            if given is not None and result is not None:
                yield given, result


MUST_SHARE: Final = (
    SharingRow("donation", _donated, "a parameter and the result that takes its memory"),
    SharingRow("loop", _loops, "a loop's initial value, carried value and result, per index"),
    SharingRow("branches", _conditionals, "the results of all branches and of the `conditional`"),
    SharingRow("in place", _updated, "an operand and the result that is made of it in place"),
)
"""Reasons for values to share a buffer."""


def shared_values(module: Module, flow: Dataflow) -> dict[int, list[int]]:
    """The values of each buffer in order, by the smallest of them.

    Args:
        module: The module.
        flow: Its dataflow.
    """
    value = flow.value
    leader = {one: one for one in value}

    def led(one: int) -> int:
        while leader[one] != one:
            leader[one] = leader[leader[one]]
            one = leader[one]
        return one

    for row in MUST_SHARE:
        for a, b in row.pairs(module, flow):
            first, second = led(value[a]), led(value[b])
            if first != second:
                # Union-find whose leaders are the smallest numbers: buffers come in the order of
                # their first values.
                leader[max(first, second)] = min(first, second)
    buffers: dict[int, list[int]] = {}
    for one in sorted(leader):
        buffers.setdefault(led(one), []).append(one)
    return buffers
