"""Checks of a module as a whole: header, entry computation, order, parameters, fusions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.errors import Diagnostic, HloscopeError, ParseError
from hloscope.hlo_parser import parse_type, print_type, read_type
from hloscope.ir import Instruction, Module, TupleType, Type
from hloscope.ops import Fusion, Parameter, fused_twice
from hloscope.verifier.hlo.aliasing import check_aliasing
from hloscope.verifier.hlo.likeness import same


def check_module(module: Module) -> Iterator[Diagnostic]:
    """Yield the errors that do not belong to a single instruction."""
    yield from _check_header(module)
    yield from _check_entry_layout(module)
    yield from check_aliasing(module)
    yield from _check_order(module)
    yield from _check_parameters(module)
    yield from _check_fusions(module)


_BOOLEANS: Final = ("alias_passthrough_params", "is_scheduled")
_HEADER: Final = (
    *_BOOLEANS,
    "allow_spmd_sharding_propagation_to_output",
    "allow_spmd_sharding_propagation_to_parameters",
    "buffer_donor",
    "entry_computation_layout",
    "frontend_attributes",
    "input_output_alias",
    "num_partitions",
    "origin_recovery_table",
    "replica_count",
)
"""Attributes of a header.

Source: XLA `hlo_parser.cc` (`ParseHloModule`).
"""


def _check_header(module: Module) -> Iterator[Diagnostic]:
    for name, value in module.extras:
        if name not in _HEADER:
            yield Diagnostic(f"a module has no attribute `{name}`", module.entry.span)
        elif name in _BOOLEANS and value not in ("true", "false"):
            yield Diagnostic(f"`{name}` is {value}, needs true or false", module.entry.span)


def _check_entry_layout(module: Module) -> Iterator[Diagnostic]:
    """Yield differences between `entry_computation_layout` and the entry computation."""
    text = dict(module.extras).get("entry_computation_layout")
    if text is None:
        return
    try:
        taken, returned = read_signature(text)
    except HloscopeError as error:
        yield Diagnostic(f"entry_computation_layout: {error.message}", module.entry.span)
        return
    have = module.entry.arguments
    if len(have) != len(taken):
        message = f"entry_computation_layout has {len(taken)} parameters, the entry {len(have)}"
        yield Diagnostic(message, module.entry.span)
        return
    named = [f"parameter {i}" for i in range(len(have))]
    pairs = zip(
        [*named, "the result"], [*have, *module.entry.results], [*taken, returned], strict=True
    )
    for what, own, header in pairs:
        if not same(own, header):
            texts = [print_type(t, layout=False) for t in (own, header)]
            message = f"{what} of the entry is {texts[0]}, entry_computation_layout says {texts[1]}"
            yield Diagnostic(message, module.entry.span)


def read_signature(text: str) -> tuple[tuple[Type, ...], Type]:
    """Read a signature such as `{(f32[2], s32[])->f32[2]}`: parameter types and the result type.

    >>> [print_type(t) for t in read_signature("{(f32[2]{0}, /*index=1*/s32[])->f32[2]{0}}")[0]]
    ['f32[2]{0}', 's32[]']

    Raises:
        ParseError: The text is not a signature.
    """
    inner = text.strip()[1:-1]
    taken, end = read_type(inner, 0)
    arrow = inner.find("->", end)
    if arrow < 0:
        raise ParseError("expected `->` and the type of the result")
    parts = taken.elements if isinstance(taken, TupleType) else (taken,)
    return parts, parse_type(inner[arrow + 2 :].strip())


def _check_order(module: Module) -> Iterator[Diagnostic]:
    """Yield errors of a scheduled module: its text must be an order of execution."""
    if dict(module.extras).get("is_scheduled") != "true":
        return
    for computation in module:
        seen: set[Instruction] = set()
        for ins in computation:
            late = [p for p in (*ins.operands, *ins.control_predecessors) if p not in seen]
            if late:
                message = f"`{ins.name}` is scheduled before `{late[0].name}`, which it needs"
                yield Diagnostic(message, ins.span)
            seen.add(ins)


def _check_parameters(module: Module) -> Iterator[Diagnostic]:
    for computation in module:
        for i, parameter in enumerate(computation.parameters):
            assert isinstance(parameter.op, Parameter)
            if parameter.op.number != i:
                message = f"parameter {i} of {computation.name} has number {parameter.op.number}"
                yield Diagnostic(message, parameter.span)


def _check_fusions(module: Module) -> Iterator[Diagnostic]:
    """Yield an error for each fusion whose computation another fusion calls too."""
    owner: dict[str, Instruction] = {}
    for computation in module:
        for ins in computation:
            if isinstance(ins.op, Fusion) and ins.calls:
                first = owner.setdefault(ins.calls[0].name, ins)
                if first is not ins:
                    message = fused_twice(ins.calls[0].name, first.name, ins.name)
                    yield Diagnostic(message, ins.span)
