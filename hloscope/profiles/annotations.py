"""XLA's annotations of launches: `Thunk:#name=dot,hlo_op=dot.3#`.

Source: XLA `xla/backends/gpu/runtime/annotation.cc`, tsl `profiler/utils/parse_annotation.cc`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from hloscope.profiles.events import unsigned

_CLOSING: Final = {"(": ")", "[": "]", "{": "}", '"': '"'}
_MOST: Final = 1 << 16
"""Maximum number of characters of an annotation that are read."""


class Annotation(NamedTuple):
    """The names in an annotation; empty or `None` if they are missing.

    Attributes:
        hlo_op: Name of an instruction.
        hlo_module: Name of a module.
        program_id: Number of a program.
    """

    hlo_op: str = ""
    hlo_module: str = ""
    program_id: int | None = None


def pairs(text: str) -> dict[str, str]:
    """Return the `key=value` pairs between the last two `#`, split at commas outside quotes.

    >>> pairs("TSL:Thunk:#name=f(a,b),hlo_op=dot.3#")
    {'name': 'f(a,b)', 'hlo_op': 'dot.3'}
    >>> pairs("a range of the user's")
    {}
    """
    found: dict[str, str] = {}
    if not text.endswith("#") or len(text) > _MOST:
        return found
    start = text.rfind("#", 0, -1)
    if start < 0:
        return found
    inside, piece, closing = text[start + 1 : -1], "", list[str]()
    for sign in inside + ",":
        if sign == "," and not closing:
            key, equals, value = piece.partition("=")
            if equals:
                found[key.strip()] = value.strip()
            piece = ""
            continue
        if closing and sign == closing[-1]:
            closing.pop()
        elif sign in _CLOSING and closing[-1:] != ['"']:
            closing.append(_CLOSING[sign])
        piece += sign
    return found


# A program has few texts: an export of nsys with 300,000 launches is read in half the time.
@lru_cache(maxsize=1 << 12)
def annotation(text: str) -> Annotation:
    """Return the innermost names in a text of annotations joined by `::`.

    >>> annotation("XlaModule:#hlo_module=jit_f,program_id=7#::Thunk:#hlo_op=dot.3#")
    Annotation(hlo_op='dot.3', hlo_module='jit_f', program_id=7)
    """
    known: dict[str, str] = {}
    for part in text[:_MOST].split("::"):
        known |= pairs(part)
    number = unsigned(known.get("program_id", ""))
    return Annotation(known.get("hlo_op", ""), known.get("hlo_module", ""), number)


def innermost(texts: list[str]) -> Annotation:
    """Return the innermost op and module of nested ranges, given the outermost first."""
    op, module, program_id = "", "", None
    for text in texts:
        found = annotation(text)
        op = found.hlo_op or op
        if found.hlo_module:
            module, program_id = found.hlo_module, found.program_id
        elif found.program_id is not None:
            program_id = found.program_id
    return Annotation(op, module, program_id)
