"""Verification of HLO modules: every finding, not the first only.

Source: XLA's `HloVerifier` and shape inference; StableHLO's specification where both agree.
"""

from __future__ import annotations

from hloscope.errors import Diagnostic
from hloscope.ir.graph import Module
from hloscope.verifier.hlo.calls import check_calls, check_recursion
from hloscope.verifier.hlo.devices import check_channels, check_groups
from hloscope.verifier.hlo.module import check_module
from hloscope.verifier.hlo.pairs import check_pairs
from hloscope.verifier.hlo.types import check_type


def verify_hlo(module: Module) -> list[Diagnostic]:
    """Everything that is wrong with a module, in the order of its text.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> [d] = verify_hlo(parse_hlo("ENTRY e { a = f32[2] parameter(0) ROOT b = f32[3] abs(a) }"))
    >>> d.message
    '`abs` is declared f32[3], but its operands make it f32[2]'

    Raises:
        ParseError: A part that is read late is not in the grammar.
    """
    recursion = check_recursion(module)
    if recursion:
        return recursion
    found = list(check_module(module))
    devices = module_devices(module)
    for computation in module:
        for ins in computation:
            found += check_type(ins)
            found += check_calls(ins)
            found += check_groups(ins, devices)
        found += check_pairs(computation)
    found += check_channels(module)
    return sorted(found, key=lambda d: d.span.start if d.span else 0)


def module_devices(module: Module) -> int | None:
    """Replicas × partitions as the header says it; `None` if it does not."""
    extras = dict(module.extras)
    counts = [extras.get("replica_count"), extras.get("num_partitions")]
    if counts == [None, None]:
        return None
    return int(counts[0] or 1) * int(counts[1] or 1)


__all__ = ["verify_hlo"]
