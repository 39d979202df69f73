"""Scans: the facts of many programs, in tables.

Every file is a task.  Its result is cached by the digest of its content, and the result for a
kernel by the digest of its structure, so that later scans and other files can reuse them.
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
"""Default limit of wall-clock seconds for one file."""
MEMORY: Final = 4 << 30
"""Default limit of bytes of memory for one file."""
STATUSES: Final = ("ok", "broken", "limit", "failed")
"""Outcomes for a file: `broken` is an error in the file, `failed` a defect of this package."""
_CALLED: Final = "program"
"""The name of every file while it is read, so that equal contents have equal errors."""
_SMALL: Final = (
    "ENTRY e { p = f32[4,8] parameter(0) ROOT t = f32[8,4] transpose(p), dimensions={1,0} }"
)


class Task(NamedTuple):
    """A file to scan, and the options.

    Attributes:
        file: A path or URL.
        device: Name of the device.
        cache: The folder of cached results; `None` for no cache.
        code: Digest of the code that computes the results.
        limits: Limits of time and memory for the file.
    """

    file: str
    device: str
    cache: Path | None
    code: str
    limits: Limits


class Scanned(NamedTuple):
    """The facts about a file.

    Attributes:
        module: The row of the program.
        kernels: The rows of its kernels.
        is_kept: Was the result in the cache?
        trouble: Why the result could not be cached; empty if it was.
    """

    module: dict[str, Any]
    kernels: list[dict[str, Any]]
    is_kept: bool = False
    trouble: str = ""


class ScanReport(Struct):
    """The outcome of a scan.

    Attributes:
        folder: The folder of the tables.
        files: Number of files.
        kept: Number of files whose result was in the cache.
        kernels: Rows of the table of kernels.
        statuses: Number of files of each of `STATUSES`.
        troubles: Files that are not `ok`: name, status, error.
        unkept: Why results could not be cached for the next scan; empty if they were.
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
        folder: The folder of the tables.
        jobs: Processes; as many as there are processors if not given.
        dask: `local`, or the address of a Dask scheduler, instead of a process pool.
        executor: Any other executor, which is not shut down.
        device: Name of the device that kernels are analysed for.
        seconds: Time for one file; `None` for no limit.
        memory: Bytes for one file; `None` for no limit.
        cache: The folder of cached results; `folder / "cache"` if not given.
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
    """The rows of one file; every error about it becomes a row as well.

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
    # The key has the content instead of the path: a file may change between scans.
    key = store.key("file", digest, repr(gpu_of(task.device)))
    found = store.get(key)
    is_kept = isinstance(found, dict) and found.keys() == {"module", "kernels"}
    if not is_kept:
        # The child process starts with the loaded modules of this one.
        _get_ready()
        found, why = alone(lambda: _facts_of(data, task.device, store), task.limits)
        if found is None:
            return _unread(task, why.status, why.text, digest, len(data))
        # A failure may be gone in the next run, so it is not cached.
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


@cache  # once per worker: it analyses a small program
def _get_ready() -> None:
    """Load every module that a file needs, before child processes are forked."""
    _facts_of(_SMALL.encode(), DEFAULT, Store(None))
