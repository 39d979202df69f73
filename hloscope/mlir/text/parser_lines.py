"""Reads most operations by the line.

Most lines of a dump repeat: the same op, attributes and types with other operands.  So a line is
looked up by its text without the names of values, and read token by token only where that text is
new, or where anything is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, TypeAlias, cast

from hloscope.ir import Type
from hloscope.lazy import pattern
from hloscope.mlir.attributes import Attribute
from hloscope.mlir.dialects import Dialects
from hloscope.mlir.ir import Block, Operation, Region, Value
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
from hloscope.source import Source

_NEXT: Final = pattern(
    r'\s*(?:%|\}|"|\^|//|[a-z_]+\.[a-z_]|(?:func\.)?(?:return|call|func)\b)', re.ASCII
)
_LOCATION: Final = pattern(r" loc\((#[^\W_]+)\)$")
_TYPED: Final = " : "
_type_of: Final = attrgetter("type")
_new: Final = object.__new__


class Template(NamedTuple):
    """What all lines of one text have in common.

    Attributes:
        name: Of the op.
        few: How many operands there are, where they are few and the names behind that of the
            result in order, else 0.
        holes: How many names there are in a line.
        pick: Takes the names of the operands from those of a line.
        operands: Their types.
        results: Types of the results.
        regions: Those the line stands for, with nothing in them but what they define.
        alike: What tells the ops of these lines from all others.
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
        """All, as a plain tuple: it is taken apart faster."""
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
    """Reads operations by the line where it can."""

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
        """Read lines that are like others from the end of a line on; returns how far that goes."""
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
        """Read lines as far as they are known; returns where the last one ends.

        What it does for a line is written out: two calls would take as long as all the rest.
        """
        source, scope = self.source, self.scope
        template_of, value_of = templates.get, scope.__getitem__
        names, place, offset = lines.names, lines.place, lines.number - lines.line
        ahead = template_of(lines.keys[lines.line])
        line = lines.number
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
        """Does an op that ends in a line end with it?"""
        end = lines.begin + lines.length(number - lines.number + 1) - 1
        return _NEXT.match(self.text, end) is not None

    def _located(self, line: str, templates: dict[str, Fields]) -> tuple[Fields | None, Location]:
        """The template of a line that has a location or other types than known ones."""
        key, location = self._key(line)
        return templates.get(key) or self._retyped(key, templates), location

    def next_operation(self) -> Operation | None:
        """Read an operation; `None` if it is wrong and was left out."""
        return self.operation()

    def _key(self, key: str) -> tuple[str, Location]:
        """The text of a line without names and without location; the location."""
        found = _LOCATION.search(key)
        if found is None:
            return key, UNKNOWN
        name = found[1]
        location = self._lazy.get(name)
        if location is None:
            location = self.lazy(name, self.before)
        return key[: found.start()], location

    def _retyped(self, key: str, templates: dict[str, Fields]) -> Fields | None:
        """The template of a line that differs from one known in the types at its end at most."""
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
        """Keep what the line after `at` says of others like it, if the op at `first` fills it."""
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
        written = [found.start() for found in NAME.finditer(text, first, end)]
        if operation.results and written[:1] != [first]:
            return
        named = int(bool(operation.results))
        if len(used) != len(operation.operands) or set(used) != set(written[named:]):
            return
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
    """Takes the names at these places."""
    if len(places) > 1:
        return itemgetter(*places)
    first = places[0] if places else 0
    return itemgetter(slice(first, first + len(places)))
