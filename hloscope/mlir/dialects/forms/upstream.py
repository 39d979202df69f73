"""Directives for other dialects: flags and predicates of `arith`, shapes, shardings.

Source: MLIR's definitions of `arith` and `shape`; Shardy's `SdyOps` and printers.
"""

from __future__ import annotations

from typing import Final

from hloscope.ir import TensorType
from hloscope.mlir import (
    I32,
    I64,
    INDEX,
    ArrayAttr,
    AsmParser,
    AsmPrinter,
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
)
from hloscope.mlir.dialects.attributes import DYNAMIC
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
_CLOSED: Final = {"{": "}", "[": "]"}


def flags(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<flags overflow overflowFlags>`, flags of `arith`.

    Its text is ` overflow<nsw>`; none for the flags `none`.

    `arguments` are the words after `flags`.
    """
    word, name = arguments
    prefix, none = f"#arith.{word}", VerbatimAttr(f"#arith.{word}<none>")

    def read(reading: FormState) -> None:
        parser = reading.parser
        found = none
        if parser.try_keyword(word):
            found = VerbatimAttr(f"{prefix}<{_read_flags(parser, word)}>")
        reading.state.properties[name] = found

    def write(printer: AsmPrinter, op: Operation) -> None:
        found = op.properties.get(name)
        if isinstance(found, VerbatimAttr) and found != none:
            printer.write(f" {found.text.removeprefix('#arith.')}")

    def fits(op: Operation) -> bool:
        found = op.properties.get(name)
        if not isinstance(found, VerbatimAttr):
            return True
        inside = found.text.removeprefix(f"{prefix}<").removesuffix(">")
        return set(inside.split(", ")) <= set(_FLAGS[word][1])

    return Part(read, write, (Need(name, VerbatimAttr, optional=True),), fits)


def _read_flags(parser: AsmParser, kind: str) -> str:
    """Read flags of `arith`, `<nsw, nuw>`; return their names in the order of the enum.

    `kind` is the name of the enum, such as `overflow`.
    """
    parser.token("<")
    type, words = _FLAGS[kind]
    found = set()
    while True:
        at = parser.at
        word = parser.keyword()
        if word not in words:
            parser.fail(f"expected ::mlir::arith::{type} to be one of: {', '.join(words)}", at)
        found.add(word)
        if not parser.try_token(","):
            break
    parser.token(">")
    # The order of the enum gives equal flags equal texts.
    return ", ".join(word for word in words if word in found)


def unit(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<unit name>`, which has no text.

    The words before it mean that the unit attribute is present.

    `arguments` are the words after `unit`.
    """
    (name,) = arguments

    def read(reading: FormState) -> None:
        reading.state.properties[name] = UnitAttr()

    def write(printer: AsmPrinter, op: Operation) -> None:
        pass

    return Part(read, write, (Need(name, UnitAttr),))


def numbered(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<numbered integer predicate>`, an enum value's name.

    The attribute is the number of that value.

    `arguments` are the words after `numbered`.
    """
    kind, name = arguments
    cpp, type, words = _NUMBERED[kind]

    def read(reading: FormState) -> None:
        parser = reading.parser
        at = parser.at
        word = parser.keyword()
        if word not in words:
            parser.fail(f"expected ::mlir::{cpp} to be one of: {', '.join(words)}", at)
        reading.state.properties[name] = IntegerAttr(words.index(word), type)

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.write(words[op.properties[name].value])  # type: ignore[union-attr,index]

    def fits(op: Operation) -> bool:
        return 0 <= op.properties[name].value < len(words)  # type: ignore[union-attr,operator]

    return Part(read, write, (Need(name, IntegerAttr, of=type),), fits)


def unless_first(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<unless_first reduction name>`, an enum value's name.

    The first value of the enum is not written, so the word may be missing when it is read.

    `arguments` are the words after `unless_first`.
    """
    kind, name = arguments
    cpp, type, words = _NUMBERED[kind]

    def read(reading: FormState) -> None:
        parser = reading.parser
        if not parser.peek()[:1].isalpha():
            return
        at = parser.at
        word = parser.keyword()
        if word not in words:
            parser.fail(f"expected ::mlir::{cpp} to be one of: {', '.join(words)}", at)
        if word != words[0]:
            reading.state.properties[name] = IntegerAttr(words.index(word), type)

    def write(printer: AsmPrinter, op: Operation) -> None:
        found = op.properties.get(name)
        if isinstance(found, IntegerAttr) and found.value:
            printer.write(words[found.value] + " ")

    def fits(op: Operation) -> bool:
        found = op.properties.get(name)
        return not isinstance(found, IntegerAttr) or 0 <= found.value < len(words)

    return Part(read, write, (Need(name, IntegerAttr, of=type, optional=True),), fits)


def shape(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<shape name>`, an attribute of sizes.

    Its text is `[2, 3]` for `dense<[2, 3]> : tensor<2xindex>`.

    `arguments` are the words after `shape`.
    """
    (name,) = arguments

    def read(reading: FormState) -> None:
        dims = read_dims(reading.parser)
        text = dims_text(dims) if dims else ""
        reading.state.properties[name] = DenseAttr(text, TensorType(INDEX, (len(dims),)))

    def write(printer: AsmPrinter, op: Operation) -> None:
        found = op.properties[name]
        assert isinstance(found, DenseAttr)
        printer.write(dims_text(small_integers(found) or ()))

    def fits(op: Operation) -> bool:
        match op.properties[name]:
            case DenseAttr(_, TensorType(element, (_,))) as found:
                return element == INDEX and small_integers(found) is not None
            case _:
                return False

    return Part(read, write, (Need(name, DenseAttr),), fits)


def array(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<array name>`: `[…]`, an array of any attributes.

    `arguments` are the words after `array`.
    """
    (name,) = arguments

    def read(reading: FormState) -> None:
        at = reading.parser.at
        found = reading.parser.attribute()
        if not isinstance(found, ArrayAttr):
            reading.parser.fail("invalid kind of attribute specified", at)
        reading.state.properties[name] = found

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.attribute(op.properties[name])

    return Part(read, write, (Need(name, ArrayAttr),))


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
        values: list[int] = []
        parser.token("[")
        while not (not values and parser.try_token("]")):
            use = parser.try_use()
            if use is not None:
                reading.uses.append(use)
            values.append(parser.integer() if use is None else DYNAMIC)
            if not parser.try_token(","):
                parser.token("]")
                break
        reading.state.properties[name] = i64_array(values)

    def write(printer: AsmPrinter, op: Operation) -> None:
        operands = iter(op.operands[first:])
        for position, number in enumerate(op.properties[name].values):  # type: ignore[union-attr]
            printer.write(", " if position else "[")
            if number == DYNAMIC:
                printer.value(next(operands))
            else:
                printer.write(str(number))
        printer.write("]" if op.properties[name].values else "[]")  # type: ignore[union-attr]

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

    def read(reading: FormState) -> None:
        parser = reading.parser
        if kind == "sdy.mesh" and parser.peek().startswith("#"):
            at = parser.at
            found = parser.attribute()
            if not isinstance(found, VerbatimAttr) or not found.text.startswith(prefix + "<"):
                parser.fail("invalid kind of attribute specified", at)
        else:
            found = VerbatimAttr(prefix + read_bracketed(parser, "<"))
        reading.state.properties[name] = found

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.write(op.properties[name].text.removeprefix(prefix))  # type: ignore[union-attr]

    def fits(op: Operation) -> bool:
        return op.properties[name].text.startswith(prefix + "<")  # type: ignore[union-attr]

    return Part(read, write, (Need(name, VerbatimAttr),), fits)


def inside(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<inside axis_ref_list name>`: a list in brackets.

    Its text is `{…}` or `[…]` for the attribute `#sdy<axis_ref_list{…}>`.

    `arguments` are the words after `inside`.
    """
    kind, name = arguments
    prefix = f"#sdy<{kind}"
    brackets = "{" if kind == "axis_ref_list" else "["

    def read(reading: FormState) -> None:
        text = read_bracketed(reading.parser, brackets)
        reading.state.properties[name] = VerbatimAttr(f"{prefix}{text}>")

    def write(printer: AsmPrinter, op: Operation) -> None:
        text = op.properties[name].text.removeprefix(prefix)  # type: ignore[union-attr]
        printer.write(text.removesuffix(">"))

    def fits(op: Operation) -> bool:
        text = op.properties[name].text  # type: ignore[union-attr]
        return text.startswith(prefix + brackets) and text.endswith(_CLOSED[brackets] + ">")

    return Part(read, write, (Need(name, VerbatimAttr),), fits)


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
