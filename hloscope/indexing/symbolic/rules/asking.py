"""Arguments of the rules for unknown sizes, and the table of the rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.affine import Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.build import exact
from hloscope.indexing.rules.dependence import Bodies
from hloscope.indexing.symbolic.frames import Frame, Leaf
from hloscope.indexing.symbolic.maps import SizedBuilder
from hloscope.indexing.symbolic.symbols import Shape
from hloscope.ir import ByOp, Instruction

NO_RULE: Final = "no rule tells it for sizes that are not known; refine the program first"


class Asked(NamedTuple):
    """An instruction with its symbolic values and the shape of the queried output."""

    frame: Frame
    ins: Instruction
    result: Shape
    operands: list[Leaf]
    bodies: Bodies

    def builder(self) -> SizedBuilder:
        """Return a builder of a map from an index of the output."""
        return SizedBuilder(self.frame.symbols, self.result)

    def shape(self, operand: int) -> Shape:
        """Return the sizes of an operand."""
        found = self.operands[operand].shape
        if found is None:
            raise UnsupportedError("an operand that is not an array")
        return found

    def everything(self, operand: int) -> Accesses:
        """Return the access by which every output element reads all elements of an operand."""
        at = self.builder()
        return exact(at.map([at.range(size) for size in self.shape(operand)]))

    def all_of(self, first: int) -> list[Accesses]:
        """Return accesses to all elements of the operands from `first` on."""
        return [self.everything(k) for k in range(first, len(self.operands))]


Answer: TypeAlias = Sequence[Accesses]
Rule: TypeAlias = Callable[[Asked, Any], Answer]
RULES: Final = ByOp[Rule]()


def dims(shape: Sequence[Expr]) -> list[Expr]:
    """Return the index of an element of an array of this shape, as dimension variables."""
    return [Dim(k) for k in range(len(shape))]


def known(leaf: Leaf, k: int) -> Expr:
    """Return element `k` of an integer operand."""
    found = leaf.contents[k] if leaf.contents is not None else None
    if found is None:
        raise UnsupportedError("where it begins is not known in terms of sizes")
    return found


def in_place(asked: Asked) -> Answer:
    """Return the access of an op whose result elements are the operand's at the same index."""
    if len(asked.operands) != 1 or len(asked.shape(0)) != len(asked.result):
        raise UnsupportedError(NO_RULE)
    return [exact(asked.builder().map(dims(asked.result)))]
