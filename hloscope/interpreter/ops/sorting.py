"""Evaluation of `sort` and `top_k`, and the search for keys in comparators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from hloscope.interpreter.numbers.floats import total_order
from hloscope.interpreter.ops.reduction import Lifted, computing, lifted
from hloscope.interpreter.registry import (
    LIFTED,
    Kernel,
    Region,
    Site,
    evaluates,
    kernel,
    load_families,
)
from hloscope.interpreter.values import Array, EvaluationError, Value, World, dtype_of
from hloscope.ir import Computation, Instruction, TensorType
from hloscope.ops import Compare, Constant, Return, Sort, TopK

# --------------------------------------------------------------------------------------------------
# Sorting by comparators.
#
# A comparator that compares keys of the two sides one after another, such as `a < b`, is replaced
# by its keys (`sort_keys`), and numpy sorts by them.  Any other comparator is applied to whole
# arrays in a merge sort, in `log2(n)**2 / 2` calls.  If the merge sort finds it inconsistent, which
# NaNs can cause, it is applied to one pair at a time.  All three sorts are stable. Source:
# StableHLO spec `sort`.


_PRED: Final = np.dtype(bool)
_FLOATS: Final = tuple(map(np.dtype, ("float16", "float32", "float64")))
_LOW: Final = (1 << 32) - 1


def sortable(x: Array) -> Array:
    """Return integers in the same order as the elements of `x`: -0 equals +0, NaNs are last.

    >>> sortable(np.array([1.0, -2.0, np.nan, -0.0])).argsort().tolist()
    [1, 3, 0, 2]
    """
    x = x.astype(computing(x.dtype), copy=False)
    if x.dtype.kind == "b":
        return x.view(np.uint8)
    if x.dtype.kind != "f":
        return x
    return np.asarray(total_order(x.dtype)(np.where(np.isnan(x), np.nan, x + 0).astype(x.dtype)))


def order_of(keys: list[Array], axis: int) -> Array:
    """Return the indices along `axis` that sort by the integers `keys`, as `argsort` does.

    The sort is stable. `keys` are arrays of one shape, the most significant key first.
    """
    if not keys[0].size:  # numpy would sort one line after another
        return np.zeros(keys[0].shape, np.int64)
    if len(keys) > 1:
        return np.lexsort(keys[::-1], axis)
    (key,) = keys
    count = key.shape[axis]
    if key.dtype.itemsize > 4 or count > _LOW:
        return np.argsort(key, axis, kind="stable")
    # Key and position packed in one integer: a plain sort of these is stable, and faster than
    # `argsort`.  It needs keys of 32 bits and positions below 2 ** 32.
    if key.dtype == np.uint32:  # as signed numbers of the same order
        key = (key ^ np.uint32(1 << 31)).view(np.int32)
    shape = [1] * key.ndim
    shape[axis] = count
    packed = key.astype(np.int64) << 32
    packed |= np.arange(count).reshape(shape)
    packed.sort(axis)
    packed &= _LOW
    return packed


@evaluates(Sort)
def _sort(op: Sort, at: Site) -> Kernel:
    """Return the kernel of `sort`: by keys if the comparator has them, else by a merge sort."""
    keys = sort_keys(at.ins.calls[0], at.world)

    def kernel(regions: tuple[Region, ...], *operands: Array) -> Value:
        axis = op.dimension % max(operands[0].ndim, 1)
        if operands[0].ndim == 0 or operands[0].shape[axis] < 2:
            return at.value(operands)
        if (
            len(operands) == 1
            and len(keys) == 1
            and (whole := _sort_values(keys[0], *operands, axis))
        ):
            return at.value(whole)
        if keys:
            order = order_of([_integers(k, operands) for k in keys], axis)
        else:
            order = _merge_order(regions[0], operands, axis)
        return at.value(tuple([np.take_along_axis(x, order, axis) for x in operands]))

    return kernel


def _integers(key: SortKey, operands: tuple[Array, ...]) -> Array:
    """Return integers in the order of the key's values.

    For a descending key, in the opposite order.
    """
    values = np.broadcast_to(np.asarray(key.compute(operands)), operands[0].shape)
    ordered = total_order(values.dtype)(values) if key.is_total else sortable(values)
    return ~ordered if key.is_descending else ordered


def _sort_values(key: SortKey, x: Array, axis: int) -> tuple[Array, ...]:
    """Return the only operand of a sort, `x`, sorted by its values along `axis`, in a tuple.

    The tuple is empty if values with equal keys may differ, such as -0 and +0.
    """
    if key.operand is None:
        return ()
    if key.is_total and x.dtype in _FLOATS:
        ints = np.sort(total_order(x.dtype)(x), axis)
        size = np.iinfo(ints.dtype).max
        # The map to total-order integers is its own inverse.
        result = (ints ^ ((ints >> (8 * ints.itemsize - 1)) & size)).view(x.dtype)
    elif x.dtype.kind in "biu":
        result = np.sort(x, axis)
    else:
        return ()
    return (np.flip(result, axis) if key.is_descending else result,)


# ------------------------------------------------------------------------------ any comparator


def _merge_order(region: Region, operands: tuple[Array, ...], axis: int) -> Array:
    """Return the indices along `axis` that sort `operands` by any comparator `region`.

    It is a merge sort. All pairs of neighbouring blocks are merged in one step; there are about
    log2(n) steps. If the comparator is no strict weak order, elements are sorted one by one.
    """
    less = lifted(region, (_PRED,))
    values = [np.moveaxis(x, axis, 0) for x in operands]
    shape = values[0].shape
    lines = [x.reshape(shape[0], -1) for x in values]
    order = np.broadcast_to(np.arange(shape[0])[:, None], lines[0].shape)
    width = 1
    while width < shape[0]:
        places = _merged_indices(less, [np.take_along_axis(x, order, 0) for x in lines], width)
        merged = np.full_like(order, -1)
        np.put_along_axis(merged, places, order, 0)
        # If two elements have the same new index, another index has no element: the comparator is
        # not a strict weak order.
        if (merged < 0).any():
            order = _one_by_one(region, lines)
            break
        order = merged
        width *= 2
    return np.moveaxis(order.reshape(shape), 0, axis)


def _merged_indices(less: Lifted, lines: list[Array], width: int) -> Array:
    """Return the index of each element after neighbouring sorted blocks are merged.

    The new index of an element is its index in its own block plus the number of elements of the
    other block that come before it, counted from the start of the pair. Before an element of the
    left block come the smaller elements of the right one. Before an element of the right block come
    the elements of the left one that are not greater, which makes the merge stable.

    Args:
        less: The comparator, applied to arrays.
        lines: The sort's operands as matrices of equal shape, whose columns are sorted.
        width: Number of elements of a block.
    """
    count = len(lines[0])
    index = np.arange(count)[:, None]
    is_left = index // width % 2 == 0
    other = np.where(is_left, index // width + 1, index // width - 1) * width
    size = np.clip(count - other, 0, width)
    low = np.zeros(lines[0].shape, np.int64)
    high = np.broadcast_to(size, low.shape)
    # A binary search in the other block, for all elements at once.
    while (open_ := low < high).any():
        middle = (low + high) // 2
        probe = np.minimum(other + middle, count - 1)
        arguments = []
        for x in lines:
            there = np.take_along_axis(x, probe, 0)
            arguments += [np.where(is_left, there, x), np.where(is_left, x, there)]
        (found,) = less(*arguments)
        before = (found == is_left) & open_
        low = np.where(before, middle + 1, low)
        high = np.where(open_ & ~before, middle, high)
    own = index - np.where(is_left, 0, width)
    return own + low


def _one_by_one(region: Region, lines: list[Array]) -> Array:
    """Return the indices that sort each column of the arrays by a comparator of scalars.

    `lines` are the sort's operands as matrices of equal shape.
    """
    order: Array = np.empty(lines[0].shape, np.int64)
    for line in range(order.shape[1]):

        def compare(i: int, j: int, line: int = line) -> int:
            pairs: list[Any] = [x[k, line] for x in lines for k in (i, j)]
            return -1 if region(*pairs)[0] else 0

        order[:, line] = sorted(range(len(order)), key=cmp_to_key(compare))
    return order


# --------------------------------------------------------------------------------------- top_k


@evaluates(TopK)
def _top_k(op: TopK, at: Site) -> Kernel:
    """Return the kernel of `top_k`; NaN is the greatest value, equal elements keep their order."""
    values, indices = tuple(at.results)
    assert isinstance(values, TensorType)
    assert isinstance(indices, TensorType)
    is_float = values.element.kind == "float"
    total = total_order(dtype_of(values.element)) if is_float else sortable
    kind = dtype_of(indices.element)

    def kernel(x: Array) -> Value:
        if x.dtype.kind == "c":
            raise EvaluationError("complex numbers have no order")
        if not x.size:
            return x[..., : op.k], np.zeros((*x.shape[:-1], op.k), kind)
        keys = np.asarray(total(x))
        order = order_of([~keys if op.largest else keys], x.ndim - 1)
        first = order[..., : op.k]
        return np.take_along_axis(x, first, -1), first.astype(kind)

    return kernel


# --------------------------------------------------------------------------------------------------
# Keys of sort comparators, so that numpy can sort by them.


class SortKey(NamedTuple):
    """One key of a comparator that compares keys one after another.

    Attributes:
        compute: Function from the sort's operands to the keys of all elements.
        operand: Index of the sort's operand that is the key itself; `None` if the key is computed.
        is_descending: Does the greater key come first?
        is_total: Are floats compared in the total order of IEEE 754?
    """

    compute: Callable[[Sequence[Array]], Value]
    operand: int | None
    is_descending: bool
    is_total: bool


class _Found(NamedTuple):
    """One comparison in a comparator: the instruction that is the left key, direction and order.

    `is_total` is true if floats are compared in the total order of IEEE 754.
    """

    left: Instruction
    is_descending: bool
    is_total: bool


_Sides: TypeAlias = dict[Instruction, tuple[int, int]]
"""For each parameter of a comparator, its side (0 left, 1 right) and the index of its operand."""


def sort_keys(comparator: Computation, world: World) -> list[SortKey]:
    """Return the keys that a comparator compares, most significant first.

    The list is empty if the comparator has another form than `f(left) < f(right)`, or `first or
    (tie and rest)`, where `tie` compares the key of `first` for equality and `rest` has one of
    these forms.
    """
    load_families()
    sides = {p: (i % 2, i // 2) for i, p in enumerate(comparator.body.parameters)}
    root = comparator.body.root
    return [
        SortKey(
            _key_function(found.left, sides, world),
            sides[found.left][1] if found.left in sides else None,
            found.is_descending,
            found.is_total,
        )
        for found in _keys(root.operands[0] if isinstance(root.op, Return) else root, sides)
    ]


def _keys(ins: Instruction, sides: _Sides) -> list[_Found]:
    """Return the keys of a comparator with the result `ins`; empty for another form.

    `sides` has the comparator's parameters.
    """
    if ins.op.name == "compare":
        key = _key(ins, sides)
        return [key] if key else []
    if ins.op.name != "or":
        return []
    for first, rest in (ins.operands, ins.operands[::-1]):
        key = _key(first, sides) if first.op.name == "compare" else None
        if key is None or rest.op.name != "and":
            continue
        for tie, later in (rest.operands, rest.operands[::-1]):
            if _is_tie(tie, key, sides) and (keys := _keys(later, sides)):
                return [key, *keys]
    return []


def _settings(ins: Instruction) -> tuple[str, bool]:
    """Return the direction of a comparison, and whether it uses the total order of floats."""
    op, type_ = ins.op, ins.operands[0].type
    assert isinstance(op, Compare)
    is_float = isinstance(type_, TensorType) and type_.element.kind == "float"
    return op.comparison_direction, is_float and op.compare_type == "TOTALORDER"


def _key(ins: Instruction, sides: _Sides) -> _Found | None:
    """Return the key that the comparison `ins` compares; `None` if it has another form.

    It must compare the same function of the left and of the right parameters, by `LT` or `GT`.
    """
    direction, is_total = _settings(ins)
    a, b = ins.operands
    if direction not in ("LT", "GT"):
        return None
    if isinstance(a.type, TensorType) and a.type.element.kind == "complex":
        return None
    if _same(a, b, sides, 1):
        return _Found(a, direction == "GT", is_total)
    if _same(b, a, sides, 1):
        return _Found(b, direction == "LT", is_total)
    return None


def _is_tie(ins: Instruction, key: _Found, sides: _Sides) -> bool:
    """Does `ins` compare `key` of the left and of the right side for equality, in either order?"""
    if ins.op.name != "compare" or _settings(ins)[0] != "EQ":
        return False
    return any(
        _same(key.left, left, sides, 0) and _same(key.left, right, sides, 1)
        for left, right in (ins.operands, ins.operands[::-1])
    )


def _same(left: Instruction, other: Instruction, sides: _Sides, side: int) -> bool:
    """Is `other` the same function of side `side`'s parameters as `left` is of the left ones?"""
    work, seen = [(left, other)], set()
    while work:
        x, y = pair = work.pop()
        if pair in seen:
            continue
        seen.add(pair)
        if x in sides:
            if sides[x][0] or sides.get(y) != (side, sides[x][1]):
                return False
            continue
        if x.type != y.type or x.op != y.op or len(x.operands) != len(y.operands):
            return False
        # Keys are computed on whole arrays, which only elementwise ops allow.
        if type(x.op) not in LIFTED and not isinstance(x.op, Constant):
            return False
        work.extend(zip(x.operands, y.operands, strict=True))
    return True


def _key_function(
    root: Instruction, sides: _Sides, world: World
) -> Callable[[Sequence[Array]], Value]:
    """Return a function from the sort's operands, whole arrays, to all values of `root`.

    `sides` has the comparator's parameters; the operands stand for those of either side.
    """
    steps: list[tuple[Instruction, Kernel]] = []
    done: set[Instruction] = set()
    work = [root]
    while work:
        ins = work[-1]
        missing = [o for o in ins.operands if o not in done and o not in sides]
        if missing and ins not in sides:
            work += missing
            continue
        work.pop()
        if ins not in sides and ins not in done:
            done.add(ins)
            steps.append((ins, kernel(ins, world)))

    def compute(operands: Sequence[Array]) -> Value:
        known: dict[Instruction, Any] = {p: operands[k] for p, (_, k) in sides.items()}
        for ins, function in steps:
            known[ins] = function(*[known[o] for o in ins.operands])
        return known[root]  # type: ignore[no-any-return]

    return compute
