"""Passes: from a module to a module."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.passes.constant_folding import (
        MAX_BYTES as MAX_BYTES,
        MAX_ELEMENTS as MAX_ELEMENTS,
        MAX_STEPS as MAX_STEPS,
        fold as fold,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
