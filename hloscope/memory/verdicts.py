"""XLA's own verdicts on coalescing: the compiler's heuristic and its map check.

Both are reproduced unchanged, mistakes included. The map check considers the first warp of the
first block only, assumes 32 lanes in a warp on every device, and ignores alignment.

Source: XLA `xla/service/gpu/model/coalescing_analysis.cc`, `gpu_fusible.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hloscope.affine import (
    Const,
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Var,
    as_sum,
    evaluate_array,
    from_terms,
    variables,
)
from hloscope.indexing import (
    IndexingMap,
    Variable,
    major_to_minor,
    substituted,
    substituted_constraints,
)
from hloscope.ir import Instruction, TensorType
from hloscope.memory.storage import ReductionShape, array_of
from hloscope.ops import Bitcast, BroadcastInDim, Elementwise, Fusion, Iota, Transpose
from hloscope.support.arrays import Ints, np, sorted_unique
from hloscope.support.devices import Device

LANES: Final = 32
TRANSACTION: Final = 128
"""Bytes of a memory transaction in the map check."""
THRESHOLD: Final = 0.9
_S: Final = Range(0)
_TH: Final = Dim(0)


# ------------------------------------------------------------------------------------ heuristic


def by_heuristic(
    emitter: str, producer: Instruction, consumer: Instruction | None, device: Device
) -> bool:
    """Does XLA's heuristic consider all reads of a fusion coalesced?

    Args:
        emitter: Name of the emitter.
        producer: The fusion or instruction.
        consumer: The fusion or instruction that it would be fused into, if any.
        device: The device.
    """
    if emitter != "transpose" and (
        transposes(producer) or (consumer is not None and transposes(consumer))
    ):
        return False
    return not (
        emitter == "reduction"
        and consumer is not None
        and _is_reduction(producer, device)
        and _is_reduction(consumer, device)
    )


def transposes(ins: Instruction) -> bool:
    """Does a fusion or instruction transpose so that the fastest-varying dimension changes?

    Transposes of broadcasts and iotas do not count.
    """
    inside = ins.calls[0].instructions if isinstance(ins.op, Fusion) and ins.calls else (ins,)
    return any(_moves_minor(one) and not _is_spread(one.operands[0]) for one in inside)


def _moves_minor(ins: Instruction) -> bool:
    """Does the instruction transpose or copy so that the fastest-varying dimension changes?"""
    if not (isinstance(ins.op, Transpose) or ins.op.name == "copy") or not ins.operands:
        return False
    here, there = array_of(ins), array_of(ins.operands[0])
    if here is None or there is None or here.rank != there.rank:
        return False
    mine, other = _minor(here), _minor(there)
    if mine is None or other is None:
        return False
    if isinstance(ins.op, Transpose):
        return ins.op.permutation[mine] != other
    return mine != other


def _minor(type: TensorType) -> int | None:
    """Return the fastest-varying dimension whose size is not 1; `None` if all are 1."""
    order = reversed(major_to_minor(type))
    return next((k for k in order if type.shape[k] != 1), None)


def _is_spread(ins: Instruction) -> bool:
    """Is the value a broadcast or an iota, possibly behind element-wise ops or bitcasts?"""
    while True:
        if isinstance(ins.op, BroadcastInDim | Iota) or ins.op.name == "broadcast":
            return True
        if len(ins.operands) != 1 or not isinstance(ins.op, Bitcast | Elementwise):
            return False
        ins = ins.operands[0]


def _is_reduction(ins: Instruction, device: Device) -> bool:
    """Is a value, or an output of a fusion, a reduction that a reduction emitter accepts?"""
    root = ins.calls[0].root if isinstance(ins.op, Fusion) and ins.calls else ins
    values: Iterable[Instruction] = root.operands if root.op.name == "tuple" else (root,)
    shapes = map(ReductionShape.of, values)
    return any(shape is not None and shape.is_worth_it(device) for shape in shapes)


# -------------------------------------------------------------------------------------- by maps


def by_map(map: IndexingMap, type: TensorType) -> bool:
    """Does XLA's map check consider an access coalesced?

    Args:
        map: Map from threads (x, y, z), blocks (x, y, z) and loops to an address in elements.
        type: Type of the array.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> text = "(th_x, th_y, th_z, bl_x, bl_y, bl_z) -> (th_x * {}), domain: th_x in [0, 127], "
    >>> text += "th_y in [0, 0], th_z in [0, 0], bl_x in [0, 9], bl_y in [0, 0], bl_z in [0, 0]"
    >>> [by_map(IndexingMap.parse(text.format(step)), parse_type("f32[512]")) for step in (1, 4)]
    [True, False]
    """
    if map.is_undefined:
        return False
    if type.rank == 0:
        return True
    sample = _first_warp(_without_runtime(map))
    if sample.is_known_empty:
        return True
    sample = _innermost(sample)
    address = sample.results[0]
    parts = _split(address)
    if parts is None or len(sample.constraints) > 1:
        return False
    if sample.constraints and sample.constraints[0][0] != address:
        return False
    size = -(-type.element.bits // 8)
    runs = _runs(*parts, sample)
    moved = sum(-(-length * size // TRANSACTION) for length in runs)
    ideal = -(-sum(runs) * size // TRANSACTION)
    return not moved or ideal > moved * THRESHOLD


def _without_runtime(map: IndexingMap) -> IndexingMap:
    """Return the map at the middle value of each run-time variable, without constraints."""
    if not map.runtime:
        return map
    middle: dict[Var, Expr] = {
        Runtime(k): Const((v.interval.lo + v.interval.hi) // 2) for k, v in enumerate(map.runtime)
    }
    results = substituted(map.results, middle)
    return IndexingMap(map.dims, map.ranges, (), results).simplify().remove_unused_symbols()


def _first_warp(map: IndexingMap) -> IndexingMap:
    """Return the map restricted to threads 0 to 31 in x of the first block."""
    dims = map.dims
    if any(not v.interval.lo <= 0 <= v.interval.hi for v in dims[1:]):
        return IndexingMap(results=[0], constraints=[(Const(0), Interval.EMPTY)])
    new: dict[Var, Expr] = {Dim(k): Const(0) for k in range(1, len(dims))}
    inside = (_TH, Interval(max(dims[0].interval.lo, 0), min(dims[0].interval.hi, LANES - 1)))
    sample = IndexingMap(
        [Variable(Interval(0, LANES - 1), dims[0].name)],
        map.ranges,
        (),
        substituted(map.results, new),
        [*substituted_constraints(map.constraints, new), inside],
    )
    return sample.simplify(replace_points=False).rescale_symbols().remove_unused_symbols()


def _innermost(map: IndexingMap) -> IndexingMap:
    """Return the map along the innermost loop: other loops are at their lowest value.

    Constraints are dropped.
    """
    if len(map.ranges) <= 1:
        return map
    new: dict[Var, Expr] = {Range(k): Const(v.interval.lo) for k, v in enumerate(map.ranges[:-1])}
    new[Range(len(map.ranges) - 1)] = _S
    inner = IndexingMap(map.dims, map.ranges[-1:], (), substituted(map.results, new))
    return inner.simplify(replace_points=False).remove_unused_symbols()


def _split(address: Expr) -> tuple[Expr, Expr] | None:
    """Return an address as its terms in the lane and its terms in the loop.

    `None` if a term contains both.
    """
    of_lane, of_loop = [], []
    for term, factor in as_sum(address)[0]:
        used = variables(term)
        if _TH in used and _S in used:
            return None
        if _TH in used:
            of_lane.append((term, factor))
        if _S in used:
            of_loop.append((term, factor))
    return from_terms(of_lane, 0), from_terms(of_loop, 0)


def _runs(of_lane: Expr, of_loop: Expr, sample: IndexingMap) -> list[int]:
    """Return the lengths of the contiguous runs of elements that the first warp accesses.

    Args:
        of_lane: Terms of the address that contain the lane.
        of_loop: Terms of the address that contain the loop.
        sample: Map of the first warp.
    """
    loop = sample.ranges[0].interval.size if of_loop is _S and sample.ranges else 1
    match as_sum(of_lane):
        case ((Dim(0), factor),), 0:
            step: int | None = factor
        case _:
            step = None
    # XLA's rules: lanes at distance 1 form one run; if the loop bridges the distance between lanes,
    # they form one run as well; otherwise each lane is a run.
    if step in (1, -1):
        return [LANES]
    if step is not None:
        if loop >= abs(step) and of_loop is _S:
            return [abs(step) * (LANES - 1) + loop]
        return [loop] * LANES
    lanes = sample.dims[0].interval
    at: dict[Var, Ints] = {_TH: np.arange(lanes.lo, lanes.hi + 1, dtype=np.int64)}
    return _joined(sorted_unique(evaluate_array(of_lane, at)).tolist(), loop)


def _joined(values: list[int], loop: int) -> list[int]:
    """Return the lengths of runs after overlapping or adjacent ones are joined.

    A run of `loop` elements begins at each of the sorted values.
    """
    runs: list[list[int]] = []
    for value in values:
        if runs and value <= runs[-1][1] + 1:
            runs[-1][1] = max(runs[-1][1], value + loop - 1)
        else:
            runs.append([value, value + loop - 1])
    return [stop - start + 1 for start, stop in runs]
