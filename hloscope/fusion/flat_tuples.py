"""Flattening of nested tuples: a leaf is numbered by its position in the flat tuple.

A size known only at run time is part of the value as well.  Inside traversals it is a leaf of its
own: an `s32` scalar after the tensor that it belongs to.  Outside, only tensors are numbered.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Final, NamedTuple

from hloscope.fusion.results import Results
from hloscope.ir import ELEMENT_TYPES, FutureType, Instruction, TensorType, TupleType, Type
from hloscope.support.walks import nested

SIZE: Final = TensorType(ELEMENT_TYPES["s32"], ())
"""The type of a leaf that is a run-time size."""


def leaf_types(type: Type) -> tuple[Type, ...]:
    """Return the types of the leaves in order; tuples and futures are flattened.

    Any other type is its own single leaf.

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
    """Meaning of a leaf: a tensor, or the run-time size of a dimension of a tensor."""

    tensor: int
    """Number of the tensor in the value."""
    dimension: int | None = None


_ALONE: Final = (Part(0),)


class _Parts(NamedTuple):
    """The leaves of a type, and which of them are tensors."""

    type: Type
    leaves: tuple[Type, ...]
    types: tuple[Type, ...]
    """Types of the tensors."""
    parts: tuple[Part, ...]
    tensors: tuple[int, ...]
    """For each tensor, the number of the leaf that represents it."""

    @classmethod
    def of(cls, type: Type) -> _Parts:
        """Return the leaves of a type, with one leaf for every dynamic size after its tensor."""
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
    """Flattening of types into leaves; run-time sizes are leaves too. Results are memoized."""

    def __init__(self, results: Results | None = None) -> None:
        self._results: Final = Results() if results is None else results
        # Without it, all maps of a loop that carries 640 arrays take 60 times as long. The key is
        # the `id`, because to hash a tuple type takes as long as to flatten it.
        self._known: dict[int, _Parts] = {}
        """Flattened types by `id`; `_Parts` holds the type, so that its `id` is not reused."""

    def _of(self, type: Type) -> _Parts:
        known = self._known.get(id(type))
        if known is None:
            known = self._known[id(type)] = _Parts.of(type)
        return known

    def of(self, type: Type) -> tuple[Type, ...]:
        """Return the types of the leaves of a type."""
        return self._of(type).leaves

    def part(self, type: Type, leaf: int) -> Part:
        """Return what leaf number `leaf` of a type is: a tensor, or a size of one.

        >>> from hloscope.hlo_parser.types import parse_type
        >>> pair = parse_type("(f32[<=2,3], pred[4])")
        >>> [tuple(Leaves().part(pair, leaf)) for leaf in range(3)]
        [(0, None), (0, 0), (1, None)]
        """
        return self._of(type).parts[leaf]

    def tensors(self, type: Type) -> tuple[int, ...]:
        """Return the leaf numbers of the tensors, in order."""
        return self._of(type).tensors

    def tensor_types(self, type: Type) -> tuple[Type, ...]:
        """Return the types of the tensors, in order."""
        return self._of(type).types

    def of_part(self, type: Type, part: Part) -> int:
        """Return the leaf number of a tensor, or of a run-time size of it."""
        known = self._of(type)
        return known.parts.index(part, known.tensors[part.tensor])

    def leaf(self, type: Type, tensor: int) -> int | None:
        """Return the leaf number of a tensor; `None` if the type has fewer tensors."""
        tensors = self._of(type).tensors
        return tensors[tensor] if tensor < len(tensors) else None

    def tensor(self, type: Type, leaf: int) -> int | None:
        """Return the tensor number of a leaf; `None` if the leaf is a size or does not exist."""
        parts = self._of(type).parts
        if leaf >= len(parts):
            return None
        return None if parts[leaf].dimension is not None else parts[leaf].tensor

    def has_sizes(self, type: Type) -> bool:
        """Is some leaf of the type a run-time size?"""
        if isinstance(type, TensorType):
            return None in type.sizes
        known = self._of(type)
        return len(known.types) < len(known.leaves)

    def offset(self, type: Type, index: int) -> int:
        """Return the number of the first leaf of element `index` of a tuple."""
        elements = type.elements if isinstance(type, TupleType) else ()
        key = "offsets", id(type)  # the result holds the type, so that its `id` is not reused
        return self._results.once(key, lambda: (type, self._starts(elements)))[1][index]

    def starts(self, ins: Instruction) -> tuple[int, ...]:
        """Return the first leaf of each operand in the concatenated leaves, then their number."""
        return self._results.once(
            ("starts", ins), lambda: self._starts([operand.type for operand in ins.operands])
        )

    def _starts(self, types: Iterable[Type]) -> tuple[int, ...]:
        return tuple(accumulate([len(self.of(type)) for type in types], initial=0))
