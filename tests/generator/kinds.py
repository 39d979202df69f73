"""What generated programs are made of, counted by kind.

    python -m tests.generator.kinds [--count N] [--ops]

prints in how many programs of each language each kind occurs.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.generator import generate, options_of, walk
from tests.generator.program import ASYNC, Node, Program, Region, Value, captured
from tests.generator.value_types import Tuple, Type, leaves

COLLECTIVES: Final = {
    "stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.all_to_all",
    "stablehlo.collective_broadcast", "stablehlo.collective_permute", "stablehlo.reduce_scatter",
    "all-to-all",
}  # fmt: skip
"""Ops by which processes meet; the last, of tuples, is HLO's alone."""
CALLS: Final = {"func.call", "stablehlo.composite", "async-start"}
SIZED: Final = {
    "stablehlo.dynamic_broadcast_in_dim", "stablehlo.dynamic_gather", "stablehlo.dynamic_iota",
    "stablehlo.dynamic_pad", "stablehlo.dynamic_reshape", "stablehlo.real_dynamic_slice",
}  # fmt: skip
RUNTIME: Final = {"stablehlo.dynamic_slice": 1, "stablehlo.dynamic_update_slice": 2}
"""Ops that index at run time, and the first operand that is an index."""
INDEXED: Final = {"stablehlo.gather", "stablehlo.scatter", "stablehlo.dynamic_gather"}
PARTIAL: Final = {"stablehlo.slice", "stablehlo.dynamic_slice", "stablehlo.gather"}
"""Ops that read a part of their first operand."""
BRANCHES: Final = {"stablehlo.if", "stablehlo.case"}
SCALAR: Final = {
    "stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.scatter", "stablehlo.map",
    "stablehlo.sort", "stablehlo.select_and_scatter",
}  # fmt: skip
"""Ops whose bodies compute with scalars."""
ARITHMETIC: Final = {
    "stablehlo.add", "stablehlo.subtract", "stablehlo.multiply", "stablehlo.minimum",
    "stablehlo.maximum", "stablehlo.remainder", "stablehlo.select", "stablehlo.clamp",
}  # fmt: skip


@dataclass(slots=True)
class _Walk:
    """The kinds of one program."""

    found: set[str] = field(default_factory=set)
    makers: dict[Value, Node] = field(default_factory=dict)
    chained: dict[Value, int] = field(default_factory=dict)
    """How many collectives are on the longest path to a value."""
    steps: dict[Value, int] = field(default_factory=dict)
    """How many ops are on it."""

    def region(self, region: Region, around: tuple[str, ...] = ()) -> None:
        for node in region.nodes:
            for result in node.results:
                self.makers[result] = node
            self.kinds(node, around)
            self.outer(node, set(captured(region)), around)
            self.paths(node)
            for inner in node.regions:
                self.captures(inner, len(around))
                self.handed(inner, node.operands)
                self.region(inner, (*around, node.name))
            ends = [v for inner in node.regions for v in inner.results]
            most = max((self.chained.get(v, 0) for v in ends), default=0)
            self.raised(node.results, self.chained, most)

    def handed(self, region: Region, operands: Iterable[Value]) -> None:
        most = max((self.chained.get(v, 0) for v in operands), default=0)
        self.raised(region.params, self.chained, most)

    @staticmethod
    def raised(values: Iterable[Value], to: dict[Value, int], count: int) -> None:
        for value in values:
            to[value] = max(to.get(value, 0), count)

    def paths(self, node: Node) -> None:
        most = max((self.chained.get(v, 0) for v in node.operands), default=0)
        most += node.name in COLLECTIVES
        self.raised(node.results, self.chained, most)
        if most > 1:
            self.found.add(f"chain of {min(most, 3)}{' or more' * (most >= 3)} collectives")
        steps = 1 + max((self.steps.get(v, 0) for v in node.operands), default=0)
        self.raised(node.results, self.steps, steps)
        if steps >= 64:
            self.found.add("chain of 64 ops")

    def captures(self, region: Region, depth: int) -> None:
        outer = captured(region)
        if outer:
            self.found.add("captures")
        inner = {v for n in region.nodes for r in n.regions for v in captured(r)}
        if not inner.isdisjoint(outer):
            self.found.add("captures through two levels")
        for value in outer:
            if isinstance(value.type, Tuple):
                self.found.add("captured tuple")
            elif value.type.bounded:
                self.found.add("captured bounded dimension")

    def kinds(self, node: Node, around: tuple[str, ...]) -> None:
        """Of one node, and where it stands."""
        found, name = self.found, node.name
        if node.regions:
            found.add(f"regions {min(len(around) + 1, 5)} deep")
        if name in CALLS and around:
            found.add("call in a body")
            if any(outer not in CALLS for outer in around):
                found.add("call in the body of another op")
        if name in COLLECTIVES:
            found.add("collective")
            for outer in around:
                found.add(f"collective in {'call' if outer in CALLS else outer.partition('.')[2]}")
        for value in (*node.operands, *node.results):
            self.type(value.type)
        self.indices(node)
        self.spelling(node)

    def outer(self, node: Node, outer: set[Value], around: tuple[str, ...]) -> None:
        """What a node in a region does with values from around it."""
        if not around:
            return
        if node.name in PARTIAL and node.operands[0] in outer:
            self.found.add("part of a captured value")
        if not outer.isdisjoint(indices_of(node)) and around[-1] in BRANCHES:
            self.found.add("branch indexes with a captured value")
        if node.regions and not SCALAR.isdisjoint(around):
            self.found.add("region in a body of scalars")

    def indices(self, node: Node) -> None:
        """How what is indexed with at run time came to be."""
        for index in indices_of(node):
            maker = self.makers.get(index)
            if maker is None or not maker.operands:
                self.found.add("index handed in" if maker is None else "index of a constant")
            elif maker.regions:
                self.found.add("index from a region")
            elif maker.name in ARITHMETIC:
                self.found.add("index from arithmetic")

    def spelling(self, node: Node) -> None:
        """What only names and attributes say."""
        spellings = [s for s in (node.hlo, node.mlir) if s is not None]
        names = " ".join(s.name for s in spellings)
        text = " ".join(s.attributes for s in spellings)
        if "-start" in names or ASYNC in names:
            inner = node.name in CALLS
            self.found.add(f"asynchronous {'call' if inner else 'op'}")
            if node.name in COLLECTIVES:
                self.found.add("asynchronous collective")
        if "harding" in text:
            self.found.add("sharding")
        if "batching_dims" in text and node.name in INDEXED:
            self.found.add(f"{node.name.partition('.')[2]} with batching dimensions")
        if "custom_call" in node.name:
            self.found.add(f"custom call{' with layouts' * ('layout' in text)}")
        if node.name in SIZED:
            self.found.add("sizes or places as operands")

    def type(self, type_: Type) -> None:
        if isinstance(type_, Tuple):
            self.found.add("tuple")
            if any(isinstance(part, Tuple) for part in type_.parts):
                self.found.add("tuple of tuples")
        for leaf in leaves(type_):
            if 0 in leaf.sizes:
                self.found.add("empty tensor")
            if leaf.bounded:
                self.found.add("bounded dimension")
            if leaf.unknown:
                self.found.add("size that no type tells")
            if leaf.layout is not None:
                self.found.add("layout")


def indices_of(node: Node) -> tuple[Value, ...]:
    """The operands that say at run time where elements are."""
    if node.name in INDEXED:
        return node.operands[1:2]
    return node.operands[RUNTIME.get(node.name, len(node.operands)) :]


def kinds(program: Program) -> set[str]:
    """The kinds of things that occur in a program, ops and families of ops included."""
    walk = _Walk()
    for param in program.entry.params:
        walk.type(param.type)
    walk.region(program.entry)
    return walk.found


def table(counts: Mapping[str, Counter[str]], total: int) -> str:
    """Kinds in rows, languages in columns."""
    names = sorted({kind for some in counts.values() for kind in some})
    width = max(map(len, names))
    head = f"{f'of {total:,} programs':<{width}}" + "".join(f"{c:>8}" for c in counts)
    rows = [f"{n:<{width}}" + "".join(f"{c[n]:>8,}" for c in counts.values()) for n in names]
    return "\n".join([head, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--ops", action="store_true", help="count ops instead")
    given = parser.parse_args()
    counts: dict[str, Counter[str]] = {"hlo": Counter(), "mlir": Counter()}
    for language, found in counts.items():
        for seed in range(given.count):
            program = generate(seed, options_of(seed, language))
            names = {node.name for node in walk(program.entry)}
            found.update(names if given.ops else kinds(program))
    print(table(counts, given.count))


if __name__ == "__main__":
    main()
