"""Buffer assignments: the allocations of a program, and the values in each of their bytes.

Source: XLA `xla/service/buffer_assignment.cc` (`BufferAllocation::ToString`) and `hlo_value.cc`
(`HloValue::ToShortString`, `ToString`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from msgspec import Struct

from hloscope.errors import ParseError
from hloscope.lazy import pattern
from hloscope.source import Source, Span

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
        is_live_out: Does it outlive the run: is it, or may it hold, an output (`maybe-live-out`)?
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
        positions: For each value number, the instructions and shape indices that have the value;
            empty if the folder does not state them.
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
        int(number), name, _numbers(index), int(offset), int(size), type, int(color or 0)
    )


def _finish(allocations: list[Allocation], header: str, values: list[BufferValue]) -> None:
    """Append the allocation of a header and its values, if there is a header."""
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
            () if parameter is None else _numbers(parameter[2]),
            0 if color is None else int(color[1]),
            "maybe-live-out" in words,
            "constant" in words,
            "thread-local" in words,
            "preallocated-temp" in words,
        )
    )


def _positions(text: str) -> dict[int, tuple[tuple[str, tuple[int, ...]], ...]]:
    """Return the positions of each value in the list of used values."""
    found: dict[int, tuple[tuple[str, tuple[int, ...]], ...]] = {}
    number: int | None = None
    is_list = False
    for line in text.splitlines():
        if used := _USED.fullmatch(line):
            number, is_list = int(used[1]), False
        elif line == " positions:":
            is_list = True
        elif number is not None and is_list and (position := _POSITION.fullmatch(line)):
            place = position[1], _numbers(position[2])
            found[number] = (*found.get(number, ()), place)
        else:
            is_list = False
    return found


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple([int(n) for n in (text or "").split(",") if n.strip()])


def _expected(source: Source, at: int, what: str) -> ParseError:
    end = source.text.find("\n", at)
    is_last = end < 0 or end + 1 >= len(source.text)
    span = Span(source, at, max(len(source.text) if end < 0 else end, at + 1))
    cut = ": the file is cut" if is_last and source.text else ""
    return ParseError(f"expected {what}{cut}", span=span)
