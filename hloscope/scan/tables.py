"""The tables of a scan as Parquet: a row for each file, and one for each kernel.

The files depend on the rows alone, so equal scans are equal byte for byte.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from hloscope.errors import InputError
from hloscope.extras import library_of
from hloscope.scan.store import FORGOTTEN

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
"""Rows of a row group."""
_LARGEST: Final = (1 << 63) - 1


class Tables:
    """The two tables, written row by row into a folder; the files appear on `close`."""

    def __init__(self, folder: Path) -> None:
        """Open the tables.

        Raises:
            InputError: pyarrow is not installed, or the folder cannot be written.
        """
        self._tables: Final = [
            _Table(folder / "modules.parquet", MODULES),
            _Table(folder / "kernels.parquet", KERNELS),
        ]

    def add(self, module: Mapping[str, Any], kernels: Sequence[Mapping[str, Any]]) -> None:
        """Add the rows of a file."""
        for table, rows in zip(self._tables, ([module], kernels), strict=True):
            table.add(rows)

    def close(self) -> None:
        """Write the remaining rows, then rename the files: either both tables appear, or none."""
        for table in self._tables:
            table.write_rest()
        for table in self._tables:
            table.name()

    def drop(self) -> None:
        """Delete unfinished files."""
        for table in self._tables:
            table.drop()


class _Table:
    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        arrow = library_of("scan", "pyarrow", "scans")
        parquet = library_of("scan", "pyarrow.parquet", "scans")
        self._arrow: Final = arrow
        types = {"string": arrow.string(), "int64": arrow.int64(), "double": arrow.float64()}
        types |= {"bool": arrow.bool_(), "counts": arrow.map_(arrow.string(), arrow.int64())}
        self._schema: Final = arrow.schema([(name, types[kind]) for name, kind in columns.items()])
        self._path: Final = path
        self._draft: Final = path.with_suffix(f".{os.getpid()}.tmp")
        self._rows: list[Mapping[str, Any]] = []
        self._columns: Final = columns
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._forget_drafts()
            self._writer: Final = parquet.ParquetWriter(self._draft, self._schema)
        except OSError as error:
            raise _unwritten(path, error) from None

    def _forget_drafts(self) -> None:
        """Delete temporary files of scans that were killed."""
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
    """Convert a value for a column: text that is valid UTF-8, integers clamped to 64 bits."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [(_cell(name), count) for name, count in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-_LARGEST, min(value, _LARGEST))
    return value
