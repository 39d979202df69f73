"""Numbering of dialects, ops, attributes and types for writing.

An entry that is used more often has a smaller number, so that numbers are short. Ties are in the
order of MLIR's traversal: readers do not need that order, but equal bytes do.

Source: MLIR's `IRNumbering.cpp`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from hloscope.errors import UnsupportedError
from hloscope.mlir import (
    ArrayAttr,
    Attribute,
    DenseAttr,
    DictAttr,
    LazyLoc,
    Operation,
    Region,
    StructAttr,
    Value,
    VerbatimAttr,
    elements,
    resolve_location,
)
from hloscope.mlir.dialects import DEFINITIONS, DIALECTS, sdy_struct
from hloscope.stablehlo.bytecode.encodings import (
    ChosenEncoding,
    VhloDictionary,
    choose_encoding,
    in_dictionary,
)
from hloscope.stablehlo.bytecode.fields import KINDS, varint
from hloscope.stablehlo.bytecode.properties import (
    GROUPS,
    NATIVE,
    OPERANDS,
    Inherent,
    inherent,
    registered,
    sizes_of,
)
from hloscope.stablehlo.vhlo import CAST, has_vhlo_type, is_vhlo_op

_GROUPS: Final = (1 << 7, 1 << 14, 1 << 21, 1 << 28)
"""Limits of numbers whose encodings have 1, 2, 3 and 4 bytes.

The limits themselves are excluded.
"""
_ALL: Final = Inherent("", False)
"""The inherent attribute of an unregistered op: all its attributes as one dictionary."""


_RESOURCE: Final = ("resource",)


class Numbered:
    """An attribute, type or op name of a file, with its number of uses and its number.

    `value` is the attribute, type or name, `dialect` the number of its dialect, `chosen` its
    encoding (`None` for an op name).
    """

    __slots__ = ("chosen", "code", "dialect", "number", "uses", "value")

    def __init__(self, value: Any, dialect: int, chosen: ChosenEncoding | None) -> None:
        self.value, self.dialect, self.chosen = value, dialect, chosen
        self.uses, self.number, self.code = 1, 0, b""


class Tables:
    """The dialects, op names, attributes and types of a module, in the order of their first use.

    After `sort`, they are in the order of the file.
    """

    def __init__(self) -> None:
        self.dialects: dict[str, int] = {}
        self.ops: dict[str, Numbered] = {}
        self.attributes: list[Numbered] = []
        self.types: list[Numbered] = []
        self.resources: dict[str, int] = {}
        # By `id`, since to hash a long value is slow, then by value. Index: `2 * vhlo + is_type`.
        self._known: tuple[dict[int, Numbered], ...] = ({}, {}, {}, {})
        self._equal: tuple[dict[Any, Numbered], ...] = ({}, {}, {}, {})
        # The values themselves, so that no `id` is reused while the tables are in use.
        self._alive: list[Any] = []
        # Entries of the properties that ops share, so that each is counted without a look-up by
        # value.
        self._lists: dict[tuple[str, int], list[Numbered]] = {}

    def dialect(self, name: str) -> int:
        """Return the number of the dialect `name`; a new dialect gets the next number."""
        return self.dialects.setdefault(name, len(self.dialects))

    def use_op(self, name: str) -> None:
        """Count a use of an op name; a new one is added."""
        found = self.ops.get(name)
        if found is not None:
            found.uses += 1
            return
        dialect, _, _ = name.partition(".")
        self.ops[name] = Numbered(name, self.dialect(dialect), None)

    def use(self, value: Any, is_type: bool, vhlo: bool) -> None:
        """Count a use of an attribute, type or location.

        A new one is added, with those it contains.

        Args:
            value: The attribute, type or location.
            is_type: Is the value a type?
            vhlo: Does it belong to an op of VHLO?
        """
        found = self._known[2 * vhlo + is_type].get(id(value))
        if found is not None:
            found.uses += 1
            return
        new = self._enter(value, is_type, vhlo)
        if new is None:
            return
        # Parts are numbered depth first, each after the value that contains it, as MLIR does; a
        # known part only counts, since its own parts were counted when it was new.
        stack = [self._parts(new)]
        while stack:
            for part, of_type, flavour in stack[-1]:
                inner = self._known[2 * flavour + of_type].get(id(part))
                if inner is not None:
                    inner.uses += 1
                    continue
                entered = self._enter(part, of_type, flavour)
                if entered is not None:
                    stack.append(self._parts(entered))
                    break
            else:
                stack.pop()

    def _enter(self, value: Any, is_type: bool, vhlo: bool) -> Numbered | None:
        """Add a value and return its entry.

        If an equal one exists, count a use of it and return `None`.

        Args:
            value: The attribute, type or location.
            is_type: Is the value a type?
            vhlo: Does it belong to an op of VHLO?
        """
        which = 2 * vhlo + is_type
        self._alive.append(value)
        plain = value if is_type else canonical(value)
        found = self._equal[which].get(plain)
        if found is not None:
            found.uses += 1
            self._known[which][id(value)] = found
            return None
        chosen = choose_encoding(plain, vhlo=vhlo)
        if vhlo and chosen.dialect != "vhlo":
            # VHLO has no row for it, so it is the same entry as outside of VHLO.
            self.use(plain, is_type, False)
            self._known[which][id(value)] = self._known[which - 2][id(plain)]
            self._equal[which][plain] = self._known[which - 2][id(plain)]
            return None
        if chosen.row.value == _RESOURCE:
            self.resources.setdefault(chosen.fields[1], len(self.resources))
        new = Numbered(plain, self.dialect(chosen.dialect), chosen)
        self._known[which][id(value)] = self._equal[which][plain] = new
        (self.types if is_type else self.attributes).append(new)
        return new

    def _parts(self, new: Numbered) -> Iterator[tuple[Any, bool, bool]]:
        chosen = new.chosen
        assert chosen is not None
        if isinstance(new.value, VhloDictionary):
            for key, part in chosen.fields[0]:
                yield key, False, False
                yield part, False, True
            return
        vhlo = chosen.dialect == "vhlo"
        for (_, kind), field in zip(chosen.row.fields, chosen.fields, strict=False):
            for part, is_type in KINDS[kind].parts(field):
                yield part, is_type, vhlo

    def found(self, value: Any, is_type: bool, vhlo: bool) -> Numbered:
        """Return the entry of a value; it, or an equal value, was added before.

        Args:
            value: The attribute, type or location.
            is_type: Is the value a type?
            vhlo: Does it belong to an op of VHLO?
        """
        which = 2 * vhlo + is_type
        found = self._known[which].get(id(value))
        if found is None:
            found = self._equal[which][value if is_type else canonical(value)]
        return found

    def number(self, value: Any, is_type: bool, vhlo: bool) -> int:
        """Return the number of a value; it, or an equal value, was added before.

        Args:
            value: The attribute, type or location.
            is_type: Is the value a type?
            vhlo: Does it belong to an op of VHLO?
        """
        return self.found(value, is_type, vhlo).number

    def use_all(self, key: tuple[str, int], values: Iterable[Attribute], vhlo: bool) -> None:
        """Count a use of each attribute in a list.

        Args:
            key: Identifies the list: calls with one key must have equal lists, and only the first
                list is examined.
            values: The attributes.
            vhlo: Do they belong to an op of VHLO?
        """
        known = self._lists.get(key)
        if known is not None:
            for item in known:
                item.uses += 1
            return
        values = list(values)
        for value in values:
            self.use(value, False, vhlo)
        self._lists[key] = [self.found(value, False, vhlo) for value in values]

    def sort(self) -> None:
        """Number all entries: those that are used more often get smaller numbers."""
        self.attributes = _sorted(self.attributes)
        self.types = _sorted(self.types)
        self.ops = {op.value: op for op in _sorted(list(self.ops.values()))}


def _sorted(items: list[Numbered]) -> list[Numbered]:
    # MLIR sorts by use, splits the result where encodings become longer, and groups each part by
    # dialect. The dialect that ended one part begins the next: it needs no new group header.
    items = sorted(items, key=lambda item: -item.uses)
    found: list[Numbered] = []
    first, start, before = 0, 0, 0
    for size in _GROUPS:
        group = items[start : start + size - before]
        if not group:
            break
        start += len(group)
        before = size
        group.sort(key=lambda item: -1 if item.dialect == first else item.dialect)
        found += group
        first = group[-1].dialect
    for number, item in enumerate(found):
        item.number, item.code = number, varint(number)
    return found


def canonical(value: Any) -> Any:
    """Return an attribute with its literals as bytes, so that equal attributes compare equal."""
    kind = type(value)
    if kind is DenseAttr:
        if type(value.literal) is str:
            try:
                return DenseAttr(elements(value).raw, value.type)
            except Exception:
                return value
        return value
    if kind is ArrayAttr:
        parts = tuple([canonical(part) for part in value.elements])
        same = all(a is b for a, b in zip(parts, value.elements, strict=True))
        return value if same else ArrayAttr(parts)
    if kind is DictAttr:
        entries = tuple([(name, canonical(part)) for name, part in value.entries])
        same = all(a[1] is b[1] for a, b in zip(entries, value.entries, strict=True))
        return value if same else DictAttr(entries)
    if kind is VhloDictionary:
        return VhloDictionary(tuple([(name, canonical(part)) for name, part in value.entries]))
    if kind is StructAttr and value.name in ("mesh", "replica_group_mesh_axes"):
        fields = tuple([(name, canonical(part)) for name, part in value.fields])
        return StructAttr(value.dialect, value.name, fields)
    if kind is VerbatimAttr and value.text.startswith("#sdy"):
        return sdy_struct(value.text)
    if kind is LazyLoc:
        return resolve_location(value)
    return value


Properties: TypeAlias = Sequence[tuple[Inherent, Attribute | None]]


class OpAttributes:
    """Splits the attributes of ops as a bytecode version does.

    From version 5 on, inherent attributes are properties, and the others a dictionary. Before, all
    are one dictionary.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        # By `id` of the op: numbering and writing both ask for its dictionary.
        self._dictionaries: dict[int, DictAttr | VhloDictionary] = {}
        # By op name and `id` of the properties. The entry holds them, so the `id` is not reused.
        self._known: dict[tuple[str, int], tuple[Any, Properties]] = {}

    def discardable(self, op: Operation) -> DictAttr | VhloDictionary | None:
        """Return the dictionary of an op's discardable attributes; before version 5, of all."""
        if self.version >= 5:
            attributes: Mapping[str, Attribute] = op.attributes
        elif op.attributes:
            attributes = {**op.properties, **op.attributes}
        else:
            attributes = op.properties
        if self.version < 5 and op.name in DIALECTS.defaults:
            attributes = {**DIALECTS.defaults[op.name], **attributes}
        if not attributes:
            return None
        found = self._dictionaries.get(id(op))
        if found is None:
            # Sorted by name. Names are unique, so values are never compared.
            found = in_dictionary(tuple(sorted(attributes.items())), vhlo=is_vhlo_op(op))
            self._dictionaries[id(op)] = found
        return found

    def properties(self, op: Operation) -> Properties:
        """Return the properties of an op, in the order in which they are written."""
        if self.version < 5:
            return ()
        key = op.name, id(op.properties)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = op.properties, self._in_order(op)
        return known[1]

    def _in_order(self, op: Operation) -> Properties:
        properties = op.properties
        if not registered(op.name):
            # The attributes of an unregistered op are one dictionary.
            everything = DictAttr(tuple(sorted(properties.items())))
            return [(_ALL, everything)] if properties else ()
        slots = inherent(op.name, self.version >= NATIVE)
        defaults = DIALECTS.defaults.get(op.name)
        if defaults:
            properties = {**defaults, **properties}
        if slots is None:
            return [(Inherent(name, False), value) for name, value in properties.items()]
        return [(slot, properties.get(slot.name)) for slot in slots]


class VhloValues:
    """Decides which values have VHLO types: results of VHLO ops, and arguments in their regions.

    A cast between VHLO and another dialect has a VHLO type on one side only.
    """

    def __init__(self) -> None:
        self._casts: dict[Operation, bool] = {}

    def of(self, value: Value) -> bool:
        """Does a value have a VHLO type?"""
        # A cast may precede the cast of its operand: in another block, or in a graph region. So
        # operands are followed back to a value that no cast defines, or to a known cast.
        casts: list[Operation] = []
        while True:
            op = value.owner
            if not isinstance(op, Operation) or op.name != CAST:
                vhlo = has_vhlo_type(value)
                break
            if op in self._casts or not op.operands:
                vhlo = self._casts.get(op, False)
                break
            self._casts[op] = False  # ends the loop if casts define each other
            casts.append(op)
            value = op.operands[0]
        for op in reversed(casts):
            # A cast's results are in VHLO exactly if its operand is not.
            vhlo = self._casts[op] = not vhlo
        return vhlo

    def results(self, op: Operation) -> bool:
        """Do the results of an op have VHLO types?"""
        return self.of(op.results[0]) if op.results else is_vhlo_op(op)


def number_module(
    module: Operation, version: int, vhlo_values: VhloValues
) -> tuple[Tables, OpAttributes]:
    """Return the tables of a module, and how its attributes are split, for a bytecode version.

    `vhlo_values` decides which values have VHLO types.
    """
    tables, attributes = Tables(), OpAttributes(version)
    _number_op(module, tables, attributes, vhlo_values)
    # MLIR numbers the ops of a region before the regions nested in them; the last region on the
    # stack is the next.
    stack: list[tuple[Region, bool]] = [(region, is_vhlo_op(module)) for region in module.regions]
    while stack:
        region, vhlo = stack.pop()
        for block in region.blocks:
            for argument in block.arguments:
                tables.use(resolve_location(argument.location), False, False)
                tables.use(argument.type, True, vhlo)
            for op in block.operations:
                _number_op(op, tables, attributes, vhlo_values)
                if op.regions:
                    is_inner_vhlo = is_vhlo_op(op)
                    stack += [(inner, is_inner_vhlo) for inner in op.regions]
    tables.sort()
    return tables, attributes


def _check(op: Operation) -> None:
    """Check that an op can be written.

    Raises:
        UnsupportedError: Its properties are unknown, or its group sizes do not match its
            operands or results.
    """
    dialect = op.name.partition(".")[0]
    if dialect in DIALECTS.named and op.name not in DEFINITIONS:
        raise UnsupportedError(f"{op.name} cannot be written: its properties are not known")
    for name, groups in GROUPS.get(op.name, ()):
        try:
            sizes = sizes_of(op.properties.get(name), groups)
        except ValueError as error:
            raise UnsupportedError(f"{op.name}: `{name}`: {error}") from None
        if sum(sizes) != len(op.operands if name == OPERANDS else op.results):
            raise UnsupportedError(f"{op.name}: `{name}` does not sum up to what it has")


def _number_op(
    op: Operation, tables: Tables, attributes: OpAttributes, vhlo_values: VhloValues
) -> None:
    """Add the entries of one op to the tables, without those of its regions.

    Args:
        op: The op.
        tables: The tables.
        attributes: Splits the op's attributes.
        vhlo_values: Decides which results have VHLO types.
    """
    if not is_vhlo_op(op):
        _check(op)
    tables.use_op(op.name)
    if op.results:
        vhlo = vhlo_values.results(op)
        for result in op.results:
            tables.use(result.type, True, vhlo)
    dictionary = attributes.discardable(op)
    if dictionary is not None:
        tables.use(dictionary, False, False)
    properties = attributes.properties(op)
    if properties:
        values = [value for _, value in properties if value is not None]
        tables.use_all((op.name, id(op.properties)), values, is_vhlo_op(op))
    tables.use(resolve_location(op.location), False, False)
