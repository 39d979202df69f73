"""Sizes of arrays as text and JSON: the data, and the padding of tiles if there is any."""

from __future__ import annotations

from hloscope.ir import Type, array_bytes, size_text


def padded_text(type: Type) -> str:
    """Bytes of a type, with its padded bytes if there are more.

    Empty if an array has a size without a bound.

    >>> from hloscope.hlo_parser import parse_type
    >>> padded_text(parse_type("f32[12582912,1]{1,0:T(8,128)}"))
    '48 MiB (6 GiB padded)'
    """
    found = array_bytes(type)
    return "" if found is None else size_text(found.data) + padding_text(type)


def padding_text(type: Type) -> str:
    """The padded bytes of a type in brackets, after a space; empty without padding."""
    found = array_bytes(type)
    if found is None or found.padded == found.data:
        return ""
    return f" ({size_text(found.padded)} padded)"


def bytes_json(type: Type) -> dict[str, int]:
    """`bytes` and `padded_bytes` of a type; empty if an array has a size without a bound."""
    found = array_bytes(type)
    return {} if found is None else {"bytes": found.data, "padded_bytes": found.padded}
