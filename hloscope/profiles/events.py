"""The common form of every profile: events of devices, facts about them, programs inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from hloscope.errors import InputError

MOST_PROFILE: Final = 1 << 30
"""Bytes of a profile, decompressed; an SQLite file is not loaded and has no such limit."""
MOST_EVENTS: Final = 1 << 22
"""Events of devices in one profile."""
_WORD: Final = (1 << 64) - 1

Kind: TypeAlias = Literal["kernel", "copy", "set", "graph"]
"""Kernel or CPU thunk, copy, memory set, or a CUDA graph recorded as one event."""
Size: TypeAlias = tuple[int, int, int]
"""x, y, z."""


class KernelEvent(Struct, frozen=True):
    """One piece of work on a device.

    Attributes:
        name: As recorded: of the kernel, copy or instruction.
        start: Picoseconds since a moment that the profile chooses.
        duration: Picoseconds.
        device: As the profile calls it.
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
        is_annotated: The instruction comes from a range around the launch (NVTX), not from the
            event itself.
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
        """Picoseconds, start plus duration."""
        return self.start + self.duration


class ProfiledDevice(Struct, frozen=True):
    """A device of a profile.

    Attributes:
        name: As the events call it.
        model: The hardware's name, empty if not recorded.
        facts: What the profile records about it, by the profile's own names.
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
        """`name(program_id)`, as XLA writes it."""
        return f"{self.name}({self.program_id})"


class Profile(Struct, frozen=True):
    """What a profile records about devices.

    Attributes:
        events: In order of start; those of the host are left out, except thunks of the CPU backend.
        source: File or files.
        form: `xplane`, `trace`, `nsys csv`, `nsys nvtx csv`, `nsys sqlite`, `rocprofv3 csv` or
            `rocprofv3 json`.
        devices: Devices with events.
        programs: Compiled programs inside.
        problems: What is missing or was left out, as sentences.
    """

    events: tuple[KernelEvent, ...]
    source: str
    form: str
    devices: tuple[ProfiledDevice, ...] = ()
    programs: tuple[ProfiledProgram, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Sum of the durations in picoseconds; nested events count twice."""
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
    """Return the profile with its events in order of start and a device for each event."""
    known = {device.name: device for device in devices}
    for name in dict.fromkeys([event.device for event in events]):
        known.setdefault(name, ProfiledDevice(name, "", {}))
    events.sort(key=lambda event: (event.start, -event.duration))
    used = tuple(known.values())
    return Profile(tuple(events), source, form, used, tuple(programs), tuple(problems))


def refuse_many(count: int, source: str) -> None:
    """Refuse a profile of more than `MOST_EVENTS` events.

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
