"""Tuples as flat lists: every tensor inside a (nested) tuple has a number, its leaf."""

from __future__ import annotations

from hloscope.ir.types import TupleType, Type


def leaf_types(type: Type) -> tuple[Type, ...]:
    """Types of the leaves in order; a type that is no tuple is its own leaf 0.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> pair = parse_type("(f32[2], (s32[], pred[4]))")
    >>> [str(leaf.element) for leaf in leaf_types(pair)]
    ['f32', 's32', 'pred']
    """
    leaves: list[Type] = []
    stack = [type]
    while stack:
        top = stack.pop()
        if isinstance(top, TupleType):
            stack.extend(reversed(top.elements))
        else:
            leaves.append(top)
    return tuple(leaves)


class Leaves:
    """Leaves of types, remembered by the identity of the type.

    A module's types are shared, and hashing a tuple of a thousand tensors for each of its thousand
    projections would take longer than the analysis.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Type, tuple[Type, ...]]] = {}
        self._offsets: dict[int, tuple[Type, tuple[int, ...]]] = {}

    def of(self, type: Type) -> tuple[Type, ...]:
        """Types of the leaves."""
        known = self._known.get(id(type))
        if known is None:
            known = self._known[id(type)] = (type, leaf_types(type))
        return known[1]

    def offset(self, type: Type, index: int) -> int:
        """Number of the first leaf of element `index` of a tuple."""
        known = self._offsets.get(id(type))
        if known is None:
            offsets = [0]
            for element in type.elements if isinstance(type, TupleType) else ():
                offsets.append(offsets[-1] + len(self.of(element)))
            known = self._offsets[id(type)] = (type, tuple(offsets))
        return known[1][index]
