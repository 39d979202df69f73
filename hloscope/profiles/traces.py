"""Reader of `trace.json`: the Trace Event Format of `jax.profiler`, xprof and Kineto.

Times are microseconds as decimal fractions, and numbers in `args` may be texts.

Source: Trace Event Format; XLA `xplane_to_trace_events.cc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Final

from hloscope.profiles.events import KernelEvent, Kind, Profile, Size, made, refuse_many, unsigned
from hloscope.profiles.json_items import Json
from hloscope.profiles.timeline import Line, Timeline

_PICOSECONDS: Final = 1_000_000
_KINETO: Final[Mapping[str, Kind]] = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "set"}
CAPPED: Final = 1_000_000
"""Events at which XLA cuts a trace.json file.  Source: XLA `kMaxEvents`."""


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
        ParseError: The text is cut or not JSON, or has no `traceEvents`; with line and column.
        InputError: There are more than `MOST_EVENTS` events.
    """
    reader = _Trace(Json(data, source))
    return reader.read()


class _Trace:
    def __init__(self, json: Json) -> None:
        self._json = json
        self._planes: dict[Any, str] = {}
        self._lines: dict[tuple[Any, Any], str] = {}
        self._timeline = Timeline()
        self._kineto: list[KernelEvent] = []
        self._early: list[dict[str, Any]] = []
        """Events before the name of their process or thread."""
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
        return made(events, json.source, "trace", problems=problems)

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
            self._timeline.add(line, name, start, max(duration, 0), args, shown=shown)
        else:
            self._kineto.append(_kineto(name, start, max(duration, 0), kind, args, line.stream))
        refuse_many(len(self._timeline) + len(self._kineto), self._json.source)


def _kineto(
    name: str, start: int, duration: int, kind: Kind, args: Mapping[str, Any], stream: str
) -> KernelEvent:
    """Return an event of PyTorch's profiler, with device, stream, grid and block from `args`."""
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
    if not isinstance(value, list) or len(value) != 3:
        return None
    x, y, z = [unsigned(number) for number in value]
    return None if x is None or y is None or z is None else (x, y, z)


def _key(value: Any) -> Any:
    """Return an id as a dictionary key: a number or a text."""
    return value if isinstance(value, int | str) else str(value)
