"""Maps through graphs: fusions, calls, loops, whole computations."""

from hloscope.fusion.analysis import Analysis
from hloscope.fusion.leaves import leaf_types
from hloscope.fusion.physical import linear, physical
from hloscope.fusion.region import Region, epilogue, grouped

__all__ = ["Analysis", "Region", "epilogue", "grouped", "leaf_types", "linear", "physical"]
