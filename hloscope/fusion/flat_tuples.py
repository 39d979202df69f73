"""Tuples as flat lists: every tensor inside a (nested) tuple has a number, its leaf.

A size known only at run time is a part of the value as well.  Where values are walked through it is
a leaf of its own, a scalar behind the tensor it belongs to; outside, only tensors count.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final, NamedTuple

from hloscope.ir import ELEMENT_TYPES, FutureType, Instruction, TensorType, TupleType, Type
from hloscope.walks import nested

SIZE: Final = TensorType(ELEMENT_TYPES["s32"], ())
"""The type of a leaf that is a size."""


def leaf_types(type: Type) -> tuple[Type, ...]:
    """Types of the leaves in order, those of a future as of a tuple; others are their own leaf 0.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> pair = parse_type("(f32[2], (s32[], pred[4]))")
    >>> [str(leaf.element) for leaf in leaf_types(pair)]
    ['f32', 's32', 'pred']
    """
    if not isinstance(type, TupleType | FutureType):
        return (type,)
    pairs = TupleType | FutureType
    every = nested(type.elements, lambda t: t.elements if isinstance(t, pairs) else ())
    return tuple([t for t in every if not isinstance(t, TupleType | FutureType)])


class Part(NamedTuple):
    """What a leaf is: a tensor, or the size of one of its dimensions."""

    tensor: int
    """Its number among the tensors of the value."""
    dimension: int | None = None


_ALONE: Final = (Part(0),)


class _Parts(NamedTuple):
    """The leaves of a type."""

    type: Type
    leaves: tuple[Type, ...]
    types: tuple[Type, ...]
    """Of the tensors."""
    parts: tuple[Part, ...]
    tensors: tuple[int, ...]
    """The leaf that each tensor is."""

    @classmethod
    def of(cls, type: Type) -> _Parts:
        """With a leaf for every size that is not known."""
        if isinstance(type, TensorType) and None not in type.sizes:  # as most are
            return cls(type, (type,), (type,), _ALONE, (0,))
        types = leaf_types(type)
        leaves: list[Type] = []
        parts: list[Part] = []
        tensors: list[int] = []
        for number, leaf in enumerate(types):
            tensors.append(len(leaves))
            leaves.append(leaf)
            parts.append(Part(number))
            if isinstance(leaf, TensorType) and None in leaf.sizes:
                unknown = [Part(number, k) for k, size in enumerate(leaf.sizes) if size is None]
                leaves += [SIZE] * len(unknown)
                parts += unknown
        return cls(type, tuple(leaves), types, tuple(parts), tuple(tensors))


class Leaves:
    """Leaves of types, sizes included, remembered by the identity of the type.

    A module's types are shared, and hashing a tuple of a thousand tensors for each of its thousand
    projections would take longer than the analysis.
    """

    def __init__(self) -> None:
        self.plain: Final[set[int]] = set()
        """Identities of types that are known to have no sizes among their leaves."""
        self._known: dict[int, _Parts] = {}
        self._offsets: dict[int, tuple[Type, tuple[int, ...]]] = {}
        self._starts: dict[int, tuple[Instruction, tuple[int, ...]]] = {}

    def _of(self, type: Type) -> _Parts:
        known = self._known.get(id(type))
        if known is None:
            known = self._known[id(type)] = _Parts.of(type)
            if len(known.leaves) == len(known.tensors):
                self.plain.add(id(type))
        return known

    def of(self, type: Type) -> tuple[Type, ...]:
        """Types of the leaves."""
        return self._of(type).leaves

    def part(self, type: Type, leaf: int) -> Part:
        """What a leaf is.

        >>> from hloscope.hlo_parser.types import parse_type
        >>> pair = parse_type("(f32[<=2,3], pred[4])")
        >>> [tuple(Leaves().part(pair, leaf)) for leaf in range(3)]
        [(0, None), (0, 0), (1, None)]
        """
        return self._of(type).parts[leaf]

    def tensors(self, type: Type) -> tuple[int, ...]:
        """The leaves that are tensors, in order."""
        return self._of(type).tensors

    def tensor_types(self, type: Type) -> tuple[Type, ...]:
        """Types of the tensors, in order."""
        return self._of(type).types

    def of_part(self, type: Type, part: Part) -> int:
        """The leaf that a part is."""
        known = self._of(type)
        return known.parts.index(part, known.tensors[part.tensor])

    def leaf(self, type: Type, tensor: int) -> int | None:
        """The leaf that a tensor is; `None` if there is none of that number."""
        tensors = self._of(type).tensors
        return tensors[tensor] if tensor < len(tensors) else None

    def tensor(self, type: Type, leaf: int) -> int | None:
        """The tensor that a leaf is; `None` if it is a size, or there is none."""
        if id(type) in self.plain:
            return leaf
        parts = self._of(type).parts
        if leaf >= len(parts):
            return None
        return None if parts[leaf].dimension is not None else parts[leaf].tensor

    def has_sizes(self, type: Type) -> bool:
        """Is one of the leaves a size?"""
        return id(type) not in self.plain and len(self._of(type).types) < len(self.of(type))

    def offset(self, type: Type, index: int) -> int:
        """Number of the first leaf of element `index` of a tuple."""
        known = self._offsets.get(id(type))
        if known is None:
            offsets = [0]
            for element in type.elements if isinstance(type, TupleType) else ():
                offsets.append(offsets[-1] + len(self.of(element)))
            known = self._offsets[id(type)] = (type, tuple(offsets))
        return known[1][index]

    def starts(self, ins: Instruction) -> tuple[int, ...]:
        """The first leaf of each operand among the leaves of all operands, and their number."""
        known = self._starts.get(id(ins))
        if known is None:
            counts = (len(self.of(operand.type)) for operand in ins.operands)
            known = self._starts[id(ins)] = (ins, tuple(accumulate(counts, initial=0)))
        return known[1]
