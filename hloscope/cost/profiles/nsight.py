"""Readers of Nsight Systems: `nsys export --type sqlite` and `nsys stats --format csv`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hloscope.cost.profiles.events import (
    MOST_EVENTS,
    Annotation,
    KernelEvent,
    Kind,
    Profile,
    ProfiledDevice,
    Size,
    annotation,
    innermost,
    profile_of,
    refuse_many,
    sizes_of,
)
from hloscope.cost.profiles.tables import Table
from hloscope.errors import InputError, ParseError
from hloscope.support.lazy import lazy

if TYPE_CHECKING:
    import sqlite3
else:
    sqlite3 = lazy("sqlite3")


# --------------------------------------------------------------------------------------------------
# Reader of `nsys export --type sqlite`: kernels, copies, and NVTX ranges around launches.
#
# The file is opened read-only and never changed. Tables and columns vary between versions: only
# columns that `PRAGMA table_info` lists are read, and views are not.
#
# Source: NVIDIA Nsight Systems, "Exporter SQLite schema".


MAGIC: Final = b"SQLite format 3\0"
_KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_TABLES: Final[tuple[tuple[str, Kind], ...]] = (
    (_KERNELS, "kernel"),
    ("CUPTI_ACTIVITY_KIND_MEMCPY", "copy"),
    ("CUPTI_ACTIVITY_KIND_MEMSET", "set"),
    ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "graph"),
)
_RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_COPIES: Final = {
    1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 10: "Peer-to-Peer",
}  # fmt: skip
_MOST_TEXT: Final = 1 << 20


def read_sqlite(file: Path | bytes, source: str) -> Profile:
    """Return the profile of an export of Nsight Systems.

    Args:
        file: A path, or the bytes of the file.
        source: Name in messages.

    Raises:
        ParseError: The file is not such an export, or is damaged.
        InputError: The file has more than `MOST_EVENTS` events.
    """
    try:
        if isinstance(file, bytes):
            connection = sqlite3.connect(":memory:")
            connection.deserialize(file)
        else:
            connection = sqlite3.connect(
                f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True
            )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA query_only = ON")
            connection.text_factory = lambda data: data[:_MOST_TEXT].decode("utf-8", "replace")
            return _Export(connection, source).read()
        finally:
            connection.close()
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise ParseError(f"{source}: a damaged SQLite file: {error}") from None


class _Export:
    def __init__(self, connection: sqlite3.Connection, source: str) -> None:
        self._source = source
        self._connection = connection
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        self._tables = {
            name for name, sql in found if not str(sql).upper().startswith("CREATE VIRTUAL")
        }
        self._strings: dict[int, str] = {}

    def _rows(self, table: str, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """Yield the rows of an SQLite table, each with the cells of those `columns` that exist.

        Nothing is yielded if the table does not exist.
        """
        if table not in self._tables:
            return
        info = self._connection.execute(f'PRAGMA table_info("{table}")')
        there = {str(row[1]) for row in info}
        names = [name for name in columns if name in there]
        if not names:
            return
        quoted = ", ".join([f'"{name}"' for name in names])
        for row in self._connection.execute(f'SELECT {quoted} FROM "{table}"'):
            yield dict(zip(names, row, strict=True))

    def read(self) -> Profile:
        tables = [table for table, _ in _TABLES if table in self._tables]
        if not tables:
            some = ", ".join(sorted(self._tables)[:5]) or "no tables"
            what = f"found {some}, expected {_KERNELS} of Nsight Systems"
            raise ParseError(f"{self._source}: not a profile of a GPU: {what}")
        for row in self._rows("StringIds", ("id", "value")):
            self._strings[row.get("id", 0)] = str(row.get("value", ""))
        events: list[KernelEvent] = []
        problems: list[str] = []
        said = self._annotations_by_launch()
        for table, kind in _TABLES:
            for row in self._rows(
                table,
                (
                    "start", "end", "deviceId", "streamId", "correlationId", "globalPid",
                    "demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY",
                    "blockZ", "bytes", "copyKind", "graphId", "graphExecId",
                ),
            ):  # fmt: skip
                if not isinstance(row.get("start"), int) or not isinstance(row.get("end"), int):
                    what = f"{table}: found start {row.get('start')!r} and end {row.get('end')!r}"
                    raise ParseError(f"{self._source}: {what}, expected whole nanoseconds")
                events.append(self._event(row, kind, said))
                refuse_many(len(events), self._source)
        graphs = sum([event.kind == "graph" for event in events])
        if graphs:
            problems.append(
                f"{graphs:,} CUDA graphs are recorded as one event each: profile with "
                "--cuda-graph-trace=node to see their kernels"
            )
        return profile_of(
            events, self._source, "nsys sqlite", devices=self._devices(), problems=problems
        )

    def _event(
        self,
        row: Mapping[str, Any],
        kind: Kind,
        annotations: Mapping[Any, tuple[Annotation, int | None]],
    ) -> KernelEvent:
        launch = _process(row.get("globalPid")), row.get("correlationId")
        found, run = annotations.get(launch) or (Annotation(), None)
        start = row["start"]
        moved = row.get("bytes")
        return KernelEvent(
            self._name(row, kind),
            start * 1000,
            max(row["end"] - start, 0) * 1000,
            f"GPU {row.get('deviceId', '?')}",
            str(row.get("streamId", "")),
            kind,
            found.hlo_op,
            found.hlo_module,
            found.program_id,
            run,
            launch[1] if isinstance(launch[1], int) else None,
            _size(row, "grid"),
            _size(row, "block"),
            moved if isinstance(moved, int) else None,
            bool(found.hlo_op),
        )

    def _name(self, row: Mapping[str, Any], kind: Kind) -> str:
        if kind == "copy":
            where = _COPIES.get(row.get("copyKind", -1), "")
            return f"[CUDA memcpy {where}]" if where else "[CUDA memcpy]"
        if kind == "set":
            return "[CUDA memset]"
        if kind == "graph":
            return f"[CUDA graph {row.get('graphId', row.get('graphExecId', '?'))}]"
        for column in ("demangledName", "shortName"):
            value = row.get(column)
            if isinstance(value, int) and value in self._strings:
                return self._strings[value]
            if isinstance(value, str):
                return value
        return ""

    def _devices(self) -> Iterator[ProfiledDevice]:
        columns = (
            "id", "name", "totalMemory", "memoryBandwidth", "numMultiprocessors", "clockRate",
            "computeMajor", "computeMinor", "smCount", "l2CacheSize", "busLocation",
        )  # fmt: skip
        for row in self._rows("TARGET_INFO_GPU", columns):
            facts = {k: v for k, v in row.items() if isinstance(v, str | int | float)}
            yield ProfiledDevice(f"GPU {row.get('id', '?')}", str(row.get("name", "")), facts)

    def _annotations_by_launch(self) -> dict[Any, tuple[Annotation, int | None]]:
        """Return the annotation and the run of each launch, by process and correlation number.

        A launch is a call of the CUDA runtime or driver. Its annotation comes from the NVTX ranges
        of its thread that contain it. The run is the number of the innermost range of a module.
        """
        ranges: dict[Any, list[tuple[int, int, str]]] = {}
        count = 0
        columns = ("start", "end", "eventType", "text", "textId", "globalTid")
        for row in self._rows("NVTX_EVENTS", columns):
            start, end = row.get("start"), row.get("end")
            text = row.get("text") or self._strings.get(row.get("textId") or -1, "")
            if isinstance(start, int) and isinstance(end, int) and "#" in str(text):
                ranges.setdefault(row.get("globalTid"), []).append((start, end, str(text)))
                count += 1
                if count > 2 * MOST_EVENTS:  # a module's and an op's for each kernel
                    raise InputError(f"{self._source}: more than {2 * MOST_EVENTS:,} NVTX ranges")
        threads = {thread: _Ranges(found) for thread, found in ranges.items()}
        said: dict[Any, tuple[Annotation, int | None]] = {}
        processes: dict[Any, set[int | None]] = {}
        for row in self._rows(_RUNTIME, ("start", "end", "globalTid", "correlationId")):
            thread, start = row.get("globalTid"), row.get("start")
            if thread in threads and isinstance(start, int):
                found = threads[thread].at(start, row.get("end"))
                if found[0].hlo_op or found[0].hlo_module:
                    number = row.get("correlationId")
                    said[_process(thread), number] = found
                    # Without globalPid the number alone must do, if one process has it.
                    processes.setdefault(number, set()).add(_process(thread))
                    said[None, number] = found
        for number, several in processes.items():
            if len(several) > 1:
                del said[None, number]
        return said


class _Ranges:
    """Nested NVTX ranges of one thread."""

    def __init__(self, ranges: list[tuple[int, int, str]]) -> None:
        ranges.sort(key=lambda span: (span[0], -span[1]))
        self._starts = [start for start, _, _ in ranges]
        self._ranges = ranges
        self._parents: list[int] = []
        self._modules = [bool(annotation(text).hlo_module) for _, _, text in ranges]
        open_now: list[int] = []
        for at, (start, _, _) in enumerate(ranges):
            while open_now and ranges[open_now[-1]][1] <= start:
                open_now.pop()
            self._parents.append(open_now[-1] if open_now else -1)
            open_now.append(at)

    def at(self, start: int, end: Any) -> tuple[Annotation, int | None]:
        """Return the annotations around a call from `start` to `end`, and the run.

        The run is the number of the innermost range of a module; `None` without one.
        """
        at = bisect_right(self._starts, start) - 1
        last = end if isinstance(end, int) else start
        texts: list[str] = []
        run: int | None = None
        while at >= 0:
            if self._ranges[at][1] >= last:
                texts.append(self._ranges[at][2])
                if run is None and self._modules[at]:
                    run = at
            at = self._parents[at]
        return innermost(texts[::-1]), run


def _process(number: Any) -> int | None:
    """Return the process in a `globalTid` or `globalPid`; the lowest 24 bits are the thread."""
    return number & ~0xFFFFFF if isinstance(number, int) else None


def _size(row: Mapping[str, Any], name: str) -> Size | None:
    return sizes_of([row.get(f"{name}{axis}") for axis in "XYZ"])


# --------------------------------------------------------------------------------------------------
# Reader of `nsys stats --format csv`: reports `cuda_gpu_trace` and `nvtx_gpu_proj_trace`.


TRACE: Final = frozenset(("start", "duration", "name"))
RANGES: Final = (
    frozenset(("name", "projectedstart", "projectedduration", "rangeid", "parentid")),
    frozenset(("text", "start", "end", "rangeid", "parentid")),
    frozenset(("text", "projectedstart", "projectedduration", "rangeid", "parentid")),
)
_COPY, _SET = "[cuda memcpy", "[cuda memset"
_MOST_NESTED: Final = 256


def kind_of(name: str) -> Kind:
    """Return the kind of event of an operation name of Nsight Systems.

    >>> kind_of("[CUDA memcpy Device-to-Device]"), kind_of("dot_3")
    ('copy', 'kernel')
    """
    lower = name.lower()
    if lower.startswith(_COPY):
        return "copy"
    return "set" if lower.startswith(_SET) else "kernel"


def read_gpu_trace(text: str, source: str) -> Profile:
    """Return the profile of a `cuda_gpu_trace`, which has a row for each kernel, copy and set.

    Instructions are recognised by kernel names only.

    Raises:
        ParseError: There is no header, or a row is cut or damaged.
        InputError: The table has more than `MOST_EVENTS` events.
    """
    table = Table(text, source, (TRACE,))
    events = []
    for row in table.rows():
        name = table.text(row, "name")
        if name == "Name":
            continue  # the header of a report that was appended
        events.append(
            KernelEvent(
                name,
                table.picoseconds(row, "start"),
                table.picoseconds(row, "duration"),
                table.text(row, "device") or "GPU",
                table.text(row, "strm", "stream"),
                kind_of(name),
                correlation=table.integer(row, "corrid", "correlationid"),
                grid=table.size(row, "grdx", "grdy", "grdz"),
                block=table.size(row, "blkx", "blky", "blkz"),
                bytes=table.bytes(row, "bytes", "size"),
            )
        )
        refuse_many(len(events), source)
    problem = "the report has no instructions: kernels are joined by their names and order"
    return profile_of(events, source, "nsys csv", problems=[problem])


def read_ranges(text: str, source: str) -> Profile:
    """Return the profile of an `nvtx_gpu_proj_trace`.

    It has an event for each innermost range of an instruction: the time from the first to the last
    operation of the range on the device.

    Raises:
        ParseError: There is no header, or a row is cut or damaged.
        InputError: The table has more than `MOST_EVENTS` events.
    """
    table = Table(text, source, RANGES)
    spans: dict[str, tuple[int, int]] = {}
    texts: dict[str, str] = {}
    parents: dict[str, str] = {}
    streams: dict[str, str] = {}
    for row in table.rows():
        label = table.text(row, "name", "text")
        if label in ("Name", "Text") or label.startswith("NCCL:"):
            continue
        key = table.text(row, "rangeid")
        if "projectedstart" in table:
            start = table.picoseconds(row, "projectedstart")
            duration = table.picoseconds(row, "projectedduration")
        else:
            start = table.picoseconds(row, "start")
            duration = table.picoseconds(row, "end") - start
        spans[key] = start, duration
        texts[key] = label
        parents[key] = table.text(row, "parentid")
        streams[key] = f"ranges of thread {table.text(row, 'tid')}"
        refuse_many(len(spans), source)
    found = {key: annotation(label) for key, label in texts.items()}
    outer = _around_others(found, parents)
    events = []
    for key, (start, duration) in spans.items():
        if not found[key].hlo_op or key in outer:
            continue
        stack, run = _stack(key, texts, parents)
        said: Annotation = innermost(stack)
        events.append(
            KernelEvent(
                said.hlo_op,
                start,
                max(duration, 0),
                "GPU",
                streams[key],
                hlo_op=said.hlo_op,
                hlo_module=said.hlo_module,
                program_id=said.program_id,
                run=run,
                is_annotated=True,
            )
        )
    problem = "the report has ranges of instructions only: work outside them is not shown"
    return profile_of(events, source, "nsys nvtx csv", problems=[problem])


def _around_others(found: dict[str, Annotation], parents: dict[str, str]) -> set[str]:
    """Return the ranges of an instruction that contain a range of another instruction.

    Args:
        found: Annotation of each range.
        parents: The range around each range.
    """
    outer: set[str] = set()
    for key, said in found.items():
        if not said.hlo_op:
            continue
        at = parents.get(key, "")
        for _ in range(_MOST_NESTED):
            if at not in found or at in outer:
                break
            if found[at].hlo_op:
                outer.add(at)
            at = parents.get(at, "")
    return outer


def _stack(
    key: str, texts: dict[str, str], parents: dict[str, str]
) -> tuple[list[str], int | None]:
    """Return the texts of a range and those around it, outermost first, and the run.

    The run is the number of the innermost range with a module; `None` without one.

    Args:
        key: Identifier of the range.
        texts: Text of each range.
        parents: Identifier of the range around each range.
    """
    stack: list[str] = []
    run: int | None = None
    for _ in range(_MOST_NESTED):
        if key not in texts:
            break
        stack.append(texts[key])
        if run is None and annotation(texts[key]).hlo_module and key.isdecimal():
            run = int(key[:18])
        key = parents.get(key, "")
    return stack[::-1], run
