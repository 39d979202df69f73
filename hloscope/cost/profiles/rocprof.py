"""Reader of rocprofv3's `*_kernel_trace.csv` and `*_results.json`.

Times are nanoseconds. A grid is counted in threads and converted to thread blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from hloscope.cost.profiles.events import (
    KernelEvent,
    Profile,
    Size,
    annotation,
    profile_of,
    refuse_many,
    sizes_of,
    unsigned,
)
from hloscope.cost.profiles.tables import Json, Table

TRACE: Final = frozenset(("kernelname", "starttimestamp", "endtimestamp"))
OLD: Final = frozenset(("name", "start", "end", "agentid"))
TOOL: Final = "rocprofiler-sdk-tool"


def read_kernel_trace(text: str, source: str) -> Profile:
    """Return the profile of a `*_kernel_trace.csv`.

    Column names may be in any case.

    Raises:
        ParseError: There is no header, or a row is cut or damaged.
        InputError: The table has more than `MOST_EVENTS` events.
    """
    table = Table(text, source, (TRACE,))
    events = []
    for row in table.rows():
        start = table.picoseconds(row, "starttimestamp")
        end = table.picoseconds(row, "endtimestamp")
        block = table.size(row, "workgroupsizex", "workgroupsizey", "workgroupsizez")
        threads = table.size(row, "gridsizex", "gridsizey", "gridsizez")
        agent = table.text(row, "agentid")
        events.append(
            KernelEvent(
                table.text(row, "kernelname").removesuffix(".kd"),
                start,
                max(end - start, 0),
                f"Agent {agent}" if agent.isdecimal() else agent or "GPU",
                table.text(row, "streamid", "queueid"),
                correlation=table.integer(row, "correlationid"),
                grid=_blocks(threads, block),
                block=block,
            )
        )
        refuse_many(len(events), source)
    problem = "the report has no instructions: kernels are joined by their names and order"
    return profile_of(events, source, "rocprofv3 csv", problems=[problem])


def read_results(data: bytes, source: str) -> Profile:
    """Return the profile of a `*_results.json`.

    Raises:
        ParseError: The text is cut or not JSON, or has no kernels of rocprofv3.
        InputError: The file has more than `MOST_EVENTS` events.
    """
    json = Json(data, source)
    reader = _Results(json)
    json.walk((), reader.take)
    if not reader.found:
        json.fail(f"found no `{TOOL}`, expected the results of rocprofv3")
    return reader.profile()


class _Results:
    """Collects the needed parts of the results; their order does not matter."""

    def __init__(self, json: Json) -> None:
        self._json = json
        self.found = False
        self._names: dict[int | None, str] = {}
        self._events: list[tuple[int | None, KernelEvent]] = []

    def take(self, path: str) -> bool:
        """Read the value of a key if it is needed; return whether it was read.

        `path` is the key, after the keys around it, joined by dots.
        """
        json = self._json
        keys = path.removeprefix(f"{TOOL}.")
        if path == TOOL:
            self.found = True
            self._each_tool()
            return True
        if keys == "buffer_records" and json.peek() == "{":
            json.walk((TOOL, "buffer_records"), self.take)
            return True
        if keys == "kernel_symbols" and json.peek() == "[":
            for item in json.items():
                self._symbol(item)
            return True
        if keys == "buffer_records.kernel_dispatch" and json.peek() == "[":
            for item in json.items():
                self._dispatch(item)
            return True
        return False

    def _each_tool(self) -> None:
        """Read the list of processes, or the object of the only one."""
        json = self._json
        if json.peek() == "{":
            json.walk((TOOL,), self.take)
            return
        json.take("[")
        while json.peek() == "{":
            json.walk((TOOL,), self.take)
            if json.peek() == ",":
                json.take(",")
        json.take("]")

    def _symbol(self, item: Any) -> None:
        if isinstance(item, dict):
            name = ""
            for key in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name"):
                name = name or str(item.get(key) or "")
            self._names[unsigned(item.get("kernel_id"))] = name.removesuffix(".kd")

    def _dispatch(self, item: Any) -> None:
        json = self._json
        if not isinstance(item, dict):
            json.fail(f"found {type(item).__name__} in kernel_dispatch, expected an object")
        start, end = item.get("start_timestamp"), item.get("end_timestamp")
        if not isinstance(start, int) or not isinstance(end, int):
            json.fail(f"found timestamps {start!r} and {end!r}, expected whole nanoseconds")
        info = _object(item, "dispatch_info")
        correlation = _object(item, "correlation_id")
        block = sizes_of(map(_object(info, "workgroup_size").get, "xyz"))
        said = annotation(str(correlation.get("external", "")))
        agent = _object(info, "agent_id").get("handle", "?")
        event = KernelEvent(
            "",
            start * 1000,
            max(end - start, 0) * 1000,
            f"Agent {agent}",
            str(_object(item, "stream_id").get("handle", _object(info, "queue_id").get("handle"))),
            hlo_op=said.hlo_op,
            hlo_module=said.hlo_module,
            program_id=said.program_id,
            correlation=unsigned(correlation.get("internal")),
            grid=_blocks(sizes_of(map(_object(info, "grid_size").get, "xyz")), block),
            block=block,
            is_annotated=bool(said.hlo_op),
        )
        self._events.append((unsigned(info.get("kernel_id")), event))
        refuse_many(len(self._events), json.source)

    def profile(self) -> Profile:
        """Return the profile, after all parts are read."""
        events = [
            replace(event, name=self._names.get(number) or f"kernel {number}")
            for number, event in self._events
        ]
        problem = "the results have no instructions: kernels are joined by their names and order"
        return profile_of(events, self._json.source, "rocprofv3 json", problems=[problem])


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _blocks(threads: Size | None, block: Size | None) -> Size | None:
    """Return the numbers of blocks of a grid whose sizes are counted in threads.

    `None` if a size is unknown.
    """
    if threads is None or block is None or 0 in block:
        return None
    x, y, z = [-(-whole // part) for whole, part in zip(threads, block, strict=True)]
    return x, y, z
