"""Data of `dense_resource<name>` attributes, at the end of a text.

The form is `{-# dialect_resources: { builtin: { name: "0x…" } } #-}`: four bytes of alignment,
little-endian, then the elements in row-major order, little-endian.

Source: MLIR, `AsmParser`'s `parseResourceFileMetadata` and `AsmResourceBlob`.
"""

from __future__ import annotations

from typing import Final

from hloscope.errors import UnsupportedError
from hloscope.lazy import pattern
from hloscope.mlir.text.escape import unquoted

_NAME: Final = r'([A-Za-z_][\w$.]*|"(?:[^"\\]|\\.)*")'
_ENTRY: Final = pattern(rf'\s*{_NAME}\s*:\s*"0x((?:[0-9A-Fa-f]{{2}})*)"\s*(,?)')
_GROUP: Final = pattern(rf"\s*{_NAME}\s*:\s*\{{")
_SECTION: Final = pattern(r"(?<![\w$.])dialect_resources\s*:\s*\{")
_CLOSE: Final = pattern(r"\s*\}\s*,?")
_USE: Final = pattern(rf"dense_resource<\s*{_NAME}\s*>")


class ResourceTable:
    """Resources of one text, parsed when a value is first needed.

    Attributes:
        text: The section `{-# … #-}`; empty if the text has none.
    """

    __slots__ = ("_found", "text")

    def __init__(self, text: str = "") -> None:
        self.text = text
        self._found: dict[str, tuple[int, bytes]] | None = None

    def blob(self, attribute: str) -> bytes | None:
        """Return the data of the resource of `dense_resource<name> : type`, or `None`.

        Raises:
            UnsupportedError: The resources are damaged.
        """
        use = _USE.match(attribute)
        if use is None:
            return None
        if self._found is None:
            self._found = resources_of(self.text)
        found = self._found.get(plain_name(use[1]))
        return None if found is None else found[1]


def resources_of(text: str) -> dict[str, tuple[int, bytes]]:
    r"""Return alignment and data of the resources of `builtin`, from the end of a text.

    >>> resources_of('{-# dialect_resources: { builtin: { a: "0x04000000FF" } } #-}')
    {'a': (4, b'\xff')}

    Raises:
        UnsupportedError: A resource is damaged.
    """
    found: dict[str, tuple[int, bytes]] = {}
    section = _SECTION.search(text)
    if section is None:
        return found
    at = section.end()
    while group := _GROUP.match(text, at):
        at = group.end()
        while entry := _ENTRY.match(text, at):
            at = entry.end()
            if group[1] == "builtin":
                found[plain_name(entry[1])] = _value(entry[1], bytes.fromhex(entry[2]))
        at = _after(text, at)
    return found


def _after(text: str, at: int) -> int:
    """Return the offset after the closing bracket of a group, and a comma."""
    found = _CLOSE.match(text, at)
    if found is None:
        raise UnsupportedError("the resources of a module are not understood")
    return found.end()


def plain_name(name: str) -> str:
    """Return the name of a resource without quotes."""
    return unquoted(name).decode("utf-8", "surrogateescape") if name[0] == '"' else name


def _value(name: str, data: bytes) -> tuple[int, bytes]:
    alignment = int.from_bytes(data[:4], "little")
    if len(data) < 4 or alignment & (alignment - 1):
        raise UnsupportedError(f"the resource {name} has no alignment")
    return alignment, data[4:]
