"""Printer of the tree as MLIR prints it, in pretty or generic form."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from hloscope.ir import FunctionType, FutureType, TensorType, TupleType, Type
from hloscope.mlir.constants import entry, write
from hloscope.mlir.definitions import Dialects
from hloscope.mlir.ir import (
    UNPARSED_TEXT,
    Attribute,
    Block,
    DictAttr,
    Operation,
    Region,
    SourceModule,
    StringAttr,
    Value,
    VerbatimAttr,
    equality_key,
)
from hloscope.mlir.locations import UNKNOWN, FileLoc, Location, resolve_location
from hloscope.mlir.text.asm import UnfitError, Write
from hloscope.mlir.text.functions import INSIDE, WRITERS
from hloscope.mlir.text.lexer import quoted, symbol
from hloscope.mlir.text.numbering import Aliases, Names, NoAliases, mlir_names, source_names
from hloscope.mlir.types import function_text, text_with, type_text
from hloscope.support.lazy import pattern
from hloscope.support.source import Source

# --------------------------------------------------------------------------------------------------
# Printer of the tree as MLIR prints it, in pretty or generic form.
#
# Source: MLIR `AsmPrinter.cpp` (`OperationPrinter`).


Locations: TypeAlias = Literal["given"] | bool
"""Locations to print, see `print_mlir`."""

STEP: Final = "  "
"""Indentation of each level of regions."""

LONG_TUPLE: Final = 16
"""A tuple type with more elements is printed as an alias."""

_ALIASES: Final = {"affine_map<": "#map", "affine_set<": "#set"}
_ENCODINGS: Final = {"#sparse_tensor.encoding<": "#sparse"}


def print_mlir(
    operation: Operation,
    *,
    dialects: Dialects,
    generic: bool = False,
    locations: Locations = False,
    aliases: bool = True,
    names: Literal["mlir", "source"] = "mlir",
) -> str:
    """Print an op, usually a module.

    An op inside another one is printed as in its context, without a line feed at the end.

    Args:
        operation: The op, printed with its regions.
        dialects: The dialects, with pretty forms and suggested names.
        generic: Print all ops in generic form.
        locations: Print locations of ops and arguments: those of the text, else its lines.
            `given`: only those in the text or bytecode.
        aliases: Print locations and long attributes and types as aliases, `#loc1`, defined
            above or below the module.
        names: Number values as MLIR does, or use the names in the source.
    """
    root = _outermost(operation)
    if names == "source":
        chosen = source_names(root)
    else:
        chosen = mlir_names(root, dialects, generic=generic)
    printer = Printer(dialects, chosen, generic=generic, locations=locations, aliases=aliases)
    text = printer.print(operation)
    return text if operation is root else text.removesuffix("\n")


def source_printer(dialects: Dialects, most_ops: int | None = None) -> Callable[[Operation], str]:
    """Return a function that prints ops as `print_mlir` does, with the names of the source.

    Names are computed once for each tree.

    Args:
        dialects: The dialects, with pretty forms.
        most_ops: Print a region with more ops than that, nested ones included, as `{...}`. To print
            every op of deeply nested regions in full takes quadratic time.
    """
    known: dict[Operation, Names] = {}

    def text(operation: Operation) -> str:
        root = _outermost(operation)
        if root not in known:
            known[root] = source_names(root)
        printer = Printer(dialects, known[root], aliases=True, most_ops=most_ops)
        printed = printer.print(operation)
        return printed if operation is root else printed.removesuffix("\n")

    return text


def _outermost(operation: Operation) -> Operation:
    """Return the op at the root of the tree that contains `operation`."""
    while (around := operation.parent_op) is not None:
        operation = around
    return operation


def _has_more_ops(region: Region, most: int) -> bool:
    """Does a region have more than `most` ops, nested ones included? Counting stops there."""
    count, regions = 0, [region]
    while regions:
        for block in regions.pop().blocks:
            count += len(block.operations)
            if count > most:
                return True
            regions += [inner for op in block.operations for inner in op.regions]
    return False


class _Body(NamedTuple):
    """A region that is still to be printed.

    Attributes:
        region: The region.
        indent: Its indentation.
        inside: Prefix of op names that is omitted in it.
        label: Print the label of the entry block if it has arguments.
        empty_label: Print that label if the block has no operations.
        terminator: Print the last op of the entry block.
    """

    region: Region
    indent: str
    inside: str
    label: bool  # of the entry block, if it has arguments
    empty_label: bool  # of the entry block, if it has no ops
    terminator: bool


class _Ops(NamedTuple):
    """The ops of a block that are still to be printed; fields are as in `_Body`."""

    operations: Iterator[Operation]
    indent: str
    inside: str


_REPEATED: Final = "stablehlo."
"""Prefix of the names of ops for which templates are made: these are often repeated in a text."""
_PRINTED_ONCE: Final = "%s%s"
"""Entry of `Printer._lines` for an op that was printed once, before a template is made."""
_OPERAND: Final = "\ud802"
"""Character around an operand's index in `Printer._template`; files cannot contain it."""

_Part: TypeAlias = str | _Body | _Ops


class Printer:
    """Printer of ops; pretty forms use it as their `asm.AsmPrinter`.

    A region is printed after the form that contains it is done, so nesting does not use Python's
    stack.
    """

    def __init__(
        self,
        dialects: Dialects,
        names: Names,
        *,
        generic: bool = False,
        locations: Locations = False,
        aliases: bool = False,
        most_ops: int | None = None,
    ) -> None:
        self.names = names
        self._most_ops = most_ops
        self._parts: list[_Part] = []
        self._dialects = dialects
        self._generic = generic
        self._inside = {**INSIDE, **dialects.inside}
        self._locations = bool(locations)
        self._aliases = Aliases() if aliases else NoAliases()
        self._op_locations = OpLocations(dialects.behind, given_only=locations == "given")
        # Texts by `id`, looked up for each operand and attribute, which ops share; an entry holds
        # its key's object, so the `id` is not reused.
        self._types: dict[int, tuple[Type, str]] = {}
        self._attributes: dict[tuple[int, bool], tuple[Attribute, str]] = {}
        self._lines: dict[tuple[str, object], str] = {}
        """Templates of printed ops by key, see `_template`."""
        self._indent = ""
        self._default = "builtin."
        self._waiting = False  # is there a region among the parts of the op?

    def print(self, operation: Operation) -> str:
        """Return the whole text, aliases included."""
        self._run(_Ops(iter([operation]), "", "builtin."))
        text = self._aliases.finished("".join(self._parts))  # type: ignore[arg-type]
        resources = operation.resources if isinstance(operation, SourceModule) else ""
        return f"{text}\n{resources}\n" if resources else text

    def _run(self, work: _Part) -> None:
        """Print the regions or ops in `work`, and the regions nested in them."""
        done = self._parts
        stack: list[Iterator[_Part]] = [iter([work])]
        while stack:
            part = next(stack[-1], None)
            if part is None:
                stack.pop()
            elif isinstance(part, str):
                done.append(part)
            elif isinstance(part, _Body):
                stack.append(self._body(part))
            else:
                for op in part.operations:
                    start = len(done)
                    self._operation(op, part)
                    # The op printed a region: its parts go onto the stack, so that the region is
                    # expanded before the text after it, and then the rest of the block.
                    if self._waiting:
                        self._waiting = False
                        stack += [iter([part]), iter(done[start:])]
                        del done[start:]
                        break

    def _operation(self, op: Operation, where: _Ops) -> None:
        """Print one op in the block `where`: in one line, or with its regions in several."""
        self._indent = where.indent
        self._default = where.inside
        parts = self._parts
        parts.append(where.indent)
        defined = self.names.results.get(op)
        if defined is not None:
            parts.append(f"{defined} = ")
        place = self._aliases.location(self._op_locations.of_op(op)) if self._locations else ""
        writer = None if self._generic else _writer(self._dialects, op.name)
        if writer is None:
            text = None if self._generic else op.properties.get(UNPARSED_TEXT)
            if isinstance(text, StringAttr):
                parts.append(text.text.replace("\n", f"\n{where.indent}"))
            else:
                parts.append(quoted(op.name))
                self.generic(op)
        elif op.regions or op.name[: len(_REPEATED)] != _REPEATED:
            self._pretty(op, writer)
        else:
            # An op's text without operands depends on `equality_key` and on the dialect prefix
            # around it. A template is made at the second such op, since many ops occur once.
            key = (where.inside, equality_key(op))
            template = self._lines.get(key)
            if template is None:  # it may be the only one
                self._lines[key] = _PRINTED_ONCE
            elif template == _PRINTED_ONCE:
                template = self._lines[key] = self._template(op, writer)
            if template:
                parts.append(template % tuple(map(self.names.values.__getitem__, op.operands)))
            else:
                self._pretty(op, writer)
        parts.append(f" loc({place})\n" if place else "\n")

    def _template(self, op: Operation, writer: Write) -> str:
        """Return a template of ops that are equal but for operands: text with `%s` per operand.

        Empty if the form prints the operands in another order, or not each of them once. `writer`
        writes the pretty form of the op.
        """
        names, parts = self.names.values, self._parts
        kept = {value: names[value] for value in op.operands if value in names}
        if len(kept) != len(op.operands):
            return ""
        # The op is printed once with indices as operand names; these show where operands appear.
        self._parts = []
        names.update((value, f"{_OPERAND}{i}{_OPERAND}") for i, value in enumerate(op.operands))
        try:
            self._pretty(op, writer)
            text = "".join(self._parts)  # type: ignore[arg-type]
        finally:
            names.update(kept)
            self._parts = parts
        between = text.split(_OPERAND)
        if between[1::2] != [str(i) for i in range(len(op.operands))] or "\n" in text:
            return ""
        return "%s".join(part.replace("%", "%%") for part in between[::2])

    def _pretty(self, op: Operation, writer: Write) -> None:
        parts = self._parts
        start = len(parts)
        name = op.name
        if name.startswith(self._default) and name.count(".") == 1:
            name = name[len(self._default) :]
        parts.append(name)
        try:
            writer(self, op)
        except UnfitError:
            del parts[start:]
            self._waiting = False
            parts.append(quoted(op.name))
            self.generic(op)

    def _body(self, body: _Body) -> Iterator[_Part]:
        """Yield the pieces of a region's text, from `{` to `}`; its ops are entries to print."""
        if self._most_ops is not None and _has_more_ops(body.region, self._most_ops):
            yield "{...}"  # as MLIR prints it with `-mlir-print-skip-regions`
            return
        blocks = body.region.blocks
        yield "{\n"
        comments = _predecessors(body.region) if len(blocks) > 1 else {}
        for number, block in enumerate(blocks):
            operations: Sequence[Operation] = block.operations
            label = number or (body.label and block.arguments)
            if label or (body.empty_label and not operations):
                yield self._label(block, body.indent, comments.get(block, []))
                yield "\n" if not number or block in comments else "  // no predecessors\n"
            if number == 0 and not body.terminator:
                operations = operations[:-1]
            yield _Ops(iter(operations), body.indent + STEP, body.inside)
        yield f"{body.indent}}}"

    def _label(self, block: Block, indent: str, predecessors: Sequence[Block]) -> str:
        """Return the line with a block's label and arguments, and a comment on its predecessors.

        `indent` is the text before it.
        """
        text = f"{indent}{self.names.blocks[block]}"
        if block.arguments:
            text += f"({', '.join(map(self._argument_text, block.arguments))})"
        before = ", ".join(self.names.blocks[other] for other in predecessors)
        match len(predecessors):
            case 0:
                return f"{text}:"
            case 1:
                return f"{text}:  // pred: {before}"
            case count:
                return f"{text}:  // {count} preds: {before}"

    def _argument_text(self, argument: Value, attributes: Attribute | None = None) -> str:
        text = f"{self.names.values[argument]}: {self.type_text(argument.type)}"
        if isinstance(attributes, DictAttr) and attributes.entries:
            text += f" {self.attribute_text(attributes)}"
        if self._locations:
            text += f" loc({self._aliases.location_text(self._op_locations.of_argument(argument))})"
        return text

    # What pretty forms call: see `asm.AsmPrinter`.

    def write(self, *parts: str | Value) -> None:
        """Write texts unchanged, and values as `%name`."""
        names = self.names.values
        self._parts += [part if isinstance(part, str) else names[part] for part in parts]

    def values(self, values: Sequence[Value]) -> None:
        """Write `%a, %b`."""
        names = self.names.values
        self._parts.append(", ".join([names[value] for value in values]))

    def typed(self, values: Sequence[Value]) -> None:
        """Write `%a, %b : t, u`."""
        self.values(values)
        self._parts.append(" : ")
        self.types(values)

    def argument(self, argument: Value, attributes: Attribute | None = None) -> None:
        """Write `%a: t {…}` of a region's argument, with its location if locations are printed.

        `attributes` is the dictionary that is written.
        """
        self._parts.append(self._argument_text(argument, attributes))

    def newline(self) -> None:
        """Begin a line at the current indentation."""
        self._parts.append(f"\n{self._indent}")

    def type(self, type: Type) -> None:
        """Write a type."""
        self._parts.append(self.type_text(type))

    def types(self, values: Sequence[Value]) -> None:
        """Write the types of values, separated by commas."""
        self._parts.append(", ".join([self.type_text(value.type) for value in values]))

    def function_type(self, operands: Sequence[Value], results: Sequence[Value]) -> None:
        """Write `(a, b) -> c`, with parentheses around results unless there is exactly one."""
        inputs, outputs = [x.type for x in operands], [x.type for x in results]
        self._parts.append(function_text(inputs, outputs, self.type_text))

    def attribute(self, attribute: Attribute, *, type: bool = True) -> None:
        """Write an attribute, with its `: type` unless `type` is false."""
        self._parts.append(self.attribute_text(attribute, typed=type))

    def symbol(self, name: str) -> None:
        """Write `@name`, with quotes if the name needs them."""
        self._parts.append(symbol(name))

    def string(self, value: bytes | str) -> None:
        """Write `"…"` with escapes."""
        self._parts.append(quoted(value))

    def successor(self, block: Block) -> None:
        """Write `^label`."""
        self._parts.append(self.names.blocks[block])

    def dictionary(
        self, op: Operation, leave_out: Sequence[str] = (), *, keyword: bool = False
    ) -> None:
        """Write the properties and attributes of an op as ` {…}`, except those in `leave_out`.

        If all are left out, nothing is written. With `keyword` the text is ` attributes {…}`.
        """
        if not op.properties and not op.attributes:
            return
        merged = {**op.properties, **op.attributes}
        shown = {name: merged[name] for name in merged if name not in leave_out}
        if shown:
            self._parts.append(f"{' attributes' if keyword else ''} {{{self._entries(shown)}}}")

    def generic(self, op: Operation) -> None:
        """Write the generic form after the op's name."""
        names = self.names
        parts = self._parts
        parts.append(f"({', '.join([names.values[value] for value in op.operands])})")
        if op.successors:
            parts.append(f"[{', '.join([names.blocks[block] for block in op.successors])}]")
        properties = op.properties
        if op.name in self._dialects.defaults:
            properties = {**self._dialects.defaults[op.name], **properties}
        if properties:
            parts.append(f" <{{{self._entries(properties)}}}>")
        for number, region in enumerate(op.regions):
            parts.append(", " if number else " (")
            self._region(region, label=True, empty_label=True, terminator=True)
        if op.regions:
            parts.append(")")
        if op.attributes:
            parts.append(f" {{{self._entries(op.attributes)}}}")
        parts.append(" : ")
        self.function_type(op.operands, op.results)

    def region(self, region: Region, *, arguments: bool = True, terminator: bool = True) -> None:
        """Write a region as `{…}`.

        The label of the entry block is written only if its arguments are. Without `terminator`, the
        last op of the entry block is omitted.
        """
        self._region(region, label=arguments, empty_label=False, terminator=terminator)

    def _region(self, region: Region, *, label: bool, empty_label: bool, terminator: bool) -> None:
        parent = region.parent
        inside = self._inside.get(parent.name, "") if parent is not None else ""
        inside = f"{inside}." if inside else "\n"  # no name begins with a line feed
        body = _Body(region, self._indent, inside, label, empty_label, terminator)
        self._parts.append(body)
        self._waiting = True

    def _entries(self, attributes: Mapping[str, Attribute]) -> str:
        text = self.attribute_text
        return ", ".join([entry(name, attributes[name], text) for name in sorted(attributes)])

    def attribute_text(self, attribute: Attribute, *, typed: bool = True) -> str:
        """Return an attribute as text, with placeholders for aliases.

        Without `typed`, the `: type` after the value is omitted.
        """
        known = self._attributes.get((id(attribute), typed))
        if known is not None:
            return known[1]
        text = self._by_dialect(attribute)
        if text is None:
            text = write(attribute, self.type_text, self.attribute_text, typed=typed)
        if isinstance(attribute, VerbatimAttr):
            name = _ALIASES.get(text[: text.find("<") + 1])
            if name is not None:
                text = self._aliases.placeholder(name, text)
        self._attributes[id(attribute), typed] = attribute, text
        return text

    def _by_dialect(self, attribute: Attribute) -> str | None:
        """Return the text that the attribute's dialect writes; `None` if it does not write it."""
        name = getattr(attribute, "dialect", None)
        dialect = self._dialects.named.get(name) if name is not None else None
        if dialect is None or dialect.write_attribute is None:
            return None
        outer, self._parts = self._parts, []
        try:
            written = dialect.write_attribute(self, attribute)
            return "".join(self._parts) if written else None  # type: ignore[arg-type]
        finally:
            self._parts = outer

    def type_text(self, type: Type) -> str:
        """Return a type as text, with placeholders for aliases."""
        known = self._types.get(id(type))
        if known is not None:
            return known[1]
        text = self._type_text(type)
        self._types[id(type)] = type, text
        return text

    def _type_text(self, type: Type) -> str:
        match type:
            case TensorType(encoding=encoding) if encoding:
                encoding = " ".join(encoding.split())
                name = _ENCODINGS.get(encoding[: encoding.find("<") + 1])
                if name is None:
                    return type_text(type)
                return type_text(type).removesuffix(f"{type.encoding}>") + (
                    f"{self._aliases.placeholder(name, encoding)}>"
                )
            case TupleType() | FutureType() | FunctionType():
                text = text_with(type, self.type_text)
                is_long = isinstance(type, TupleType) and len(type.elements) > LONG_TUPLE
                return self._aliases.placeholder("!tuple", text) if is_long else text
            case _:
                return type_text(type)


def _writer(dialects: Dialects, name: str) -> Write | None:
    """Return the function that writes the pretty form of op `name`; `None` if it has none.

    `dialects` are the dialects with their forms.
    """
    form = dialects.forms.get(name)
    return WRITERS.get(name) if form is None else form.write


def _predecessors(region: Region) -> dict[Block, list[Block]]:
    """Return, for each block of a region, the blocks that branch to it, one entry for each edge."""
    found: dict[Block, list[Block]] = {}
    for block in region.blocks:
        for op in block.operations[-1:]:
            for successor in op.successors:
                found.setdefault(successor, []).append(block)
    return found


# --------------------------------------------------------------------------------------------------
# Locations of ops and arguments: as given, else their position in the source.
#
# Source: MLIR `Parser.cpp` (`getEncodedSourceLocation`); columns count bytes.


_SPACE: Final = pattern(r"(?:\s|//[^\n]*)*")


class OpLocations:
    """Finds the locations of ops and arguments; it stores the line starts of their source.

    Args:
        behind: Ops whose location MLIR sets after their name, not at it.
        given_only: Do not use the source position of an op without a location.
    """

    def __init__(self, behind: frozenset[str] = frozenset(), *, given_only: bool = False) -> None:
        self._behind = behind
        self._given_only = given_only
        self._source: Source | None = None
        self._lines: list[int] = []

    def of_op(self, op: Operation) -> Location:
        """Return the location of an op: the written one, else the position of its name.

        An op that the text implies has the position of the op around it.
        """
        if op.location is not UNKNOWN or self._given_only:
            return resolve_location(op.location)
        if op.source is None:
            around = _op_around(op.parent)
            return op.location if around is None else self.of_op(around)
        if op.start == op.end:  # an implied module
            return FileLoc(op.source.name, 0, 0)
        at = op.start
        if op.name in self._behind and op.source.text[at] != '"':
            at = _next(op.source.text, op.end)
        return self._place(op.source, at)

    def of_argument(self, argument: Value) -> Location:
        """Return the location of an argument: the written one, else the position of its name.

        An argument that the text does not name has the position of the op around it.
        """
        around = None if self._given_only else _op_around(argument.owner)
        if argument.location is not UNKNOWN or around is None:
            return resolve_location(argument.location)
        if argument.at < 0:
            return self.of_op(around)
        return self._place(around.source, argument.at)  # type: ignore[arg-type]

    def _place(self, source: Source, at: int) -> FileLoc:
        if self._source is not source:
            self._source = source
            self._lines = [0, *(found.end() for found in re.finditer("\n", source.text))]
        line = bisect_right(self._lines, at)
        before = source.text[self._lines[line - 1] : at]
        return FileLoc(source.name, line, len(before.encode("utf-8", "surrogateescape")) + 1)


def _op_around(block: object) -> Operation | None:
    """Return the op that contains a block; `None` if there is none or it has no source."""
    op = block.parent_op if isinstance(block, Block) else None
    return op if op is not None and op.source is not None else None


def _next(text: str, at: int) -> int:
    """Return the offset of the first token in `text` at or after `at`."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
