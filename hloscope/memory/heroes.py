"""Heroes: the instruction of each root that decides which emitter generates its kernel.

Source: XLA `xla/service/gpu/ir_emission_utils.cc`, `FindNonTrivialHero`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hloscope.ir import Instruction, TensorType
from hloscope.memory.fused import Fused
from hloscope.memory.storage import array_of, physical_sizes, same_memory
from hloscope.memory.transposes import TransposeShape
from hloscope.ops import Bitcast, Concatenate, Elementwise, Reduce, Reshape, Transpose
from hloscope.walks import reached

WIDE: Final = 3
"""Maximum number of operands of an op between a root and a transpose or concatenation."""


def hero_of(root: Instruction, fused: Fused) -> Instruction:
    """Return the hero of a root: a reduction, tiled transpose or concatenation, or the root itself.

    Only element-wise ops and ops that keep the bytes in place may lie between them.
    """
    hero = root
    while is_intermediate(hero, 1) and fused.contains(hero.operands[0]):
        hero = hero.operands[0]
    for predicate in (is_tiled_transpose, _is_concatenate):
        found = _searched(hero, fused, predicate)
        if found is not None:
            return found
    return hero if isinstance(hero.op, Reduce) else root


def is_tiled_transpose(ins: Instruction) -> bool:
    """Does the transpose emitter take this instruction?"""
    shape = TransposeShape.of(ins)
    return shape is not None and shape.is_tiled


def _is_concatenate(ins: Instruction) -> bool:
    return isinstance(ins.op, Concatenate)


def is_intermediate(ins: Instruction, most_operands: int) -> bool:
    """Is it element-wise, or a reshape or transpose that keeps the bytes in place?"""
    if not 0 < len(ins.operands) <= most_operands:
        return False
    if isinstance(ins.op, Elementwise):
        if ins.op.name == "copy":
            return _keeps_layout(ins)
        return True
    if isinstance(ins.op, Bitcast):
        return True
    if isinstance(ins.op, Reshape | Transpose):
        return leaves_memory(ins)
    return False


def leaves_memory(ins: Instruction) -> bool:
    """Does a reshape or transpose keep the same bytes at the same addresses?"""
    here, there = array_of(ins), array_of(ins.operands[0])
    if here is None or there is None:
        return False
    if isinstance(ins.op, Transpose):
        # Dimensions of size 1 have no place in memory; only the order of the others counts.
        moved = [k for k in _memory_order(here) if here.shape[k] != 1]
        place = {dimension: at for at, dimension in enumerate(_memory_order(there))}
        places = [place[ins.op.permutation[k]] for k in moved]
        return places == sorted(places)
    return same_memory(here, there) or _is_row_major(here, there)


def _is_row_major(*types: TensorType) -> bool:
    return all([physical_sizes(type) == type.shape for type in types])


def _memory_order(type: TensorType) -> tuple[int, ...]:
    if type.layout is None or len(type.layout.minor_to_major) != type.rank:
        return tuple(range(type.rank))
    return type.layout.major_to_minor


def _keeps_layout(ins: Instruction) -> bool:
    here, there = array_of(ins), array_of(ins.operands[0])
    return here is not None and there is not None and _memory_order(here) == _memory_order(there)


def _searched(
    start: Instruction, fused: Fused, predicate: Callable[[Instruction], bool]
) -> Instruction | None:
    """Return the only instruction above intermediate ops that satisfies `predicate`, or `None`."""
    hero = None
    todo, seen = [start], {start}
    while todo:
        ins = todo.pop(0)
        # Two candidates would need two different thread maps, so neither is the hero.
        if predicate(ins):
            if hero is not None:
                return None
            hero = ins
        if not is_intermediate(ins, WIDE):
            continue
        for operand in ins.operands:
            if fused.contains(operand) and operand not in seen:
                seen.add(operand)
                todo.append(operand)
    if hero is None or not _is_followed_simply(hero, fused):
        return None
    return hero


def _is_followed_simply(hero: Instruction, fused: Fused) -> bool:
    """Are all direct and indirect users of the hero intermediate ops?"""
    after = reached(fused.users.get(hero, ()), lambda ins: fused.users.get(ins, ()))
    return all(ins.op.name == "tuple" or is_intermediate(ins, WIDE) for ins in after)
