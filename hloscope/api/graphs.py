"""A program as a networkx graph."""

from __future__ import annotations

from typing import Any

from hloscope.display import opcodes, shape_text
from hloscope.ir import Module, array_bytes, to_networkx


def program_graph(module: Module) -> Any:
    """The instructions of all computations as one networkx graph; see `Program.to_networkx`."""
    opcode = opcodes()
    names = {ins: f"{computation.name}/{ins.name}" for computation in module for ins in computation}
    graph = to_networkx(names, names)
    for computation in module:
        for ins in computation:
            size = array_bytes(ins.type)
            node = graph.nodes[names[ins]]
            node.clear()
            node.update(
                opcode=opcode(ins),
                shape=shape_text(ins.type),
                computation=computation.name,
                bytes=None if size is None else size.data,
            )
    for _, _, edge in graph.edges(data=True):
        number = edge.pop("operand", None)
        edge.clear()
        edge |= {"kind": "control"} if number is None else {"kind": "operand", "number": number}
    for ins, name in names.items():
        for called in ins.calls:
            graph.add_edge(names[called.root], name, kind="call")
    return graph
