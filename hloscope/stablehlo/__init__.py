"""StableHLO and CHLO: text, syntax tree and program graph."""

from __future__ import annotations

from hloscope.mlir.sniff import is_mlir
from hloscope.stablehlo.reading import parse_stablehlo

__all__ = ["is_mlir", "parse_stablehlo"]
