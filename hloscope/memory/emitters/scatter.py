"""The scatter emitters: threads run over updates, or warps over runs of sorted slices.

Source: XLA `xla/backends/gpu/codegen/emitters/scatter.cc`; how an update is combined with the old
element: `xla/backends/gpu/codegen/emitters/transforms/lower_tensors.cc`, `EmitAtomicRMW`.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Expr, Interval, Range, mod
from hloscope.indexing import IndexingMap, Variable, major_to_minor
from hloscope.ir import Instruction, TensorType
from hloscope.memory.choice import Choice, written_by
from hloscope.memory.kernel import THREAD, Kernel, Launch, Reading, Stores, split
from hloscope.memory.storage import array_of, element_count, index_in
from hloscope.ops import Parameter, Scatter

WARPS: Final = 4
VECTOR_BITS: Final = 128
INDEX_VECTOR: Final = 4
"""Indices that a thread loads at once if each slice has one index coordinate.

It applies if a warp has more slices than this.
"""
NO_SLICES = "the indices are not [slices, coordinates]: what is read of them is not followed"
RETRIED = "compare-and-swap is tried again where another update of the element comes in between"
BY_SIGN = "the sign of an update says which of two atomics it takes; at best no update is larger"
ADDED_BEFORE = "slices of a warp that have equal indices are added before they are stored"
OLD: Final = -1
"""Loop number of loads of old elements, which are never merged with other loads."""
WORD: Final = 32
"""Bits of the narrowest compare-and-swap."""


class Plan(Struct, frozen=True):
    """Launch and maps of a scatter kernel, whose threads run over the updates.

    Attributes:
        updates: Map from threads to elements of the updates.
        slices: Map from threads to the slices whose indices they load; `None` if it is unknown.
        launch: Launch dimensions.
        vector: Consecutive elements of a thread.
        run: Slices that a warp processes one after another.
        is_unchecked: Do threads without an update load indices beyond the last one?
    """

    updates: IndexingMap
    slices: IndexingMap | None
    launch: Launch
    vector: int
    run: int = 1
    is_unchecked: bool = False


def scatter(choice: Choice) -> Kernel | None:
    """Return the kernel of a scatter; `None` if its sizes are unknown or the op is malformed."""
    hero = choice.heroes[0]
    if not isinstance(hero.op, Scatter) or len(hero.operands) % 2 == 0:
        return None
    count = len(hero.operands) // 2
    type, indices = array_of(hero.operands[count + 1]), array_of(hero.operands[count])
    if type is None or indices is None:
        return None
    plan = _plan(choice, hero, type, indices)
    readings: list[Reading] = []
    inputs: dict[tuple[int, int], IndexingMap] = {}
    outputs: list[tuple[IndexingMap, ...] | None] = []
    for k in range(count):
        number = count + 1 + k
        inputs[0, number] = plan.updates
        readings.append(Reading(hero.operands[number], 0, plan.updates))
    if plan.slices is not None:
        inputs[0, count] = plan.slices
        is_unchecked = plan.is_unchecked
        readings.append(Reading(hero.operands[count], 0, plan.slices, is_unchecked=is_unchecked))
    stores = _stores(hero, plan, type, choice.device.warp)
    for leaf, out in enumerate(choice.analysis.tensors(choice.roots[0].type)):
        if not isinstance(out, TensorType):
            continue
        placed = written_by(hero, count + 1 + leaf, plan.updates) if count == 1 else None
        outputs.append(placed)
        if stores.reads_old and placed is not None:
            old = hero.operands[leaf]
            readings += [
                Reading(old, 0, map, is_hero=False, before=stores, loop=OLD) for map in placed
            ]
    return Kernel(
        "scatter",
        plan.launch,
        choice.heroes,
        tuple(readings),
        inputs,
        tuple(outputs),
        unroll=plan.vector,
        stores=dict.fromkeys(range(len(outputs)), stores),
        notes=() if plan.slices is not None else (NO_SLICES,),
    )


def _slices(op: Scatter, update: TensorType, indices: TensorType) -> int | None:
    """Return the number of update slices of a scatter in XLA's simplified form.

    `None` for other forms.

    Args:
        op: The scatter.
        update: Type of the updates.
        indices: Type of the indices.
    """
    is_simple = (
        indices.rank == 2
        and op.index_vector_dim == 1
        and update.rank >= 1
        and op.update_window_dims == tuple(range(1, update.rank))
        and update.shape[0] == indices.shape[0]
    )
    return update.shape[0] if is_simple else None


def _plan(choice: Choice, hero: Instruction, type: TensorType, indices: TensorType) -> Plan:
    assert isinstance(hero.op, Scatter)
    slices = _slices(hero.op, type, indices)
    elements = element_count(type)
    unroll = choice.unroll(elements)
    each = elements // slices if slices else 0
    if each and choice.unroll_asked is None:
        # All elements of a vector must belong to one slice: they share its index.
        unroll = gcd(each, unroll)
    warps = WARPS * choice.device.sms
    by_warp = slices is not None and slices > warps and hero.op.indices_are_sorted
    if each and by_warp and not hero.op.unique_indices:
        return _by_warp(choice, hero, type, indices)
    launch = choice.launch(elements, unroll)
    updates = choice.over_elements(type, launch, unroll)
    x, y, z = launch.threads
    warp = choice.device.warp
    whole = replace(launch, threads=(-(-x // warp) * warp, y, z))
    if slices is None:
        return Plan(updates, None, whole, unroll)
    loading = updates
    is_unchecked = False
    if each > 1 and major_to_minor(type)[0] == 0:
        # XLA checks bounds only where it writes the slice without a division that the block's size
        # makes whole: the threads behind the last update load an index as well.
        linear = (whole.block * whole.block_size + THREAD) * unroll + Range(0)
        if whole != launch:
            loading = whole.map((unroll,), (linear // each,))
            is_unchecked = True
        elif whole.block_size * unroll % each == 0:
            loading = whole.map((unroll,), (mod(linear // each, slices),))
    slices_read = _of_indices(loading, indices)
    return Plan(updates, slices_read, whole, unroll, is_unchecked=is_unchecked)


def _by_warp(choice: Choice, hero: Instruction, type: TensorType, indices: TensorType) -> Plan:
    """Return the plan in which each warp processes consecutive slices, a vector per lane.

    Args:
        choice: The fusion and its device.
        hero: The scatter.
        type: Type of the updates.
        indices: Type of the indices.
    """
    warp = choice.device.warp
    slices, each = type.shape[0], prod(type.shape[1:])
    vector = gcd(each, max(VECTOR_BITS // max(type.element.bits, 8), 1))
    # A vector so wide that one step of the warp exceeds the slice leaves lanes idle.
    while vector > 1 and vector * warp > each:
        vector //= 2
    coordinates = indices.shape[1]
    run = -(-slices // max(WARPS * choice.device.sms, _start_positions(hero, type)))
    loaded = INDEX_VECTOR if run > INDEX_VECTOR and coordinates == 1 else 1
    run = -(-run // loaded) * loaded
    launch = Launch.of(WARPS * warp, -(-slices // (run * WARPS)))
    first = (launch.block * WARPS + THREAD // warp) * run
    number = first + Range(0)
    steps = -(-each // (warp * vector))
    linear = (Range(1) * warp + THREAD % warp) * vector + Range(2)
    sizes = type.shape[1:]
    index: list[Expr] = [number, *split(linear, sizes)]
    index = index_in(index, type.shape, TensorType(type.element, type.shape))
    inside = [(number, slices), (linear, prod(sizes))]
    updates = launch.map((run, steps, vector), index, inside).simplify(replace_points=False)
    at = first + Range(0) * loaded + Range(1)
    by_slice = launch.map((run // loaded, loaded), (at,), [(at, slices)])
    return Plan(updates, _of_indices(by_slice, indices), launch, vector, run)


def _start_positions(hero: Instruction, type: TensorType) -> int:
    """Count the start indices at which a slice of the updates fits into the operand.

    Args:
        hero: The scatter.
        type: Type of the updates.
    """
    assert isinstance(hero.op, Scatter)
    operand = array_of(hero.operands[0])
    if operand is None or len(type.shape) != operand.rank + 1:
        return 1
    moved = hero.op.scatter_dims_to_operand_dims
    return prod([max(operand.shape[k] - type.shape[k + 1] + 1, 1) for k in moved])


def _of_indices(map: IndexingMap, indices: TensorType) -> IndexingMap:
    """Return a map from threads to slices as a map to all index coordinates of the slice.

    Args:
        map: Map from threads to slices.
        indices: Type of the indices, with shape [slices, coordinates].
    """
    coordinates = indices.shape[1]
    ranges = (*map.ranges, Variable(Interval(0, coordinates - 1)))
    results = (map.results[0], Range(len(map.ranges)))
    found = map.with_(ranges=ranges, results=results)
    return found.simplify(replace_points=False).remove_unused_symbols()


# --------------------------------------------------------------------------------------- stores


def _stores(hero: Instruction, plan: Plan, type: TensorType, warp: int) -> Stores:
    """Return how updates are stored: by ordinary stores, atomics, or compare-and-swap loops.

    Args:
        hero: The scatter.
        plan: Launch and maps of the kernel.
        type: Type of the updates.
        warp: Lanes of a warp.
    """
    assert isinstance(hero.op, Scatter)
    combined = _combiner(hero)
    # Unique indices exclude races, so no atomic is needed.
    if hero.op.unique_indices:
        return Stores(reads_old=combined != "")
    each = prod(type.shape[1:])
    # The last step of a slice that is not full has a separate branch with its own store.
    most = 2 if plan.run > 1 and each % (plan.vector * warp) else 1
    reason = ADDED_BEFORE if plan.run > 1 else ""
    apart = Stores(is_apart=True, most=most, run=plan.run, reason=reason)
    kind, bits, vector = type.element.kind, type.element.bits, plan.vector
    if not combined and bits >= WORD:
        return apart
    is_float = kind == "float"
    if combined == "add" and is_float:
        if bits == WORD and vector > 1:
            return replace(apart, is_apart=False)
        if type.element.name in ("f16", "bf16", "f64"):
            return apart
    if combined in ("add", "minimum", "maximum") and not is_float and bits >= WORD:
        return apart
    if combined == "maximum" and type.element.name == "f32":
        return replace(apart, reads_old=True, least=0, most=2, reason=BY_SIGN)
    # No hardware atomic fits: XLA emits a compare-and-swap loop. In the worst case every slice hits
    # one element, and each retries once for each of the others.
    slices = max(element_count(type) // max(each, 1), 1)
    return replace(
        apart, reads_old=True, tries=slices, word=max(bits, WORD), reason=RETRIED
    )  # fmt: skip


def _combiner(hero: Instruction) -> str:
    """Return the name of the op that combines an update with the old element.

    Empty if the update replaces the element, `other` if the combination is not a single op.
    """
    root = hero.calls[0].root if hero.calls else hero
    if isinstance(root.op, Parameter):
        return "" if root is hero.calls[0].parameters[-1] else "other"
    both = set(root.operands) == set(hero.calls[0].parameters) if hero.calls else False
    return root.op.name if both else "other"
