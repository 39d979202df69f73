"""Categorical colours that are legible on light and on dark pages."""

from __future__ import annotations

from typing import Final

COLOURS: Final = (
    "#3b82c4", "#e08a2e", "#4c9f70", "#b0679f", "#c9564c", "#8a7fd0", "#7d8f2e", "#3fa3a3",
)  # fmt: skip
"""In order, neighbours being most unlike; white text is readable on each."""
