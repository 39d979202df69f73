"""Files of `jax.export`: an artifact, and its calling convention.

Source: JAX's `serialization.fbs`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hloscope.bytecode.cursor import BytecodeError
from hloscope.bytecode.flatbuffer import Table, root
from hloscope.bytecode.image import is_bytecode

_VERSION, _NAME, _IN_TREE, _OUT_TREE, _PLATFORMS, _MODULE, _CALLING = 4, 6, 8, 12, 22, 30, 32
_VJP, _DEVICES = 38, 40
_MOST_VJPS: Final = 64
_MOST_NODES: Final = 10_000


class Exported(NamedTuple):
    """One exported function.

    Attributes:
        function: Name of the function.
        version: Version of the format.
        calling_convention: Version of the calling convention.
        platforms: Platforms it was lowered for.
        devices: Number of devices it runs on.
        in_tree: Pytree of the arguments as text, with `*` for each array.
        out_tree: Pytree of the results, as text.
        module: The portable artifact.
        derivatives: Number of derivatives nested in this one in the file.
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
    """Has a file been written by `jax.export`?"""
    if len(data) < 8 or is_bytecode(data):
        return False
    try:
        return is_bytecode(root(data, "").vector(_MODULE) or b"")
    except BytecodeError:
        return False


def read_exported(data: bytes, name: str = "<bytes>") -> list[Exported]:
    """Read the function of a `jax.export` file, then its derivatives.

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
    """Return a pytree of Python containers as text."""
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
