"""Traversal and rebuilding of MLIR op trees without recursion, so that nesting may be deep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from hloscope.mlir import Block, Operation, Region, SourceModule, Value

Make: TypeAlias = Callable[
    [Operation, tuple[Value, ...], tuple[Value, ...], tuple[Region, ...]], Operation
]
"""Makes the new op of an old one, given its new operands, results and regions."""


def every_op(module: Operation) -> Iterator[Operation]:
    """Iterate over all ops of a module in program order, the module first."""
    return module.walk()


class _Frame:
    """An op whose regions are being rebuilt."""

    __slots__ = ("block", "done", "op", "region", "steps")

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.steps: Iterator[Operation] = iter(())
        self.done: list[Region] = []
        self.region: list[Block] = []
        self.block: list[Operation] = []


class Rebuild:
    """Rebuilding of an op tree, op by op.

    Args:
        make: Makes each op. The new results have the old types unless `make` changes them.
        skip: Ops to remove; their operands replace their results.
    """

    def __init__(self, make: Make, skip: Callable[[Operation], bool] | None = None) -> None:
        self._make, self._skip = make, skip
        self._values: dict[Value, Value] = {}
        self._blocks: dict[Block, Block] = {}

    def block(self, old: Block) -> Block:
        """Return the new block of an old one, which may still be empty."""
        found = self._blocks.get(old)
        if found is None:
            found = self._blocks[old] = Block(label=old.label)
        return found

    def value(self, old: Value) -> Value:
        """Return the new value of an old one; a value that is defined later is made now."""
        found = self._values.get(old)
        if found is None:
            found = self._values[old] = Value(old.type, None, old.index, old.name)
        return found

    def run(self, module: Operation) -> Operation:
        """Rebuild the tree and return its root."""
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
    """Return a copy of an op with other operands, results and regions."""
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
