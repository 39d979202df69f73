"""Reading of operations from MLIR bytecode.

Values are numbered within each op that is isolated from above. An op may read a value that is
defined later, so a value is made when it is first read. Nesting of regions is limited only by
`MOST_REGIONS`: the reader has an explicit stack.

Source: MLIR's documentation "MLIR Bytecode Format"; `BytecodeReader.cpp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from hloscope.mlir import (
    NO_ATTRIBUTES,
    NONE,
    UNKNOWN,
    Attribute,
    Block,
    BytecodeModule,
    BytecodeOperation,
    Operation,
    Region,
    SourceModule,
    Value,
)
from hloscope.stablehlo.bytecode.entries import Entries
from hloscope.stablehlo.bytecode.image import (
    IR,
    SECTIONS,
    Image,
    producer_noted,
    read_image,
    resource_text,
    section_header,
)
from hloscope.stablehlo.bytecode.properties import Properties

MOST_REGIONS: Final = 500
"""Maximum nesting depth of regions, as in the text parser."""

ATTRIBUTES, RESULTS, OPERANDS, SUCCESSORS, REGIONS, USES, HAS_PROPERTIES = (
    1 << i for i in range(7)
)
_HEAD: Final = ATTRIBUTES | RESULTS | HAS_PROPERTIES
_HEADS: Final = tuple((mask & _HEAD).bit_count() for mask in range(128))
"""Number of integers between an op's location and its result types, indexed by the op's mask."""


class Bytecode(Struct):
    """A module that was read from bytecode, with the tables of the file.

    Attributes:
        module: The module.
        image: The file's tables.
        orders: Use-list order of values, as encoded: whether the numbers are pairs, and the
            numbers.
        by_trait: Are only ops with the trait `IsolatedFromAbove` isolated, as in old files?
    """

    module: Operation
    image: Image
    orders: dict[Value, tuple[bool, tuple[int, ...]]] = field(default_factory=dict)
    by_trait: bool = False


def read_bytecode(data: bytes, name: str = "<bytes>") -> Bytecode:
    """Read a file of MLIR bytecode.

    Args:
        data: Bytes of the file.
        name: Name of the file in messages.

    Raises:
        BytecodeError: The file is damaged; the message names the byte and the section.
        UnsupportedError: It has an unsupported attribute, type or op.

    Errors about a file of a later version name its producer and the newest known version.
    """
    with producer_noted(data):
        image = read_image(data, name)
        return _Reader(image).read()


class _Frame:
    """State while the ops of a region are read, with the op that the region belongs to.

    Attributes:
        op: The parts of the op before its regions: name, operands, results, properties, attributes,
            location.
        regions: The op's regions that are read.
        left: Number of regions to read.
        isolated: Is the op isolated from above?
        ends: Offset of the end of the op's own section, or -1.
        base: Number of the first value of this region.
        count: Number of values of this region.
        next: Number of the next value that is defined.
        blocks: Blocks that are read.
        blocks_left: Number of blocks to read.
        ahead: Successor blocks that are not read yet, by number.
        arguments: Arguments of the current block.
        operations: Operations of the current block.
        ops_left: Number of ops to read in the current block.
        outer: Values of the enclosing region, if the op is isolated.
    """

    __slots__ = (
        *(
            "ahead",
            "arguments",
            "base",
            "blocks",
            "blocks_left",
            "count",
            "ends",
            "isolated",
            "left",
        ),
        *("next", "op", "operations", "ops_left", "outer", "regions"),
    )

    def __init__(self, op: tuple[Any, ...], left: int, isolated: bool) -> None:
        self.op, self.left, self.isolated = op, left, isolated
        self.regions: list[Region] = []
        self.ends = -1
        self.base = self.count = self.next = 0
        self.blocks: list[Block] = []
        self.blocks_left = self.ops_left = 0
        self.ahead: dict[int, Block] = {}
        self.arguments: tuple[Value, ...] = ()
        self.operations: list[Operation] = []
        self.outer: list[Value | None] | None = None


class _Reader:
    """Reads the operations of a bytecode file, given its tables."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.entries = Entries(image)
        self.properties = Properties(image, self.entries)
        self.cursor = image.cursor(IR)
        self.entries.set_cursor(self.cursor)
        self.values: list[Value | None] = []
        self.frames: list[_Frame] = []
        self.orders: dict[Value, tuple[bool, tuple[int, ...]]] = {}
        self.by_trait = False
        self.top: list[Operation] = []

    def read(self) -> Bytecode:
        cursor = self.cursor
        number = cursor.varint()
        if number != 2:
            cursor.fail(f"{number >> 1} operations at the top where one is needed")
        self._op(self.top)
        frames = self.frames
        # The op at the top of the stack is unfinished. `_op` pushes an op with regions, and
        # `_next_block` finishes a block, then a region, then the op, so the loop ends after the
        # module.
        while frames:
            frame = frames[-1]
            if frame.ops_left:
                frame.ops_left -= 1
                self._op(frame.operations)
            else:
                self._next_block(frame)
        cursor.finish()
        (module,) = self.top
        if isinstance(module, SourceModule):
            module.resources = resource_text(self.image.data, self.image.resources)
        return Bytecode(module, self.image, self.orders, self.by_trait)

    # --------------------------------------------------------------------------------- an op

    def _op(self, into: list[Operation]) -> None:
        cursor, entries = self.cursor, self.entries
        at = cursor.at
        number = cursor.varint()
        ops = self.image.ops
        if number >= len(ops):
            cursor.fail(f"op name {number:,} of {len(ops):,}", at)
        name, registered = ops[number]
        mask = cursor.byte()
        if mask & 0x80:
            cursor.fail("an op has more parts than are known", at)
        # Location, attributes, properties and number of results are read in one go.
        first, *head = cursor.varints(1 + _HEADS[mask & _HEAD])
        location = entries.location(first)
        properties, attributes = self._attributes(mask, head, name, registered)
        results: tuple[Value, ...] = ()
        if mask & RESULTS:
            count = head[-1]
            if count > cursor.end - cursor.at:
                cursor.fail(f"{count:,} results where {cursor.end - cursor.at:,} bytes are left")
            results = self._define(entries.types(cursor.varints(count)))
        operands: tuple[Value, ...] = ()
        if mask & OPERANDS:
            operands = self._operands()
        successors = self._successors() if mask & SUCCESSORS else ()
        if mask & USES:
            self._uses(results)
        if not mask & REGIONS:
            parts = name, operands, results, properties, attributes, location, successors
            into.append(_made(parts, ()))
            return
        count = cursor.varint()
        isolated, left = bool(count & 1), count >> 1
        if left > cursor.end - cursor.at:
            cursor.fail(f"{left:,} regions where {cursor.end - cursor.at:,} bytes are left")
        # Functions are isolated by definition in newer artifacts, so one that is not shows a writer
        # that only used the trait.
        if name == "vhlo.func_v1" and not isolated:
            self.by_trait = True
        parts = name, operands, results, properties, attributes, location, successors
        frame = _Frame(parts, left, isolated)
        self._enter(frame)

    def _attributes(
        self, mask: int, numbers: list[int], name: str, registered: bool
    ) -> tuple[Mapping[str, Attribute], Mapping[str, Attribute]]:
        """Return the properties and discardable attributes of an op.

        Args:
            mask: Bits that say which of the two the op has.
            numbers: Numbers of the op's dictionary and properties in the file, as far as it has
                them.
            name: Name of the op.
            registered: Does the file have the op as registered?
        """
        cursor = self.cursor
        attributes: Mapping[str, Attribute] = NO_ATTRIBUTES
        if mask & ATTRIBUTES:
            dictionary = self.entries.attribute(numbers[0])
            attributes = self.properties.dictionary(dictionary, cursor.at, cursor)
        if mask & HAS_PROPERTIES:
            number = numbers[1 if mask & ATTRIBUTES else 0]
            return self.properties.read(number, name, registered, cursor), attributes
        # Before version 5 inherent attributes are in the dictionary.
        if self.image.version < 5 and attributes:
            return self.properties.divided(name, attributes)
        return NO_ATTRIBUTES, attributes

    def _define(self, types: list[Any]) -> tuple[Value, ...]:
        """Create the next values that the region defines, with these types, and return them.

        A value that was used before its definition is returned in place of a new one.
        """
        if not self.frames:
            return tuple([Value(type, None, index) for index, type in enumerate(types)])
        frame = self.frames[-1]
        first = frame.next
        frame.next = last = first + len(types)
        if last > frame.base + frame.count:
            self.cursor.fail(f"a region defines more than the {frame.count:,} values it has")
        values = self.values
        # An op that was read before may use a value before its definition. That value exists
        # already, without a type, and gets its type here.
        made = []
        for index, type in enumerate(types):
            value = values[first + index]
            if value is None:
                value = values[first + index] = Value(type, None, index)
            else:
                value.type, value.index = type, index
            made.append(value)
        return tuple(made)

    def _operands(self) -> tuple[Value, ...]:
        cursor, values = self.cursor, self.values
        most = len(values)
        found = []
        for number in cursor.varints(cursor.count()):
            if number >= most:
                cursor.fail(f"value {number:,} of {most:,}")
            value = values[number]
            if value is None:
                value = values[number] = Value(NONE)
            found.append(value)
        return tuple(found)

    def _successors(self) -> tuple[Block, ...]:
        """Read the successors of an op, which are blocks of the current region.

        A later one is created.
        """
        cursor = self.cursor
        at, count = cursor.at, cursor.count()
        if not self.frames:
            cursor.fail("the module goes to other blocks", at)
        frame = self.frames[-1]
        return tuple([self._block(frame, cursor.varint()) for _ in range(count)])

    def _block(self, frame: _Frame, number: int) -> Block:
        """Return the block of this number in the region that `frame` reads.

        One that is not read yet is created.
        """
        blocks = len(frame.blocks) + 1 + frame.blocks_left
        if number >= blocks:
            self.cursor.fail(f"block {number:,} of {blocks:,}")
        if number < len(frame.blocks):
            return frame.blocks[number]
        found = frame.ahead.get(number)
        if found is None:
            found = frame.ahead[number] = Block()
        return found

    def _uses(self, values: tuple[Value, ...]) -> None:
        """Read the use-list orders of results or arguments `values`, and store them as encoded."""
        cursor = self.cursor
        # With one value the numbers of entries and values are implied, and not in the file.
        entries = cursor.count(2) if len(values) != 1 else 1
        for _ in range(entries):
            index = cursor.varint() if len(values) != 1 else 0
            if index >= len(values):
                cursor.fail(f"the order of uses of value {index:,} of {len(values):,}")
            count = cursor.varint()
            if count >> 1 > cursor.end - cursor.at:
                cursor.fail(f"an order of {count >> 1:,} uses is too long")
            numbers = tuple([cursor.varint() for _ in range(count >> 1)])
            self.orders[values[index]] = bool(count & 1), numbers

    # ------------------------------------------------------------------------------- regions

    def _enter(self, frame: _Frame) -> None:
        cursor = self.cursor
        if len(self.frames) >= MOST_REGIONS:
            cursor.fail(f"regions are nested deeper than {MOST_REGIONS}")
        if frame.isolated:
            frame.outer, self.values = self.values, []
            if self.image.version >= 2:
                at = cursor.at
                number, size = section_header(cursor)
                if number != IR:
                    cursor.fail(
                        f"section {SECTIONS[number]} where the regions of an op should be", at
                    )
                if size > cursor.end - cursor.at:
                    cursor.fail(f"a section of {size:,} bytes is too long", at)
                frame.ends = cursor.at + size
        self.frames.append(frame)
        self._next_region(frame)

    def _next_region(self, frame: _Frame) -> None:
        """Begin to read the next region of the frame's op; after the last one, create the op."""
        if not frame.left:
            self._leave(frame)
            return
        frame.left -= 1
        cursor = self.cursor
        frame.blocks, frame.operations = [], []
        frame.blocks_left = cursor.count()
        # Values of a region follow those of the enclosing one, unless the op is isolated: then its
        # own numbering starts at 0.
        outer = self.frames[-2] if len(self.frames) > 1 and not frame.isolated else None
        frame.base = frame.next = outer.base + outer.count if outer else 0
        frame.count = cursor.count() if frame.blocks_left else 0
        # Sibling regions reuse the same numbers, so values of the previous one are removed.
        del self.values[frame.base :]
        self.values += [None] * frame.count
        self._next_block(frame)

    def _next_block(self, frame: _Frame) -> None:
        """Begin to read the next block of the region of `frame`; after the last, end the region."""
        if frame.operations or frame.arguments or frame.blocks_left < 0:
            self._end_block(frame)
        if frame.blocks_left <= 0:
            # Every number of the region must have been defined: a value that was only used has no
            # type.
            if frame.next != frame.base + frame.count:
                self.cursor.fail(f"a region defines fewer than the {frame.count:,} values it has")
            frame.regions.append(Region(tuple(frame.blocks)))
            frame.blocks_left = 0
            self._next_region(frame)
            return
        cursor = self.cursor
        number = cursor.varint()
        if number >> 1 > cursor.end - cursor.at:
            cursor.fail(
                f"{number >> 1:,} operations where {cursor.end - cursor.at:,} bytes are left"
            )
        frame.ops_left = number >> 1
        frame.arguments = self._arguments() if number & 1 else ()
        frame.blocks_left -= 1
        # An empty block has nothing to read, so it is finished here.
        if not frame.ops_left and not frame.arguments:
            frame.blocks.append(frame.ahead.pop(len(frame.blocks), Block()))

    def _end_block(self, frame: _Frame) -> None:
        block = frame.ahead.pop(len(frame.blocks), None) if frame.ahead else None
        if block is None:
            block = Block(frame.arguments, tuple(frame.operations))
        else:
            block.arguments, block.operations = frame.arguments, tuple(frame.operations)
            for op in block.operations:
                op.parent = block
        for argument in frame.arguments:
            argument.owner = block
        frame.blocks.append(block)
        frame.arguments, frame.operations = (), []

    def _arguments(self) -> tuple[Value, ...]:
        cursor, entries, version = self.cursor, self.entries, self.image.version
        types, locations = [], []
        for _ in range(cursor.count()):
            number = cursor.varint()
            parsed_location = True
            if version >= 4:
                number, parsed_location = number >> 1, bool(number & 1)
            types.append(entries.type(number))
            locations.append(entries.location(cursor.varint()) if parsed_location else UNKNOWN)
        values = self._define(types)
        for value, location in zip(values, locations, strict=True):
            value.location = location
        if version >= 3 and cursor.byte():
            self._uses(values)
        return values

    def _leave(self, frame: _Frame) -> None:
        """Create the op of a frame whose regions have all been read.

        Continue with the outer region.
        """
        cursor = self.cursor
        if frame.ends >= 0 and cursor.at != frame.ends:
            cursor.fail("the section of an op's regions does not end with them")
        self.frames.pop()
        if frame.outer is not None:
            self.values = frame.outer
        elif self.frames:
            outer = self.frames[-1]
            del self.values[outer.base + outer.count :]
        into = self.frames[-1].operations if self.frames else self.top
        into.append(_made(frame.op, tuple(frame.regions)))


def _made(parts: tuple[Any, ...], regions: tuple[Region, ...]) -> Operation:
    name, operands, results, properties, attributes, location, successors = parts
    kind = BytecodeModule if name == "builtin.module" else BytecodeOperation
    op = kind(
        name, operands, results, properties, attributes, regions, successors, location=location
    )
    if isinstance(op, BytecodeModule):
        op.resources = ""
    for result in results:
        result.owner = op
    return op
