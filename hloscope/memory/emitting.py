"""The kernel of a fusion: selection of XLA:GPU's emitter, and its thread maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hloscope.errors import Label, UnsupportedError, said
from hloscope.ir import Instruction, TensorType
from hloscope.memory.choice import Choice
from hloscope.memory.emitters.concatenate import concatenate
from hloscope.memory.emitters.loop import loop
from hloscope.memory.emitters.reduction import reduction
from hloscope.memory.emitters.scatter import scatter
from hloscope.memory.emitters.transpose import transpose
from hloscope.memory.emitters.update import update_in_place, updates_of
from hloscope.memory.kernel import Kernel
from hloscope.memory.kinds import (
    CALLS,
    COLLECTIVE,
    COPY,
    CUSTOM,
    HOST,
    LIBRARY,
    NONE,
    REPLACED,
    SCALAR,
    SLICES,
    TRANSFER,
    TRITON,
    KernelKind,
    kind_of,
)
from hloscope.ops import CustomCall

BLOCK_LEVEL: Final = "Triton"
_MADE: Final[dict[str, Callable[[Choice], Kernel | None]]] = {
    "reduction": reduction,
    "transpose": transpose,
    "scatter": scatter,
    "concatenate": concatenate,
    "loop": loop,
}
_NO_THREADS: Final = {
    LIBRARY: "`{0}` is run by {1}: nothing is known of its threads",
    COLLECTIVE: "`{0}` is a collective, run by {1}: nothing is known of its threads",
    COPY: "`{0}` is a copy of memory as it lies: no kernel, so no threads",
    SLICES: "`{0}` runs a library call or a copy on slices: nothing is known of its threads",
    TRANSFER: "`{0}` is a transfer, `{1}`: no kernel, so no threads",
    HOST: "`{0}` runs on the host",
    REPLACED: "`{0}` has no kernel: XLA replaces `{1}` by other ops before it makes kernels",
    SCALAR: "`{0}` writes the number of the device: no kernel, so no threads",
    TRITON: "`{0}` is a kernel of Triton without a fusion: nothing is known of its threads",
}
"""Why there is no thread map, by maker."""


def kernel_of(choice: Choice) -> Kernel:
    """Return the kernel that XLA generates.

    Raises:
        UnsupportedError: The instruction has no kernel of XLA's own emitters.
    """
    ins = choice.fused.instruction
    if ins is not None:
        kind = kind_of(ins)
        if kind.maker == TRITON and kind.name:
            return Kernel(BLOCK_LEVEL, None, choice.heroes, notes=(f"backend config {kind.name}",))
        _refuse_no_threads(ins, kind)
    if not any(isinstance(t, TensorType) for r in choice.roots for t in _tensors(choice, r)):
        raise UnsupportedError(said("`{}` writes no array", Label(choice.fused.name)))
    emitter = choice.emitter
    if emitter == "loop" and (updates := updates_of(choice)):
        return update_in_place(choice, updates)
    return _MADE[emitter](choice) or loop(choice)


def _tensors(choice: Choice, root: Instruction) -> tuple[object, ...]:
    return choice.analysis.tensors(root.type)


def _refuse_no_threads(ins: Instruction, kind: KernelKind) -> None:
    """Raise an error for an instruction whose kernel XLA's emitters do not generate.

    Raises:
        UnsupportedError: The kernel is made by another library, or there is no kernel.
    """
    name, op = Label(ins.name), ins.op.name
    if kind.maker == NONE:
        raise UnsupportedError(said("`{}` is not a kernel: `{}` moves nothing", name, op))
    if kind.maker == CALLS:
        raise UnsupportedError(said("`{}` is not a kernel: ask about what `{}` calls", name, op))
    if kind.maker == CUSTOM:
        what = "custom call" if isinstance(ins.op, CustomCall) else "custom kernel"
        text = f"`{{}}` is a {what}, `{{}}`: its kernel is not XLA's"
        raise UnsupportedError(said(text, name, kind.name))
    if kind.maker in _NO_THREADS:
        raise UnsupportedError(said(_NO_THREADS[kind.maker], name, kind.name))
