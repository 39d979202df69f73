"""HLO text ⇄ the program graph."""

from __future__ import annotations

from hloscope.hlo_parser.printer import print_hlo
from hloscope.hlo_parser.reader import parse_hlo, parse_hlo_all

__all__ = ["parse_hlo", "parse_hlo_all", "print_hlo"]
