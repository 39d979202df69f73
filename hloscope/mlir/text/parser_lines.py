"""Reads most operations by the line.

Most lines of a dump repeat: the same op, attributes and types with other operands.  So a line is
looked up by its text without the names of values, and read token by token only where that text is
new, or where anything is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, cast

from hloscope.ir import Type
from hloscope.lazy import pattern
from hloscope.mlir.attributes import Attribute
from hloscope.mlir.dialects import Dialects
from hloscope.mlir.ir import Block, Operation, Region, Value
from hloscope.mlir.locations import UNKNOWN, Location
from hloscope.mlir.text.parser_ops import OperationParser
from hloscope.mlir.text.parser_types import KNOWN_TYPES
from hloscope.source import Source

_NAME: Final = pattern(
    r"%((?:[0-9]+|[A-Za-z_$.-][A-Za-z0-9_$.-]*)(?:#[1-9][0-9]*+(?!\s*=)|))"
    r"(?:#0(?!\s*=))?"
)
"""A name without the number of a first result, which need not be written.

Where it is a result that is named, `%0#1 =`, the number is no part of it: no line is like that one.
"""
_NEXT: Final = pattern(
    r'\s*(?:%|\}|"|\^|//|[a-z_]+\.[a-z_]|(?:func\.)?(?:return|call|func)\b)', re.ASCII
)
_LOCATION: Final = pattern(r" loc\((#[^\W_]+)\)$")
_FUNCTION: Final = " : ("
_LONG: Final = 4000
_type_of: Final = attrgetter("type")
_new: Final = object.__new__


class Template(NamedTuple):
    """What all lines of one text have in common.

    Attributes:
        name: Of the op.
        pick: Takes the names of the operands from the parts of a line.
        operands: Their types.
        results: Types of the results.
        regions: Those the line stands for, with nothing in them but what they define.
        start: Where the op's name begins in a line whose result has an empty name.
        width: Length of the op's name in the text.
        at: Where the op's name begins in the text, in the line it was read from.
        alike: What tells the ops of these lines from all others.
    """

    name: str
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

    __slots__ = ("_bodies", "_templates")

    def __init__(
        self, source: Source, dialects: Dialects, allow_unregistered: bool = True, at: int = 0
    ) -> None:
        super().__init__(source, dialects, allow_unregistered, at)
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
                self._learn(operation, templates, at + 1, first)
            at = self.before
        block.operations = tuple(operations)

    def _lines(
        self, block: Block, operations: list[Operation], templates: dict[str, Template], at: int
    ) -> int:
        """Read lines that are like others from the end of a line on; returns how far that goes.

        What it does for a line is written out: two calls would take as long as all the rest.
        """
        text, source, scope = self.text, self.source, self.scope
        find, split, value_of = text.find, _NAME.split, scope.__getitem__
        following = "\n%"
        while True:
            begin = at + 1
            end = find("\n", begin, begin + _LONG)
            if end < 0:
                return at
            parts = split(text[begin:end])
            template = templates.get("\0".join(parts[::2]))
            location: Location = UNKNOWN
            if template is None:
                key, location = self._key(parts)
                template = templates.get(key) or self._retyped(key, templates)
            if template is None:
                return at
            if not text.startswith(following, end):
                if location is UNKNOWN and _NEXT.match(text, end) is None:
                    return at
                following = f"\n{parts[0]}%"
            (
                name,
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
            try:
                operands = tuple(map(value_of, pick(parts)))
                result = parts[1] if types else ""
            except (KeyError, IndexError):  # a name that is not defined, or a NUL in the text
                return at
            if result in scope or tuple(map(_type_of, operands)) != needed:
                return at
            start += begin + len(result)
            operation = _new(Operation)  # its `__init__` takes longer than this
            operation.name = name
            operation.operands = operands
            operation.properties = properties
            operation.attributes = attributes
            operation.regions = _copied(regions, operation, start - known) if regions else ()
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
            at = end

    def next_operation(self) -> Operation | None:
        """Read an operation; `None` if it is wrong and was left out."""
        return self.operation()

    def _key(self, parts: list[str]) -> tuple[str, Location]:
        """The text of a line without names and location; the location."""
        last = parts[-1]
        found = _LOCATION.search(last)
        if found is None:
            return "\0".join(parts[::2]), UNKNOWN
        name = found[1]
        location = self._lazy.get(name)
        if location is None:
            location = self.lazy(name, self.before)
        return "\0".join([*parts[:-1:2], last[: found.start()]]), location

    def _retyped(self, key: str, templates: dict[str, Template]) -> Template | None:
        """The template of a line that differs from one known in its function type at most."""
        body, _, type = key.rpartition(_FUNCTION)
        known = self._bodies.get((self.default_dialect, body))
        if known is None:
            return None
        inputs, _, result = type.partition(") -> ")
        given = [KNOWN_TYPES.get(one) for one in inputs.split(", ")]
        made = KNOWN_TYPES.get(result)
        if None in given or made is None or len(given) != len(known.operands):
            return None
        operands = cast("tuple[Type, ...]", tuple(given))
        template = known._replace(operands=operands, results=(made,), alike=object())
        templates[key] = template
        return template

    def _learn(
        self, operation: Operation, templates: dict[str, Template], begin: int, first: int
    ) -> None:
        """Keep what the line at `begin` says of others like it, if the op at `first` fills it."""
        text, used = self.text, self.used
        end = text.find("\n", begin, begin + _LONG)
        if not end >= self.before > begin > 0 or first >= end or text[self.before : end].strip():
            return
        parts = _NAME.split(text[begin:end])
        key, location = self._key(parts)
        if location is UNKNOWN and operation.location is not UNKNOWN:
            return  # its location is part of the key, but not of a template
        if operation.successors or self.forward or not all(map(_simple, operation.regions)):
            return
        written = [found.start() for found in _NAME.finditer(text, first, end)]
        places = {start: 2 * number + 1 for number, start in enumerate(written)}
        if operation.results and written[:1] != [first]:
            return
        if operation.results:
            del written[0]
        if len(used) != len(operation.operands) or set(used) != set(written):
            return
        result = len(parts[1]) if operation.results else 0
        operation.alike = object()
        template = templates[key] = Template(
            operation.name,
            _picker([places[at] for at in used]),
            tuple(value.type for value in operation.operands),
            tuple(value.type for value in operation.results),
            operation.properties,
            operation.attributes,
            operation.regions,
            operation.start - begin - result,
            operation.end - operation.start,
            operation.start,
            operation.alike,
        )
        form = self.dialects.forms.get(operation.name)
        one = len(operation.results) == 1 and not operation.regions
        if one and form is not None and form.typed_last:
            self._bodies[self.default_dialect, key.rpartition(_FUNCTION)[0]] = template


def _picker(places: list[int]) -> Callable[[list[str]], Sequence[str]]:
    """Takes the parts at these places."""
    if len(places) > 1:
        return itemgetter(*places)
    first = places[0] if places else 0
    return itemgetter(slice(first, first + len(places)))


def _simple(region: Region) -> bool:
    """Is it one block of plain ops that read what the block defines?"""
    if len(region.blocks) != 1:
        return False
    block = region.blocks[0]
    return len(block.operations) < 10 and all(
        not op.regions
        and not op.successors
        and op.location is UNKNOWN
        and all(_owner(value) is block for value in op.operands)
        for op in block
    )


def _owner(value: Value) -> Block | None:
    return value.owner.parent if isinstance(value.owner, Operation) else value.owner


def _copied(regions: tuple[Region, ...], parent: Operation, by: int) -> tuple[Region, ...]:
    """Copies of simple regions for an op, moved in the source."""
    copies = tuple([Region((_copied_block(region.blocks[0], by),)) for region in regions])
    for region in copies:
        region.parent = parent
    return copies


def _copied_block(block: Block, by: int) -> Block:
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
