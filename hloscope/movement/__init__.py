"""Data movement: what reshapes, transposes, copies and broadcasts do together, and what cancels."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.movement.bitcasts import (
        BitcastParts as BitcastParts,
        decompose_bitcast as decompose_bitcast,
    )
    from hloscope.movement.rearranging import (
        Rearrangement as Rearrangement,
        combined as combined,
        flat as flat,
        split_transposed as split_transposed,
    )
    from hloscope.movement.reshapes import (
        MinimalReshape as MinimalReshape,
        ReshapeCategory as ReshapeCategory,
        minimal_reshapes as minimal_reshapes,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
