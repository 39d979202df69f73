"""Reads most operations by the line.

Most lines of a dump repeat: the same op, attributes and types with other operands.  So a line is
looked up by its text without the names of values, and read token by token only where that text is
new, or where anything is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from hloscope.ir import Type
from hloscope.lazy import pattern
from hloscope.mlir.attributes import Attribute
from hloscope.mlir.dialects import Dialects
from hloscope.mlir.ir import Block, Operation, Region, Value
from hloscope.mlir.locations import UNKNOWN, Location
from hloscope.mlir.text.parser_ops import OperationParser
from hloscope.source import Source

_NAME: Final = pattern(r"%((?:[0-9]+|[A-Za-z_$.-][A-Za-z0-9_$.-]*)(?:[#:][0-9]+|))")
_NEXT: Final = pattern(
    r'\s*(?:%|\}|"|\^|//|[a-z_]+\.[a-z_]|(?:func\.)?(?:return|call|func)\b)', re.ASCII
)
_LONG: Final = 4000
_type_of: Final = attrgetter("type")
_new: Final = object.__new__


class Template(NamedTuple):
    """What all lines of one text have in common.

    Attributes:
        name: Of the op.
        places: Where the names of the operands are among the parts of the line.
        pick: Takes them from there, if there are two or more.
        operands: Their types.
        results: Types of the results.
        regions: Those the line stands for, with nothing in them but what they define.
        width: Length of the op's name in the text.
        at: Where the op's name begins in the line it was read from.
    """

    name: str
    places: tuple[int, ...]
    pick: Callable[[list[str]], tuple[str, ...]] | None
    operands: tuple[Type, ...]
    results: tuple[Type, ...]
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]
    regions: tuple[Region, ...]
    width: int
    at: int


class LineParser(OperationParser):
    """Reads operations by the line where it can."""

    __slots__ = ("_templates",)

    def __init__(
        self, source: Source, dialects: Dialects, allow_unregistered: bool = True, at: int = 0
    ) -> None:
        super().__init__(source, dialects, allow_unregistered, at)
        self._templates: Final[dict[str, dict[str, Template]]] = {}

    def _operations(self, block: Block) -> None:  # noqa: C901  (one loop, unrolled for speed)
        """Read the operations up to `}` or the next block."""
        text, size = self.text, len(self.text)
        find, split = text.find, _NAME.split
        templates = self._templates.setdefault(self.default_dialect, {})
        operations: list[Operation] = []
        indent, following = "", "\n%"
        at = self.before
        while True:
            begin = at + 1 if text.startswith("\n", at) else at
            end = find("\n", begin, begin + _LONG)
            key = ""
            if end >= 0:
                parts = split(text[begin:end])
                if parts[-1][-1:] == ")" or len(parts) < 3 or ":" in parts[1]:
                    key, location = self._key(parts)
                elif parts[2][:3] == " = " and (parts[0] == indent or not parts[0].strip()):
                    key, location = "\0".join(parts[2::2]), None
                    if parts[0] != indent:
                        indent = parts[0]
                        following = f"\n{indent}%"
                else:
                    key, location = self._key(parts)
                template = templates.get(key)
                if (
                    template is not None
                    and not self.forward
                    and (
                        location is not None
                        or text.startswith(following, end)
                        or _NEXT.match(text, end) is not None
                    )
                ):
                    operation = self._line(template, parts, location, begin)
                    if operation is not None:
                        operation.parent = block
                        operations.append(operation)
                        at = end
                        continue
            self.move(at)
            if self.tok == "}" or self.kind == "block":
                break
            first = self.start
            read = self.next_operation()
            at = self.before
            if read is None:
                continue
            operation = read
            operation.parent = block
            operations.append(operation)
            if end >= at > begin > 0 and first < end and not text[at:end].strip() and end < size:
                if location is None and operation.location is not UNKNOWN:
                    continue  # its location is part of the key, but not of a template
                template = self._learn(operation, first, end)
                if template is not None:
                    templates[key] = template
        block.operations = tuple(operations)

    def next_operation(self) -> Operation | None:
        """Read an operation; `None` if it is wrong and was left out."""
        return self.operation()

    def _key(self, parts: list[str]) -> tuple[str, Location | None]:
        """The text of a line without names and location; the location."""
        location: Location | None = None
        last = parts[-1]
        if last.endswith(")"):
            start = last.rfind(" loc(#")
            if start >= 0 and last[start + 6 : -1].isalnum():
                location = self._lazy.get(last[start + 5 : -1])
                if location is None:
                    location = self.lazy(last[start + 5 : -1], self.before)
                parts[-1] = last[:start]
        if len(parts) > 2 and parts[2].startswith(" = ") and not parts[0].strip():
            count = parts[1].partition(":")[2]
            return count + "\0".join(parts[2::2]), location
        return "\0".join(parts[::2]).lstrip(), location

    def _line(
        self, template: Template, parts: list[str], location: Location | None, begin: int
    ) -> Operation | None:
        """The operation of a line; `None` if names are not as they should be."""
        name, places, pick, needed, types, properties, attributes, regions, width, at = template
        scope = self.scope
        if types:
            result = parts[1]
            begin += len(parts[0]) + len(result) + 4
            if ":" in result:  # of one result, `%0:1` may be written
                result = result[: result.rindex(":")]
            if result in scope:
                return None
        else:
            begin += len(parts[0]) - len(parts[0].lstrip())
        try:
            names = pick(parts) if pick else [parts[place] for place in places]
            operands = tuple(map(scope.__getitem__, names))
        except (KeyError, IndexError):  # a name that is not defined, or a NUL in the text
            return None
        if tuple(map(_type_of, operands)) != needed:
            return None
        operation = _new(Operation)  # its `__init__` takes longer than this
        operation.name = name
        operation.operands = operands
        operation.results = ()
        operation.properties = properties
        operation.attributes = attributes
        operation.regions = _copied(regions, operation, begin - at) if regions else ()
        operation.successors = operation.successor_operands = ()
        operation.location = location or UNKNOWN
        operation.source = self.source
        operation.start = begin
        operation.end = begin + width
        if len(types) == 1:
            value = _new(Value)
            value.type = types[0]
            value.owner = operation
            value.index = 0
            value.name = result
            value.location = UNKNOWN
            value.at = -1
            scope[result] = value
            operation.results = (value,)
        elif types:
            values = tuple(
                Value(type, operation, number, result) for number, type in enumerate(types)
            )
            for number, value in enumerate(values):
                if number:
                    scope[f"{result}#{number}"] = value
            scope[result] = values[0]
            operation.results = values
        return operation

    def _learn(self, operation: Operation, first: int, end: int) -> Template | None:
        """What the line at `first` says of others like it; `None` if it can't be known."""
        if operation.successors or self.forward or not all(map(_simple, operation.regions)):
            return None
        written = [found.start() for found in _NAME.finditer(self.text, first, end)]
        if operation.results:
            if not written or written[0] != first:
                return None
            written = written[1:]
        first_part = 3 if operation.results else 1
        part_of = {start: 2 * number + first_part for number, start in enumerate(written)}
        if len(self.used) != len(operation.operands) or set(self.used) != set(written):
            return None
        places = tuple(part_of[at] for at in self.used)
        return Template(
            operation.name,
            places,
            itemgetter(*places) if len(places) > 1 else None,
            tuple(value.type for value in operation.operands),
            tuple(value.type for value in operation.results),
            operation.properties,
            operation.attributes,
            operation.regions,
            operation.end - operation.start,
            operation.start,
        )


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
            op.start + by,
            op.end + by,
        )
        copy.parent = new
        copy.results = tuple(Value(v.type, copy, v.index, v.name) for v in op.results)
        for old, value in zip(op.results, copy.results, strict=True):
            values[id(old)] = value
        operations.append(copy)
    new.operations = tuple(operations)
    return new
