"""Reader of profiles of all formats, and of the compiled programs inside them."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Hashable, Iterable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

from msgspec.structs import replace

from hloscope.cost.profiles.events import (
    MOST_PROFILE,
    KernelEvent,
    Profile,
    ProfiledDevice,
    ProfiledProgram,
    is_xspace,
    profile_of,
    refuse_many,
)
from hloscope.cost.profiles.nsight import (
    MAGIC,
    RANGES,
    TRACE,
    read_gpu_trace,
    read_ranges,
    read_sqlite,
)
from hloscope.cost.profiles.rocprof import (
    TOOL,
    TRACE as DISPATCHES,
    read_kernel_trace,
    read_results,
)
from hloscope.cost.profiles.tables import column
from hloscope.cost.profiles.traces import read_trace
from hloscope.cost.profiles.xplane import read_xplane
from hloscope.errors import InputError, ParseError, UnknownNameError, did_you_mean
from hloscope.fusion import StructureIds
from hloscope.hlo_parser import parse_hlo, proto_text
from hloscope.ir import Computation, Instruction, Module, callees_first
from hloscope.ops import Constant

# --------------------------------------------------------------------------------------------------
# Reader of profiles of all formats, which are recognised by content and not by file name.


_GZIP: Final = b"\x1f\x8b"
_HEAD: Final = 1 << 16
FORMS: Final = (
    "XPlane (*.xplane.pb), trace.json of jax.profiler or PyTorch, Nsight Systems (cuda_gpu_trace or"
    " nvtx_gpu_proj_trace as CSV, SQLite), rocprofv3 (*_kernel_trace.csv, *_results.json)"
)
_WITHIN: Final = ("plugins", "profile")


def read_profile(source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> Profile:
    """Return a recorded profile.

    Args:
        source: Path of a file, its bytes, or a directory of `jax.profiler`: the one that was given
            to `start_trace`, or `plugins/profile/TIME` in it.
        name: Name of the profile in messages; by default the path.

    Raises:
        InputError: The file is missing, empty or too large, or a directory without profiles.
        ParseError: The file is not a profile, or is cut or damaged; the message names file and
            location.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        called = name or "<bytes>"
        return _of_bytes(_unpacked(BytesIO(source), called), called)
    path = Path(source)
    called = name or os.fspath(source)
    try:
        if path.is_dir():
            return _of_folder(path, called)
        with open(path, "rb") as stream:
            if stream.read(len(MAGIC)) == MAGIC and path.is_file():
                return read_sqlite(path, called)
            if path.is_file():
                stream.seek(0)
                data = _unpacked(stream, called)
            else:
                raise InputError(f"`{called}` is neither a file nor a directory")
    except FileNotFoundError:
        raise InputError(f"no file `{called}`") from None
    except OSError as error:
        raise InputError(f"cannot read `{called}`: {error.strerror or error}") from None
    except ValueError as error:  # a null character in the name
        raise InputError(f"cannot read `{called}`: {error}") from None
    return _of_bytes(data, called)


def _of_folder(folder: Path, label: str) -> Profile:
    """Return the merged profile of all hosts' files of the newest recording in a directory.

    `label` is its name in messages.
    """
    at = folder
    for part in _WITHIN:
        at = at / part if (at / part).is_dir() else at
    files, problems = sorted(at.glob("*.xplane.pb")), list[str]()
    if not files:
        times = sorted({file.parent for file in at.glob("*/*.xplane.pb")})
        files = sorted(times[-1].glob("*.xplane.pb")) if times else []
        if len(times) > 1:
            others = f"{len(times) - 1} older recordings"
            problems.append(f"`{label}` has {others}: only `{times[-1].name}` is read")
    if not files:
        raise InputError(f"`{label}` is a directory without *.xplane.pb in plugins/profile/TIME")
    found = [read_profile(file) for file in files]
    if len(found) == 1:
        return replace(found[0], source=label, problems=(*found[0].problems, *problems))
    return _merged(found, label, problems)


def _merged(found: list[Profile], label: str, problems: list[str]) -> Profile:
    """Merge the profiles of several hosts; device names begin with the host.

    Args:
        found: The profiles.
        label: Name of the result in messages.
        problems: Sentences about omitted data.
    """
    events: list[KernelEvent] = []
    devices: list[ProfiledDevice] = []
    programs: dict[int, ProfiledProgram] = {}
    for profile in found:
        host = Path(profile.source).name.removesuffix(".xplane.pb")
        events += [replace(e, device=f"{host}{e.device}") for e in profile.events]
        devices += [replace(d, name=f"{host}{d.name}") for d in profile.devices]
        programs |= {program.program_id: program for program in profile.programs}
        problems += profile.problems
        refuse_many(len(events), label)
    return profile_of(
        events,
        label,
        "xplane",
        devices=devices,
        programs=programs.values(),
        problems=problems,
    )


def _unpacked(stream: BinaryIO, label: str) -> bytes:
    """Return the bytes of a stream, decompressed if they are gzip data.

    Raises:
        InputError: There are too many bytes, or they are damaged.
    """
    first = stream.read(len(_GZIP))
    stream.seek(0)
    try:
        if first == _GZIP:
            with gzip.GzipFile(fileobj=stream) as packed:
                data = packed.read(MOST_PROFILE + 1)
        else:
            data = stream.read(MOST_PROFILE + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{label} is a damaged gzip file: {error}") from None
    if len(data) > MOST_PROFILE:
        raise InputError(f"{label} has more than {MOST_PROFILE >> 20} MiB")
    return data


def _of_bytes(data: bytes, label: str) -> Profile:
    if not data.strip():
        raise InputError(f"{label} is empty")
    if data.startswith(MAGIC):
        return read_sqlite(data, label)
    if is_xspace(data):
        return read_xplane(data, label)
    head = data[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] in (b"{", b"["):
        # Only rocprofv3 has this key, which comes first in its results.
        if f'"{TOOL}"'.encode() in head:
            return read_results(data, label)
        return read_trace(data, label)
    if b"\0" not in head and (form := _table_form(head.decode("utf-8", "replace"))):
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ParseError(f"{label}: byte {error.start} is not UTF-8") from None
        return {"trace": read_gpu_trace, "ranges": read_ranges, "rocm": read_kernel_trace}[form](
            text, label
        )
    if label.endswith(".xplane.pb"):
        return read_xplane(data, label)
    begin = ascii(bytes(data[:16]))[2:-1]
    raise ParseError(f"{label}: found `{begin}` at byte 0, expected a profile: {FORMS}")


def _table_form(head: str) -> str:
    """Return the kind of a CSV table by its header: `ranges`, `rocm` or `trace`.

    Empty if it is unknown. `head` is the beginning of the text.
    """
    forms = ("ranges", RANGES), ("rocm", (DISPATCHES,)), ("trace", (TRACE,))
    for line in head.splitlines():
        names = {column(cell.strip().strip('"'))[0] for cell in line.split(",")}
        for form, needed in forms:
            if any(need <= names for need in needed):
                return form
    return ""


# --------------------------------------------------------------------------------------------------
# The compiled programs inside a profile, as modules.


def programs_in(profile: Profile) -> dict[int, Module]:
    """Return the programs inside a profile by `program_id`; empty if the form has none.

    Raises:
        ParseError: The bytes of a program are damaged.
        UnsupportedError: A program has a field that is not read.
    """
    return {
        program.program_id: parse_hlo(
            program_text(profile, program), name=_called(profile, program)
        )
        for program in profile.programs
    }


def program_text(profile: Profile, program: ProfiledProgram) -> str:
    """Return the HLO text of a program inside a profile."""
    return proto_text(program.proto, _called(profile, program))


def _called(profile: Profile, program: ProfiledProgram) -> str:
    return f"{profile.source}#{program.label}"


def chosen_program(profile: Profile, choice: str) -> ProfiledProgram:
    """Return the program of a profile named `NAME`, `ID` or `NAME(ID)`.

    Without a name it is the only program.

    Raises:
        UnknownNameError: No program has that name, or several have it; the message lists them.
    """
    programs = profile.programs
    labels = ", ".join([f"`{profile.source}#{p.label}`" for p in programs[:8]])
    if len(programs) > 8:
        labels += f" and {len(programs) - 8} more"
    if not programs:
        raise UnknownNameError(f"{profile.source}: the profile has no programs inside")
    if not choice:
        if len(programs) > 1:
            many = f"{profile.source} has {len(programs)} programs"
            raise UnknownNameError(f"{many}: name one of {labels}")
        return programs[0]
    found = [p for p in programs if choice in (p.name, p.label, str(p.program_id))]
    if len(found) == 1:
        return found[0]
    if not found:
        near = did_you_mean(choice, [p.name for p in programs])
        raise UnknownNameError(f"{profile.source} has no program `{choice}`{near}: it has {labels}")
    several = ", ".join([f"`{p.label}`" for p in found[:8]])
    raise UnknownNameError(f"{profile.source} has several programs `{choice}`: {several}")


# --------------------------------------------------------------------------------------------------
# Keys of fusions that share a kernel.
#
# Source: XLA `kernel_reuse_cache.cc`.


class Structures:
    """Computes keys that are equal for instructions of equal structure, as in XLA's kernel cache.

    The structure is op, types with layouts, called computations and constants. Names and metadata
    do not count. Aliasing of arguments, which XLA also compares, cannot be known from the text.
    """

    def __init__(self) -> None:
        self._structure_ids = StructureIds()
        self._constants: dict[Computation, tuple[str, ...]] = {}

    def key(self, ins: Instruction) -> Hashable:
        """Return the key of an instruction."""
        return (
            type(ins.op),
            str(ins.type),
            tuple([str(operand.type) for operand in ins.operands]),
            tuple([self._structure_ids.number(callee) for callee in ins.calls]),
            tuple([self._constants_in(callee) for callee in ins.calls]),
        )

    def _constants_in(self, computation: Computation) -> tuple[str, ...]:
        # Instructions with one callee share it, and `Structures.key` asks for each of them.
        known = self._constants.get(computation)
        if known is None:
            found: Iterable[Computation] = callees_first(computation, {})
            known = self._constants[computation] = tuple(
                [
                    repr(ins.op)
                    for inner in found
                    for ins in inner.instructions
                    if type(ins.op) is Constant
                ]
            )
        return known
