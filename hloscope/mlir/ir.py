"""Syntax tree of MLIR: operations with operands, attributes and regions of blocks.

It has what the text or bytecode has: an op may be unknown or invalid. The program graph of
`hloscope.ir` is made from the tree, and the tree is made from the graph for printing. Nodes compare
by identity, and do not change after their reader or builder has returned them.
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
    """A result of an operation, or an argument of a block.

    Attributes:
        type: Type of the value.
        owner: The operation or block that defines it; `None` while it is only used.
        index: Number among the results or arguments of the owner.
        name: Name in the source without `%`; if results of one op share it (`%0:2`), `index`
            distinguishes them. Empty if the source has none.
        location: Location of a block argument; a result has its operation's.
        at: Offset of the name of a block argument in the source, or -1.
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
        name: Name with the dialect: `stablehlo.add`.
        operands: Operands, in order.
        results: Results, in order.
        properties: Inherent attributes of a registered op, or those in `<{…}>`, by name.
        attributes: Other (discardable) attributes, in the order of the text.
        regions: Regions, in order.
        successors: Successor blocks of a terminator; their arguments are among the operands.
        successor_operands: Number of operands, from the end, that each successor receives.
        location: Location as given in the text.
        source: The text that has the op, or `None`.
        start: Offset of the name in the source.
        end: Offset of the end of the name.
        alike: An object shared by ops that the reader found to be equal, apart from names
            of values and positions, regions included. `None` if unknown.
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
        """The only result; `ValueError` if the op has another number of results."""
        (value,) = self.results
        return value

    @property
    def blocks(self) -> list[Block]:
        """The blocks of the op's regions."""
        return [block for region in self.regions for block in region.blocks]

    @property
    def inside(self) -> list[Operation]:
        """The operations directly in the op's regions."""
        return [inner for region in self.regions for block in region.blocks for inner in block]

    def walk(self) -> Iterator[Operation]:
        """Iterate over the op and all nested ones in program order, each before those inside it."""
        return nested([self], lambda operation: operation.inside if operation.regions else ())

    @property
    def span(self) -> Span | None:
        """Position of the op's name in the source; `None` without a source."""
        return None if self.source is None else Span(self.source, self.start, self.end)

    def get(self, name: str) -> Attribute | None:
        """Return the property or attribute of that name; `None` if the op has neither."""
        found = self.properties.get(name)
        return self.attributes.get(name) if found is None else found

    def __repr__(self) -> str:
        return f"<{self.name} of {len(self.operands)} operands>"


KEPT_TEXT: Final = "hloscope.text"
"""Name of the property that has the whole text of an op, from its name on.

Such ops are of unknown dialects. No attribute of an op can have this name.
"""


class SourceModule(Operation):
    """The `builtin.module` of a text; `resources` is its `{-# … #-}`, as written."""

    __slots__ = ("resources",)

    resources: str


class Block:
    """Operations in order, and the block's arguments; `label` is its name in the source."""

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
    """Blocks, of which the first is the entry."""

    __slots__ = ("blocks", "parent")

    def __init__(self, blocks: tuple[Block, ...] = ()) -> None:
        self.blocks = blocks
        self.parent: Operation | None = None
        for block in blocks:
            block.parent = self

    @property
    def block(self) -> Block:
        """The only block; `ValueError` if the region has another number of blocks."""
        (block,) = self.blocks
        return block


def function_type(function: Operation) -> FunctionType | None:
    """Return the declared type of a function; `None` if it declares none."""
    found = function.get("function_type")
    known = found.type if isinstance(found, TypeAttr) else None
    return known if isinstance(known, FunctionType) else None


def likeness(operation: Operation) -> object:
    """Return a key of name, properties, attributes and types; equal ops have equal keys.

    Parts count by identity: the tree holds them, and readers share equal ones.
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
    """Return MLIR's message about an op that a conversion must replace but cannot.

    >>> illegal("vhlo.tan_v2")
    "failed to legalize operation 'vhlo.tan_v2' that was explicitly marked illegal"
    """
    return f"failed to legalize operation '{name}' that was explicitly marked illegal"
