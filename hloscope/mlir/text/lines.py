"""Lines of a text with placeholders for value names, and ops that were read by such lines.

Equal lines describe equal ops. Positions and regions of such ops are computed on demand.
"""

from __future__ import annotations

from typing import Final

from hloscope.mlir.ir import Block, Operation, Region, Value
from hloscope.mlir.locations import UNKNOWN
from hloscope.support.lazy import pattern
from hloscope.support.system import shared_lock

NAME: Final = pattern(
    r"%((?:[0-9]++|[A-Za-z_$.-][A-Za-z0-9_$.-]*+)(?:#[1-9][0-9]*+(?!\s*=))?+)"
    r"(?:#0(?!\s*=))?+"
)
"""A value name without `#0`, which need not be written.

In a definition, `%0#1 =`, the number is not part of the name, so that line equals no other.
"""
HOLE: Final = "\0"
"""Placeholder of a name."""
LONG: Final = 4000
"""Maximum length of a line that is compared with others."""
_MANY: Final = 1 << 16
_MOST: Final = 10
"""Number of ops from which on a region is not copied."""
_COPYING: Final = shared_lock()


class Lines:
    """Consecutive lines of a text, and the current one.

    Attributes:
        keys: Text of each line with `HOLE` for each name; the last one is empty.
        names: All names, without `%`.
        line: Index of the current line in `keys`.
        number: Index of the current line in the text; both count from 0.
        begin: Offset of the current line.
        place: Index of its first name in `names`.
        end: Offset of the line after the last one.
    """

    __slots__ = ("_lengths", "begin", "end", "keys", "line", "names", "number", "place")

    def __init__(self) -> None:
        self.begin = self.end = self.line = self.number = self.place = 0
        self.keys: list[str] = []
        self.names: list[str] = []
        self._lengths: list[int] = []

    def reach(self, text: str, begin: int) -> bool:
        """Move to the line at offset `begin`; false if it is too long or not a text's line."""
        if not self.begin <= begin < self.end:
            return self._cut(text, begin)
        while self.begin < begin:
            self.go_on(1, self.keys[self.line].count(HOLE))
        return True

    def go_on(self, lines: int, names: int) -> None:
        """Skip `lines` lines that have `names` names in all."""
        self.begin += self.length(lines)
        self.line += lines
        self.number += lines
        self.place += names

    def length(self, lines: int) -> int:
        """Return the number of characters of the next lines, with their ends."""
        return sum(self._lengths[self.line : self.line + lines]) + lines

    def _cut(self, text: str, begin: int) -> bool:
        """Split the text from `begin` into lines and names; false if that is not possible."""
        # Pieces of about 64 KiB keep the memory bounded, and end at the end of a line.
        end = text.find("\n", begin + _MANY, begin + _MANY + LONG)
        if end < 0:
            end = text.rfind("\n", begin, begin + _MANY)
        piece = text[begin:end] if end > begin else HOLE
        # The placeholder itself in the text would make different lines equal.
        if HOLE in piece:
            self.end = 0
            return False
        # The number of a line is counted on from the last piece; only a step back counts from the
        # start.
        back = begin < self.begin
        self.number = (
            text.count("\n", 0, begin)
            if back
            else (self.number + text.count("\n", self.begin, begin))
        )
        parts = NAME.split(piece)
        self.names = parts[1::2]
        self.keys = HOLE.join(parts[::2]).split("\n")
        self.keys.append("")
        self._lengths = list(map(len, piece.split("\n")))
        self.line = self.place = 0
        self.begin, self.end = begin, end + 1
        return True


class Alike:
    """The common part of ops that were read from equal lines; other ops have another one.

    Attributes:
        first: Offset of the op's name in the first of these lines.
    """

    __slots__ = ("_name", "_start", "_width", "first")

    def __init__(self, first: int, start: int, width: int, name: int) -> None:
        """Set the positions in a line.

        Args:
            first: Offset of the op's name in the first line.
            start: Offset of the op's name in its line, if the result's name were empty.
            width: Length of the op's name.
            name: Offset of the result's name in its line, with `%`; -1 without results.
        """
        self.first: Final = first
        self._start: Final = start
        self._width: Final = width
        self._name: Final = name

    def other(self) -> Alike:
        """Return the object of ops with the same layout of lines that are otherwise different."""
        return Alike(self.first, self._start, self._width, self._name)

    def place(self, text: str, begin: int) -> tuple[int, int]:
        """Return start and end of the op's name in the line at offset `begin`."""
        named = NAME.match(text, begin + self._name) if self._name >= 0 else None
        start = begin + self._start + (len(named[1]) if named is not None else 0)
        return start, start + self._width


class LineOperation(Operation):
    """An op that was read by its line; the position of its name is computed on demand.

    Attributes:
        line: Number of the line, counted from 0.
    """

    __slots__ = ("line",)

    line: int

    __init__ = object.__init__  # the reader sets the attributes, which is faster than a call

    def __getattr__(self, name: str) -> int:
        """Compute `start` and `end` on first use; Python calls this for missing attributes only."""
        if name not in ("start", "end"):
            raise AttributeError(name, name=name, obj=self)
        alike, source = self.alike, self.source
        assert isinstance(alike, Alike)
        assert source is not None
        self.start, self.end = alike.place(source.text, source.line_start(self.line))
        return self.start if name == "start" else self.end


class _Copy(Region):
    """A copy of an unchanged region, made when its blocks are first used."""

    __slots__ = ("_like", "_owner")

    def __init__(self, like: Region, owner: LineOperation) -> None:
        """Set the region to copy and the owner of the copy."""
        self.parent = self._owner = owner
        self._like = like

    def __getattr__(self, name: str) -> tuple[Block, ...]:
        """Make the blocks on first use; Python calls this for missing attributes only."""
        if name != "blocks":
            raise AttributeError(name, name=name, obj=self)
        with _COPYING:  # two threads must not make two sets of values
            try:
                return object.__getattribute__(self, name)  # type: ignore[no-any-return]
            except AttributeError:
                block = _copied(self._like.blocks[0], self._owner)
            block.parent = self
            self.blocks = (block,)
            return self.blocks


def copied(regions: tuple[Region, ...], owner: LineOperation) -> tuple[Region, ...]:
    """Return copies of simple regions that never change."""
    return tuple([_Copy(region, owner) for region in regions])


def kept(region: Region) -> Region:
    """Return a private copy of a simple region, from which other copies are made."""
    return Region((_copied(region.blocks[0]),))


def is_simple(region: Region) -> bool:
    """Is the region one block of few ops without regions, which read only that block's values?"""
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


def _copied(block: Block, owner: LineOperation | None = None) -> Block:
    """Return a copy of a block, with positions moved to those of `owner`."""
    # All lines of one template have their regions at equal distance from the op's name, so one
    # offset moves every position.
    by = 0
    if owner is not None and any(op.source is not None for op in block.operations):
        assert isinstance(owner.alike, Alike)
        by = owner.start - owner.alike.first
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
