"""Scans: the facts of many programs, in tables.

Every file is a task; its answer is kept under the digest of its content, and the answer for a
kernel under that of its structure, so that nothing is computed twice, whoever computed it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import cache
from hashlib import blake2b
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from hloscope.api.reading import read
from hloscope.api.remote import content_of, files_of
from hloscope.devices import DEFAULT, gpu_of
from hloscope.errors import HloscopeError
from hloscope.lazy import lazy
from hloscope.scan import (
    Limits,
    Store,
    Tables,
    alone,
    code_digest,
    engine_of,
    given_engine,
    in_order,
)

if TYPE_CHECKING:
    import hloscope.api.facts as facts
else:
    facts = lazy("hloscope.api.facts")

SECONDS: Final = 600.0
"""Time that one file may take."""
MEMORY: Final = 4 << 30
"""Bytes that one file may take."""
STATUSES: Final = ("ok", "broken", "limit", "failed")
"""How it went with a file: `broken` is its own fault, `failed` ours."""
_CALLED: Final = "program"
"""What a file is called while it is read: equal ones have equal answers, errors included."""
_SMALL: Final = (
    "ENTRY e { p = f32[4,8] parameter(0) ROOT t = f32[8,4] transpose(p), dimensions={1,0} }"
)


class Task(NamedTuple):
    """A file to look at, and how.

    Attributes:
        file: A path or URL.
        device: Name of the device.
        cache: The folder where answers are kept; `None` for none.
        code: Digest of what computes the answers.
        limits: What the file may take.
    """

    file: str
    device: str
    cache: Path | None
    code: str
    limits: Limits


class Scanned(NamedTuple):
    """What is known of a file.

    Attributes:
        module: Its row.
        kernels: The rows of its kernels.
        is_kept: Was it known from before?
        trouble: Why it could not be kept.
    """

    module: dict[str, Any]
    kernels: list[dict[str, Any]]
    is_kept: bool = False
    trouble: str = ""


class ScanReport(Struct):
    """How a scan went.

    Attributes:
        folder: Where the tables are.
        files: How many files there were.
        kept: How many of these were known from before.
        kernels: Rows of the table of kernels.
        statuses: How many files of each of `STATUSES`.
        troubles: Files that are not `ok`: name, status, error.
        unkept: Why answers could not be kept for the next scan; empty if they were.
    """

    folder: Path
    files: int
    kept: int
    kernels: int
    statuses: dict[str, int]
    troubles: list[tuple[str, str, str]]
    unkept: str = ""


def scan_files(
    paths: Sequence[str],
    folder: Path | str,
    *,
    jobs: int | None = None,
    dask: str | None = None,
    executor: Executor | None = None,
    device: str = DEFAULT,
    seconds: float | None = SECONDS,
    memory: int | None = MEMORY,
    cache: Path | str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ScanReport:
    """Write the facts of many programs into tables, `modules.parquet` and `kernels.parquet`.

    Args:
        paths: Files, directories, patterns, and URLs that fsspec knows.
        folder: Where the tables go.
        jobs: Processes; as many as there are processors if not given.
        dask: `local`, or the address of a scheduler of Dask's, instead of processes of a pool.
        executor: Any other executor, which is not shut down.
        device: Name of the device that kernels are looked at for.
        seconds: Time for one file; `None` for no limit.
        memory: Bytes for one file; `None` for no limit.
        cache: Where answers are kept for a scan that goes on; `folder / "cache"` if not given.
        progress: Called with the number of files done and the number of all.

    Raises:
        InputError: There is no such file, or a table cannot be written.
        UnknownNameError: There is no such device.
    """
    gpu_of(device)
    files = files_of(paths)
    folder = Path(folder)
    kept = folder / "cache" if cache is None else Path(cache)
    limits, code = Limits(seconds, memory), code_digest()
    tasks = [Task(file, device, kept.absolute(), code, limits) for file in files]
    workers = jobs or cpu_count() or 1
    report = ScanReport(folder, len(files), 0, 0, dict.fromkeys(STATUSES, 0), [])
    tables = Tables(folder)
    told = progress or (lambda done, most: None)
    try:
        told(0, len(files))
        engine = given_engine(executor, workers) if executor else engine_of(workers, dask)
        with engine:
            for done, one in enumerate(in_order(engine, look_at, tasks), 1):
                found = one.result or _unread(one.task, "failed", one.error)
                tables.add(found.module, found.kernels)
                _note(report, found)
                told(done, len(files))
        tables.close()
    finally:
        tables.drop()
    return report


def _note(report: ScanReport, found: Scanned) -> None:
    row = found.module
    report.kept += found.is_kept
    report.kernels += len(found.kernels)
    report.statuses[row["status"]] += 1
    report.unkept = report.unkept or found.trouble
    if row["status"] != "ok":
        report.troubles.append((row["file"], row["status"], row["error"]))


def look_at(task: Task) -> Scanned:
    """The rows of one file; whatever is wrong with it is a row as well.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.hlo")
    ...     _ = path.write_text("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }")
    ...     found = look_at(Task(str(path), "h100", None, "", Limits(60.0)))
    >>> found.module["status"], [row["opcode"] for row in found.kernels]
    ('ok', ['negate'])
    """
    try:
        data = content_of(task.file)
    except HloscopeError as error:
        return _unread(task, "broken", error.message)
    except (OSError, MemoryError) as error:
        return _unread(task, "failed", f"{type(error).__name__}: {error}")
    digest = blake2b(data, digest_size=16).hexdigest()
    store = Store(task.cache, task.code)
    key = store.key("file", digest, repr(gpu_of(task.device)))  # a file may change
    found = store.get(key)
    is_kept = isinstance(found, dict) and found.keys() == {"module", "kernels"}
    if not is_kept:
        _get_ready()
        found, why = alone(lambda: _facts_of(data, task.device, store), task.limits)
        if found is None:
            return _unread(task, why.status, why.text, digest, len(data))
        if found["module"]["status"] != "failed":
            store.put(key, found)
    about = {"file": task.file, "bytes": len(data), "digest": digest}
    kernels = [{"file": task.file, **row} for row in found["kernels"]]
    return Scanned({**about, **found["module"]}, kernels, is_kept, store.trouble)


def _unread(
    task: Task, status: str, error: str, digest: str | None = None, size: int | None = None
) -> Scanned:
    about = {"file": task.file, "bytes": size, "digest": digest}
    return Scanned({**about, "status": status, "error": error}, [])


def _facts_of(data: bytes, device: str, store: Store) -> dict[str, Any]:
    """The rows of a file's content, without its name."""
    try:
        module, kernels = facts.Facts(read(data, name=_CALLED), device, store).rows()
        return {"module": {"status": "ok", "error": "", **module}, "kernels": kernels}
    except HloscopeError as error:
        line = "" if error.span is None else f"line {error.span.line}: "
        return {"module": {"status": "broken", "error": f"{line}{error.message}"}, "kernels": []}
    except MemoryError:
        raise
    except Exception as error:
        said = f"internal error: {type(error).__name__}: {error}"
        return {"module": {"status": "failed", "error": said}, "kernels": []}


@cache
def _get_ready() -> None:
    """Load what a file needs once, before processes are made that each look at one."""
    _facts_of(_SMALL.encode(), DEFAULT, Store(None))
