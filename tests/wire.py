"""Messages of protobuf with fields dropped, repeated, exchanged, or of other values."""

from __future__ import annotations

from random import Random


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _number(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _fields(data: bytes) -> list[tuple[int, bytes]] | None:
    """Each field's tag and value; `None` if it is no message."""
    found, at = [], 0
    try:
        while at < len(data):
            tag, at = _varint(data, at)
            start = at
            match tag & 7:
                case 0:
                    _, at = _varint(data, at)
                case 1:
                    at += 8
                case 2:
                    size, start = _varint(data, at)
                    at = start + size
                case 5:
                    at += 4
                case _:
                    return None
            if at > len(data) or not tag >> 3:
                return None
            found.append((tag, data[start:at]))
    except IndexError:
        return None
    return found


def _joined(fields: list[tuple[int, bytes]]) -> bytes:
    parts = []
    for tag, value in fields:
        length = _number(len(value)) if tag & 7 == 2 else b""
        parts.append(_number(tag) + length + value)
    return b"".join(parts)


def changed_message(data: bytes, rng: Random) -> bytes:
    """The message with one field changed, at any depth.

    >>> fields = b"".join(_number(n << 3) + _number(n) for n in range(1, 9))
    >>> len({changed_message(fields, Random(seed)) for seed in range(50)}) > 10
    True
    """
    fields = _fields(data)
    if not fields:
        return data
    at = rng.randrange(len(fields))
    tag, value = fields[at]
    if tag & 7 == 2 and value and rng.random() < 0.75:
        inner = changed_message(value, rng) if _fields(value) else bytes([rng.randrange(256)])
        fields[at] = (tag, inner)
        return _joined(fields)
    other = rng.randrange(len(fields))
    match rng.randrange(5):
        case 0:
            del fields[at]
        case 1:
            fields.insert(other, fields[at])
        case 2:
            fields[at], fields[other] = fields[other], fields[at]
        case 3:
            fields[at] = (fields[other][0] & ~7 | tag & 7, value)
        case _ if tag & 7 == 0:
            new = rng.choice([0, 1, 2, 7, 1 << 31, (1 << 63) - 1, (1 << 64) - 1, rng.randrange(64)])
            fields[at] = (tag, _number(new))
        case _:
            fields[at] = (tag, fields[other][1] if fields[other][0] & 7 == tag & 7 else value)
    return _joined(fields)
