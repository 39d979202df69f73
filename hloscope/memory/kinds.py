"""Kinds of kernels: which emitter, library or runtime makes an instruction's kernel.

A fusion, and an instruction that one of XLA's emitters (loop, transpose, reduction, scatter,
concatenate) compiles, has a thread map. A library call, a collective or a transfer has none, since
the library decides what its threads do.

Source: XLA `xla/service/gpu/ir_emission_utils.h`, `cublas_cudnn.h`, `backend_config` kinds in
`fusion_emitter.cc` and `thunk_emitter.cc`, `custom_kernel_fusion`; JAX `jaxlib/gpu`, `jaxlib/cpu`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from hloscope.fusion import ALIASES
from hloscope.ir import Instruction, Op, TensorType, TupleType, Type
from hloscope.ops import (
    AddDependency,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    BatchNormGrad,
    BatchNormInference,
    BatchNormTraining,
    Call,
    Case,
    Cholesky,
    Collective,
    Composite,
    Convolution,
    CopyDone,
    CopyStart,
    CreateToken,
    CrossReplicaSum,
    CustomCall,
    Domain,
    Dot,
    DotGeneral,
    DynamicConv,
    Einsum,
    Expectation,
    Fft,
    Fusion,
    GetDimensionSize,
    GetTupleElement,
    Infeed,
    ManualComputation,
    OptimizationBarrier,
    Outfeed,
    PartitionId,
    Print,
    Probe,
    RaggedDot,
    Recv,
    RecvDone,
    ReplicaId,
    Rng,
    RngBitGenerator,
    RngGetAndUpdateState,
    RunParallel,
    ScaledDot,
    Scan,
    SelectAndScatter,
    Send,
    SendDone,
    ShardingConstraint,
    Sort,
    StochasticConvert,
    TopK,
    TriangularSolve,
    UnaryEinsum,
    UnknownOp,
    While,
)
from hloscope.support.lazy import pattern
from hloscope.tiling import fusion_config

XLA: Final = "xla emitter"
TRITON: Final = "triton"
LIBRARY: Final = "library"
COLLECTIVE: Final = "collective"
COPY: Final = "copy"
SLICES: Final = "dynamic_slice_fusion"
TRANSFER: Final = "transfer"
HOST: Final = "host"
CUSTOM: Final = "custom call"
REPLACED: Final = "replaced"
SCALAR: Final = "device number"
CALLS: Final = "calls"
NONE: Final = "none"
MAKERS: Final = (
    XLA, TRITON, LIBRARY, COLLECTIVE, COPY, SLICES, TRANSFER, HOST, CUSTOM, REPLACED, SCALAR, CALLS,
    NONE,
)  # fmt: skip
"""All values of `KernelKind.maker`.

`CALLS` means that the kernels are those of the called computations.
"""


class KernelKind(Struct, frozen=True):
    """The maker of an instruction's kernel.

    Attributes:
        maker: One of `MAKERS`.
        name: Name of the library, the custom call's target, the opcode, or the fusion's kind in

            the backend config; empty if the maker needs no further name.
    """

    maker: str
    name: str = ""

    @property
    def has_threads(self) -> bool:
        """Do XLA's own emitters make the kernel, so that a thread map may exist?"""
        return self.maker == XLA

    @property
    def is_kernel(self) -> bool:
        """Does the instruction itself run as a kernel, copy or transfer?

        Instructions that only call computations, or that run nothing, do not.
        """
        return self.maker not in (NONE, CALLS)

    @property
    def reads_all(self) -> bool:
        """Does the instruction read whole operands, to move them to another device or memory?"""
        return self.maker in (COLLECTIVE, COPY, TRANSFER)

    def __str__(self) -> str:
        return f"{self.maker} {self.name}".rstrip()


_MOVES_NOTHING: Final = KernelKind(NONE)
_TRITON_KINDS: Final = "__triton"
_SLICES: Final = pattern(r"(?:static_|dynamic_)?(?:address_computation|slice_fusion)")
"""Names of custom fusions that run a library call, or a copy, on slices of arrays."""
_FUSION_LIBRARIES: Final = {
    "__cudnn": "cuDNN",
    "__onednn": "oneDNN",
    "__xnn": "XNNPACK",
    "__ynn": "YNNPACK",
}
_TARGETS: Final = (
    (LIBRARY, "cuBLASLt", r"__cublas\$lt.*"),
    (LIBRARY, "cuBLAS", r"__cublas\$.*|cublas_.*"),
    (LIBRARY, "cuDNN", r"__cudnn\$.*|cudnn_.*|cudnn_rnn.*"),
    (LIBRARY, "cuSOLVER", r"__cusolver\$.*|cusolver_.*"),
    (LIBRARY, "cuSPARSE", r"cusparse_.*"),
    (LIBRARY, "cuFFT", r"__?cufft.*"),
    (LIBRARY, "CUB", r"__cub\$.*|xla\.gpu\.ext\.cub_.*"),
    (LIBRARY, "hipBLAS", r"hipblas_.*|rocblas_.*"),
    (LIBRARY, "hipSOLVER", r"hipsolver_.*|rocsolver_.*"),
    (LIBRARY, "hipSPARSE", r"hipsparse_.*"),
    (LIBRARY, "MIOpen", r"miopen_.*"),
    (LIBRARY, "LAPACK", r"lapack_.*"),
    (LIBRARY, "oneDNN", r"__onednn\$.*"),
    (LIBRARY, "Eigen", r"__xla_cpu_runtime_Eigen.*"),
    (LIBRARY, "DUCC FFT", r"(?:dynamic_)?ducc_fft|__xla_cpu_runtime_DuccFft"),
    (LIBRARY, "XLA's TopK kernel", r"__gpu\$TopK|TopK"),
    (LIBRARY, "jaxlib's kernel", r"(?:cu|hip)(?:da)?_(?:lu_pivots_to_permutation|threefry2x32).*"),
    (LIBRARY, "Transformer Engine", r"te_.*"),
    (TRITON, "", r"__gpu\$xla\.gpu\.triton|triton_kernel_call.*"),
    (HOST, "", r"xla_(?:ffi_)?(?:partitioned_)?python_[cg]pu_callback|HostExecute"),
    (COPY, "", r"MoveToHost|MoveToDevice"),
    (NONE, "", r"Sharding|SPMD(?:FullToShard|ShardToFull)Shape|xla\.sdy\..*|AllocateBuffer"),
    (NONE, "", r"annotate_device_placement|__nop|LayoutConstraint|AssumeGatherIndicesInBound"),
)
"""Maker, name, and pattern of the call targets of known custom calls."""
_CALLS: Final = tuple([(maker, name, pattern(text)) for maker, name, text in _TARGETS])

_NONE: Final[tuple[type[Op], ...]] = (
    *ALIASES,
    AddDependency,
    AsyncDone,
    AsyncUpdate,
    CopyDone,
    CreateToken,
    Domain,
    GetDimensionSize,
    OptimizationBarrier,
    RecvDone,
    SendDone,
    ShardingConstraint,
)
_ROWS: Final[tuple[tuple[str, str, tuple[type[Op], ...]], ...]] = (
    (COLLECTIVE, "NCCL", (Collective, CrossReplicaSum)),
    (LIBRARY, "cuBLAS or Triton", (Dot, DotGeneral, Einsum, RaggedDot, ScaledDot)),
    (LIBRARY, "cuDNN", (Convolution, DynamicConv)),
    (LIBRARY, "CUB or XLA's sort", (Sort,)),
    (LIBRARY, "XLA's TopK kernel", (TopK,)),
    (LIBRARY, "cuFFT", (Fft,)),
    (LIBRARY, "cuSOLVER", (Cholesky,)),
    (LIBRARY, "cuBLAS", (TriangularSolve,)),
    (LIBRARY, "XLA's random state kernel", (RngGetAndUpdateState,)),
    (COPY, "", (CopyStart,)),
    (TRANSFER, "", (Infeed, Outfeed, Send, Recv)),
    (SCALAR, "", (PartitionId, ReplicaId)),
    (
        REPLACED,
        "",
        (
            BatchNormGrad, BatchNormInference, BatchNormTraining, Rng, RngBitGenerator,
            Scan, SelectAndScatter, StochasticConvert, UnaryEinsum,
        ),
    ),
    (HOST, "", (Expectation, Print, Probe, RunParallel)),
    (CALLS, "", (While, Case, Call, Composite, ManualComputation)),
)  # fmt: skip
_BY_OP: Final = {op: (maker, name) for maker, name, ops in _ROWS for op in ops}
_WORKSPACE: Final = pattern(r"__(?:cublas|cudnn|cub)\$.*")
"""Library calls whose last result is scratch memory if it is an array of bytes."""
_SCRATCH: Final = "__nop"
"""Call target of the custom call that represents the workspace of a cuDNN fusion."""


def kind_of(ins: Instruction) -> KernelKind:
    """Return the kind of kernel of an instruction.

    An asynchronous start has the kind of the operation that it starts; its done has kind `none`.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> module = parse_hlo("ENTRY e { p = c64[8] parameter(0) "
    ...     "ROOT f = c64[8] fft(p), fft_type=FFT, fft_length={8} }")
    >>> str(kind_of(module.entry.root)), str(kind_of(module.entry.parameters[0]))
    ('library cuFFT', 'none')
    """
    op = ins.op
    if isinstance(op, AsyncStart):
        return KernelKind(CALLS) if op.wrapped is None else _of_op(ins, op.wrapped)
    return _of_op(ins, op)


def _of_op(ins: Instruction, op: Op) -> KernelKind:
    if isinstance(op, _NONE):
        return _MOVES_NOTHING
    if isinstance(op, Fusion):
        return _of_fusion(ins, op)
    if isinstance(op, CustomCall):
        known = [row for row in _CALLS if row[2].fullmatch(op.call_target_name)]
        return KernelKind(*known[0][:2]) if known else KernelKind(CUSTOM, op.call_target_name)
    if isinstance(op, UnknownOp):
        return KernelKind(CUSTOM, op.opcode)
    if isinstance(op, While | Case | Call | Composite | ManualComputation) and not ins.calls:
        return KernelKind(REPLACED, op.name)
    if op.name == "copy" and _keeps_memory(ins):
        return KernelKind(COPY)
    for base in type(op).__mro__:
        if base in _BY_OP:
            maker, name = _BY_OP[base]
            return KernelKind(maker, name or (op.name if maker in (REPLACED, TRANSFER) else ""))
    return KernelKind(XLA)


def _of_fusion(ins: Instruction, op: Fusion) -> KernelKind:
    config = fusion_config(ins)
    kind = str(config.get("kind", ""))
    if kind.startswith(_TRITON_KINDS):
        return KernelKind(TRITON, kind)
    for prefix, library in _FUSION_LIBRARIES.items():
        if kind.startswith(prefix):
            return KernelKind(LIBRARY, library)
    if op.kind != "kCustom" and kind != "__custom_fusion":
        return KernelKind(XLA)
    custom = config.get("custom_fusion_config")
    name = str(custom.get("name", "")) if isinstance(custom, Mapping) else ""
    if _SLICES.fullmatch(name):
        return KernelKind(SLICES)
    return KernelKind(CUSTOM, name or kind or "of no stated kind")


def _keeps_memory(ins: Instruction) -> bool:
    """Does the copy keep the layout, so that it needs no kernel to reorder elements?"""
    result_type, source_type = ins.type, ins.operands[0].type if ins.operands else None
    if not isinstance(result_type, TensorType) or not isinstance(source_type, TensorType):
        return True  # the arrays of a tuple keep their layouts
    if result_type.layout is None or source_type.layout is None:
        return result_type.layout is source_type.layout
    return result_type.layout.minor_to_major == source_type.layout.minor_to_major


def called_for_kernels(ins: Instruction) -> bool:
    """Does the instruction have no kernel itself, but run those of called computations?

    Bodies of reductions, scatters, sorts and collectives contain no kernels.
    """
    return bool(ins.calls) and kind_of(ins).maker == CALLS


def synchronous(ins: Instruction) -> Instruction:
    """Return the operation that an asynchronous start begins; any other instruction unchanged.

    The value of a start holds operands and contexts in addition to the result, except for
    all-reduce.
    """
    op, type = ins.op, ins.type
    elements = type.elements if isinstance(type, TupleType) else ()
    if isinstance(op, CopyStart):
        result: Type = elements[0] if elements else type
        return Instruction(ins.name, result, op, ins.operands)
    if not isinstance(op, AsyncStart) or op.wrapped is None:
        return ins
    if op.wrapped.name != "all_reduce" and elements:
        type = elements[1] if len(elements) > 1 else TupleType(())
    return Instruction(ins.name, type, op.wrapped, ins.operands, ins.calls, ins.extras)


def scratch_of(ins: Instruction) -> int | None:
    """Return the index of the tuple element that is a library call's workspace.

    `None` if there is none.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = 'ENTRY e { ROOT c = (f32[4], s8[64]) custom-call(), custom_call_target="%s" }'
    >>> [scratch_of(parse_hlo(text % name).entry.root) for name in ("__cublas$gemm", "mine")]
    [1, None]
    """
    if not isinstance(ins.op, CustomCall) or not isinstance(ins.type, TupleType):
        return None
    target, results = ins.op.call_target_name, ins.type.elements
    if target == "__cusolver$cholesky" and len(results) == 3:  # factor, scratch, info
        return 1
    last = results[-1] if len(results) > 1 else None
    if not isinstance(last, TensorType) or last.rank != 1 or not _WORKSPACE.fullmatch(target):
        return None
    return len(results) - 1 if last.element.name in ("s8", "u8") else None


def is_scratch(value: Instruction, leaf: int = 0) -> bool:
    """Is leaf `leaf` of a value the workspace of a library call, which no instruction reads?"""
    if isinstance(value.op, CustomCall) and value.op.call_target_name == _SCRATCH:
        return True
    if isinstance(value.op, GetTupleElement):
        return scratch_of(value.operands[0]) == value.op.index
    return scratch_of(value) == leaf
