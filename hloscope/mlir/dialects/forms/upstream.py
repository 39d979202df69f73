"""Directives for other dialects: flags and predicates of `arith`, shapes, shardings.

Source: MLIR's definitions of `arith` and `shape`; Shardy's `SdyOps` and printers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.ir import TensorType
from hloscope.mlir import (
    I32,
    I64,
    INDEX,
    ArrayAttr,
    AsmParser,
    AsmPrinter,
    Attribute,
    Context,
    DenseArrayAttr,
    DenseAttr,
    Directive,
    FormState,
    IntegerAttr,
    Need,
    Operation,
    Part,
    UnitAttr,
    VerbatimAttr,
    attribute_part,
)
from hloscope.mlir.dialects.attributes import DYNAMIC
from hloscope.mlir.dialects.attributes.structs import attribute_of
from hloscope.mlir.dialects.forms.directives import dims_text, i64_array, read_dims, small_integers

_NUMBERED: Final = {
    "integer": ("arith::CmpIPredicate", I64, "eq ne slt sle sgt sge ult ule ugt uge".split()),
    "float": (
        "arith::CmpFPredicate",
        I64,
        "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split(),
    ),
    "direction": ("sdy::PropagationDirection", I32, "NONE FORWARD BACKWARD BOTH".split()),
    "reduction": ("sdy::ReductionOp", I32, "sum max min".split()),
}
"""Enums that are stored as integers: name in messages, integer type, names of the values."""

_FLAGS: Final = {
    "overflow": ("IntegerOverflowFlags", "none nsw nuw".split()),
    "fastmath": ("FastMathFlags", "none reassoc nnan ninf nsz arcp contract afn fast".split()),
}


def flags(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<flags overflow overflowFlags>`, flags of `arith`.

    Its text is ` overflow<nsw>`; none for the flags `none`.

    `arguments` are the words after `flags`.
    """
    word, name = arguments
    cpp, words = _FLAGS[word]
    prefix, none = f"#arith.{word}", VerbatimAttr(f"#arith.{word}<none>")

    def read(parser: AsmParser) -> Attribute:
        if not parser.try_keyword(word):
            return none
        parser.token("<")
        found = parser.items(lambda: _read_word(parser, f"arith::{cpp}", words))
        parser.token(">")
        # The order of the enum gives equal flags equal texts.
        return VerbatimAttr(f"{prefix}<{', '.join(word for word in words if word in found)}>")

    def write(printer: AsmPrinter, found: VerbatimAttr) -> None:
        if found != none:
            printer.write(f" {found.text.removeprefix('#arith.')}")

    def fits(found: VerbatimAttr) -> bool:
        inside = found.text.removeprefix(f"{prefix}<").removesuffix(">")
        return set(inside.split(", ")) <= set(words)

    return attribute_part(Need(name, VerbatimAttr, optional=True), read, write, fits)


def _read_word(parser: AsmParser, cpp: str, words: Sequence[str]) -> str:
    """Read the name of a value of an enum whose values are `words`; `cpp` is its name in C++."""
    at = parser.at
    word = parser.keyword()
    if word not in words:
        parser.fail(f"expected ::mlir::{cpp} to be one of: {', '.join(words)}", at)
    return word


def unit(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<unit name>`, which has no text.

    The words before it mean that the unit attribute is present.

    `arguments` are the words after `unit`.
    """
    return attribute_part(
        Need(arguments[0], UnitAttr), lambda parser: UnitAttr(), lambda printer, value: None
    )


def numbered(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<numbered integer predicate>`, an enum value's name.

    The attribute is the number of that value.

    `arguments` are the words after `numbered`.
    """
    kind, name = arguments
    cpp, type, words = _NUMBERED[kind]
    return attribute_part(
        Need(name, IntegerAttr, of=type),
        lambda parser: IntegerAttr(words.index(_read_word(parser, cpp, words)), type),
        lambda printer, found: printer.write(words[found.value]),
        lambda found: 0 <= found.value < len(words),
    )


def unless_first(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<unless_first reduction name>`, an enum value's name.

    The first value of the enum is not written, so the word may be missing when it is read.

    `arguments` are the words after `unless_first`.
    """
    kind, name = arguments
    cpp, type, words = _NUMBERED[kind]

    def read(parser: AsmParser) -> Attribute | None:
        if not parser.peek()[:1].isalpha():
            return None
        number = words.index(_read_word(parser, cpp, words))
        return IntegerAttr(number, type) if number else None

    def write(printer: AsmPrinter, found: IntegerAttr) -> None:
        if found.value:
            printer.write(words[found.value] + " ")

    return attribute_part(
        Need(name, IntegerAttr, of=type, optional=True),
        read,
        write,
        lambda found: 0 <= found.value < len(words),
    )


def shape(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<shape name>`, an attribute of sizes.

    Its text is `[2, 3]` for `dense<[2, 3]> : tensor<2xindex>`.

    `arguments` are the words after `shape`.
    """

    def read(parser: AsmParser) -> Attribute:
        dims = read_dims(parser)
        return DenseAttr(dims_text(dims) if dims else "", TensorType(INDEX, (len(dims),)))

    def fits(found: DenseAttr) -> bool:
        match found.type:
            case TensorType(element, (_,)):
                return element == INDEX and small_integers(found) is not None
            case _:
                return False

    return attribute_part(
        Need(arguments[0], DenseAttr),
        read,
        lambda printer, found: printer.write(dims_text(small_integers(found) or ())),
        fits,
    )


def array(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<array name>`: `[…]`, an array of any attributes.

    `arguments` are the words after `array`.
    """
    return attribute_part(
        Need(arguments[0], ArrayAttr),
        lambda parser: attribute_of(parser, ArrayAttr),
        lambda printer, found: printer.attribute(found),
    )


def sizes(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<sizes name>`: `[2, %n]`, the numbers of an array.

    An operand stands for an unknown number.

    `arguments` are the words after `sizes`; facts in `context` are updated.
    """
    (name,) = arguments
    first = context.operands
    context.variadic = True

    def read(reading: FormState) -> None:
        parser = reading.parser

        def size() -> int:
            use = parser.try_use()
            if use is None:
                return parser.integer()
            reading.uses.append(use)
            return DYNAMIC

        parser.token("[")
        reading.state.properties[name] = i64_array(parser.items(size, "]"))

    def write(printer: AsmPrinter, op: Operation) -> None:
        operands = iter(op.operands[first:])
        printer.write("[")
        for position, number in enumerate(op.properties[name].values):  # type: ignore[union-attr]
            value = next(operands) if number == DYNAMIC else str(number)
            printer.write(", " if position else "", value)
        printer.write("]")

    def fits(op: Operation) -> bool:
        values = op.properties[name].values  # type: ignore[union-attr]
        return values.count(DYNAMIC) == len(op.operands) - first

    return Part(read, write, (Need(name, DenseArrayAttr, of=I64),), fits)


def bare(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<bare sdy.mesh name>`: an attribute without its name.

    Its text is `<…>` for the attribute `#sdy.mesh<…>`. A mesh may also be read in full, or as an
    alias; Shardy prints `<…>`.

    `arguments` are the words after `bare`.
    """
    kind, name = arguments
    prefix = f"#{kind}"

    def read(parser: AsmParser) -> Attribute:
        if kind != "sdy.mesh" or not parser.peek().startswith("#"):
            return VerbatimAttr(prefix + read_bracketed(parser, "<"))
        at = parser.at
        found = parser.attribute()
        if not isinstance(found, VerbatimAttr) or not found.text.startswith(prefix + "<"):
            parser.fail("invalid kind of attribute specified", at)
        return found

    return attribute_part(
        Need(name, VerbatimAttr),
        read,
        lambda printer, found: printer.write(found.text.removeprefix(prefix)),
        lambda found: found.text.startswith(prefix + "<"),
    )


def inside(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<inside axis_ref_list name>`: a list in brackets.

    Its text is `{…}` or `[…]` for the attribute `#sdy<axis_ref_list{…}>`.

    `arguments` are the words after `inside`.
    """
    kind, name = arguments
    prefix = f"#sdy<{kind}"
    opening, closing = "{}" if kind == "axis_ref_list" else "[]"
    return attribute_part(
        Need(name, VerbatimAttr),
        lambda parser: VerbatimAttr(f"{prefix}{read_bracketed(parser, opening)}>"),
        lambda printer, found: printer.write(found.text.removeprefix(prefix).removesuffix(">")),
        lambda found: (
            found.text.startswith(prefix + opening) and found.text.endswith(closing + ">")
        ),
    )


def read_bracketed(parser: AsmParser, opening: str) -> str:
    """Read the text in brackets that begins with the bracket `opening`; return it with brackets."""
    if parser.peek() != opening:
        parser.fail(f"expected '{opening}'")
    return parser.bracketed()


DIRECTIVES: Final[dict[str, Directive]] = {
    "flags": flags,
    "unit": unit,
    "numbered": numbered,
    "unless_first": unless_first,
    "inside": inside,
    "array": array,
    "sizes": sizes,
    "shape": shape,
    "bare": bare,
}
"""Directives for attributes of other dialects, by name."""
