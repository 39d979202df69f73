"""The backend that a program was compiled for, recognised by marks in the text.

A mark counts if only one backend leaves it: the target of a library call, a key of a backend
config, a kind of fusion, a tiled layout. A target such as `lapack_sgetrf_ffi` does not count: JAX
writes it before XLA compiles the program. A program without a mark is `uncompiled`.

Source: the programs of jaxlib 0.10.2 (CPU, H100), XLA's tests, and XLA
`xla/service/gpu/backend_configs.proto`, `xla/service/cpu/backend_config.proto`,
`xla/service/gpu/cublas_cudnn.h`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from hloscope.errors import HloscopeError
from hloscope.fusion import leaf_types
from hloscope.ir import Instruction, Module, TensorType
from hloscope.ops import CustomCall, Fusion
from hloscope.support.lazy import pattern

Kind: TypeAlias = Literal["gpu", "cpu", "tpu", "uncompiled"]

_GPU_CONFIG: Final = pattern(
    r"operation_queue_id|force_earliest_schedule|(?:fusion|gemm|cudnn_\w+|collective)_backend_config"
    r"|custom_fusion_config|triton_gemm_config|block_level_fusion_config|reification_cost|__triton"
)
_CPU_CONFIG: Final = pattern(r"outer_dimension_partitions|onednn_\w+_config|__ynn_fusion|__onednn")
_TPU_CONFIG: Final = pattern(
    r"window_config|flag_configs|scoped_memory_configs|used_scoped_memory_configs"
    r"|aliasing_operands|device_type\W+DEVICE_TYPE_(?:TPU|TENSORCORE|SPARSECORE)|megacore"
)
_CONFIGS: Final[tuple[tuple[Kind, re.Pattern[str]], ...]] = (
    ("cpu", _CPU_CONFIG), ("tpu", _TPU_CONFIG), ("gpu", _GPU_CONFIG),
)  # fmt: skip
_GPU_TARGET: Final = pattern(r"__(?:cublas|cudnn|cub|triton|cusolver|hipblas|miopen)\$|__nccl")
_CPU_TARGET: Final = pattern(r"__onednn\$|__ynn|__xla_cpu|xla_cpu|__eigen|Eigen|TopK$")
_TPU_TARGET: Final = pattern(r"ResizeNearest|ConcatBitcast|AllocateBuffer|SliceToDynamic")
_LOWERED: Final[tuple[tuple[Kind, re.Pattern[str]], ...]] = (
    ("gpu", pattern(r"cu(?:solver|blas|sparse|dnn)|cu_|hip|rocsolver_|__gpu\$|xla\.gpu\.|triton")),
    ("cpu", pattern(r"lapack_|blas_")),
    ("tpu", pattern(r"tpu_custom_call|xla\.tpu|tpu_")),
)
"""Call targets that JAX writes before XLA compiles; they count in scheduled programs only."""
_AMD: Final = pattern(r"__(?:hipblas|miopen)|hip|rocsolver_")
_GPU_FUSED: Final = pattern(r"fused_(?!computation)[a-z]")
_CPU_FUSED: Final = pattern(r"(?:fused_computation|wrapped_\w+|parallel_\w+)(?:\.|$)")
_PROPAGATES: Final = "allow_spmd_sharding_propagation_to_"
_GPU_FUSION: Final = pattern(r"(?:loop|input|gemm|triton|wrapped_triton)_\w*fusion|triton_softmax")


class Target(Struct, frozen=True):
    """The backend of a program, with the text in the program that shows it.

    Attributes:
        kind: `gpu`, `cpu`, `tpu`, or `uncompiled` if no text shows a backend.
        device: `amd` if the program's text shows it, else `None`.
        evidence: The text that shows the backend, and its location.
        scheduled: Is the order of the instructions the order of execution?
    """

    kind: Kind
    device: str | None
    evidence: str
    scheduled: bool

    @property
    def is_compiled(self) -> bool:
        """Is the backend known?"""
        return self.kind != "uncompiled"


class _Mark(NamedTuple):
    kind: Kind
    evidence: str
    device: str | None = None


def is_scheduled(module: Module) -> bool:
    """Is the order of the instructions the order of execution?

    If not, overlaps mean nothing.
    """
    return dict(module.extras).get("is_scheduled", "").strip() == "true"


def target_of(module: Module) -> Target:
    """Return the backend of a program, by the first text that only one backend leaves.

    Such a text is a mark. A scheduled program without a mark of a GPU or TPU, whose computations
    have names that XLA's emitters give, was compiled by XLA:CPU, which leaves no other mark in
    small programs.
    """
    extras = dict(module.extras)
    scheduled = is_scheduled(module)
    mark = next(_marks(module, extras, scheduled), None)
    if mark is None and scheduled:
        mark = _cpu_by_header(extras) or _cpu_by_names(module, extras)
    if mark is None:
        schedule = "scheduled, but " if scheduled else ""
        return Target("uncompiled", None, f"{schedule}no mark of a backend", scheduled)
    return Target(mark.kind, mark.device, mark.evidence, scheduled)


def _cpu_by_header(extras: dict[str, str]) -> _Mark | None:
    """Return a mark of XLA:CPU if the header lets sharding propagate to parameters; else `None`.

    Jaxlib 0.10.2 writes `false` for GPUs. `extras` are the attributes of the header by name.
    """
    if extras.get(f"{_PROPAGATES}parameters", "").startswith("{true"):
        return _Mark(
            "cpu",
            "scheduled, `allow_spmd_sharding_propagation_to_parameters={true` in the header, and "
            "no mark of a GPU or TPU",
        )
    return None


def _readable(module: Module) -> Iterator[Instruction]:
    """Yield the instructions of all computations that can be parsed."""
    for computation in module:
        try:
            instructions = computation.instructions
        except HloscopeError:
            continue
        yield from instructions


def _marks(module: Module, extras: dict[str, str], scheduled: bool) -> Iterator[_Mark]:
    if "fingerprint_before_lhs" in extras.get("frontend_attributes", ""):
        yield _Mark("gpu", "`fingerprint_before_lhs` in the header: the scheduler of XLA:GPU")
    for ins in _readable(module):
        if isinstance(ins.op, CustomCall):
            yield from _marks_of_target(ins, ins.op.call_target_name, scheduled)
        elif isinstance(ins.op, Fusion):
            yield from _marks_of_fusion(ins, ins.op)
        config = ins.extra("backend_config")
        for kind, marks in _CONFIGS if scheduled or not _is_lowered(ins) else ():
            if found := marks.search(config or ""):
                yield _Mark(kind, f"`{found[0]}` in the backend config of `{ins.name}`")
        if "scheduling_name" in (ins.extra("metadata") or ""):
            yield _Mark("gpu", f"`scheduling_name` in the metadata of `{ins.name}`: XLA:GPU's")
        for leaf in leaf_types(ins.type):
            layout = leaf.layout if isinstance(leaf, TensorType) else None
            tile = layout.tiles[0] if layout is not None and layout.tiles else ()
            # A TPU's vector registers have rows of 128 lanes, which its tiles fill.
            if tile and tile[-1] > 0 and tile[-1] % 128 == 0:
                shown = ",".join(map(str, tile))
                yield _Mark("tpu", f"tiled layout `T({shown})` of `{ins.name}`")


def _is_lowered(ins: Instruction) -> bool:
    """Is the instruction a custom call that a framework writes, together with its config?"""
    target = ins.op.call_target_name if isinstance(ins.op, CustomCall) else ""
    return any(targets.match(target) for _, targets in _LOWERED)


def _marks_of_target(ins: Instruction, target: str, scheduled: bool) -> Iterator[_Mark]:
    evidence = f"custom call `{target}` of `{ins.name}`"
    device = "amd" if _AMD.match(target) else None
    if _GPU_TARGET.match(target):
        yield _Mark("gpu", evidence, device)
    elif _TPU_TARGET.match(target) and scheduled:
        yield _Mark("tpu", evidence)
    elif _CPU_TARGET.match(target) and (scheduled or not target.startswith("TopK")):
        yield _Mark("cpu", evidence)
    for kind, targets in _LOWERED if scheduled else ():
        if targets.match(target):
            yield _Mark(kind, f"scheduled, {evidence}", device)


def _marks_of_fusion(ins: Instruction, op: Fusion) -> Iterator[_Mark]:
    if op.kind == "kInput":
        yield _Mark("gpu", f"`kind=kInput` of `{ins.name}`: only XLA:GPU makes such fusions")
    if _GPU_FUSION.match(ins.name):
        yield _Mark("gpu", f"`{ins.name}` is named as XLA:GPU names fusions")
    for callee in ins.calls:
        if _GPU_FUSED.match(callee.name):
            yield _Mark("gpu", f"`{callee.name}` is named as XLA:GPU names what it fuses")


def _cpu_by_names(module: Module, extras: dict[str, str]) -> _Mark | None:
    """Return a mark of XLA:CPU if a fused computation has a name that XLA:CPU gives; else `None`.

    The program has no mark of XLA:GPU. Both backends call the computation of a single fused
    instruction `wrapped_add_computation`. If the header states how sharding propagates, but not to
    parameters as XLA:CPU writes it, that name shows nothing.
    """
    is_said = any(key.startswith(_PROPAGATES) for key in extras)
    for ins in _readable(module):
        for callee in ins.calls if isinstance(ins.op, Fusion) else ():
            if is_said and callee.name.startswith("wrapped_"):
                continue
            if _CPU_FUSED.match(callee.name):
                return _Mark(
                    "cpu", f"scheduled, `{callee.name}` is fused, and no mark of a GPU or TPU"
                )
    return None
