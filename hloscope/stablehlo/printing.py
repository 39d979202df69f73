"""Printing of StableHLO programs as MLIR text."""

from __future__ import annotations

from typing import Literal

from hloscope.dialects import DIALECTS
from hloscope.ir import Module
from hloscope.mlir import Operation, print_mlir
from hloscope.stablehlo.builder import Builder
from hloscope.stablehlo.tree import to_mlir


def print_stablehlo(
    program: Operation | Module | Builder,
    *,
    generic: bool = False,
    locations: bool = False,
    names: Literal["mlir", "source"] = "mlir",
) -> str:
    """Print a program as MLIR text, with the same characters as MLIR's own tools.

    Args:
        program: A syntax tree, a module of the program graph, or a builder.
        generic: Print all ops in the generic form.
        locations: Print the locations of ops.
        names: Number values as MLIR does, or keep the names they have.

    Raises:
        UnsupportedError: StableHLO does not have an op of the graph.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> text = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    >>> print(print_stablehlo(parse_stablehlo(text)), end="")
    module {
      func.func @f(%arg0: tensor<2xf32>) -> tensor<2xf32> {
        return %arg0 : tensor<2xf32>
      }
    }
    """
    if isinstance(program, Builder):
        program = program.module
    tree = program if isinstance(program, Operation) else to_mlir(program)
    return print_mlir(tree, dialects=DIALECTS, generic=generic, locations=locations, names=names)
