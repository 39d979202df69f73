"""Carried tiles against what ops really read, op by op, on random sizes, parameters and tiles.

What an element depends on is found by computing the op on sets of elements (`truth.marks`).  A tile
that claims to be exact has, for every tile id, precisely the elements that the given tile depends
on; one that claims too much has them all.  No tile has an index outside of its array.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, product
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray

from hloscope.affine import Const, Dim, Expr, Range, Runtime, Var, evaluate
from hloscope.ops import AllReduce, GetTupleElement
from hloscope.tiling import (
    CarriedTile,
    DimensionKind,
    DimTile,
    Fused,
    Refusal,
    Roots,
    Tile,
    TilePrecision,
    TilingSpace,
    propagate_to_operands,
    propagate_to_outputs,
)
from tests.indexing.test_truth import FAMILIES
from tests.indexing.truth.generator import CASES, Gen
from tests.indexing.truth.marks import Case

assert FAMILIES  # registers the makers of cases

Bools = NDArray[np.bool_]
MOST_IDS = 24
"""So many tile ids are looked at for one tile."""


def _cases(name: str, full: bool) -> list[Case]:
    start = zlib.crc32(name.encode()) % 100_000 + 7
    return [CASES[name](Gen(start + i)) for i in range(60 if full else 6)]


def _space(case: Case, g: Gen, *, symbolic: bool) -> tuple[TilingSpace, list[int]] | None:
    """The space of the instruction alone, with random sizes of tiles."""
    space = TilingSpace.of(Fused.of(case.ins), Roots.OWN)
    if isinstance(space, Refusal):
        return None
    sizes = [g.pick([1, 2, 3, max(d.size, 1), d.size + 2]) for d in space.dimensions]
    return (space if symbolic else space.with_sizes(sizes)), sizes


def _dim_tile(g: Gen, space: TilingSpace, n: int, own: Expr | None) -> DimTile:
    """A tile of a dimension: its own one, or one that is moved, stepped or cut off."""
    outer = [i for i, d in enumerate(space.dimensions) if d.position < _rank(space)]
    if own is None and outer and g.chance(0.7):
        i = g.pick(outer)  # a tile of the output knows nothing of what is summed for it
        own = Dim(i) * (Range(i) if space.is_symbolic else g.number(1, 2))
    step, shift = g.pick([1, 1, 1, 2, 3]), g.pick([0, 0, 0, 1, 2, -1, -2])
    bound = n if g.chance(0.7) else g.number(0, n)
    size = g.number(1, max(n, 1) + 1)
    offset = (own if own is not None else Const(0)) + shift
    return DimTile(offset, Const(size), Const(step), Const(bound))


def _rank(space: TilingSpace) -> int:
    """How many dimensions the outputs have."""
    return max((len(tile.dims) for tile in space.root_tiles), default=0)


def _tile(g: Gen, space: TilingSpace, shape: Sequence[int], root: Tile | None) -> Tile:
    """The root tile, or any tile of an array."""
    if root is not None and len(root.dims) == len(shape) and g.chance(0.4):
        return root
    own = [d.offset for d in root.dims] if root is not None and len(root.dims) == len(shape) else []
    dims = [
        _dim_tile(g, space, n, own[k] if own and g.chance(0.5) else None)
        for k, n in enumerate(shape)
    ]
    if root is not None and own and g.chance(0.4):  # only some dimensions are odd
        dims = [d if g.chance(0.4) else mine for d, mine in zip(dims, root.dims, strict=True)]
    return Tile(tuple(dims))


def _points(
    case: Case, space: TilingSpace, sizes: Sequence[int], kind: DimensionKind
) -> Iterator[dict[Var, int]]:
    """Every tile id of the dimensions of a kind; those of the others are left out."""
    counts = [
        range(max(1, -(-d.size // size))) if d.kind is kind else (None,)
        for d, size in zip(space.dimensions, sizes, strict=True)
    ]
    for ids in product(*counts):
        yield {Dim(i): tid for i, tid in enumerate(ids) if tid is not None}


def _fixed(case: Case, space: TilingSpace, sizes: Sequence[int]) -> dict[Var, int]:
    """Sizes of tiles, and what is read at run time."""
    at: dict[Var, int] = {Range(i): size for i, size in enumerate(sizes)}
    known = {o.ins: o.values for o in case.operands}
    for i, value in enumerate(space.runtime):
        array = known.get(value.origin)
        if array is not None and array.size == 1:
            at[Runtime(i)] = min(max(int(array.reshape(-1)[0]), value.bounds.lo), value.bounds.hi)
    return at


def _mask(tile: Tile, shape: Sequence[int], at: dict[Var, int]) -> Bools:
    """The elements of an array that a tile keeps, row-major."""
    kept = np.zeros(tuple(shape), dtype=bool)
    ranges = tile.indices(at)
    for indices, n in zip(ranges, shape, strict=True):
        assert all(0 <= i < n for i in indices), f"{tile} leaves {list(shape)} at {at}"
    kept[np.ix_(*[np.array(r, dtype=np.int64) for r in ranges])] = True
    return kept.reshape(-1)


def _leaf(case: Case) -> int:
    """Which array of an operand the tile is of."""
    return case.ins.op.index if isinstance(case.ins.op, GetTupleElement) else 0


def _judge(said: Bools, true: Bools, part: CarriedTile, what: str) -> None:
    if part.fit is TilePrecision.EXACT:
        assert (said == true).all(), f"{what}: not exact: {part.tile}"
    elif part.fit is TilePrecision.OVER:
        assert part.reason
        assert not (true & ~said).any(), f"{what}: misses elements: {part.tile}"


def _check_operands(case: Case, g: Gen, *, symbolic: bool) -> Counter[TilePrecision]:
    found = _space(case, g, symbolic=symbolic)
    if found is None:
        return Counter()
    space, sizes = found
    output = g.number(0, len(case.outputs) - 1)
    shape = case.outputs[output].shape
    roots = space.root_tiles
    tile = _tile(g, space, shape, roots[output] if output < len(roots) else None)
    answer = propagate_to_operands(space, case.ins, tile, output, beyond_xla=g.chance(0.5))
    if isinstance(answer, Refusal):
        assert answer.reason
        return Counter()
    assert len(answer.parts) == len(case.operands)
    fixed = _fixed(case, space, sizes)
    steps = [*_points(case, space, sizes, DimensionKind.SEQUENTIAL)]
    ids = [*islice(_points(case, space, sizes, DimensionKind.PARALLEL), MOST_IDS)]
    for k, (part, operand) in enumerate(zip(answer.parts, case.operands, strict=True)):
        leaf = _leaf(case)
        source = operand.leaves[leaf].shape
        relation = case.relation(output, k, leaf)
        for at in ids:
            read = np.any([_mask(tile, shape, fixed | at | step) for step in steps], axis=0)
            if any(v not in fixed and isinstance(v, Runtime) for v in part.tile.variables()):
                break
            true = relation[read].any(axis=0)
            said = np.zeros_like(true)
            for step in steps:
                _add(said, case, part.tile, source, fixed | at | step)
            if isinstance(case.ins.op, AllReduce):  # what the other devices add is left out
                begin = case.member * prod(source)
                true = true[begin : begin + prod(source)]
                said = said[begin : begin + prod(source)]
            _judge(said, true, part, f"{case.ins.op} {case.note} of {tile}, operand {k} at {at}")
    return Counter(part.fit for part in answer.parts)


def _add(said: Bools, case: Case, tile: Tile, shape: Sequence[int], at: dict[Var, int]) -> None:
    """Mark the elements of a tile, on the device that they are on."""
    mask = _mask(tile, shape, at)
    member = case.member if case.group > 1 else 0
    for replica in tile.replicas:
        member = evaluate(replica.offset, at)
        if not mask.any() or not replica.indices(at):
            return
    said[member * mask.size : (member + 1) * mask.size] |= mask


def _check_outputs(case: Case, g: Gen) -> Counter[TilePrecision]:
    found = _space(case, g, symbolic=False)
    if found is None or not case.operands:
        return Counter()
    space, sizes = found
    k = g.number(0, len(case.operands) - 1)
    leaf = _leaf(case)
    shape = case.operands[k].leaves[leaf].shape
    has_root = case.outputs[0].shape == shape and space.root_tiles
    tile = _tile(g, space, shape, space.root_tiles[0] if has_root else None)
    answer = propagate_to_outputs(space, case.ins, tile, k, beyond_xla=g.chance(0.5))
    if isinstance(answer, Refusal):
        assert answer.reason
        return Counter()
    assert len(answer.parts) == len(case.outputs)
    fixed = _fixed(case, space, sizes)
    points = product(
        _points(case, space, sizes, DimensionKind.PARALLEL),
        _points(case, space, sizes, DimensionKind.SEQUENTIAL),
    )
    for a, b in islice(points, MOST_IDS):
        at = fixed | a | b
        read = _mask(tile, shape, at)
        for output, part in enumerate(answer.parts):
            relation = case.relation(output, k, leaf)
            if relation.shape[1] != read.size:  # of several devices
                continue
            true = relation[:, read].any(axis=1)
            said = _mask(part.tile, case.outputs[output].shape, at)
            _judge(said, true, part, f"{case.ins.op} {case.note} from {tile}, output {output}")
    return Counter(part.fit for part in answer.parts)


@pytest.mark.parametrize("symbolic", [False, True], ids=["sizes", "symbolic"])
@pytest.mark.parametrize("name", CASES)
def test_tiles_of_operands_are_what_the_tile_reads(name: str, symbolic: bool, full: bool) -> None:
    for i, case in enumerate(_cases(name, full)):
        for k in range(4):
            _check_operands(case, Gen(1000 * i + k), symbolic=symbolic)


@pytest.mark.parametrize("name", CASES)
def test_tiles_of_outputs_are_what_the_tile_reaches(name: str, full: bool) -> None:
    for i, case in enumerate(_cases(name, full)):
        for k in range(4):
            _check_outputs(case, Gen(1000 * i + k))


EXACT = """
    broadcast_in_dim concatenate dot_general elementwise pad reduce reshape slice transpose
""".split()


@pytest.mark.parametrize("name", [name for name in EXACT if name in CASES])
def test_tiles_are_exact_often_enough_to_be_checked(name: str) -> None:
    claims: Counter[TilePrecision] = Counter()
    for i, case in enumerate(_cases(name, full=False)):
        for k in range(4):
            claims += _check_operands(case, Gen(1000 * i + k), symbolic=False)
    assert claims[TilePrecision.EXACT] >= 5, claims
