"""VHLO as a dialect of the MLIR parser and printer: the syntax of its attributes and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from hloscope.errors import ParseError
from hloscope.ir import FunctionType, Type
from hloscope.mlir import (
    AsmParser,
    AsmPrinter,
    Attribute,
    DenseAttr,
    Dialect,
    Dialects,
    FloatAttr,
    Form,
    IntegerAttr,
    OpAsmParser,
    Operation,
    State,
    StringAttr,
    Suggestion,
    TypeAttr,
    UnfitError,
    VerbatimAttr,
    parse_attribute,
    parse_mlir,
    parse_type,
    type_text,
    unquoted,
)
from hloscope.mlir.dialects import DIALECTS
from hloscope.stablehlo.bytecode.attributes import ENUMS
from hloscope.stablehlo.bytecode.encodings import ENCODINGS
from hloscope.stablehlo.bytecode.types import DYNAMIC
from hloscope.stablehlo.vhlo import ATTRIBUTES, OPS, TYPES, CodeRow
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# VHLO as a dialect for the MLIR parser and printer.


_FUNCTION: Final = "vhlo.func_v1"
_STRING_HEAD: Final = "#vhlo.string_v1<"
_SIGNATURE: Final = "#vhlo.type_v1<!vhlo.func_v1<"


def _read(parser: AsmParser, head: str) -> Any:
    at = parser.mnemonic_at
    body = parser.bracketed() if parser.peek() == "<" else ""
    try:
        return parse_vhlo_value(head + body)
    except ValueError as error:
        parser.fail(str(error), at)


def _read_type(parser: AsmParser, mnemonic: str) -> Type | None:
    found = _read(parser, f"!vhlo.{mnemonic}")
    return found  # type: ignore[no-any-return]


def _read_attribute(parser: AsmParser, mnemonic: str) -> Attribute | None:
    """Parse `#vhlo.name<…>`, or `name VALUE` in `#vhlo<name VALUE>`, after the name.

    The name is `mnemonic`. A text that is neither is an error.
    """
    if parser.peek() == "<":
        return _read(parser, f"#vhlo.{mnemonic}")  # type: ignore[no-any-return]
    at = parser.mnemonic_at
    try:
        return enum_of(mnemonic, parser.keyword())  # type: ignore[no-any-return]
    except VhloSyntaxError as error:
        parser.fail(str(error), at)


def _read_function(parser: OpAsmParser, state: State) -> None:
    symbol = parser.symbol()
    state.properties["sym_name"] = StringAttr.of(symbol.root)
    arguments = parser.arguments(types=True)
    parser.tokens("->", "(")
    results = parser.items(parser.type, ")")
    type = FunctionType(tuple(argument.type for argument in arguments), tuple(results))
    state.properties["function_type"] = TypeAttr(type)
    state.regions.append(parser.region(arguments))
    parser.dictionary(state)


def _write_function(printer: AsmPrinter, op: Operation) -> None:
    """Print `@name(%arg0: t) -> (t) {…} {…}`; the op's attributes have VHLO's syntax already."""
    name, signature = op.get("sym_name"), op.get("function_type")
    if (
        not isinstance(name, VerbatimAttr)
        or not isinstance(signature, VerbatimAttr)
        or not signature.text.startswith(_SIGNATURE)
        or len(op.regions) != 1
    ):
        raise UnfitError("a function of VHLO lacks what its pretty form says")
    printer.write(" ")
    printer.symbol(unquoted(name.text[len(_STRING_HEAD) : -1]).decode("utf-8", "surrogateescape"))
    printer.write("(")
    blocks = op.regions[0].blocks
    for i, argument in enumerate(blocks[0].arguments if blocks else ()):
        printer.write(", " if i else "")
        printer.argument(argument)
    results = signature.text[len(_SIGNATURE) : -2].rpartition(" -> ")[2]
    printer.write(f") -> ({'' if results == '()' else results}) ")
    printer.region(op.regions[0], arguments=False)
    printer.dictionary(op, ("sym_name", "function_type"))


def _suggestion(names: tuple[str, ...]) -> Suggestion:
    return Suggestion(results=lambda op: names)


_VHLO: Final = Dialect(
    "vhlo",
    ops={f"vhlo.{name}": frozenset(row.attributes) for name, row in OPS.items()},
    forms={_FUNCTION: Form(_read_function, _write_function)},
    read_type=_read_type,
    read_attribute=_read_attribute,
    suggestions={
        f"vhlo.{name}": _suggestion(row.results)
        for name, row in OPS.items()
        if len(row.results) > 1
    },
)

VHLO_DIALECTS: Final = Dialects([*DIALECTS.named.values(), _VHLO])
"""All dialects, with VHLO in addition."""

_LOOK: Final = pattern(r'(?m)^\s*(?:%\S.*= )?(?:vhlo\.func_v1 |"vhlo\.\w+_v\d+"\()')


def is_vhlo_text(text: str) -> bool:
    """Does a text contain ops of VHLO, outside of comments?

    >>> is_vhlo_text('"vhlo.return_v1"() : () -> ()'), is_vhlo_text("// vhlo.func_v1")
    (True, False)
    """
    return "vhlo." in text and _LOOK.search(text) is not None


def parse_vhlo(text: str, name: str = "<string>") -> Operation:
    """Parse the text of a module in VHLO; `name` is its name in messages.

    Raises:
        ParseError: The text is not valid VHLO.
    """
    return parse_mlir(text, name, dialects=VHLO_DIALECTS)


# --------------------------------------------------------------------------------------------------
# Parsing of VHLO's attributes and types, by the rows that printing uses.


_DEEPEST: Final = 100
_NAME: Final = pattern(r"\s*([!#])vhlo\.(\w+)")
_ENUM: Final = pattern(r"\s*#vhlo<\s*(\w+)\s+(\w+)\s*>")
_SPACE: Final = pattern(r"\s*")
_INT: Final = pattern(r"\s*(-?\d{1,20})\b")
_NUMBER: Final = pattern(r"\s*(-?\d[\w.+-]*)")
_SIZES: Final = pattern(r"\s*((?:(?:\d{1,20}|\?)x)*)")
_BOUND: Final = pattern(r"\s*(-?\d{1,20}|\?)")
_TRUTH: Final = pattern(r"\s*(true|false)\b")
_STRING: Final = pattern(r'\s*("(?:[^"\\]|\\.)*")')
_SIGNS: Final = pattern(r'"(?:[^"\\]|\\.)*"|->|>=|[<\[({]|[>\])}]|,')


class VhloSyntaxError(ValueError):
    """A text is not an attribute or type in VHLO's syntax."""


def parse_vhlo_value(text: str) -> Any:
    """Parse the text of an attribute or type of VHLO or of MLIR's builtin dialect.

    Raises:
        VhloSyntaxError: The text is no such value.

    >>> parse_vhlo_value("!vhlo.tensor_v1<2x?x!vhlo.i32_v1>").sizes
    (2, None)
    """
    cursor = _Cursor(text)
    try:
        found = cursor.one()
    except ParseError as error:
        raise VhloSyntaxError(str(error).partition("\n")[0].rpartition("error: ")[2]) from None
    if cursor.at != len(text):
        raise VhloSyntaxError(f"unexpected `{text[cursor.at : cursor.at + 20]}`")
    return found


class _Cursor:
    """A position in the text of an attribute or type, and methods that read from it on."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def one(self) -> Any:
        """Read one attribute or type."""
        enum = _ENUM.match(self.text, self.at)
        if enum is not None:
            self.at = enum.end()
            return enum_of(enum[1], enum[2])
        name = _NAME.match(self.text, self.at)
        if name is None:
            return self._of_mlir()
        self.at = name.end()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise VhloSyntaxError("nesting is too deep")
        found = self._of_vhlo(name[1], name[2])
        self.depth -= 1
        return found

    def _of_vhlo(self, sign: str, name: str) -> Any:
        key = f"#{name}" if sign == "#" else name
        rows = ROWS.get(key)
        if rows is None or rows[0].value[0] == "enum":
            what = "unknown vhlo attribute" if sign == "#" else f"unknown vhlo type: {name}"
            raise VhloSyntaxError(what)
        whole, fields, skipped = None, {}, False
        # The spelling is followed piece by piece. An optional part begins with text, so that text
        # decides whether the part is present.
        for piece in FORMS.get(key, ()):
            if piece.optional and not piece.kind:
                skipped = not self._sees(piece.text)
            if piece.optional and skipped:
                continue
            if not piece.kind:
                self._text(piece.text)
            elif piece.kind in _WHOLE:
                whole = _WHOLE[piece.kind](self)
            else:
                fields[piece.text] = _READERS[piece.kind](self)
        return _made(rows, fields) if whole is None else whole

    def _text(self, text: str) -> None:
        for word in text.split():
            self.expect(word)

    def _sees(self, text: str) -> bool:
        at = self.at
        seen = all(self._word(word) for word in text.split())
        self.at = at
        return seen

    def expect(self, word: str) -> None:
        """Skip a word.

        Raises:
            VhloSyntaxError: Another word comes next.
        """
        if not self._word(word):
            raise VhloSyntaxError(f"expected `{word}`")

    def _word(self, word: str) -> bool:
        """Skip a word if it comes next, and return whether it did.

        The symbols of the word may have spaces between them.
        """
        at = self.at
        for sign in word if not word[0].isalpha() else (word,):
            at = self._blank(at)
            if not self.text.startswith(sign, at):
                return False
            at += len(sign)
        self.at = at
        return True

    def _blank(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    def matched(self, wanted: Any, what: str) -> str:
        """Read and return the text that the pattern `wanted` matches.

        `what` describes the pattern in errors.

        Raises:
            VhloSyntaxError: The pattern does not match.
        """
        found = wanted.match(self.text, self.at)
        if found is None:
            raise VhloSyntaxError(f"expected {what}")
        self.at = found.end()
        return str(found[1])

    def list(self, read: Callable[[], Any], closers: str) -> tuple[Any, ...]:
        """Read a list with commas up to one of the brackets in `closers`; `read` reads one item."""
        if self.text[self._blank(self.at) :][:1] in closers:
            return ()
        found = [read()]
        while self._word(","):
            found.append(read())
        return tuple(found)

    def types(self) -> tuple[Any, ...]:
        """Read types with commas, or `()` for an empty list."""
        if self._word("()"):
            return ()
        return self.list(self.one, ")>")

    def rest(self) -> str:
        """Return the text before the next comma or closing bracket outside of brackets."""
        start, depth = self.at, 0
        for sign in _SIGNS.finditer(self.text, start):
            # Strings, arrows and `>=` contain bracket characters that do not nest.
            if sign[0][0] in '"-' or sign[0] == ">=":
                continue
            if not depth and sign[0] in ",>])}":
                self.at = sign.start()
                return self.text[start : self.at]
            depth += (sign[0] in "<[({") - (sign[0] in ">])}")
        self.at = len(self.text)
        return self.text[start:]

    def whole(self) -> str:
        """Return the text up to the closing bracket, commas included; the bracket is not read."""
        parts = [self.rest()]
        while self._word(","):
            parts.append(self.rest())
        return ",".join(parts)

    def _of_mlir(self) -> Any:
        text = self.rest().strip()
        is_type = text.startswith(("!", "tensor<", "(")) or _is_type(text)
        return parse_type(text) if is_type else parse_attribute(text)

    def pairs(self) -> tuple[tuple[Any, Any], ...]:
        """Read pairs `key = value`, with commas between them."""

        def pair() -> tuple[Any, Any]:
            if not self._sees("#vhlo.string_v1"):
                raise VhloSyntaxError("expected VHLO key attribute")
            key = self.one()
            self.expect("=")
            return key, self.one()

        return self.list(pair, "}")

    def mode(self) -> Any:
        """Read the mode of a result accuracy, such as `DEFAULT`."""
        if not self._sees("#vhlo") or not _ENUM.match(self.text, self.at):
            raise VhloSyntaxError("expected VHLO result accuracy mode")
        return self.one()


def _is_type(text: str) -> bool:
    try:
        parse_type(text)
    except ParseError:
        return False
    return True


def _size(text: str) -> int:
    return DYNAMIC if text == "?" else int(text)


def enum_of(name: str, value: str) -> Any:
    """Return the value of an enum, given VHLO's names of the enum and the value.

    Raises:
        VhloSyntaxError: The enum has no such value.
    """
    base = name.removesuffix("_v1")
    known = ENUMS.get(base)
    if known is None or f"#{name}" not in ROWS:
        raise VhloSyntaxError("unknown vhlo attribute")
    if value not in known or not value:
        raise VhloSyntaxError(f"expected one of {', '.join(filter(None, known))}")
    return ENCODINGS["enum"].make(base, known.index(value))


def _made(rows: tuple[CodeRow, ...], fields: dict[str, Any]) -> Any:
    """Return the attribute or type with these fields.

    `rows` are the rows of its name. A tensor type has two: the last is used if `fields` has an
    encoding.
    """
    row = rows[-1] if "encoding" in fields else rows[0]
    return ENCODINGS[row.value[0]].make(row.argument, *[fields.get(name) for name, _ in row.fields])


def _f64(cursor: _Cursor) -> int:
    value = parse_attribute(f"{cursor.matched(_NUMBER, 'a number')} : f64")
    assert isinstance(value, FloatAttr)
    return value.bits


def _plain(cursor: _Cursor) -> Any:
    value = parse_attribute(cursor.whole().strip())
    if not isinstance(value, IntegerAttr | DenseAttr):
        raise VhloSyntaxError("expected an integer or a tensor")
    return value


def _number(cursor: _Cursor) -> Any:
    text = cursor.matched(_NUMBER, "a number")
    cursor.expect(":")
    value = parse_attribute(f"{text} : {type_text(cursor.one())}")
    if not isinstance(value, FloatAttr):
        raise VhloSyntaxError("expected a floating point number")
    return value


def _string(cursor: _Cursor) -> bytes:
    return unquoted(cursor.matched(_STRING, "a string"))


_WHOLE: Final[Mapping[str, Callable[[_Cursor], Any]]] = {"plain": _plain, "number": _number}
"""Functions that read a whole attribute, not one of its fields, by the kind of the syntax."""

_READERS: Final[Mapping[str, Callable[[_Cursor], Any]]] = {
    "one": _Cursor.one,
    "mode": _Cursor.mode,
    "many": lambda cursor: cursor.list(cursor.one, ">]"),
    "types": _Cursor.types,
    "int": lambda cursor: int(cursor.matched(_INT, "a number")),
    "ints": lambda cursor: cursor.list(lambda: int(cursor.matched(_INT, "a number")), "]"),
    "f64": _f64,
    "f64s": lambda cursor: cursor.list(lambda: _f64(cursor), "]"),
    "sizes": lambda cursor: tuple(map(_size, cursor.matched(_SIZES, "sizes").split("x")[:-1])),
    "bounds": lambda cursor: cursor.list(lambda: _size(cursor.matched(_BOUND, "a bound")), "]"),
    "truth": lambda cursor: int(cursor.matched(_TRUTH, "`true` or `false`") == "true"),
    "string": _string,
    "pairs": _Cursor.pairs,
}


# --------------------------------------------------------------------------------------------------
# Spelling of VHLO's attributes and types: one row each, for parser and printer.
#
# A row: name | spelling. `{name:kind}` in a spelling is a field of the bytecode row, and `[[…]]` is
# optional. Attributes and types without a row have no fields. The kinds are explained in
# `vhlo_printing` and `vhlo_parsing`.
#
# Source: `VhloAttrs.td`, `VhloTypes.td`, and what jaxlib prints.


_ROWS: Final = """
    complex_v1           | <{element_type:one}>
    func_v1              | <({inputs:types}) -> {outputs:types}>
    tensor_v1            | <{shape:sizes}{element_type:one}[[, {encoding:one}]]>
    tuple_v1             | <{types:many}>
    quant_v1             | <{storage_type:one}:{expressed_type:one}, {scale:f64}:{zero_point:int}, \
{storage_type_min:int}:{storage_type_max:int}, {flags:int}>
    quant_per_axis_v1    | <{storage_type:one}:{expressed_type:one}, {quantized_dimension:int}, \
[{scales:f64s}], [{zero_points:ints}], {storage_type_min:int}:{storage_type_max:int}, {flags:int}>
    unranked_tensor_v1   | <{element_type:one}>
    buffer_v1            | <{shape:sizes}{element_type:one}>
    future_v1            | <{types:many}>

    #array_v1            | <[{value:many}]>
    #bool_v1             | <{value:truth}>
    #dict_v1             | <{{value:pairs}}>
    #float_v1            | <{value:number}>
    #integer_v1          | <{value:plain}>
    #output_operand_alias_v1 | <outputTupleIndices = [{output_tuple_indices:ints}], \
operandIndex = {operand_index:int}, operandTupleIndices = [{operand_tuple_indices:ints}]>
    #string_v1           | <{value:string}>
    #tensor_v1           | <{data:plain}>
    #type_v1             | <{value:one}>
    #type_extensions_v1  | <bounds = [{bounds:bounds}]>
    #result_accuracy_v1  | <atol = {atol:f64}, rtol = {rtol:f64}, ulps = {ulps:int}, \
mode = {mode:mode}>
    #sub_axis_info_v1    | <pre_size = {pre_size:int}, size = {size:int}>
    #axis_ref_v1         | <name = {name:one}[[, sub_axis_info = {sub_axis_info:one}]]>
    #replica_group_mesh_axes_v1 | <mesh = {mesh:one}, axes = {axes:one}>
    #mesh_axis_v1        | <name = {name:one}, size = {size:int}>
    #mesh_v1             | <axes = {axes:one}[[, device_ids = {device_ids:one}]]>
"""


class Piece(NamedTuple):
    """A part of an attribute's syntax: a text, or, if there is a `kind`, the field with that name.

    `optional`: whether the part may be missing.
    """

    text: str
    kind: str = ""
    optional: bool = False


_PIECE: Final = pattern(r"\{(\w+):(\w+)\}|\[\[|\]\]|(?:(?!\{\w+:|\[\[|\]\]).)+")


def _pieces(spelling: str) -> tuple[Piece, ...]:
    found: list[Piece] = []
    optional = False
    for part in _PIECE.finditer(spelling):
        if part[0] in ("[[", "]]"):
            optional = part[0] == "[["
        elif part[1]:
            found.append(Piece(part[1], part[2], optional))
        else:
            found.append(Piece(part[0], optional=optional))
    return tuple(found)


FORMS: Final[dict[str, tuple[Piece, ...]]] = {
    name.strip(): _pieces(spelling.strip())
    for row in _ROWS.replace("\\\n", "").strip().splitlines()
    if row.strip()
    for name, _, spelling in [row.partition(" | ")]
}
"""Syntax of each attribute and type, by name; names of attributes begin with `#`."""

ROWS: Final[dict[str, tuple[CodeRow, ...]]] = {}
"""Rows of the tables by name, as in `FORMS`.

A tensor type has two, with and without an encoding.
"""
for _sign, _table in (("#", ATTRIBUTES), ("", TYPES)):
    for _row in _table:
        _name = _sign + _row.name
        ROWS[_name] = (*ROWS.get(_name, ()), _row)
