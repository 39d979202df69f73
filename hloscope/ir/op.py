"""The part of an op the graph needs to know: a name, its typing and, in subclasses, parameters."""

from __future__ import annotations

from typing import ClassVar, Protocol

from hloscope.errors import VerifyError
from hloscope.ir.types import Type


class Typed(Protocol):
    """Anything with a type, such as an instruction."""

    @property
    def type(self) -> Type:
        """Type of the value."""


class Callee(Protocol):
    """What typing reads of a called computation: the type of its root."""

    @property
    def root(self) -> Typed:
        """What the computation returns."""


class Op:
    """Base of all ops: what an instruction does, without its operands and types.

    Subclasses are frozen dataclasses in `hloscope.ops`; equal parameters mean equal ops.
    """

    __slots__ = ()
    name: ClassVar[str] = ""
    """The StableHLO mnemonic where StableHLO has the op, else the HLO opcode."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        """Type of the result, from the operands' types, the parameters and the computations.

        The type has no layout.  Several results make a `TupleType`.

        Args:
            operands: Types of the operands, in order.
            calls: Called computations, in the order of the op's definition.

        Raises:
            VerifyError: The operands or parameters break a constraint of the op (`rule` names
                it), or the type does not follow from them and has to be written.
        """
        raise VerifyError(
            f"the type of `{self.name}` does not follow from its operands: write it before the op"
        )
