"""Arguments of kernels in the syntax of the command, and random arrays for HLO types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from hloscope.arrays import Array
from hloscope.compare import load, save
from hloscope.errors import InputError, ParseError
from hloscope.hlo_parser import parse_type
from hloscope.interpreter import byte_size, check_evaluable, dtype_of
from hloscope.ir import TensorType
from hloscope.lazy import pattern
from hloscope.ptx import KernelError, PtxRun

MOST_INDEX: Final = 100
"""Integers are drawn below this, so that they fit into 8 bits."""
_WORD: Final = pattern(r"([A-Za-z_]\w*)=(\S+)")
_ARRAY: Final = pattern(r"([a-z]\w*\[[\d,]*\])(?::(\S+))?")
_INTEGER: Final = pattern(r"[-+]?(?:0[xX][0-9a-fA-F]+|\d+)")


def ptx_arguments(
    words: Iterable[str], *, seed: int = 0, max_bytes: int = 1 << 30
) -> dict[str, Array | int | float]:
    """Parse the arguments of a kernel; return them by name.

    Args:
        words: `x=f32[4,8]`, an array of random numbers; `x=f32[4,8]:0`, of one number;
            `x=FILE.npy`; `n=3` or `a=2.5`, a number.
        seed: Seed of the random numbers.
        max_bytes: Most bytes of an array.

    Raises:
        ValueError: A word is none of these; the message says which.
        InputError: A file cannot be read.
        KernelError: An array is too large.

    >>> found = ptx_arguments(["x=s32[2]:7", "n=3", "a=0.5"])
    >>> found["x"].tolist(), found["n"], found["a"]
    ([7, 7], 3, 0.5)
    """
    found: dict[str, Array | int | float] = {}
    for number, word in enumerate(words):
        parts = _WORD.fullmatch(word)
        if parts is None:
            raise ValueError(f"`{word}` is not NAME=VALUE")
        name, value = parts[1], parts[2]
        if name in found:
            raise ValueError(f"argument `{name}` is given twice")
        found[name] = _value(name, value, seed + number, max_bytes)
    return found


def _value(name: str, text: str, seed: int, max_bytes: int) -> Array | int | float:
    if text.endswith((".npy", ".npz")):
        arrays = load(text, most_bytes=max_bytes)
        if len(arrays) != 1 and name not in arrays:
            raise InputError(f"{text} has {len(arrays)} arrays, none of them `{name}`")
        return arrays[name] if name in arrays else next(iter(arrays.values()))
    array = _ARRAY.fullmatch(text)
    try:
        if array is not None:
            fill = None if array[2] is None else float(array[2])
            return _array(name, array[1], fill, seed, max_bytes)
        return int(text, 0) if _INTEGER.fullmatch(text) else float(text)
    except ParseError as error:
        raise ValueError(f"`{name}={text}`: {error.message}") from None
    except ValueError:
        what = "an array f32[4,8] or f32[4,8]:0, a file FILE.npy or a number"
        raise ValueError(f"`{name}={text}` is not {what}") from None


def _array(name: str, text: str, fill: float | None, seed: int, max_bytes: int) -> Array:
    type_ = parse_type(text)
    assert isinstance(type_, TensorType)  # an element type and sizes, as `_ARRAY` has them
    check_evaluable(type_)
    if byte_size(type_) > max_bytes:
        message = f"argument `{name}` has {byte_size(type_):,} bytes, more than {max_bytes:,}"
        raise KernelError(message, rule="max_bytes")
    if fill is None:
        return drawn(type_, np.random.default_rng(seed), MOST_INDEX)
    return np.full(type_.shape, fill).astype(dtype_of(type_.element))


def drawn(type_: TensorType, generator: np.random.Generator, below: int) -> Array:
    """Return a random array: floats from a normal distribution, integers from 0 to `below - 1`."""
    dtype, shape = dtype_of(type_.element), type_.shape
    match type_.element.kind:
        case "pred":
            return np.asarray(generator.integers(0, 2, shape)).astype(dtype)
        case "signed" | "unsigned":
            most = min(below, 1 << (type_.element.bits - 1))
            return np.asarray(generator.integers(0, most, shape)).astype(dtype)
        case "complex":
            parts = generator.standard_normal((2, *shape))
            return np.asarray(parts[0] + 1j * parts[1]).astype(dtype)
    return np.asarray(generator.standard_normal(shape)).astype(dtype)


def save_outputs(path: str, run: PtxRun) -> None:
    """Write the arrays of an executed kernel to a `.npz` file, or its only array to a `.npy` file.

    Raises:
        InputError: The file cannot be written, or a `.npy` file is to hold several arrays.
    """
    save(path, run.outputs)
