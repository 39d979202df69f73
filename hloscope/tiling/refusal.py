"""Why something cannot be tiled: an answer, not an error."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from hloscope.affine import Expr
from hloscope.indexing import Constraint
from hloscope.ir import Instruction


class RefusalCode(StrEnum):
    """The kinds of refusals, named as the status codes that XLA answers with."""

    UNIMPLEMENTED = "UNIMPLEMENTED"
    """It could be done, and is not."""
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    """There is no rule for such a thing."""
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    """It is too large to be looked at here: nobody knows whether it could be done."""
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    """There is a rule, and the sizes do not fit it."""


class Refusal(Struct, frozen=True):
    """Why tiles are refused.

    Attributes:
        code: Of which kind the refusal is.
        reason: What stands in the way.
        instruction: Where it does; `None` if that is said by whoever asked.
        expr: The index expression that is to blame, if one is.
        result: Which result of the indexing map it is, or is part of.
        constraint: The constraint of the indexing map that is to blame, if one is.

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
    """Ends an analysis with a refusal, which its caller returns."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def refused(
    reason: str, at: Instruction | None = None, code: str = "UNIMPLEMENTED"
) -> RefusedError:
    """The error of a refusal, to be raised."""
    return RefusedError(Refusal(RefusalCode(code), reason, at))
