"""MLIR's spelling of types → types of the graph.  Source: StableHLO spec, "Types"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hloscope.errors import ParseError, did_you_mean
from hloscope.ir.types import (
    ELEMENT_TYPES,
    ElementType,
    OpaqueType,
    TensorType,
    TokenType,
    TupleType,
    Type,
)

_FLOATS: Final = (
    "f4E2M1FN f6E2M3FN f6E3M2FN f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ"
    " f8E8M0FNU bf16 f16 f32 f64"
)

ELEMENTS: Final[dict[str, ElementType]] = {
    "i1": ELEMENT_TYPES["pred"],
    **{f"{p}i{n}": ELEMENT_TYPES[f"s{n}"] for n in (2, 4, 8, 16, 32, 64) for p in ("", "s")},
    **{f"ui{n}": ELEMENT_TYPES[f"u{n}"] for n in (1, 2, 4, 8, 16, 32, 64)},
    **{name: ELEMENT_TYPES[name.lower()] for name in _FLOATS.split()},
    "complex<f32>": ELEMENT_TYPES["c64"],
    "complex<f64>": ELEMENT_TYPES["c128"],
    "index": ElementType("index", 64, "signed", "int64"),
    "none": ElementType("none", 0, "opaque"),
}
"""Element types by their StableHLO spelling."""


@dataclass(frozen=True, slots=True)
class DialectType(OpaqueType):
    """A type that is no tensor, tuple or token, as written, such as `!shape.shape`."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class EncodedType(TensorType):
    """A tensor with an encoding other than bounds, kept as written."""

    encoding: str = ""


_DIMS: Final = re.compile(r"\s*((?:(?:\d+|\?)\s*x\s*)*)")
_BOUNDS: Final = re.compile(
    r"#(?:stablehlo|mhlo)\.(?:bounds<([^<>]*)>|type_extensions<\s*bounds\s*=\s*\[([^]]*)\]\s*>)"
)
_PLAIN: Final = re.compile(r'tensor<[^<>"]*(?:<[^<>"]*>)?[^<>"]*>')
_NAME: Final = re.compile(r"!?[A-Za-z_][\w$.]*")
_STEP: Final = re.compile(r'"(?:[^"\\]|\\.)*"|->|[<>()\[\]{}]|$')
_KNOWN: Final[dict[str, Type]] = {}
_INDEX: Final = re.compile(r"(?:[su]?i\d+|index|none|b?f\d\w*)")


def type_end(text: str, at: int) -> int:
    """Where the type that begins at `at` ends; -1 if none does.

    >>> type_end("tensor<2xf32>, i1", 0)
    13
    """
    found = _PLAIN.match(text, at)
    if found is not None:
        return found.end()
    if text.startswith("(", at):
        end = _closed(text, at)
        arrow = re.compile(r"\s*->\s*").match(text, end)
        return end if arrow is None else type_end(text, arrow.end())
    name = _NAME.match(text, at)
    if name is None:
        return -1
    return _closed(text, name.end()) if text.startswith("<", name.end()) else name.end()


def _closed(text: str, at: int) -> int:
    """The position after the group that is opened at `at`; -1 if it is never closed."""
    depth = 0
    for found in _STEP.finditer(text, at):
        if found[0] in ("<", "(", "[", "{"):
            depth += 1
        elif found[0] in (">", ")", "]", "}"):
            depth -= 1
            if depth == 0:
                return found.end()
    return -1


def split_types(text: str) -> list[str]:
    """The parts of a list at its top-level commas.

    >>> split_types("tensor<2xf32>, tuple<i1, i2>")
    ['tensor<2xf32>', 'tuple<i1, i2>']
    """
    parts, depth, start = [], 0, 0
    for found in re.compile(r'"(?:[^"\\]|\\.)*"|->|[<>()\[\]{},]').finditer(text):
        if found[0] in ("<", "(", "[", "{"):
            depth += 1
        elif found[0] in (">", ")", "]", "}"):
            depth -= 1
        elif found[0] == "," and depth == 0:
            parts.append(text[start : found.start()].strip())
            start = found.end()
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def parse_type(text: str, aliases: Mapping[str, str] | None = None) -> Type:
    """Read one type.

    >>> parse_type("tensor<2x?xui8>").sizes
    (2, None)

    Raises:
        ParseError: It is no type.
    """
    known = _KNOWN.get(text)
    if known is not None:
        return known
    if aliases and "!" in text:
        expanded = re.sub(r"!\w+(?![\w.<])", lambda m: aliases.get(m[0], m[0]), text)
        if expanded != text:
            return parse_type(expanded, aliases)
    type = _read(text.strip(), aliases or {})
    if not any(sign in text for sign in "#!"):
        if len(_KNOWN) > 1 << 15:
            _KNOWN.clear()
        _KNOWN[text] = type
    return type


def _read(text: str, aliases: Mapping[str, str]) -> Type:
    if text.startswith("tensor<") and text.endswith(">"):
        return _tensor(text, text[7:-1], aliases)
    if text.startswith("tuple<") and text.endswith(">"):
        return TupleType(tuple(parse_type(part, aliases) for part in split_types(text[6:-1])))
    if text in ("!stablehlo.token", "!mhlo.token"):
        return TokenType()
    word = re.split(r"[<\s]", text)[0]
    if text.startswith(("!", "(")) or _INDEX.fullmatch(text) or "<" in text:
        return DialectType(text)
    hint = did_you_mean(word, ["tensor", "tuple", "complex", "vector", "memref", *ELEMENTS])
    raise ParseError(f"expected a type, found `{text[:40]}`{hint}")


def _tensor(whole: str, inside: str, aliases: Mapping[str, str]) -> Type:
    if inside.lstrip().startswith("*"):
        return DialectType(whole)
    dims = _DIMS.match(inside)
    assert dims is not None
    sizes = tuple(
        None if part.strip() == "?" else int(part) for part in dims[1].split("x") if part.strip()
    )
    parts = split_types(inside[dims.end() :])
    if not parts:
        raise ParseError(f"expected an element type, found `{whole[:40]}`")
    element = _element(parts[0])
    bounds: tuple[int | None, ...] = (None,) * len(sizes) if None in sizes else ()
    if len(parts) == 1:
        return TensorType(element, sizes, bounds=bounds)
    encoding = ", ".join(parts[1:])
    found = _BOUNDS.fullmatch(aliases.get(encoding, encoding))
    if found is None:
        return EncodedType(element, sizes, bounds=bounds, encoding=encoding)
    given = (found[1] if found[1] is not None else found[2]).split(",")
    bounds = tuple(None if b.strip() == "?" else int(b) for b in given if b.strip())
    if len(bounds) != len(sizes):
        raise ParseError(f"{len(bounds)} bounds for {len(sizes)} dimensions")
    return TensorType(element, sizes, bounds=bounds if None in sizes else ())


def _element(text: str) -> ElementType:
    known = ELEMENTS.get(text) or ELEMENTS.get(text.replace(" ", ""))
    if known is not None:
        return known
    if text.startswith("!quant."):
        storage = re.search(r"<\s*(?:[\w.]+<)?\s*[su]?i(\d+)", text)
        return ElementType(text, int(storage[1]) if storage else 8, "quantized")
    if text.startswith("!") or "<" in text:
        return ElementType(text, 0, "opaque")
    bits = re.fullmatch(r"[su]?i(\d+)", text)
    if bits is not None:
        kind = "unsigned" if text[0] == "u" else "signed"
        return ElementType(text, int(bits[1]), kind)
    raise ParseError(f"unknown element type `{text}`{did_you_mean(text, ELEMENTS)}")
