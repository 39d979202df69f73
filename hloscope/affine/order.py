"""Order of expressions: the order in which XLA prints summands, the same in every run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    from hloscope.affine.nodes import Expr, Node, Sum

_T = TypeVar("_T")
OrderKey: TypeAlias = tuple[Any, ...]
"""A nested tuple; comparing two gives the order in which XLA prints summands, see `order_key`."""
_set: Final = object.__setattr__


def order_key(e: Expr) -> OrderKey:
    """Return a key that sorts expressions in the order in which XLA prints summands.

    The key treats an expression as a tree of binary operations, associated to the left. Trees
    compare by kind (sum, product, floordiv, ceildiv, mod, max, min, variable, constant), then by
    left operand, then by right operand. Dimensions come before ranges, ranges before runtime
    variables.
    """
    key = e._key
    if key is None:  # a sum computes its key at the first comparison, as most are never compared
        key = _key_of_sum(e)  # type: ignore[arg-type]
        _set(e, "_key", key)
    return key


def _key_of_sum(e: Sum) -> OrderKey:
    key: OrderKey = ()
    for t, c in printed_terms(e):
        right = t._key if c == 1 else (1, t._key, (8, c))
        key = (0, key, right) if key else right  # type: ignore[assignment]
    return (0, key, (8, e.const)) if e.const else key


def printed_terms(e: Sum) -> list[tuple[Expr, int]]:
    """Return the terms of a sum in printing order, where a scaled term sorts as a product.

    >>> from hloscope.affine import Dim
    >>> printed_terms(Dim(0) + Dim(1) * 2)
    [(<d1>, 2), (<d0>, 1)]
    """
    terms = list(e.terms)
    return terms if len(terms) == 1 else by_key(terms, term_key)


def compare(a: Expr | Node, b: Expr | Node) -> int:
    """Compare two expressions in the order in which XLA prints summands.

    Return a negative number if `a` comes first, 0 if the two are equal, else a positive number.
    """
    left, right = order_key(a), order_key(b)  # type: ignore[arg-type]
    return _compare_keys(left, right)


MOST_KNOWN: Final = 1 << 16
"""Maximum number of remembered comparisons; if it is exceeded, all are dropped."""
_KNOWN: Final[dict[tuple[int, int], tuple[OrderKey, OrderKey, int]]] = {}
"""Results of comparisons: the identities of two keys, mapped to the keys and their order.

The keys are held, so that no new object can reuse their identities. The order is negative, zero or
positive.
"""


def _compare_keys(left: OrderKey, right: OrderKey) -> int:
    """Compare two keys of any depth; each pair of subkeys is compared once.

    Returns a negative, zero or positive number. Python's tuple comparison is limited by the C
    stack, and it searches the first difference again at each level.
    """
    if len(_KNOWN) > MOST_KNOWN:
        _KNOWN.clear()
    # Depth-first over pairs of subkeys, with an explicit stack instead of recursion.
    open = [(left, right, zip(left, right, strict=False))]
    while open:
        x, y, rest = open[-1]
        for a, b in rest:
            if a is b:
                continue
            if not isinstance(a, tuple):
                found = int(a > b) - int(a < b)
            elif (known := _KNOWN.get((id(a), id(b)))) is not None:
                found = known[2]
            else:
                open.append((a, b, zip(a, b, strict=False)))
                break
            # The first difference of the innermost pair decides all pairs that contain it.
            if found:
                for x, y, _ in open:
                    _KNOWN[id(x), id(y)] = x, y, found
                return found
        else:
            _KNOWN[id(x), id(y)] = x, y, 0
            open.pop()
    return 0


DEEP: Final = 1 << 12
"""Number of divisions above which a key is a `DeepKey`; shared parts count each time."""


class DeepKey(OrderKey):
    """A tuple key whose comparisons are remembered and do not recurse."""

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __lt__(self, other: OrderKey) -> bool:
        return _compare_keys(self, other) < 0

    def __gt__(self, other: OrderKey) -> bool:
        return _compare_keys(self, other) > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and not _compare_keys(self, other)


_BY_KEY: Final = cmp_to_key(_compare_keys)


def term_key(term: tuple[Expr, int]) -> OrderKey:
    """Return the sort key of the summand `c * e`, where `term` is `(e, c)`.

    The key is that of `e` if `c` is 1, else that of the product.
    """
    key = term[0]._key or ()
    return key if term[1] == 1 else (1, key, (8, term[1]))


STORED: Final = attrgetter("_key")
"""Function that returns the stored key of an expression.

It returns `None` for a sum whose key was not computed yet.
"""


def by_key(items: list[_T], key: Callable[[_T], OrderKey]) -> list[_T]:
    """Sort the list in place by keys of any nesting depth, and return it.

    `key` returns the key of an item.
    """
    try:
        items.sort(key=key)
    except RecursionError:
        items.sort(key=lambda x: _BY_KEY(key(x)))
    return items
