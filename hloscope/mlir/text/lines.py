"""Lines of a text without the names of values in them, and ops that were read by their lines.

Lines alike stand for ops alike: what else there is to know of one is found when it is asked for.
"""

from __future__ import annotations

from typing import Final

from hloscope.lazy import pattern
from hloscope.locks import shared_lock
from hloscope.mlir.ir import Block, Operation, Region, Value
from hloscope.mlir.locations import UNKNOWN

NAME: Final = pattern(
    r"%((?:[0-9]++|[A-Za-z_$.-][A-Za-z0-9_$.-]*+)(?:#[1-9][0-9]*+(?!\s*=))?+)"
    r"(?:#0(?!\s*=))?+"
)
"""A name without the number of a first result, which need not be written.

Where it is a result that is named, `%0#1 =`, the number is no part of it: no line is like that one.
"""
HOLE: Final = "\0"
"""Stands for a name."""
LONG: Final = 4000
"""No longer line is looked at."""
_MANY: Final = 1 << 16
_MOST: Final = 10
"""Regions of as many ops are not copied."""
_COPYING: Final = shared_lock()


class Lines:
    """Lines in a row, and the one that is to be read.

    Attributes:
        keys: The text of each line, `HOLE` for each name; the last one is empty.
        names: All names, without `%`.
        line: Number of the line that is to be read among these.
        number: Its number in the text; both are counted from 0.
        begin: Where it begins.
        place: Which of the names is its first one.
        end: Where the line after the last one begins.
    """

    __slots__ = ("_lengths", "begin", "end", "keys", "line", "names", "number", "place")

    def __init__(self) -> None:
        self.begin = self.end = self.line = self.number = self.place = 0
        self.keys: list[str] = []
        self.names: list[str] = []
        self._lengths: list[int] = []

    def reach(self, text: str, begin: int) -> bool:
        """Go to the line that begins there; `False` if no such line can be looked at."""
        if not self.begin <= begin < self.end:
            return self._cut(text, begin)
        while self.begin < begin:
            self.go_on(1, self.keys[self.line].count(HOLE))
        return True

    def go_on(self, lines: int, names: int) -> None:
        """Leave so many lines with so many names behind."""
        self.begin += self.length(lines)
        self.line += lines
        self.number += lines
        self.place += names

    def length(self, lines: int) -> int:
        """How many characters so many lines have, their ends included."""
        return sum(self._lengths[self.line : self.line + lines]) + lines

    def _cut(self, text: str, begin: int) -> bool:
        """Take the lines from here on."""
        end = text.find("\n", begin + _MANY, begin + _MANY + LONG)
        if end < 0:
            end = text.rfind("\n", begin, begin + _MANY)
        piece = text[begin:end] if end > begin else HOLE
        if HOLE in piece:
            self.end = 0
            return False
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
    """What ops that were read from lines alike have in common, and no others.

    Attributes:
        first: Where the name of the op that was read first begins in the text.
    """

    __slots__ = ("_name", "_start", "_width", "first")

    def __init__(self, first: int, start: int, width: int, name: int) -> None:
        """Take where things are in a line.

        Args:
            first: See above.
            start: Where the op's name begins in a line whose result has an empty name.
            width: Length of the op's name.
            name: Where the name of the result begins, with its `%`; -1 where there is none.
        """
        self.first: Final = first
        self._start: Final = start
        self._width: Final = width
        self._name: Final = name

    def other(self) -> Alike:
        """The same for ops that are not like these."""
        return Alike(self.first, self._start, self._width, self._name)

    def place(self, text: str, begin: int) -> tuple[int, int]:
        """Where the op's name begins and ends, of one whose line begins there."""
        named = NAME.match(text, begin + self._name) if self._name >= 0 else None
        start = begin + self._start + (len(named[1]) if named is not None else 0)
        return start, start + self._width


class LineOperation(Operation):
    """An op that was read by its line; where its name stands is worked out when asked for.

    Attributes:
        line: Number of the line, counted from 0.
    """

    __slots__ = ("line",)

    line: int

    __init__ = object.__init__  # the reader sets what there is: a call would take longer

    def __getattr__(self, name: str) -> int:
        """`start` or `end`, asked for the first time: only they are not there already."""
        if name not in ("start", "end"):
            raise AttributeError(name, name=name, obj=self)
        alike, source = self.alike, self.source
        assert isinstance(alike, Alike)
        assert source is not None
        self.start, self.end = alike.place(source.text, source.line_start(self.line))
        return self.start if name == "start" else self.end


class _Copy(Region):
    """A region like one that nobody changes; copied when somebody looks into it."""

    __slots__ = ("_like", "_owner")

    def __init__(self, like: Region, owner: LineOperation) -> None:
        """Take what there is to do."""
        self.parent = self._owner = owner
        self._like = like

    def __getattr__(self, name: str) -> tuple[Block, ...]:
        """The blocks, asked for the first time: only they are not there already."""
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
    """Copies of simple regions that nobody changes."""
    return tuple([_Copy(region, owner) for region in regions])


def kept(region: Region) -> Region:
    """A simple region as others are copies of: nobody else has it."""
    return Region((_copied(region.blocks[0]),))


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


def _copied(block: Block, owner: LineOperation | None = None) -> Block:
    """A copy of a block, moved in the source to where the op stands that owns it."""
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
