"""A violation: an element that changes an output element, and is not in its maps."""

from __future__ import annotations

from msgspec import Struct

from hloscope.fusion import leaf_types
from hloscope.interpreter import Value
from hloscope.proof.elements import Place
from hloscope.proof.instance import Instance


class Violation(Struct, frozen=True, eq=False):
    """An element that changes an output element, and is not in its maps.

    Attributes:
        instance: The test program.
        before: Values of the sources, device by device.
        after: Values of the sources with one element changed.
        place: Output, source, leaf of the source.
        index: Index of the changed element.
        output: Index of the output element that changes.
        values: Text of the output element before and after.
        devices: Devices of the changed element and of the output element.
    """

    instance: Instance
    before: tuple[Value, ...]
    after: tuple[Value, ...]
    place: Place
    index: tuple[int, ...]
    output: tuple[int, ...]
    values: tuple[str, str]
    devices: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        changed, output = (f"({', '.join(map(str, i))})" for i in (self.index, self.output))
        at = f", at {self.instance.shapes}" if self.instance.shapes else ""
        source = self.instance.sources[self.place[1]].type
        of = f" of tensor {self.place[2]}" if len(leaf_types(source)) > 1 else ""
        here, there = "", ""
        if self.instance.devices.count > 1:
            here, there = (f" on device {device}" for device in self.devices)
        return (
            f"element {changed}{of}{here} moves output element {output}{there} from"
            f" {self.values[0]} to {self.values[1]}{at}, which is not in the maps"
        )
