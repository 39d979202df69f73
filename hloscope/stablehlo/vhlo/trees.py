"""Rebuilding of MLIR modules, casts between VHLO and other dialects, and use-list orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from hloscope.mlir import Block, Operation, Region, SourceModule, Value

# --------------------------------------------------------------------------------------------------
# Traversal and rebuilding of MLIR op trees without recursion, so that nesting may be deep.


Make: TypeAlias = Callable[
    [Operation, tuple[Value, ...], tuple[Value, ...], tuple[Region, ...]], Operation
]
"""Function that creates the new op of an old one, given new operands, results and regions."""


def every_op(module: Operation) -> Iterator[Operation]:
    """Yield all ops of a module in program order, the module first."""
    return module.walk()


class _Frame:
    """An op whose regions are being rebuilt, with the state of that work."""

    __slots__ = ("block", "done", "op", "region", "steps")

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.steps: Iterator[Operation] = iter(())
        self.done: list[Region] = []
        self.region: list[Block] = []
        self.block: list[Operation] = []


class Rebuild:
    """Builds a new module from an old one, op by op.

    Args:
        make: Creates each new op. The new results have the old types unless `make` changes them.
        skip: Returns whether an op is removed; their operands replace their results.
    """

    def __init__(self, make: Make, skip: Callable[[Operation], bool] | None = None) -> None:
        self._make, self._skip = make, skip
        self._values: dict[Value, Value] = {}
        self._blocks: dict[Block, Block] = {}

    def block(self, old: Block) -> Block:
        """Return the new block of an old one; it may not have its operations yet."""
        found = self._blocks.get(old)
        if found is None:
            found = self._blocks[old] = Block(label=old.label)
        return found

    def value(self, old: Value) -> Value:
        """Return the new value of an old one; it is created now if its definition comes later."""
        found = self._values.get(old)
        if found is None:
            found = self._values[old] = Value(old.type, None, old.index, old.name)
        return found

    def run(self, module: Operation) -> Operation:
        """Return a copy of a module in which each op is what `make` returned for it.

        An op for which `skip` is true is left out: its operands take the place of its results.
        """
        # Each frame holds an op and the ops of its regions that are left. An op with regions is
        # made after them, since `make` takes the new regions.
        top: list[Operation] = []
        stack: list[_Frame] = []
        self._begin(module, stack, top)
        while stack:
            frame = stack[-1]
            for op in frame.steps:
                if self._skip is not None and self._skip(op):
                    for result, operand in zip(op.results, op.operands, strict=True):
                        self._values[result] = self.value(operand)
                elif op.regions:
                    self._begin(op, stack, frame.block)
                    break
                else:
                    frame.block.append(self._op(op, ()))
            else:
                stack.pop()
                into = stack[-1].block if stack else top
                into.append(self._op(frame.op, tuple(frame.done)))
        return top[0]

    def _begin(self, op: Operation, stack: list[_Frame], into: list[Operation]) -> None:
        if not op.regions:
            into.append(self._op(op, ()))
            return
        frame = _Frame(op)
        frame.steps = self._steps(op, frame)
        stack.append(frame)

    def _steps(self, op: Operation, frame: _Frame) -> Iterator[Operation]:
        for region in op.regions:
            frame.region = []
            for block in region.blocks:
                frame.block = []
                yield from block.operations
                arguments = tuple([self.value(argument) for argument in block.arguments])
                # The generator resumes after the last op of the block, so all its ops are rebuilt.
                made = self.block(block)
                made.arguments, made.operations = arguments, tuple(frame.block)
                for op_inside in made.operations:
                    op_inside.parent = made
                for old, new in zip(block.arguments, arguments, strict=True):
                    new.owner, new.location = made, old.location
                frame.region.append(made)
            frame.done.append(Region(tuple(frame.region)))

    def _op(self, op: Operation, regions: tuple[Region, ...]) -> Operation:
        values = self._values
        operands = op.operands
        if operands:
            try:
                operands = tuple([values[one] for one in operands])
            except KeyError:  # one of them is defined later
                operands = tuple(map(self.value, operands))
        results = op.results
        if results:
            results = tuple(map(self.value, results))
        made = self._make(op, operands, results, regions)
        for result in results:
            result.owner = made
        if op.successors:
            made.successors = tuple([self.block(block) for block in op.successors])
            made.successor_operands = op.successor_operands
        return made


def copied(
    op: Operation,
    operands: tuple[Value, ...],
    results: tuple[Value, ...],
    regions: tuple[Region, ...],
) -> Operation:
    """Return a copy of an op with the given operands, results and regions."""
    kind = SourceModule if isinstance(op, SourceModule) else Operation
    made = kind(
        op.name,
        operands,
        results,
        op.properties,
        op.attributes,
        regions,
        location=op.location,
        source=op.source,
        start=op.start,
        end=op.end,
    )
    if isinstance(op, SourceModule) and isinstance(made, SourceModule):
        made.resources = op.resources
    return made


# --------------------------------------------------------------------------------------------------
# Casts between VHLO and other dialects, for programs with ops of both.
#
# Values pass through `builtin.unrealized_conversion_cast`: one cast for a value, directly after the
# value's definition. The casts of several values of one op or block are in reverse order: values of
# VHLO by their result number, others by their first use.
#
# Source: what jaxlib writes; MLIR's `DialectConversion.cpp`.


CAST: Final = "builtin.unrealized_conversion_cast"


def is_vhlo_op(op: Operation) -> bool:
    """Is `op` an op of VHLO, so that its attributes and types are VHLO's?"""
    return op.name.startswith("vhlo.")


def has_vhlo_type(value: Value) -> bool:
    """Does a value have a VHLO type: is it defined by an op of VHLO, or an argument in its regions?

    The value must not be the result of a cast.
    """
    owner = value.owner
    if isinstance(owner, Operation):
        return is_vhlo_op(owner)
    region = None if owner is None else owner.parent
    parent = None if region is None else region.parent
    return parent is not None and is_vhlo_op(parent)


def cast_obstacle(op: Operation) -> str:
    """Return why an op of another dialect cannot be in a function of VHLO; empty if it can.

    Casts convert its operands to its own types. Neither the arguments of its successors nor the
    operands of terminators in its regions can be cast.
    """
    if any(block.arguments for block in op.successors) and _in_function(op):
        return "the arguments of the blocks that it goes to would be of other types"
    if op.name == "chlo.scan":
        return "its region would be one of VHLO"
    return ""


def _in_function(op: Operation) -> bool:
    region = None if op.parent is None else op.parent.parent
    parent = None if region is None else region.parent
    return parent is not None and parent.name.startswith(("func.", "stablehlo.", "vhlo."))


def add_casts(module: Operation) -> None:
    """Insert casts into a module, in place, where ops of VHLO and of other dialects share values.

    A cast converts a value that one of them defines and the other uses.
    """
    casts: dict[Value, Operation] = {}
    flavours: dict[Value, bool] = {}
    # First find the values that cross, in program order, which decides the order of the casts.
    # Operands are replaced afterwards: a replaced operand would look like a value without a cast.
    for op in every_op(module):
        if op.name == "builtin.module":
            continue
        wanted = is_vhlo_op(op)
        for operand in op.operands:
            found = flavours.get(operand)
            if found is None:
                found = flavours[operand] = has_vhlo_type(operand)
            if found != wanted and operand not in casts:
                casts[operand] = _cast(operand, op)
    if not casts:
        return
    for op in list(every_op(module)):
        if any(operand in casts for operand in op.operands) and op.name != "builtin.module":
            wanted = is_vhlo_op(op)
            op.operands = tuple(
                [
                    casts[operand].results[0]
                    if operand in casts and flavours[operand] != wanted
                    else operand
                    for operand in op.operands
                ]
            )
    _insert(casts, flavours)


def _cast(value: Value, user: Operation) -> Operation:
    """Create a cast of a value, and return it; it is in no block yet.

    `user` is the cast's first user. The location is that of the value if the value is VHLO's, else
    that of the user.
    """
    owner = value.owner
    location = user.location
    if has_vhlo_type(value):
        location = owner.location if isinstance(owner, Operation) else value.location
    result = Value(value.type)
    made = Operation(CAST, (value,), (result,), location=location)
    result.owner = made
    return made


def _insert(casts: dict[Value, Operation], flavours: dict[Value, bool]) -> None:
    behind: dict[Operation, list[Operation]] = {}
    first: dict[Block, list[Operation]] = {}
    # MLIR inserts each new cast directly after the definition, before the casts inserted so far, so
    # the last one made is first in the block.
    numbered = sorted(casts.items(), key=lambda item: item[0].index if flavours[item[0]] else 0)
    for value, cast in numbered:
        owner = value.owner
        if isinstance(owner, Operation):
            behind.setdefault(owner, []).append(cast)
        elif owner is not None:
            first.setdefault(owner, []).append(cast)
    blocks = dict.fromkeys([*first, *(op.parent for op in behind if op.parent is not None)])
    for block in blocks:
        found = list(reversed(first.get(block, [])))
        for op in block.operations:
            found.append(op)
            found += reversed(behind.get(op, ()))
        block.operations = tuple(found)
        for op in found:
            op.parent = block


# --------------------------------------------------------------------------------------------------
# Use-list orders after ops have been replaced.
#
# MLIR keeps the uses of a value in a list. Bytecode records its order where it differs from program
# order, so the bytes of an artifact depend on the ops that a library had to replace.


_Uses: TypeAlias = dict[Value, list[tuple[int, bool]]]
"""Uses of each value, in order: position of the use, and whether the use remains at the end."""


def use_orders(
    module: Operation, replaced: set[Operation], *, mixed: bool = False
) -> dict[Value, tuple[bool, tuple[int, ...]]]:
    """Return the use-list orders of values whose uses are not in program order.

    An order says whether the numbers are index pairs, and has the numbers, as bytecode stores them.

    Args:
        module: The module after the replacement.
        replaced: The ops of the module that replaced ops of the original.
        mixed: Whether casts between VHLO and other dialects were inserted.
    """
    # Only the operands and results of replaced ops and new casts can be out of order: the uses of
    # all other values were added in program order.
    uses: _Uses = {value: [] for op in replaced for value in (*op.operands, *op.results)}
    casts: dict[Operation, int] = {}
    if mixed:
        casts = {op: 0 for op in every_op(module) if op.name == CAST}
        uses |= {value: [] for op in casts for value in (*op.operands, *op.results)}
    if not uses:
        return {}
    ordered: list[tuple[int, Operation]] = []
    # `number << 32 | position` orders uses by program order of the user, then by operand number.
    for number, op in enumerate(every_op(module)):
        if op in replaced:
            ordered.append((number, op))
        elif op in casts:
            casts[op] = number
        for position, value in enumerate(op.operands):
            if value in uses:
                uses[value].append((number << 32 | position, op not in replaced))
    _order_casts(casts, uses)
    # A replacement is created after the whole module was read: its own uses follow all others. The
    # use by the op that it replaced is removed at the end (`kept` is false).
    for number, op in ordered:
        for position, value in enumerate(op.operands):
            uses[value].append((number << 32 | position, True))
    # Uses of a replaced result move one by one from the front of its list to the new result, which
    # reverses them.
    for _, op in ordered:
        for value in op.results:
            uses[value].reverse()
    return {
        value: found
        for value, each in uses.items()
        if (found := _numbers([use for use, kept in reversed(each) if kept])) is not None
    }


def _order_casts(casts: Mapping[Operation, int], uses: _Uses) -> None:
    """Change the uses to the order that results from inserting casts.

    `casts` has the position of each cast among the ops. A cast from VHLO is the last user of its
    operand. A cast to VHLO takes over the uses of its operand one by one, which reverses them.
    """
    for op, number in casts.items():
        (value,) = op.operands
        if has_vhlo_type(value):
            first = (number << 32, True)
            uses[value].remove(first)
            uses[value].append(first)
        else:
            uses[op.results[0]].reverse()


def _numbers(uses: list[int]) -> tuple[bool, tuple[int, ...]] | None:
    """Return an order of uses as bytecode encodes it; `None` for program order.

    The encoding has two parts: whether the integers are index pairs, and the integers.
    """
    usual = sorted(uses, reverse=True)
    if usual == uses:
        return None
    position_of = {use: index for index, use in enumerate(uses)}
    order = [position_of[use] for use in usual]
    # Bytecode has two encodings: the whole permutation, or pairs of moved positions. Pairs are
    # shorter if fewer than half of the uses move, which is MLIR's rule too.
    moved = [(at, index) for index, at in enumerate(order) if at != index]
    if len(moved) < len(order) // 2:
        return True, tuple([number for pair in moved for number in pair])
    return False, tuple(order)
