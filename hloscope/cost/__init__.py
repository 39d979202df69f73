"""Cost of a program: kernels, how often they run, bytes, flops, bounds of time, groups by cause."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.cost.flops import Flops as Flops
    from hloscope.cost.footprints import (
        ArrayFootprint as ArrayFootprint,
        Footprint as Footprint,
        Footprints as Footprints,
        Run as Run,
    )
    from hloscope.cost.runs import Place as Place, running as running
    from hloscope.cost.trip_counts import (
        known_trip_count as known_trip_count,
        trip_count as trip_count,
    )
    from hloscope.cost.triton import (
        TritonRatings as TritonRatings,
        TritonUse as TritonUse,
        is_triton as is_triton,
        triton_rating as triton_rating,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
