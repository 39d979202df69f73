"""Parsing of operations line by line, with templates of equal lines.

Most lines of a dump repeat: op, attributes and types are equal, operands differ. A line is looked
up by its text with placeholders for value names. It is read token by token only if that text is
new, or if anything is invalid. Positions and regions of the ops of such lines are computed on
demand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, cast

from hloscope.ir import Type
from hloscope.mlir.ir import Attribute, Block, Operation, Region, Value
from hloscope.mlir.locations import UNKNOWN, Location
from hloscope.mlir.text.lexer import Lexer
from hloscope.mlir.text.parser_attributes import KNOWN_TYPES, AttributeParser
from hloscope.mlir.text.parser_scopes import Scope
from hloscope.support.lazy import pattern
from hloscope.support.system import shared_lock

_NAME: Final = pattern(
    r"%((?:[0-9]++|[A-Za-z_$.-][A-Za-z0-9_$.-]*+)(?:#[1-9][0-9]*+(?!\s*=))?+)"
    r"(?:#0(?!\s*=))?+"
)
"""A value name without `#0`, which need not be written.

In a definition, `%0#1 =`, the number is not part of the name, so that line equals no other.
"""
_HOLE: Final = "\0"
"""Placeholder of a name."""
_LONG: Final = 4000
"""Maximum length of a line that is compared with others."""
_MANY: Final = 1 << 16
_MOST: Final = 10
"""Number of ops from which on a region is not copied."""
_COPYING: Final = shared_lock()
_NEXT: Final = pattern(
    r'\s*(?:%|\}|"|\^|//|[a-z_]+\.[a-z_]|(?:func\.)?(?:return|call|func)\b)', re.ASCII
)
_LOCATION: Final = pattern(r" loc\((#[^\W_]+)\)$")
_TYPED: Final = " : "
_type_of: Final = attrgetter("type")
_new: Final = object.__new__


class Lines:
    """Consecutive lines of a text, and the current one.

    Attributes:
        keys: Text of each line with `_HOLE` for each name; the last one is empty.
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
            self.go_on(1, self.keys[self.line].count(_HOLE))
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
        end = text.find("\n", begin + _MANY, begin + _MANY + _LONG)
        if end < 0:
            end = text.rfind("\n", begin, begin + _MANY)
        piece = text[begin:end] if end > begin else _HOLE
        # The placeholder itself in the text would make different lines equal.
        if _HOLE in piece:
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
        parts = _NAME.split(piece)
        self.names = parts[1::2]
        self.keys = _HOLE.join(parts[::2]).split("\n")
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
        named = _NAME.match(text, begin + self._name) if self._name >= 0 else None
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


class Template(NamedTuple):
    """The common part of all lines with equal text.

    Attributes:
        name: Name of the op.
        few: Number of operands, if it is 1 or 2 and their names follow that of the
            result in order; else 0. Without it a training step of 3.4 MB takes 19 % longer.
        holes: Number of names in a line.
        pick: Selects the names of the operands from those of a line.
        operands: Types of the operands.
        results: Types of the results.
        regions: Regions implied by the line, which read only their own values.
        alike: Object shared by the ops of these lines only.
    """

    name: str
    few: int
    holes: int
    pick: Callable[[list[str]], Sequence[str]]
    operands: tuple[Type, ...]
    results: tuple[Type, ...]
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]
    regions: tuple[Region, ...]
    alike: Alike


class Known(NamedTuple):
    """The templates of lines with one default dialect.

    Attributes:
        lines: Templates by the text of the line, with `_HOLE` for each name.
        bodies: Templates of lines whose types are last, by the text before them.
    """

    lines: dict[str, Template]
    bodies: dict[str, Template]


class LineTemplates:
    """Reads lines of operations that equal an earlier line except for the names of values."""

    __slots__ = ("_ahead", "_attributes", "_known", "_lexer", "_scope", "_source", "_text")

    def __init__(self, lexer: Lexer, scope: Scope, attributes: AttributeParser) -> None:
        self._lexer: Final = lexer
        self._source: Final = lexer.source
        self._text: Final = lexer.text
        self._scope: Final = scope
        self._attributes: Final = attributes
        self._ahead: Final = Lines()
        self._known: Final[dict[str, Known]] = {}  # by the default dialect

    def read(self, block: Block, operations: list[Operation], default_dialect: str, at: int) -> int:
        """Read known lines from the end of a line on.

        Args:
            block: The block of the ops.
            operations: The ops before the lines; those of the lines are added.
            default_dialect: The dialect whose name may be omitted.
            at: End of the last op, which may be in the middle of a line.

        Returns:
            The end of the last line read.
        """
        # With unresolved forward uses a definition must check types against them, which only the
        # full parser does.
        if self._scope.forward or not self._text.startswith("\n", at):
            return at
        known, lines = self._known.setdefault(default_dialect, Known({}, {})), self._ahead
        while lines.reach(self._text, at + 1):
            at = self._known_lines(block, operations, known, lines)
            if at + 1 < lines.end:
                break
        return at

    def _known_lines(
        self,
        block: Block,
        operations: list[Operation],
        known: Known,
        lines: Lines,
    ) -> int:
        """Read lines as long as they are known; return the end of the last one.

        The work for a line is written inline, since two calls would double the time.
        """
        source, scope = self._source, self._scope.values
        template_of, value_of = known.lines.get, scope.__getitem__
        names, place, offset = lines.names, lines.place, lines.number - lines.line
        ahead = template_of(lines.keys[lines.line])
        line = lines.number
        # A line is an op only if the op ends with it. A known line that follows proves that;
        # otherwise the text after it is inspected.
        for following in islice(lines.keys, lines.line + 1, None):
            template = ahead
            location: Location = UNKNOWN
            if template is None:
                template, location = self._located(lines.keys[line - offset], known)
            ahead = template_of(following)
            if template is None or (
                ahead is None and location is UNKNOWN and not self._ends_op(lines, line)
            ):
                break
            name, few, holes, pick, needed, types, properties, attributes, regions, alike = template
            result = names[place] if types else ""
            try:
                if few == 1:
                    one = scope[names[place + 1]]
                    operands: tuple[Value, ...] = (one,)
                    fits = one.type is needed[0]
                elif few == 2:
                    one, two = operands = scope[names[place + 1]], scope[names[place + 2]]
                    fits = one.type is needed[0] and two.type is needed[1]
                else:
                    operands = tuple(map(value_of, pick(names[place : place + holes])))
                    fits = False
            except KeyError:  # not defined
                # A second definition of a name, or an operand of another type, is an error or a new
                # template: both are the full parser's.
                break
            if result in scope or (not fits and tuple(map(_type_of, operands)) != needed):
                break
            operation = LineOperation()
            operation.name = name
            operation.operands = operands
            operation.properties = properties
            operation.attributes = attributes
            operation.regions = copied(regions, operation) if regions else ()
            operation.successors = operation.successor_operands = ()
            operation.location = location
            operation.source = source
            operation.line = line
            operation.parent = block
            operation.alike = alike
            if len(types) == 1:
                value = scope[result] = _new(Value)  # its `__init__` takes longer than this
                value.type = types[0]
                value.owner = operation
                value.index = 0
                value.name = result
                value.location = UNKNOWN
                value.at = -1
                operation.results = (value,)
            else:
                self._scope.bind(operation, types, [(result, len(types), 0)] if types else [])
            operations.append(operation)
            place += holes
            line += 1
        lines.go_on(line - lines.number, place - lines.place)
        return lines.begin - 1

    def _ends_op(self, lines: Lines, number: int) -> bool:
        """Does an op that ends in a line end with that line?"""
        end = lines.begin + lines.length(number - lines.number + 1) - 1
        return _NEXT.match(self._text, end) is not None

    def _located(self, line: str, known: Known) -> tuple[Template | None, Location]:
        """Return the template of a line with a location or with other types, and the location."""
        key, location = self._key(line)
        return known.lines.get(key) or self._retyped(key, known), location

    def _key(self, key: str) -> tuple[str, Location]:
        """Return the text of a line without names and location, and the location."""
        found = _LOCATION.search(key)
        if found is None:
            return key, UNKNOWN
        location = self._attributes.aliases.location_of(found[1], self._lexer.before)
        return key[: found.start()], location

    def _retyped(self, key: str, known: Known) -> Template | None:
        """Return the template of a line that equals a known one, except for types at its end."""
        # A training step of 2.2 MB takes 35 % longer without this.
        # Nothing before the last ` : ` depends on the types there (`Form.typed_last`), so the known
        # op is valid with other types, as long as those have been read before.
        body, _, type = key.rpartition(_TYPED)
        like = known.bodies.get(body)
        if like is None:
            return None
        if type.startswith("("):
            inputs, _, result = type[1:].partition(") -> ")
            given = [KNOWN_TYPES.get(one) for one in inputs.split(", ")]
        elif self._attributes.dialects.forms[like.name].typed_last == "same":
            result = type
            given = [KNOWN_TYPES.get(type)] * len(like.operands)
        else:
            return None
        made = KNOWN_TYPES.get(result)
        if None in given or made is None or len(given) != len(like.operands):
            return None
        operands = cast("tuple[Type, ...]", tuple(given))
        template = like._replace(operands=operands, results=(made,), alike=like.alike.other())
        known.lines[key] = template
        return template

    def learn(self, operation: Operation, default_dialect: str, at: int, first: int) -> None:
        """Add a template of the line after `at`, if the op at `first` fills that line."""
        text, used = self._text, self._scope.used
        before = self._lexer.before
        begin = at + 1
        end = text.find("\n", begin, begin + _LONG)
        if not end >= before > begin > 0 or first >= end or text[before:end].strip():
            return
        if not text.startswith("\n", at):
            return  # something else stands in the line before it
        parts = _NAME.split(text[begin:end])
        key, location = self._key(_HOLE.join(parts[::2]))
        if location is UNKNOWN and operation.location is not UNKNOWN:
            return  # its location is part of the key, but not of a template
        if (
            operation.successors
            or self._scope.forward
            or not all(map(is_simple, operation.regions))
        ):
            return
        # A template needs every name of the line to be the result or an operand, each resolved by
        # this op: other names would be uses that the template cannot see.
        written = [found.start() for found in _NAME.finditer(text, first, end)]
        if operation.results and written[:1] != [first]:
            return
        named = int(bool(operation.results))
        if len(used) != len(operation.operands) or set(used) != set(written[named:]):
            return
        # The name of the result may have another length in another line, so positions behind it are
        # stored as if it were empty.
        result = len(parts[1]) if named else 0
        operation.alike = alike = Alike(
            operation.start,
            operation.start - begin - result,
            operation.end - operation.start,
            first - begin if named else -1,
        )
        template = Template(
            operation.name,
            len(used) if named and used == written[1:] and len(used) < 3 else 0,
            len(written),
            _picker([written.index(at) for at in used]),
            tuple(value.type for value in operation.operands),
            tuple(value.type for value in operation.results),
            operation.properties,
            operation.attributes,
            tuple(map(kept, operation.regions)),
            alike,
        )
        known = self._known.setdefault(default_dialect, Known({}, {}))
        known.lines[key] = template
        form = self._attributes.dialects.forms.get(operation.name)
        one = len(operation.results) == 1 and not operation.regions
        if one and form is not None and form.typed_last:
            known.bodies[key.rpartition(_TYPED)[0]] = template


def _picker(places: list[int]) -> Callable[[list[str]], Sequence[str]]:
    """Return a function that selects the names at these indices."""
    if len(places) > 1:
        return itemgetter(*places)
    first = places[0] if places else 0
    return itemgetter(slice(first, first + len(places)))
