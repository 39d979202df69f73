"""Data movement: what reshapes, transposes, copies and broadcasts do together, and what cancels."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.movement.reshapes import (
        MinimalReshape as MinimalReshape,
        ReshapeCategory as ReshapeCategory,
        minimal_reshapes as minimal_reshapes,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
