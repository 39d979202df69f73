"""Decoding of everything in a module that reading leaves as text, so that every error shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hloscope.errors import ParseError, UnsupportedError
from hloscope.hlo_parser.attributes import moved
from hloscope.hlo_parser.metadata import (
    read_metadata,
    read_origin,
    read_stack_frames,
    read_statistics,
)
from hloscope.hlo_parser.sharding import read_sharding
from hloscope.ir import Instruction, Module, Written
from hloscope.ops import Constant

_READERS: Final[dict[str, Callable[[str], object]]] = {
    "metadata": read_metadata,
    "sharding": read_sharding,
    "origin": read_origin,
    "statistics": read_statistics,
}


def decode_module(module: Module) -> int:
    r"""Decode everything that `parse_hlo` leaves as text; return the number of decoded values.

    These are attributes of instructions of any opcode (metadata, shardings, configs), the values of
    constants that are not elided, and the tables of stack frames.

    >>> from hloscope.hlo_parser.reader import parse_hlo
    >>> m = parse_hlo('ENTRY e { ROOT x = f32[] constant(2), metadata={op_name="y"} }')
    >>> decode_module(m)
    2

    Args:
        module: A module read from HLO.

    Raises:
        ParseError: A text is invalid; the error has its position.
    """
    count, reader_of = 0, _READERS.get
    read_stack_frames(module.preamble)
    for computation in module:
        for ins in computation:
            for name, text in ins.extras:
                reader = reader_of(name)
                try:
                    if reader is not None:
                        reader(text)
                    elif isinstance(text, Written):
                        text.value  # noqa: B018  (reads it)
                    else:
                        continue
                except ParseError as error:
                    raise _placed(error, ins, text) from None
                count += 1
            if type(ins.op) is Constant:
                count += _decode_constant(ins, ins.op)
    return count


def _decode_constant(ins: Instruction, op: Constant) -> int:
    literal = op.literal
    if literal.is_elided:
        return 0
    try:
        literal.array(ins.type)
    except ParseError as error:
        raise _placed(error, ins, literal.written) from None
    except UnsupportedError:  # no array is so large
        return 0
    return 1


def _placed(error: ParseError, ins: Instruction, text: str) -> ParseError:
    """Return the error with its position in the module, if that is known."""
    span = ins.span
    if span is None:
        return error
    at = span.source.text.find(text, span.start, span.end)
    return moved(error, span.source, at) if at >= 0 else error
