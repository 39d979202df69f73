"""Transfer of discardable attributes from a replaced op to its replacement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hloscope.mlir import Attribute, DictAttr, Operation, Value
from hloscope.passes.rewriting import Rewriter

_BY_ENTRY: Final = "mhlo.frontend_attributes"
"""A dictionary whose entries are merged one by one."""
_OWN: Final = "xla_metadata_payload"
"""Entry that an op keeps if it has one."""


def merged(
    survivor: Mapping[str, Attribute], replaced: Mapping[str, Attribute]
) -> dict[str, Attribute]:
    """Return the attributes of both ops; for a common name, that of the replaced op.

    >>> from hloscope.mlir import UnitAttr
    >>> merged({"b": UnitAttr()}, {"a": UnitAttr()})
    {'a': UnitAttr(), 'b': UnitAttr()}
    """
    both = {**survivor, **replaced}
    old, new = survivor.get(_BY_ENTRY), replaced.get(_BY_ENTRY)
    if isinstance(old, DictAttr) and isinstance(new, DictAttr):
        entries = {**dict(old.entries), **dict(new.entries)}
        entries |= {name: value for name, value in old.entries if name == _OWN}
        both[_BY_ENTRY] = DictAttr(tuple(sorted(entries.items())))
    return dict(sorted(both.items()))


def merge(rewriter: Rewriter, replaced: Operation, value: Value) -> None:
    """Add the attributes of a replaced op to the op that defines `value`, if any."""
    owner = value.owner
    if isinstance(owner, Operation) and replaced.attributes:
        both = merged(owner.attributes, replaced.attributes)
        if both != owner.attributes:
            rewriter.set_attributes(owner, both)
