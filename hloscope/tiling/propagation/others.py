"""Families of ops through which no tile is carried, each with its reason."""

from __future__ import annotations

from hloscope.ops import (
    BatchNormGrad,
    BatchNormInference,
    BatchNormTraining,
    Cholesky,
    Convolution,
    DynamicBroadcastInDim,
    DynamicConv,
    DynamicGather,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    Expectation,
    Fft,
    Gather,
    GetDimensionSize,
    Infeed,
    ManualComputation,
    Outfeed,
    PartitionId,
    Print,
    Probe,
    Recv,
    RecvDone,
    ReduceWindow,
    ReplicaId,
    Rng,
    RngBitGenerator,
    RngGetAndUpdateState,
    RunParallel,
    Scatter,
    SelectAndScatter,
    Send,
    SendDone,
    SetDimensionSize,
    TorchIndexSelect,
    TriangularSolve,
)
from hloscope.tiling.propagation.registry import refuse

refuse(
    ReduceWindow,
    Convolution,
    DynamicConv,
    reason="windows overlap: neighbouring tiles need the same elements",
)
refuse(
    Gather,
    DynamicGather,
    TorchIndexSelect,
    Scatter,
    SelectAndScatter,
    reason="where elements come from or go to is read at run time",
)
refuse(
    BatchNormTraining,
    BatchNormInference,
    BatchNormGrad,
    reason="it is several reductions and products in one; decomposed it can be tiled",
)
refuse(
    Cholesky,
    TriangularSolve,
    Fft,
    reason="an element depends on whole matrices or lines",
)
refuse(
    DynamicReshape,
    DynamicBroadcastInDim,
    DynamicIota,
    DynamicPad,
    GetDimensionSize,
    SetDimensionSize,
    reason="its sizes are known at run time",
)
refuse(
    Rng,
    RngBitGenerator,
    RngGetAndUpdateState,
    reason="its numbers depend on a state, not on elements",
)
refuse(
    Infeed,
    Outfeed,
    Send,
    SendDone,
    Recv,
    RecvDone,
    reason="it talks to the host or to another device",
)
refuse(PartitionId, ReplicaId, reason="it has no operands; its value is the device's number")
refuse(Expectation, Print, Probe, RunParallel, reason="it observes a run, and computes nothing")
refuse(ManualComputation, reason="the computation that it calls is tiled by itself")
