"""What each operation is: one class per op, in files named after the op families."""

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
    from hloscope.ops.batch_norm import (
        BatchNormGrad as BatchNormGrad,
        BatchNormInference as BatchNormInference,
        BatchNormTraining as BatchNormTraining,
    )
    from hloscope.ops.broadcasting import numpy_broadcast as numpy_broadcast
    from hloscope.ops.checking import (
        TOLERANCE as TOLERANCE,
        ExpectAlmostEq as ExpectAlmostEq,
        ExpectAlmostEqConst as ExpectAlmostEqConst,
        Expectation as Expectation,
        ExpectClose as ExpectClose,
        ExpectEq as ExpectEq,
        ExpectEqConst as ExpectEqConst,
        ExpectSerializedEq as ExpectSerializedEq,
        Print as Print,
        Probe as Probe,
        RunParallel as RunParallel,
    )
    from hloscope.ops.collectives import (
        AllGather as AllGather,
        AllReduce as AllReduce,
        AllToAll as AllToAll,
        Collective as Collective,
        CollectiveBroadcast as CollectiveBroadcast,
        CollectivePermute as CollectivePermute,
        CollectiveReduce as CollectiveReduce,
        CrossReplicaSum as CrossReplicaSum,
        PartitionId as PartitionId,
        RaggedAllToAll as RaggedAllToAll,
        ReduceScatter as ReduceScatter,
        ReplicaId as ReplicaId,
        Rooted as Rooted,
        exchanged as exchanged,
        is_in_place as is_in_place,
    )
    from hloscope.ops.contraction import (
        Dot as Dot,
        DotDimensions as DotDimensions,
        DotGeneral as DotGeneral,
        Einsum as Einsum,
        RaggedDot as RaggedDot,
        ScaledDot as ScaledDot,
        UnaryEinsum as UnaryEinsum,
    )
    from hloscope.ops.control import (
        BARE_STARTS as BARE_STARTS,
        AddDependency as AddDependency,
        AfterAll as AfterAll,
        AsyncDone as AsyncDone,
        AsyncStart as AsyncStart,
        AsyncUpdate as AsyncUpdate,
        Call as Call,
        Case as Case,
        Composite as Composite,
        CopyDone as CopyDone,
        CopyStart as CopyStart,
        CreateToken as CreateToken,
        CustomCall as CustomCall,
        Domain as Domain,
        Fusion as Fusion,
        GetTupleElement as GetTupleElement,
        OptimizationBarrier as OptimizationBarrier,
        Parameter as Parameter,
        Result as Result,
        Return as Return,
        Tuple as Tuple,
        UnknownOp as UnknownOp,
        While as While,
    )
    from hloscope.ops.convolution import (
        ConvDimensions as ConvDimensions,
        Convolution as Convolution,
        DynamicConv as DynamicConv,
    )
    from hloscope.ops.declared import check_declared_sizes as check_declared_sizes
    from hloscope.ops.devices import (
        MOST_DEVICES as MOST_DEVICES,
        AxisRef as AxisRef,
        DeviceIota as DeviceIota,
        Mesh as Mesh,
        NamedSharding as NamedSharding,
    )
    from hloscope.ops.dynamic import (
        DynamicBroadcastInDim as DynamicBroadcastInDim,
        DynamicIota as DynamicIota,
        DynamicPad as DynamicPad,
        DynamicReshape as DynamicReshape,
        GetDimensionSize as GetDimensionSize,
        SetDimensionSize as SetDimensionSize,
    )
    from hloscope.ops.elementwise import (
        ELEMENTWISE as ELEMENTWISE,
        IMPLICIT_BROADCAST as IMPLICIT_BROADCAST,
        Compare as Compare,
        ConstantLike as ConstantLike,
        Convert as Convert,
        Elementwise as Elementwise,
        ImplicitBroadcast as ImplicitBroadcast,
        ReducePrecision as ReducePrecision,
        Select as Select,
        StochasticConvert as StochasticConvert,
        element_of as element_of,
    )
    from hloscope.ops.gather_scatter import (
        DynamicGather as DynamicGather,
        Gather as Gather,
        Scatter as Scatter,
        TorchIndexSelect as TorchIndexSelect,
    )
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
    from hloscope.ops.linalg import (
        Cholesky as Cholesky,
        Fft as Fft,
        TriangularSolve as TriangularSolve,
    )
    from hloscope.ops.partition import (
        ManualComputation as ManualComputation,
        ShardingConstraint as ShardingConstraint,
    )
    from hloscope.ops.precision import check_dot_algorithm as check_dot_algorithm
    from hloscope.ops.quantize import (
        UniformDequantize as UniformDequantize,
        UniformQuantize as UniformQuantize,
    )
    from hloscope.ops.random import (
        Rng as Rng,
        RngBitGenerator as RngBitGenerator,
        RngGetAndUpdateState as RngGetAndUpdateState,
    )
    from hloscope.ops.reduction import (
        Map as Map,
        Reduce as Reduce,
        Scan as Scan,
        Sort as Sort,
        TopK as TopK,
    )
    from hloscope.ops.shape import (
        Bitcast as Bitcast,
        BitcastConvert as BitcastConvert,
        Broadcast as Broadcast,
        BroadcastInDim as BroadcastInDim,
        Concatenate as Concatenate,
        Constant as Constant,
        Iota as Iota,
        Pad as Pad,
        Reshape as Reshape,
        Reverse as Reverse,
        Transpose as Transpose,
    )
    from hloscope.ops.slicing import (
        DynamicSlice as DynamicSlice,
        DynamicUpdateSlice as DynamicUpdateSlice,
        RealDynamicSlice as RealDynamicSlice,
        Slice as Slice,
    )
    from hloscope.ops.transfers import (
        Infeed as Infeed,
        Outfeed as Outfeed,
        Recv as Recv,
        RecvDone as RecvDone,
        Send as Send,
        SendDone as SendDone,
    )
    from hloscope.ops.windows import (
        NO_WINDOW as NO_WINDOW,
        ReduceWindow as ReduceWindow,
        SelectAndScatter as SelectAndScatter,
        Window as Window,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
