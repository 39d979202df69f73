"""Thunk sequences: the order in which a program runs kernels, copies and loops, with launches.

Source: XLA `xla/backends/gpu/runtime/thunk.cc` (`ThunkSequence::ToString`), `custom_kernel.cc`
(`CustomKernel::ToString`) and, of older versions, `launch_dimensions.h`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.errors import ParseError
from hloscope.lazy import pattern
from hloscope.source import Source, Span

Sizes: TypeAlias = tuple[int, int, int]
"""Sizes in x, y and z."""

KERNELS: Final = ("kKernel", "kCustomKernel")
"""Kinds of thunks that launch a kernel."""
_N: Final = r"(\d{1,18})"
_THREE: Final = rf"[\[{{]\s*{_N},\s*{_N},\s*{_N}\s*[\]}}]"
_LINE: Final = pattern(r"(?m)^([ \t]*)(\d{1,18}): (k\w+)\b(.*)$")
_LAUNCH: Final = pattern(rf"\b(?:grid|blocks): {_THREE},? *threads(?:/block)?: {_THREE}")
_NAME: Final = pattern(r"(?:\bkernel = |\] )([\w.\-$]+)")
_SHARED: Final = pattern(rf"\bshared_memory: {_N} bytes")
_ENTRY: Final = pattern(r'profile_annotation: "([^"\n]*)"\s*thunk_id: (\d{1,18})')


class Thunk(Struct, frozen=True):
    """One line of a thunk sequence.

    Attributes:
        id: Its number in the sequence.
        kind: XLA's kind: `kCustomKernel`, `kCopy`, `kWhile` and so on.
        kernel: Name of the launched kernel; empty for other kinds.
        blocks: Blocks of the grid in x, y and z; `None` for other kinds.
        threads: Threads of a block in x, y and z; `None` for other kinds.
        shared_bytes: Dynamic shared memory of a block, in bytes.  Static arrays are not in it: a
            kernel of XLA's own emitters has 0 here and `.shared` arrays in its PTX.
        instruction: Name of the HLO instruction that the thunk belongs to; empty if the folder
            does not state it.
        line: Line of the file.
    """

    id: int
    kind: str
    kernel: str = ""
    blocks: Sizes | None = None
    threads: Sizes | None = None
    shared_bytes: int = 0
    instruction: str = ""
    line: int = 0

    @property
    def is_kernel(self) -> bool:
        """Does it launch a kernel?"""
        return self.blocks is not None


def parse_thunks(source: Source, names: Mapping[int, str] | None = None) -> tuple[Thunk, ...]:
    r"""Return the thunks in a `*.thunk_sequence.txt`, nested ones after their parents.

    Lines without a thunk are skipped. Thunks of unknown kinds have no launch.

    Args:
        source: The text.
        names: The instruction of each thunk by its number, from `parse_thunk_names`.

    Raises:
        ParseError: A kernel has no launch dimensions, or the file ends before its last thunk.

    >>> text = "001: kCustomKernel [source | sink] add grid: [4, 1, 1] threads: [128, 1, 1]  "
    >>> found = parse_thunks(Source("t", text + "shared_memory: 0 bytes\n"), {1: "add.1"})
    >>> [(thunk.kernel, thunk.blocks, thunk.instruction) for thunk in found]
    [('add', (4, 1, 1), 'add.1')]
    """
    instructions = names or {}
    found = []
    for line in _LINE.finditer(source.text):
        number, kind, rest = int(line[2]), line[3], line[4]
        thunk = Thunk(number, kind, instruction=instructions.get(number, ""))
        if kind in KERNELS:
            thunk = _kernel(source, line.start(4), line.end(), rest, thunk)
        elif line.end() == len(source.text):
            raise _cut(source, line.start(3), "the file ends within a line")
        found.append(thunk)
    # A sequence that was cut between two lines shows only in the thunks it lacks.
    missing = instructions.keys() - {thunk.id for thunk in found}
    if missing:
        first = min(missing)
        what = f"thunk {first:03}, `{instructions[first]}` in thunk_metadata.txt, is missing"
        raise _cut(source, max(len(source.text.rstrip()) - 1, 0), what)
    return tuple(found)


def _kernel(source: Source, start: int, end: int, rest: str, thunk: Thunk) -> Thunk:
    """Return the thunk with the launch in the rest of its line."""
    launch, name = _LAUNCH.search(rest), _NAME.search(rest)
    if launch is None or name is None:
        expected = "expected `NAME grid: [x, y, z] threads: [x, y, z]`"
        if end == len(source.text):
            raise _cut(source, start, expected)
        raise ParseError(f"thunk {thunk.id:03}: {expected}", span=Span(source, start, end))
    sizes = [int(size) for size in launch.groups()]
    shared = _SHARED.search(rest)
    return Thunk(
        thunk.id,
        thunk.kind,
        name[1],
        (sizes[0], sizes[1], sizes[2]),
        (sizes[3], sizes[4], sizes[5]),
        0 if shared is None else int(shared[1]),
        thunk.instruction,
        source.line(start),
    )


def _cut(source: Source, at: int, what: str) -> ParseError:
    span = Span(source, at, max(len(source.text), at + 1))
    return ParseError(f"the thunk sequence is cut: {what}", span=span)


def parse_thunk_names(source: Source) -> dict[int, str]:
    r"""Return the HLO instruction of each thunk number in a `*.thunk_metadata.txt`.

    >>> text = 'thunk_metadata { thunk_info {\n profile_annotation: "add.1"\n thunk_id: 7 } }'
    >>> parse_thunk_names(Source("t", text))
    {7: 'add.1'}
    """
    return {int(found[2]): found[1] for found in _ENTRY.finditer(source.text)}
