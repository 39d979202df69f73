"""The tables of a scan as Parquet files, and queries of them in SQL or by name."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os.path import isfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from hloscope.checks.scan.store import FORGOTTEN
from hloscope.errors import InputError, did_you_mean
from hloscope.support.system import library_of

# --------------------------------------------------------------------------------------------------
# The tables of a scan as Parquet: a row for each file, and one for each kernel.
#
# The files depend on the rows alone, so equal scans are equal byte for byte.


MODULES: Final = {
    "file": "string", "bytes": "int64", "digest": "string", "status": "string", "error": "string",
    "module": "string", "language": "string", "computations": "int64", "instructions": "int64",
    "fusions": "int64", "kernels": "int64", "structures": "int64", "opcodes": "counts",
    "collectives": "counts", "collective_bytes": "int64", "dynamic_sizes": "int64",
    "moved_bytes": "int64", "wasted_bytes": "int64", "bound_ps": "int64", "padded_bytes": "int64",
    "compiled_for": "string",
    "parameter_bytes": "int64", "output_bytes": "int64", "least_live_bytes": "int64",
    "held_bytes": "int64", "temporary_bytes": "int64", "padding_at_peak_bytes": "int64",
    "chains": "int64", "free_chains": "int64", "cancelled_bytes": "int64", "findings": "int64",
    "first_finding": "string", "problems": "string",
}  # fmt: skip
"""Columns of `modules.parquet` and their types."""
KERNELS: Final = {
    "file": "string", "module": "string", "computation": "string", "name": "string",
    "structure": "string", "opcode": "string", "kind": "string", "shape": "string",
    "op_name": "string", "source": "string", "line": "int64", "times": "int64",
    "instructions": "int64", "opcodes": "counts", "maps": "int64", "precision": "string",
    "reasons": "string", "indexing": "string", "dynamic": "bool", "read_bytes": "int64",
    "written_bytes": "int64", "bytes_exact": "bool", "flops": "int64", "padded_bytes": "int64",
    "bound_ps": "int64", "maker": "string", "emitter": "string",
    "wasted_bytes": "int64", "utilisation": "double", "efficiency": "double", "problems": "string",
}  # fmt: skip
"""Columns of `kernels.parquet` and their types."""
_ROWS: Final = 1 << 14
"""Number of rows of a Parquet row group."""
_LARGEST: Final = (1 << 63) - 1


class Tables:
    """The two tables of a scan, written row by row into a folder; the files appear on `close`."""

    def __init__(self, folder: Path) -> None:
        """Open both tables in a folder.

        Raises:
            InputError: pyarrow is not installed, or the folder cannot be written.
        """
        self._tables: Final = [
            _Table(folder / "modules.parquet", MODULES),
            _Table(folder / "kernels.parquet", KERNELS),
        ]

    def add(self, module: Mapping[str, Any], kernels: Sequence[Mapping[str, Any]]) -> None:
        """Add the row of a program to the table of modules, and its kernels' rows to the other."""
        for table, rows in zip(self._tables, ([module], kernels), strict=True):
            table.add(rows)

    def close(self) -> None:
        """Write the remaining rows, then rename the files: either both tables appear, or none."""
        for table in self._tables:
            table.write_rest()
        for table in self._tables:
            table.name()

    def drop(self) -> None:
        """Delete the unfinished files."""
        for table in self._tables:
            table.drop()


class _Table:
    """One table of a scan, written to a temporary Parquet file until it is closed."""

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        arrow = library_of("scan", "pyarrow", "scans")
        parquet = library_of("scan", "pyarrow.parquet", "scans")
        self._arrow: Final = arrow
        special = {"counts": arrow.map_(arrow.string(), arrow.int64())}
        self._schema: Final = arrow.schema(
            [(name, special.get(kind, kind)) for name, kind in columns.items()]
        )
        self._path: Final = path
        self._draft: Final = path.with_suffix(f".{os.getpid()}.tmp")
        self._rows: list[Mapping[str, Any]] = []
        self._columns: Final = columns
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._delete_temporary_files()
            self._writer: Final = parquet.ParquetWriter(self._draft, self._schema)
        except OSError as error:
            raise _unwritten(path, error) from None

    def _delete_temporary_files(self) -> None:
        """Delete old temporary files of scans that were killed."""
        for draft in self._path.parent.glob(f"{self._path.stem}.*.tmp"):
            with suppress(OSError):
                if time.time() - draft.stat().st_mtime > FORGOTTEN:
                    draft.unlink()

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows += rows
        # Row groups have a fixed size, so the files do not depend on how rows arrive.
        while len(self._rows) >= _ROWS:
            self._flush(self._rows[:_ROWS])
            self._rows = self._rows[_ROWS:]

    def write_rest(self) -> None:
        if self._rows:
            self._flush(self._rows)
            self._rows = []
        try:
            self._writer.close()
        except OSError as error:
            raise _unwritten(self._path, error) from None

    def name(self) -> None:
        try:
            self._draft.replace(self._path)
        except OSError as error:
            raise _unwritten(self._path, error) from None

    def drop(self) -> None:
        if not self._draft.exists():
            return
        with suppress(OSError):  # on a full disk it has no room for its last bytes
            self._writer.close()
        with suppress(OSError):
            self._draft.unlink(missing_ok=True)

    def _flush(self, rows: Sequence[Mapping[str, Any]]) -> None:
        arrays = [
            self._arrow.array([_cell(row.get(name)) for row in rows], self._schema.field(name).type)
            for name in self._columns
        ]
        try:
            self._writer.write_table(self._arrow.table(arrays, schema=self._schema))
        except OSError as error:
            raise _unwritten(self._path, error) from None


def _unwritten(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write `{path}`: {error.strerror or error}")


def _cell(value: Any) -> Any:
    """Convert a value for a table: text becomes valid UTF-8, integers are clamped to 64 bits."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [(_cell(name), count) for name, count in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-_LARGEST, min(value, _LARGEST))
    return value


# --------------------------------------------------------------------------------------------------
# Queries of the tables of scans by DuckDB: in SQL, or by name.


TABLES: Final = ("modules", "kernels")


_DIRECTORIES: Final = {1: "one directory", 2: "two directories, that of the older scan first"}


class Question(NamedTuple):
    """A named query of scans.

    Attributes:
        about: Description of the result, in one line.
        scans: Number of scans that it reads: 1 or 2.
        sql: The query; with two scans, tables of the older one have the prefix `old_`.
    """

    about: str
    scans: int
    sql: str


class Answer(NamedTuple):
    """The result of a query.

    Attributes:
        columns: Names of the columns.
        rows: Values of the rows.
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]


QUESTIONS: Final = {
    "waste": Question(
        "Kernels with the most unused bytes, over all programs; equal kernels share a row.",
        1,
        "select structure, any_value(name order by file, name) as name, emitter, "
        "count(*) as places, count(distinct file) as files, "
        "sum(wasted_bytes * times) as wasted_bytes, "
        "min(efficiency) as efficiency, any_value(source order by file, name) as source "
        "from kernels where wasted_bytes > 0 group by structure, emitter "
        "order by 6 desc, 1 limit {top}",
    ),
    "unknown": Question(
        "Kernels with unknown accesses, by reason.",
        1,
        "select reasons, count(*) as places, count(distinct structure) as kernels, "
        "any_value(file order by file, name) as file, any_value(name order by file, name) as name "
        "from kernels where precision = 'unknown' group by reasons order by 2 desc, 1 limit {top}",
    ),
    "opcodes": Question(
        "Kernels by opcode, with the bytes that they read and write.",
        1,
        "select opcode, count(*) as places, count(distinct structure) as kernels, "
        "sum((read_bytes + written_bytes) * times) as bytes "
        "from kernels group by opcode order by 4 desc nulls last, 1 limit {top}",
    ),
    "cancel": Question(
        "Programs with the most bytes of data movement that can be saved.",
        1,
        "select file, module, chains, free_chains, cancelled_bytes from modules "
        "where cancelled_bytes > 0 order by cancelled_bytes desc, file limit {top}",
    ),
    "errors": Question(
        "Files that could not be read, or have findings.",
        1,
        "select file, status, error, findings, first_finding from modules "
        "where status <> 'ok' or findings > 0 order by status, file limit {top}",
    ),
    "worse": Question(
        "Kernels of a program with more unused bytes than in an older scan: OLD NEW.",
        2,
        "with n as (select module, op_name, source, opcode, sum(wasted_bytes) as wasted, "
        "count(*) as kernels, any_value(name order by name) as name from kernels group by all), "
        "o as (select module, op_name, source, opcode, sum(wasted_bytes) as wasted, "
        "count(*) as kernels from old_kernels group by all) "
        "select n.module, n.name, n.opcode, n.op_name, n.source, o.kernels as old_kernels, "
        "n.kernels, o.wasted as old_wasted, n.wasted from n join o "
        "on n.module = o.module and n.opcode = o.opcode "
        "and n.op_name is not distinct from o.op_name and n.source is not distinct from o.source "
        "where n.wasted > o.wasted order by n.wasted - o.wasted desc, 1, 2 limit {top}",
    ),
}
"""The named queries."""


def ask(question: str, scans: Sequence[Path], top: int = 20) -> Answer:
    """Run a query on scans, and return its result.

    Args:
        question: A name of `QUESTIONS`, or SQL over the tables `modules` and `kernels`; with two
            scans also over `old_modules` and `old_kernels`.
        scans: Folders of scans; of two, the older one comes first.
        top: Maximum number of rows of a named query.

    Raises:
        InputError: A scan does not exist, the query is invalid, or duckdb is not installed.
    """
    named = QUESTIONS.get(question)
    if not question.strip():
        raise InputError("the question is empty")
    if named is None and len(question.split()) == 1:
        raise InputError(f"no question is called `{question}`{did_you_mean(question, QUESTIONS)}")
    wanted = named.scans if named is not None else min(max(len(scans), 1), 2)
    if len(scans) != wanted:
        raise InputError(f"this question is about {_DIRECTORIES[wanted]}")
    duckdb = library_of("scan", "duckdb", "questions")
    connection = duckdb.connect()
    try:
        # Tables of the newest scan have no prefix, those of an older one have `old_`.
        for number, folder in enumerate(reversed(scans)):
            for table in TABLES:
                _load(connection, f"{'old_' * number}{table}", folder / f"{table}.parquet")
        # After loading, a query in SQL can read no other file.
        connection.execute("set enable_external_access = false")
        sql = question if named is None else named.sql.format(top=top)
        found = connection.execute(sql)
        if found is None:  # nothing but comments
            raise InputError("the question is empty")
        columns = [one[0] for one in found.description or ()]
        return Answer(columns, found.fetchall())
    except duckdb.Error as error:
        raise InputError(f"DuckDB: {error}") from None
    finally:
        connection.close()


def _load(connection: Any, table: str, path: Path) -> None:
    if not isfile(path):
        raise InputError(f"no scan is in `{path.parent}`: `hloscope scan PATHS -o DIR` makes one")
    connection.execute(f"create table {table} as select * from read_parquet(?)", [str(path)])
