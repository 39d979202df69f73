"""StableHLO and CHLO: text, syntax tree and program graph."""

from __future__ import annotations

from hloscope.stablehlo.reading import parse_stablehlo

__all__ = ["parse_stablehlo"]
