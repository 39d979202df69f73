"""Buffers: the memory in which the arrays of a plan lie, by number.

The arrays of a plan's arguments have the first numbers, one for each leaf of the parameters' types;
then come the outer values, then the arrays that the steps of the plan make.  The memory of a value
is the set of buffers that it may lie in, or a tuple of the memories of its elements.

A scalar lies in no buffer: no kernel returns a scalar that is a view of an array, and none
overwrites a scalar (`registry.kernel`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from hloscope.ir import TensorType, TokenType, TupleType, Type
from hloscope.support.walks import nested

Buffers: TypeAlias = frozenset[int]
Memory: TypeAlias = "Buffers | tuple[Memory, ...]"

UNKNOWN: Final = -1
"""Buffer that stands for all memory the plan does not know: constants, arrays kept elsewhere."""
NOWHERE: Final[Buffers] = frozenset()
ANYWHERE: Final[Buffers] = frozenset((UNKNOWN,))
MOST_BUFFERS: Final = 32
"""Maximum number of buffers that an array may lie in; its memory is unknown if there are more."""


class UnknownError(Exception):
    """Raised if it is not known which memory a called computation reads, writes or returns."""


def union(memories: Iterable[Buffers]) -> Buffers:
    """Return the buffers of all the memories, as one set."""
    return NOWHERE.union(*memories)


def buffers_of(memory: Memory) -> Buffers:
    """Return the numbers of the buffers in which a value and all its elements may lie.

    >>> sorted(buffers_of((frozenset((1, 2)), (frozenset((3,)), ()))))
    [1, 2, 3]
    """
    if isinstance(memory, frozenset):
        return memory
    parts: Iterable[Any] = nested([memory], _parts)
    return union(part for part in parts if isinstance(part, frozenset))


def _parts(memory: Any) -> Sequence[Any]:
    return memory if isinstance(memory, tuple) else ()


def has_memory(type_: Type) -> bool:
    """Do values of this type lie in memory: are they tuples, or arrays of rank 1 or more?"""
    if isinstance(type_, TensorType):
        return type_.rank > 0
    return not isinstance(type_, TokenType)


def of_type(type_: Type, leaf: Callable[[Type], Buffers]) -> Memory:
    """Return the memory of a value of this type.

    `leaf` is called for each leaf of the type, in order, and returns the buffers of that leaf.
    """
    if not isinstance(type_, TupleType):
        return leaf(type_)
    roots: list[Type] = [type_]
    types = list(nested(roots, _elements))
    leaves = [leaf(t) for t in types if not isinstance(t, TupleType)]
    # `types` lists each tuple before its elements.  In reverse, they are complete and on top of the
    # stack, the first one uppermost, when the tuple is reached.
    made: list[Memory] = []
    for t in reversed(types):
        whole = isinstance(t, TupleType)
        made.append(tuple(made.pop() for _ in _elements(t)) if whole else leaves.pop())
    return made[0]


def of_leaves(type_: Type, leaves: Sequence[Buffers]) -> Memory:
    """Return the memory of a value of this type, in which leaf i of the type lies in `leaves[i]`.

    Raises:
        UnknownError: The type has another number of leaves.
    """
    if len(leaves_of([NOWHERE], [type_])) != len(leaves):
        raise UnknownError
    rest = iter(leaves)
    return of_type(type_, lambda _: next(rest))


def leaves_of(memories: Sequence[Memory], types: Sequence[Type]) -> list[Buffers]:
    """Return the memory of each leaf of several values, in order, with tuples flattened.

    `memories` has the memory of each value, `types` its type.

    Raises:
        UnknownError: The number of values, or of elements of a tuple, differs from the types.
    """
    if len(memories) != len(types):
        raise UnknownError
    places: Iterable[tuple[Memory, Type]] = nested(
        list(zip(memories, types, strict=True)), _elements_with_memory
    )
    return [buffers_of(memory) for memory, t in places if not isinstance(t, TupleType)]


def _elements_with_memory(place: tuple[Memory, Type]) -> Sequence[tuple[Memory, Type]]:
    """Return the memory and type of each element of a tuple; nothing for other values.

    `place` has the memory and type of the value.

    Raises:
        UnknownError: The memory has another number of elements than the type.
    """
    memory, type_ = place
    types = _elements(type_)
    memories = memory if isinstance(memory, tuple) else (memory,) * len(types)
    if isinstance(type_, TupleType) and len(memories) != len(types):
        raise UnknownError
    return list(zip(memories, types, strict=False))


def _elements(type_: Type) -> tuple[Type, ...]:
    return type_.elements if isinstance(type_, TupleType) else ()
