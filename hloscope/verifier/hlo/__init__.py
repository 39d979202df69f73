"""Verification of HLO modules: all errors, not only the first.

Source: XLA's `HloVerifier` and shape inference; StableHLO's specification where both agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hloscope.errors import Diagnostic
from hloscope.ir import Instruction, Module
from hloscope.verifier.hlo.module import (
    check_calls,
    check_module,
    check_operand_aliasing,
    check_recursion,
)
from hloscope.verifier.hlo.pairs import check_channels, check_groups, check_pairs, module_devices
from hloscope.verifier.hlo.types import CheckKey, check_attributes, check_key, check_type


def verify_hlo(module: Module) -> list[Diagnostic]:
    """Return every error of a module, in the order of its text.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> [d] = verify_hlo(parse_hlo("ENTRY e { a = f32[2] parameter(0) ROOT b = f32[3] abs(a) }"))
    >>> d.message
    '`abs` is declared f32[3], but its operands make it f32[2]'

    Raises:
        ParseError: A part of the text that is parsed only when it is needed has a syntax error.
    """
    recursion = check_recursion(module)
    # The other checks follow calls, which ends only if no computation calls itself.
    if recursion:
        return recursion
    devices, found = module_devices(module)
    found += check_module(module)
    valid: set[CheckKey] = set()
    for computation in module:
        for ins in computation:
            found += _check_instruction(ins, valid)
            found += check_groups(ins, devices)
        found += check_pairs(computation)
    found += check_channels(module)
    return sorted(found, key=lambda d: d.span.start if d.span else 0)


def verify_instructions(instructions: Iterable[Instruction]) -> list[Diagnostic]:
    """Return the errors of single instructions.

    The computation that contains them is not checked.
    """
    valid: set[CheckKey] = set()
    return [found for ins in instructions for found in _check_instruction(ins, valid)]


def _check_instruction(ins: Instruction, valid: set[CheckKey]) -> Iterator[Diagnostic]:
    """Yield the errors of one instruction.

    `valid` has the keys, by `check_key`, of valid instructions: types are not checked again for
    such a key. The key of a valid instruction is added. Attributes and aliasing are always checked.
    """
    kind = check_key(ins)
    # Attributes and aliases are not part of a kind, so that they are checked for each instruction.
    if kind in valid:
        yield from check_attributes(ins)
        yield from check_operand_aliasing(ins)
        return
    of_type = [*check_type(ins)]
    yield from of_type
    yield from check_attributes(ins)
    yield from check_operand_aliasing(ins)
    of_calls = [*check_calls(ins)]
    yield from of_calls
    if not of_type and not of_calls:
        valid.add(kind)


__all__ = ["verify_hlo", "verify_instructions"]
