"""Single instructions from one line of text, and their maps as sets of pairs of indices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product
from typing import TypeAlias

import numpy as np

from hloscope.affine import Dim, Range, Runtime, Var, evaluate
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Access, IndexingMap
from hloscope.indexing.rules.registry import leaves, sizes
from hloscope.ir.graph import Instruction

BODIES = """
first { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] copy(a) }
second { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }
ge_first {
  a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GE
}
ge_second {
  a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  ROOT r = pred[] compare(c, d), direction=GE
}
add_pairs {
  a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  e = f32[] add(a, c) f = f32[] add(b, d)
  ROOT r = (f32[], f32[]) tuple(e, f)
}
add_both {
  a = f32[] parameter(0) b = f32[] parameter(1) e = f32[] add(a, b)
  ROOT r = (f32[], f32[]) tuple(e, e)
}
add_rows {
  a = f32[3] parameter(0) b = f32[3] parameter(1) e = f32[3] add(a, b)
  ROOT r = (f32[3], f32[3]) tuple(e, e)
}
reverse_rows {
  a = f32[3] parameter(0) b = f32[3] parameter(1) c = f32[3] reverse(a), dimensions={0}
  e = f32[3] add(c, b)
  ROOT r = (f32[3], f32[3]) tuple(e, e)
}
"""

Pair: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Index asked about, index touched, position in the replica group (or `()`)."""


def instruction(text: str) -> Instruction:
    """The instruction `type opcode(operand types), attributes`; its operands are parameters."""
    found = re.match(r"(.*?) ([\w-]+)\((.*?)\)((?:, .*)?)$", text.strip(), re.S)
    assert found, text
    type, opcode, inside, attributes = found.groups()
    is_literal = opcode in ("constant", "iota")
    operands = [] if is_literal else _split(inside)
    lines = [f"p{k} = {operand} parameter({k})" for k, operand in enumerate(operands)]
    names = inside if is_literal else ", ".join(f"p{k}" for k in range(len(operands)))
    root = f"ROOT r = {type} {opcode}({names}){attributes}"
    used = [b for b in re.split(r"\n(?=\w)", BODIES.strip()) if f"={b.split()[0]}" in attributes]
    body = "\n  ".join([*lines, root])
    return parse_hlo("HloModule m\n" + "\n".join(used) + f"\nENTRY e {{\n  {body}\n}}").entry.root


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


class Values:
    """An array per instruction that a runtime variable reads; the same for every question."""

    def __init__(self, high: int, seed: int = 0) -> None:
        self._known: dict[Instruction | None, np.ndarray] = {None: np.array(1)}
        self._random, self._high = np.random.default_rng(seed), high

    def at(self, origin: Instruction | None, index: tuple[int, ...]) -> int:
        if origin not in self._known:
            assert origin is not None
            shape = sizes(origin.type)
            self._known[origin] = self._random.integers(0, self._high + 1, shape)
        return int(self._known[origin][index])


def pairs(access: Access, values: Values) -> Iterator[Pair]:
    """Every pair of the relation, each runtime variable at its value."""
    map = access.map
    assert map is not None
    if map.is_known_empty:
        return
    fixed = (*map.dims, *map.ranges)
    names: list[Var] = [Dim(k) for k in range(len(map.dims))]
    names += [Range(k) for k in range(len(map.ranges))]
    for point in product(*(range(v.interval.lo, v.interval.hi + 1) for v in fixed)):
        at = dict(zip(names, point, strict=True))
        for k, variable in enumerate(map.runtime):
            index = tuple(evaluate(e, at) for e in variable.index)
            lo, hi = variable.values.lo, variable.values.hi
            at[Runtime(k)] = min(max(values.at(variable.origin, index), lo), hi)
        if all(v.interval.contains(at[Runtime(k)]) for k, v in enumerate(map.runtime)) and all(
            interval.contains(evaluate(e, at)) for e, interval in map.constraints
        ):
            replica = access.replica.results if access.replica else ()
            yield (
                point[: len(map.dims)],
                tuple(evaluate(e, at) for e in map.results),
                tuple(evaluate(e, at) for e in replica),
            )


def relation(accesses: Iterable[Access], values: Values) -> set[Pair]:
    """The union of the accesses."""
    return {pair for access in accesses for pair in pairs(access, values)}


def is_disjoint(accesses: tuple[Access, ...], values: Values) -> bool:
    """Is no pair in two of the maps?"""
    return len(relation(accesses, values)) == sum(len(relation([a], values)) for a in accesses)


def bounds_of(ins: Instruction) -> list[tuple[int, ...]]:
    """Sizes of every output."""
    return [sizes(leaf) for leaf in leaves(ins.type)]


def texts(accesses: Iterable[Access]) -> list[str]:
    """The printed maps, `?` for an unknown one."""
    return ["?" if a.map is None else str(a.map) for a in accesses]


def without_domain(map: IndexingMap | None) -> str:
    """The printed map up to its domain."""
    return str(map).partition(", domain:")[0]
