"""Refusals: reasons why something cannot be tiled, as results and not as errors."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from hloscope.affine import Expr
from hloscope.indexing import Constraint
from hloscope.ir import Instruction


class RefusalCode(StrEnum):
    """Kinds of refusals, named as XLA's status codes."""

    UNIMPLEMENTED = "UNIMPLEMENTED"
    """Tiles exist, but this case is not implemented."""
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    """There is no rule for it."""
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    """It is too large to be analysed; tiles may exist."""
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    """There is a rule, but the sizes do not satisfy its conditions."""


class Refusal(Struct, frozen=True):
    """The reason why tiles are refused, with its location.

    Attributes:
        code: Kind of the refusal.
        reason: The reason, in words.
        instruction: The refused instruction; `None` if the caller knows it.
        expr: The index expression that causes the refusal, if any.
        result: Number of the map's result that contains the expression.
        constraint: The constraint of the indexing map that causes the refusal, if any.

    >>> print(Refusal(RefusalCode.UNIMPLEMENTED, "interior padding"))
    UNIMPLEMENTED: interior padding
    """

    code: RefusalCode
    reason: str
    instruction: Instruction | None = None
    expr: Expr | None = None
    result: int | None = None
    constraint: Constraint | None = None

    def __str__(self) -> str:
        what = f": {self.expr}" if self.expr is not None else ""
        dimension = f", dimension {self.result}" if self.result is not None else ""
        where = f" (`{self.instruction.name}`)" if self.instruction is not None else ""
        return f"{self.code}: {self.reason}{what}{dimension}{where}"


class RefusedError(Exception):
    """Exception that ends an analysis with a refusal, which the caller returns."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def refused(
    reason: str, at: Instruction | None = None, code: str = "UNIMPLEMENTED"
) -> RefusedError:
    """Return the exception of a refusal, to be raised."""
    return RefusedError(Refusal(RefusalCode(code), reason, at))
