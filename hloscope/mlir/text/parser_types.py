"""Reads types.  Source: MLIR language reference, "Builtin types"."""

from __future__ import annotations

import re
from typing import Final, NoReturn, cast

from hloscope.ir import (
    BufferType,
    DialectType,
    ElementType,
    FunctionType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
    VectorType,
)
from hloscope.mlir.definitions import Dialects
from hloscope.mlir.text.asm import AsmParser
from hloscope.mlir.text.lexer import STRING, Lexer
from hloscope.mlir.text.sniff import BLANK
from hloscope.mlir.types import ELEMENTS, WIDEST, integer_type, type_text
from hloscope.support.lazy import pattern
from hloscope.support.limits import MOST_NESTING
from hloscope.support.source import Source

PLAIN_TYPE: Final = r'(?:tensor<[^<>"#!/()]*(?:complex<f\d+>)?>|[su]?i\d+\b|b?f\d+\b|index\b)'
_PLAIN: Final = pattern(PLAIN_TYPE, re.ASCII)
_LISTED: Final = pattern(rf" ?({PLAIN_TYPE}),(?= \S)", re.ASCII)
_SIZES: Final = pattern(rf"{BLANK}((?:(?:\d+|\?){BLANK}x{BLANK})*)", re.ASCII)
_DIGITS: Final = pattern(r"\d+", re.ASCII)
_SIZE: Final = pattern(r"\d+|\?")
_SPACE: Final = pattern(rf"({STRING})|(?:\s|//[^\n]*\n)+")
_BOUNDS: Final = pattern(
    r"#(?:stablehlo|mhlo)\.(?:bounds<([^<>]*)>|type_extensions<\s*bounds\s*=\s*\[([^]]*)\]\s*>)"
)
_INTEGER: Final = pattern(r"[su]?i\d+", re.ASCII)
_BOUND: Final = pattern(r"\s*(?:\?|-?\d+)\s*", re.ASCII)
_LIMIT: Final = 1 << 63
# Asked for each type in a text; equal texts give one object, which `parser_lines` compares by
# identity first.
KNOWN_TYPES: Final[dict[str, Type]] = {}
"""Plain types that were read before, by their text."""
_MOST_KNOWN: Final = 1 << 12
"""Maximum entries of the table of types, which is then emptied."""


class TypeParser(Lexer):
    """Parser of types.

    Attributes:
        dialects: The known dialects.
        depth: Nesting of the current token in types and attributes of its op.
        mnemonic_at: Position of the last type or attribute of a dialect.
        type_aliases: Types by the name `!name`.
        deepest: The greatest depth since the definition of an alias began.
        expanded: Expanded characters of all aliases used so far.
    """

    __slots__ = ("deepest", "depth", "dialects", "expanded", "mnemonic_at", "type_aliases")

    def __init__(self, source: Source, dialects: Dialects, at: int = 0) -> None:
        super().__init__(source, at)
        self.dialects: Final = dialects
        self.depth = self.deepest = self.expanded = 0
        self.mnemonic_at = 0
        self.type_aliases: dict[str, Type] = {}

    def nest(self) -> None:
        """Increase the nesting depth by one; the caller restores it.

        Raises:
            ParseError: The nesting is too deep.
        """
        self.depth += 1
        if self.depth > self.deepest:
            self.deepest = self.depth
        if self.depth > MOST_NESTING:
            self._raise(f"nesting is deeper than {MOST_NESTING}", self._span(None, None))

    # --------------------------------------------------------------------------------- lists

    def type(self) -> Type:
        """Read a type."""
        found = _PLAIN.match(self.text, self.start)
        if found is not None:
            known = KNOWN_TYPES.get(found[0])
            if known is None:
                known = self._type()
                if self.before == found.end():
                    if len(KNOWN_TYPES) > _MOST_KNOWN:
                        KNOWN_TYPES.clear()
                    KNOWN_TYPES[found[0]] = known
            else:
                self.move(found.end())
            return known
        return self._type()

    def try_type(self) -> Type | None:
        """Read a type; `None` if none begins here."""
        token = self.tok
        if token == "(" or self.kind == "type":
            return self.type()
        if self.kind != "word":
            return None
        known = token in ELEMENTS or token in _READERS or _INTEGER.fullmatch(token)
        return self.type() if known else None

    def type_list(self) -> list[Type]:
        """Read one or more types separated by commas."""
        text, types = self.text, []
        while True:
            at = self.start
            while (found := _LISTED.match(text, at)) is not None:
                known = KNOWN_TYPES.get(found[1])
                if known is None:
                    break
                types.append(known)
                at = found.end()
            if at > self.start:
                self.move(at)
            types.append(self.type())
            if not self.try_token(","):
                return types

    def paren_types(self) -> list[Type]:
        """Read `(a, b)`."""
        self.expect("(")
        if self.try_token(")"):
            return []
        types = self.type_list()
        self.expect(")")
        return types

    def result_types(self) -> list[Type]:
        """Read one type, or `(a, b)`."""
        return self.paren_types() if self.tok == "(" else [self.type()]

    def function_type(self) -> FunctionType:
        """Read `(a, b) -> c`."""
        at = self.start
        type = self.type()
        if not isinstance(type, FunctionType):
            found = type_text(type)
            message = "invalid kind of type specified: expected builtin.function, but found"
            self.fail(f"{message} '{found}'", at)
        return type

    def try_function_type(self) -> FunctionType | None:
        """Read `(a, b) -> c`; `None` if the current token is not `(`."""
        return self.function_type() if self.tok == "(" else None

    def _function(self) -> FunctionType:
        inputs = self.paren_types()
        self.expect("->", "expected '->' in function type")
        return FunctionType(tuple(inputs), tuple(self.result_types()))

    # -------------------------------------------------------------------------------- one type

    def _type(self) -> Type:
        depth = self.depth
        self.nest()
        type = self._nested_type()
        self.depth = depth
        return type

    def _nested_type(self) -> Type:
        if self.tok == "(":
            return self._function()
        if self.kind == "type":
            return self._extended()
        if self.kind == "word":
            reader = _READERS.get(self.tok)
            if reader is not None:
                return reader(self)
            simple = ELEMENTS.get(self.tok)
            if simple is not None:
                self.next()
                return simple
            if _INTEGER.fullmatch(self.tok):
                return self._integer()
        self.wrong("expected non-function type")

    def _integer(self) -> ElementType:
        width = int(self.tok.lstrip("sui")[:20])
        if width >= 1 << 32:
            self._raise("invalid integer width", self._span(None, None))
        if width > WIDEST:
            message = f"integer bitwidth is limited to {WIDEST} bits"
            self._raise(message, self._span(None, None))
        type = integer_type(self.next())
        assert type is not None
        return type

    def sizes(self) -> tuple[int | None, ...]:
        """Read sizes `2x?x`, up to the token after them."""
        found = _SIZES.match(self.text, self.start)
        assert found is not None
        sizes = tuple(None if s == "?" else int(s[:40]) for s in _SIZE.findall(found[1]))
        if any(size is not None and size >= _LIMIT for size in sizes):
            self._raise("invalid dimension", self._span(None, None))
        if sizes:
            self.move(found.end())
        if self.kind == "number" or self.tok == "?":
            number = _DIGITS.match(self.text, self.start)
            self.move(self.end if number is None else number.end())
            self.wrong("expected 'x' in dimension list")
        return sizes

    def _tensor(self) -> Type:
        self.next()
        self.expect("<", "expected '<' in tensor type")
        unranked = self.tok == "*"
        if unranked:
            if not self.text.startswith("x", self.end):
                self.next()
                self.wrong("expected 'x' in dimension list")
            self.move(self.end + 1)
            sizes: tuple[int | None, ...] = ()
        else:
            sizes = self.sizes()
        at, end = self.start, self.end
        element = self.type()
        encoding = self._encoding() if self.try_token(",") else ""
        self.expect(">", "expected '>' in tensor type")
        kind = self.element(element)
        if kind is None:
            message = f"invalid tensor element type: '{type_text(element)}'"
            self.fail_plainly(message, at, end)
        if unranked:
            if encoding:
                self.fail_plainly("cannot apply encoding to unranked tensor", at, end)
            return UnrankedTensorType(kind)
        bounds: tuple[int | None, ...] = (None,) * len(sizes) if None in sizes else ()
        if not encoding:
            return TensorType(kind, sizes, bounds=bounds)
        return self._encoded(TensorType(kind, sizes, bounds=bounds), encoding)

    def fail_plainly(self, message: str, at: int, end: int | None = None) -> NoReturn:
        """Raise an error without the op's name in its message."""
        self._raise(message, self._span(at, end))

    def _encoding(self) -> str:
        """Read an encoding and return its text, with aliases expanded."""
        raise NotImplementedError

    def _encoded(self, type: TensorType, encoding: str) -> Type:
        found = _BOUNDS.fullmatch(encoding)
        if found is None:
            return TensorType(type.element, type.sizes, bounds=type.bounds, encoding=encoding)
        parts = (found[1] if found[1] is not None else found[2]).split(",")
        if parts == [""]:
            parts = []
        if not all(map(_BOUND.fullmatch, parts)):
            self.fail_plainly("expected integer value", self.before)
        bounds = tuple(None if "?" in b or "-" in b else int(b) for b in parts)
        if len(bounds) != len(type.sizes):
            self.fail_plainly(
                f"Bounds length is {len(bounds)}, expected to be equal to rank({len(type.sizes)})"
                " of the tensor",
                self.before - 1,
            )
        for number, (bound, size) in enumerate(zip(bounds, type.sizes, strict=True)):
            if bound is not None and size is not None:
                self.fail_plainly(
                    f"Static dimension {number} cannot have a bound, use ShapedType::kDynamic to"
                    " indicate a missing bound",
                    self.before - 1,
                )
        if all(bound is None for bound in bounds):
            inside = ", ".join("?" * len(bounds))
            text = f"#stablehlo.bounds<{inside}>"
            return TensorType(type.element, type.sizes, bounds=type.bounds, encoding=text)
        return TensorType(type.element, type.sizes, bounds=bounds)

    def element(self, type: Type) -> ElementType | None:
        """Return a type as the element type of a tensor; `None` if no tensor has such elements."""
        match type:
            case ElementType():
                return None if type.name == "none" else type
            case VectorType():
                return ElementType(type_text(type), 0, "opaque")
            case DialectType() if type.text.startswith(("!", "memref<")):
                return ElementType(type.text, 0, "opaque")
            case _:
                return None

    def _vector(self) -> Type:
        self.next()
        self.expect("<", "expected '<' in vector type")
        sizes: list[int] = []
        scalable: list[bool] = []
        while self.kind == "number" or self.tok == "[":
            unit = self.try_token("[")
            found = re.compile(r"(\d+)" + (r"\s*\]" if unit else "") + r"\s*x\s*").match(
                self.text, self.start
            )
            if found is None:
                self.next()
                self.wrong(
                    "missing ']' closing scalable dimension"
                    if unit
                    else "expected 'x' in dimension list"
                )
            sizes.append(int(found[1][:40]))
            scalable.append(unit)
            self.move(found.end())
        if 0 in sizes:
            message = "vector types must have positive constant sizes"
            self.fail_plainly(message, self.start, self.end)
        at, end = self.start, self.end
        element = self.type()
        self.expect(">", "expected '>' in vector type")
        kind = self.element(element)
        if kind is None:
            self.fail_plainly("vector elements must be int/index/float type", at, end)
        return VectorType(kind, tuple(sizes), tuple(scalable) if any(scalable) else ())

    def _complex(self) -> Type:
        self.next()
        self.expect("<", "expected '<' in complex type")
        at, end = self.start, self.end
        part = self.type()
        self.expect(">", "expected '>' in complex type")
        kinds = ("pred", "signed", "unsigned", "float")
        if not isinstance(part, ElementType) or part.kind not in kinds or part.name == "index":
            self.fail_plainly("invalid element type for complex", at, end)
        name = f"complex<{type_text(part)}>"
        return ELEMENTS.get(name) or ElementType(name, 2 * part.bits, "complex")

    def _tuple(self) -> Type:
        self.next()
        self.expect("<", "expected '<' in tuple type")
        if self.try_token(">"):
            return TupleType(())
        elements = self.type_list()
        self.expect(">", "expected '>' in tuple type")
        return TupleType(tuple(elements))

    def _memref(self) -> Type:
        start = self.start
        self.next()
        if self.tok != "<":
            self.wrong("expected '<' in memref type")
        end = self.balanced()
        if self.after() != "*":
            self.next()
            sizes = self.sizes()
            element = self.element(self.type())
            if self.end == end and self.tok == ">" and element is not None:
                self.next()
                bounds = (None,) * len(sizes) if None in sizes else ()
                return BufferType(TensorType(element, sizes, bounds=bounds))
        self.move(end)
        return DialectType(self.verbatim(start))

    def verbatim(self, start: int) -> str:
        """Return the text from `start` to the end of the last token, in one line."""
        return _SPACE.sub(lambda found: found[1] or " ", self.text[start : self.before])

    # ----------------------------------------------------------------------------- of dialects

    def _extended(self) -> Type:
        start, name = self.start, self.tok[1:]
        dialect, dot, mnemonic = name.partition(".")
        opaque = not dot and self.text.startswith("<", self.end)
        if not dot and not opaque:
            return self._type_alias(name)
        if dot and not mnemonic:
            self.next()
            self.fail_plainly("expected valid keyword", self.start, self.end)
        older = self.dialects.older.get(dialect)
        known = self.dialects.named.get(dialect if older is None else older.name)
        if known is not None and known.read_type is not None:
            op, self.op = self.op, ""
            mnemonic = self._mnemonic(mnemonic, opaque)
            type = known.read_type(cast(AsmParser, self), mnemonic)
            if type is None:
                self.fail_plainly(f"unknown  type `{mnemonic}` in dialect `{dialect}`", start)
            if opaque:
                self.expect(">")
            self.op = op
            return type
        self.next()
        if self.tok == "<" and self.start == self.before:
            self.move(self.balanced())
        return DialectType(self.verbatim(start))

    def _mnemonic(self, mnemonic: str, opaque: bool) -> str:
        """Read and return the name after `dialect.`; for an opaque type, open `<name …>`."""
        self.mnemonic_at = self.start
        self.next()
        if self.tok == "<" and self.start == self.before:
            self.balanced()
        if opaque:
            self.next()
            if self.kind != "word":
                self.fail("expected valid keyword")
            mnemonic = self.next()
        return mnemonic

    def _type_alias(self, name: str) -> Type:
        raise NotImplementedError


_READERS: Final = {
    "tensor": TypeParser._tensor,
    "tuple": TypeParser._tuple,
    "complex": TypeParser._complex,
    "vector": TypeParser._vector,
    "memref": TypeParser._memref,
}
