"""Maps through graphs: fusions, calls, loops, whole computations."""

from hloscope.fusion.analysis import Analysis, Convention
from hloscope.fusion.leaves import leaf_types
from hloscope.fusion.physical import linear, physical
from hloscope.fusion.region import Region, epilogue, grouped

__all__ = [
    "Analysis",
    "Convention",
    "Region",
    "epilogue",
    "grouped",
    "leaf_types",
    "linear",
    "physical",
]
