"""Strings, names and symbols in MLIR's text."""

from __future__ import annotations

from typing import Final

from hloscope.support.lazy import pattern

_PLAIN: Final = pattern(r"[ !#-\[\]-~]*")
_BARE: Final = pattern(r"[A-Za-z_][A-Za-z0-9_$.]*")
_ESCAPES: Final = {
    byte: chr(byte) if 32 <= byte < 127 and byte != 34 else f"\\{byte:02X}" for byte in range(256)
} | {92: "\\\\"}
_ESCAPED: Final = pattern(rb'\\([\\"nt]|[0-9A-Fa-f]{2})')
_UNESCAPED: Final = {b"\\": b"\\", b'"': b'"', b"n": b"\n", b"t": b"\t"}


def quoted(value: bytes | str) -> str:
    r"""Return a string in quotes; characters that are not printable ASCII become `\XX`.

    >>> print(quoted('say "é"'))
    "say \22\C3\A9\22"
    """
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    elif not value.isascii():
        value = value.encode("utf-8", "surrogateescape").decode("latin-1")
    if _PLAIN.fullmatch(value):
        return f'"{value}"'
    return f'"{value.translate(_ESCAPES)}"'


def bare_or_quoted(name: str) -> str:
    """Return a name unchanged if it is an identifier, else in quotes.

    >>> bare_or_quoted("jax.result_info"), bare_or_quoted("a b")
    ('jax.result_info', '"a b"')
    """
    return name if _BARE.fullmatch(name) else quoted(name)


def symbol(name: str) -> str:
    """Return `@name`, with quotes if the name needs them.

    >>> print(symbol("main"), symbol("<lambda>"))
    @main @"<lambda>"
    """
    return f"@{bare_or_quoted(name)}"


def unquoted(text: str) -> bytes:
    r"""Return the bytes of a quoted string of MLIR's text.

    >>> unquoted(r'"a\22\C3\A9\n"').decode()
    'a"é\n'
    """
    inner = text[1:-1].encode("utf-8", "surrogateescape")
    if b"\\" not in inner:
        return inner
    return _ESCAPED.sub(lambda found: _UNESCAPED.get(found[1]) or _byte(found[1]), inner)


def _byte(digits: bytes) -> bytes:
    return bytes.fromhex(digits.decode())
