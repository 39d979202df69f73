"""Tiling of a kernel: its space, the tiles of its instructions, and the ops without tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hloscope.display import Shown, kernel_json, kernel_text
from hloscope.errors import UnsupportedError
from hloscope.ir import Instruction
from hloscope.tiling import Fused, Refusal, Roots, TiledKernel, TilingSpace, tiled_kernel
from hloscope.visible import visible

SCHEMA: Final = "hloscope.tile_space/1"
_SEVERAL_ROOTS: Final = (
    (Roots.SHARED, "its roots share their dimensions"),
    (Roots.OWN, "each root has dimensions of its own"),
)


class SpaceTiling(Shown):
    """The tiling space of an instruction or fusion, and its tiles; prints itself.

    Attributes:
        space: The tiling space.
        kernel: Every instruction with its tiles.
        xla_refuses: Why XLA has no such space, and the space used instead; empty if XLA has it.
    """

    def __init__(self, space: TilingSpace, kernel: TiledKernel, xla_refuses: str = "") -> None:
        self.space: Final = space
        self.kernel: Final = kernel
        self.xla_refuses: Final = xla_refuses

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The ops through which tiles cannot be propagated, with the reasons."""
        return self.kernel.refusals

    def text(self) -> str:
        """Dimensions, root tiles and tiled instructions in XLA's format, then the notes."""
        said = f"{self.xla_refuses}\n\n" if self.xla_refuses else ""
        return said + kernel_text(self.kernel)

    def to_json(self) -> dict[str, Any]:
        """The answer as an object of schema `hloscope.tile_space/1`."""
        said = {"xla_refuses": self.xla_refuses} if self.xla_refuses else {}
        return {"schema": SCHEMA, **said, **kernel_json(self.kernel)}

    def __repr__(self) -> str:
        return visible(self.text())


def tiling_space(
    ins: Instruction, sizes: Sequence[int] | None = None, *, beyond_xla: bool = False
) -> SpaceTiling:
    """The tiling space of an instruction or fusion, and its tiles.

    XLA refuses roots of several arrays. Here they share the dimensions that have equal sizes.

    Args:
        ins: The instruction.
        sizes: The size of the tiles of each dimension; variables if there are none.
        beyond_xla: Propagate tiles through ops that XLA refuses, if tiles exist.

    Raises:
        UnsupportedError: There is no space.
        ValueError: The sizes do not fit the dimensions.
    """
    fused = Fused.of(ins)
    found = TilingSpace.of(fused)
    said = ""
    if isinstance(found, Refusal) and len(fused.roots) > 1:
        refused = str(found)
        # Shared dimensions come first: they need fewer variables, and tiles of the roots coincide.
        for roots, done in _SEVERAL_ROOTS:
            found = TilingSpace.of(fused, roots)
            if not isinstance(found, Refusal):
                said = f"XLA refuses: {refused}; here {done}."
                break
    if isinstance(found, Refusal):
        raise UnsupportedError(f"no tiling space: {found}")
    space = found if sizes is None else found.with_sizes(sizes)
    return SpaceTiling(space, tiled_kernel(space, beyond_xla=beyond_xla), said)
