"""Values in `.npz` and `.npy` files.

Numpy's files know numpy's types only.  Elements of other types are stored as their bits, in
unsigned integers, and integers of few bits in one byte each.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final

import numpy as np

from hloscope.errors import InputError, Spell, plain
from hloscope.interpreter import TOKEN, Array, EvaluationError, Value, dtype_of, fits
from hloscope.ir import TensorType, TupleType, Type
from hloscope.whole_files import whole_file

MOST_BYTES: Final = 1 << 33
"""Default limit of the bytes of all arrays of a file."""
_ZIP: Final = b"PK\x03\x04"


def load(path: str | os.PathLike[str], *, most_bytes: int = MOST_BYTES) -> dict[str, Array]:
    """Return the arrays of a file by name, in order; the array of a `.npy` file is `arr_0`.

    Args:
        path: The file.
        most_bytes: Limit of the bytes of all its arrays.

    Raises:
        InputError: The file does not exist, has no arrays, or exceeds the limit.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            begin = file.read(4)
            file.seek(0)
            if begin == _ZIP:
                return _loaded(file, name, most_bytes)
            return {"arr_0": _array(file, name, most_bytes)}
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror or error}") from None
    except InputError:
        raise
    except Exception as error:  # numpy and zipfile raise many kinds for damaged files
        raise InputError(f"{name} is not a file of numpy arrays: {error}") from None


def _loaded(file: IO[bytes], name: str, left: int) -> dict[str, Array]:
    """Return the arrays of an open `.npz` file."""
    found: dict[str, Array] = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            with archive.open(member) as part:
                array = _array(part, name, left)
            found[member.filename.removesuffix(".npy")] = array
            left -= array.nbytes
    return found


def _array(file: IO[bytes], name: str, most_bytes: int) -> Array:
    """Read one array.

    Raises:
        InputError: Its sizes are not valid, it exceeds the limit, or the file ends too early.
    """
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0
    if version[0] > 1:
        read = np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    # The size is checked before memory is allocated: a header may state any sizes.
    size = dtype.itemsize
    for extent in shape:
        if type(extent) is not int or extent < 0:
            raise InputError(f"{name} holds an array of the sizes {shape}")
        size *= extent
    if dtype.hasobject:
        raise InputError(f"{name} holds Python objects, needs numbers")
    if size > most_bytes:
        raise InputError(
            f"{name} holds an array of {size:,} bytes, {most_bytes:,} at most are read"
        )
    content = file.read(size)
    if len(content) != size:
        raise InputError(f"{name} ends too early: {len(content):,} bytes of {size:,}")
    flat = np.frombuffer(content, dtype) if size else np.zeros(0, dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def save(path: str | os.PathLike[str], values: Mapping[str, Array]) -> None:
    """Write arrays to a `.npz` file, or a single array to a `.npy` file.

    Raises:
        InputError: The file cannot be written, or a `.npy` file is to hold several arrays.
    """
    stored = {name: _stored(value) for name, value in values.items()}
    try:
        if not os.fspath(path).endswith(".npy"):
            with whole_file(path) as file:
                np.savez(file, **stored)  # type: ignore[arg-type]
        elif len(stored) == 1:
            with whole_file(path) as file:
                np.save(file, next(iter(stored.values())), allow_pickle=False)
        else:
            raise InputError(f"a .npy file holds one array, found {len(stored)}: write .npz")
    except OSError as error:
        raise InputError(f"cannot write {os.fspath(path)}: {error.strerror or error}") from None


def _stored(value: Array) -> Array:
    """Return the array with an element type of numpy."""
    array = np.asarray(value)
    if array.dtype.kind != "V":
        return array
    if "int" in array.dtype.name and "float" not in array.dtype.name:
        return array.astype("u1" if array.dtype.name.startswith("u") else "i1")
    return array.view(f"u{array.dtype.itemsize}")


def restored(array: Array, type_: Type) -> Array:
    """Return the array with the elements of a type, if they were stored as bits or wider integers.

    >>> import numpy
    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> restored(numpy.array([16256], "uint16"), TensorType(ELEMENT_TYPES["bf16"], (1,))).tolist()
    [1.0]
    """
    if not isinstance(type_, TensorType):
        return array
    dtype = dtype_of(type_.element)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype == dtype:
        return array
    is_float = type_.element.kind == "float"
    same_size = array.dtype.itemsize == dtype.itemsize
    # Equal size and no numpy type of this kind: the file has the bits.
    if same_size and (array.dtype.kind == "V" or (array.dtype.kind == "u" and is_float)):
        return np.ascontiguousarray(array).reshape(array.shape).view(dtype)
    if array.dtype.kind in "biu" and not is_float and type_.element.kind != "complex":
        # Wider integers are accepted only if no value changes.
        converted = array.astype(dtype)
        if (converted.astype(array.dtype) == array).all():
            return converted
    return array


def leaves(value: Value, type_: Type) -> Iterator[tuple[Array, TensorType]]:
    """Yield the arrays of a value with their types; tuples are flattened, tokens left out."""
    if isinstance(type_, TupleType):
        assert isinstance(value, tuple)
        for part, inner in zip(value, type_.elements, strict=True):
            yield from leaves(part, inner)
    elif isinstance(type_, TensorType):
        yield value, type_  # type: ignore[misc]


def named(values: Sequence[Value], types: Sequence[Type]) -> dict[str, Array]:
    """Return all arrays of some results, with numpy's default names."""
    found = [a for v, t in zip(values, types, strict=True) for a, _ in leaves(v, t)]
    return {f"arr_{i}": array for i, array in enumerate(found)}


def arranged(
    arrays: Mapping[str, Array],
    types: Sequence[Type],
    names: Sequence[str],
    spell: Spell = plain,
) -> list[Value]:
    """Return the arrays of a file as arguments: by name if all names match, else in order.

    Args:
        arrays: The arrays of the file.
        types: Types of the parameters; the arrays of tuples are consecutive.
        names: Names of the parameters.
        spell: Formats types in messages.

    Raises:
        EvaluationError: There are too few or too many arrays, or one has another type.
    """
    needed = sum(map(_count, types))
    if needed == len(types) and set(arrays) == set(names):
        given = [arrays[name] for name in names]
    else:
        given = list(arrays.values())
    if len(given) != needed:
        wanted = ", ".join(spell(t, "bare") for t in types) or "none"
        raise EvaluationError(f"found {len(given)} arrays, needed are {needed}: {wanted}")
    rest = iter(given)
    made = [_arranged(rest, type_) for type_ in types]
    for i, (value, type_) in enumerate(zip(made, types, strict=True)):
        why = fits(value, type_)
        if why:
            raise EvaluationError(f"argument {i} should be {spell(type_, 'bare')}: {why}")
    return made


def _count(type_: Type) -> int:
    """Return the number of tensors of a type."""
    if isinstance(type_, TupleType):
        return sum(map(_count, type_.elements))
    return int(isinstance(type_, TensorType))


def _arranged(rest: Iterator[Array], type_: Type) -> Value:
    """Return a value of the type from the next arrays."""
    if isinstance(type_, TupleType):
        return tuple([_arranged(rest, inner) for inner in type_.elements])
    if not isinstance(type_, TensorType):
        return TOKEN
    given = next(rest)
    if given.dtype.kind in "SU":
        raise EvaluationError(f"an argument is an array of text, {given.dtype}")
    array: Any = restored(given, type_)
    return array if array.ndim else array[()]  # type: ignore[no-any-return]
