"""Files of programs at paths, in dump folders and at URLs, and their decompressed bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from glob import glob, has_magic
from os import SEEK_END, PathLike, fspath, walk
from os.path import exists, getsize, isdir, isfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from hloscope.cost.profiles import is_xspace
from hloscope.display import Dump
from hloscope.errors import HloscopeError, InputError, did_you_mean
from hloscope.hlo_parser import is_proto
from hloscope.support.lazy import lazy, pattern
from hloscope.support.limits import MOST_ARTIFACT, MOST_INPUT
from hloscope.support.system import library_of

if TYPE_CHECKING:
    import zlib
else:
    zlib = lazy("zlib")


# --------------------------------------------------------------------------------------------------
# Contents of files. An error about a file lists files with similar names.


class FilePath(os.PathLike[str]):
    """A path that the user gave. It is never taken for the text of a program."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path


def bytes_of_file(file: str | os.PathLike[str]) -> bytes:
    """Return the decompressed contents of a file.

    Raises:
        InputError: The file is missing, a directory or unreadable; the message lists similar names.
    """
    path = os.fspath(file)
    try:
        return read_file(file)
    except FileNotFoundError:
        if os.path.islink(path):
            what = f"`{path}` is a symbolic link to `{os.readlink(path)}`, which does not exist"
            raise InputError(what) from None
        raise InputError(f"no file `{path}`{_near_files(path)}") from None
    except IsADirectoryError:
        what = f"`{path}` is a directory{_files_in(path)}; `hloscope ls {path}` lists its programs"
        raise InputError(what) from None
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror or error}") from None


def _near_files(path: str) -> str:
    folder, name = os.path.split(path)
    if not os.path.isdir(folder or "."):
        return f": there is no directory `{folder}`"
    return did_you_mean(name, os.listdir(folder or "."))


def _files_in(path: str) -> str:
    names = sorted(n for n in os.listdir(path) if "hlo" in n.lower() or n.endswith(".txt"))
    return f" with {', '.join(names[:3])} … in it" if names else ""


# --------------------------------------------------------------------------------------------------
# Bytes of files and streams, decompressed, up to a limit.
#
# A stream may be endless, and few compressed bytes may expand to very many: both stop at the limit.


zstandard: Any = lazy("zstandard")

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
MLIR: Final = b"ML\xefR"
_BLOCK: Final = 1 << 20
_PIECE: Final = 1 << 10
"""Bytes of a zstd file that are decompressed at once; 4 bytes may expand to 128 KiB."""


def read_file(path: str | PathLike[str]) -> bytes:
    """Return the bytes of a file, decompressed if it is a gzip or zstd file.

    Raises:
        InputError: The contents are too large, or damaged.
        OSError: The file cannot be read.
    """
    with open(path, "rb") as stream:
        if isfile(path):  # a pipe cannot be read twice
            if stream.read(len(MLIR)) == MLIR:
                return _artifact(stream, f"`{fspath(path)}`")
            stream.seek(0)
        return read_stream(stream, f"`{fspath(path)}`")


def _artifact(stream: BinaryIO, name: str) -> bytes:
    """Return the bytes of a file of MLIR bytecode; `name` is its name in messages.

    They are read in one call, because joining blocks would need twice the memory.

    Raises:
        InputError: The file is larger than `MOST_ARTIFACT` bytes.
    """
    size = stream.seek(0, SEEK_END)
    if size > MOST_ARTIFACT:
        raise InputError(f"{name} has {size:,} bytes, more than {MOST_ARTIFACT >> 30} GiB")
    stream.seek(0)
    return stream.read()


def read_stream(stream: BinaryIO, name: str) -> bytes:
    """Return the bytes of a stream to its end, decompressed if they are gzip or zstd data.

    `name` is the name of the stream in messages.

    Raises:
        InputError: The contents are too large, damaged, or not text.
    """
    first = stream.read(_BLOCK)
    blocks = _blocks(first, stream)
    if first.startswith(GZIP):
        made = _decompressed(blocks, name, lambda: zlib.decompressobj(31), zlib.error, "gzip")
        return _joined(made, name, "decompressed ")
    if first.startswith(ZSTD):
        return _joined(_unzstd(blocks, name), name, "decompressed ")
    binary = MLIR in first or is_proto(first) or is_xspace(first)
    if b"\0" in first and not binary and len(first) == _BLOCK:
        raise InputError(f"{name} is not text: there is a zero byte at {first.index(0)}")
    return _joined(blocks, name, "")


def _blocks(first: bytes, stream: BinaryIO) -> Iterator[bytes]:
    while first:
        yield first
        first = stream.read(_BLOCK)


def _joined(blocks: Iterator[bytes], name: str, how: str) -> bytes:
    """Return blocks of bytes, joined.

    Args:
        blocks: The blocks.
        name: Name of the file in messages.
        how: Word in the message before "text", such as `decompressed `; may be empty.

    Raises:
        InputError: They have more than `MOST_INPUT` bytes.
    """
    parts, total = [], 0
    for block in blocks:
        total += len(block)
        if total > MOST_INPUT:
            raise InputError(f"{name} has more than {MOST_INPUT >> 20} MiB of {how}text")
        parts.append(block)
    return b"".join(parts)


def _decompressed(
    blocks: Iterator[bytes],
    name: str,
    start: Callable[[], Any],
    error: type[Exception],
    kind: str,
) -> Iterator[bytes]:
    """Yield the decompressed content of consecutive members of a compressed file.

    Args:
        blocks: The compressed bytes, in blocks of any size.
        name: Name of the file in messages.
        start: Returns the decompressor of one member.
        error: The exception that decompressors raise for damaged bytes.
        kind: Name of the format in messages.
    """
    member = start()
    waiting = b""
    for block in blocks:
        # `waiting` has the compressed bytes that no member has consumed. Each pass makes at most
        # one block of output, so that `_joined` can stop an expansion at its limit.
        waiting += block
        while waiting:
            if member.eof:
                # gzip files may end with zero bytes; anything else starts the next member.
                if not waiting.strip(b"\0"):  # padding
                    waiting = b""
                    break
                member = start()
            try:
                made = member.decompress(waiting, _BLOCK)
            except error as damage:
                raise InputError(f"{name} is a damaged {kind} file: {damage}") from None
            waiting = member.unused_data if member.eof else member.unconsumed_tail
            yield made
    if not member.eof:
        raise InputError(f"{name} is a damaged {kind} file: it ends too early")


def _unzstd(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield the decompressed content of zstd frames.

    Args:
        blocks: The compressed bytes, in blocks of any size.
        name: Name of the file in messages.

    Raises:
        InputError: The package `zstandard` is not installed.
    """
    try:
        begin = zstandard.ZstdDecompressor
    except ImportError:
        message = f"{name} is a zstd file: to read it, install the package `zstandard`"
        raise InputError(message) from None
    pieces = (block[i : i + _PIECE] for block in blocks for i in range(0, len(block), _PIECE))
    return _decompressed(pieces, name, lambda: _ZstdFrame(begin()), zstandard.ZstdError, "zstd")


class _ZstdFrame:
    """A zstd frame with the interface of `zlib.decompressobj`.

    `decompress` ignores the size limit, so its input must come in small pieces.
    """

    unconsumed_tail: Final = b""

    def __init__(self, decompressor: Any) -> None:
        self._made = decompressor.decompressobj()

    def decompress(self, data: bytes, _: int) -> bytes:
        """Return all decompressed bytes of `data`."""
        made: bytes = self._made.decompress(data)
        return made

    @property
    def eof(self) -> bool:
        """Has the frame ended?"""
        ended: bool = self._made.eof
        return ended

    @property
    def unused_data(self) -> bytes:
        """Return the bytes after the end of the frame."""
        rest: bytes = self._made.unused_data
        return rest


# --------------------------------------------------------------------------------------------------
# The program files at paths, directories, patterns and URLs, and their contents.


_URL: Final = "://"
_CHAIN: Final = "::"


def files_of(paths: Sequence[str]) -> list[str]:
    """Return the files of programs at the given paths, each once, sorted by name.

    Paths may be directories, patterns or URLs; see `programs_at`.

    Raises:
        InputError: A path has no program.
    """
    return sorted({file for path in paths for file in programs_at(path)})


def programs_at(path: str) -> Iterator[str]:
    """Yield the files of programs at a path, in a directory, or for a pattern or URL.

    Raises:
        InputError: A pattern or a URL matches no program.
    """
    if _URL in path:
        yield from _at_url(path)
    elif isdir(path):
        yield from (str(dump.file) for dump in dumps_in(Path(path)))
    elif exists(path) or not has_magic(path):
        yield path
    else:
        found = [name for name in glob(path, recursive=True) if isfile(name)]
        if not found:
            raise InputError(f"no file is like `{path}`")
        yield from found


def _at_url(url: str) -> list[str]:
    """Return the URLs of the programs at a URL, which may be a directory or a pattern.

    For a chained URL, such as a pattern inside a zip file, the results are chained too.

    Raises:
        InputError: The URL cannot be read, or no program is there.
    """
    first, chained, rest = url.partition(_CHAIN)
    if chained and _URL not in first:  # a prefix such as a cache, which has no path itself
        return [f"{first}{_CHAIN}{name}" for name in _at_url(rest)]
    fsspec = _fsspec()
    try:
        system, path = fsspec.core.url_to_fs(url)
        if has_magic(path):
            found = [name for name in system.glob(path) if system.isfile(name)]
        elif system.isdir(path):
            found = [name for name in system.find(path) if is_dump(name.rpartition("/")[2])]
        else:
            found = [path] if system.exists(path) else []
        names = [str(system.unstrip_protocol(name)) for name in found]
    except Exception as error:  # each system raises errors of its own
        raise _unreadable(url, error) from None
    if not names:
        raise InputError(f"there are no programs at `{url}`")
    return [f"{name}{chained}{rest}" for name in names]


def content_of(file: str) -> bytes:
    """Return the decompressed contents of a file or of a URL.

    Raises:
        InputError: The file or URL cannot be read.
    """
    if _URL not in file:
        return bytes_of_file(file)
    try:
        with _fsspec().open(file, "rb") as stream:
            return read_stream(stream, f"`{file}`")
    except HloscopeError:
        raise
    except Exception as error:  # each system raises errors of its own
        raise _unreadable(file, error) from None


def _unreadable(url: str, error: Exception) -> InputError:
    return InputError(f"cannot read `{url}`: {error or type(error).__name__}")


def _fsspec() -> Any:
    return library_of("scan", "fsspec", "URLs")


# --------------------------------------------------------------------------------------------------
# The modules and stages in a directory that `--xla_dump_to` wrote.


_MODULE: Final = r"(?:(?P<folder>.*)/)?module_(?P<number>\d+)\.(?P<module>.+?)\."
_NAMES: Final = (
    pattern(_MODULE + r"(?P<pass>\d{4})\.(?P<stage>.+)"),
    pattern(_MODULE + r"(?P<pass>)(?P<stage>(?:\w+\.\w+_|\w+_)?(?:before|after)_\w+)"),
    pattern(_MODULE + r"(?P<pass>)(?P<stage>.+)"),
)
_PASS: Final = pattern(r"(?:(?P<folder>.*)/)?(?P<pass>\d{4})\.(?P<stage>.+)")
FORMS: Final = (
    "hlo.txt", "hlo.pb", "hlo", "txt",
    "stablehlo.mlir", "mlir", "mlir.bc", "mlirbc", "jaxexport",
)  # fmt: skip
"""Endings of the names of program files: HLO texts and protos, StableHLO texts and bytecode."""
_PACKED: Final = ("gz", "zst")
_PROGRAM: Final = pattern(
    rf"(?P<stem>.+?)\.(?P<form>{'|'.join(map(re.escape, FORMS))})(?:\.(?:{'|'.join(_PACKED)}))?$"
)
_OTHERS: Final = pattern(
    r"(?:^|[-_])(?:buffer-assignment|memory-usage|live-range|thunk|ir-|debug_options|flagfile"
    r"|autotune|kernel-spec|alias|obj-file|asm)"
)
"""Parts of file names, after the module's name, that mark reports of XLA that are not programs."""
_STAGES: Final = ("before_optimizations", "after_spmd_partitioner", "after_optimizations")
"""Stages of a module in the order in which XLA dumps them; single passes lie between."""


def dumps_in(folder: Path) -> list[Dump]:
    """Return the programs in and below a directory, module by module, in order of their stages.

    Raises:
        InputError: The directory has no program.
    """
    found = []
    for path in _files_below(folder):
        name = path.relative_to(folder).as_posix()
        program = _PROGRAM.match(name)
        if program and isfile(path) and is_dump(path.name):
            found.append(_dump(path, program["stem"]))
    if not found:
        names = ", ".join([f"*.{form}" for form in FORMS])
        raise InputError(f"`{folder}` is a directory without programs ({names})")
    return sorted(found, key=lambda d: (d.number, d.module, d.order, d.file))


def _files_below(folder: Path) -> list[Path]:
    """Return the files in and below a directory, sorted; unreadable subdirectories are skipped.

    Raises:
        InputError: The directory itself cannot be read.
    """

    def unless_first(error: OSError) -> None:
        if error.filename == fspath(folder):
            raise InputError(f"cannot read `{folder}`: {error.strerror}")

    below = walk(folder, onerror=unless_first)
    return sorted(Path(base, name) for base, _, names in below for name in names)


def _size(path: Path) -> int:
    try:
        return getsize(path)
    except OSError:  # somebody has deleted it meanwhile
        return 0


def is_dump(name: str) -> bool:
    """Does a file name have the form of a program's file?

    >>> [is_dump(name) for name in ("a.hlo", "a.hlo.txt.gz", "a.mlir", "a.ptx", "a.thunk.txt")]
    [True, True, True, False, False]
    >>> is_dump("alias_of_thunk.hlo"), is_dump("alias_of_thunk.txt")
    (True, True)
    >>> is_dump("a.mlir.bc"), is_dump("a.jaxexport.zst"), is_dump("a.bc")
    (True, True, False)
    """
    program = _PROGRAM.match(name)
    if program is None:
        return False
    module, _, about = program["stem"].rpartition(".")
    # XLA also writes reports as `.txt`. They are recognised by the part after the module's name; a
    # name without such a part is the user's own.
    return program["form"] != "txt" or not module or not _OTHERS.search(about)


def _dump(path: Path, stem: str) -> Dump:
    size = _size(path)
    parts = next(filter(None, (form.fullmatch(stem) for form in _NAMES)), None)
    if parts is not None:
        number, module = int(parts["number"]), parts["module"]
        return Dump(path, module, number, parts["stage"], _order(parts), size)
    parts = _PASS.fullmatch(stem)
    if parts is not None:
        return Dump(path, parts["folder"] or "", -1, parts["stage"], _order(parts), size)
    module, _, stage = stem.partition(".")
    return Dump(path, module, -1, stage, (0, 0), size)


def _order(parts: re.Match[str]) -> tuple[int, int]:
    # Single passes come between the stages before and after optimization.
    if parts["pass"]:
        return 1, int(parts["pass"])
    ends = [i for i, end in enumerate(_STAGES) if parts["stage"].endswith(end)]
    return (0, 0) if ends == [0] else (2, ends[0] if ends else len(_STAGES))
