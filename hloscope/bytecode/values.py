"""All encodings: pairs of functions that make a value from its fields, and return its fields.

Table rows name the encoding. The first function raises `ValueError` if no value has those fields.
Further words of the row, such as the name of an enum, are the first argument of both functions.
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
"""Encodings by the name that table rows give them."""
