"""A cache of results on disk, by structural digests that are equal on every machine."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from hloscope.fusion import leaf_types
from hloscope.indexing import Direction, lookup
from hloscope.ir import Computation, Instruction, Op, TensorType, TupleType, captures
from hloscope.ops import Constant, Fusion
from hloscope.proof import Structure
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# A cache of results on disk, for interrupted and later scans.
#
# Each result is a file, in a folder by its key.  It is written under another name and renamed, so
# that no reader sees half of one.  A damaged file counts as absent, so its result is computed
# again.


_PACKAGE: Final = Path(__file__).parents[1]
_SUFFIX: Final = ".json"
_LARGEST: Final = 1 << 28
"""Maximum bytes of a file of the cache; larger files are ignored."""
_SHARE: Final = 16
"""A writer checks the total size each time it wrote 1 / 16 of the limit."""
_KEPT: Final = 0.75
"""Share of the limit that results may take after the oldest are deleted."""
FORGOTTEN: Final = 3600.0
"""Age in seconds of a temporary file after which its writer is assumed dead."""
_FRESH: Final = 60.0
"""Minimum number of seconds between two updates of a file's time of last use."""
_OURS: Final = pattern(r"[0-9a-f]{40}\.json(\.[0-9a-f]+\.tmp)?")
_FOLDER: Final = pattern(r"[0-9a-f]{2}")


def code_digest() -> str:
    """Return a digest of this package's source code, since other code may have other results."""
    digest = blake2b(digest_size=16)
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _digest(text: bytes) -> bytes:
    """Return the checksum of a record's bytes; it precedes the record, to detect damage."""
    return blake2b(text, digest_size=8).hexdigest().encode()


class Store:
    """Results by key in a folder; without a folder nothing is stored.

    Attributes:
        folder: The folder; `None` to store nothing.
        code: Digest of the code, which is part of every key.
        most: Limit of the bytes of all results, which each writer may exceed by a sixteenth; the
            least recently used results are deleted. `None` for no limit.
        trouble: Why the last result could not be stored; empty if it was stored.
    """

    def __init__(self, folder: Path | None, code: str = "", most: int | None = None) -> None:
        self.folder: Final = folder
        self.code: Final = code
        self.most: Final = most
        self.trouble = ""
        self._written = 0 if most is None else most  # so that the first write checks the size

    def key(self, *parts: str) -> str:
        """Return the key of a result that the given texts determine, together with `code`."""
        text = "\0".join([self.code, *parts]).encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=20).hexdigest()

    def get(self, key: str) -> Any:
        """Return the stored value of a key; `None` if there is none, or if it is damaged."""
        text = self.get_bytes(key)
        try:
            return None if text is None else json.loads(text)
        except (ValueError, RecursionError):
            return None

    def get_bytes(self, key: str) -> bytes | None:
        """Return the stored bytes of a key; `None` if there are none, or if they are damaged."""
        if self.folder is None:
            return None
        try:
            digest, _, text = _content(self._path(key)).partition(b"\n")
        except OSError:
            return None
        return text if digest == _digest(text) else None

    def put(self, key: str, value: Any) -> None:
        """Store a JSON value under a key.

        A failure raises no error, but sets `trouble`.
        """
        if self.folder is not None:
            self.put_bytes(key, json.dumps(value).encode("ascii"))

    def put_bytes(self, key: str, text: bytes) -> None:
        """Store bytes under a key.

        A failure raises no error, but sets `trouble`.
        """
        largest = _LARGEST if self.most is None else min(_LARGEST, self.most // _SHARE)
        if self.folder is None or len(text) > largest:
            return
        path = self._path(key)
        draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(b"\n".join([_digest(text), text]))
            draft.replace(path)
        except OSError as error:
            self.trouble = f"{error.strerror or error}"
            with contextlib.suppress(OSError):
                draft.unlink()
            return
        self._written += len(text)
        if self.most is not None and self._written * _SHARE >= self.most:
            self._written = 0
            _evict(self.folder, self.most)

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}{_SUFFIX}"


def _content(path: Path) -> bytes:
    """Return the bytes of a regular file, and set its time of last use to now.

    Raises:
        OSError: The path is not a regular file (a pipe, say), or the file is too large or
            unreadable.
    """
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(number, "rb") as file:
        about = os.fstat(number)
        if not S_ISREG(about.st_mode) or about.st_size > _LARGEST:
            raise OSError("no answer")
        if time.time() - about.st_mtime > _FRESH:
            with contextlib.suppress(OSError):
                os.utime(path)
        return file.read(_LARGEST + 1)


class _CachedFile(NamedTuple):
    """A file of the cache: time of last use in seconds, bytes on the disk, and path."""

    used: float
    size: int
    path: str


def _evict(folder: Path, most: int) -> None:
    """Delete the least recently used results of a cache if all take more than `most` bytes.

    They are deleted until about three quarters of `most` are left. Abandoned temporary files are
    deleted too; files of other programs are not.
    """
    now = time.time()
    kept = []
    for one in _cached_files(folder):
        if one.path.endswith(".tmp") and now - one.used > FORGOTTEN:
            _remove(one.path)
        else:
            kept.append(one)
    left = sum([one.size for one in kept])
    if left <= most:
        return
    # Tuples sort by time of last use. A temporary file is still being written by someone: it stays.
    for one in sorted(kept):
        if left <= most * _KEPT:
            return
        if not one.path.endswith(".tmp"):
            left -= one.size
            _remove(one.path)


def _cached_files(folder: Path) -> Iterator[_CachedFile]:
    for part in _entries(folder):
        if not _FOLDER.fullmatch(part.name) or not part.is_dir(follow_symlinks=False):
            continue
        for entry in _entries(part.path):
            if not _OURS.fullmatch(entry.name):
                continue
            with contextlib.suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                if S_ISREG(about.st_mode):
                    size = max(about.st_size, 512 * getattr(about, "st_blocks", 0))
                    yield _CachedFile(about.st_mtime, size, entry.path)


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


# --------------------------------------------------------------------------------------------------
# Structural digests of kernels, equal in every process and on every machine.


_PLAIN: Final = frozenset({int, str, type(None)})
_OF_LABEL: Final = 4
"""Number of entries in the key of a label; the last entry has attributes as text."""


def encoded(value: object) -> bytes:
    """Encode a value as bytes; equal values have equal encodings, different values different ones.

    `repr` does not suffice: it abbreviates types of many elements, for example.

    Raises:
        TypeError: A part of the value has an unknown class.

    >>> encoded((1, "a")) == encoded((1, "a")), encoded((1, ("a",))) == encoded(((1,), "a"))
    (True, False)
    >>> encoded(frozenset("abc")) == encoded(frozenset("cba"))
    True
    """
    parts: list[bytes] = []
    left: list[object] = [value]
    while left:
        one = left.pop()
        inside, text = _split(one)
        # The class and both lengths come first, so no concatenation of other values has the same
        # bytes.
        parts.append(b"%s %d %d:%s" % (type(one).__name__.encode(), len(inside), len(text), text))
        left += reversed(inside)
    return b"".join(parts)


def _split(one: object) -> tuple[list[object], bytes]:
    """Return the values that a value contains, and the bytes of its other content.

    A number or text has bytes only, a tuple or set has values only.
    """
    if isinstance(one, Enum):
        return [], one.name.encode()
    if one is None or isinstance(one, bool | int | float | complex):
        return [], repr(one).encode()
    if isinstance(one, str):
        return [], one.encode("utf-8", "surrogatepass")
    if isinstance(one, bytes):
        return [], one
    if isinstance(one, tuple | list):
        return list(one), b""
    if isinstance(one, frozenset | set):
        return [sorted(map(encoded, one))], b""
    if isinstance(one, Mapping):
        return [sorted((encoded(key), encoded(value)) for key, value in one.items())], b""
    if isinstance(one, np.ndarray):
        return [one.dtype.str, one.dtype.name, one.shape], one.tobytes()
    if hasattr(one, "written"):  # values with their text: literals, groups of devices
        return [one.written, getattr(one, "type", None)], b""
    if isinstance(one, Struct):
        return _values(one), b""
    raise TypeError(f"a value of {type(one).__name__} has no digest")


def _values(one: Struct) -> list[object]:
    """Return the values of a struct's fields; for an op, its name comes first."""
    if isinstance(one, TupleType):
        return [one.elements]  # its other fields follow from them
    values = [getattr(one, name) for name in one.__struct_fields__]
    return [one.name, *values] if isinstance(one, Op) else values


class Digests(Structure):
    """Computes digests of instructions and computations; equal digests mean equal structure.

    As in comparisons of programs, names, the order of instructions, metadata and source positions
    do not count; types with their layouts, attributes, configurations and constants do.
    """

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[Computation, Mapping[Instruction, int]] = {}
        self._known: dict[object, int] = {}

    def number(self, key: object) -> int:
        """Return the 128-bit digest of a key, as an integer."""
        if not _is_plain(key):
            return int.from_bytes(blake2b(encoded(key), digest_size=16).digest())
        known = self._known.get(key)
        if known is None:
            digest = blake2b(encoded(key), digest_size=16).digest()
            known = self._known[key] = int.from_bytes(digest)
        return known

    def of_kernel(self, ins: Instruction, computation: Computation | None = None) -> str:
        """Return a digest of an instruction, its callees, and what it reads.

        It covers the types and constants that are read. If maps may depend on values, as those of a
        slice on its start indices, it also covers everything that these values are computed from.

        Args:
            ins: The instruction.
            computation: The computation of the instruction; needed if maps may depend on values.

        Raises:
            TypeError: A part has no digest, or the computation is needed and not given.

        >>> from hloscope.hlo_parser import parse_hlo
        >>> texts = ["ENTRY e { a = f32[4] parameter(0) ROOT b = f32[4] negate(a) }",
        ...          "ENTRY f { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"]
        >>> len({Digests().of_kernel(parse_hlo(text).entry.root) for text in texts})
        1
        """
        for callee in ins.calls:
            self.of(callee)
        is_value_read = _reads_values(ins)
        values = ins.operands
        types = [self.type(value.type) for value in values]
        known = [self._value(value, computation, is_value_read) for value in values]
        places = {value: place for place, value in reversed(list(enumerate(values)))}
        # One value that is used twice differs from two equal values: the positions of first use
        # distinguish the two cases.
        same = [places[value] for value in values]
        parts = (*self.called(ins), None, *types, None, *known, None, *same)
        key = ("kernel", self.label(ins), *parts)
        return f"{self.number(key):032x}"

    def _value(self, value: Instruction, computation: Computation | None, is_read: bool) -> int:
        """Return the digest of an operand's literal, or of what an index is computed from.

        It is 0 if maps cannot depend on the operand's value.

        Args:
            value: The operand.
            computation: The computation of the instruction.
            is_read: May maps depend on the operand's value?

        Raises:
            TypeError: The digest of an index is needed and unknown.
        """
        if isinstance(value.op, Constant):
            return self.label(value)
        if not is_read or not _is_index(value):
            return 0
        found = {} if computation is None else self._values_of(computation)
        if value not in found:
            raise TypeError(f"where the value of `{value.name}` is from is not known")
        return found[value]

    def _values_of(self, computation: Computation) -> Mapping[Instruction, int]:
        """Return the digest of each value of a computation, with everything it is computed from.

        Empty if the computation reads values from outside.
        """
        known = self._values.get(computation)
        if known is None:
            try:
                known = {} if captures(computation) else self.down(computation)
            except TypeError:
                known = {}
            self._values[computation] = known
        return known


def _is_plain(key: object) -> bool:
    """Does the key consist of strings, integers and `None` only?

    Only then do equal keys have equal encodings: `True == 1` and `0.0 == -0.0`, but they are
    encoded differently.
    """
    if type(key) is not tuple:
        return False
    if key[:1] == ("label",) and len(key) == _OF_LABEL:
        key, extras = key[:-1], key[-1]
        return _PLAIN.issuperset(map(type, key)) and all(
            [type(word) is str for pair in extras for word in pair]
        )
    return _PLAIN.issuperset(map(type, key))


def _reads_values(ins: Instruction) -> bool:
    """May the instruction's maps depend on more than its op, types and called computations?"""
    if isinstance(ins.op, Fusion):
        return False  # its runtime variables are values inside, in terms of its parameters
    entries = [lookup(direction, type(ins.op)) for direction in Direction]
    is_ruled = all(entry is not None and entry.is_shared for entry in entries)
    return not is_ruled or any(map(_is_dynamic, (ins, *ins.operands)))


def _is_index(value: Instruction) -> bool:
    """May a value be an index or a dynamic size, so that maps depend on it?

    It may if it has a dynamic size, or if an array in it has integers or booleans.
    """
    kinds = [leaf.element.kind for leaf in leaf_types(value.type) if isinstance(leaf, TensorType)]
    return _is_dynamic(value) or any(kind in ("pred", "signed", "unsigned") for kind in kinds)


def _is_dynamic(value: Instruction) -> bool:
    leaves = leaf_types(value.type)
    return any(isinstance(leaf, TensorType) and not leaf.is_static for leaf in leaves)
