"""Bytes of files and streams, decompressed, up to a limit.

A stream may be endless, and few compressed bytes may expand to very many: both stop at the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import SEEK_END, PathLike, fspath
from os.path import isfile
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from hloscope.errors import InputError
from hloscope.hlo_parser import is_proto
from hloscope.lazy import lazy
from hloscope.limits import MOST_ARTIFACT, MOST_INPUT
from hloscope.profiles import is_xspace

if TYPE_CHECKING:
    import zlib
else:
    zlib = lazy("zlib")
zstandard: Any = lazy("zstandard")

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
MLIR: Final = b"ML\xefR"
_BLOCK: Final = 1 << 20
_PIECE: Final = 1 << 10
"""Bytes of a zstd file that are decompressed at once: 4 of them may stand for 128 KiB."""


def read_file(path: str | PathLike[str]) -> bytes:
    """The bytes of a file, decompressed if it is a gzip or zstd file.

    Raises:
        InputError: It is too large, or damaged.
        OSError: It cannot be read.
    """
    with open(path, "rb") as stream:
        if isfile(path):  # a pipe cannot be read twice
            if stream.read(len(MLIR)) == MLIR:
                return _artifact(stream, f"`{fspath(path)}`")
            stream.seek(0)
        return read_stream(stream, f"`{fspath(path)}`")


def _artifact(stream: BinaryIO, name: str) -> bytes:
    """The bytes of a file of MLIR bytecode.

    It is read at once, because joining blocks would need twice the memory.
    """
    size = stream.seek(0, SEEK_END)
    if size > MOST_ARTIFACT:
        raise InputError(f"{name} has {size:,} bytes, more than {MOST_ARTIFACT >> 30} GiB")
    stream.seek(0)
    return stream.read()


def read_stream(stream: BinaryIO, name: str) -> bytes:
    """The bytes of a stream to its end, decompressed if they are gzip's or zstd's.

    Raises:
        InputError: There are too many, they are damaged, or no text.
    """
    first = stream.read(_BLOCK)
    blocks = _blocks(first, stream)
    if first.startswith(GZIP):
        return _joined(_gunzipped(blocks, name), name, "decompressed ")
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
    parts, total = [], 0
    for block in blocks:
        total += len(block)
        if total > MOST_INPUT:
            raise InputError(f"{name} has more than {MOST_INPUT >> 20} MiB of {how}text")
        parts.append(block)
    return b"".join(parts)


def _gunzipped(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield the decompressed content of consecutive gzip members."""
    return _decompressed(blocks, name, lambda: zlib.decompressobj(31), zlib.error, "gzip")


def _decompressed(
    blocks: Iterator[bytes],
    name: str,
    start: Callable[[], Any],
    error: type[Exception],
    kind: str,
) -> Iterator[bytes]:
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
    """Yield the decompressed content of zstd frames; needs the package `zstandard`."""
    try:
        begin = zstandard.ZstdDecompressor
    except ImportError:
        message = f"{name} is a zstd file: to read it, install the package `zstandard`"
        raise InputError(message) from None
    pieces = (block[i : i + _PIECE] for block in blocks for i in range(0, len(block), _PIECE))
    return _decompressed(pieces, name, lambda: _ZstdFrame(begin()), zstandard.ZstdError, "zstd")


class _ZstdFrame:
    """A zstd frame with the interface of `zlib.decompressobj`.

    It ignores the size limit of `decompress`, so its input must come in small pieces.
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
        """The bytes after the end of the frame."""
        rest: bytes = self._made.unused_data
        return rest
