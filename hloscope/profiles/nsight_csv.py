"""Reader of `nsys stats --format csv`: reports `cuda_gpu_trace` and `nvtx_gpu_proj_trace`."""

from __future__ import annotations

from typing import Final

from hloscope.profiles.annotations import Annotation, annotation, innermost
from hloscope.profiles.events import KernelEvent, Kind, Profile, made, refuse_many
from hloscope.profiles.tables import Table

TRACE: Final = frozenset(("start", "duration", "name"))
RANGES: Final = (
    frozenset(("name", "projectedstart", "projectedduration", "rangeid", "parentid")),
    frozenset(("text", "start", "end", "rangeid", "parentid")),
    frozenset(("text", "projectedstart", "projectedduration", "rangeid", "parentid")),
)
_COPY, _SET = "[cuda memcpy", "[cuda memset"
_MOST_NESTED: Final = 256


def kind_of(name: str) -> Kind:
    """Return the kind of an operation of Nsight Systems by its name.

    >>> kind_of("[CUDA memcpy Device-to-Device]"), kind_of("dot_3")
    ('copy', 'kernel')
    """
    lower = name.lower()
    if lower.startswith(_COPY):
        return "copy"
    return "set" if lower.startswith(_SET) else "kernel"


def read_gpu_trace(text: str, source: str) -> Profile:
    """Return the profile of a `cuda_gpu_trace`, which has a row for each kernel, copy and set.

    Instructions are known by kernel names only.

    Raises:
        ParseError: There is no header, or a row is cut or damaged.
        InputError: There are more than `MOST_EVENTS` events.
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
                correlation=table.whole(row, "corrid", "correlationid"),
                grid=table.size(row, "grdx", "grdy", "grdz"),
                block=table.size(row, "blkx", "blky", "blkz"),
                bytes=table.bytes(row, "bytes", "size"),
            )
        )
        refuse_many(len(events), source)
    problem = "the report has no instructions: kernels are joined by their names and order"
    return made(events, source, "nsys csv", problems=[problem])


def read_ranges(text: str, source: str) -> Profile:
    """Return the profile of an `nvtx_gpu_proj_trace`.

    It has an event for each innermost range of an instruction: the time from the first to the last
    operation of the range on the device.

    Raises:
        ParseError: There is no header, or a row is cut or damaged.
        InputError: There are more than `MOST_EVENTS` events.
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
    return made(events, source, "nsys nvtx csv", problems=[problem])


def _around_others(found: dict[str, Annotation], parents: dict[str, str]) -> set[str]:
    """Return the ranges of an instruction that contain a range of another instruction."""
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
    """Return the texts of the ranges around one, outermost first, and the run.

    The run is the number of the innermost range with a module.
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
