"""What each operation is: one class per op, in files named after the op families.

The classes that a family's file defines are at the door by that: `import *` stands for them.
"""

from typing import TYPE_CHECKING

from hloscope.doors import door
from hloscope.ops import (
    batch_norm as batch_norm,
    checking as checking,
    collectives as collectives,
    contraction as contraction,
    control as control,
    convolution as convolution,
    dynamic as dynamic,
    elementwise as elementwise,
    gather_scatter as gather_scatter,
    linalg as linalg,
    partition as partition,
    quantize as quantize,
    random as random,
    reduction as reduction,
    shape as shape,
    slicing as slicing,
    transfers as transfers,
    windows as windows,
)

if TYPE_CHECKING:
    from hloscope.ops.base import OPS as OPS, Dims as Dims, Op as Op, Pairs as Pairs
    from hloscope.ops.batch_norm import *
    from hloscope.ops.broadcasting import numpy_broadcast as numpy_broadcast
    from hloscope.ops.checking import *
    from hloscope.ops.checking import TOLERANCE as TOLERANCE
    from hloscope.ops.collectives import *
    from hloscope.ops.collectives import (
        COLLECTIVE_KINDS as COLLECTIVE_KINDS,
        exchanged as exchanged,
        is_in_place as is_in_place,
    )
    from hloscope.ops.contraction import *
    from hloscope.ops.control import *
    from hloscope.ops.control import (
        API_VERSIONS as API_VERSIONS,
        BARE_STARTS as BARE_STARTS,
        fused_twice as fused_twice,
    )
    from hloscope.ops.convolution import *
    from hloscope.ops.declared import check_declared_sizes as check_declared_sizes
    from hloscope.ops.devices import (
        MOST_DEVICES as MOST_DEVICES,
        AxisRef as AxisRef,
        DeviceIota as DeviceIota,
        Mesh as Mesh,
        NamedSharding as NamedSharding,
    )
    from hloscope.ops.dynamic import *
    from hloscope.ops.elementwise import *
    from hloscope.ops.elementwise import (
        ELEMENTWISE as ELEMENTWISE,
        IMPLICIT_BROADCAST as IMPLICIT_BROADCAST,
        element_of as element_of,
    )
    from hloscope.ops.gather_scatter import *
    from hloscope.ops.groups import (
        NO_GROUPS as NO_GROUPS,
        Groups as Groups,
        MeshGroups as MeshGroups,
        Table as Table,
        WrittenGroups as WrittenGroups,
    )
    from hloscope.ops.infer_util import (
        Extent as Extent,
        array as array,
        bare as bare,
        extents as extents,
        fit as fit,
        leaves as leaves,
        packed as packed,
    )
    from hloscope.ops.linalg import *
    from hloscope.ops.partition import *
    from hloscope.ops.precision import check_dot_algorithm as check_dot_algorithm
    from hloscope.ops.quantize import *
    from hloscope.ops.random import *
    from hloscope.ops.reduction import *
    from hloscope.ops.shape import *
    from hloscope.ops.slicing import *
    from hloscope.ops.transfers import *
    from hloscope.ops.windows import *
    from hloscope.ops.windows import NO_WINDOW as NO_WINDOW

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
