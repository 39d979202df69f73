"""Parts of an access as short texts, boxes of its elements, and sizes of arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Final, NamedTuple, TypeAlias

from hloscope.affine import (
    POS_INF,
    Const,
    Dim,
    Expr,
    Range,
    Runtime,
    Sum,
    Var,
    substitute,
    to_text,
    variables,
)
from hloscope.indexing import Access, Constraint, IndexingMap, MapTexts, RuntimeVariable, map_texts
from hloscope.ir import Type, array_bytes, size_text

# --------------------------------------------------------------------------------------------------
# The parts of an access as short texts, for the other files of this package.
#
# The text of a map states the bounds of every dimension variable, which are nearly always those of
# the tensor that the access starts from. The texts here leave these out: they state what is
# accessed, and under which conditions.


_OPEN: Final = 1 << 62
"""Bounds of at least this value count as infinite; no dimension has so many elements."""


class AccessParts(NamedTuple):
    """Texts about one access.

    Attributes:
        arrow: The map without its domain, `(d0)[s0] -> (d0, s0)`.
        element: The accessed index, `(d0, s0)`.
        where: Bounds and constraints other than those of the tensor that the access starts from,
            and definitions of names for parts of long expressions, one text each.
        origins: For each runtime variable, `rt0 = %start[d0]`.
        claim: `exact`, or the precision and its reason.
    """

    arrow: str
    element: str
    where: tuple[str, ...]
    origins: tuple[str, ...]
    claim: str


def access_parts(access: Access, sizes: Sequence[int]) -> AccessParts:
    """Return texts about an access from a tensor with these sizes.

    >>> m = IndexingMap.parse("(d0, d1)[s0] -> (d0, s0), domain: d0 in [0, 7], d1 in [1, 3], "
    ...                       "s0 in [0, 9], d1 + s0 in [0, 9]")
    >>> parts = access_parts(Access(m), [8, 4])
    >>> parts.arrow
    '(d0, d1)[s0] -> (d0, s0)'
    >>> parts.where
    ('d1 in [1, 3]', 's0 in [0, 9]', 'd1 + s0 in [0, 9]')
    """
    claim = str(access.precision)
    if access.reason:
        claim += f": {access.reason}"
    m = access.map
    if m is None:
        return AccessParts("anything", "anything", (), (), claim)
    texts = map_texts(m)
    arrow = texts.arrow
    element = arrow.partition(" -> ")[2] or arrow
    if access.replica is not None:
        replica = map_texts(access.replica).arrow.partition(" -> ")[2]
        of = f" of {', '.join(ins.name for ins in access.via)}" if len(access.via) > 1 else ""
        arrow += f" on replica {replica}{of}"
        element += f" on replica {replica}{of}"
    return AccessParts(arrow, element, _where(m, texts, sizes), runtime_origins(m), claim)


def _where(m: IndexingMap, texts: MapTexts, sizes: Sequence[int]) -> tuple[str, ...]:
    """Return the conditions of a map, except bounds that every index of the tensor fulfils.

    Args:
        m: The map.
        texts: Texts of the map.
        sizes: Sizes of the tensor that the map starts from.
    """
    if m.is_known_empty or m.is_undefined:
        return ()
    hidden: set[Var] = {Runtime(i) for i, v in enumerate(m.runtime) if v.is_every}
    for k, (v, size) in enumerate(zip(m.dims, sizes, strict=False)):
        if v.interval.lo == 0 and v.interval.hi == size - 1:
            hidden.add(Dim(k))
    return tuple(_conditions(m, texts, m.names, hidden))


def in_sizes(m: IndexingMap) -> str:
    """Return a map whose variables are bounded by run-time sizes, as text.

    Empty if no variable is.

    >>> text = "(d0){n} -> (d0), domain: d0 in [0, 9223372036854775806], n in [0, 99], d0 - n in "
    >>> in_sizes(IndexingMap.parse(text + "[-9223372036854775808, -1]"))
    '(d0){n} -> (d0), domain: d0 in [0, n - 1], n in [0, 99]'
    """
    if not any(v.interval.hi >= _OPEN for v in (*m.dims, *m.ranges)):
        return ""
    texts = map_texts(m)
    return f"{texts.arrow}, domain: {', '.join(_conditions(m, texts, m.names, set()))}"


def _conditions(
    m: IndexingMap, texts: MapTexts, names: Mapping[Var, str], hidden: set[Var]
) -> Iterator[str]:
    """Yield bounds of variables not in `hidden`, constraints, and definitions of names, as text.

    Args:
        m: The map.
        texts: Texts of the map.
        names: Name of each variable.
        hidden: Variables whose bounds are not stated.
    """
    # A variable of a dimension with an unknown size has no upper bound; the constraint with the
    # size, as a runtime variable, is shown in place of it.
    ends = dict(_size_ends(m))
    written = zip(m.constraints, texts.constraints, strict=True)
    rest = [text for c, text in written if c not in ends.values()]
    last = {v: to_text(v - c[0] + c[1].hi, names) for v, c in ends.items()}
    for v, i in m.box.items():
        if v in last or v not in hidden:
            open_end = i.hi >= _OPEN and v not in last
            if open_end and i.lo > -_OPEN:
                yield f"{names[v]} >= {i.lo}"
            elif not open_end:
                yield f"{names[v]} in [{i.lo}, {last.get(v, i.hi)}]"
    for e, i in rest:
        if i.hi >= _OPEN:
            yield f"{e} >= {i.lo}"
        elif i.lo <= -_OPEN:
            yield f"{e} <= {i.hi}"
        else:
            yield f"{e} in [{i.lo}, {i.hi}]"
    for name, text in texts.parts:
        yield f"{name} = {text}"


def _size_ends(m: IndexingMap) -> Iterator[tuple[Var, Constraint]]:
    """Yield, for each variable of a map without an upper bound, a constraint that bounds it.

    The bound consists of run-time values only. A variable without such a constraint is left out.
    """
    found: set[Var] = set()
    for e, i in m.constraints:
        for v in variables(e):
            box = m.box.get(v)
            is_open = box is not None and box.hi >= _OPEN and i.lo <= -_OPEN
            if isinstance(v, Runtime) or v in found or not is_open:
                continue
            # The constraint is `v` minus runtime values: solved for `v`, it is an upper bound.
            if all(isinstance(other, Runtime) for other in variables(e - v)):
                found.add(v)
                yield v, (e, i)
                break


def runtime_origins(m: IndexingMap) -> tuple[str, ...]:
    """Return the source of each runtime variable's value as text, `rt0 = start[d0]`.

    Empty for an empty map.
    """
    if not m.runtime or m.is_known_empty:
        return ()
    names = m.names
    own = list(names.values())[len(m.dims) + len(m.ranges) :]
    return tuple(
        f"{name} = {source_text(variable)}{_subscript(m, variable)}{_device(m, variable)}"
        for name, variable in zip(own, m.runtime, strict=True)
    )


def source_text(variable: RuntimeVariable) -> str:
    """Return the name of the tensor that a runtime variable is read from, or its position.

    >>> m = IndexingMap.parse("(d0){rt0} -> (rt0), domain: d0 in [0, 7], rt0 in [0, 3]")
    >>> source_text(m.runtime[0])
    '?'
    """
    if variable.collective is not None:
        what = "every" if variable.is_every else "own"
        return f"{what} position in {variable.collective.name}"
    return variable.origin.name if variable.origin else "?"


def _device(m: IndexingMap, variable: RuntimeVariable) -> str:
    """Return as text the replica from which a variable of a map is read; empty for the own one."""
    if not variable.via:
        return ""
    positions = ", ".join(to_text(e, m.names) for e in variable.positions)
    return f" on replica ({positions}) of {', '.join(ins.name for ins in variable.via)}"


def _subscript(m: IndexingMap, variable: RuntimeVariable) -> str:
    """Return as text the index at which a variable of map `m` is read; empty for a scalar."""
    index = ", ".join(to_text(e, m.names) for e in variable.index)
    return f"[{index}]" if index else ""


def runtime_map(m: IndexingMap, results: Sequence[Expr]) -> str:
    """Return a map with the variables of `m` and the given results, as text.

    >>> m = IndexingMap.parse("(d0, d1){rt0} -> (d0 + rt0), domain: d0 in [0, 7], d1 in [0, 3], "
    ...                       "rt0 in [0, 2]")
    >>> runtime_map(m, (Dim(1),))
    '(d0, d1) -> (d1), domain: d0 in [0, 7], d1 in [0, 3]'
    """
    used = variables(*results)
    return str(
        m.with_(
            ranges=m.ranges if any(isinstance(v, Range) for v in used) else (),
            runtime=m.runtime if any(isinstance(v, Runtime) for v in used) else (),
            results=results,
            constraints=(),
        )
    )


# --------------------------------------------------------------------------------------------------
# Boxes of elements: the sides are evenly spaced indices, `[3, 0:32, 1:9:2]` as text.


Index: TypeAlias = tuple[int, ...]
Box: TypeAlias = tuple[range, ...]


def boxes_of(points: Collection[Index]) -> tuple[Box, ...]:
    """Return disjoint boxes of evenly spaced indices whose union is exactly `points`.

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
    """Split ascending numbers into evenly spaced runs.

    A run of two must be of consecutive numbers.
    """
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
    """Return the number of indices in a range, of any size; `len` is limited to 63 bits.

    >>> side_size(range(0, 2**64, 3)) == -(-(2**64) // 3), side_size(range(3, 1))
    (True, 0)
    """
    return max(0, -((side.start - side.stop) // side.step))


def box_size(box: Iterable[range]) -> int:
    """Return the number of elements of a box."""
    return prod(map(side_size, box))


def box_text(box: Box) -> str:
    """Return a box as slices: `[3, 0:32, 1:9:2]`."""
    return f"[{', '.join(map(_side_text, box))}]"


def _side_text(side: range) -> str:
    if side_size(side) == 1:
        return str(side.start)
    step = f":{side.step}" if side.step > 1 else ""
    return f"{side.start}:{side.stop}{step}"


def whole_box(access: Access, at: Index) -> tuple[Box, ...] | None:
    """Return the box of the elements that an access reads from index `at`.

    The result has one box, or none if nothing is read. `None` if the elements may not be a box.
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
    """Return the distinct boxes that are not inside another one."""
    distinct = list(dict.fromkeys(boxes))
    return [b for b in distinct if not any(b is not o and _is_inside(b, o) for o in distinct)]


def _is_inside(inner: Box, outer: Box) -> bool:
    return all(
        i.start in o and i[-1] in o and (i.step % o.step == 0 or side_size(i) == 1)
        for i, o in zip(inner, outer, strict=True)
    )


# --------------------------------------------------------------------------------------------------
# Sizes of arrays as text and JSON: the data, and the padding of tiles if there is any.


def padded_text(type: Type) -> str:
    """Return the bytes of a type as text, with padded bytes if there are more.

    Empty if an array has a size without a bound.

    >>> from hloscope.hlo_parser import parse_type
    >>> padded_text(parse_type("f32[12582912,1]{1,0:T(8,128)}"))
    '48 MiB (6 GiB padded)'
    """
    found = array_bytes(type)
    return "" if found is None else size_text(found.data) + padding_text(type)


def padding_text(type: Type) -> str:
    """Return the padded bytes of a type in brackets, after a space; empty without padding."""
    found = array_bytes(type)
    if found is None or found.padded == found.data:
        return ""
    return f" ({size_text(found.padded)} padded)"


def bytes_json(type: Type) -> dict[str, int]:
    """Return `bytes` and `padded_bytes` of a type; empty if an array has a size without a bound."""
    found = array_bytes(type)
    return {} if found is None else {"bytes": found.data, "padded_bytes": found.padded}
