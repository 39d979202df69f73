"""`interpreter-instrument-with-probe`: adds a probe after every result that can be written.

Source: StableHLO `StablehloInstrumentWithProbe.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.ir import TensorType, Type
from hloscope.mlir import NameLoc, Operation, StringAttr, Value, resolve_location
from hloscope.passes.framework import Option, Pass, Run
from hloscope.passes.rewriting import OpenBlock, Rewriter

_KINDS: Final = ("pred", "signed", "unsigned", "float", "complex")


def _is_probed(type: Type) -> bool:
    if not isinstance(type, TensorType) or not type.is_static:
        return False
    return type.element.kind in _KINDS and type.element.name != "index"


def _run(run: Run) -> None:
    rewriter, number = run.rewriter, 0
    for operation in _inner_first(rewriter):
        if operation.name == "stablehlo.constant":
            continue
        for value in operation.results:
            if _is_probed(value.type):
                number += 1
                _probe(rewriter, operation, value, _name(operation, number, run))
                run.fired["probe"] += 1


def _inner_first(rewriter: Rewriter) -> list[Operation]:
    """Return all operations, each after those in its regions."""
    order: list[Operation] = []
    stack = [rewriter.module]
    while stack:
        operation = stack.pop()
        order.append(operation)
        stack += operation.inside
    order.reverse()
    return order[:-1]


def _name(operation: Operation, number: int, run: Run) -> str:
    location = resolve_location(operation.location)
    if run.options["useDebugInfo"] and isinstance(location, NameLoc):
        return f"{location.name.partition('@')[0]}.{number}"
    return f"probe{number}"


def _probe(rewriter: Rewriter, operation: Operation, value: Value, name: str) -> None:
    block = operation.parent
    assert isinstance(block, OpenBlock)
    following = block.after(operation)
    new = rewriter.create(
        "interpreter.probe",
        (value,),
        {"probe_id": StringAttr.of(name)},
        before=following,
        into=None if following is not None else block,
        types=(value.type,),
        location=operation.location,
    )
    rewriter.replace_uses(value, new.result, lambda user: user is new)


PASS: Final = Pass(
    "interpreter-instrument-with-probe",
    _run,
    "Adds a probe after every result of static shape.",
    {
        "useDebugInfo": Option(
            default=False,
            help="Name probes after the locations of their ops.",
            read=lambda text: text == "true",
        )
    },
)
