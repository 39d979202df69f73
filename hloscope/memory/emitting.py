"""The kernel of a fusion: which emitter XLA:GPU takes, and its maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hloscope.errors import Label, UnsupportedError, said
from hloscope.fusion import ALIASES
from hloscope.ir import Instruction, TensorType
from hloscope.memory.choice import Choice
from hloscope.memory.emitters.concatenate import concatenate
from hloscope.memory.emitters.loop import loop
from hloscope.memory.emitters.reduction import reduction
from hloscope.memory.emitters.scatter import scatter
from hloscope.memory.emitters.transpose import transpose
from hloscope.memory.emitters.update import update_in_place, updates_of
from hloscope.memory.kernel import Kernel
from hloscope.ops import AsyncDone, AsyncStart, Call, Case, CustomCall, Fusion, While
from hloscope.tiling import fusion_config

TRITON: Final = "__triton"
LIBRARY: Final = {"__cudnn$fusion": "cuDNN", "__custom_fusion": "a custom kernel"}
BLOCK_LEVEL: Final = "Triton"
_MADE: Final[dict[str, Callable[[Choice], Kernel | None]]] = {
    "reduction": reduction,
    "transpose": transpose,
    "scatter": scatter,
    "concatenate": concatenate,
    "loop": loop,
}


def kernel_of(choice: Choice) -> Kernel:
    """The kernel that XLA makes.

    Raises:
        UnsupportedError: No kernel of XLA's own emitters belongs to the instruction.
    """
    ins = choice.fused.instruction
    if ins is not None:
        refuse_no_kernel(ins)
        kind = str(fusion_config(ins).get("kind", ""))
        if kind.startswith(TRITON):
            return Kernel(BLOCK_LEVEL, None, choice.heroes, notes=(f"backend config {kind}",))
        if kind in LIBRARY or (isinstance(ins.op, Fusion) and ins.op.kind == "kCustom"):
            made = LIBRARY.get(kind, f"a custom kernel, {kind or 'of no stated kind'}")
            raise UnsupportedError(
                said("`{}` is made by {}, not by XLA's emitters", Label(ins.name), made)
            )
    if not any(isinstance(t, TensorType) for r in choice.roots for t in _tensors(choice, r)):
        raise UnsupportedError(said("`{}` writes no array", Label(choice.fused.name)))
    emitter = choice.emitter
    if emitter == "loop" and (updates := updates_of(choice)):
        return update_in_place(choice, updates)
    return _MADE[emitter](choice) or loop(choice)


def _tensors(choice: Choice, root: Instruction) -> tuple[object, ...]:
    return choice.analysis.tensors(root.type)


def refuse_no_kernel(ins: Instruction) -> None:
    """Refuse instructions that touch no memory themselves, or whose kernel nobody knows.

    Raises:
        UnsupportedError: It is one of them.
    """
    name, op = Label(ins.name), ins.op.name
    if isinstance(ins.op, ALIASES):
        raise UnsupportedError(said("`{}` is no kernel: `{}` moves nothing", name, op))
    if isinstance(ins.op, CustomCall):
        raise UnsupportedError(said("`{}` is a custom call: its kernel is not XLA's", name))
    if isinstance(ins.op, While | Case | Call | AsyncStart | AsyncDone):
        raise UnsupportedError(said("`{}` is no kernel: ask about what `{}` calls", name, op))
