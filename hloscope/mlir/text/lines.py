"""Parsing of operations by lines: lines that differ only in names of values share a template."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from itertools import islice
from operator import attrgetter, itemgetter
from threading import Thread
from typing import Final, NamedTuple, TypeVar, cast

from hloscope.ir import Type
from hloscope.mlir.ir import Attribute, Block, Operation, Region, Value
from hloscope.mlir.locations import UNKNOWN, Location
from hloscope.mlir.text.lexer import Lexer
from hloscope.mlir.text.parser_attributes import KNOWN_TYPES, AttributeParser
from hloscope.mlir.text.parser_scopes import Scope
from hloscope.support.lazy import pattern
from hloscope.support.source import Source
from hloscope.support.system import shared_lock

# --------------------------------------------------------------------------------------------------
# Parsing of operations line by line, with templates of lines that are equal but for names.
#
# Most lines of a dump repeat: op, attributes and types are equal, operands differ. A line is looked
# up by its text with placeholders for value names. It is read token by token only if that text is
# new, or if a part is invalid. Positions and regions of the ops of such lines are computed on
# demand.


_NAME: Final = pattern(
    r"%((?:[0-9]++|[A-Za-z_$.-][A-Za-z0-9_$.-]*+)(?:#[1-9][0-9]*+(?!\s*=))?+)"
    r"(?:#0(?!\s*=))?+"
)
"""Pattern of a value name, without a `#0`, which is optional in the text.

In the definition `%0#1 =` the number is not part of the name, so such a line has no template.
"""
_HOLE: Final = "\0"
"""Placeholder for a name in the text of a line."""
_LONG: Final = 4000
"""Maximum characters of a line that can have a template; longer lines are read token by token."""
_MANY: Final = 1 << 16
_MOST: Final = 10
"""A region of so many ops or more is parsed again instead of copied."""
_COPYING: Final = shared_lock()
_NEXT: Final = pattern(
    r'\s*(?:%|\}|"|\^|//|[a-z_]+\.[a-z_]|(?:func\.)?(?:return|call|func)\b)', re.ASCII
)
_LOCATION: Final = pattern(r" loc\((#[^\W_]+)\)$")
_TYPED: Final = " : "
_type_of: Final = attrgetter("type")


class Lines:
    """Consecutive lines of a text, one of which is current, with their names.

    Attributes:
        keys: Text of each line with `_HOLE` for each name; the last entry is empty.
        names: All names in these lines, without `%`.
        line: Index of the current line in `keys`.
        number: Index of the current line in the text; both count from 0.
        begin: Offset of the current line.
        place: Index in `names` of the current line's first name.
        end: Offset of the line after the last of these lines.
    """

    __slots__ = ("_lengths", "begin", "end", "keys", "line", "names", "number", "place")

    def __init__(self) -> None:
        self.begin = self.end = self.line = self.number = self.place = 0
        self.keys: list[str] = []
        self.names: list[str] = []
        self._lengths: list[int] = []

    def reach(self, text: str, begin: int) -> bool:
        """Move to the line at offset `begin`; return false if that is not possible.

        It is not possible if the line is too long, or if the text contains `_HOLE`.
        """
        if not self.begin <= begin < self.end:
            return self._cut(text, begin)
        while self.begin < begin:
            self.advance(1, self.keys[self.line].count(_HOLE))
        return True

    def advance(self, lines: int, names: int) -> None:
        """Move forward by `lines` lines, which contain `names` names in total."""
        self.begin += self.length(lines)
        self.line += lines
        self.number += lines
        self.place += names

    def length(self, lines: int) -> int:
        """Return the number of characters of the next `lines` lines, with their line ends."""
        return sum(self._lengths[self.line : self.line + lines]) + lines

    def _cut(self, text: str, begin: int) -> bool:
        """Split the text from `begin` on into lines and names; return false if it cannot be."""
        # Pieces of about 64 KiB keep the memory bounded, and end at the end of a line.
        end = text.find("\n", begin + _MANY, begin + _MANY + _LONG)
        if end < 0:
            end = text.rfind("\n", begin, begin + _MANY)
        piece = text[begin:end] if end > begin else _HOLE
        # The placeholder itself in the text would make different lines equal.
        if _HOLE in piece:
            self.end = 0
            return False
        # The line number is counted from the previous piece on; only after a step back is it
        # counted from the start.
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


class SharedKey:
    """Object shared by the ops of one template; it computes the positions of their names.

    Attributes:
        first: Offset of the op's name in the first of these lines.
    """

    __slots__ = ("_name", "_start", "_width", "first")

    def __init__(self, first: int, start: int, width: int, name: int) -> None:
        """Set the offsets of names in a line.

        Args:
            first: Offset of the op's name in the first line.
            start: Offset of the op's name in its line, less the length of the result's name.
            width: Length of the op's name.
            name: Offset of the result's name in its line, with `%`; -1 without results.
        """
        self.first: Final = first
        self._start: Final = start
        self._width: Final = width
        self._name: Final = name

    def other(self) -> SharedKey:
        """Return a new object with the same offsets, for lines with other types."""
        return SharedKey(self.first, self._start, self._width, self._name)

    def name_span(self, text: str, begin: int) -> tuple[int, int]:
        """Return the offsets of start and end of the op's name in the line at offset `begin`."""
        named = _NAME.match(text, begin + self._name) if self._name >= 0 else None
        start = begin + self._start + (len(named[1]) if named is not None else 0)
        return start, start + self._width


class LineOperation(Operation):
    """An op that was read by a line's template; its position is computed on demand.

    Attributes:
        line: Index of the line in the text, counted from 0.
    """

    __slots__ = ("line",)

    line: int

    def __init__(
        self,
        template: Template,
        operands: tuple[Value, ...],
        location: Location,
        source: Source,
        line: int,
    ) -> None:
        """Set the fields except for the results; `start` and `end` are computed on demand."""
        self.name = template.name
        self.operands = operands
        self.properties = template.properties
        self.attributes = template.attributes
        self.regions = copied(template.regions, self) if template.regions else ()
        self.successors = self.successor_operands = ()
        self.location = location
        self.source = source
        self.line = line
        self.shared_key = template.shared_key

    def __getattr__(self, name: str) -> int:
        """Compute `start` and `end` on first use; Python calls this only for missing attributes."""
        if name not in ("start", "end"):
            raise AttributeError(name, name=name, obj=self)
        shared_key, source = self.shared_key, self.source
        assert isinstance(shared_key, SharedKey)
        assert source is not None
        self.start, self.end = shared_key.name_span(source.text, source.line_start(self.line))
        return self.start if name == "start" else self.end


class _Copy(Region):
    """A copy of a region that must never change; its blocks are copied on first use."""

    __slots__ = ("_like", "_owner")

    def __init__(self, like: Region, owner: LineOperation) -> None:
        """Set the region `like` to copy, and the op `owner` that has the copy."""
        self.parent = self._owner = owner
        self._like = like

    def __getattr__(self, name: str) -> tuple[Block, ...]:
        """Make `blocks` on first use; Python calls this only for missing attributes."""
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
    """Return copies of simple regions, whose originals never change, for the op `owner`."""
    return tuple([_Copy(region, owner) for region in regions])


def original(region: Region) -> Region:
    """Return a copy of a simple region that only `copied` uses, so that it never changes."""
    return Region((_copied(region.blocks[0]),))


def is_simple(region: Region) -> bool:
    """Is the region one block of few ops without regions, which read only values of that block?"""
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
    """Return a copy of a block; positions of ops move as far as `owner` is from the original."""
    # All lines of one template have their regions at equal distance from the op's name, so one
    # offset moves every position.
    by = 0
    if owner is not None and any(op.source is not None for op in block.operations):
        assert isinstance(owner.shared_key, SharedKey)
        by = owner.start - owner.shared_key.first
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
        copy.shared_key = op.shared_key
        copy.results = tuple(Value(v.type, copy, v.index, v.name) for v in op.results)
        for old, value in zip(op.results, copy.results, strict=True):
            values[id(old)] = value
        operations.append(copy)
    new.operations = tuple(operations)
    return new


class Template(NamedTuple):
    """What all lines with equal text, apart from names, have in common: an op without its operands.

    Attributes:
        name: Name of the op.
        leading_operands: Number of operands, if it is 1 or 2 and their names follow the result's
            name in order; else 0. Without it a training step of 3.4 MB takes 19 % longer.
        holes: Number of names in a line.
        pick: Function that selects the names of the operands from all names of a line.
        operands: Types of the operands.
        results: Types of the results.
        regions: Regions that the line implies; they read only their own values.
        shared_key: Object shared by the ops of these lines only.
    """

    name: str
    leading_operands: int
    holes: int
    pick: Callable[[list[str]], Sequence[str]]
    operands: tuple[Type, ...]
    results: tuple[Type, ...]
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]
    regions: tuple[Region, ...]
    shared_key: SharedKey


class KnownLines(NamedTuple):
    """Templates of lines that were read with one default dialect.

    Attributes:
        lines: Templates by the text of the line, with `_HOLE` for each name.
        bodies: Templates of lines that end with types, by the text before the types.
    """

    lines: dict[str, Template]
    bodies: dict[str, Template]


class LineTemplates:
    """Reads lines of operations that equal an earlier line in all but the names of values."""

    __slots__ = ("_ahead", "_attributes", "_known", "_lexer", "_scope", "_source", "_text")

    def __init__(self, lexer: Lexer, scope: Scope, attributes: AttributeParser) -> None:
        self._lexer: Final = lexer
        self._source: Final = lexer.source
        self._text: Final = lexer.text
        self._scope: Final = scope
        self._attributes: Final = attributes
        self._ahead: Final = Lines()
        self._known: Final[dict[str, KnownLines]] = {}  # by the default dialect

    def read(self, block: Block, operations: list[Operation], default_dialect: str, at: int) -> int:
        """Read known lines from the next line start on; return the end of the last one.

        Args:
            block: The block of the ops.
            operations: The ops of the block so far; those of the lines are appended.
            default_dialect: The dialect whose prefix may be omitted.
            at: End of the last op, which may be in the middle of a line.

        Returns:
            The end of the last line read.
        """
        # With unresolved forward uses, a definition must be checked against the types of the uses,
        # which only the full parser does.
        if self._scope.forward or not self._text.startswith("\n", at):
            return at
        known, lines = self._known.setdefault(default_dialect, KnownLines({}, {})), self._ahead
        while lines.reach(self._text, at + 1):
            at = self._known_lines(block, operations, known, lines)
            if at + 1 < lines.end:
                break
        return at

    def _known_lines(
        self,
        block: Block,
        operations: list[Operation],
        known: KnownLines,
        lines: Lines,
    ) -> int:
        """Read lines as long as each has a template; return the end of the last line read.

        The work for a line is written inline, since two calls would double the time.

        Args:
            block: The block that the ops belong to.
            operations: The list that the ops are appended to.
            known: The templates by line, a line being its text without the value names.
            lines: The lines of the text; its position is advanced.
        """
        source, scope = self._source, self._scope.values
        template_of, value_of = known.lines.get, scope.__getitem__
        names, place, offset = lines.names, lines.place, lines.number - lines.line
        ahead = template_of(lines.keys[lines.line])
        line = lines.number
        # A line is a complete op only if the op ends with it. That is certain if a known line
        # follows; otherwise the text after it is inspected.
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
            lead, holes, needed = template.leading_operands, template.holes, template.operands
            types = template.results
            result = names[place] if types else ""
            try:
                if lead == 1:
                    one = scope[names[place + 1]]
                    operands: tuple[Value, ...] = (one,)
                    fits = one.type is needed[0]
                elif lead == 2:
                    one, two = operands = scope[names[place + 1]], scope[names[place + 2]]
                    fits = one.type is needed[0] and two.type is needed[1]
                else:
                    operands = tuple(map(value_of, template.pick(names[place : place + holes])))
                    fits = False
            except KeyError:  # the operand is not defined
                # A second definition of a name, or an operand of another type, is an error or a new
                # template. The full parser handles both.
                break
            if result in scope or (not fits and tuple(map(_type_of, operands)) != needed):
                break
            operation = LineOperation(template, operands, location, source, line)
            operation.parent = block
            if len(types) == 1:
                value = scope[result] = Value(types[0], operation, 0, result)
                operation.results = (value,)
            else:
                self._scope.bind(operation, types, [(result, len(types), 0)] if types else [])
            operations.append(operation)
            place += holes
            line += 1
        lines.advance(line - lines.number, place - lines.place)
        return lines.begin - 1

    def _ends_op(self, lines: Lines, number: int) -> bool:
        """Does the line with index `number` contain all of the op that ends in it?"""
        end = lines.begin + lines.length(number - lines.number + 1) - 1
        return _NEXT.match(self._text, end) is not None

    def _located(self, line: str, known: KnownLines) -> tuple[Template | None, Location]:
        """Return the template, if any, and the location of a line with a `loc(…)` or new types.

        `line` is the line's text without names, `known` has the templates.
        """
        key, location = self._key(line)
        return known.lines.get(key) or self._with_types(key, known), location

    def _key(self, key: str) -> tuple[str, Location]:
        """Split a line's text without names into the key of its template and its location."""
        found = _LOCATION.search(key)
        if found is None:
            return key, UNKNOWN
        location = self._attributes.aliases.location_of(found[1], self._lexer.before)
        return key[: found.start()], location

    def _with_types(self, key: str, known: KnownLines) -> Template | None:
        """Return a template for a line that equals a known line except for the types at its end.

        `key` is the line's text without names. The result is `None` if there is no such line.
        """
        # A training step of 2.2 MB takes 35 % longer without this.
        # The text before the last ` : ` does not depend on the types after it (`Form.typed_last`),
        # so the known op is valid with other types, if those types have been read before.
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
        shared = like.shared_key.other()
        template = like._replace(operands=operands, results=(made,), shared_key=shared)
        known.lines[key] = template
        return template

    def learn(self, operation: Operation, default_dialect: str, at: int, first: int) -> None:
        """Store a template for the line after an offset, if an op that was read fills that line.

        Args:
            operation: The op.
            default_dialect: The dialect whose prefix may be omitted.
            at: End of the previous op.
            first: Offset of the op.
        """
        text, used = self._text, self._scope.used
        before = self._lexer.before
        begin = at + 1
        end = text.find("\n", begin, begin + _LONG)
        if not end >= before > begin > 0 or first >= end or text[before:end].strip():
            return
        if not text.startswith("\n", at):
            return  # other text is before the op in the line
        parts = _NAME.split(text[begin:end])
        key, location = self._key(_HOLE.join(parts[::2]))
        if location is UNKNOWN and operation.location is not UNKNOWN:
            return  # the key contains the location; a template does not
        if (
            operation.successors
            or self._scope.forward
            or not all(map(is_simple, operation.regions))
        ):
            return
        # Every name of the line must be the result or an operand that is resolved by this op. Other
        # names would be uses that the template does not know.
        written = [found.start() for found in _NAME.finditer(text, first, end)]
        if operation.results and written[:1] != [first]:
            return
        named = int(bool(operation.results))
        if len(used) != len(operation.operands) or set(used) != set(written[named:]):
            return
        # The result's name may have another length in another line, so later offsets are stored as
        # if it were empty.
        result = len(parts[1]) if named else 0
        operation.shared_key = shared_key = SharedKey(
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
            tuple(operation.operand_types),
            tuple(operation.result_types),
            operation.properties,
            operation.attributes,
            tuple(map(original, operation.regions)),
            shared_key,
        )
        known = self._known.setdefault(default_dialect, KnownLines({}, {}))
        known.lines[key] = template
        form = self._attributes.dialects.forms.get(operation.name)
        one = len(operation.results) == 1 and not operation.regions
        if one and form is not None and form.typed_last:
            known.bodies[key.rpartition(_TYPED)[0]] = template


def _picker(places: list[int]) -> Callable[[list[str]], Sequence[str]]:
    """Return a function that selects the names at the indices `places` from a list of names."""
    if len(places) > 1:
        return itemgetter(*places)
    first = places[0] if places else 0
    return itemgetter(slice(first, first + len(places)))


# --------------------------------------------------------------------------------------------------
# Call a function on a stack of its own, so that nested input does not exhaust the caller's.
#
# Python counts the depth of calls for each thread.  The limit of the depth belongs to the process
# and is not changed.


T = TypeVar("T")


class StoppedError(BaseException):
    """Raised in a thread of `FreshStack` if the waiting caller was interrupted."""


class FreshStack:
    """Runs a function in a new thread, which has an empty stack, while the caller waits.

    One call runs at a time. An exception of the function is raised in the caller. If the caller is
    interrupted while it waits (Ctrl-C), the thread stops at the next `check`.
    """

    __slots__ = ("_is_stopped",)

    def __init__(self) -> None:
        self._is_stopped = False

    def check(self) -> None:
        """Raise a `StoppedError` if the caller was interrupted; `function` calls this."""
        if self._is_stopped:
            raise StoppedError

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of `function`, called in a new thread in the caller's context."""
        returned: list[T] = []
        raised: list[BaseException] = []
        context = copy_context()

        def run() -> None:
            try:
                returned.append(context.run(function))
            except BaseException as error:
                raised.append(error)

        thread = Thread(target=run, name="hloscope-nested", daemon=True)
        thread.start()
        try:
            thread.join()
        except BaseException:
            self._is_stopped = True
            thread.join()
            raise
        if raised:
            try:
                raise raised[0]
            finally:
                raised.clear()  # the traceback's frames refer to this list
        return returned[0]
