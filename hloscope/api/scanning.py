"""Scans: facts about many programs, in tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from functools import cache
from hashlib import blake2b
from os import cpu_count
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct

from hloscope.api.files import content_of, files_of
from hloscope.api.invalid import findings
from hloscope.api.program import Program, read
from hloscope.checks import Subject, collectives_of
from hloscope.checks.scan import (
    Digests,
    Limits,
    Store,
    Tables,
    alone,
    code_digest,
    engine_of,
    given_engine,
    in_order,
)
from hloscope.cost import (
    KernelCost,
    KernelCosts,
    Place,
    counted_runs,
    is_judged_by_threads,
    running,
    target_of,
)
from hloscope.cost.buffers import ProgramMemory
from hloscope.display import opcode_of, provenance_of, shape_text
from hloscope.errors import HloscopeError, Label, UnsupportedError, plain
from hloscope.fusion import leaf_types
from hloscope.indexing import Precision
from hloscope.ir import Computation, Instruction, TensorType, Type, array_bytes
from hloscope.memory import Memory
from hloscope.movement import Flow, Savings, chains_of
from hloscope.ops import Fusion
from hloscope.support.devices import DEFAULT, gpu_of

# --------------------------------------------------------------------------------------------------
# Scans: the facts of many programs, in tables.
#
# Every file is a task.  Its result is cached by the digest of its content, and the result for a
# kernel by the digest of its structure, so that later scans and other files can reuse them.


SECONDS: Final = 600.0
"""Default limit of wall-clock seconds for one file."""
MEMORY: Final = 4 << 30
"""Default limit of bytes of memory for one file."""
STATUSES: Final = ("ok", "broken", "limit", "failed")
"""Outcomes for a file.

`broken` is an error in the file, `limit` a limit of time or memory, `failed` a defect of this
package.
"""
_CALLED: Final = "program"
"""Name of every file while it is parsed, so that equal contents have equal errors."""
_SMALL: Final = (
    "ENTRY e { p = f32[4,8] parameter(0) ROOT t = f32[8,4] transpose(p), dimensions={1,0} }"
)


class Task(NamedTuple):
    """A file to scan, with the options of the scan.

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
    """The result for one file.

    Attributes:
        module: The file's row of the table of modules.
        kernels: Its rows of the table of kernels.
        is_kept: Did the result come from the cache?
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
        kept: Number of files whose result came from the cache.
        kernels: Number of rows in the table of kernels.
        statuses: Number of files for each of `STATUSES`.
        troubles: (name, status, error) of each file that is not `ok`.
        unkept: Why results could not be cached; empty if they were cached.
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
    """Write facts about many programs into tables, `modules.parquet` and `kernels.parquet`.

    Args:
        paths: Files, directories, patterns, and URLs that fsspec supports.
        folder: The folder of the tables.
        jobs: Number of processes; by default the number of processors.
        dask: `local`, or the address of a Dask scheduler, instead of a process pool.
        executor: Another executor; it is not shut down.
        device: Name of the device that kernels are analysed for.
        seconds: Wall-clock limit for one file; `None` for no limit.
        memory: Limit of bytes of memory for one file; `None` for no limit.
        cache: The folder of cached results; by default `folder / "cache"`.
        progress: Called with the number of finished files and the number of all files.

    Raises:
        InputError: A path matches no file, or a table cannot be written.
        UnknownNameError: The device is unknown.
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
            for done, one in enumerate(in_order(engine, scan_one, tasks), 1):
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


def scan_one(task: Task) -> Scanned:
    """Return the rows of one file; every error about the file becomes a row as well.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.hlo")
    ...     _ = path.write_text("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }")
    ...     found = scan_one(Task(str(path), "h100", None, "", Limits(60.0)))
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
    """Return the rows of one file for the tables of modules and kernels, without the file's name.

    An error about the program is stated in the row of the module, and there are no kernels.

    Args:
        data: Content of the file.
        device: Name of the device that kernels are analysed for.
        store: Cache of the results for kernels.
    """
    try:
        module, kernels = Facts(read(data, name=_CALLED), device, store).rows()
        return {"module": {"status": "ok", "error": "", **module}, "kernels": kernels}
    except HloscopeError as error:
        line = "" if error.span is None else f"line {error.span.line}: "
        return {"module": {"status": "broken", "error": f"{line}{error.message}"}, "kernels": []}
    except MemoryError:
        raise
    except Exception as error:
        said = f"internal error: {type(error).__name__}: {error}"
        return {"module": {"status": "failed", "error": said}, "kernels": []}


# Once per worker: the first call takes 60 ms for imports, each further one 3 ms.
@cache
def _get_ready() -> None:
    """Import every Python module that the scan of a file needs, before processes are forked."""
    _facts_of(_SMALL.encode(), DEFAULT, Store(None))


# --------------------------------------------------------------------------------------------------
# The rows of a scan about a program: one for the program, and one for each kernel.
#
# The facts of a kernel follow from its structure alone, so equal kernels share them, whichever
# program they are in: messages contain no names, and maps are sorted.


LONGEST: Final = 4000
"""Maximum number of characters of a text in a table; longer ones are cut."""
_WORST_FIRST: Final = (Precision.UNKNOWN, Precision.OVER, Precision.EXACT)


class Facts:
    """Computes the rows of one program."""

    def __init__(self, program: Program, device: str, store: Store) -> None:
        self._program: Final = program
        self._store: Final = store
        self._digests: Final = Digests()
        self._known: dict[str, dict[str, Any]] = {}
        analysis, of = program.analysis, gpu_of(device)
        self._target: Final = target_of(program.module)
        is_judged = is_judged_by_threads(program.module, self._target, of)
        self._device: Final = f"{of!r} {is_judged}"
        self._is_judged: Final = is_judged
        self._memory: Final = Memory(analysis, of)
        self._costs: Final = KernelCosts(self._memory, of, is_judged=is_judged)

    def rows(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the row of the program, and those of its kernels in the order of the text."""
        kernels = list(self._kernels())
        module, problems = self._program.module, list[str]()
        row: dict[str, Any] = {
            "module": module.name,
            "language": "stablehlo" if module.has_tree else "hlo",
            "computations": len(module.computations),
            "instructions": sum(len(c.instructions) for c in module),
            "fusions": sum(isinstance(i.op, Fusion) for c in module for i in c),
            "kernels": len(kernels),
            "structures": len({kernel["structure"] or id(kernel) for kernel in kernels}),
            "opcodes": _counted(opcode_of(i) for c in module for i in c),
            "dynamic_sizes": sum(_is_dynamic(i.type) for c in module for i in c),
            "moved_bytes": _total(kernels, "read_bytes", "written_bytes"),
            "wasted_bytes": _total(kernels, "wasted_bytes"),
            "bound_ps": _total(kernels, "bound_ps"),
            "padded_bytes": _padded(module.entry.parameters)
            + sum([row.get("padded_bytes") or 0 for row in kernels]),
            "compiled_for": self._target.kind,
        }
        for name, part in (
            ("collectives", self._collectives),
            ("movement", self._movement),
            ("memory", self._memory_columns),
            ("verify", self._findings),
        ):
            row |= _columns_or_error(name, part, problems)
        row["problems"] = _text("; ".join(problems))
        return row, kernels

    # ---------------------------------------------------------------------------------- program

    def _collectives(self) -> dict[str, Any]:
        uses = list(collectives_of(Subject(self._program.module, self._program.file)))
        total = sum(use.bytes for use in uses)
        return {"collectives": _counted(use.kind for use in uses), "collective_bytes": total}

    def _movement(self) -> dict[str, Any]:
        flow = Flow(self._program.module)
        chains = list(chains_of(flow))
        runs = {place.computation: place.times for place in running(self._program.module)}
        return {
            "chains": len(chains),
            "free_chains": sum(chain.kind.is_free for chain in chains),
            "cancelled_bytes": Savings(flow, chains, runs).saved,
        }

    def _memory_columns(self) -> dict[str, Any]:
        """Return the columns about live and allocated bytes.

        Without a schedule there are only the sums of parameters and outputs.
        """
        memory = ProgramMemory(self._program.module)
        sums = memory.sums
        row: dict[str, Any] = {
            "parameter_bytes": sums.parameters,
            "output_bytes": sums.outputs,
        }
        if not memory.reason:
            rows = memory.live(memory.peak)
            row |= {
                "least_live_bytes": memory.lower,
                "held_bytes": memory.estimate,
                "temporary_bytes": memory.device.most_temporary,
                "padding_at_peak_bytes": sum([row.buffer.size.wasted for row in rows]),
            }
        return row

    def _findings(self) -> dict[str, Any]:
        found = findings(self._program.module)
        return {"findings": len(found), "first_finding": _text(found[0].message) if found else ""}

    # ---------------------------------------------------------------------------------- kernels

    def _kernels(self) -> Iterator[dict[str, Any]]:
        module = self._program.module
        places = {place.computation: place for place in running(module)}
        found: list[tuple[Computation, dict[str, Any]]] = []
        each: dict[Computation, int] = {}
        for place in places.values():
            for ins in place.kernels:
                origin = provenance_of(ins, module)
                source = origin.source
                facts = self._of_kernel(ins, place)
                row = {
                    "module": module.name,
                    "computation": place.computation.name,
                    "name": ins.name,
                    "op_name": origin.op_name,
                    "source": "" if source is None else source.file,
                    "line": None if source is None else source.line,
                    **facts,
                }
                moved = (facts.get("read_bytes") or 0) + (facts.get("written_bytes") or 0)
                each[place.computation] = each.get(place.computation, 0) + moved
                found.append((place.computation, row))
        runs = counted_runs(each, places)
        for computation, row in found:
            yield {**row, "times": runs[computation]}

    def _of_kernel(self, ins: Instruction, place: Place) -> dict[str, Any]:
        """Return the columns that follow from a kernel's structure; equal kernels share them.

        Args:
            ins: The kernel.
            place: The computation in which it runs.
        """
        try:
            digest = self._digests.of_kernel(ins, place.computation)
        except TypeError:  # a part of it has no equality, so its answers are not shared
            return {"structure": None, **self._structural(ins)}
        known = self._known.get(digest)
        if known is None:
            key = self._store.key("kernel", digest, self._device)
            known = self._store.get(key)
            if not isinstance(known, dict):
                known = self._structural(ins)
                self._store.put(key, known)
            self._known[digest] = known
        return {"structure": digest, **known}

    def _structural(self, ins: Instruction) -> dict[str, Any]:
        inside = [i for callee in ins.calls for i in callee]
        problems: list[str] = []
        row: dict[str, Any] = {
            "opcode": opcode_of(ins),
            "kind": str(getattr(ins.op, "kind", "") or "") if isinstance(ins.op, Fusion) else "",
            "shape": _text(shape_text(ins.type)),
            "instructions": len(inside) or 1,
            "opcodes": _counted(map(opcode_of, inside or [ins])),
            "dynamic": any(map(_is_dynamic, [i.type for i in (ins, *ins.operands, *inside)])),
        }
        # Each part fails alone: a kernel without a thread map still has maps and a cost.
        row |= _columns_or_error("maps", lambda: self._maps(ins), problems)
        costs = list[KernelCost]()
        row |= _columns_or_error("cost", lambda: self._cost(ins, costs), problems)
        if costs:
            row |= _columns_or_error("coalescing", lambda: self._coalescing(costs[0]), problems)
        return {
            **row,
            "reasons": _text(row.get("reasons", "")),
            "problems": _text("; ".join(problems)),
        }

    def _maps(self, ins: Instruction) -> dict[str, Any]:
        """Return the columns about how outputs depend on operands; each map is one line of text."""
        analysis = self._program.analysis
        lines: set[str] = set()
        reasons: set[str] = set()
        found: set[Precision] = set()
        for output in range(len(analysis.tensors(ins.type))):
            for (operand, leaf), accesses in analysis.output_to_input(ins, output).items():
                read = operand if isinstance(operand, int) else "outside"
                for access in accesses:
                    found.add(access.precision)
                    lines.add(f"{output} <- {read}.{leaf}: {access.map} {access.precision}")
                    reasons |= {access.reason} - {""}
        precision = next((one for one in _WORST_FIRST if one in found), Precision.EXACT)
        return {
            "maps": len(lines),
            "precision": str(precision),
            "reasons": "; ".join(sorted(reasons)),
            "indexing": _text("\n".join(sorted(lines))),
        }

    def _cost(self, ins: Instruction, costs: list[KernelCost]) -> dict[str, Any]:
        """Return the columns about the cost of one run of a kernel.

        The cost is appended to `costs`.
        """
        # The place has one run: how often a kernel runs belongs to its program, not to its
        # structure.
        found = self._costs.of(ins, Place(self._program.module.entry, 1, (), 1, 1))
        costs.append(found)
        footprint = found.footprint
        return {
            "read_bytes": footprint.read, "written_bytes": footprint.written,
            "bytes_exact": footprint.is_exact, "flops": footprint.flops,
            "padded_bytes": _padded([ins]), "bound_ps": found.bound, "maker": found.maker,
        }  # fmt: skip

    def _coalescing(self, kernel: KernelCost) -> dict[str, Any]:
        """Return the columns about what a kernel's threads and tiles transfer.

        Raises:
            UnsupportedError: The kernel's thread map is unknown.
        """
        if not self._is_judged:
            raise UnsupportedError(kernel.reason)
        found = kernel.coalescing or self._memory.of_instruction(kernel.instruction)
        return {
            "emitter": str(found.kernel.emitter), "wasted_bytes": kernel.wasted,
            "utilisation": found.utilisation, "efficiency": found.lowest,
        }  # fmt: skip


def _padded(values: Iterable[Instruction]) -> int:
    """Return the bytes of the values' arrays in memory, with the padding of their tiles.

    Arrays of unbounded sizes count 0.
    """
    types = [leaf for value in values for leaf in leaf_types(value.type)]
    sizes = [array_bytes(type) for type in types if isinstance(type, TensorType)]
    return sum([size.padded for size in sizes if size is not None])


def _columns_or_error(
    name: str, part: Callable[[], dict[str, Any]], problems: list[str]
) -> dict[str, Any]:
    """Return the columns that `part` computes; if it fails, add its error to `problems`.

    `name` is the name of the part in the error.
    """
    try:
        return part()
    except HloscopeError as error:
        problems.append(f"{name}: {error.message_in(_nameless)}")
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # an invalid program or a defect: the other parts still count
        problems.append(f"{name}: internal error: {type(error).__name__}: {error}")
    return {}


def _nameless(value: object, form: str = "") -> str:
    """Format a value for a message; names become `_`, since equal structures share messages.

    `form` is the format specification.
    """
    return "_" if isinstance(value, Label) else plain(value, form)


def _counted(names: Iterator[str] | map[str]) -> list[list[Any]]:
    """Return pairs of a name and how often it occurs, sorted by name."""
    return [[name, count] for name, count in sorted(Counter(names).items())]


def _total(kernels: list[dict[str, Any]], *columns: str) -> int:
    """Return the sum of columns over all runs of all kernels; unknown amounts count 0."""
    return sum((row.get(name) or 0) * row["times"] for row in kernels for name in columns)


def _is_dynamic(type_: Type) -> bool:
    return any(isinstance(leaf, TensorType) and None in leaf.sizes for leaf in leaf_types(type_))


def _text(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
