"""The syntax tree of MLIR: operations with operands, attributes and regions of blocks.

It says what the text (or bytecode) says and nothing more: an op may be unknown, or wrong.  The
program graph of `hloscope.ir` is made from it, and it is made from the graph for printing.
Nodes compare by identity and are not changed once the reader or builder has handed them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Final

from hloscope.ir import FunctionType, Type
from hloscope.mlir.attributes import Attribute, TypeAttr
from hloscope.mlir.locations import UNKNOWN, Location
from hloscope.source import Source, Span
from hloscope.walks import nested

_type_of: Final = attrgetter("type")
NO_ATTRIBUTES: Final[Mapping[str, Attribute]] = {}


class Value:
    """A result of an operation or an argument of a block.

    Attributes:
        type: Its type.
        owner: The operation or block that defines it; `None` while it is only used.
        index: Number among the results or arguments of the owner.
        name: Its name in the source without `%`; results of one op share it (`%0:2`), then `index`
            tells them apart.  Empty if it never had one.
        location: Of a block argument; results have that of their operation.
        at: Where the name of a block argument begins in the source; -1 if it was not read.
    """

    __slots__ = ("at", "index", "location", "name", "owner", "type")

    def __init__(
        self,
        type: Type,
        owner: Operation | Block | None = None,
        index: int = 0,
        name: str = "",
        location: Location = UNKNOWN,
        at: int = -1,
    ) -> None:
        self.type = type
        self.owner = owner
        self.index = index
        self.name = name
        self.location = location
        self.at = at

    def __repr__(self) -> str:
        return f"<%{self.name or '?'}: {self.type}>"


class Operation:
    """One operation.

    Attributes:
        name: With its dialect: `stablehlo.add`.
        operands: Values read, in order.
        results: Values made; each knows its type.
        properties: Inherent attributes of a registered op by name, or those written `<{…}>`.
        attributes: All others (discardable), in the order of the text.
        regions: In order.
        successors: Blocks a terminator may go to; their arguments are among the operands.
        successor_operands: How many operands, counted from the end, go to each successor.
        location: As given in the text.
        source: The text it was read from, if it was.
        start: Where its name begins in the source.
        end: Where its name ends.
        alike: What it shares with ops that the reader found to be like it: equal but for the names
            of values and the place, regions included.  `None` where nobody looked.
    """

    __slots__ = (
        "alike",
        "attributes",
        "end",
        "location",
        "name",
        "operands",
        "parent",
        "properties",
        "regions",
        "results",
        "source",
        "start",
        "successor_operands",
        "successors",
    )

    def __init__(
        self,
        name: str,
        operands: tuple[Value, ...] = (),
        results: tuple[Value, ...] = (),
        properties: Mapping[str, Attribute] = NO_ATTRIBUTES,
        attributes: Mapping[str, Attribute] = NO_ATTRIBUTES,
        regions: tuple[Region, ...] = (),
        successors: tuple[Block, ...] = (),
        successor_operands: tuple[int, ...] = (),
        location: Location = UNKNOWN,
        source: Source | None = None,
        start: int = 0,
        end: int = 0,
    ) -> None:
        self.name = name
        self.operands = operands
        self.results = results
        self.properties = properties
        self.attributes = attributes
        self.regions = regions
        self.successors = successors
        self.successor_operands = successor_operands
        self.location = location
        self.source = source
        self.start = start
        self.end = end
        self.parent: Block | None = None
        self.alike: object | None = None
        for region in regions:
            region.parent = self

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    @property
    def blocks(self) -> list[Block]:
        """The blocks of its regions."""
        return [block for region in self.regions for block in region.blocks]

    @property
    def inside(self) -> list[Operation]:
        """The operations of its regions, without those in their regions."""
        return [inner for region in self.regions for block in region.blocks for inner in block]

    def walk(self) -> Iterator[Operation]:
        """It and all in its regions, each before what is in it, in the order of the text."""
        return nested([self], lambda operation: operation.inside if operation.regions else ())

    @property
    def span(self) -> Span | None:
        """Where its name stands in the source, if it was read."""
        return None if self.source is None else Span(self.source, self.start, self.end)

    def get(self, name: str) -> Attribute | None:
        """The property or attribute of that name."""
        found = self.properties.get(name)
        return self.attributes.get(name) if found is None else found

    def __repr__(self) -> str:
        return f"<{self.name} of {len(self.operands)} operands>"


KEPT_TEXT: Final = "hloscope.text"
"""The property of an op that is kept as text: all that is written of it, from its name on.

Nothing is known of its dialect.  The name cannot be that of an attribute of such a dialect.
"""


class SourceModule(Operation):
    """The `builtin.module` a text is read as; `resources` is its `{-# … #-}`, as written."""

    __slots__ = ("resources",)

    resources: str


class Block:
    """Operations in order, and the arguments they read; `label` is its name in the source."""

    __slots__ = ("arguments", "label", "operations", "parent")

    def __init__(
        self,
        arguments: tuple[Value, ...] = (),
        operations: tuple[Operation, ...] = (),
        label: str = "",
    ) -> None:
        self.arguments = arguments
        self.operations = operations
        self.label = label
        self.parent: Region | None = None
        for operation in operations:
            operation.parent = self

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)


class Region:
    """Blocks, the first of which is the entry."""

    __slots__ = ("blocks", "parent")

    def __init__(self, blocks: tuple[Block, ...] = ()) -> None:
        self.blocks = blocks
        self.parent: Operation | None = None
        for block in blocks:
            block.parent = self

    @property
    def block(self) -> Block:
        """The only block."""
        (block,) = self.blocks
        return block


def function_type(function: Operation) -> FunctionType | None:
    """The type that a function declares, `None` where it declares none."""
    found = function.get("function_type")
    known = found.type if isinstance(found, TypeAttr) else None
    return known if isinstance(known, FunctionType) else None


def likeness(operation: Operation) -> object:
    """Name, properties, attributes and types of an op: ops with equal ones differ in names only.

    They count by identity: the tree keeps them, and readers share them.
    """
    if operation.alike is not None:
        return operation.alike
    operands = operation.operands
    return (
        operation.name,
        id(operation.properties),
        id(operation.attributes),
        len(operands),
        *map(id, map(_type_of, operands)),
        *map(id, map(_type_of, operation.results)),
    )


def illegal(name: str) -> str:
    """What MLIR says of an op that a conversion must replace and has no pattern for.

    >>> illegal("vhlo.tan_v2")
    "failed to legalize operation 'vhlo.tan_v2' that was explicitly marked illegal"
    """
    return f"failed to legalize operation '{name}' that was explicitly marked illegal"
