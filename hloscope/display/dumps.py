"""The programs in a directory of dumps, as table rows and JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from hloscope.display.table import Table


class Dump(Struct, frozen=True):
    """A file of a directory of dumps.

    Attributes:
        file: Its path.
        module: Name of the module; for other file names, the name without its ending.
        number: Number of the module, or -1.
        stage: The stage or pass after which it was written.
        order: Sort key among the files of the module.
        size: Its size in bytes.
    """

    file: Path
    module: str
    number: int
    stage: str
    order: tuple[int, int]
    size: int


def dumps_table(dumps: Iterable[Dump], folder: Path) -> Table:
    """Return a table with a row for each program; paths are relative to `folder`."""
    rows = [
        [
            dump.module,
            "" if dump.number < 0 else str(dump.number),
            dump.stage,
            str(dump.size),
            dump.file.relative_to(folder).as_posix(),
        ]
        for dump in dumps
    ]
    header = ["module", "number", "stage", "bytes", "file"]
    return Table(header, rows, right=[1, 3], cut={0: "left", 4: "left"}, optional=[1])


def dump_json(dump: Dump) -> dict[str, Any]:
    """Return one program in a directory as JSON."""
    return {
        "file": str(dump.file),
        "module": dump.module,
        "number": None if dump.number < 0 else dump.number,
        "stage": dump.stage,
        "bytes": dump.size,
    }
