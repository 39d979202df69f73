"""Boxes of elements: the sides are evenly spaced indices, `[3, 0:32, 1:9:2]` as text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from math import prod
from typing import TypeAlias

from hloscope.affine import POS_INF, Const, Dim, Expr, Range, Sum, Var, substitute
from hloscope.indexing import Access

Index: TypeAlias = tuple[int, ...]
Box: TypeAlias = tuple[range, ...]


def boxes_of(points: Collection[Index]) -> tuple[Box, ...]:
    """Disjoint boxes of evenly spaced indices whose union is exactly `points`.

    >>> [box_text(box) for box in boxes_of([(1, 0), (1, 2), (1, 4), (2, 0), (2, 2), (2, 4)])]
    ['[1:3, 0:5:2]']
    """
    return _boxes(frozenset(points), {})


def _boxes(
    points: frozenset[Index], known: dict[frozenset[Index], tuple[Box, ...]]
) -> tuple[Box, ...]:
    if not points:
        return ()
    if points in known:
        return known[points]
    if not next(iter(points)):
        return ((),)
    # Recursion over the first dimension: indices whose slices consist of the same boxes form the
    # first side, split into runs. Slices often repeat, so results are cached by their points.
    rows: dict[int, list[Index]] = {}
    for first, *rest in points:
        rows.setdefault(first, []).append(tuple(rest))
    equal: dict[tuple[Box, ...], list[int]] = {}
    for first in sorted(rows):
        equal.setdefault(_boxes(frozenset(rows[first]), known), []).append(first)
    found = [
        (side, *box) for inner, firsts in equal.items() for side in _runs(firsts) for box in inner
    ]
    found.sort(key=lambda box: [side.start for side in box])
    known[points] = tuple(found)
    return known[points]


def _runs(numbers: Sequence[int]) -> Iterator[range]:
    """Split ascending numbers into evenly spaced runs; a run of two must be consecutive numbers."""
    at = 0
    while at < len(numbers):
        end = at + 1
        step = numbers[end] - numbers[at] if end < len(numbers) else 1
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        if end - at == 2 and step > 1:
            end = at + 1
        step = step if end - at > 1 else 1
        yield range(numbers[at], numbers[end - 1] + 1, step)
        at = end


def side_size(side: range) -> int:
    """The number of indices of a side, of any size; `len` is limited to 63 bits.

    >>> side_size(range(0, 2**64, 3)) == -(-(2**64) // 3), side_size(range(3, 1))
    (True, 0)
    """
    return max(0, -((side.start - side.stop) // side.step))


def box_size(box: Iterable[range]) -> int:
    """The number of elements of a box."""
    return prod(map(side_size, box))


def box_text(box: Box) -> str:
    """A box as slices: `[3, 0:32, 1:9:2]`."""
    return f"[{', '.join(map(_side_text, box))}]"


def _side_text(side: range) -> str:
    if side_size(side) == 1:
        return str(side.start)
    step = f":{side.step}" if side.step > 1 else ""
    return f"{side.start}:{side.stop}{step}"


def whole_box(access: Access, at: Index) -> tuple[Box, ...] | None:
    """The only box that an access reads at `at`, as a tuple; empty if it reads nothing.

    `None` if the elements may be no box.
    """
    m = access.map
    if m is None or m.is_undefined or m.constraints or m.runtime:
        return None
    if any(v.interval.hi >= POS_INF for v in m.ranges):  # where it ends is not known
        return None
    if m.is_known_empty or any(v not in d.interval for v, d in zip(at, m.dims, strict=True)):
        return ()
    here: dict[Var, Expr] = {Dim(i): Const(v) for i, v in enumerate(at)}
    # The elements are a box if each result is a constant or depends on one range variable, and no
    # variable occurs in two results: then every combination of side values occurs.
    sides: list[range] = []
    used: set[Expr] = set()
    for result in m.results:
        match substitute(result, here):
            case Const(value):
                sides.append(range(value, value + 1))
            case Range() as variable if variable not in used:
                used.add(variable)
                i = m.ranges[variable.index].interval
                sides.append(range(i.lo, i.hi + 1))
            case Sum(((Range() as variable, c),), const) if variable not in used and c > 0:
                used.add(variable)
                i = m.ranges[variable.index].interval
                sides.append(range(const + c * i.lo, const + c * i.hi + 1, c))
            case _:
                return None
    return (tuple(sides),)


def outermost(boxes: Sequence[Box]) -> list[Box]:
    """The boxes that are not inside another one."""
    distinct = list(dict.fromkeys(boxes))
    return [b for b in distinct if not any(b is not o and _is_inside(b, o) for o in distinct)]


def _is_inside(inner: Box, outer: Box) -> bool:
    return all(
        i.start in o and i[-1] in o and (i.step % o.step == 0 or side_size(i) == 1)
        for i, o in zip(inner, outer, strict=True)
    )
