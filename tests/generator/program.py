"""Generated programs: values, nodes with regions, and what regions capture.

One program is spelt as HLO and as StableHLO.  Its regions may read every value that is visible
where they stand; the printer of HLO hands such values in, where HLO has a way to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tests.generator.value_types import Type

ASYNC: Final = "async "
"""What precedes the name of an op in StableHLO that `async_start` holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value; equal to itself only."""

    type: Type


@dataclass(frozen=True, slots=True)
class Spelling:
    """The name of an op and its attributes, as one of the languages writes them.

    In attributes of HLO, `%0` stands for the name of the computation made of region 0.
    """

    name: str
    attributes: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Parameters, nodes, and the values that are returned."""

    params: tuple[Value, ...]
    nodes: tuple[Node, ...]
    results: tuple[Value, ...]

    @property
    def function(self) -> tuple[object, ...]:
        """Equal for regions that are one function, which several nodes call."""
        return self.params, self.results, tuple([node.results for node in self.nodes])


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An op with its operands, results and regions.

    Attributes:
        hlo: Its spelling in HLO, `None` where HLO does not have it.
        mlir: Its spelling in StableHLO.
        masks: May values keep a result from showing what it depends on?
    """

    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    regions: tuple[Region, ...] = ()
    hlo: Spelling | None = None
    mlir: Spelling | None = None
    masks: bool = False

    @property
    def name(self) -> str:
        spelling = self.mlir or self.hlo
        assert spelling is not None
        return spelling.name.removeprefix(ASYNC)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The entry, and the number of processes that run it."""

    entry: Region
    replicas: int = 1
    seed: int | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that have all of its ops."""
        every = list(walk(self.entry))
        return tuple(
            language
            for language in ("hlo", "mlir")
            if all(getattr(node, language) is not None for node in every)
        )

    @property
    def masks(self) -> bool:
        """May values keep results from showing what they depend on?"""
        return any(node.masks for node in walk(self.entry))


def walk(region: Region) -> Iterator[Node]:
    """All nodes, those of regions after the node they belong to."""
    for node in region.nodes:
        yield node
        for inner in node.regions:
            yield from walk(inner)


def captured(region: Region) -> tuple[Value, ...]:
    """The values a region reads that are not its own, nested regions included, each once."""
    own = {*region.params, *(value for node in region.nodes for value in node.results)}
    reads = [value for node in region.nodes for value in read(node)]
    return tuple(dict.fromkeys(v for v in (*reads, *region.results) if v not in own))


def read(node: Node) -> tuple[Value, ...]:
    """The operands, then what the regions capture, each once."""
    inner = [value for region in node.regions for value in captured(region)]
    return tuple(dict.fromkeys((*node.operands, *inner)))


def renamed(region: Region, new: Mapping[Value, Value]) -> Region:
    """The region with values replaced wherever they are read."""

    def of(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple([new.get(value, value) for value in values])

    nodes = [
        replace(n, operands=of(n.operands), regions=tuple([renamed(r, new) for r in n.regions]))
        for n in region.nodes
    ]
    return Region(region.params, tuple(nodes), of(region.results))


def live(region: Region) -> Region:
    """The region without the nodes whose results nobody reads."""
    needed, kept = set(region.results), []
    for node in reversed(region.nodes):
        if needed.isdisjoint(node.results):
            continue
        kept.append(replace(node, regions=tuple(map(live, node.regions))))
        needed.update(read(kept[-1]))
    return Region(region.params, tuple(reversed(kept)), region.results)


def without_unread_parameters(program: Program) -> Program:
    """The program with the parameters that something reads."""
    entry = live(program.entry)
    needed = {*entry.results, *(value for node in entry.nodes for value in read(node))}
    params = tuple([p for p in entry.params if p in needed])
    return replace(program, entry=Region(params, entry.nodes, entry.results))


def isolated(node: Node) -> Program:
    """The program of one node, whose parameters are what the node reads."""
    return Program(Region(read(node), (node,), node.results))
