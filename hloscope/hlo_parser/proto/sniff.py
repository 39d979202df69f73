"""Detection of HLO protos by their first fields, so that damaged ones are detected, too."""

from __future__ import annotations

from typing import Final

from hloscope.lazy import pattern

FORMS: Final = ("HloModuleProto", "HloProto", "HloSnapshot")
"""The message, by the number of messages around the module's name."""

_LENGTH: Final = pattern(rb"[\x80-\xff]{0,9}[\x00-\x7f]")
_NAME: Final = pattern(rb"[\w.<>:/-]+")
_CONTROL: Final = pattern(rb"[\x00-\x08\x0e-\x1f]")
_FIRST: Final = 4096
"""Number of bytes that are inspected."""


def form(data: bytes) -> str:
    r"""Return the name of the message in `data`; empty if it is not an HLO proto.

    >>> form(b"\n\x05jit_f\x12\x04main"), form(b"\n\x0d\n\x05jit_f\x12\x04main")
    ('HloModuleProto', 'HloProto')
    >>> form(b"\n\nHloModule m")
    ''
    """
    head = data[:_FIRST]
    if head[:1] not in (b"\n", b"\x12") or not _CONTROL.search(head):
        return ""
    at = 0
    for message in FORMS:
        tag = head[at : at + 1]
        length = _LENGTH.match(head, at + 1)
        if length is None or tag not in (b"\n", b"\x12"):
            return ""
        start, size = length.end(), _value(length[0])
        name = _NAME.match(head, start, min(start + size, len(head)))
        if name and (name.end() == start + size or name.end() == len(head)):
            return message
        if tag == b"\x12":
            return ""
        at = start
    return ""


def is_proto(data: bytes) -> bool:
    """Are these the first bytes of an HLO proto, complete or damaged?"""
    return bool(form(data))


def _value(varint: bytes) -> int:
    return sum((byte & 127) << 7 * number for number, byte in enumerate(varint))
