"""StableHLO and CHLO text → the program graph."""

from __future__ import annotations

from hloscope.stablehlo.reader import is_mlir, parse_stablehlo

__all__ = ["is_mlir", "parse_stablehlo"]
