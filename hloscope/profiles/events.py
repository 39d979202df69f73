"""Common form of all profiles: events of devices, facts about devices, and programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from hloscope.errors import InputError

MOST_PROFILE: Final = 1 << 30
"""Maximum number of bytes of a decompressed profile; SQLite files are not loaded at once."""
MOST_EVENTS: Final = 1 << 22
"""Maximum number of device events in one profile."""
_WORD: Final = (1 << 64) - 1

Kind: TypeAlias = Literal["kernel", "copy", "set", "graph"]
"""Kernel or CPU thunk, copy, memory set, or a CUDA graph recorded as one event."""
Size: TypeAlias = tuple[int, int, int]
"""Sizes in x, y and z."""


class KernelEvent(Struct, frozen=True):
    """One piece of work on a device.

    Attributes:
        name: Recorded name of the kernel, copy or instruction.
        start: Picoseconds since a moment that the profile chooses.
        duration: Duration in picoseconds.
        device: The profile's name of the device.
        stream: Stream, queue or thread; events of one stream may contain others.
        kind: See `Kind`.
        hlo_op: Name of the HLO instruction, empty if not recorded.
        hlo_module: Name of the HLO module, empty if not recorded.
        program_id: Number of the compiled program, unsigned; `None` if not recorded.
        run: Number of the program's execution, unsigned; `None` if not recorded.
        correlation: Number that the event shares with its launch on the host.
        grid: Thread blocks of the launch.
        block: Threads of each block.
        bytes: Bytes that a copy or a set moves.
        is_annotated: Does a range around the launch (NVTX) name the instruction, and not the event?
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
        facts: Recorded facts about it, by the profile's names.
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


def made(
    events: list[KernelEvent],
    source: str,
    form: str,
    *,
    devices: Iterable[ProfiledDevice] = (),
    programs: Iterable[ProfiledProgram] = (),
    problems: Iterable[str] = (),
) -> Profile:
    """Return a profile with its events in order of start, and a device for each event."""
    known = {device.name: device for device in devices}
    for name in dict.fromkeys([event.device for event in events]):
        known.setdefault(name, ProfiledDevice(name, "", {}))
    events.sort(key=lambda event: (event.start, -event.duration))
    used = tuple(known.values())
    return Profile(tuple(events), source, form, used, tuple(programs), tuple(problems))


def refuse_many(count: int, source: str) -> None:
    """Raise an error for more than `MOST_EVENTS` events.

    Raises:
        InputError: There are more.
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
