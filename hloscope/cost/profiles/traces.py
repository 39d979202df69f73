"""Reader of `trace.json`, and conversion of the lines of a timeline to events of devices."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from hloscope.cost.profiles.events import (
    KernelEvent,
    Kind,
    Profile,
    Size,
    annotation,
    profile_of,
    refuse_many,
    sizes_of,
    unsigned,
)
from hloscope.cost.profiles.tables import Json
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Reader of `trace.json`: the Trace Event Format of `jax.profiler`, xprof and Kineto.
#
# Times are microseconds as decimal fractions, and numbers in `args` may be texts.
#
# Source: Trace Event Format; XLA `xplane_to_trace_events.cc`.


_PICOSECONDS: Final = 1_000_000
_KINETO: Final[Mapping[str, Kind]] = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "set"}
CAPPED: Final = 1_000_000
"""Number of events at which XLA cuts a trace.json file.  Source: XLA `kMaxEvents`."""


def picoseconds(value: Any) -> int | None:
    """Return microseconds as whole picoseconds; `None` if the value is not a finite number.

    >>> picoseconds(31.7), picoseconds("x")
    (31700000, None)
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return value * _PICOSECONDS
    return round(value * _PICOSECONDS) if isfinite(value) else None


def read_trace(data: bytes, source: str) -> Profile:
    """Return the profile of a trace.json text.

    Raises:
        ParseError: The text is cut or not JSON, or has no `traceEvents`; the message has line and
            column.
        InputError: The text has more than `MOST_EVENTS` events.
    """
    return _Trace(Json(data, source)).read()


class _Trace:
    def __init__(self, json: Json) -> None:
        self._json = json
        self._planes: dict[Any, str] = {}
        self._lines: dict[tuple[Any, Any], str] = {}
        self._timeline = Timeline()
        self._kineto: list[KernelEvent] = []
        self._early: list[dict[str, Any]] = []
        """Events that come before the name of their process or thread."""
        self._spans = self._wrong = 0
        self._found = False

    def read(self) -> Profile:
        json = self._json
        if json.peek() == "[":
            self._found = True
            self._take_all(json.items())
        else:
            json.walk((), self._take_key)
        if not self._found:
            json.fail("found no `traceEvents`, expected a list of events under that key")
        for event in self._early:
            self._span(event, last=True)
        problems = []
        if self._spans >= CAPPED:
            problems.append(f"XLA cuts a trace.json at {CAPPED:,} events: later ones are missing")
        if self._wrong:
            problems.append(f"{self._wrong:,} events have no number as `ts` or `dur`: left out")
        events = [*self._timeline.finish(), *self._kineto]
        return profile_of(events, json.source, "trace", problems=problems)

    def _take_key(self, path: str) -> bool:
        if path != "traceEvents":
            return False
        self._found = True
        self._take_all(self._json.items())
        return True

    def _take_all(self, items: Iterator[Any]) -> None:
        for item in items:
            if not isinstance(item, dict):
                self._json.fail(f"found {type(item).__name__} in traceEvents, expected an object")
            match item.get("ph"):
                case "M":
                    self._name(item)
                case "X":
                    self._spans += 1
                    self._span(item)

    def _name(self, item: dict[str, Any]) -> None:
        args = item.get("args")
        name = str(args.get("name", "")) if isinstance(args, dict) else ""
        if item.get("name") == "process_name":
            self._planes[_key(item.get("pid"))] = name
        elif item.get("name") == "thread_name":
            self._lines[_key(item.get("pid")), _key(item.get("tid"))] = name

    def _span(self, item: dict[str, Any], *, last: bool = False) -> None:
        args = item.get("args")
        args = args if isinstance(args, dict) else {}
        kind = _KINETO.get(str(item.get("cat", "")).lower())
        pid, tid = _key(item.get("pid")), _key(item.get("tid"))
        if kind is None and (pid not in self._planes or (pid, tid) not in self._lines):
            if not last:
                self._early.append(item)
                refuse_many(len(self._early), self._json.source)
                return
            if "hlo_op" not in args:
                return
        line = Line(
            self._planes.get(pid, "/host:" if kind is None else str(pid)),
            self._lines.get((pid, tid), ""),
            f"{self._lines.get((pid, tid), '')} #{tid}",
        )
        if kind is None and not self._timeline.wants(line):
            return
        start, duration = picoseconds(item.get("ts")), picoseconds(item.get("dur", 0))
        if start is None or duration is None:
            self._wrong += 1
            return
        name = str(item.get("name", ""))
        if kind is None:
            shown = name if "long_name" in args else ""
            self._timeline.add(line, name, start, max(duration, 0), args, display_name=shown)
        else:
            self._kineto.append(_kineto(name, start, max(duration, 0), kind, args, line.stream))
        refuse_many(len(self._timeline) + len(self._kineto), self._json.source)


def _kineto(
    name: str, start: int, duration: int, kind: Kind, args: Mapping[str, Any], stream: str
) -> KernelEvent:
    """Return an event of PyTorch's profiler.

    Args:
        name: Name of the event.
        start: Start in picoseconds.
        duration: Duration in picoseconds.
        kind: Kind of the event.
        args: Recorded facts: device, stream, grid and block among them.
        stream: Stream, if `args` has none.
    """
    return KernelEvent(
        name,
        start,
        duration,
        f"GPU {args.get('device', '?')}",
        str(args.get("stream", stream)),
        kind,
        str(args.get("hlo_op", "")),
        str(args.get("hlo_module", "")),
        unsigned(args.get("program_id")),
        None,
        unsigned(args.get("correlation")),
        _size(args.get("grid")),
        _size(args.get("block")),
        unsigned(args.get("bytes")),
    )


def _size(value: Any) -> Size | None:
    return sizes_of(value) if isinstance(value, list) and len(value) == 3 else None


def _key(value: Any) -> Any:
    """Return an id as a dictionary key: an integer or a text."""
    return value if isinstance(value, int | str) else str(value)


# --------------------------------------------------------------------------------------------------
# Conversion of the lines of a recorded timeline to events of devices.
#
# XPlane files and trace.json files have the same lines: streams of a GPU, threads of the CPU
# client, and lines that a tool derives from others (`XLA Modules`, `Steps`).
#
# Source: XLA `xplane_schema.cc`.


OPS: Final = "XLA Ops"
_MODULES: Final = "XLA Modules"
_DERIVED: Final = frozenset(
    (
        "Steps", _MODULES, "Framework Ops", "Framework Name Scope", "Source code", "Source Code",
        "XLA TraceMe", "Async XLA Ops", "Kernel Launch Stats", "Launch Stats", "SparseCore Steps",
        "SparseCore Modules", "Host Offload Ops", "TensorFlow Ops", "TensorFlow Name Scope",
    )
)  # fmt: skip
"""Names of lines whose events are derived from others, or overlap those of `XLA Ops`."""
_PROGRAM: Final = pattern(r"(?P<name>.*)\((?P<id>-?\d{1,20})\)\s*")
_OF_LAUNCH: Final = pattern(r"\b(grid|block):(\d{1,10}),(\d{1,10}),(\d{1,10})")
_BYTES: Final = pattern(r"\b(?:size|num_bytes):(\d{1,19})\b")
WANTED: Final = frozenset(
    (
        "hlo_op", "hlo_module", "program_id", "run_id", "correlation_id", "device_ordinal",
        "kernel_details", "memcpy_details", "memset_details", "Memcpy", "name", "annotation",
        "nvtx_range",
    )
)  # fmt: skip
"""Names of the stats of an event that are read."""


class Line(NamedTuple):
    """One line of a timeline.

    Attributes:
        plane: Name of the device or host.
        name: Name of the line, which determines its meaning.
        stream: Name that distinguishes the line from other lines of the plane.
    """

    plane: str
    name: str
    stream: str


class ProgramRun(NamedTuple):
    """One run of a program, from the line `XLA Modules`; times are in picoseconds."""

    start: int
    end: int
    name: str
    program_id: int | None


def name_and_id(text: str) -> tuple[str, int | None]:
    """Split `jit_f(7)` into name and unsigned number; `None` without a number.

    >>> name_and_id("jit_f(7)"), name_and_id("jit_f")
    (('jit_f', 7), ('jit_f', None))
    """
    found = _PROGRAM.fullmatch(text)
    return (found["name"], unsigned(found["id"])) if found else (text, None)


class Timeline:
    """Collects events of all lines, and keeps the events of devices."""

    def __init__(self) -> None:
        self.events: list[KernelEvent] = []
        self._derived: list[KernelEvent] = []
        """Events of `XLA Ops`. They count only if the plane has no streams."""
        self._marks: dict[str, list[ProgramRun]] = {}
        self._with_streams: set[str] = set()
        self._sizes: dict[str, dict[str, Size]] = {}
        """Grid and block, cached by the text that states them."""

    def __len__(self) -> int:
        return len(self.events) + len(self._derived)

    @staticmethod
    def wants(line: Line) -> bool:
        """Can events of the line belong to a device, or show which program runs?"""
        on_device = line.plane.startswith("/device:")
        if on_device:
            return line.name == _MODULES or line.name not in _DERIVED
        return line.plane.startswith("/host:")

    def add(
        self,
        line: Line,
        name: str,
        start: int,
        duration: int,
        stats: Mapping[str, Any],
        *,
        display_name: str = "",
    ) -> None:
        """Add an event of a line, if it is an event of a device.

        Args:
            line: A line for which `wants` is true.
            name: Name of the event.
            start: Start in picoseconds.
            duration: Duration in picoseconds.
            stats: The recorded stats.
            display_name: The event's display name; empty if not recorded.
        """
        op = str(stats.get("hlo_op", ""))
        if not line.plane.startswith("/device:"):
            if op and not name.startswith("end: "):
                ordinal = unsigned(stats.get("device_ordinal", 0))
                device = f"{line.plane} device {ordinal}" if ordinal else line.plane
                self.events.append(self._event(line, name, start, duration, stats, device, op))
            return
        if line.name == _MODULES:
            module, number = name_and_id(name)
            self._marks.setdefault(line.plane, []).append(
                ProgramRun(start, start + duration, module, number)
            )
            return
        if line.name == OPS:
            op = op or display_name or name.removeprefix("%").partition(" = ")[0]
            made = self._event(line, op, start, duration, stats, line.plane, op)
            self._derived.append(made)
            return
        self._with_streams.add(line.plane)
        self.events.append(self._event(line, name, start, duration, stats, line.plane, op))

    def _event(
        self,
        line: Line,
        name: str,
        start: int,
        duration: int,
        stats: Mapping[str, Any],
        device: str,
        op: str,
    ) -> KernelEvent:
        module, program_id = str(stats.get("hlo_module", "")), unsigned(stats.get("program_id"))
        kind: Kind = "kernel"
        grid, block, moved = None, None, None
        if details := stats.get("kernel_details"):
            text = str(details)
            known = self._sizes.get(text)
            if known is None:
                found_sizes = _OF_LAUNCH.findall(text)
                known = {key: (int(x), int(y), int(z)) for key, x, y, z in found_sizes}
                self._sizes[text] = known
            grid, block = known.get("grid"), known.get("block")
        for key, other in (("memcpy_details", "copy"), ("memset_details", "set")):
            if details := stats.get(key):
                kind = "copy" if other == "copy" else "set"
                found = _BYTES.search(str(details))
                moved = int(found[1]) if found else None
        if kind == "kernel" and name.lower().startswith(("memcpy", "memset")):
            kind = "copy" if name.lower().startswith("memcpy") else "set"
        is_annotated = False
        if not op:
            for key in ("annotation", "nvtx_range"):
                found_text = annotation(str(stats.get(key, "")))
                if found_text.hlo_op:
                    op, is_annotated = found_text.hlo_op, True
                    module = module or found_text.hlo_module
                    if program_id is None:
                        program_id = found_text.program_id
        return KernelEvent(
            name,
            start,
            duration,
            device,
            line.stream,
            kind,
            op,
            module,
            program_id,
            unsigned(stats.get("run_id")),
            unsigned(stats.get("correlation_id")),
            grid,
            block,
            moved,
            is_annotated,
        )

    def finish(self) -> list[KernelEvent]:
        """Return the events of devices that were added.

        Events of the line `XLA Ops` get the HLO module that runs when they start.
        """
        events = self.events
        for marks in self._marks.values():
            marks.sort()
        starts = {plane: [mark.start for mark in marks] for plane, marks in self._marks.items()}
        for event in self._derived:
            if event.device in self._with_streams:
                continue  # the streams have the same work, as it was recorded
            at = bisect_right(starts.get(event.device, ()), event.start) - 1
            if at >= 0 and (mark := self._marks[event.device][at]).end >= event.start:
                event = replace(
                    event,
                    hlo_module=event.hlo_module or mark.name,
                    program_id=mark.program_id if event.program_id is None else event.program_id,
                    run=at if event.run is None else event.run,
                )
            events.append(event)
        self._derived = []
        return events
