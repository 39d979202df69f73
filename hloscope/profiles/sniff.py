"""Detection of XPlane files by their first bytes, so that a cut file is still recognised."""

from __future__ import annotations

from typing import Final

HEAD: Final = 64
"""Number of bytes that are inspected."""


def is_xspace(data: bytes) -> bool:
    r"""Are these the first bytes of an `XSpace`, whose first plane has a plane's name?

    >>> is_xspace(b"\n\x1b\x08\x01\x12\x0d/device:GPU:0")
    True
    >>> is_xspace(b"\n\x0d\n\x05jit_f\x12\x04main")  # an HloProto
    False
    """
    head = data[:HEAD]
    if head[:1] != b"\n":
        return False
    at = 1
    while at < len(head) and head[at] > 127:
        at += 1
    at += 1
    if head[at : at + 1] == b"\x08":  # the id
        at += 1
        while at < len(head) and head[at] > 127:
            at += 1
        at += 1
    name = head[at + 2 :]
    starts = (b"/host:", b"/device:", b"Task Environment", b"#Chip", b"/custom:", b"/misc")
    return head[at : at + 1] == b"\x12" and name.startswith(starts)
