"""Memory accesses of GPU kernels: thread maps, coalescing, banks; XLA's dumps and PTX.

>>> from hloscope.support.devices import device_of
>>> device_of("h100").warp
32
"""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.memory.answers import (
        ArrayUse as ArrayUse,
        BankUse as BankUse,
        Coalescing as Coalescing,
        TileUse as TileUse,
        Touch as Touch,
        bank_use as bank_use,
    )
    from hloscope.memory.choice import Choice as Choice
    from hloscope.memory.coalescing import Memory as Memory
    from hloscope.memory.emitters.loop import sliced as sliced
    from hloscope.memory.emitting import (
        XlaKernels as XlaKernels,
        kernel_of as kernel_of,
        made_once as made_once,
        output_names as output_names,
    )
    from hloscope.memory.fused import Fused as Fused, first_places as first_places
    from hloscope.memory.kernel import (
        Kernel as Kernel,
        Launch as Launch,
        Reading as Reading,
        SharedAccess as SharedAccess,
    )
    from hloscope.memory.kinds import (
        COLLECTIVE as COLLECTIVE,
        COPY as COPY,
        CUSTOM as CUSTOM,
        HOST as HOST,
        LIBRARY as LIBRARY,
        SLICES as SLICES,
        TRITON as TRITON,
        XLA as XLA,
        KernelKind as KernelKind,
        called_for_kernels as called_for_kernels,
        is_scratch as is_scratch,
        kind_of as kind_of,
        scratch_of as scratch_of,
        synchronous as synchronous,
    )
    from hloscope.memory.reads import Reads as Reads
    from hloscope.memory.requests import (
        Request as Request,
        Traffic as Traffic,
        WasteCause as WasteCause,
    )
    from hloscope.memory.storage import (
        data_bytes as data_bytes,
        element_count as element_count,
        is_array as is_array,
    )
    from hloscope.memory.thread_maps import (
        ThreadLayout as ThreadLayout,
        on_grid as on_grid,
        parse_thread_map as parse_thread_map,
    )
    from hloscope.memory.touched import Touched as Touched, touched_by as touched_by, whole as whole
    from hloscope.memory.verdicts import by_heuristic as by_heuristic, by_map as by_map

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
