"""The symbolic tiles of a fusion in the format of XLA's analysis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from hloscope.display.answer import opcode_of
from hloscope.hlo_parser import print_instruction
from hloscope.tiling import SymbolicTiles, TiledNode
from hloscope.walks import nested


def symbolic_text(tiles: SymbolicTiles) -> str:
    """Every tiled instruction with its symbolic tile and map; regions are indented."""
    return "\n".join(_Printer(tiles).lines(tiles.nodes, ""))


class _Printer:
    """Names for tiles: the instruction's name with a number."""

    def __init__(self, tiles: SymbolicTiles) -> None:
        self._names: Final[dict[int, str]] = {}
        taken: dict[str, int] = {}
        for node in nested(tiles.nodes, lambda node: [*chain.from_iterable(node.regions)]):
            name = node.instruction.name
            self._names[id(node)] = f"{name}.tile_{taken.get(name, 0)}"
            taken[name] = taken.get(name, 0) + 1

    def lines(self, nodes: Sequence[TiledNode], indent: str) -> Iterator[str]:
        """The lines of some nodes and of the regions in them."""
        todo: list[tuple[TiledNode | str, str]] = [(node, indent) for node in reversed(nodes)]
        while todo:
            node, indent = todo.pop()
            if isinstance(node, str):
                yield indent + node
                continue
            yield from self._node(node, indent)
            for k, region in reversed([*enumerate(node.regions)]):
                todo.append(("}", indent + "  "))
                todo += [(inner, indent + "    ") for inner in reversed(region)]
                todo.append((f"region {k} {{", indent + "  "))

    def _node(self, node: TiledNode, indent: str) -> Iterator[str]:
        operands = ", ".join(self._names[id(n)] for n in node.operands)
        yield f"{indent}{self._names[id(node)]} = {opcode_of(node.instruction)}({operands})"
        inner = indent + "  "
        yield f"{inner}hlo: {print_instruction(node.instruction)}"
        yield node.tile.text(inner).replace(f"\n{inner}  ", f"\n{inner}")
        yield f"{inner}indexing map: {node.map}"
        if node.runtime:
            read = ", ".join(self._names[id(n)] for n in node.runtime)
            yield f"{inner}runtime variables: {read}"
        if node.regions:
            yield f"{inner}regions sizes: [{', '.join(str(len(r)) for r in node.regions)}]"
