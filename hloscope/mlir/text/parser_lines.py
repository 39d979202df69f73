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
from typing import Final, NamedTuple, cast

from hloscope.ir import Type
from hloscope.lazy import pattern
from hloscope.mlir.attributes import Attribute
from hloscope.mlir.dialects import Dialects
from hloscope.mlir.ir import Block, Operation, Region, Value
from hloscope.mlir.locations import UNKNOWN, Location
from hloscope.mlir.text.copies import CopiedRegion, is_simple, kept
from hloscope.mlir.text.lines import LONG, NAME, Lines, line_key
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
        start: Where the op's name begins in a line whose result has an empty name.
        width: Length of the op's name in the text.
        at: Where the op's name begins in the text, in the line it was read from.
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
    start: int
    width: int
    at: int
    alike: object


class LineParser(OperationParser):
    """Reads operations by the line where it can."""

    __slots__ = ("_ahead", "_bodies", "_templates")

    def __init__(
        self, source: Source, dialects: Dialects, allow_unregistered: bool = True, at: int = 0
    ) -> None:
        super().__init__(source, dialects, allow_unregistered, at)
        self._ahead: Final = Lines()
        self._templates: Final[dict[str, dict[str, Template]]] = {}
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
        self, block: Block, operations: list[Operation], templates: dict[str, Template], at: int
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
        templates: dict[str, Template],
        lines: Lines,
    ) -> int:
        """Read lines as far as they are known; returns where the last one ends.

        What it does for a line is written out: two calls would take as long as all the rest.
        """
        text, source, scope = self.text, self.source, self.scope
        find, template_of, value_of = text.find, templates.get, scope.__getitem__
        keys, names, begin, place = lines.keys, lines.names, lines.begin, lines.place
        first = lines.line
        ahead = template_of(keys[first])
        for line, following in enumerate(islice(keys, first + 1, None), first):
            template = ahead
            location: Location = UNKNOWN
            if template is None:
                key, location = self._key(keys[line])
                template = templates.get(key) or self._retyped(key, templates)
                if template is None:
                    break
            end = find("\n", begin)
            ahead = template_of(following)
            if ahead is None and location is UNKNOWN and _NEXT.match(text, end) is None:
                break
            (
                name,
                few,
                holes,
                pick,
                needed,
                types,
                properties,
                attributes,
                regions,
                start,
                width,
                known,
                alike,
            ) = template
            result = names[place] if types else ""
            try:
                if few == 1:
                    use = scope[names[place + 1]]
                    if use.type is not needed[0] and use.type != needed[0]:
                        break
                    operands: tuple[Value, ...] = (use,)
                elif few == 2:
                    use, other = scope[names[place + 1]], scope[names[place + 2]]
                    if (use.type is not needed[0] and use.type != needed[0]) or (
                        other.type is not needed[1] and other.type != needed[1]
                    ):
                        break
                    operands = use, other
                else:
                    operands = tuple(map(value_of, pick(names[place : place + holes])))
                    if tuple(map(_type_of, operands)) != needed:
                        break
            except KeyError:  # not defined
                break
            if result in scope:
                break
            start += begin + len(result)
            operation = _new(Operation)  # its `__init__` takes longer than this
            operation.name = name
            operation.operands = operands
            operation.properties = properties
            operation.attributes = attributes
            if regions:
                by = start - known
                operation.regions = tuple([CopiedRegion(r, operation, by) for r in regions])
            else:
                operation.regions = ()
            operation.successors = operation.successor_operands = ()
            operation.location = location
            operation.source = source
            operation.start = start
            operation.end = start + width
            operation.parent = block
            operation.alike = alike
            if len(types) == 1:
                value = scope[result] = _new(Value)
                value.type = types[0]
                value.owner = operation
                value.index = 0
                value.name = result
                value.location = UNKNOWN
                value.at = -1
                operation.results = (value,)
            else:
                self._bind(operation, types, [(result, len(types), begin)] if types else [])
            operations.append(operation)
            begin = end + 1
            place += holes
        else:
            line = len(keys) - 1
        lines.line, lines.begin, lines.place = line, begin, place
        return begin - 1

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

    def _retyped(self, key: str, templates: dict[str, Template]) -> Template | None:
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
        template = known._replace(operands=operands, results=(made,), alike=object())
        templates[key] = template
        return template

    def _learn(
        self, operation: Operation, templates: dict[str, Template], at: int, first: int
    ) -> None:
        """Keep what the line after `at` says of others like it, if the op at `first` fills it."""
        text, used = self.text, self.used
        begin = at + 1
        end = text.find("\n", begin, begin + LONG)
        if not end >= self.before > begin > 0 or first >= end or text[self.before : end].strip():
            return
        if not text.startswith("\n", at):
            return  # something else stands in the line before it
        key, location = self._key(line_key(text[begin:end]))
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
        result = len(NAME.match(text, first)[1]) if operation.results else 0
        operation.alike = object()
        template = templates[key] = Template(
            operation.name,
            len(used) if named and used == written[1:] and len(used) < 3 else 0,
            len(written),
            _picker([written.index(at) for at in used]),
            tuple(value.type for value in operation.operands),
            tuple(value.type for value in operation.results),
            operation.properties,
            operation.attributes,
            tuple(map(kept, operation.regions)),
            operation.start - begin - result,
            operation.end - operation.start,
            operation.start,
            operation.alike,
        )
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
