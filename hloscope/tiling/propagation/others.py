"""Op families through which tiles are not propagated, each with its reason."""

from __future__ import annotations

from typing import Final

from hloscope.ops import OPS, PartitionId, ReduceWindow, ReplicaId, SelectAndScatter
from hloscope.tiling.propagation.registry import refuse

_OVERLAP: Final = "windows overlap: neighbouring tiles need the same elements"
_AT_RUN_TIME: Final = "where elements come from or go to is read at run time"
_FAMILIES: Final = {
    "batch_norm": "it is several reductions and products in one; decomposed it can be tiled",
    "checking": "it observes a run, and computes nothing",
    "convolution": _OVERLAP,
    "dynamic": "its sizes are known at run time",
    "gather_scatter": _AT_RUN_TIME,
    "linalg": "an element depends on whole matrices or lines",
    "random": "its numbers depend on a state, not on elements",
    "transfers": "it talks to the host or to another device",
}
"""Reasons by family why its ops have no rules."""

for _cls in OPS.values():
    if _reason := _FAMILIES.get(_cls.__module__.rpartition(".")[2]):
        refuse(_cls, reason=_reason)
refuse(ReduceWindow, reason=_OVERLAP)
refuse(SelectAndScatter, reason=_AT_RUN_TIME)
refuse(PartitionId, ReplicaId, reason="it has no operands; its value is the device's number")
