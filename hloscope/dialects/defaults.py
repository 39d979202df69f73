"""Values of attributes that are not written, from the rows.

Source: `DefaultValuedAttr` and `DefaultValuedOptionalAttr` in the definitions of the dialects; the
texts that jaxlib prints for each op.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hloscope.mlir import (
    I32,
    ArrayAttr,
    Attribute,
    AttributeSlot,
    BoolAttr,
    Definition,
    DictAttr,
    EnumAttr,
    IntegerAttr,
    StringAttr,
    StructAttr,
    VerbatimAttr,
)

_ACCURACY: Final = StructAttr(
    "stablehlo",
    "result_accuracy",
    (("mode", EnumAttr("stablehlo", "result_accuracy_mode", "DEFAULT")),),
)
_EMPTY: Final[dict[str, Attribute]] = {
    "{}": DictAttr(()),
    "[]": ArrayAttr(()),
    '""': StringAttr(b""),
    "true": BoolAttr(True),
    "false": BoolAttr(False),
}


def default(slot: AttributeSlot) -> Attribute | None:
    """Return the value that a missing attribute stands for; `None` if it stands for none.

    >>> default(AttributeSlot("lower", "bool", optional=True, default="false"))
    BoolAttr(value=False)
    """
    if slot.constraint == "accuracy":
        return _ACCURACY
    text = slot.default
    if not text:
        return None
    if text in _EMPTY:
        return _EMPTY[text]
    return VerbatimAttr(text) if text.startswith("#") else IntegerAttr(int(text), I32)


def elided(definition: Definition) -> Mapping[str, Attribute]:
    """Return the values that pretty forms leave out, by attribute."""
    found = {slot.name: default(slot) for slot in definition.attributes if not slot.given}
    return {name: value for name, value in found.items() if value is not None}


def given(definition: Definition) -> Mapping[str, Attribute]:
    """Return the values that MLIR adds to an op when it reads it, by attribute.

    The generic form prints them.
    """
    found = {slot.name: default(slot) for slot in definition.attributes if slot.given}
    return {name: value for name, value in found.items() if value is not None}
