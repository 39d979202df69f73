"""Tile sizes in a dump: those that XLA chose for a Triton fusion.

A fusion's backend config has the tiles of its outputs (`block_level_fusion_config`). A dot inside
the fusion has the tile of its contracting dimensions in its own backend config
(`{"sizes":["16"]}`). Older dumps have `triton_gemm_config` instead: `block_m`, `block_n` and
`block_k`.

Source: XLA `xla/service/gpu/backend_configs.proto`, `xla/backends/gpu/codegen/triton/tiling`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from hloscope.fusion import Analysis
from hloscope.ir import Instruction, TensorType, backend_config
from hloscope.ops import Fusion
from hloscope.tiling.analysis import DOTS, SymbolicTiles, sizes_of, symbolic_tiles
from hloscope.tiling.fused import Fused
from hloscope.tiling.tile import Refusal

BLOCK_LEVEL: Final = "block_level_fusion_config"
GEMM: Final = "triton_gemm_config"


class ChosenTiles(Struct, frozen=True):
    """The tiling of a Triton fusion, as its dump states it.

    Attributes:
        kind: Kind of the fusion, such as `__triton`.
        outputs: Tile sizes of each output; empty if the dump has none.
        contractions: Tile sizes of the contracting dimensions, for each dot of the fusion in text
            order; `None` for a dot without them.
        warps: Warps of a program; 0 if not stated.
        stages: Pipeline stages of loops; 0 if not stated.
        ctas: Thread blocks of a cluster; 0 if not stated.
        split_k: Parts into which the contraction was split before; 0 if not stated.
    """

    kind: str
    outputs: tuple[tuple[int, ...], ...] = ()
    contractions: tuple[tuple[int, ...] | None, ...] = ()
    warps: int = 0
    stages: int = 0
    ctas: int = 0
    split_k: int = 0


def fusion_config(ins: Instruction) -> Mapping[str, Any]:
    """Return the entries of a fusion's backend config, such as its kind.

    The result is empty if there are none.
    """
    settings = ins.op.settings if isinstance(ins.op, Fusion) else ()
    found = backend_config(settings, ins.extras).get("fusion_backend_config")
    return found if isinstance(found, Mapping) else {}


def fusion_kind(ins: Instruction) -> str:
    """Return the kind of a fusion by its backend config; empty if it states none."""
    return str(fusion_config(ins).get("kind", ""))


def tiles_of(ins: Instruction, analysis: Analysis | None = None) -> SymbolicTiles | Refusal:
    """Return the symbolic tiles of a fusion or instruction, or the reason why XLA has none.

    Args:
        ins: The fusion or instruction.
        analysis: Indexing analysis with XLA's convention; `None` for a new one.
    """
    return symbolic_tiles(Fused.of(ins), analysis, kind=fusion_kind(ins))


def chosen_tiles(ins: Instruction) -> ChosenTiles | None:
    """Return the tiling that a fusion's dump states; `None` if it states no tile sizes.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> module = parse_hlo(
    ...     'f { p = f32[8,6] parameter(0) ROOT n = f32[8,6] negate(p) } '
    ...     'ENTRY e { a = f32[8,6] parameter(0) ROOT x = f32[8,6] fusion(a), kind=kCustom, '
    ...     'calls=f, backend_config={"fusion_backend_config":{"kind":"__triton",'
    ...     '"block_level_fusion_config":{"num_warps":"2","output_tiles":[{"sizes":["1","4"]}]}}} }'
    ... )
    >>> chosen_tiles(module.entry.root)
    ChosenTiles(kind='__triton', outputs=((1, 4),), contractions=(), warps=2, stages=0, ctas=0, \
split_k=0)
    """
    config = fusion_config(ins)
    block, gemm = config.get(BLOCK_LEVEL), config.get(GEMM)
    if isinstance(block, Mapping):
        outputs = output_tiles(config) or []
        contractions = [_sizes_of(dot) for dot in _dots(ins)]
    elif isinstance(gemm, Mapping):
        block = gemm
        outputs, contractions = _of_gemm(ins, gemm)
    else:
        return None
    if not outputs:
        return None
    return ChosenTiles(
        fusion_kind(ins),
        tuple(outputs),
        tuple(contractions),
        _number(block, "num_warps"),
        _number(block, "num_stages"),
        _number(block, "num_ctas"),
        _number(block, "split_k"),
    )


def output_tiles(config: Mapping[str, Any]) -> list[tuple[int, ...]] | None:
    """Return the tile sizes of each output in a fusion's backend config; `None` without them.

    >>> output_tiles({"block_level_fusion_config": {"output_tiles": [{"sizes": ["1", "64"]}]}})
    [(1, 64)]
    """
    block = config.get(BLOCK_LEVEL)
    tiles = block.get("output_tiles") if isinstance(block, Mapping) else None
    if not isinstance(tiles, Sequence) or isinstance(tiles, str):
        return None
    found = [_sizes_in(tile) for tile in tiles]
    known = [sizes for sizes in found if sizes is not None]
    return known if known and len(known) == len(found) else None


def chosen_sizes(symbolic: SymbolicTiles, chosen: ChosenTiles) -> tuple[int, ...] | str:
    """Return one tile size for each parameter, or the reason why the dump lacks some.

    The root that no instruction of the fusion uses has one of the output tiles, by its number among
    the outputs.
    """
    place = symbolic.roots.index(symbolic.root)
    if len(chosen.outputs) not in (1, len(symbolic.roots)):
        return f"{len(chosen.outputs)} output tiles in the dump, {len(symbolic.roots)} outputs"
    tile = chosen.outputs[place if len(chosen.outputs) > 1 else 0]
    own = [p for p in symbolic.parameters if not p.is_contracting]
    if len(tile) != len(own):
        return f"an output tile of {len(tile)} sizes in the dump, {len(own)} dimensions"
    alone = chosen.contractions[0] if len(chosen.contractions) == 1 else None
    outputs, sizes, summed = iter(tile), [], dict.fromkeys([p.instruction for p in own], 0)
    for p in symbolic.parameters:
        if not p.is_contracting:
            sizes.append(next(outputs))
            continue
        known = _sizes_of(p.instruction) or alone
        k = summed.get(p.instruction, 0)
        if known is None or k >= len(known):
            return f"no tile size of what `{p.instruction.name}` sums over in the dump"
        sizes.append(known[k])
        summed[p.instruction] = k + 1
    return tuple(sizes) if min(sizes, default=1) > 0 else "a tile size below 1 in the dump"


def _dots(ins: Instruction) -> list[Instruction]:
    return [inner for called in ins.calls for inner in called if isinstance(inner.op, DOTS)]


def _sizes_of(dot: Instruction) -> tuple[int, ...] | None:
    return _sizes_in(backend_config(dot.extras))


def _sizes_in(tile: object) -> tuple[int, ...] | None:
    sizes = tile.get("sizes") if isinstance(tile, Mapping) else None
    if not isinstance(sizes, Sequence) or isinstance(sizes, str):
        return None
    try:
        return tuple([int(size) for size in sizes])
    except (TypeError, ValueError):
        return None


def _of_gemm(
    ins: Instruction, gemm: Mapping[str, Any]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...] | None]]:
    """Return the tiles that `block_m`, `block_n` and `block_k` give the dot of a fusion.

    Both lists are empty unless the fusion has exactly one dot, the dot has one contracting
    dimension and at most one free dimension of each operand, and the fusion has the dot's shape.

    Returns:
        The tile of the output, as the only entry of a list: 1 for batch dimensions, `block_m` and
        `block_n`. The tile of the contracting dimension, as the only entry of a list: `block_k`.
    """
    dots = _dots(ins)
    sizes = [_number(gemm, name) for name in ("block_m", "block_n", "block_k")]
    if len(dots) != 1 or min(sizes) < 1 or not isinstance(dots[0].op, DOTS):
        return [], []
    (dot,), (m, n, k) = dots, sizes
    dims = dots[0].op.dimensions
    free = [
        len(sizes_of(operand)) - len(batch) - len(contracting)
        for operand, batch, contracting in (
            (dot.operands[0], dims.lhs_batch, dims.lhs_contracting),
            (dot.operands[1], dims.rhs_batch, dims.rhs_contracting),
        )
    ]
    is_same_shape = isinstance(ins.type, TensorType) and sizes_of(ins) == sizes_of(dot)
    if max(free) > 1 or len(dims.lhs_contracting) != 1 or not is_same_shape:
        return [], []
    tile = (*[1] * len(dims.lhs_batch), *[m] * free[0], *[n] * free[1])
    return [tile], [(k,)]


def _number(config: Mapping[str, Any], name: str) -> int:
    try:
        return max(int(config.get(name, 0)), 0)
    except (TypeError, ValueError):
        return 0
