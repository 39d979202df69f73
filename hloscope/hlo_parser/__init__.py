"""HLO text ⇄ the program graph."""

from __future__ import annotations

from hloscope.hlo_parser.reader import parse_hlo, parse_hlo_all

__all__ = ["parse_hlo", "parse_hlo_all"]
