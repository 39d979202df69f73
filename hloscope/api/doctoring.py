"""What is to be known of an artifact, of a file or of bytes."""

from __future__ import annotations

import os

from hloscope.api.artifacts import is_artifact
from hloscope.api.compressed import read_file
from hloscope.bytecode import Health, examine
from hloscope.errors import InputError


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
    if isinstance(data, os.PathLike):
        name = name or os.fspath(data)
        data = read_file(data)
    name = name or "<bytes>"
    if not is_artifact(data):
        raise InputError(f"{name} is neither MLIR bytecode nor what `jax.export` writes")
    return examine(bytes(data), name)
