"""Check of `dense<…>` literals against their type, without conversion of their numbers.

All brackets and commas are compared at once, so that long literals are checked fast. If they
differ, the literal is checked piece by piece, for its error message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Final

from hloscope.ir import ElementType, TensorType, VectorType
from hloscope.mlir.text.lexer import STRING
from hloscope.mlir.types import I1, INDEX, element_text, type_text
from hloscope.support.lazy import pattern

_BRACKETS: Final = str.maketrans("", "", "0123456789eE.+- \t\r\n")
_INTEGERS: Final = pattern(r"[\[\s]*+-?\d++[\]\s]*+(?:,[\[\s]*+-?\d++[\]\s]*+)*+")
_FLOATS: Final = pattern(
    r"[\[\s]*+-?\d++\.\d*+(?:[eE][-+]?\d++)?+[\]\s]*+"
    r"(?:,[\[\s]*+-?\d++\.\d*+(?:[eE][-+]?\d++)?+[\]\s]*+)*+"
)
_TOKEN: Final = pattern(
    rf"\s*(?:(?P<sign>[\[\](),])|(?P<string>{STRING})|(?P<bool>true|false)"
    r"|(?P<hex>-?\s*0x[0-9A-Fa-f]+)|(?P<float>-?\s*\d+\.\d*(?:[eE][-+]?\d+)?)"
    r"|(?P<int>-?\s*\d+)|(?P<bad>\S))"
)
_HEX: Final = pattern(r'"0x([0-9A-Fa-f]*)"')
_ANY: Final = ElementType("", 0, "any")
MOST_RANK: Final = 64
"""Maximum nesting depth of lists in a literal."""


class LiteralError(ValueError):
    """A literal is invalid; `at` is the offset of the error in it, or -1 for the whole literal."""

    def __init__(self, message: str, at: int = -1) -> None:
        super().__init__(message)
        self.at = at


def check_dense(literal: str, type: TensorType | VectorType) -> None:
    """Check that `literal` is a literal of `type`.

    Source: MLIR's `TensorLiteralParser`.

    >>> from hloscope.mlir.types import I32
    >>> check_dense("[1, 2]", TensorType(I32, (2,)))

    Raises:
        LiteralError: The literal does not fit the type.
    """
    element = type.element
    sizes = tuple(size or 0 for size in type.sizes)
    if literal.startswith('"') and element.kind not in ("opaque", "quantized"):
        _check_hex(literal, type, prod(sizes))
        return
    kind = element.kind
    if (
        literal.startswith("[")
        and kind in ("signed", "unsigned", "float")
        and (_FLOATS if kind == "float" else _INTEGERS).fullmatch(literal)
        and _skeleton(sizes, len(literal)) == literal.translate(_BRACKETS)
        and _in_range(literal, element)
    ):
        return
    _PiecewiseCheck(literal, type, sizes).check()


def check_brackets(literal: str) -> int:
    """Raise an error unless `literal` consists of elements and nested lists; return its end.

    The type is not checked.

    Raises:
        LiteralError: The literal has another structure.
    """
    slow = _PiecewiseCheck(literal, TensorType(_ANY, ()), ())
    if slow.kind != "end":
        slow.shape()
    if slow.kind != "end":
        raise LiteralError("expected '>'", slow.at)
    return slow.at


def _check_hex(literal: str, type: TensorType | VectorType, count: int) -> None:
    """Check that a literal of hexadecimal digits has the bytes of `count` elements, or of one."""
    found = _HEX.fullmatch(literal)
    if found is None or len(found[1]) % 2:
        raise LiteralError("expected string containing hex digits starting with `0x`", 0)
    size = len(found[1]) // 2
    bits = 1 if type.element == I1 else type.element.bits
    if bits == 1:
        # One byte may be a splat; texts have packed bits or one byte for each.
        fits = size in (1, (count + 7) // 8, count)
    else:
        width = (bits + 7) // 8
        fits = size in (width, width * count)
    if not fits:
        message = "elements hex data size is invalid for provided type: "
        raise LiteralError(message + type_text(type))


def _skeleton(sizes: tuple[int, ...], most: int) -> str | None:
    """Return the brackets and commas of a literal whose dimensions have these sizes.

    The result is `None` if it would be longer than `most` characters.
    """
    inner = ""
    for size in reversed(sizes):
        # Checked before the text is made, as the sizes come from the input.
        if (len(inner) + 1) * size > most:
            return None
        inner = f"[{','.join([inner] * size)}]"
    return inner


def _in_range(literal: str, element: ElementType) -> bool:
    """Does every number of a literal have so few digits that it is in its element type's range?

    If the result is false, the numbers must be checked one by one.
    """
    if element.kind == "float":
        return True
    low, _ = limits(element)
    if low == 0 and "-" in literal:
        return False
    # A number with fewer digits than the bound is within it, so one search for a long number
    # suffices for the whole literal.
    digits = len(str(abs(low) if low else (1 << element.bits) - 1))
    return re.search(rf"\d{{{digits},}}", literal) is None


def limits(element: ElementType) -> tuple[int, int]:
    """Return the least and the largest integer that may be written for an integer type.

    For a signless type it is the union of the signed and the unsigned range.
    """
    bits = 1 if element == I1 else element.bits
    if bits == 0:
        return 0, 0
    if element.kind == "unsigned":
        return 0, (1 << bits) - 1
    signed = element == INDEX or element.name.startswith("si")
    return -(1 << bits - 1), (1 << (bits - 1 if signed else bits)) - 1


class _PiecewiseCheck:
    """Checks a literal of elements token by token, for the message and position of an error."""

    def __init__(self, literal: str, type: TensorType | VectorType, sizes: tuple[int, ...]) -> None:
        self.literal = literal
        self.type = type
        self.sizes = sizes
        self.element = type.element
        self.count = 0
        self.pieces = self._pieces()
        self.kind = self.token = ""
        self.at = 0
        self._next()

    def _pieces(self) -> Iterator[tuple[str, str, int]]:
        end = len(self.literal.rstrip())
        at = 0
        while at < end:
            found = _TOKEN.match(self.literal, at)
            assert found is not None
            kind = found.lastgroup or ""
            yield kind, found[kind], found.start(kind)
            at = found.end()
        while True:
            yield "end", "", end

    def _next(self) -> None:
        self.kind, self.token, self.at = next(self.pieces)

    def check(self) -> None:
        """Raise the error at the first invalid place of the literal; do nothing if it is valid."""
        # MLIR reports a wrong shape before a wrong number, so the first pass accepts elements of
        # any type, and a second pass checks the numbers.
        element, self.element = self.element, _ANY
        shape = self.shape() if self.kind != "end" else None
        self.element = element
        if self.kind != "end":
            raise LiteralError("expected '>'", self.at)
        total = prod(self.sizes)
        if shape is not None and shape != () and shape != self.sizes:
            have, want = (", ".join(map(str, s)) for s in (shape, self.sizes))
            message = (
                f"inferred shape of elements literal ([{have}]) does not match type ([{want}])"
            )
            raise LiteralError(message)
        if self.count == 0 and total:
            text = type_text(self.type)
            raise LiteralError(f"parsed zero elements, but type ('{text}') expected at least 1")
        if self.element.kind == "complex":
            splat = not shape and total != 0
            if splat and self.count != 2:
                text = element_text(self.element)
                message = f"parsed {self.count} elements, but type ('{text}') expected 2 elements"
                raise LiteralError(message)
            if shape and self.count != 2 * total:
                text = type_text(self.type)
                message = f"parsed {self.count} elements, but type ('{text}') expected {2 * total}"
                raise LiteralError(f"{message} elements")
        self.pieces = self._pieces()
        self._next()
        while self.kind != "end":
            if self.kind != "sign":
                self._number()
            else:
                self._next()

    def shape(self) -> tuple[int, ...]:
        """Return the sizes of the nested lists of the literal; lists are read without recursion."""
        shapes: list[tuple[int, ...] | None] = []  # one entry for each open list
        counts: list[int] = []
        while True:
            if self.token == "[" and self.kind == "sign":
                self._next()
                if len(shapes) >= MOST_RANK:
                    raise LiteralError(f"nesting is deeper than {MOST_RANK}", self.at)
                if self.token != "]":
                    shapes.append(None)
                    counts.append(0)
                    continue
                shape: tuple[int, ...] = (0,)
                self._next()
            else:
                self._element()
                shape = ()
            # An element or a closed list counts as an element of the list around it, whose elements
            # must all have one shape.
            while shapes:
                if shapes[-1] not in (None, shape):
                    message = "tensor literal is invalid; ranks are not consistent between elements"
                    raise LiteralError(message, self.at)
                shapes[-1] = shape
                counts[-1] += 1
                if self.token == ",":
                    self._next()
                    break
                if self.token != "]":
                    raise LiteralError("expected ']'", self.at)
                self._next()
                shapes.pop()
                shape = (counts.pop(), *shape)
            else:
                return shape

    def _element(self) -> None:
        if self.token == "(":
            self._next()
            self._number()
            if self.token != ",":
                raise LiteralError("expected ',' between complex elements", self.at)
            self._next()
            self._number()
            if self.token != ")":
                raise LiteralError("expected ')' after complex elements", self.at)
            self._next()
            return
        self._number()

    def _number(self) -> None:
        self.count += 1
        kind, element = self.kind, self.element
        if kind in ("sign", "end", "bad"):
            raise LiteralError("expected element literal of primitive type", self.at)
        is_part = element.kind == "complex"
        if element.kind in ("pred", "signed", "unsigned") or (is_part and "i" in element.name):
            self._integer(element)
        elif element.kind == "float" or is_part:
            self._float()
        elif kind != "string" and element is not _ANY:
            raise LiteralError(f"expected string token, got {self.token}")
        self._next()

    def _float(self) -> None:
        if self.kind == "int":
            message = "unexpected decimal integer literal for a floating point value"
            raise LiteralError(message, self.at)
        if self.kind in ("bool", "string"):
            raise LiteralError("expected floating point literal", self.at)
        if self.kind == "hex" and self.token[0] == "-":
            message = "hexadecimal float literal should not have a leading minus"
            raise LiteralError(message, self.at)
        if self.kind == "hex" and self.element is not _ANY:
            bits = self.element.bits // (2 if self.element.kind == "complex" else 1)
            if int(self.token, 16) >> bits:
                message = "hexadecimal float constant out of range for type"
                raise LiteralError(message, self.at)

    def _integer(self, element: ElementType) -> None:
        if self.kind == "float":
            message = "expected integer elements, but parsed floating-point"
            raise LiteralError(message, self.at)
        if self.kind == "string":
            raise LiteralError("expected integer literal", self.at)
        if self.kind == "bool":
            if element != I1:
                raise LiteralError("expected i1 type for 'true' or 'false' values", self.at)
            return
        negative = self.token[0] == "-"
        if negative and element.kind == "unsigned":
            message = "expected unsigned integer elements, but parsed negative value"
            raise LiteralError(message, self.at)
        if element.kind == "complex":
            return
        low, high = limits(element)
        digits = self.token.replace(" ", "")
        value = int(digits, 0 if self.kind == "hex" else 10) if len(digits) < 4000 else high + 1
        if not low <= value <= high:
            raise LiteralError("integer constant out of range for type", self.at)
