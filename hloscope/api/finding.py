"""Computations and instructions by their names."""

from __future__ import annotations

import re

from hloscope.display import glob
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.ir import Computation, Instruction, Module, array_bytes
from hloscope.ops import (
    AddDependency,
    Bitcast,
    Constant,
    GetTupleElement,
    OptimizationBarrier,
    Parameter,
    Return,
    Tuple,
)


def computing(root: Instruction) -> Instruction:
    """The instruction that computes a value; if there are several, the one with the largest result.

    Tuples and their elements, returns, bitcasts, barriers and dependencies compute nothing: their
    operands are followed. The result is `root` if all paths lead to parameters and constants.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = "ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p) "
    >>> computing(parse_hlo(text + "ROOT b = f32[2,4] bitcast(n) }").entry.root)
    <n = negate(p)>
    """
    found: dict[Instruction, int] = {}
    seen: set[Instruction] = set()
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        match value.op:
            case GetTupleElement(index=index) if isinstance(value.operands[0].op, Tuple):
                waiting.append(value.operands[0].operands[index])
            case GetTupleElement() | Bitcast() | AddDependency():
                waiting.append(value.operands[0])
            case Tuple() | Return() | OptimizationBarrier():
                # The stack returns the first operand first, so equal sizes are decided by program
                # order: `max` returns the first of equals.
                waiting += reversed(value.operands)
            case Parameter() | Constant():
                pass
            case _:
                size = array_bytes(value.type)
                found[value] = 0 if size is None else size.data
    return max(found, key=found.__getitem__, default=root)


def computation_of(module: Module, name: str) -> Computation:
    """The computation with the given name, with or without `%`.

    Raises:
        UnknownNameError: Nothing has that name.
    """
    plain = name.removeprefix("%")
    if plain not in module.computations:
        near = did_you_mean(plain, module.computations)
        raise UnknownNameError(f"no computation `{plain}`{near}")
    return module.computations[plain]


def instruction_of(computation: Computation, name: str) -> Instruction:
    """The instruction of a computation with the given name, with or without `%`.

    Raises:
        UnknownNameError: Nothing has that name.
    """
    plain = name.removeprefix("%")
    if plain not in computation.body.by_name:
        near = did_you_mean(plain, computation.body.by_name)
        raise UnknownNameError(f"no instruction `{plain}` in `{computation.name}`{near}")
    return computation[plain]


def find(module: Module, name: str) -> tuple[Computation, Instruction]:
    """The instruction `name` or `computation/name`, with or without `%`, and its computation.

    The entry computation is searched first, then all others.

    Raises:
        UnknownNameError: There is none, or several outside the entry computation.
    """
    where, slash, plain = name.replace("%", "").rpartition("/")
    if slash:
        computation = computation_of(module, where)
        return computation, instruction_of(computation, plain)
    if plain in module.entry.body.by_name:
        return module.entry, module.entry[plain]
    places = [c for c in module if plain in c.body.by_name]
    if not places:
        near = did_you_mean(plain, (i.name for c in [module.entry, *module] for i in c))
        raise UnknownNameError(f"no instruction `{plain}` in {module.name}{near}")
    if len(places) > 1:
        names = ", ".join(f"`{c.name}/{plain}`" for c in places[:3])
        raise UnknownNameError(f"{len(places)} computations have a `{plain}`: say {names} …")
    return places[0], places[0][plain]


def find_all(module: Module, name: str) -> list[tuple[Computation, Instruction]]:
    """The instruction of a name, or all that match a pattern: `*` is any text, `?` any character.

    A pattern without a computation is matched in all computations.

    Raises:
        UnknownNameError: Nothing has that name.
    """
    where, slash, plain = name.replace("%", "").rpartition("/")
    if not re.search(r"[*?]", name):
        return [find(module, name)]
    place, pattern = glob(where if slash else "*"), glob(plain)
    found = [
        (computation, ins)
        for computation in module
        if place.fullmatch(computation.name)
        for ins in computation
        if pattern.fullmatch(ins.name)
    ]
    if not found:
        raise UnknownNameError(f"no instruction is like `{name}` in {module.name}")
    return found
