"""Results that share memory with parameters or operands, as headers and instructions state.

Forms: `input_output_alias={ {0}: (1, {}, may-alias) }` (result 0 takes the memory of parameter 1),
`buffer_donor={ (2, {0}) }` (part 0 of parameter 2 may be reused), and
`output_to_operand_aliasing={{}: (0, {})}` (the result takes the memory of operand 0).

Source: XLA `hlo_parser.cc` (`ParseAliasing`, `ParseBufferDonor`, `ParseInstructionOutputOperand`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from hloscope.errors import ParseError
from hloscope.lazy import pattern
from hloscope.source import Span

INPUT_OUTPUT_ALIAS: Final = "input_output_alias"
BUFFER_DONOR: Final = "buffer_donor"
OPERAND_ALIASING: Final = "output_to_operand_aliasing"

_INDEX: Final = r"\{\s*((?:\d+\s*(?:,\s*\d+\s*)*)?)\}"
_BUFFER: Final = rf"\(\s*(\d+)\s*,\s*{_INDEX}\s*(?:,\s*(may-alias|must-alias)\s*)?\)"
_ALIAS: Final = pattern(rf"\s*{_INDEX}\s*:\s*{_BUFFER}\s*(?:,|$)")
_DONOR: Final = pattern(rf"\s*{_BUFFER}\s*(?:,|$)")
_NUMBER: Final = pattern(r"\d+")
_DIGITS: Final = 9
"""Maximum digits of the number of a parameter or tuple part."""

ShapeIndex: TypeAlias = tuple[int, ...]
"""Path to a part of a tuple, outermost element first; `()` is the whole value."""


class Aliasing(NamedTuple):
    """One entry: a buffer, and the part of the result that reuses it.

    Attributes:
        output: Index of the part of the result; `None` for a buffer donor.
        taken: Number of the parameter or operand.
        inside: Index of the part of that parameter or operand.
    """

    output: ShapeIndex | None
    taken: int
    inside: ShapeIndex


def read_aliasing(name: str, text: str | None, span: Span | None = None) -> Iterator[Aliasing]:
    """Yield the entries of an attribute in the order of the text; none if the text is `None`.

    Args:
        name: `input_output_alias`, `buffer_donor` or `output_to_operand_aliasing`.
        text: The value as written, with its braces.
        span: Where errors are reported.

    Raises:
        ParseError: An entry is not in the grammar.  Entries before it have been yielded.

    >>> list(read_aliasing("input_output_alias", "{ {1}: (0, {}, may-alias) }"))
    [Aliasing(output=(1,), taken=0, inside=())]
    >>> list(read_aliasing("buffer_donor", "{ (2, {0, 1}) }"))
    [Aliasing(output=None, taken=2, inside=(0, 1))]
    """
    form = _DONOR if name == BUFFER_DONOR else _ALIAS
    inside, at = (text or "{}").strip()[1:-1], 0
    while inside[at:].strip():
        found = form.match(inside, at)
        if found is None or any(len(n) > _DIGITS for n in _NUMBER.findall(found[0])):
            needs = "(parameter, {index})" if form is _DONOR else _ALIAS_FORM
            message = f"{name}: expected {needs}, found `{inside[at:].strip()[:40]}`"
            raise ParseError(message, span=span)
        at = found.end()
        *outputs, taken, index, _ = found.groups()
        yield Aliasing(_index(outputs[0]) if outputs else None, int(taken), _index(index))


_ALIAS_FORM: Final = "{index}: (parameter, {index}, kind)"


def _index(text: str) -> ShapeIndex:
    return tuple(map(int, re.findall(r"\d+", text)))


def aliasing_in(texts: Iterable[tuple[str, str]], name: str) -> tuple[Aliasing, ...]:
    """Return the entries of an attribute among `(name, text)` pairs; none if the text is invalid.

    The verifier reports invalid texts.

    Args:
        texts: `extras` of a module, or `settings` of an op.
        name: Name of the attribute.

    >>> aliasing_in([("buffer_donor", "{ (2, {}) }")], "buffer_donor")
    (Aliasing(output=None, taken=2, inside=()),)
    """
    try:
        return tuple(read_aliasing(name, dict(texts).get(name)))
    except ParseError:
        return ()


def index_text(index: ShapeIndex) -> str:
    """Return a shape index as XLA writes it.

    >>> index_text((0, 1)), index_text(())
    ('{0, 1}', '{}')
    """
    return f"{{{', '.join(map(str, index))}}}"
