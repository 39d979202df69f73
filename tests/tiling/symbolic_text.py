"""The symbolic tiles of a fusion in the format of XLA's analysis, up to white space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from hloscope.display import opcode_of
from hloscope.hlo_parser import print_instruction
from hloscope.support.walks import nested
from hloscope.tiling import SymbolicTiles, TiledNode


def symbolic_text(tiles: SymbolicTiles) -> str:
    """Every tiled instruction with its symbolic tile and map, and its regions in braces."""
    names: dict[TiledNode, str] = {}
    taken: Counter[str] = Counter()
    for node in nested(tiles.nodes, lambda node: [*chain.from_iterable(node.regions)]):
        name = node.instruction.name
        names[node] = f"{name}.tile_{taken[name]}"
        taken[name] += 1
    return "\n".join(_lines(tiles.nodes, names))


def _lines(nodes: Sequence[TiledNode], names: Mapping[TiledNode, str]) -> Iterator[str]:
    for node in nodes:
        operands = ", ".join(names[n] for n in node.operands)
        yield f"{names[node]} = {opcode_of(node.instruction)}({operands})"
        yield f"hlo: {print_instruction(node.instruction)}"
        yield node.tile.text("")
        yield f"indexing map: {node.map}"
        if node.runtime:
            yield f"runtime variables: {', '.join(names[n] for n in node.runtime)}"
        if node.regions:
            yield f"regions sizes: [{', '.join(str(len(r)) for r in node.regions)}]"
        for k, region in enumerate(node.regions):
            yield f"region {k} {{"
            yield from _lines(region, names)
            yield "}"
