"""Common form of all profiles: events of devices, and XLA's annotations of kernel launches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from hloscope.errors import InputError

# --------------------------------------------------------------------------------------------------
# Common form of all profiles: events of devices, facts about devices, and programs.


MOST_PROFILE: Final = 1 << 30
"""Maximum bytes of a decompressed profile; SQLite files are read piece by piece."""
MOST_EVENTS: Final = 1 << 22
"""Maximum number of device events in one profile; more are refused."""
_WORD: Final = (1 << 64) - 1

Kind: TypeAlias = Literal["kernel", "copy", "set", "graph"]
"""Kernel or CPU thunk, copy, memory set, or a CUDA graph recorded as one event."""
Size: TypeAlias = tuple[int, int, int]
"""Sizes in x, y and z."""


class KernelEvent(Struct, frozen=True):
    """One piece of work on a device.

    Attributes:
        name: Recorded name of the kernel, copy or instruction.
        start: Start in picoseconds, counted from a moment that the profile chooses.
        duration: Duration in picoseconds.
        device: The profile's name of the device.
        stream: Stream, queue or thread. Events of one stream may contain others.
        kind: See `Kind`.
        hlo_op: Name of the HLO instruction, empty if not recorded.
        hlo_module: Name of the HLO module, empty if not recorded.
        program_id: Number of the compiled program, unsigned; `None` if not recorded.
        run: Number of the program's execution, unsigned; `None` if not recorded.
        correlation: Number that the event shares with its launch on the host; `None` if not
            recorded.
        grid: Thread blocks of the launch.
        block: Threads of each block.
        bytes: Bytes that a copy or a set moves.
        is_annotated: Is the instruction named by an NVTX range around the launch, and not by the
            event?
    """

    name: str
    start: int
    duration: int
    device: str
    stream: str
    kind: Kind = "kernel"
    hlo_op: str = ""
    hlo_module: str = ""
    program_id: int | None = None
    run: int | None = None
    correlation: int | None = None
    grid: Size | None = None
    block: Size | None = None
    bytes: int | None = None
    is_annotated: bool = False

    @property
    def end(self) -> int:
        """Return the end, in picoseconds."""
        return self.start + self.duration


class ProfiledDevice(Struct, frozen=True):
    """A device of a profile.

    Attributes:
        name: Name of the device in events.
        model: Name of the hardware; empty if not recorded.
        facts: Recorded facts about the device, by the names in the profile.
    """

    name: str
    model: str
    facts: Mapping[str, str | int | float]


class ProfiledProgram(Struct, frozen=True):
    """A compiled program inside a profile.

    Attributes:
        name: Name of the module.
        program_id: Number of the program, unsigned.
        proto: Bytes of its `xla.HloProto`.
    """

    name: str
    program_id: int
    proto: bytes

    @property
    def label(self) -> str:
        """Return `name(program_id)`, as XLA writes it."""
        return f"{self.name}({self.program_id})"


class Profile(Struct, frozen=True):
    """Recorded events of devices, with facts about the devices and programs.

    Attributes:
        events: Events in order of start, without host events except thunks of the CPU backend.
        source: File or files.
        form: `xplane`, `trace`, `nsys csv`, `nsys nvtx csv`, `nsys sqlite`, `rocprofv3 csv` or
            `rocprofv3 json`.
        devices: Devices with events.
        programs: Compiled programs inside.
        problems: Sentences about missing or omitted data.
    """

    events: tuple[KernelEvent, ...]
    source: str
    form: str
    devices: tuple[ProfiledDevice, ...] = ()
    programs: tuple[ProfiledProgram, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Return the sum of the durations in picoseconds; nested events count twice."""
        return sum([event.duration for event in self.events])


def profile_of(
    events: list[KernelEvent],
    source: str,
    form: str,
    *,
    devices: Iterable[ProfiledDevice] = (),
    programs: Iterable[ProfiledProgram] = (),
    problems: Iterable[str] = (),
) -> Profile:
    """Return a profile with its events sorted by start.

    A device is added for each event whose device is missing.

    Args:
        events: The events; sorted in place.
        source: File or files.
        form: Form of the files; see `Profile.form`.
        devices: Known devices.
        programs: Compiled programs inside.
        problems: Sentences about missing or omitted data.
    """
    known = {device.name: device for device in devices}
    for name in dict.fromkeys([event.device for event in events]):
        known.setdefault(name, ProfiledDevice(name, "", {}))
    events.sort(key=lambda event: (event.start, -event.duration))
    used = tuple(known.values())
    return Profile(tuple(events), source, form, used, tuple(programs), tuple(problems))


def refuse_many(count: int, source: str) -> None:
    """Raise an error if a profile has more than `MOST_EVENTS` events.

    Args:
        count: Number of events.
        source: Name of the file in the message.

    Raises:
        InputError: `count` is too large.
    """
    if count > MOST_EVENTS:
        raise InputError(f"{source}: more than {MOST_EVENTS:,} events of devices are not read")


def unsigned(value: Any) -> int | None:
    """Return a recorded number as an unsigned 64-bit one, `None` if it is not a whole number.

    >>> unsigned("-1"), unsigned(7), unsigned("x"), unsigned("")
    (18446744073709551615, 7, None, None)
    """
    if isinstance(value, str):
        text = value.strip()
        if len(text) > 20 or not text.removeprefix("-").isdecimal():
            return None
        value = int(text)
    return value & _WORD if isinstance(value, int) and not isinstance(value, bool) else None


def sizes_of(values: Iterable[Any]) -> Size | None:
    """Return three recorded sizes, in x, y and z; `None` if one is not a whole number."""
    x, y, z = map(unsigned, values)
    return None if x is None or y is None or z is None else (x, y, z)


# --------------------------------------------------------------------------------------------------
# XLA's annotations of launches: `Thunk:#name=dot,hlo_op=dot.3#`.
#
# Source: XLA `xla/backends/gpu/runtime/annotation.cc`, tsl `profiler/utils/parse_annotation.cc`.


_CLOSING: Final = {"(": ")", "[": "]", "{": "}", '"': '"'}
_MOST: Final = 1 << 16
"""Maximum number of characters of an annotation that are read; the rest is ignored."""


class Annotation(NamedTuple):
    """The HLO names in an annotation of a kernel launch; empty or `None` if they are missing.

    Attributes:
        hlo_op: Name of an instruction.
        hlo_module: Name of a module.
        program_id: Number of a program.
    """

    hlo_op: str = ""
    hlo_module: str = ""
    program_id: int | None = None


def pairs(text: str) -> dict[str, str]:
    """Return the `key=value` pairs between the last two `#`, split at commas outside quotes.

    >>> pairs("TSL:Thunk:#name=f(a,b),hlo_op=dot.3#")
    {'name': 'f(a,b)', 'hlo_op': 'dot.3'}
    >>> pairs("a range of the user's")
    {}
    """
    found: dict[str, str] = {}
    if not text.endswith("#") or len(text) > _MOST:
        return found
    start = text.rfind("#", 0, -1)
    if start < 0:
        return found
    inside, piece, closing = text[start + 1 : -1], "", list[str]()
    for sign in inside + ",":
        if sign == "," and not closing:
            key, equals, value = piece.partition("=")
            if equals:
                found[key.strip()] = value.strip()
            piece = ""
            continue
        if closing and sign == closing[-1]:
            closing.pop()
        elif sign in _CLOSING and closing[-1:] != ['"']:
            closing.append(_CLOSING[sign])
        piece += sign
    return found


# Cached: an export of nsys with 70,000 launches takes 1.5 × as long to read without it.
@lru_cache(maxsize=1 << 12)
def annotation(text: str) -> Annotation:
    """Return the innermost names in a text of annotations joined by `::`.

    >>> annotation("XlaModule:#hlo_module=jit_f,program_id=7#::Thunk:#hlo_op=dot.3#")
    Annotation(hlo_op='dot.3', hlo_module='jit_f', program_id=7)
    """
    known: dict[str, str] = {}
    for part in text[:_MOST].split("::"):
        known |= pairs(part)
    number = unsigned(known.get("program_id", ""))
    return Annotation(known.get("hlo_op", ""), known.get("hlo_module", ""), number)


def innermost(texts: list[str]) -> Annotation:
    """Return the innermost op and module of nested ranges; `texts` has the outermost first."""
    op, module, program_id = "", "", None
    for text in texts:
        found = annotation(text)
        op = found.hlo_op or op
        if found.hlo_module:
            module, program_id = found.hlo_module, found.program_id
        elif found.program_id is not None:
            program_id = found.program_id
    return Annotation(op, module, program_id)


# --------------------------------------------------------------------------------------------------
# Detection of XPlane files by their first bytes, so that a cut file is still recognised.


HEAD: Final = 64
"""Number of bytes by which a file's format is recognised."""


def is_xspace(data: bytes) -> bool:
    r"""Are these the first bytes of an `XSpace` message?

    >>> is_xspace(b"\n\x1b\x08\x01\x12\x0d/device:GPU:0")
    True
    >>> is_xspace(b"\n\x0d\n\x05jit_f\x12\x04main")  # an HloProto
    False
    """
    head = data[:HEAD]
    if head[:1] != b"\n":
        return False
    at = 1
    while at < len(head) and head[at] > 127:
        at += 1
    at += 1
    if head[at : at + 1] == b"\x08":  # the id
        at += 1
        while at < len(head) and head[at] > 127:
            at += 1
        at += 1
    name = head[at + 2 :]
    starts = (b"/host:", b"/device:", b"Task Environment", b"#Chip", b"/custom:", b"/misc")
    return head[at : at + 1] == b"\x12" and name.startswith(starts)
