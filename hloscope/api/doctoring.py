"""What is to be known of an artifact, of a file or of bytes."""

from __future__ import annotations

import os

from hloscope.api.artifacts import artifact_bytes
from hloscope.bytecode import Health, examine


def doctor(data: bytes | os.PathLike[str], *, name: str = "") -> Health:
    """What is to be known of an artifact.

    Args:
        data: The bytes, or a file.
        name: What messages call them.

    Raises:
        InputError: It is no artifact.
        BytecodeError: It is damaged.

    >>> from hloscope.api.artifacts import serialize
    >>> text = '''func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
    ...   %0 = stablehlo.tan %x : tensor<2xf32>
    ...   return %0 : tensor<2xf32> }'''
    >>> health = doctor(serialize(text, "1.10.0"))
    >>> health.readable_by, health.oldest_target
    ('1.10.0', '1.4.0')
    """
    return examine(*artifact_bytes(data, name))
