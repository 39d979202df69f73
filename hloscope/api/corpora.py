"""Indexing of many programs by several processes, with a cache of results.

Each program's results go to a separate file, which the calling process reads in the order of the
programs. So no line is incomplete after a process dies or is interrupted.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Final, NamedTuple

from msgspec import Struct

from hloscope.api.asking import IndexQuestion, index_lines, with_operands
from hloscope.api.files import content_of
from hloscope.api.indexing import Indexing
from hloscope.api.invalid import check
from hloscope.api.program import read
from hloscope.api.views import InstructionView
from hloscope.checks.scan import Digests, Limits, Store, alone, code_digest, engine_of, in_order
from hloscope.display import INDEX_SCHEMA, Direction, to_json
from hloscope.errors import HloscopeError, InputError, NoFunctionError, VerifyError
from hloscope.indexing import Precision

KEPT: Final = 1 << 30
"""Default maximum number of bytes of cached results in a folder."""
_AHEAD: Final = 4
"""Maximum number of programs that wait for each worker process."""
_BLOCK: Final = 1 << 20
_OUR_BUG: Final = 5


class KeptAnswers(NamedTuple):
    """A folder of cached results.

    Attributes:
        folder: The folder.
        most: Maximum number of bytes of the results.
    """

    folder: Path
    most: int = KEPT


class FileAnswers(Struct, frozen=True):
    """The results for one program.

    Attributes:
        file: Name of the program.
        path: File with one JSON object per line. It is deleted when the next program's results are
            requested.
        message: Why results are missing; empty if all are there.
        code: Exit code for that failure; 0 without one.
        trouble: Why results could not be cached; empty if they were cached.
    """

    file: str
    path: str
    message: str = ""
    code: int = 0
    trouble: str = ""


class _Task(NamedTuple):
    """A program to query, with the query.

    Attributes:
        file: Path, URL or name of the program.
        data: Its bytes; `None` to read the file.
        question: The query for each instruction.
        kept: The cache of results; `None` for none.
        code: Digest of the code that computes the results.
        path: File that the results are written to.
    """

    file: str
    data: bytes | None
    question: IndexQuestion
    kept: KeptAnswers | None
    code: str
    path: str


def answer_files(
    files: Sequence[tuple[str, bytes | None]],
    question: IndexQuestion,
    *,
    jobs: int | None = None,
    kept: KeptAnswers | None = None,
) -> Generator[FileAnswers, None, None]:
    """Query every instruction with operands; yield results in the order of the programs.

    Close the generator if it is not exhausted: it holds processes and a temporary folder.

    Args:
        files: Pairs of a path or URL and `None`, or of a name and the bytes of the program.
        question: The query.
        jobs: Number of processes; by default the number of processors.
        kept: Cache of the results; `None` for no cache.
    """
    if kept is not None:
        kept = kept._replace(folder=kept.folder.absolute())
    workers = max(1, min(jobs or os.cpu_count() or 1, len(files)))
    code = code_digest() if kept is not None else ""
    with TemporaryDirectory(prefix="hloscope-") as folder:
        tasks = [
            _Task(file, data, question, kept, code, os.path.join(folder, str(number)))
            for number, (file, data) in enumerate(files)
        ]
        with engine_of(workers, None) as engine:
            ahead = _AHEAD if workers > 1 else 1
            for done in in_order(engine, _answer, tasks, waiting=ahead, last=_guarded):
                task = done.task
                lost = FileAnswers(task.file, task.path, _internal(task.file, done.error), _OUR_BUG)
                yield done.result or lost
                Path(task.path).unlink(missing_ok=True)


def _guarded(task: _Task) -> FileAnswers:
    """Return the results for a program that killed its worker.

    The program runs in a child process, so that it cannot kill the caller.
    """
    found, why = alone(partial(_as_list, task), Limits())
    if found is None:
        return FileAnswers(task.file, task.path, _internal(task.file, why.text), _OUR_BUG)
    return FileAnswers(*found)


def _as_list(task: _Task) -> list[Any]:
    found = _answer(task)
    return [found.file, found.path, found.message, found.code, found.trouble]


def _internal(file: str, error: str) -> str:
    return f"internal error: {file}: {error}\nask about it alone with --debug to see where"


def _answer(task: _Task) -> FileAnswers:
    """Write the results for one program to the task's file; return its path and any error."""
    most = None if task.kept is None else task.kept.most
    store = Store(None if task.kept is None else task.kept.folder, task.code, most)
    message, code = "", 0
    try:
        with open(task.path, "wb") as out:
            wrong = _write(task, store, out)
        if wrong:
            message, code = "\n".join(map(str, wrong)), VerifyError.exit_code
    except NoFunctionError:
        message = f"no function in {task.file}"
    except HloscopeError as error:
        message, code = str(error), error.exit_code
    except Exception as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        message, code = _internal(task.file, what), _OUR_BUG
    return FileAnswers(task.file, task.path, message, code, store.trouble)


def _write(task: _Task, store: Store, out: BinaryIO) -> list[VerifyError]:
    """Write the results for one program; return the errors of instructions without results.

    Args:
        task: The program and the query.
        store: The cache.
        out: File that the lines are written to.
    """
    data = content_of(task.file) if task.data is None else task.data
    # The key has the name of the file as well, because the lines state it.
    digest = blake2b(data, digest_size=20).hexdigest()
    key = store.key("index", INDEX_SCHEMA, task.file, digest, repr(task.question))
    packed = store.get_bytes(key)
    if packed is not None and _unpack(packed, out):
        return []
    packer, parts = zlib.compressobj(1), list[bytes]()
    program = read(data, name=task.file).by_convention(task.question.convention)
    known = _ResultCache(task.question, store)
    answers = known.plain if store.folder is None else known.of
    wrong: list[VerifyError] = []
    try:
        for line in index_lines(with_operands(program), answers, wrong.append):
            text = f"{line}\n".encode()
            _write_bytes(out, text)
            if store.folder is not None:
                parts.append(packer.compress(text))
    except HloscopeError:
        raise
    except Exception:
        # A crash on an invalid program becomes the verifier's finding, which names the cause.
        check(program.module)
        raise
    # A result with findings is incomplete: it must not be read back as the whole.
    if store.folder is not None and not wrong:
        store.put_bytes(key, b"".join([*parts, packer.flush()]))
    return wrong


def _unpack(packed: bytes, out: BinaryIO) -> bool:
    """Write decompressed cached results to `out`; return whether they were complete.

    If they were not, `out` is truncated.
    """
    unpacker = zlib.decompressobj()
    try:
        left = packed
        while left and not unpacker.eof:
            _write_bytes(out, unpacker.decompress(left, _BLOCK))
            left = unpacker.unconsumed_tail
    except zlib.error:
        pass
    if unpacker.eof:
        return True
    out.seek(0)
    out.truncate()
    return False


def _write_bytes(out: BinaryIO, text: bytes) -> None:
    try:
        out.write(text)
    except OSError as error:
        where = os.path.dirname(out.name)
        raise InputError(f"cannot write to `{where}`: {error.strerror or error}") from None


class _ResultCache:
    """Cache of results by structure.

    Only results without names, apart from those of the operands, are cached.
    """

    def __init__(self, question: IndexQuestion, store: Store) -> None:
        self._question: Final = question
        self._store: Final = store
        self._digests: Final = Digests()
        self._parts: Final[dict[str, dict[str, Any] | None]] = {}

    def of(self, view: InstructionView) -> dict[str, Any]:
        """Return the result for an instruction, as JSON.

        Instructions of equal structure are computed once.
        """
        digest = self._digest(view)
        if not digest:
            return self.plain(view)
        if digest not in self._parts:
            key = self._store.key("maps", INDEX_SCHEMA, digest, repr(self._question))
            kept = self._store.get(key)
            if _is_valid_entry(kept, view):
                self._parts[digest] = kept
            else:
                found = self._question.ask(view)
                told = found.to_json()
                self._parts[digest] = part = _nameless(found, told)
                if part is not None:
                    self._store.put(key, part)
                return told
        part = self._parts[digest]
        return self.plain(view) if part is None else _named(view, part)

    def plain(self, view: InstructionView) -> dict[str, Any]:
        """Compute the result for an instruction, as JSON, without the cache."""
        return self._question.ask(view).to_json()

    def _digest(self, view: InstructionView) -> str:
        """Return a digest of everything that the result for an instruction depends on.

        It is empty if the instruction's structure does not determine the result.
        """
        # Through a fusion's parameters the result depends on the callers, and at unknown sizes on
        # named sizes of the program: neither is in the digest of the instruction.
        is_told_by_structure = not self._question.to_parameters and not view.has_unknown_sizes
        if not is_told_by_structure or len(view.values_read) != len(view.ir.operands):
            return ""
        try:
            return self._digests.of_kernel(view.ir, view.computation.ir)
        except TypeError:
            return ""


def _nameless(found: Indexing, as_json: dict[str, Any]) -> dict[str, Any] | None:
    """Return a result without the names of operands; `None` if other names remain.

    Reasons and run-time variables contain such names.

    Args:
        found: The result.
        as_json: The result as JSON.
    """
    every = [a for o in found.answer.outputs for operand in o.touched for a in operand]
    if any(a.precision is not Precision.EXACT or a.reason or a.via for a in every):
        return None
    if any(a.map is None or a.map.runtime for a in every):
        return None
    operands = [{**operand, "name": ""} for operand in as_json["operands"]]
    same = {key: as_json[key] for key in ("outputs", "maps")}
    return {"unreached": as_json.get("unreached"), **same, "operands": operands}


def _is_valid_entry(cached: Any, view: InstructionView) -> bool:
    """Is a cached value a result as `_nameless` returns it, with operands that `view` has?"""
    count = len(view.ir.operands)
    try:
        numbers = [operand["operand"] for operand in cached["operands"]]
        is_right = cached.keys() == {"unreached", "outputs", "operands", "maps"} and all(
            [type(cached[key]) is list for key in ("outputs", "operands", "maps")]
        )
        return is_right and all(type(n) is int and 0 <= n < count for n in numbers)
    except (TypeError, KeyError, AttributeError):
        return False


def _named(view: InstructionView, nameless: dict[str, Any]) -> dict[str, Any]:
    """Return the result for an instruction, from the nameless result for one of equal structure."""
    way: Direction = "output_to_input" if nameless["unreached"] is None else "input_to_output"
    told = to_json(view.empty_answer(way), view.program.file)
    if nameless["unreached"] is not None:
        told["unreached"] = nameless["unreached"]
    names = [value.name for value in view.ir.operands]
    told["outputs"] = nameless["outputs"]
    told["operands"] = [{**one, "name": names[one["operand"]]} for one in nameless["operands"]]
    told["maps"] = nameless["maps"]
    return told
