"""Arrays for runs of programs: in files, as test arguments, and divided among partitions."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import IO, Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from hloscope.errors import Formatter, InputError, UnsupportedError, plain
from hloscope.fusion import leaf_types
from hloscope.hlo_parser import Sharding, TileSharding, TupleSharding, WholeSharding, read_sharding
from hloscope.interpreter import (
    TOKEN,
    Array,
    EvaluationError,
    Value,
    byte_size,
    divided,
    dtype_of,
    fits,
    meshes,
)
from hloscope.ir import Computation, Dims, Module, QuantizedType, TensorType, TupleType, Type
from hloscope.mlir import ArrayAttr, DictAttr, StringAttr, VerbatimAttr, parse_attribute
from hloscope.mlir.dialects import shardy_value
from hloscope.ops import Constant, NamedSharding
from hloscope.support.arrays import ml_dtypes
from hloscope.support.walks import reached
from hloscope.support.whole_files import whole_file

# --------------------------------------------------------------------------------------------------
# Values in `.npz` and `.npy` files.
#
# Numpy's files know numpy's types only.  Elements of other types are stored as their bits, in
# unsigned integers, and integers of few bits in one byte each.


MOST_BYTES: Final = 1 << 33
"""Default limit of the bytes of all arrays in a file."""
_ZIP: Final = b"PK\x03\x04"


def load(path: str | os.PathLike[str], *, most_bytes: int = MOST_BYTES) -> dict[str, Array]:
    """Return the arrays of a file by name, in order; the array of a `.npy` file is `arr_0`.

    Args:
        path: The file.
        most_bytes: Limit of the bytes of all arrays in the file.

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
    """Return the arrays of an open `.npz` file, by name.

    `left` is the limit of their bytes; `name` is the file name in errors.

    Raises:
        InputError: An array is invalid, or the limit is exceeded.
    """
    found: dict[str, Array] = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            with archive.open(member) as part:
                array = _array(part, name, left)
            found[member.filename.removesuffix(".npy")] = array
            left -= array.nbytes
    return found


def _array(file: IO[bytes], name: str, most_bytes: int) -> Array:
    """Return the array in an open `.npy` file.

    `name` is the file name in errors, `most_bytes` the limit of the array's bytes.

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
    """Return the array with an element type that numpy files can store.

    Types that only `ml_dtypes` has change: narrow integers become `int8` or `uint8`, floats become
    unsigned integers of the same bits.
    """
    array = np.asarray(value)
    if array.dtype.kind != "V":
        return array
    if "int" in array.dtype.name and "float" not in array.dtype.name:
        return array.astype("u1" if array.dtype.name.startswith("u") else "i1")
    return array.view(f"u{array.dtype.itemsize}")


def restored(array: Array, type_: Type) -> Array:
    """Return an array with the element type of `type_`.

    `save` stores some types as bits or wider integers.

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
    """Yield the arrays of a value with their types, in order.

    Tuples are flattened, and tokens are skipped.
    """
    if isinstance(type_, TupleType):
        assert isinstance(value, tuple)
        for part, inner in zip(value, type_.elements, strict=True):
            yield from leaves(part, inner)
    elif isinstance(type_, TensorType):
        yield value, type_  # type: ignore[misc]


def named(values: Sequence[Value], types: Sequence[Type]) -> dict[str, Array]:
    """Return all arrays of some results, by numpy's default names `arr_0`, `arr_1` and so on.

    Tuples among `values` are flattened.
    """
    found = [a for v, t in zip(values, types, strict=True) for a, _ in leaves(v, t)]
    return {f"arr_{i}": array for i, array in enumerate(found)}


def arranged(
    arrays: Mapping[str, Array],
    types: Sequence[Type],
    names: Sequence[str],
    spell: Formatter = plain,
) -> list[Value]:
    """Return the arrays of a file as arguments of a program.

    Arrays are assigned to parameters by name if all names match, else in file order.

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
    """Return the number of tensors of a type, those in tuples included."""
    if isinstance(type_, TupleType):
        return sum(map(_count, type_.elements))
    return int(isinstance(type_, TensorType))


def _arranged(rest: Iterator[Array], type_: Type) -> Value:
    """Return a value of the type, made of the next arrays of `rest`, which are consumed."""
    if isinstance(type_, TupleType):
        return tuple([_arranged(rest, inner) for inner in type_.elements])
    if not isinstance(type_, TensorType):
        return TOKEN
    given = next(rest)
    if given.dtype.kind in "SU":
        raise EvaluationError(f"an argument is an array of text, {given.dtype}")
    array: Any = restored(given, type_)
    return array if array.ndim else array[()]  # type: ignore[no-any-return]


# --------------------------------------------------------------------------------------------------
# Test arguments that distinguish programs: distinct numbers, start indices at limits, edge values.
#
# Candidates for start indices and sizes are taken from the types and constants of the programs.


_MOST_SIZES: Final = 48
"""Largest number of sizes and constants of a program that are tried as start indices."""
_ORDINARY: Final = 4
"""Number of initial runs with finite floats only; later ones also have infinities and NaN."""


def limits_of(computations: Iterable[Computation]) -> tuple[int, ...]:
    """Return integers for test start indices: at and near the bounds to which these are clamped.

    They are the sizes and constants of the computations, differences of sizes, and the integers 1
    less and 1 more than each of these.
    """
    sizes: dict[int, None] = {}
    for computation in reached(computations, lambda c: c.callees):
        for ins in computation.instructions:
            if isinstance(ins.type, TensorType):
                sizes.update(dict.fromkeys(n for n in ins.type.sizes if n is not None))
            if isinstance(ins.op, Constant) and len(text := str(ins.op.literal)) < 20:
                text = text.strip()
                if text.removeprefix("-").isdecimal():
                    sizes[int(text)] = None
    some = [*sizes][:_MOST_SIZES]
    # A start is clamped to the array's size minus the slice's size, so differences of sizes are
    # limits.
    gaps = [a - b for a in some[:8] for b in some[:8]]
    near = [n + d for n in (*some, *gaps) for d in (-1, 0, 1)]
    return tuple(dict.fromkeys([*range(-1, 4), *near]))


def edge_arguments(
    types: Sequence[Type], limits: Sequence[int], run: int, device: int = 0
) -> list[Value]:
    """Return the arguments of one test run; they depend on the run and device numbers only.

    Args:
        types: Types of the parameters.
        limits: Integers from which some integer elements are drawn, such as those of `limits_of`.
        run: Number of the run, from 0.
        device: Number of the device that gets the arguments.
    """
    generator = np.random.default_rng([run, device])
    # One size for all dynamic dimensions, on all devices, so that operands match.
    unknown = int(np.random.default_rng(run).integers(1, 4))
    return [_value(type_, limits, run, unknown, generator) for type_ in types]


def argument_bytes(types: Iterable[Type]) -> int:
    """Return the number of bytes of all arguments together."""
    return sum(map(byte_size, types))


def _value(
    type_: Type, limits: Sequence[int], run: int, unknown: int, generator: np.random.Generator
) -> Any:
    """Return a random value of a type: an array, a tuple of values, or a token.

    Args:
        type_: The type.
        limits: Integers from which some integer elements are drawn.
        run: Number of the test run, from 0; only later runs have extreme integers and special
            floats.
        unknown: Size of dynamic dimensions, unless their bound is smaller.
        generator: Source of randomness.
    """
    if isinstance(type_, TupleType):
        parts = [_value(inner, limits, run, unknown, generator) for inner in type_.elements]
        return tuple(parts)
    if not isinstance(type_, TensorType):
        return TOKEN
    shape = tuple(
        min(unknown, unknown if bound is None else bound) if size is None else size
        for size, bound in zip(type_.sizes, type_.each_bound, strict=True)
    )
    element = type_.element
    kind = "signed" if isinstance(element, QuantizedType) else element.kind
    dtype = dtype_of(element)
    made: Array
    if kind == "pred":
        made = generator.integers(0, 2, shape).astype(dtype)
    elif kind in ("signed", "unsigned"):
        made = _integers(shape, dtype, limits, run, generator)
    elif kind == "complex":
        real, imaginary = (_floats(shape, run, generator, np.float32) for _ in range(2))
        with np.errstate(all="ignore"):
            made = (real.astype(np.float64) + 1j * imaginary.astype(np.float64)).astype(dtype)
    else:
        made = _floats(shape, run, generator, dtype)
    return made if shape else made[()]


def _integers(
    shape: tuple[int, ...],
    dtype: Any,
    limits: Sequence[int],
    run: int,
    generator: np.random.Generator,
) -> Array:
    """Return random integers: distinct ones, start indices, small ones, or limits of the type.

    One of these four kinds is drawn for the whole array. In run 0, arrays of rank 1 or more have
    distinct integers; the first runs have no small integers and no limits.

    Args:
        shape: Shape of the array.
        dtype: Integer type.
        limits: Candidates for start indices.
        run: Number of the test run, from 0.
        generator: Source of randomness.
    """
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    way = generator.random()
    if len(shape) and (run == 0 or way < 0.45):
        return _distinct(shape, generator, low, high).astype(dtype)
    if way < 0.85 or run < _ORDINARY:
        fitting = [n for n in limits if low <= n <= high]
        return _chosen(shape, fitting or [0], dtype, generator)
    if way < 0.93:
        return _chosen(shape, [n for n in range(-3, 4) if low <= n <= high], dtype, generator)
    return _chosen(shape, [n for n in (low, high, -1, 0, 1) if low <= n <= high], dtype, generator)


def _chosen(
    shape: tuple[int, ...], numbers: Sequence[int], dtype: Any, generator: np.random.Generator
) -> Array:
    """Return an array of elements of type `dtype`, each drawn at random from `numbers`."""
    at = generator.integers(0, len(numbers), shape)
    exact = np.array(numbers, np.uint64 if max(numbers) >= 1 << 63 else np.int64)
    return np.asarray(exact[at]).astype(dtype)


def _distinct(shape: tuple[int, ...], generator: np.random.Generator, low: int, high: int) -> Array:
    """Return an array of the numbers from 0 on in random order; after `high` they start at 0 again.

    `low` is not used.
    """
    count = int(np.prod(shape))
    numbers = generator.permutation(count) % min(high + 1, 1 << 31)
    return np.asarray(numbers).reshape(shape)


def _floats(shape: tuple[int, ...], run: int, generator: np.random.Generator, dtype: Any) -> Array:
    """Return random floats: distinct ones, normally distributed ones, or edge values.

    One of these three kinds is drawn for the whole array. Run 0 has distinct floats; the first runs
    have no edge values, such as NaN and infinity.
    """
    info = ml_dtypes.finfo(dtype)
    way = generator.random()
    with np.errstate(all="ignore"):
        if run == 0 or way < 0.3:
            count = int(np.prod(shape))
            numbers = (generator.permutation(count) - count // 2) * 0.25
            return np.asarray(numbers).reshape(shape).astype(dtype)
        if way < 0.75 or run < _ORDINARY:
            return np.asarray(generator.standard_normal(shape)).astype(dtype)
        edges = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan]
        edges += [float(info.max), -float(info.max), float(info.tiny)]
        at = generator.integers(0, len(edges), shape)
        return np.asarray(np.array(edges)[at]).astype(dtype)


# --------------------------------------------------------------------------------------------------
# Arrays divided among partitions by the shardings that a program states.
#
# Source: XLA docs "Sharding": a dimension of `n` elements in `k` parts has parts of `ceil(n / k)`,
# the last ones padded; StableHLO `mhlo.sharding`; Shardy's `sdy.sharding`.


_HLO: Final = "sharding"
_MHLO: Final = "mhlo.sharding"
_SDY: Final = "sdy.sharding"


class Cut(Struct, frozen=True):
    """The division of an array into parts, one for each partition.

    Attributes:
        counts: Number of parts along each dimension; missing ones are 1.
        places: For each partition the index of its part, one number for each dimension.
    """

    counts: Dims = ()
    places: tuple[Dims, ...] = ()

    @property
    def is_cut(self) -> bool:
        """Is the array divided into more than one part?"""
        return any(count > 1 for count in self.counts)

    def local(self, type: TensorType) -> TensorType:
        """Return the type of a part; its sizes are rounded up."""
        sizes = tuple(
            [
                None if size is None else -(-size // count)
                for size, count in zip(type.sizes, self._all(len(type.sizes)), strict=True)
            ]
        )
        return replace(type, sizes=sizes)

    def part(self, array: Array, partition: int) -> Array:
        """Return a partition's part of an array; parts at the end may be smaller, or empty."""
        if not self.counts:
            return array
        slices = []
        place = (*self.places[partition], *[0] * array.ndim)
        for size, count, number in zip(array.shape, self._all(array.ndim), place, strict=False):
            each = -(-size // count)
            slices.append(slice(min(size, number * each), min(size, (number + 1) * each)))
        return array[tuple(slices)]

    def filled(self, array: Array, partition: int) -> Array:
        """Return a partition's part of an array, padded with zeros to the size of a full part."""
        part = self.part(array, partition)
        counts = self._all(array.ndim)
        sizes = [-(-size // count) for size, count in zip(array.shape, counts, strict=True)]
        if list(part.shape) == sizes:
            return part
        full = np.zeros(sizes, part.dtype)
        full[tuple(slice(0, n) for n in part.shape)] = part
        return full

    def _all(self, rank: int) -> Dims:
        """Return the number of parts along each of `rank` dimensions; those not stored are 1."""
        return (*self.counts, *[1] * (rank - len(self.counts)))


WHOLE: Final = Cut()
"""The division in which every partition has the whole array."""


def cuts_of(module: Module, entry: Computation, partitions: int) -> tuple[list[Cut | None], ...]:
    """Return how the tensors of the parameters, and those of the results, are divided.

    `entry` is the computation that runs on `partitions` partitions.

    Returns:
        Two lists, for parameters and results, with a division for each tensor; `None` if the
        program states no sharding for it.

    Raises:
        UnsupportedError: A sharding is of a kind that is not supported.
    """
    extras = dict(entry.extras)
    given: list[object] = []
    for parameter in entry.parameters:
        given += _spread(_stated(dict(parameter.extras)), parameter.type)
    results: list[object] = []
    if "res_attrs" in extras:
        attribute = parse_attribute(extras["res_attrs"])
        for element in attribute.elements if isinstance(attribute, ArrayAttr) else ():
            entries = dict(element.entries) if isinstance(element, DictAttr) else {}
            results.append(_stated(entries))
    if not results:
        results = _spread(_stated(dict(entry.root.extras)), entry.root.type)
    known = meshes(module.extras)
    return tuple([_cut(one, known, partitions) for one in some] for some in (given, results))


def _stated(extras: Mapping[str, Any]) -> object:
    """Return the sharding in an instruction's attributes; `None` if there is none."""
    if _HLO in extras:
        return read_sharding(str(extras[_HLO]))
    if _SDY in extras:
        return shardy_value(_text(extras[_SDY]))
    if _MHLO in extras:
        return read_sharding(_text(extras[_MHLO]).strip('"'))
    return None


def _text(attribute: object) -> str:
    """Return the text of an attribute."""
    if isinstance(attribute, StringAttr):
        return attribute.value.decode("utf-8", "replace")
    return attribute.text if isinstance(attribute, VerbatimAttr) else str(attribute)


def _spread(sharding: object, type: Type) -> list[object]:
    """Return the sharding of each tensor of a type.

    `sharding` is a tuple with one sharding for each tensor, or one sharding for all of them.

    Raises:
        UnsupportedError: The numbers of shardings and tensors differ.
    """
    count = len(leaf_types(type))
    if isinstance(sharding, TupleSharding):
        if len(sharding.elements) != count:
            raise UnsupportedError(f"{len(sharding.elements)} shardings of {count} tensors")
        return [*sharding.elements]
    return [sharding] * count


def _cut(sharding: object, known: Mapping[str, Any], partitions: int) -> Cut | None:
    """Return the division of an array that a sharding describes; `None` without a sharding.

    Args:
        sharding: The sharding.
        known: The meshes of the program, by name.
        partitions: Number of partitions.

    Raises:
        UnsupportedError: The sharding is of a kind that is not supported.
    """
    if sharding is None:
        return None
    if isinstance(sharding, WholeSharding) and sharding.kind == "replicated":
        return WHOLE
    # Replicated subgroups only: the partitions of a subgroup have the same part.
    if isinstance(sharding, TileSharding) and {*sharding.subgroups} <= {"replicated"}:
        return _tiles(sharding, partitions)
    if isinstance(sharding, NamedSharding) and {r for r, _ in sharding.others} <= {"replicated"}:
        division = divided(sharding, known)
        count = prod(size for _, size in division.mesh.axes)
        _check_count(count, partitions)
        counts = tuple(prod(map(division.mesh.size, axes)) for axes in division.dimensions)
        places = [division.place(device) for device in range(partitions)]
        return Cut(counts, tuple(places))
    kind = getattr(sharding, "kind", type(sharding).__name__)
    raise UnsupportedError(f"a sharding of kind {kind} is not cut here")


def _tiles(sharding: TileSharding, partitions: int) -> Cut:
    """Return the division that a tiled HLO sharding describes.

    Raises:
        UnsupportedError: The sharding does not list each partition once.
    """
    devices = sharding.device_list
    _check_count(len(devices), partitions)
    if sorted(devices) != [*range(partitions)]:
        raise UnsupportedError("a sharding that does not name each partition once")
    places: list[Dims] = [()] * partitions
    for number, device in enumerate(devices):
        at = np.unravel_index(number, sharding.tiles)
        places[device] = tuple([int(n) for n in at[: sharding.rank]])
    return Cut(sharding.tiles[: sharding.rank], tuple(places))


def _check_count(count: int, partitions: int) -> None:
    """Check that a sharding is for as many devices as there are partitions.

    Raises:
        UnsupportedError: The numbers differ.
    """
    if count != partitions:
        raise UnsupportedError(f"a sharding over {count} devices, with {partitions} partitions")


def header_cuts(module: Module, partitions: int) -> tuple[Sequence[Cut | None], ...]:
    """Return the divisions that the header of a partitioned HLO module states.

    They are two lists, for the tensors of the parameters and of the results.

    Raises:
        UnsupportedError: A sharding is of a kind that is not supported.
    """
    extras = dict(module.extras)
    found: list[list[Cut | None]] = []
    for name in ("spmd_parameters_shardings", "spmd_output_sharding"):
        if name not in extras:
            found.append([])
            continue
        sharding: Sharding = read_sharding(extras[name])
        elements = sharding.elements if isinstance(sharding, TupleSharding) else (sharding,)
        found.append([_cut(one, {}, partitions) for one in elements])
    return tuple(found)
