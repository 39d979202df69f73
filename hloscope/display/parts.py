"""The parts of an access as short texts, for the other files of this package.

The text of a map states the bounds of every dimension variable, which are nearly always those of
the tensor that the access starts from. The texts here leave these out: they state what is accessed,
and under which conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hloscope.affine import Dim, Expr, Range, Runtime, Var, to_text, variables
from hloscope.indexing import Access, Constraint, IndexingMap, MapTexts, RuntimeVariable, map_texts

_OPEN: Final = 1 << 62
"""Bounds from here on count as infinite: no dimension has so many elements."""


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
    """The texts about an access from a tensor with these sizes.

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
    if m.is_known_empty or m.is_undefined:
        return ()
    hidden: set[Var] = {Runtime(i) for i, v in enumerate(m.runtime) if v.is_every}
    for k, (v, size) in enumerate(zip(m.dims, sizes, strict=False)):
        if v.interval.lo == 0 and v.interval.hi == size - 1:
            hidden.add(Dim(k))
    return tuple(_conditions(m, texts, m.names, hidden))


def in_sizes(m: IndexingMap) -> str:
    """A map whose variables have bounds in terms of runtime sizes; empty if it has none.

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
    """Yield bounds of variables that are not hidden, constraints, and definitions of names."""
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
    """Yield a constraint for each variable without an upper bound of its own."""
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
    """The source of each runtime variable's value, `rt0 = start[d0]`; empty for an empty map."""
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
    if not variable.via:
        return ""
    positions = ", ".join(to_text(e, m.names) for e in variable.positions)
    return f" on replica ({positions}) of {', '.join(ins.name for ins in variable.via)}"


def _subscript(m: IndexingMap, variable: RuntimeVariable) -> str:
    index = ", ".join(to_text(e, m.names) for e in variable.index)
    return f"[{index}]" if index else ""


def runtime_map(m: IndexingMap, results: Sequence[Expr]) -> str:
    """Return a map from the variables of `m` to the given results, as text.

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
