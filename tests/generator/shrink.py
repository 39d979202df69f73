"""Smaller programs of which the same still holds.

A candidate leaves out results, nodes, parts of loops or branches, puts a parameter or another value
in the place of what a node computes, puts the nodes of a region in the place of the node, or makes
sizes smaller.  It need not be a right program: the predicate says whether it is one that counts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from tests.generator.program import (
    Node,
    Program,
    Region,
    Spelling,
    Value,
    captured,
    renamed,
    walk,
    without_unread_parameters,
)
from tests.generator.stablehlo_text import CALLS
from tests.generator.value_types import Tensor, Tuple, Type

T = TypeVar("T")

BRANCHES: Final = {"stablehlo.if", "stablehlo.case"}
LOOP: Final = "stablehlo.while"
VARIADIC: Final = {
    "stablehlo.reduce": 2,
    "stablehlo.reduce_window": 2,
    "stablehlo.sort": 1,
    "stablehlo.map": 1,
}
"""Ops of several operands, and how many operands belong to each result."""


def shrink(program: Program, holds: Callable[[Program], bool], *, seconds: float = 20.0) -> Program:
    """The smallest program found for which `holds` is true, as it is for the given one.

    Args:
        program: Where to begin.
        holds: Is it still true?  A candidate that cannot be spelt or verified should give `False`.
        seconds: When to stop trying.
    """
    end = time.monotonic() + seconds
    found = True
    while found:
        found = False
        for candidate in candidates(program):
            smaller = without_unread_parameters(candidate)
            if time.monotonic() > end:
                return program
            if measure(smaller) < measure(program) and holds(smaller):
                program, found = smaller, True
                break
    return program


def measure(program: Program) -> tuple[int, int, int]:
    """How large a program is: nodes with regions count more, then elements, then captures."""
    nodes = list(walk(program.entry))
    weight = sum(4 + 6 * len(n.regions) + len(n.operands) + 2 * len(n.results) for n in nodes)
    values = [*program.entry.params, *(v for n in nodes for v in n.results)]
    values += [p for n in nodes for r in n.regions for p in r.params]
    weight += len(program.entry.params) + 3 * len(program.entry.results)
    elements = sum(_elements(v.type) for v in values)
    outer = sum(len(captured(r)) for n in nodes for r in n.regions)
    return weight, elements, outer


def _elements(type_: Type) -> int:
    if isinstance(type_, Tuple):
        return 1 + sum(map(_elements, type_.parts))
    return 1 + type_.count + sum(type_.sizes) + 2 * len(type_.bounded)


def candidates(program: Program) -> Iterator[Program]:
    """Programs that are a little smaller."""
    entry = program.entry
    if len(entry.results) > 1:
        for result in entry.results:
            yield replace(program, entry=Region(entry.params, entry.nodes, (result,)))
    for node in list(walk(entry)):
        yield from _without(program, node)
    for node in list(walk(entry)):
        yield from _inlined(program, node)
        yield from _narrower(program, node)
    for node in entry.nodes:  # what computes an operand may be a root
        values = [v for v in node.operands if v not in entry.params]
        for value in values:
            yield replace(program, entry=Region(entry.params, entry.nodes, (value,)))
    for node in list(walk(entry)):
        for k, operand in enumerate(node.operands):
            if operand not in entry.params:
                fresh = Value(operand.type)
                operands = (*node.operands[:k], fresh, *node.operands[k + 1 :])
                yield _with_parameters(
                    _replaced(program, node, [replace(node, operands=operands)], {}), [fresh]
                )
    yield from _merged(program)
    yield from _smaller_sizes(program)


# ----------------------------------------------------------------------------------- one node less


def _without(program: Program, node: Node) -> Iterator[Program]:
    """The node is gone: its results are parameters, or values that are there already."""
    fresh = [Value(result.type) for result in node.results]
    new = dict(zip(node.results, fresh, strict=True))
    yield _with_parameters(_replaced(program, node, [], new), fresh)
    for operand in node.operands:
        if all(result.type == operand.type for result in node.results):
            yield _replaced(program, node, [], dict.fromkeys(node.results, operand))


def _inlined(program: Program, node: Node) -> Iterator[Program]:
    """The nodes of a region stand where the node stood."""
    for region in node.regions:
        if node.name == LOOP and region is node.regions[0]:
            continue
        params = node.operands
        if len(params) < len(region.params) or len(region.results) != len(node.results):
            continue
        inner = renamed(region, dict(zip(region.params, params, strict=False)))
        if [v.type for v in inner.results] == [v.type for v in node.results]:
            new = dict(zip(node.results, inner.results, strict=True))
            yield _replaced(program, node, list(inner.nodes), new)


def _narrower(program: Program, node: Node) -> Iterator[Program]:
    """A part less: a result, a branch, a pair of operands."""
    for k in range(len(node.results)):
        if len(node.results) == 1:
            break
        if node.name in BRANCHES or node.name in CALLS:
            regions = tuple([replace(r, results=_but(r.results, k)) for r in node.regions])
            made = replace(node, results=_but(node.results, k), regions=regions)
        elif node.name == LOOP:
            made = _without_part(node, k)
        elif node.name in VARIADIC:
            made = _without_pair(node, k)
        else:
            continue
        fresh = Value(node.results[k].type)
        changed = _replaced(program, node, [made], {node.results[k]: fresh})
        yield _with_parameters(changed, [fresh])
    if node.name == "stablehlo.case" and len(node.regions) > 1:
        assert node.hlo is not None
        count = len(node.regions) - 1
        names = ", ".join(f"%{k}" for k in range(count))
        spelling = Spelling(node.hlo.name, f"branch_computations={{{names}}}")
        for k in range(len(node.regions)):
            regions = _but(node.regions, k)
            yield _replaced(program, node, [replace(node, regions=regions, hlo=spelling)], {})


def _without_part(node: Node, k: int) -> Node:
    """A loop without a part of its value: the regions read what it began as."""
    regions = []
    for which, region in enumerate(node.regions):
        inner = renamed(region, {region.params[k]: node.operands[k]})
        results = inner.results if which == 0 else _but(inner.results, k)
        regions.append(Region(_but(region.params, k), inner.nodes, results))
    return replace(
        node,
        operands=_but(node.operands, k),
        results=_but(node.results, k),
        regions=tuple(regions),
    )


def _without_pair(node: Node, k: int) -> Node:
    """Without the operands of one result, and the parameters of the body that stand for them."""
    count = len(node.results)
    (region,) = node.regions
    params = region.params
    if node.name == "stablehlo.sort":
        kept = tuple(p for i, p in enumerate(params) if i // 2 != k)
    else:
        kept = tuple(p for i, p in enumerate(params) if i % count != k)
    gone = [p for p in params if p not in kept]
    same = {p: next((q for q in kept if q.type == p.type), kept[0]) for p in gone}
    inner = renamed(region, same)
    results = inner.results if node.name == "stablehlo.sort" else _but(inner.results, k)
    return replace(
        node,
        operands=tuple(o for i, o in enumerate(node.operands) if i % count != k),
        results=_but(node.results, k),
        regions=(Region(kept, inner.nodes, results),),
    )


# ----------------------------------------------------------------------------------------- values


def _merged(program: Program) -> Iterator[Program]:
    """Two parameters of one type are one."""
    params = program.entry.params
    for i, old in enumerate(params):
        for new in params[:i]:
            if new.type == old.type:
                yield replace(program, entry=renamed(program.entry, {old: new}))
                break


def _smaller_sizes(program: Program) -> Iterator[Program]:
    """One size less by one, in types and attributes."""
    values = [*program.entry.params, *(v for n in walk(program.entry) for v in n.results)]
    sizes = {n for v in values for t in _tensors(v.type) for n in t.sizes}
    for size in sorted(sizes, reverse=True):
        if size > 0:
            yield replace(program, entry=_resized(program.entry, size, {}))


def _resized(region: Region, size: int, known: dict[Value, Value]) -> Region:
    def value(old: Value) -> Value:
        if old not in known:
            known[old] = Value(_shorter(old.type, size))
        return known[old]

    def spelling(old: Spelling | None) -> Spelling | None:
        if old is None or not old.attributes or old.name in ("constant", "stablehlo.constant"):
            return old
        text = re.sub(rf"(?<![\w%]){size}(?!\w)", str(size - 1), old.attributes)
        return Spelling(old.name, text)

    nodes = [
        replace(
            node,
            operands=tuple(map(value, node.operands)),
            results=tuple(map(value, node.results)),
            regions=tuple([_resized(r, size, known) for r in node.regions]),
            hlo=spelling(node.hlo),
            mlir=spelling(node.mlir),
        )
        for node in region.nodes
    ]
    params = tuple(map(value, region.params))
    return Region(params, tuple(nodes), tuple(map(value, region.results)))


def _shorter(type_: Type, size: int) -> Type:
    if isinstance(type_, Tuple):
        return Tuple(tuple(_shorter(part, size) for part in type_.parts))
    return replace(type_, sizes=tuple(n - 1 if n == size else n for n in type_.sizes))


def _tensors(type_: Type) -> Iterator[Tensor]:
    if isinstance(type_, Tensor):
        yield type_
    else:
        for part in type_.parts:
            yield from _tensors(part)


# --------------------------------------------------------------------------------------- rewriting


def _replaced(
    program: Program, old: Node, new: Sequence[Node], values: Mapping[Value, Value]
) -> Program:
    """The program with nodes in the place of one, wherever it is, and values renamed."""

    def of(region: Region) -> Region:
        nodes: list[Node] = []
        for node in region.nodes:
            if node is old:
                nodes += new
            elif node.regions:
                nodes.append(replace(node, regions=tuple(map(of, node.regions))))
            else:
                nodes.append(node)
        return Region(region.params, tuple(nodes), region.results)

    return replace(program, entry=renamed(of(program.entry), values))


def _with_parameters(program: Program, values: Sequence[Value]) -> Program:
    entry = program.entry
    return replace(program, entry=Region((*entry.params, *values), entry.nodes, entry.results))


def _but(items: tuple[T, ...], k: int) -> tuple[T, ...]:
    return (*items[:k], *items[k + 1 :])
