"""The operations: one class per op, in files named after the op families.

Every op class of a family's file is a name of this package, by `import *`.
"""

from hloscope.ir import Dims as Dims, Op as Op
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
from hloscope.ops.batch_norm import *
from hloscope.ops.checking import *
from hloscope.ops.collectives import *
from hloscope.ops.contraction import *
from hloscope.ops.contraction import check_dot_algorithm as check_dot_algorithm
from hloscope.ops.control import *
from hloscope.ops.convolution import *
from hloscope.ops.dynamic import *
from hloscope.ops.elementwise import *
from hloscope.ops.gather_scatter import *
from hloscope.ops.groups import (
    MOST_DEVICES as MOST_DEVICES,
    NO_GROUPS as NO_GROUPS,
    AxisRef as AxisRef,
    DeviceIota as DeviceIota,
    Groups as Groups,
    Mesh as Mesh,
    MeshGroups as MeshGroups,
    NamedSharding as NamedSharding,
    Table as Table,
    WrittenGroups as WrittenGroups,
)
from hloscope.ops.inference import (
    OPS as OPS,
    Extent as Extent,
    Pairs as Pairs,
    array as array,
    extents as extents,
    leaves as leaves,
    may_be_one_size as may_be_one_size,
    packed as packed,
    with_element as with_element,
    without_layouts as without_layouts,
)
from hloscope.ops.linalg import *
from hloscope.ops.partition import *
from hloscope.ops.quantize import *
from hloscope.ops.random import *
from hloscope.ops.reduction import *
from hloscope.ops.result_types import (
    check_declared_sizes as check_declared_sizes,
    numpy_broadcast as numpy_broadcast,
)
from hloscope.ops.shape import *
from hloscope.ops.slicing import *
from hloscope.ops.transfers import *
from hloscope.ops.windows import *
