"""Programs whose float arithmetic keeps to moderate numbers, so that nothing is absorbed.

Where a sum is taken with a number like 2^64, a float of the size of 1 is lost, though the sum
depends on it.  `moderate` follows each sum and product by a sine of a steep line: numbers stay
between -1 and 1, and however many steps follow each other, small differences grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tests.generator.program import Node, Program, Region, Spelling, Value
from tests.generator.value_types import Tensor

_GROWS: Final = {
    "stablehlo.add",
    "stablehlo.multiply",
    "stablehlo.dot_general",
    "stablehlo.convolution",
}
_FACTOR: Final = "61.0"
_SHIFT: Final = "0.375"


def moderate(program: Program) -> Program:
    """The program with the same parameters and results, whose every result depends on the same."""
    return replace(program, entry=_moderated(program.entry))


def _moderated(region: Region) -> Region:
    nodes: list[Node] = []
    for node in region.nodes:
        inner = replace(node, regions=tuple(map(_moderated, node.regions)))
        type_ = node.results[0].type if node.results else None
        is_floats = isinstance(type_, Tensor) and type_.element == "f32"
        if node.name in _GROWS and is_floats and not type_.unknown:  # a constant has known sizes
            nodes += _followed(inner, type_)
        else:
            nodes.append(inner)
    return Region(region.params, tuple(nodes), region.results)


def _followed(node: Node, type_: Tensor) -> Iterator[Node]:
    """The node, then the sine of a line of what it computes, which takes its place."""
    large, scaled, moved = Value(type_), Value(type_), Value(type_)
    yield replace(node, results=(large,))
    factor, shift = Value(type_), Value(type_)
    yield from _constant(factor, type_, _FACTOR)
    yield from _constant(shift, type_, _SHIFT)
    yield _node("multiply", (large, factor), scaled)
    yield _node("add", (scaled, shift), moved)
    yield _node("sine", (moved,), node.results[0])


def _constant(value: Value, type_: Tensor, text: str) -> Iterator[Node]:
    scalar = value if type_.sizes == () else Value(Tensor("f32"))
    yield Node(
        (),
        (scalar,),
        hlo=Spelling("constant", text),
        mlir=Spelling("stablehlo.constant", f"value = dense<{text}> : tensor<f32>"),
    )
    if scalar is not value:
        yield Node(
            (scalar,),
            (value,),
            hlo=Spelling("broadcast", "dimensions={}"),
            mlir=Spelling("stablehlo.broadcast_in_dim", "broadcast_dimensions = array<i64>"),
        )


def _node(name: str, operands: tuple[Value, ...], result: Value) -> Node:
    return Node(operands, (result,), hlo=Spelling(name), mlir=Spelling(f"stablehlo.{name}"))
