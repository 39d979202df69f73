"""Reads numbers and attributes made of many.

Source: MLIR language reference, "Builtin attributes".
"""

from __future__ import annotations

from typing import Final

from hloscope.ir import FORMATS, ElementType, TensorType, Type, VectorType, encode
from hloscope.mlir.ir import Attribute, BoolAttr, DenseArrayAttr, DenseAttr, FloatAttr, IntegerAttr
from hloscope.mlir.text.dense import LiteralError, check_brackets, check_dense, limits
from hloscope.mlir.text.lexer import STRING
from hloscope.mlir.text.parser_types import TypeParser
from hloscope.mlir.types import F64, I1, I64, type_text
from hloscope.support.lazy import pattern

_COMMENT: Final = pattern(rf"({STRING})|//[^\n]*")
_IN_DENSE: Final = pattern(rf"{STRING}|//[^\n]*|[<>]|\Z")
_NUMBERS: Final = pattern(r"\s*-?\d+\s*(?:,\s*-?\d+\s*)*>")


class ElementParser(TypeParser):
    """Parser of numbers, `dense<…>` and `array<…>`."""

    __slots__ = ()

    def number(self, type: Type | None, *, negative: bool) -> Attribute:
        token, at, end = self.tok, self.start, self.end
        self.next()
        is_float = "." in token
        if type is None:
            type = self.type() if self.try_token(":") else F64 if is_float else I64
        kind = type.kind if isinstance(type, ElementType) else ""
        if isinstance(type, ElementType) and kind == "float" and type.name in FORMATS:
            return FloatAttr(self.float_bits(token, type, negative, at, end), type)
        if is_float or kind == "float":
            message = "floating point value not valid for specified type"
            self.fail_plainly(message, self.start)
        if not isinstance(type, ElementType) or kind not in ("pred", "signed", "unsigned"):
            self.fail_plainly("integer literal not valid for specified type", at, end)
        value = self.in_range(token, type, negative, at, end)
        return BoolAttr(value != 0) if type == I1 else IntegerAttr(value, type)

    def float_bits(self, token: str, type: ElementType, negative: bool, at: int, end: int) -> int:
        """Return the bits of a literal of a floating-point type."""
        if token.startswith("0x"):
            bits = int(token, 16) if len(token) < 100 else 1 << 200
            if negative:
                message = "hexadecimal float literal should not have a leading minus"
                self.fail_plainly(message, at, end)
            if bits >> type.bits:
                self.fail_plainly("hexadecimal float constant out of range for type", at, end)
            return bits
        if "." not in token:
            message = "unexpected decimal integer literal for a floating point attribute"
            self.fail_plainly(message, at, end)
        return encode(float(("-" if negative else "") + token), type.name)

    def in_range(self, token: str, type: ElementType, negative: bool, at: int, end: int) -> int:
        """Return the value of an integer literal; of a signless type as a signed integer."""
        if negative and type.kind == "unsigned":
            message = "negative integer literal not valid for unsigned integer type"
            self.fail_plainly(message, at, end)
        low, high = limits(type)
        value = int(token, 0 if token.startswith("0x") else 10) if len(token) < 4000 else high + 1
        if negative:
            value = -value
        if not low <= value <= high:
            self.fail_plainly("integer constant out of range for attribute", at, end)
        if type.kind == "signed" and value > max(-low - 1, 0):
            value -= 1 << type.bits
        return value

    # ------------------------------------------------------------------------- of many elements

    def _dense(self, type: Type | None) -> Attribute:
        at, end = self.start, self.end
        self.next()
        if self.tok != "<":
            self.wrong("expected '<' after 'dense'")
        start = self.end
        stop = self._dense_end(start)
        literal = self.text[start : stop - 1].strip()
        if "//" in literal:
            literal = _COMMENT.sub(lambda found: found[1] or "", literal).strip()
        self.move(stop)
        if self.tok != ":" and "//" not in literal:
            self._check_brackets(start, stop - 1)
            self.move(stop)
        type = self._elements_type(at, end, type)
        try:
            check_dense(literal, type)
        except LiteralError as error:
            if error.at >= 0 and self.text.startswith(literal, start):
                at = end = start + error.at
            self.fail_plainly(str(error), at)
        return DenseAttr(literal, type)

    def _dense_end(self, start: int) -> int:
        for found in _IN_DENSE.finditer(self.text, start):
            if found[0] == ">":
                return found.end()
            if found[0] in ("<", ""):
                break
        at = self._check_brackets(start, found.start())
        self.move(at)
        self.wrong("expected '>'")

    def _check_brackets(self, start: int, end: int) -> int:
        """Check that the text consists of elements and lists; return its end."""
        try:
            return start + check_brackets(self.text[start:end].rstrip())
        except LiteralError as error:
            self.move(start + error.at)
            self.wrong(str(error))

    def _elements_type(self, at: int, end: int, type: Type | None) -> TensorType | VectorType:
        if type is None:
            self.expect(":")
            type = self.type()
        if not isinstance(type, TensorType | VectorType):
            self.fail_plainly("elements literal must be a shaped type", at, end)
        if None in type.sizes:
            self.fail_plainly("elements literal type must have static shape", at, end)
        return type

    def _dense_array(self, type: Type | None) -> Attribute:
        self.next()
        self.expect("<", "expected '<' after 'array'")
        at, end = self.start, self.end
        element = self.type()
        kinds = ("pred", "signed", "unsigned", "float")
        if (
            not isinstance(element, ElementType)
            or element.kind not in kinds
            or element.name == "index"
        ):
            text = type_text(element)
            self.fail_plainly(f"expected integer or float type, got: {text}", at, end)
        if element != I1 and element.bits % 8:
            message = "element type bitwidth must be a multiple of 8"
            self.fail_plainly(message, at, end)
        if self.try_token(">"):
            return DenseArrayAttr(element, ())
        self.expect(":", "expected ':' after dense array type")
        if element == I64:
            found = _NUMBERS.match(self.text, self.start)
            if found is not None and len(found[0]) < 1000:
                values = tuple(map(int, found[0][:-1].split(",")))
                if all(-(1 << 63) <= value < 1 << 63 for value in values):
                    self.move(found.end())
                    return DenseArrayAttr(element, values)
        elements = [self._array_element(element)]
        while self.try_token(","):
            elements.append(self._array_element(element))
        self.expect(">", "expected '>' to close an array attribute")
        return DenseArrayAttr(element, tuple(elements))

    def _array_element(self, element: ElementType) -> int:
        at = self.start
        negative = self.try_token("-")
        token, end = self.tok, self.end
        if token in ("true", "false"):
            if element != I1:
                message = "expected i1 type for 'true' or 'false' values"
                self.fail_plainly(message, at, end)
            self.next()
            return int(token == "true")
        if element.kind == "float":
            if self.kind != "number":
                self.fail_plainly("expected floating point literal", at, end)
            bits = self.float_bits(token, element, negative, at, end)
            self.next()
            return bits
        if self.kind != "number" or "." in token:
            self.fail_plainly("expected integer literal", at, end)
        if element == I1:
            self.fail_plainly("expected 'true' or 'false' values for i1 type", at, end)
        value = self.in_range(token, element, negative, at, end)
        self.next()
        return value
