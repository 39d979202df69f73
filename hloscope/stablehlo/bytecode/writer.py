"""Writing of MLIR bytecode, with the same bytes that MLIR writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from hloscope.errors import UnsupportedError
from hloscope.mlir import (
    UNKNOWN,
    Block,
    Operation,
    Region,
    SourceModule,
    Value,
    resolve_location,
    resources_of,
)
from hloscope.mlir.dialects import is_isolated
from hloscope.stablehlo.bytecode.encodings import VhloDictionary
from hloscope.stablehlo.bytecode.fields import KINDS, varint
from hloscope.stablehlo.bytecode.image import (
    DIALECTS,
    ENTRIES,
    IR,
    MAGIC,
    OFFSETS,
    PROPERTIES,
    RESOURCE_OFFSETS,
    RESOURCES,
    STRINGS,
    padded,
    write_resources,
)
from hloscope.stablehlo.bytecode.numbering import (
    Numbered,
    OpAttributes,
    Tables,
    VhloValues,
    number_module,
)
from hloscope.stablehlo.bytecode.properties import (
    APPENDED,
    GROUPS,
    NATIVE,
    packed,
    registered,
    sizes_of,
)
from hloscope.stablehlo.vhlo import is_vhlo_op

# --------------------------------------------------------------------------------------------------
# Writing of MLIR bytecode, with the same bytes that MLIR writes.
#
# Source: MLIR's `BytecodeWriter.cpp`.


Orders = Mapping[Value, tuple[bool, tuple[int, ...]]]
"""Use-list order by value: whether the numbers are index pairs, and the numbers."""

_NO_ORDERS: Final[Orders] = {}


def write_bytecode(
    module: Operation,
    *,
    producer: str,
    version: int,
    orders: Orders = _NO_ORDERS,
    by_trait: bool = False,
) -> bytes:
    """Write a module as a file of MLIR bytecode.

    Args:
        module: The module.
        producer: Name of the producer.
        version: The version of bytecode, 0 to 6.
        orders: Use-list orders of values, where they differ from program order.
        by_trait: Mark only ops with the trait `IsolatedFromAbove` as isolated.

    Raises:
        UnsupportedError: An attribute, type or op has no form in bytecode.
    """
    vhlo_values = VhloValues()
    tables, attributes = number_module(module, version, vhlo_values)
    return _Writer(module, version, tables, attributes, vhlo_values, orders, by_trait).file(
        producer
    )


def _section(number: int, data: bytes | bytearray) -> bytes:
    return bytes([number]) + varint(len(data)) + data


def _aligned(number: int, data: bytes, at: int, alignment: int) -> bytes:
    """Return a section with its header and padding; its data is aligned to `alignment` bytes.

    `number` is that of the section, `at` the offset of its header in the file.
    """
    head = bytes([number]) + varint(len(data))
    if not (at + len(head)) % alignment:
        return head + data
    head = bytes([number | 0x80]) + head[1:]
    return head + b"".join(padded(at + len(head), alignment)) + data


class _Strings:
    """The strings of a file, numbered in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}

    def number(self, value: bytes) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def of(self, text: str) -> int:
        return self.number(text.encode("utf-8", "surrogateescape"))

    def section(self) -> bytes:
        sizes = b"".join([varint(len(value) + 1) for value in reversed(self.numbers)])
        strings = b"".join([value + b"\0" for value in self.numbers])
        return _section(STRINGS, varint(len(self.numbers)) + sizes + strings)


class _Numbers:
    """The numbers of entries in fields.

    VHLO's entries are used if the value belongs to an op of VHLO.
    """

    def __init__(self, tables: Tables, strings: _Strings, vhlo: bool) -> None:
        self._tables, self._vhlo = tables, vhlo
        self.string = strings.number
        self.resource = tables.resources.__getitem__

    def attribute(self, value: Any) -> int:
        return self._tables.number(value, False, self._vhlo)

    def type(self, value: Any) -> int:
        return self._tables.number(value, True, self._vhlo)


class _Writer:
    """Writes the sections of a bytecode file, given the numbers of its entries."""

    def __init__(
        self,
        module: Operation,
        version: int,
        tables: Tables,
        attributes: OpAttributes,
        vhlo_values: VhloValues,
        orders: Orders,
        by_trait: bool,
    ) -> None:
        self.module, self.version, self.tables = module, version, tables
        self.attributes, self.vhlo_values, self.orders = attributes, vhlo_values, orders
        self.isolated = isolated_ops(module, by_trait=by_trait)
        self.strings = _Strings()
        self.properties: dict[bytes, int] = {}
        # By op name and `id` of the properties, which the module holds.
        self.known: dict[tuple[str, int], bytes] = {}
        self.values: dict[Value, bytes] = {}
        self.blocks: dict[Block, int] = {}

    def file(self, producer: str) -> bytes:
        # Strings are numbered when they are first written, so the order of these calls decides the
        # bytes; the string section itself comes last.
        dialects = self._dialects()
        offsets, entries = self._entries()
        ir = self._ir()
        resources, data, alignment = self._resources()
        parts = [
            MAGIC + varint(self.version) + producer.encode("utf-8", "surrogateescape") + b"\0",
            _section(DIALECTS, dialects),
            _section(OFFSETS, offsets),
            _section(ENTRIES, entries),
            _section(IR, ir),
            _section(RESOURCE_OFFSETS, resources),
        ]
        parts.append(_aligned(RESOURCES, data, sum(map(len, parts)), alignment))
        parts.append(self.strings.section())
        if self.version >= 5:
            found = [varint(len(self.properties))]
            found += [varint(len(data)) + data for data in self.properties]
            parts.append(_section(PROPERTIES, b"".join(found)))
        return b"".join(parts)

    # ------------------------------------------------------------------------------- tables

    def _dialects(self) -> bytes:
        strings, version = self.strings, self.version
        out = [varint(len(self.tables.dialects))]
        for name in self.tables.dialects:
            number = strings.of(name)
            out.append(varint(number << 1 if version >= 1 else number))
        if version >= 4:
            out.append(varint(len(self.tables.ops)))
        for dialect, group in groupby(self.tables.ops.values(), lambda op: op.dialect):
            ops = list(group)
            out.append(varint(dialect) + varint(len(ops)))
            for op in ops:
                number = strings.of(op.value.partition(".")[2])
                known = registered(op.value)
                out.append(varint(number << 1 | known if version >= 5 else number))
        return b"".join(out)

    def _entries(self) -> tuple[bytes, bytes]:
        tables = self.tables
        offsets = [varint(len(tables.attributes)) + varint(len(tables.types))]
        entries = []
        numbers = {flag: _Numbers(tables, self.strings, flag) for flag in (False, True)}
        for items in (tables.attributes, tables.types):
            for dialect, group in groupby(items, lambda item: item.dialect):
                texts = [self._entry(item, numbers) for item in group]
                offsets.append(varint(dialect) + varint(len(texts)))
                offsets += [varint(len(text) << 1 | coded) for text, coded in texts]
                entries += [text for text, _ in texts]
        return b"".join(offsets), b"".join(entries)

    def _entry(self, item: Numbered, numbers: Mapping[bool, _Numbers]) -> tuple[bytes, bool]:
        chosen = item.chosen
        assert chosen is not None
        if chosen.row.code < 0:
            return chosen.fields[0].encode("utf-8", "surrogateescape") + b"\0", False
        out = [varint(chosen.row.code)]
        if isinstance(item.value, VhloDictionary):
            pairs = chosen.fields[0]
            out.append(varint(len(pairs)))
            for key, value in pairs:
                out.append(varint(numbers[False].attribute(key)))
                out.append(varint(numbers[True].attribute(value)))
        else:
            of = numbers[chosen.dialect == "vhlo"]
            for (_, kind), value in zip(chosen.row.fields, chosen.fields, strict=False):
                out.append(KINDS[kind].write(value, of))
        return b"".join(out), True

    def _resources(self) -> tuple[bytes, bytes, int]:
        names = self.tables.resources
        if not names:
            return write_resources(0, (), {})
        module = self.module
        values = resources_of(module.resources) if isinstance(module, SourceModule) else {}
        number_module = [(self.strings.of(name), name) for name in names]
        return write_resources(self.tables.dialect("builtin"), number_module, values)

    # ----------------------------------------------------------------------------------- IR

    def _ir(self) -> bytes:
        """Return the encoded ops of the module.

        Nested regions are written with an explicit stack.
        """
        out = bytearray(varint(2))
        self._op(self.module, out)
        stack: list[tuple[Operation, bytearray, Any]] = []
        if self.module.regions:
            stack.append(self._regions(self.module, out, 0))
        # Each stack entry is an op whose regions are being written into a buffer. The generator
        # yields an op with regions, which are written next, before it resumes. A buffer of its own
        # is needed where a section precedes the regions with their size.
        while stack:
            op, buffer, steps = stack[-1]
            for inner, base in steps:
                stack.append(self._regions(inner, buffer, base))
                break
            else:
                stack.pop()
                if op in self.isolated and self.version >= 2:
                    target = stack[-1][1] if stack else out
                    target += _section(IR, buffer)
        return bytes(out)

    def _regions(
        self, op: Operation, out: bytearray, base: int
    ) -> tuple[Operation, bytearray, Any]:
        """Return an entry of the stack of `_ir`: an op, and the steps that write its regions.

        The steps append to `out`. `base` is the number of the first value in the regions.
        """
        isolated = op in self.isolated
        out += varint(len(op.regions) << 1 | isolated)
        buffer = bytearray() if isolated and self.version >= 2 else out
        return op, buffer, self._steps(op, buffer, 0 if isolated else base)

    def _steps(self, op: Operation, out: bytearray, base: int) -> Iterable[tuple[Operation, int]]:
        """Write the regions of an op to `out`.

        Yield each op in them that has regions, to be written next.

        With each op comes the number of the first value in its regions. `base` is that number for
        `op`.
        """
        values = self.values
        vhlo = is_vhlo_op(op)
        for region in op.regions:
            out += varint(len(region.blocks))
            if not region.blocks:
                continue
            # All values of a region are numbered before its ops are written: an op may read one
            # that is defined later.
            number = _number_values(region, base, values)
            for at, block in enumerate(region.blocks):
                self.blocks[block] = at
            out += varint(number - base)
            for block in region.blocks:
                self._block(block, out, vhlo)
                for inner in block.operations:
                    self._op(inner, out)
                    if inner.regions:
                        yield inner, number

    def _block(self, block: Block, out: bytearray, vhlo: bool) -> None:
        arguments = block.arguments
        out += varint(len(block.operations) << 1 | bool(arguments))
        if not arguments:
            return
        tables, version = self.tables, self.version
        out += varint(len(arguments))
        for argument in arguments:
            number = tables.number(argument.type, True, vhlo)
            location = resolve_location(argument.location)
            where = varint(tables.number(location, False, False))
            if version < 4:
                out += varint(number) + where
            elif location == UNKNOWN:
                out += varint(number << 1)
            else:
                out += varint(number << 1 | 1) + where
        if version >= 3:
            uses = self._uses(arguments)
            out += b"\x20" + uses if uses else b"\0"

    def _op(self, op: Operation, out: bytearray) -> None:
        tables = self.tables
        vhlo = is_vhlo_op(op)
        out += tables.ops[op.name].code
        # The mask comes before the parts that it describes, so its byte is filled in at the end.
        at = len(out)
        out.append(0)
        mask = 0
        out += tables.found(resolve_location(op.location), False, False).code
        dictionary = self.attributes.discardable(op)
        if dictionary is not None:
            mask |= 0x01
            out += tables.found(dictionary, False, False).code
        properties = self.attributes.properties(op)
        if properties or (op.name in GROUPS and self.version >= NATIVE):
            mask |= 0x40
            out += self._properties(op, properties)
        if op.results:
            mask |= 0x02
            typed = vhlo or self.vhlo_values.results(op)
            out += varint(len(op.results))
            for result in op.results:
                out += tables.found(result.type, True, typed).code
        if op.operands:
            mask |= 0x04
            out += varint(len(op.operands))
            out += self._operands(op)
        if op.successors:
            mask |= 0x08
            out += self._successors(op)
        if self.orders and op.results and self.version >= 3:
            uses = self._uses(op.results)
            if uses:
                mask |= 0x20
                out += uses
        if op.regions:
            mask |= 0x10
        out[at] = mask

    def _operands(self, op: Operation) -> bytes:
        """Return the encoded operands of an op: their numbers.

        Raises:
            UnsupportedError: An operand is not visible in the op's region.
        """
        values = self.values
        try:
            return b"".join([values[operand] for operand in op.operands])
        except KeyError:
            reason = "takes a value of a region it is not in"
            raise UnsupportedError(f"{op.name} {reason}; `hloscope verify` says where") from None

    def _successors(self, op: Operation) -> bytes:
        """Return the encoded successors of an op: the numbers of blocks.

        Raises:
            UnsupportedError: A block is in another region.
        """
        region = None if op.parent is None else op.parent.parent
        if any(block.parent is not region or block not in self.blocks for block in op.successors):
            raise UnsupportedError(f"{op.name} goes to a block of another region")
        numbers = [varint(self.blocks[block]) for block in op.successors]
        return varint(len(numbers)) + b"".join(numbers)

    def _properties(self, op: Operation, properties: Any) -> bytes:
        """Return the encoded number of an op's properties.

        Ops that share one mapping share the number.
        """
        key = op.name, id(op.properties)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = varint(self._properties_number(op, properties))
        return known

    def _properties_number(self, op: Operation, properties: Any) -> int:
        out, vhlo = [], is_vhlo_op(op)
        for slot, value in properties:
            if value is None and slot.name in APPENDED:
                continue
            if value is None:
                out.append(b"\1")
            else:
                number = self.tables.number(value, False, vhlo)
                out.append(varint(number << 1 | 1 if slot.optional else number))
        if not vhlo and self.version >= NATIVE:
            for name, groups in GROUPS.get(op.name, ()):
                out.append(packed(sizes_of(op.properties.get(name), groups)))
        return self.properties.setdefault(b"".join(out), len(self.properties))

    def _uses(self, values: tuple[Value, ...]) -> bytes:
        """Return the encoded use-list orders of results or arguments `values`.

        Empty if all are in program order.
        """
        orders = self.orders
        found = [(index, orders[value]) for index, value in enumerate(values) if value in orders]
        if not found:
            return b""
        out = [varint(len(found))] if len(values) != 1 else []
        for index, (pairs, numbers) in found:
            if len(values) != 1:
                out.append(varint(index))
            out.append(varint(len(numbers) << 1 | pairs))
            out += map(varint, numbers)
        return b"".join(out)


def _number_values(region: Region, number: int, values: dict[Value, bytes]) -> int:
    """Number the values of a region from `number` on; return the next free number.

    The encoded numbers are added to `values`.
    """
    for block in region.blocks:
        for argument in block.arguments:
            values[argument] = varint(number)
            number += 1
        for op in block.operations:
            for result in op.results:
                values[result] = varint(number)
                number += 1
    return number


# --------------------------------------------------------------------------------------------------
# Ops that read no value defined outside of them; their values are numbered separately.


def isolated_ops(module: Operation, *, by_trait: bool = False) -> set[Operation]:
    """Return the ops with regions whose contents read no value from outside.

    Args:
        module: The outermost op.
        by_trait: Return only ops whose definition has the trait `IsolatedFromAbove`.
    """
    found: set[Operation] = set()
    depth_of: dict[Value, int] = {}
    # A stack entry is an op with the ops of its regions that are left. `lowest` has, for each
    # entry, the least depth at which a value is defined that its regions read.
    stack: list[tuple[Operation, Iterator[Operation]]] = [(module, _inside(module, depth_of, 1))]
    lowest = [1]
    while stack:
        op, rest = stack[-1]
        for inner in rest:
            for operand in inner.operands:
                depth = depth_of.get(operand, 0)
                if depth < lowest[-1]:
                    lowest[-1] = depth
            if inner.regions:
                stack.append((inner, _inside(inner, depth_of, len(stack) + 1)))
                lowest.append(len(stack))
                break
        else:
            stack.pop()
            low = lowest.pop()
            if lowest and low < lowest[-1]:
                lowest[-1] = low
            # `stack` now has the ops around `op`, so values of its own regions are at depth
            # `len(stack) + 1` or more: it is isolated if nothing shallower is read.
            if is_isolated(op.name) or (not by_trait and low > len(stack)):
                found.add(op)
    return found


def _inside(op: Operation, depth_of: dict[Value, int], depth: int) -> Iterator[Operation]:
    """Yield the ops in the regions of an op.

    The depths of all arguments and results are added to `depth_of` first, since an op may read a
    value that is defined later. `depth` is the nesting depth of the op's regions.
    """
    for block in op.blocks:
        for argument in block.arguments:
            depth_of[argument] = depth
        for inner in block.operations:
            for result in inner.results:
                depth_of[result] = depth
    for block in op.blocks:
        yield from block.operations
