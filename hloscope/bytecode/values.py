"""What attributes and types of bytecode are in memory: made of their fields, and taken apart.

Each way to be is a pair of functions by the name a row gives it: one makes the value of the fields
and raises `ValueError` where there is no such value; the other gives the fields of a value.  What
else stands in the row (the name of an enum, say) is the first argument of both.
"""

from __future__ import annotations

from typing import Final

from hloscope.bytecode.attribute_ways import ATTRIBUTE_WAYS
from hloscope.bytecode.element_ways import ELEMENT_WAYS
from hloscope.bytecode.locations import LOCATION_WAYS
from hloscope.bytecode.memref_ways import MEMREF_WAYS
from hloscope.bytecode.resources import RESOURCE_WAYS
from hloscope.bytecode.type_ways import TYPE_WAYS
from hloscope.bytecode.ways import Way

WAYS: Final[dict[str, Way]] = {
    **TYPE_WAYS,
    **MEMREF_WAYS,
    **ATTRIBUTE_WAYS,
    **ELEMENT_WAYS,
    **LOCATION_WAYS,
    **RESOURCE_WAYS,
}
"""Every way by its name in rows."""
