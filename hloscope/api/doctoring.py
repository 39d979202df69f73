"""Compatibility of an artifact: a file or bytes."""

from __future__ import annotations

import os
from typing import Any

from hloscope.api.artifacts import artifact_bytes
from hloscope.bytecode import Health, examine
from hloscope.display import Shown, health_json, health_text
from hloscope.visible import visible


class Diagnosis(Shown, Health, frozen=True):
    """The contents of an artifact, and the versions that can read it.

    Its text is that of `hloscope doctor`.
    """

    def to_json(self) -> dict[str, Any]:
        """An object of schema `hloscope.doctor/1`."""
        return health_json(self)

    def __str__(self) -> str:
        return visible(health_text(self).rstrip("\n"))

    __repr__ = __str__


def doctor(data: bytes | os.PathLike[str], *, name: str = "") -> Diagnosis:
    """Examine an artifact: its versions, contents, and which StableHLO versions can read it.

    Args:
        data: The bytes, or a file.
        name: Name of the artifact in messages.

    Raises:
        InputError: It is not an artifact.
        BytecodeError: It is damaged.

    >>> from hloscope.api.artifacts import serialize
    >>> text = '''func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
    ...   %0 = stablehlo.tan %x : tensor<2xf32>
    ...   return %0 : tensor<2xf32> }'''
    >>> health = doctor(serialize(text, "1.10.0"))
    >>> health.readable_by, health.oldest_target
    ('1.10.0', '1.4.0')
    """
    found = examine(*artifact_bytes(data, name))
    return Diagnosis(*[getattr(found, field) for field in Health.__struct_fields__])
