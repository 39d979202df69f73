"""Files of `jax.export`: an artifact and its calling convention, in a FlatBuffer."""

from __future__ import annotations

from typing import Final, NamedTuple

from hloscope.stablehlo.bytecode.fields import BytecodeError
from hloscope.stablehlo.bytecode.image import is_bytecode

# --------------------------------------------------------------------------------------------------
# Files of `jax.export`: an artifact, and its calling convention.
#
# Source: JAX's `serialization.fbs`.


_VERSION, _NAME, _IN_TREE, _OUT_TREE, _PLATFORMS, _MODULE, _CALLING = 4, 6, 8, 12, 22, 30, 32
_VJP, _DEVICES = 38, 40
_MOST_VJPS: Final = 64
_MOST_NODES: Final = 10_000


class Exported(NamedTuple):
    """One function in a file of `jax.export`.

    Attributes:
        function: Name of the function.
        version: Version of the file format.
        calling_convention: Version of the calling convention.
        platforms: Platforms for which the function was lowered.
        devices: Number of devices on which it runs.
        in_tree: Pytree of the arguments as text, with `*` for each array.
        out_tree: Pytree of the results, as text.
        module: The portable artifact.
        derivatives: Number of derivatives (VJPs) that the file nests in this function.
    """

    function: str
    version: int
    calling_convention: int
    platforms: tuple[str, ...]
    devices: int
    in_tree: str
    out_tree: str
    module: bytes
    derivatives: int


def is_exported(data: bytes) -> bool:
    """Are the data a file that `jax.export` wrote?"""
    if len(data) < 8 or is_bytecode(data):
        return False
    try:
        return is_bytecode(root(data, "").vector(_MODULE) or b"")
    except BytecodeError:
        return False


def read_exported(data: bytes, name: str = "<bytes>") -> list[Exported]:
    """Return the function in a `jax.export` file, and then its derivatives.

    `data` are the bytes of the file, `name` is its name in messages.

    Raises:
        BytecodeError: The file is damaged.
    """
    table: Table | None = root(data, name)
    found: list[Exported] = []
    while table is not None:
        # Each function contains its derivative. The bound stops a damaged file whose tables refer
        # to each other in a cycle.
        module = table.vector(_MODULE)
        if module is None or len(found) > _MOST_VJPS:
            raise BytecodeError("an exported function has no module", name, 0, "FlatBuffer")
        found.append(
            Exported(
                table.string(_NAME),
                table.number(_VERSION, 2),
                table.number(_CALLING, 2),
                tuple(table.strings(_PLATFORMS)),
                table.number(_DEVICES, 4),
                _tree(table.table(_IN_TREE)),
                _tree(table.table(_OUT_TREE)),
                module,
                0,
            )
        )
        table = table.table(_VJP)
    return [one._replace(derivatives=len(found) - 1 - i) for i, one in enumerate(found)]


_LEAF, _NONE, _TUPLE, _LIST, _DICT, _CUSTOM = range(6)
_BRACKETS: Final = {_TUPLE: "()", _LIST: "[]", _DICT: "{}"}


def _tree(node: Table | None) -> str:
    """Return the text of a pytree, given its node in the FlatBuffer."""
    if node is None:
        return ""
    out: list[str] = []
    stack: list[Table | str] = [node]
    # Texts on the stack are written as they come; a node is replaced by its brackets, children and
    # separators in reverse, so that the first comes out first.
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            out.append(top)
            continue
        if len(out) > _MOST_NODES:
            return "".join(out) + "…"
        kind = top.number(4, 1)
        if kind in (_LEAF, _NONE):
            out.append("*" if kind == _LEAF else "None")
            continue
        brackets = _BRACKETS.get(kind, "()")
        children, names = top.tables(6), top.strings(8)
        closing = brackets[1] if kind != _TUPLE or len(children) != 1 else ",)"
        parts: list[Table | str] = [(top.string(10) if kind == _CUSTOM else "") + brackets[0]]
        for position, child in enumerate(children):
            if position:
                parts.append(", ")
            if kind == _DICT and position < len(names):
                parts.append(f"{names[position]}: ")
            parts.append(child)
        stack += reversed([*parts, closing])
    return "".join(out)


# --------------------------------------------------------------------------------------------------
# FlatBuffers, as far as `jax.export` writes them: tables, strings, vectors.
#
# Source: FlatBuffers' "FlatBuffer Internals".


_MOST: Final = 1 << 16
"""Maximum number of elements of a vector of tables or strings in a FlatBuffer."""


class Table:
    """A table of a FlatBuffer: fields by slot, each of which may be missing.

    A slot is the byte offset of a field's entry in the vtable: 4, 6, 8 ….
    """

    __slots__ = ("_at", "_data", "_name", "_vtable")

    def __init__(self, data: bytes, at: int, name: str) -> None:
        self._data, self._at, self._name = data, at, name
        self._vtable = at - self._signed(at)
        if self._number(self._vtable, 2) < 4:
            self._fail(self._vtable, "a table has no fields")

    def _fail(self, at: int, message: str) -> None:
        raise BytecodeError(message, self._name, max(at, 0), "FlatBuffer")

    def _number(self, at: int, size: int) -> int:
        if not 0 <= at <= len(self._data) - size:
            self._fail(at, f"{size} bytes are needed beyond the end of the file")
        return int.from_bytes(self._data[at : at + size], "little")

    def _signed(self, at: int) -> int:
        value = self._number(at, 4)
        return value - (1 << 32) if value >> 31 else value

    def _field(self, slot: int) -> int:
        """Return the offset in the file of the field in a slot; 0 if it is missing."""
        if slot + 2 > self._number(self._vtable, 2):
            return 0
        offset = self._number(self._vtable + slot, 2)
        return self._at + offset if offset else 0

    def _target(self, at: int) -> int:
        return at + self._number(at, 4)

    def number(self, slot: int, size: int, default: int = 0) -> int:
        """Return the unsigned integer of `size` bytes in a slot; `default` if it is missing."""
        at = self._field(slot)
        return self._number(at, size) if at else default

    def vector(self, slot: int) -> bytes | None:
        """Return the bytes of the vector in a slot; `None` if it is missing."""
        at = self._field(slot)
        return self._bytes(self._target(at)) if at else None

    def _bytes(self, at: int) -> bytes:
        size = self._number(at, 4)
        if size > len(self._data) - at - 4:
            self._fail(at, f"a vector of {size:,} bytes is too long")
        return self._data[at + 4 : at + 4 + size]

    def string(self, slot: int) -> str:
        """Return the string in a slot; empty if it is missing."""
        return (self.vector(slot) or b"").decode("utf-8", "surrogateescape")

    def _elements(self, slot: int) -> range:
        at = self._field(slot)
        if not at:
            return range(0)
        start = self._target(at)
        count = self._number(start, 4)
        if count > min(_MOST, (len(self._data) - start) // 4):
            self._fail(start, f"a vector of {count:,} elements is too long")
        return range(start + 4, start + 4 + 4 * count, 4)

    def strings(self, slot: int) -> list[str]:
        """Return the strings of the vector in a slot; empty if it is missing."""
        found = [self._bytes(self._target(at)) for at in self._elements(slot)]
        return [one.decode("utf-8", "surrogateescape") for one in found]

    def tables(self, slot: int) -> list[Table]:
        """Return the tables of the vector in a slot; empty if it is missing."""
        return [Table(self._data, self._target(at), self._name) for at in self._elements(slot)]

    def table(self, slot: int) -> Table | None:
        """Return the table in a slot; `None` if it is missing."""
        at = self._field(slot)
        return Table(self._data, self._target(at), self._name) if at else None


def root(data: bytes, name: str) -> Table:
    """Return the root table of a FlatBuffer, whose bytes are `data`.

    `name` is the file name in errors.
    """
    if len(data) < 8:
        raise BytecodeError("the file is too short", name, 0, "FlatBuffer")
    return Table(data, int.from_bytes(data[:4], "little"), name)
