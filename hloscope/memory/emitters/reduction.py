"""The reduction emitters: of rows, of several rows in a warp, of columns, of narrow columns."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Expr, Interval, Range
from hloscope.indexing import IndexingMap
from hloscope.ir import Instruction, Layout, TensorType
from hloscope.memory.choice import NO_BITS, Choice, in_memory_of
from hloscope.memory.fused import behind_tuples
from hloscope.memory.kernel import (
    BLOCK_Z,
    THREAD,
    Kernel,
    Launch,
    Proof,
    Reading,
    SharedAccess,
    Stores,
    split,
)
from hloscope.memory.storage import ReductionShape, element_count, index_in
from hloscope.ops import BroadcastInDim, Constant, Reduce

# --------------------------------------------------------------------------------------------------
# The reduction emitters: rows, several rows in a warp, columns, narrow columns.
#
# Source: XLA `xla/backends/gpu/codegen/emitters/reduction.cc`, `reduction_base.cc`.


THREADS: Final = 256
"""Threads of a block, if a row does not need more."""
MOST_THREADS: Final = 1024
ROW_ELEMENTS: Final = 16
"""Number of row elements that one thread reduces; longer rows get more threads."""
COLUMN: Final = 32
"""Side of the square of threads, rows by columns, of a block in a column reduction."""
SMALL_THREADS: Final = 128
FEW_STEPS: Final = 4
"""Maximum steps that are surely unrolled in a column reduction with vectors of four.

Beyond it LLVM decides.
"""


class Plan(Struct, frozen=True):
    """Launch and index maps of a reduction kernel: which matrix elements its threads access.

    Attributes:
        emitter: Name of the emitter.
        launch: Launch dimensions for one group of roots.
        shape: Sizes of the matrix as the emitter sees it.
        ranges: Sizes of the loops of a thread that reads.
        index: Index that a thread reads, in a matrix of sizes `shape`.
        out_ranges: Sizes of the loops of a thread that writes.
        out: Index that a thread writes, in the kept sizes.
        writers: An expression that is 0 for threads that write.
        vector: Elements that a thread reads at once.

        shared: Accesses of the tile in shared memory: label, index, sizes of the tile, and the
            condition for active threads: an expression and its exclusive upper bound.
        stores_apart: Is each element written under a separate condition?
        proof: Limits on the addresses of vector loads that LLVM proves aligned.
    """

    emitter: str
    launch: Launch
    shape: tuple[int, ...]
    ranges: tuple[int, ...]
    index: tuple[Expr, ...]
    out_ranges: tuple[int, ...]
    out: tuple[Expr, ...]
    writers: Expr
    vector: int
    shared: tuple[tuple[str, tuple[Expr, Expr], tuple[int, int], Expr, int], ...] = ()
    stores_apart: bool = False
    proof: Proof | None = None


def reduction(choice: Choice) -> Kernel:
    """Return the kernel that a reduction emitter generates."""
    first = choice.first_reduction
    assert first is not None
    shape = ReductionShape.of(first)
    assert shape is not None
    groups = groups_of(choice)
    plan = _plan(choice, shape)
    # Roots without common work are computed by different blocks: their number is the grid's z.
    launch = replace(plan.launch, blocks=(*plan.launch.blocks[:2], max(groups, default=0) + 1))
    plan = replace(plan, launch=launch)
    readings: list[Reading] = []
    outputs: list[tuple[IndexingMap, ...] | None] = []
    inputs: dict[tuple[int, int], IndexingMap] = {}
    stores: dict[int, Stores] = {}
    for k, hero in enumerate(choice.heroes):
        if not choice.is_reduction_root(k):
            _side_output(choice, plan, k, groups[k], readings, outputs)
            continue
        written = _output_map(plan, shape, groups[k], hero)
        count = len(hero.operands) // 2
        for number, operand in enumerate(hero.operands):
            if number < count:
                assert isinstance(operand.type, TensorType)
                map = _map(plan, groups[k], operand.type)
                inputs[k, number] = map
                is_row = shape.by_rows and plan.vector > 1
                readings.append(Reading(operand, 0, map, proof=plan.proof, is_row=is_row))
            else:  # XLA has no map of an initial value
                readings.append(Reading(operand, 0, written.with_(results=()), is_hero=False))
        for leaf, type in enumerate(choice.analysis.tensors(choice.roots[k].type)):
            if not isinstance(type, TensorType):
                continue
            place = _to_root(written, hero, type)
            if plan.stores_apart:
                stores[len(outputs)] = Stores(is_apart=True)
            outputs.append(None if place is None else (place,))
            if place is not None and behind_tuples(choice.roots[k]) is not hero:
                readings.append(Reading(choice.roots[k], leaf, place, is_hero=False))
    return Kernel(
        plan.emitter,
        launch,
        choice.heroes,
        tuple(readings),
        inputs,
        tuple(outputs),
        tile=plan.launch.map(
            plan.ranges, plan.index, zip(plan.index, plan.shape, strict=True)
        ).simplify(replace_points=False),
        shared=_shared(plan, first),
        unroll=plan.vector,
        stores=stores,
    )


def _side_output(
    choice: Choice,
    plan: Plan,
    number: int,
    group: int,
    readings: list[Reading],
    outputs: list[tuple[IndexingMap, ...] | None],
) -> None:
    root = choice.roots[number]
    for leaf, type in enumerate(choice.analysis.tensors(root.type)):
        if isinstance(type, TensorType):
            map = _map(plan, group, type)
            outputs.append((map,))
            readings.append(Reading(root, leaf, map, proof=plan.proof))


def _map(plan: Plan, group: int, type: TensorType) -> IndexingMap:
    """Return the map from threads to an array with as many elements as the reduced matrix.

    Args:
        plan: Launch and index maps of the kernel.
        group: Number of the group of roots.
        type: Type of the array.
    """
    conditions = [*zip(plan.index, plan.shape, strict=True)]
    index = index_in(plan.index, plan.shape, type)
    if element_count(type) == 0:
        # An array without elements has an empty map, whatever the sizes of the plan.
        conditions.append((THREAD * 0, 0))
    map = plan.launch.map(plan.ranges, index, conditions)
    return _of_group(map, plan, group).simplify(replace_points=False)


def _of_group(map: IndexingMap, plan: Plan, group: int) -> IndexingMap:
    if plan.launch.blocks[2] == 1:
        return map
    return map.add_constraint(BLOCK_Z, Interval(group, group))


def _output_map(plan: Plan, shape: ReductionShape, group: int, hero: Instruction) -> IndexingMap:
    """Return the map from threads to the elements of a hero's result that they write.

    Args:
        plan: Launch and index maps of the kernel.
        shape: The reduction in memory order.
        group: Number of the hero's group of roots.
        hero: The reduction.
    """
    assert isinstance(hero.op, Reduce)
    source = hero.operands[0].type
    assert isinstance(source, TensorType)
    kept = _without(source, hero.op.dimensions)
    conditions = [*zip(plan.out, shape.kept, strict=True), (plan.writers, 1)]
    index = index_in(plan.out, shape.kept, kept)
    map = plan.launch.map(plan.out_ranges, index, conditions)
    return _of_group(map, plan, group).simplify(replace_points=False)


def _to_root(written: IndexingMap, hero: Instruction, type: TensorType) -> IndexingMap | None:
    result = hero.type if isinstance(hero.type, TensorType) else None
    if result is None:  # of several operands; such a hero is the root
        return written if len(written.results) == type.rank else None
    return in_memory_of(written, result, type)


def _without(type: TensorType, dimensions: tuple[int, ...]) -> TensorType:
    """Return the array type without the given dimensions.

    The other dimensions keep their order in memory.
    """
    kept = [k for k in range(type.rank) if k not in dimensions]
    layout = None
    if type.layout is not None and len(type.layout.minor_to_major) == type.rank:
        layout = Layout(tuple([kept.index(k) for k in type.layout.minor_to_major if k in kept]))
    return TensorType(type.element, tuple([type.shape[k] for k in kept]), layout)


# ---------------------------------------------------------------------------------------- plans


def _plan(choice: Choice, shape: ReductionShape) -> Plan:
    warp = choice.device.warp
    if shape.by_rows:
        vector = _rows_in_warp(choice, shape)
        return _multi_row(shape, vector) if vector else _row(choice, shape)
    minor = shape.sizes[2]
    if minor and warp % minor == 0:
        return _small_column(choice, shape)
    return _column(choice, shape)


def _vector(choice: Choice, minor: int, threads: int) -> int:
    """Return how many elements of a row a thread reads at once: 1, 2 or 4.

    Args:
        choice: The fusion and its device.
        minor: Elements of a row.
        threads: Threads that reduce a row.
    """
    bits = choice.input_bits
    is_complex = any(type.element.kind == "complex" for type in choice.fused.tensors)
    if minor % 2 or threads * 2 > minor or is_complex or 64 <= bits < NO_BITS:
        return 1
    if bits >= 32 or threads * 4 > minor:
        return 2
    return 4 if minor % 4 == 0 else 2


def _rows_in_warp(choice: Choice, shape: ReductionShape) -> int:
    """Return the elements that a thread reads at once if several rows fit into a warp; else 0."""
    minor = shape.sizes[2]
    first = choice.first_reduction
    assert first is not None
    if minor <= 0 or minor & (minor - 1) or len(first.operands) > 2:
        return 0  # a reduction of several arrays has one row a warp
    smallest = min(choice.input_bits, choice.output_bits)
    largest = max(choice.input_bits, choice.output_bits)
    if largest == NO_BITS:
        largest = choice.output_bits
    vector = min(minor, max(64 // smallest, 1))
    if largest >= 32:
        vector = max(min(128 // largest, vector), 1)
    if minor > choice.device.warp * vector:
        return 0
    # Shorter vectors make more blocks, until each multiprocessor has one.
    while vector > 1 and _multi_row_blocks(shape, vector) < choice.device.sms:
        vector //= 2
    return vector if minor <= choice.device.warp * vector else 0


def _rows_of_block(kept: int, threads: int) -> int:
    """Return how many of `kept` rows share a block if each has `threads` threads."""
    return max(kept if kept * threads <= THREADS else THREADS // threads, 1)


def _multi_row_blocks(shape: ReductionShape, vector: int) -> int:
    _, kept, minor = shape.sizes
    return -(-kept // _rows_of_block(kept, minor // vector))


def _multi_row(shape: ReductionShape, vector: int) -> Plan:
    major, kept, minor = shape.sizes
    threads = minor // vector
    rows = _rows_of_block(kept, threads)
    launch = Launch.of(rows * threads, max(_multi_row_blocks(shape, vector), 1))
    row, lane = split(THREAD, (rows, threads))
    index = (
        Range(0),
        launch.block * rows + row,
        lane * vector + Range(1),
    )
    return Plan(
        "multi-row reduction", launch, (major, kept, minor), (major, vector), index,
        (), (index[1],), lane, vector,
    )  # fmt: skip


def _row(choice: Choice, shape: ReductionShape) -> Plan:
    major, kept, minor = shape.sizes
    warp = choice.device.warp
    wanted = -(-minor // ROW_ELEMENTS)
    threads = min(MOST_THREADS, -(-wanted // warp) * warp)
    rows = 1
    if threads * 2 <= THREADS:
        # Short rows share a block, so that a block still has enough threads.
        rows = _rows_of_block(kept, threads)
    vector = _vector(choice, minor, threads)
    columns = minor // vector
    steps = min(ROW_ELEMENTS // vector, -(-columns // threads))
    across = -(-columns // (steps * threads))
    launch = Launch.of(rows * threads, max(-(-kept // rows), 1) * across)
    row, lane = split(THREAD, (rows, threads))
    block_row, block_column = split(launch.block, (max(-(-kept // rows), 1), across))
    index = (
        Range(0),
        block_row * rows + row,
        block_column * (steps * threads) + Range(1) * threads + lane,
        Range(2),
    )
    # A row that one warp reduces stays in registers; several warps exchange partial results.
    warps = threads // warp
    shared: tuple[tuple[str, tuple[Expr, Expr], tuple[int, int], Expr, int], ...] = ()
    if warps > 1:
        sizes = (rows, warps + (1 if warps % warp == 0 else 0))
        shared = (
            ("write partial results", (row, lane // warp), sizes, lane % warp, 1),
            ("read partial results", (row, lane % warp), sizes, lane, warps),
        )
    return Plan(
        "row reduction", launch, (major, kept, columns, vector), (major, steps, vector), index,
        (), (index[1],), lane, vector, shared,
    )  # fmt: skip


def _column(choice: Choice, shape: ReductionShape) -> Plan:
    major, reduced, minor = shape.sizes
    vector = _vector(choice, minor, COLUMN)
    across = max(-(-minor // (COLUMN * vector)), 1)
    launch = Launch.of(COLUMN * COLUMN, max(major, 1) * across)
    first, second = split(THREAD, (COLUMN, COLUMN))
    block, part = split(launch.block, (max(major, 1), across))
    index = (
        block,
        first + Range(0) * COLUMN,
        (part * COLUMN + second) * vector + Range(1),
    )
    out = (block, (part * COLUMN + first) * vector + Range(0))
    v = Range(0)
    width = COLUMN * vector
    # One more column of padding puts the elements of a column into different banks.
    tile = (COLUMN, width + (1 if width % choice.device.warp == 0 else 0))
    shared = (
        ("write partial results", (second, first * vector + v), tile, THREAD * 0, 1),
        ("read partial results", (first, second * vector + v), tile, THREAD * 0, 1),
    )
    return Plan(
        "column reduction", launch, shape.sizes, (-(-reduced // COLUMN), vector), index,
        (vector,), out, second, vector, shared, stores_apart=True,
        proof=_column_proof(shape, vector),
    )  # fmt: skip


def _column_proof(shape: ReductionShape, vector: int) -> Proof:
    """Return the limits up to which LLVM proves a column reduction's vector loads aligned.

    Up to four address terms are proved. The last step of the loop is a separate basic block,
    because some warps skip it; three terms are proved there if the last tile of columns is not
    full. LLVM may or may not unroll a loop of more than `FEW_STEPS` steps with vectors of four
    elements. Four terms are then perhaps proved, and three certainly.

    Args:
        shape: The reduced matrix.
        vector: Elements that a thread loads at once.
    """
    major, reduced, minor = shape.sizes
    width = COLUMN * vector
    steps = reduced // COLUMN
    last = (steps, 3, 3) if minor % width else (steps, 4, 4)
    blocks = int(major > 1) + int(minor > width)
    if vector == 4 and steps > FEW_STEPS:
        return Proof(((1, 3, 4), (steps - 1, 3, 4), (1, 3, last[2])), blocks)
    return Proof(((steps, 4, 4), last), blocks)


def _small_column(choice: Choice, shape: ReductionShape) -> Plan:
    major, reduced, minor = shape.sizes
    total = reduced * minor
    vector, threads = _vector(choice, total, COLUMN), SMALL_THREADS
    rows = vector * threads // minor
    while rows > COLUMN and vector > 1:
        vector, rows = vector // 2, rows // 2
    if rows > COLUMN:
        threads //= rows // COLUMN
        rows = COLUMN
    launch = Launch.of(threads, max(major, 1))
    linear = THREAD * vector + Range(1) + Range(0) * (vector * threads)
    steps = -(-total // (vector * threads))
    spread = THREAD + Range(0) * threads
    out = (launch.block, spread // rows)
    padding = 0 if threads == 32 and vector == 1 else -(-minor // (threads * vector))
    tile = (rows, minor + padding)
    write_row, write_column = split(THREAD * vector + Range(0), (rows, minor))
    read_column, read_row = split(spread, (minor, rows))
    shared = (
        ("write partial results", (write_row, write_column), tile, THREAD * 0, 1),
        ("read partial results", (read_row, read_column), tile, THREAD * 0, 1),
    )
    return Plan(
        "small column reduction", launch, (max(major, 1), total), (steps, vector),
        (launch.block, linear), (vector,), out, THREAD % rows, vector, shared,
    )  # fmt: skip


def _shared(plan: Plan, hero: Instruction) -> tuple[SharedAccess, ...]:
    type = hero.operands[0].type
    assert isinstance(type, TensorType)
    found = []
    for what, index, sizes, who, below in plan.shared:
        map = plan.launch.map(plan.out_ranges, index, [(who, below)])
        map = map.simplify(replace_points=False)
        found.append(SharedAccess(what, map, sizes, max(type.element.bits, 8)))
    return tuple(found)


# --------------------------------------------------------------------------------------------------
# Groups of a reduction kernel: roots that share work are computed by the same blocks.
#
# Source: XLA `xla/backends/gpu/codegen/emitters/reduction_base.cc`, `GroupDisjointReductions`.


def groups_of(choice: Choice) -> list[int]:
    """Return the group number of each root. Each group is computed by separate blocks."""
    roots = range(len(choice.roots))
    is_reduction = [choice.is_reduction_root(k) for k in roots]
    # All roots that are not reductions form one group, which keeps the order of their accesses.
    together = [[k for k in roots if not is_reduction[k]]]
    for ins, reached in _reached(choice).items():
        joined: list[int] = []
        has_reduction = False
        for k in reached:
            if is_reduction[k]:
                # A cheap value that two reductions share is computed twice; it does not tie them
                # together.
                if has_reduction and _is_cheap(ins):
                    continue
                has_reduction = True
            joined.append(k)
        together.append(joined)
    return _numbered(len(roots), together)


def _numbered(count: int, together: list[list[int]]) -> list[int]:
    """Return the group of each of `count` roots, numbered in order of the groups' first roots.

    Args:
        count: Number of roots.
        together: Lists of roots that belong to one group.

    >>> _numbered(4, [[3, 1], [2]])
    [0, 1, 2, 1]
    """
    group = list(range(count))
    for roots in together:
        for root in roots[1:]:
            old, new = group[root], group[roots[0]]
            group = [new if number == old else number for number in group]
    order = list(dict.fromkeys(group))
    return [order.index(number) for number in group]


def _reached(choice: Choice) -> dict[Instruction, list[int]]:
    """Return the values on which several roots depend, each with the numbers of these roots.

    Inputs of the kernel are included. Roots that share such a value may be computed together.
    """
    values = (*choice.fused.edge, *choice.fused.inside)
    reached: dict[Instruction, set[int]] = {ins: set() for ins in values}
    for k, root in enumerate(choice.roots):
        if root in reached:
            reached[root].add(k)
    for ins in reversed(choice.fused.inside):
        if ins.op.name == "tuple":
            continue
        for operand in ins.operands:
            if operand in reached:
                reached[operand] |= reached[ins]
    return {ins: sorted(some) for ins, some in reached.items() if len(some) > 1}


def _is_cheap(ins: Instruction) -> bool:
    """Is the instruction a constant, a scalar, or a broadcast of one?"""
    while isinstance(ins.op, BroadcastInDim) and ins.operands:
        ins = ins.operands[0]
    return isinstance(ins.op, Constant) or not getattr(ins.type, "sizes", (1,))
