"""The modules and stages in a directory that `--xla_dump_to` wrote."""

from __future__ import annotations

import re
from os import fspath, walk
from os.path import getsize, isfile
from pathlib import Path
from typing import Final

from hloscope.display import Dump
from hloscope.errors import InputError
from hloscope.lazy import pattern

_MODULE: Final = r"(?:(?P<folder>.*)/)?module_(?P<number>\d+)\.(?P<module>.+?)\."
_NAMES: Final = (
    pattern(_MODULE + r"(?P<pass>\d{4})\.(?P<stage>.+)"),
    pattern(_MODULE + r"(?P<pass>)(?P<stage>(?:\w+\.\w+_|\w+_)?(?:before|after)_\w+)"),
    pattern(_MODULE + r"(?P<pass>)(?P<stage>.+)"),
)
_PASS: Final = pattern(r"(?:(?P<folder>.*)/)?(?P<pass>\d{4})\.(?P<stage>.+)")
FORMS: Final = (
    "hlo.txt", "hlo.pb", "hlo", "txt",
    "stablehlo.mlir", "mlir", "mlir.bc", "mlirbc", "jaxexport",
)  # fmt: skip
"""How the names of programs end: texts and protos of HLO; texts and bytecode of StableHLO."""
_PACKED: Final = ("gz", "zst")
_PROGRAM: Final = pattern(
    rf"(?P<stem>.+?)\.(?P<form>{'|'.join(map(re.escape, FORMS))})(?:\.(?:{'|'.join(_PACKED)}))?$"
)
_OTHERS: Final = pattern(
    r"(?:^|[-_])(?:buffer-assignment|memory-usage|live-range|thunk|ir-|debug_options|flagfile"
    r"|autotune|kernel-spec|alias|obj-file|asm)"
)
"""What XLA calls other texts that it writes, in the part of their names after the module's."""
_STAGES: Final = ("before_optimizations", "after_spmd_partitioner", "after_optimizations")
"""In the order in which they are written, apart from single passes."""


def dumps_in(folder: Path) -> list[Dump]:
    """The programs in and below a directory, module by module, in order of their stages.

    Raises:
        InputError: There is no program.
    """
    found = []
    for path in _files_below(folder):
        name = path.relative_to(folder).as_posix()
        program = _PROGRAM.match(name)
        if program and isfile(path) and is_dump(path.name):
            found.append(_dump(path, program["stem"]))
    if not found:
        names = ", ".join([f"*.{form}" for form in FORMS])
        raise InputError(f"`{folder}` is a directory without programs ({names})")
    return sorted(found, key=lambda d: (d.number, d.module, d.order, d.file))


def _files_below(folder: Path) -> list[Path]:
    """The files in and below a directory; subdirectories that cannot be read are skipped."""

    def unless_first(error: OSError) -> None:
        if error.filename == fspath(folder):
            raise InputError(f"cannot read `{folder}`: {error.strerror}")

    below = walk(folder, onerror=unless_first)
    return sorted(Path(base, name) for base, _, names in below for name in names)


def _size(path: Path) -> int:
    try:
        return getsize(path)
    except OSError:  # somebody has deleted it meanwhile
        return 0


def is_dump(name: str) -> bool:
    """Does the name look like a program's file?

    >>> [is_dump(name) for name in ("a.hlo", "a.hlo.txt.gz", "a.mlir", "a.ptx", "a.thunk.txt")]
    [True, True, True, False, False]
    >>> is_dump("alias_of_thunk.hlo"), is_dump("alias_of_thunk.txt")
    (True, True)
    >>> is_dump("a.mlir.bc"), is_dump("a.jaxexport.zst"), is_dump("a.bc")
    (True, True, False)
    """
    program = _PROGRAM.match(name)
    if program is None:
        return False
    module, _, about = program["stem"].rpartition(".")
    # XLA also writes reports as `.txt`. They are recognised by the part after the module's name; a
    # name without such a part is the user's own.
    return program["form"] != "txt" or not module or not _OTHERS.search(about)


def _dump(path: Path, stem: str) -> Dump:
    size = _size(path)
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
    # Single passes come between the stages before and after optimization.
    if parts["pass"]:
        return 1, int(parts["pass"])
    ends = [i for i, end in enumerate(_STAGES) if parts["stage"].endswith(end)]
    return (0, 0) if ends == [0] else (2, ends[0] if ends else len(_STAGES))
