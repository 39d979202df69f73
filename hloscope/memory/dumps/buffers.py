"""Buffer assignments and thunk sequences: allocations of a program, and its execution order."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.errors import ParseError
from hloscope.support.lazy import pattern
from hloscope.support.source import Source, Span

# --------------------------------------------------------------------------------------------------
# Buffer assignments: the allocations of a program, and the values in each of their bytes.
#
# Source: XLA `xla/service/buffer_assignment.cc` (`BufferAllocation::ToString`) and `hlo_value.cc`
# (`HloValue::ToShortString`, `ToString`).


_N: Final = r"\d{1,19}"
_INDEX: Final = r"\{((?:\d{1,9}(?:,\d{1,9})*)?)\}"
_ALLOCATION: Final = pattern(rf"allocation ({_N}): size ({_N})(.*):")
_VALUE: Final = pattern(
    rf" value: <({_N}) ([^\s{{<>]+)(?:{_INDEX})?(?: \(phi\))?(?: @({_N}))?> "
    rf"\(size=({_N}),offset=({_N})\): (.*)"
)
_USED: Final = pattern(rf"<({_N}) [^<>]*>")
_POSITION: Final = pattern(rf"  ([^\s{{]+)(?: {_INDEX})?")
_TOTAL: Final = pattern(rf"Total bytes used: ({_N})")
_COLOR: Final = pattern(rf", color ({_N})")
_PARAMETER: Final = pattern(rf", parameter ({_N}), shape \|[^|]*\| at ShapeIndex {_INDEX}")


class BufferValue(Struct, frozen=True):
    """One array of an instruction, and its bytes in an allocation.

    Attributes:
        id: XLA's number of the value.
        name: The instruction that defines it.
        index: Shape index in the instruction's value; empty for an array, or for a tuple's table of
            pointers.
        offset: First byte in the allocation.
        size: Size in bytes.
        type: Type and layout, as XLA prints them.
        color: Memory space, 0 if not stated.
    """

    id: int
    name: str
    index: tuple[int, ...]
    offset: int
    size: int
    type: str
    color: int = 0


class Allocation(Struct, frozen=True):
    """One allocation of a program.

    Attributes:
        index: XLA's number of the allocation.
        size: Size in bytes.
        values: The values in it, in file order.
        parameter: Number of the entry parameter that it holds; `None` for other allocations.
        parameter_index: Shape index in that parameter.
        color: Memory space, 0 if not stated.
        is_live_out: Is it marked `maybe-live-out`: may an output lie in it?
        is_constant: Does it hold a constant?
        is_thread_local: Is it a value inside a reducer or comparator, which takes no memory?
        is_temporary: Is it the heap of temporaries (`preallocated-temp`)?
    """

    index: int
    size: int
    values: tuple[BufferValue, ...]
    parameter: int | None = None
    parameter_index: tuple[int, ...] = ()
    color: int = 0
    is_live_out: bool = False
    is_constant: bool = False
    is_thread_local: bool = False
    is_temporary: bool = False


class BufferSlice(Struct, frozen=True):
    """Bytes of an allocation.

    Attributes:
        allocation: Number of the allocation.
        offset: First byte.
        size: Size in bytes.
    """

    allocation: int
    offset: int
    size: int

    def overlaps(self, other: BufferSlice) -> bool:
        """Do two slices share a byte?

        >>> BufferSlice(0, 0, 8).overlaps(BufferSlice(0, 4, 8))
        True
        """
        return (
            self.allocation == other.allocation
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )


class Buffers:
    """The buffer assignment of one program.

    Attributes:
        allocations: The allocations, in file order.
        positions: For each of XLA's value numbers, the instructions and shape indices that have the
            value; empty if the folder does not state them.
        total_bytes: XLA's total of the program; `None` if the folder does not state it.
    """

    def __init__(
        self,
        allocations: tuple[Allocation, ...],
        positions: Mapping[int, tuple[tuple[str, tuple[int, ...]], ...]],
        total_bytes: int | None,
    ) -> None:
        self.allocations: Final = allocations
        self.positions: Final = positions
        self.total_bytes: Final = total_bytes

    # Looked up for each operand and output of each kernel.
    @cached_property
    def slices(self) -> Mapping[tuple[str, tuple[int, ...]], BufferSlice]:
        """Return the bytes of each array, by instruction name and shape index.

        A bitcast, a tuple and a `get-tuple-element` have the bytes of the value that they forward,
        if the positions of values are known.
        """
        found: dict[tuple[str, tuple[int, ...]], BufferSlice] = {}
        for allocation in self.allocations:
            for value in allocation.values:
                slice = BufferSlice(allocation.index, value.offset, value.size)
                found[value.name, value.index] = slice
                for position in self.positions.get(value.id, ()):
                    found[position] = slice
        return found


def parse_buffers(source: Source, values: Source | None = None) -> Buffers:
    r"""Return the buffer assignment in a `*-buffer-assignment.txt`.

    Lines without an allocation, value or total are skipped.

    Args:
        source: The text.
        values: The text of `*-buffer-assignment-values.txt`, which newer versions write in
            addition; older versions append its content to the first file.

    Raises:
        ParseError: The first line is wrong, an allocation or value is damaged, or the allocations
            do not add up to XLA's total.

    >>> text = "BufferAssignment:\nallocation 0: size 8, maybe-live-out:\n"
    >>> text += " value: <3 add.1{0} @0> (size=8,offset=0): f32[2]{0}\n"
    >>> parse_buffers(Source("b", text)).slices
    {('add.1', (0,)): BufferSlice(allocation=0, offset=0, size=8)}
    """
    if not source.text.startswith("BufferAssignment"):
        raise _expected(source, 0, "`BufferAssignment:` in the first line")
    allocations: list[Allocation] = []
    inside: list[BufferValue] = []
    header = ""
    at = 0
    for line in source.text.splitlines(keepends=True):
        text = line.rstrip("\r\n")
        if text.startswith("allocation "):
            _finish(allocations, header, inside)
            if _ALLOCATION.fullmatch(text) is None:
                raise _expected(source, at, "`allocation N: size BYTES, …:`")
            header, inside = text, []
        elif text.startswith(" value: "):
            inside.append(_value(source, at, text))
        elif not line.startswith(" ") and header:
            _finish(allocations, header, inside)
            header, inside = "", []
        at += len(line)
    _finish(allocations, header, inside)
    rest = source.text if values is None else values.text
    found = _TOTAL.search(rest)
    total = None if found is None else int(found[1])
    held = sum([allocation.size for allocation in allocations])
    # The total is the only sign of a file that was cut between two allocations.
    if total is not None and held != total:
        what = f"the allocations have {held:,} bytes, XLA states a total of {total:,}"
        end = len(source.text.rstrip())
        raise ParseError(f"{what}: the file is cut", span=Span(source, max(end - 1, 0), end))
    return Buffers(tuple(allocations), _positions(rest), total)


def _value(source: Source, at: int, text: str) -> BufferValue:
    found = _VALUE.fullmatch(text)
    if found is None:
        raise _expected(source, at, "`value: <ID NAME @COLOR> (size=BYTES,offset=BYTES): TYPE`")
    number, name, index, color, size, offset, type = found.groups()
    return BufferValue(
        int(number), name, numbers_in(index), int(offset), int(size), type, int(color or 0)
    )


def _finish(allocations: list[Allocation], header: str, values: list[BufferValue]) -> None:
    """Append the allocation that a header line describes, with its values.

    Nothing is appended without a header.

    Args:
        allocations: The allocations so far.
        header: Text of the header line; empty for none.
        values: Values of the allocation.
    """
    found = _ALLOCATION.fullmatch(header)
    if found is None:
        return
    about = found[3]
    parameter = _PARAMETER.search(about)
    words = {word.strip() for word in about.split(",")}
    color = _COLOR.search(about)
    allocations.append(
        Allocation(
            int(found[1]),
            int(found[2]),
            tuple(values),
            None if parameter is None else int(parameter[1]),
            () if parameter is None else numbers_in(parameter[2]),
            0 if color is None else int(color[1]),
            "maybe-live-out" in words,
            "constant" in words,
            "thread-local" in words,
            "preallocated-temp" in words,
        )
    )


def _positions(text: str) -> dict[int, tuple[tuple[str, tuple[int, ...]], ...]]:
    """Return the (instruction, shape index) pairs of each value, by XLA's number of the value.

    `text` is the list of used values.
    """
    found: dict[int, tuple[tuple[str, tuple[int, ...]], ...]] = {}
    number: int | None = None
    is_list = False
    for line in text.splitlines():
        if used := _USED.fullmatch(line):
            number, is_list = int(used[1]), False
        elif line == " positions:":
            is_list = True
        elif number is not None and is_list and (position := _POSITION.fullmatch(line)):
            place = position[1], numbers_in(position[2])
            found[number] = (*found.get(number, ()), place)
        else:
            is_list = False
    return found


def numbers_in(text: str | None) -> tuple[int, ...]:
    """Return the integers of a list such as `1,2`; empty for an empty text or `None`."""
    return tuple([int(n) for n in (text or "").split(",") if n.strip()])


def _expected(source: Source, at: int, what: str) -> ParseError:
    end = source.text.find("\n", at)
    is_last = end < 0 or end + 1 >= len(source.text)
    span = Span(source, at, max(len(source.text) if end < 0 else end, at + 1))
    cut = ": the file is cut" if is_last and source.text else ""
    return ParseError(f"expected {what}{cut}", span=span)


# --------------------------------------------------------------------------------------------------
# Thunk sequences: the order in which a program runs kernels, copies and loops, with launches.
#
# Source: XLA `xla/backends/gpu/runtime/thunk.cc` (`ThunkSequence::ToString`), `custom_kernel.cc`
# (`CustomKernel::ToString`) and, of older versions, `launch_dimensions.h`.


Sizes: TypeAlias = tuple[int, int, int]
"""Sizes in x, y and z."""

KERNELS: Final = ("kKernel", "kCustomKernel")
"""Kinds of thunks that launch a kernel."""
_NUMBER: Final = r"(\d{1,18})"
_THREE: Final = rf"[\[{{]\s*{_NUMBER},\s*{_NUMBER},\s*{_NUMBER}\s*[\]}}]"
_LINE: Final = pattern(r"(?m)^([ \t]*)(\d{1,18}): (k\w+)\b(.*)$")
_LAUNCH: Final = pattern(rf"\b(?:grid|blocks): {_THREE},? *threads(?:/block)?: {_THREE}")
_NAME: Final = pattern(r"(?:\bkernel = |\] )([\w.\-$]+)")
_SHARED: Final = pattern(rf"\bshared_memory: {_NUMBER} bytes")
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
        """Does the thunk launch a kernel?"""
        return self.blocks is not None


def parse_thunks(source: Source, names: Mapping[int, str] | None = None) -> tuple[Thunk, ...]:
    r"""Return the thunks in a `*.thunk_sequence.txt`; nested ones follow their parents.

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
    """Return a thunk completed by the launch in the rest of its line.

    Args:
        source: The text.
        start: Offset of the rest of the line.
        end: End of the line.
        rest: The rest of the line.
        thunk: The thunk without its launch.

    Raises:
        ParseError: The line has no launch dimensions.
    """
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
