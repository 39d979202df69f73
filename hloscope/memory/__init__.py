"""Thread maps, coalescing, sectors, banks and footprints: what kernels move.

>>> from hloscope.memory import device_of
>>> device_of("h100").warp
32
"""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.memory.choice import Choice as Choice
    from hloscope.memory.devices import (
        DEFAULT as DEFAULT,
        DEVICES as DEVICES,
        Device as Device,
        device_of as device_of,
    )
    from hloscope.memory.emitting import kernel_of as kernel_of
    from hloscope.memory.fused import Fused as Fused
    from hloscope.memory.kernel import (
        Kernel as Kernel,
        Launch as Launch,
        Reading as Reading,
        SharedAccess as SharedAccess,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
