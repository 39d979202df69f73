"""StableHLO text → module: the syntax tree, and the program graph of it."""

from __future__ import annotations

from hloscope.dialects import DIALECTS
from hloscope.ir import no_collection
from hloscope.mlir import parse_mlir
from hloscope.stablehlo.graph import TreeModule, to_graph


def parse_stablehlo(text: str, *, name: str = "<string>") -> TreeModule:
    """Read a module of StableHLO.

    Functions are computations whose root is a `Return`; so are regions, which may read values from
    outside.  The entry is the function `main`, else the first public one.  Bodies are made from the
    syntax tree when somebody asks for them; `tree` is the tree.

    Args:
        text: MLIR text; a module, or what stands in one.
        name: What error messages call the text.

    Raises:
        ParseError: The text is not in the grammar, or names something that does not exist.
        VerifyError: There is no function.

    >>> module = parse_stablehlo('''
    ... func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
    ...   %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    ...   return %0 : tensor<3x2xf32>
    ... }''')
    >>> module.entry["0"].op
    Transpose(permutation=(1, 0))
    """
    with no_collection():
        return to_graph(parse_mlir(text, name, dialects=DIALECTS))
