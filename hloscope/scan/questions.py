"""Queries of the tables of scans by DuckDB: in SQL, or by name."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import isfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from hloscope.errors import InputError, did_you_mean
from hloscope.extras import library_of

TABLES: Final = ("modules", "kernels")


_DIRECTORIES: Final = {1: "one directory", 2: "two directories, that of the older scan first"}


class Question(NamedTuple):
    """A named query.

    Attributes:
        about: The contents of its result, in a line.
        scans: Number of scans that it reads.
        sql: The query; with two scans, tables of the older one have the prefix `old_`.
    """

    about: str
    scans: int
    sql: str


class Answer(NamedTuple):
    """A table.

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
        question: A name of `QUESTIONS`, or SQL over `modules` and `kernels` (`old_modules` and
            `old_kernels` too, where two scans are given, the older first).
        scans: Folders that scans were written to.
        top: Rows of a named question.

    Raises:
        InputError: There is no such scan, the query is invalid, or duckdb is not installed.
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
        # The newest scan has the plain table names, an older one the prefix.
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
