"""Accesses between positions in memory, converted from logical indices."""

from __future__ import annotations

from math import prod

from msgspec.structs import replace

from hloscope.affine import POS_INF, Dim, Interval, first_dims
from hloscope.errors import UnsupportedError
from hloscope.fusion.access_interner import compose
from hloscope.indexing import (
    Access,
    Accesses,
    IndexingMap,
    Variable,
    address_map,
    below,
    physical_access,
    placed_sizes,
    reshaped,
    unplace,
)
from hloscope.ir import TensorType, Type


def physical(accesses: Accesses, here: Type, there: Type) -> Accesses:
    """Return the accesses with physical instead of logical indices, slowest dimension first.

    Args:
        accesses: From logical indices of one tensor to logical indices of another.
        here: Type of the tensor that the accesses start from.
        there: Type of the tensor that they lead to.
    """
    return tuple([physical_access(access, here, there) for access in accesses])


def linear(accesses: Accesses, here: Type, there: Type) -> Accesses:
    """Return the accesses between linear positions in memory, counted in elements.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> column = parse_type("f32[4,8]{0,1}")
    >>> same = (Access(IndexingMap.identity((4, 8))),)
    >>> moved = linear(same, parse_type("f32[4,8]{1,0}"), column)[0].map
    >>> [moved.evaluate((position,)) for position in (0, 1, 8, 9)]
    [(0,), (4,), (1,), (5,)]
    """
    if not isinstance(here, TensorType) or not isinstance(there, TensorType):
        return accesses
    try:
        start, end = _from_address(here), address_map(there)
    except UnsupportedError as error:
        return (Access.unknown(error.message),)
    # The affine arithmetic bounds variables by 64-bit integers.
    if max((*here.shape, *there.shape), default=0) > POS_INF:
        return (Access.unknown("an index does not fit into 64 bits"),)
    found = []
    for access in accesses:
        both = compose(Access(start), access)
        both = compose(both, Access(end)) if both is not None else None
        if both is not None:
            found.append(_shortened(both, access, here, there))
    return tuple(found)


def _shortened(both: Access, access: Access, here: TensorType, there: TensorType) -> Access:
    """Return `both`, but with the result `d0` if `access` keeps every position in memory.

    It does if it is an identity between arrays of equal layout. `both` is the composition of
    `access` with the maps between positions and indices. It splits the position into digits and
    recombines them; with padded tiles no rule of the simplifier finds that these are all digits of
    the position.
    """
    same, m = access.map, both.map
    if same is None or m is None or same.results != first_dims(here.rank):
        return both
    if same.ranges or same.runtime or same.constraints:
        return both
    if here.shape != there.shape or address_map(here) != address_map(there):
        return both
    return replace(both, map=m.with_(results=(Dim(0),)))


def _from_address(type: TensorType) -> IndexingMap:
    """Return the map from a linear position in memory, in elements, to the logical index."""
    sizes = placed_sizes(type)
    total = prod(sizes)
    if total == 0:
        return IndexingMap((below(0),), results=[0] * type.rank)
    index, inside = unplace(reshaped([Dim(0)], (total,), sizes), type)
    return IndexingMap((Variable(Interval(0, total - 1)),), (), (), index, inside)
