"""`ls DIRECTORY`: the modules and stages of what `--xla_dump_to` wrote."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from hloscope.cli.common import print_json, print_table
from hloscope.display import tab_separated
from hloscope.errors import InputError
from hloscope.lazy import dataclass, pattern

SCHEMA: Final = "hloscope.dumps/1"
_MODULE: Final = r"(?:(?P<folder>.*)/)?module_(?P<number>\d+)\.(?P<module>.+?)\."
_NAMES: Final = (
    pattern(_MODULE + r"(?P<pass>\d{4})\.(?P<stage>.+)"),
    pattern(_MODULE + r"(?P<pass>)(?P<stage>(?:\w+\.\w+_|\w+_)?(?:before|after)_\w+)"),
    pattern(_MODULE + r"(?P<pass>)(?P<stage>.+)"),
)
_PASS: Final = pattern(r"(?:(?P<folder>.*)/)?(?P<pass>\d{4})\.(?P<stage>.+)")
_PROGRAM: Final = pattern(
    r"(?P<stem>.+?)\.(?:hlo\.txt|hlo\.pb|hlo|txt|stablehlo\.mlir|mlir)(?:\.gz|\.zst)?$"
)
_OTHERS: Final = pattern(
    r"buffer-assignment|memory-usage|live-range|thunk|ir-|\.ll$|\.ptx$|debug_options|flagfile"
    r"|autotune|kernel-spec|alias|obj-file|asm"
)
_STAGES: Final = ("before_optimizations", "after_spmd_partitioner", "after_optimizations")
"""In the order in which they are written, apart from single passes."""


@dataclass(frozen=True, slots=True)
class Dump:
    """A file of a directory of dumps.

    Attributes:
        file: Its path.
        module: The module's name; the file's without ending where it has another form.
        number: The module's number, or -1.
        stage: The stage or pass after which it was written.
        order: Its place among the stages of the module.
        size: Its size in bytes.
    """

    file: Path
    module: str
    number: int
    stage: str
    order: tuple[int, int]
    size: int


def dumps_in(folder: Path) -> list[Dump]:
    """The programs in and below a directory, module by module, in order of their stages."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        program = _PROGRAM.match(name)
        if program and path.is_file() and not _OTHERS.search(path.name):
            found.append(_dump(path, program["stem"]))
    return sorted(found, key=lambda d: (d.number, d.module, d.order, d.file))


def _dump(path: Path, stem: str) -> Dump:
    size = path.stat().st_size
    parts = next(filter(None, (form.fullmatch(stem) for form in _NAMES)), None)
    if parts is not None:
        number, module = int(parts["number"]), parts["module"]
        return Dump(path, module, number, parts["stage"], _order(parts), size)
    parts = _PASS.fullmatch(stem)
    if parts is not None:
        return Dump(path, parts["folder"] or "", -1, parts["stage"], _order(parts), size)
    module, _, stage = stem.partition(".")
    return Dump(path, module, -1, stage, (0, 0), size)


def _order(parts: re.Match[str]) -> tuple[int, int]:
    if parts["pass"]:
        return 1, int(parts["pass"])
    ends = [i for i, end in enumerate(_STAGES) if parts["stage"].endswith(end)]
    return (0, 0) if ends == [0] else (2, ends[0] if ends else len(_STAGES))


def print_dumps(folder: Path, *, as_json: bool, tsv: bool) -> None:
    """Print what is in a directory of dumps.

    Raises:
        InputError: There is no program.
    """
    found = dumps_in(folder)
    if not found:
        raise InputError(f"`{folder}` is a directory without programs (.txt, .hlo, .mlir)")
    if as_json:
        described = [
            {
                "file": str(dump.file),
                "module": dump.module,
                "number": None if dump.number < 0 else dump.number,
                "stage": dump.stage,
                "bytes": dump.size,
            }
            for dump in found
        ]
        print_json({"schema": SCHEMA, "directory": str(folder), "programs": described})
        return
    header = ["module", "number", "stage", "bytes", "file"]
    rows = [
        [d.module, "" if d.number < 0 else str(d.number), d.stage, str(d.size), _shown(d, folder)]
        for d in found
    ]
    if tsv:
        click.echo(tab_separated([header, *rows]))
    else:
        print_table(header, rows, [1, 3], cut={0: "left", 4: "left"}, optional=[1])


def _shown(dump: Dump, folder: Path) -> str:
    return dump.file.relative_to(folder).as_posix()
