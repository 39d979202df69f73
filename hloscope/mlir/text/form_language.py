"""Language of pretty forms: the text of an op with placeholders.

A form such as ` %operand, dims = <dims broadcast_dimensions><attrs> : <function>` is the text after
the op's name. It is printed with its spaces; parsing ignores the spaces. The placeholders:

    %name           one operand
    %name*          any number of operands, with commas between them
    %name*,         any number of operands, with a comma after each
    <word …>        a directive: an attribute or types (`directives`)
    (?…?)           present only if its attribute is set; begins with punctuation or a word

A form describes both parsing and printing.

Source of the forms: those of `StablehloOps.td` and the other dialects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from hloscope.ir import Type
from hloscope.mlir.ir import (
    Attribute,
    DenseArrayAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    Operation,
    StructAttr,
)
from hloscope.mlir.text.asm import AsmPrinter, Form, OpAsmParser, State, UnfitError, Use
from hloscope.support.lazy import pattern


class FormState(Struct):
    """What has been read of one op while its pretty form is parsed.

    Attributes:
        parser: Parser at the current token.
        state: Parts of the op that have been read.
        uses: Operands that have been read.
        types: Types of operands that have been read.
    """

    parser: OpAsmParser
    state: State
    uses: list[Use] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)


def resolve(
    parser: OpAsmParser, state: State, uses: Sequence[Use], types: Sequence[Type], at: int
) -> None:
    """Add to `state` the operands that `uses` name; they must have these types.

    `at` is the position of the form, for messages.
    """
    if len(uses) != len(types):
        parser.fail(
            "number of operands and types do not match: "
            f"got {len(uses)} operands and {len(types)} types",
            uses[0].at if uses else at,
        )
    for use, type in zip(uses, types, strict=True):
        parser.resolve(use, type, state)


ReadPart: TypeAlias = Callable[[FormState], None]
WritePart: TypeAlias = Callable[[AsmPrinter, Operation], None]


class Need(Struct, frozen=True):
    """An attribute that a form writes, with the values that the form can express.

    Attributes:
        name: Name of the attribute.
        kind: Class of the attribute.
        of: The type of numbers, or the mnemonic of an enum or structure; `None` for any.
        optional: Whether the attribute may be missing.
    """

    name: str
    kind: type
    of: Type | str | None = None
    optional: bool = False

    def accepts(self, found: Attribute | None) -> bool:
        """Can the form express the attribute value `found`?

        `None` stands for a missing attribute.
        """
        if not isinstance(found, self.kind):
            return found is None and self.optional
        if self.of is None:
            return True
        match found:
            case DenseArrayAttr(of, _) | IntegerAttr(_, of) | FloatAttr(_, of):
                return of is self.of or of == self.of
            case EnumAttr("stablehlo", of, _) | StructAttr("stablehlo", of, _):
                return of == self.of
            case _:
                return False


class Part(Struct, frozen=True):
    """One piece of a form: a text, an operand, an attribute or types.

    Attributes:
        read: Function that reads the piece.
        write: Function that writes the piece.
        needs: The inherent attributes that the piece writes.
        fits: Function that returns whether the piece can express the attributes or types of an op.
    """

    read: ReadPart
    write: WritePart
    needs: tuple[Need, ...] = ()
    fits: Callable[[Operation], bool] | None = None


def attribute_part(
    need: Need,
    read: Callable[[OpAsmParser], Attribute | None],
    write: Callable[[AsmPrinter, Any], None],
    fits: Callable[[Any], bool] = lambda value: True,
) -> Part:
    """Return the part of a form for one attribute; a missing attribute has no text.

    Args:
        need: Name of the attribute, and the values that the form can express.
        read: Function that reads the value; `None` if it is not there.
        write: Function that writes the value.
        fits: Function that tells whether `write` can express the value.
    """
    name = need.name

    def read_part(reading: FormState) -> None:
        value = read(reading.parser)
        if value is not None:
            reading.state.properties[name] = value

    def write_part(printer: AsmPrinter, op: Operation) -> None:
        if (value := op.properties.get(name)) is not None:
            write(printer, value)

    def fits_part(op: Operation) -> bool:
        value = op.properties.get(name)
        return value is None or fits(value)

    return Part(read_part, write_part, (need,), fits_part)


class Context(Struct):
    """Facts about the whole form of an op that directives need.

    Attributes:
        defaults: Default values, which `<attrs>` omits.
        operands: Number of operands that are written singly; they precede any list.
        variadic: Whether a list of operands follows the single ones.
        inputs: Number of operand types written one by one.
        outputs: Number of results with a type of their own in the form.
        results: Whether one piece of the form has the types of all results.
        named: Names of the attributes that have a piece of their own.
    """

    defaults: Mapping[str, Attribute] = field(default_factory=dict)
    operands: int = 0
    variadic: bool = False
    inputs: int = 0
    outputs: int = 0
    results: bool = False
    named: tuple[str, ...] = ()


Directive: TypeAlias = Callable[[Context, list[str]], Part]

_PLACE: Final = pattern(r"%\w+(?:\*,?)?|<[a-z][^<>]*>|\(\?|\?\)")
_TOKEN: Final = pattern(r"[A-Za-z_]\w*|->|[^\s\w]")


def compile_form(row: str, directives: Mapping[str, Directive], context: Context) -> Form:
    """Compile the text of a form to the functions that read and write it.

    Args:
        row: The text.
        directives: The functions for its placeholders `<word …>`, by the word.
        context: Facts about the whole form.
    """
    parts = _parts(_pieces(row), directives, context)
    reads = tuple(part.read for part in parts)
    writes = tuple(part.write for part in parts)
    needs = tuple(need for part in parts for need in part.needs)
    fits = tuple(part.fits for part in parts if part.fits is not None)
    least, exact = context.operands, not context.variadic
    results = None if context.results else context.outputs

    def read(parser: OpAsmParser, state: State) -> None:
        reading = FormState(parser, state)
        at = parser.at
        for step in reads:
            step(reading)
        resolve(parser, state, reading.uses, reading.types, at)

    def write(printer: AsmPrinter, op: Operation) -> None:
        count = len(op.operands)
        if (
            count < least
            or (exact and count != least)
            or (results is not None and len(op.results) != results)
        ):
            raise UnfitError(f"{op.name} has {count} operands and {len(op.results)} results")
        if needs:
            check(op, needs)
        if fits and not all(fit(op) for fit in fits):
            raise UnfitError(f"{op.name} is such that only the generic form can say it")
        for step in writes:
            step(printer, op)

    return Form(read, write)


def check(op: Operation, needs: tuple[Need, ...]) -> None:
    """Raise an `UnfitError` if an op lacks an attribute, or the form cannot write it.

    `needs` are the attributes that the form writes.
    """
    properties = op.properties
    for need in needs:
        if not need.accepts(properties.get(need.name)):
            raise UnfitError(f"{op.name} has no {need.name} of the kind its form writes")


def _pieces(row: str) -> list[str]:
    """Split the text of a form into texts and placeholders; empty texts are omitted.

    >>> _pieces(" %a, dim = <i64 dim>")
    [' ', '%a', ', dim = ', '<i64 dim>']
    """
    pieces, end = [], 0
    for place in _PLACE.finditer(row):
        pieces += [row[end : place.start()], place[0]]
        end = place.end()
    return [piece for piece in [*pieces, row[end:]] if piece]


def _parts(pieces: list[str], directives: Mapping[str, Directive], context: Context) -> list[Part]:
    """Return the parts of a form, given its pieces: texts and placeholders.

    Args:
        pieces: The pieces in order.
        directives: The functions for placeholders `<word …>`, by the word.
        context: Facts about the whole form, which are collected here.
    """
    parts: list[Part] = []
    position, attrs = 0, -1
    while position < len(pieces):
        piece = pieces[position]
        position += 1
        if piece == "(?":
            end = pieces.index("?)", position)
            part = _optional(pieces[position:end], directives, context)
            context.named += tuple(need.name for need in part.needs)
            parts.append(part)
            position = end + 1
        elif piece == "<attrs>":
            attrs = len(parts)
        elif piece[0] == "%":
            parts.append(_operands(piece, context))
        elif _PLACE.fullmatch(piece):
            word, *arguments = piece[1:-1].split()
            part = directives[word](context, arguments)
            context.named += tuple(need.name for need in part.needs)
            parts.append(part)
        else:
            parts.append(literal(piece))
    if attrs >= 0:  # it omits the attributes that other pieces have
        parts.insert(attrs, dictionary(context))
    return parts


def literal(text: str) -> Part:
    """Return the part of a pretty form that reads and writes `text`."""
    tokens = _TOKEN.findall(text)
    return Part(
        lambda reading: reading.parser.tokens(*tokens), lambda printer, op: printer.write(text)
    )


def dictionary(context: Context) -> Part:
    """Return the part of a pretty form for `<attrs>`: a dictionary of the other attributes.

    These are the attributes that no other part writes. Attributes with default values are omitted.
    """
    named, defaults = context.named, context.defaults
    known = frozenset(named)

    def read(reading: FormState) -> None:
        reading.parser.dictionary(reading.state)

    def write(printer: AsmPrinter, op: Operation) -> None:
        properties = op.properties
        if op.attributes or not known.issuperset(properties):
            hidden = [name for name, value in defaults.items() if properties.get(name) == value]
            printer.dictionary(op, (*named, *hidden))

    return Part(read, write)


def _operands(piece: str, context: Context) -> Part:
    index = context.operands

    def read_one(reading: FormState) -> None:
        reading.uses.append(reading.parser.use())

    def read_all(reading: FormState) -> None:
        reading.uses += reading.parser.uses()

    def read_each(reading: FormState) -> None:
        parser = reading.parser
        while (use := parser.try_use()) is not None:
            reading.uses.append(use)
            parser.token(",")

    def write_all(printer: AsmPrinter, op: Operation) -> None:
        printer.values(op.operands[index:])
        printer.write("," if piece.endswith(",") else "")

    if piece.endswith(("*", ",")):
        context.variadic = True
        return Part(read_each if piece.endswith(",") else read_all, write_all)
    context.operands += 1
    return Part(read_one, lambda printer, op: printer.write(op.operands[index]))


def _optional(pieces: list[str], directives: Mapping[str, Directive], context: Context) -> Part:
    """Return the form part for a group `(?…?)`, given its pieces: the first is a text.

    It is written if its first attribute is present with a value other than the default.

    Args:
        pieces: Texts and placeholders of the group.
        directives: The functions for placeholders, by the word.
        context: Facts about the whole form.
    """
    text, parts = pieces[0], _parts(pieces[1:], directives, context)
    first, *tokens = _TOKEN.findall(text)
    after = literal(" ".join(tokens))
    needs = tuple(replace(need, optional=True) for part in parts for need in part.needs)
    name = needs[0].name
    default = context.defaults.get(name)

    def read(reading: FormState) -> None:
        parser = reading.parser
        there = parser.try_keyword(first) if first[0].isalpha() else parser.try_token(first)
        if there:
            after.read(reading)
            for part in parts:
                part.read(reading)

    def write(printer: AsmPrinter, op: Operation) -> None:
        value = op.properties.get(name)
        if value is not None and value != default:
            printer.write(text)
            for part in parts:
                part.write(printer, op)

    def fits(op: Operation) -> bool:
        there = op.properties.get(name) is not None
        return not there or all(part.fits is None or part.fits(op) for part in parts)

    return Part(read, write, needs, fits)
