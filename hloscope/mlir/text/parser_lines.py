"""Parsing of operations line by line, with templates of equal lines.

Most lines of a dump repeat: op, attributes and types are equal, operands differ. A line is looked
up by its text with placeholders for value names. It is read token by token only if that text is
new, or if anything is invalid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, TypeAlias, cast

from hloscope.ir import Type
from hloscope.mlir.definitions import Dialects
from hloscope.mlir.ir import Attribute, Block, Operation, Region, Value
from hloscope.mlir.locations import UNKNOWN, Location
from hloscope.mlir.text.lines import (
    HOLE,
    LONG,
    NAME,
    Alike,
    LineOperation,
    Lines,
    copied,
    is_simple,
    kept,
)
from hloscope.mlir.text.parser_ops import OperationParser
from hloscope.mlir.text.parser_types import KNOWN_TYPES
from hloscope.support.lazy import pattern
from hloscope.support.source import Source

_NEXT: Final = pattern(
    r'\s*(?:%|\}|"|\^|//|[a-z_]+\.[a-z_]|(?:func\.)?(?:return|call|func)\b)', re.ASCII
)
_LOCATION: Final = pattern(r" loc\((#[^\W_]+)\)$")
_TYPED: Final = " : "
_type_of: Final = attrgetter("type")
_new: Final = object.__new__


class Template(NamedTuple):
    """The common part of all lines with equal text.

    Attributes:
        name: Name of the op.
        few: Number of operands, if it is 1 or 2 and their names follow that of the
            result in order; else 0.
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

    @property
    def fields(self) -> Fields:
        """All fields as a plain tuple, which is faster to unpack."""
        return (*self,)


Fields: TypeAlias = tuple[
    str,
    int,
    int,
    Callable[[list[str]], Sequence[str]],
    tuple[Type, ...],
    tuple[Type, ...],
    Mapping[str, Attribute],
    Mapping[str, Attribute],
    tuple[Region, ...],
    Alike,
]


class LineParser(OperationParser):
    """Parser that reads operations by line where possible."""

    __slots__ = ("_ahead", "_bodies", "_templates")

    def __init__(
        self, source: Source, dialects: Dialects, allow_unregistered: bool = True, at: int = 0
    ) -> None:
        super().__init__(source, dialects, allow_unregistered, at)
        self._ahead: Final = Lines()
        self._templates: Final[dict[str, dict[str, Fields]]] = {}
        self._bodies: Final[dict[tuple[str, str], Template]] = {}

    def _operations(self, block: Block) -> None:
        """Read the operations up to `}` or the next block."""
        templates = self._templates.setdefault(self.default_dialect, {})
        operations: list[Operation] = []
        at = self.before
        while True:
            # With unresolved forward uses a definition must check types against them, which only
            # the full parser does.
            if not self.forward and self.text.startswith("\n", at):
                at = self._lines(block, operations, templates, at)
            self.move(at)
            if self.tok == "}" or self.kind == "block":
                break
            first = self.start
            operation = self.next_operation()
            if operation is not None:
                operation.parent = block
                operations.append(operation)
                self._learn(operation, templates, at, first)
            at = self.before
        block.operations = tuple(operations)

    def _lines(
        self, block: Block, operations: list[Operation], templates: dict[str, Fields], at: int
    ) -> int:
        """Read known lines from the end of a line on; return the end of the last one read."""
        lines = self._ahead
        while lines.reach(self.text, at + 1):
            at = self._known_lines(block, operations, templates, lines)
            if at + 1 < lines.end:
                break
        return at

    def _known_lines(
        self,
        block: Block,
        operations: list[Operation],
        templates: dict[str, Fields],
        lines: Lines,
    ) -> int:
        """Read lines as long as they are known; return the end of the last one.

        The work for a line is written inline, since two calls would double the time.
        """
        source, scope = self.source, self.scope
        template_of, value_of = templates.get, scope.__getitem__
        names, place, offset = lines.names, lines.place, lines.number - lines.line
        ahead = template_of(lines.keys[lines.line])
        line = lines.number
        # A line is an op only if the op ends with it. A known line that follows proves that;
        # otherwise the text after it is inspected.
        for following in islice(lines.keys, lines.line + 1, None):
            template = ahead
            location: Location = UNKNOWN
            if template is None:
                template, location = self._located(lines.keys[line - offset], templates)
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
                self._bind(operation, types, [(result, len(types), 0)] if types else [])
            operations.append(operation)
            place += holes
            line += 1
        lines.go_on(line - lines.number, place - lines.place)
        return lines.begin - 1

    def _ends_op(self, lines: Lines, number: int) -> bool:
        """Does an op that ends in a line end with that line?"""
        end = lines.begin + lines.length(number - lines.number + 1) - 1
        return _NEXT.match(self.text, end) is not None

    def _located(self, line: str, templates: dict[str, Fields]) -> tuple[Fields | None, Location]:
        """Return the template of a line with a location or with other types, and the location."""
        key, location = self._key(line)
        return templates.get(key) or self._retyped(key, templates), location

    def next_operation(self) -> Operation | None:
        """Read an operation; `None` if it is invalid and was skipped."""
        return self.operation()

    def _key(self, key: str) -> tuple[str, Location]:
        """Return the text of a line without names and location, and the location."""
        found = _LOCATION.search(key)
        if found is None:
            return key, UNKNOWN
        name = found[1]
        location = self._lazy.get(name)
        if location is None:
            location = self.lazy(name, self.before)
        return key[: found.start()], location

    def _retyped(self, key: str, templates: dict[str, Fields]) -> Fields | None:
        """Return the template of a line that equals a known one, except for types at its end."""
        # Nothing before the last ` : ` depends on the types there (`Form.typed_last`), so the known
        # op is valid with other types, as long as those have been read before.
        body, _, type = key.rpartition(_TYPED)
        known = self._bodies.get((self.default_dialect, body))
        if known is None:
            return None
        if type.startswith("("):
            inputs, _, result = type[1:].partition(") -> ")
            given = [KNOWN_TYPES.get(one) for one in inputs.split(", ")]
        elif self.dialects.forms[known.name].typed_last == "same":
            result = type
            given = [KNOWN_TYPES.get(type)] * len(known.operands)
        else:
            return None
        made = KNOWN_TYPES.get(result)
        if None in given or made is None or len(given) != len(known.operands):
            return None
        operands = cast("tuple[Type, ...]", tuple(given))
        template = known._replace(operands=operands, results=(made,), alike=known.alike.other())
        templates[key] = template.fields
        return template.fields

    def _learn(
        self, operation: Operation, templates: dict[str, Fields], at: int, first: int
    ) -> None:
        """Add a template of the line after `at`, if the op at `first` fills that line."""
        text, used = self.text, self.used
        begin = at + 1
        end = text.find("\n", begin, begin + LONG)
        if not end >= self.before > begin > 0 or first >= end or text[self.before : end].strip():
            return
        if not text.startswith("\n", at):
            return  # something else stands in the line before it
        parts = NAME.split(text[begin:end])
        key, location = self._key(HOLE.join(parts[::2]))
        if location is UNKNOWN and operation.location is not UNKNOWN:
            return  # its location is part of the key, but not of a template
        if operation.successors or self.forward or not all(map(is_simple, operation.regions)):
            return
        # A template needs every name of the line to be the result or an operand, each resolved by
        # this op: other names would be uses that the template cannot see.
        written = [found.start() for found in NAME.finditer(text, first, end)]
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
        templates[key] = template.fields
        form = self.dialects.forms.get(operation.name)
        one = len(operation.results) == 1 and not operation.regions
        if one and form is not None and form.typed_last:
            self._bodies[self.default_dialect, key.rpartition(_TYPED)[0]] = template


def _picker(places: list[int]) -> Callable[[list[str]], Sequence[str]]:
    """Return a function that selects the names at these indices."""
    if len(places) > 1:
        return itemgetter(*places)
    first = places[0] if places else 0
    return itemgetter(slice(first, first + len(places)))
