"""Regions like others that were read before: copied when somebody looks into them."""

from __future__ import annotations

from typing import Final

from hloscope.locks import shared_lock
from hloscope.mlir.ir import Block, Operation, Region, Value
from hloscope.mlir.locations import UNKNOWN

_MOST: Final = 10
"""Regions of as many ops are not copied."""
_COPYING: Final = shared_lock()


class CopiedRegion(Region):
    """A region like another one, which nobody changes, moved in the source."""

    __slots__ = ("_by", "_like")

    def __init__(self, like: Region, parent: Operation, by: int) -> None:
        """Take what there is to do; it is done when `blocks` are asked for."""
        self.parent = parent
        self._like = like
        self._by = by

    def __getattr__(self, name: str) -> tuple[Block, ...]:
        """The blocks, asked for the first time: only they are not there from the beginning."""
        if name != "blocks":
            raise AttributeError(name, name=name, obj=self)
        with _COPYING:  # two threads must not make two sets of values
            try:
                return object.__getattribute__(self, name)  # type: ignore[no-any-return]
            except AttributeError:
                block = _copied(self._like.blocks[0], self._by)
            block.parent = self
            self.blocks = (block,)
            return self.blocks


def kept(region: Region) -> Region:
    """A simple region as others are copies of: nobody else has it."""
    return Region((_copied(region.blocks[0], 0),))


def is_simple(region: Region) -> bool:
    """Is it one block of few plain ops that read what the block defines?"""
    if len(region.blocks) != 1:
        return False
    block = region.blocks[0]
    return len(block.operations) < _MOST and all(
        not op.regions
        and not op.successors
        and op.location is UNKNOWN
        and all(_owner(value) is block for value in op.operands)
        for op in block
    )


def _owner(value: Value) -> Block | None:
    return value.owner.parent if isinstance(value.owner, Operation) else value.owner


def _copied(block: Block, by: int) -> Block:
    new = Block()
    values: dict[int, Value] = {}
    for old in block.arguments:
        values[id(old)] = Value(old.type, new, old.index, old.name, old.location)
    new.arguments = tuple(values.values())
    operations = []
    for op in block.operations:
        moved = by if op.source is not None else 0
        copy = Operation(
            op.name,
            tuple(values[id(value)] for value in op.operands),
            (),
            op.properties,
            op.attributes,
            (),
            (),
            (),
            op.location,
            op.source,
            op.start + moved,
            op.end + moved,
        )
        copy.parent = new
        copy.alike = op.alike
        copy.results = tuple(Value(v.type, copy, v.index, v.name) for v in op.results)
        for old, value in zip(op.results, copy.results, strict=True):
            values[id(old)] = value
        operations.append(copy)
    new.operations = tuple(operations)
    return new
