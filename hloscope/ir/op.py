"""The part of an op the graph needs to know: a name and, in subclasses, its parameters."""

from __future__ import annotations

from typing import ClassVar


class Op:
    """Base of all ops: what an instruction does, without its operands and types.

    Subclasses are frozen dataclasses in `hloscope.ops`; equal parameters mean equal ops.
    """

    __slots__ = ()
    name: ClassVar[str] = ""
    """The StableHLO mnemonic where StableHLO has the op, else the HLO opcode."""
