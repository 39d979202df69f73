"""Dump folders of `--xla_dump_to`: compiled modules, with the files about each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hloscope.errors import InputError, UnknownNameError, UnsupportedError, did_you_mean
from hloscope.memory.dumps.buffers import (
    Buffers,
    Thunk,
    parse_buffers,
    parse_thunk_names,
    parse_thunks,
)
from hloscope.support.lazy import lazy, pattern
from hloscope.support.limits import MOST_INPUT
from hloscope.support.source import Source

if TYPE_CHECKING:
    import hloscope.memory.dumps.triton_code as triton_code
    from hloscope.memory.dumps.triton_code import ProgramTile, TritonKernel
else:
    triton_code = lazy("hloscope.memory.dumps.triton_code")

_COMPILED: Final = pattern(
    r"(?P<label>module_(?P<number>\d{1,18})\.(?P<name>.+?))"
    r"\.(?:sm_\d+\.\w+_|[A-Za-z][\w:+-]*_)?after_optimizations\.txt"
)
_ENTRY: Final = pattern(rb"\.entry\s+([\w$]+)")
_SHARED_ARRAY: Final = pattern(r"(?m)^[ \t]*\.shared \.align \d{1,9} \.b8 [\w$]+\[(\d{1,12})\];")
_FIGURE: Final = pattern(r"(core_count|threads_per_warp|memory_bandwidth): (\d{1,18})")
_TITLE: Final = pattern(r'device_description_str: "([^"\n]*)"')
_HEAD: Final = 1 << 16
"""Number of bytes at the beginning of a PTX file that are searched for kernel names."""
MOST_LISTED: Final = 8
"""Maximum number of modules that an error message names."""


class DumpTarget(Struct, frozen=True):
    """The GPU that a module was compiled for, as `*.gpu_target_config.pbtxt` states it.

    Attributes:
        title: Name of the product; empty if not stated.
        cores: Multiprocessors or compute units; 0 if not stated.
        warp: Threads of a warp; 0 if not stated.
        bandwidth: Memory bandwidth in GB/s (10^9 bytes per second); 0 if not stated.
    """

    title: str
    cores: int
    warp: int
    bandwidth: float


def is_dump_folder(path: str | os.PathLike[str]) -> bool:
    """Does the folder contain the optimized HLO of a module?"""
    try:
        return any(_COMPILED.fullmatch(name) for name in os.listdir(path))
    except OSError:
        return False


class DumpFolder:
    """A folder that `--xla_dump_to` wrote, with its compiled modules.

    Attributes:
        path: The folder.
        modules: The modules whose optimized HLO is in the folder, by their numbers.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """List the files of a dump folder. Their texts are read when they are needed.

        Args:
            path: The folder.

        Raises:
            InputError: The path is not a readable folder, or has no optimized HLO.
        """
        self.path: Final = Path(path)
        try:
            names = sorted(os.listdir(self.path))
        except OSError as error:
            raise InputError(f"cannot read `{self.path}`: {error.strerror or error}") from None
        compiled = {name: _COMPILED.fullmatch(name) for name in names}
        called = Counter([match["name"] for match in compiled.values() if match])
        found = [
            DumpedModule(
                self.path,
                match["label"],
                int(match["number"]),
                name,
                names,
                shares_name=called[match["name"]] > 1,
            )
            for name, match in compiled.items()
            if match
        ]
        if not found:
            what = f"`{self.path}` is a directory without a compiled program: expected a file"
            how = f"`hloscope ls {self.path}` lists the programs in it and below it"
            raise InputError(f"{what} `module_….after_optimizations.txt`; {how}")
        self.modules: Final = tuple(sorted(found, key=lambda m: (m.number, m.label)))

    def module(self, choice: str = "") -> DumpedModule:
        """Return one module of the folder.

        Args:
            choice: Its number, name (`jit_f`) or both (`module_0001.jit_f`). If empty, the folder
                must have exactly one module.

        Raises:
            UnknownNameError: No module has that name, or several have it; the message lists them.
        """
        fits = [m for m in self.modules if not choice or choice in m.names]
        if len(fits) == 1:
            return fits[0]
        if not fits:
            near = did_you_mean(choice, [m.name for m in self.modules])
            what = f"no compiled program `{choice}` in `{self.path}`{near}"
            raise UnknownNameError(f"{what}; it holds {_listed(self.modules)}")
        called = f" called `{choice}`" if choice else ""
        example = fits[-1].label
        raise UnknownNameError(
            f"`{self.path}` holds {len(fits)} compiled programs{called}: {_listed(fits)}; "
            f"name one, as in `{self.path}#{example}`"
        )


class DumpedModule:
    """One compiled module of a dump folder, with the facts in its files.

    Attributes:
        label: The beginning of the names of its files: `module_0001.jit_f`.
        name: The module's name: `jit_f`.
        number: The number in the file names.
        program: Path of its HLO after optimizations.
        folder: The folder.
    """

    def __init__(
        self,
        folder: Path,
        label: str,
        number: int,
        program: str,
        files: Sequence[str],
        *,
        shares_name: bool = False,
    ) -> None:
        """Create a module from the names of a folder's files. Those with its label are its own.

        Args:
            folder: The folder.
            label: The beginning of the names of the module's files.
            number: The module's number.
            program: Name of the file of its HLO after optimizations.
            files: Names of all files of the folder.
            shares_name: Does another module of the folder have the same name?  A file with only the
                module's name may then belong to either.
        """
        self.label: Final = label
        self.number: Final = number
        self.name: Final = label.partition(".")[2]
        self.folder: Final = folder
        self.program: Final = folder / program
        self._every_file: Final = files
        self._shares_name: Final = shares_name
        self._triton: Final[dict[str, TritonKernel]] = {}
        """The kernels that were parsed already, by name."""

    # Each query about the module looks for a file in it.
    @cached_property
    def _files(self) -> frozenset[str]:
        """Return the names of the module's files: they begin with its label or its name."""
        own = f"{self.label}.", f"{self.name}."
        return frozenset([name for name in self._every_file if name.startswith(own)])

    @property
    def names(self) -> frozenset[str]:
        """Return the names that select the module: its number, its name, and both together."""
        return frozenset([str(self.number), f"{self.number:04}", self.name, self.label])

    @property
    def size(self) -> int:
        """Return the bytes of the optimized HLO; 0 if the file was deleted."""
        try:
            return self.program.stat().st_size
        except OSError:  # the file was deleted meanwhile
            return 0

    # Read from disk; each query about the folder's kernels compares the device with it.
    @cached_property
    def target(self) -> DumpTarget | None:
        """Return the GPU that the module was compiled for; `None` if no file states it.

        Raises:
            InputError: The file cannot be read.
        """
        text = self._text("gpu_target_config.pbtxt")
        if text is None:
            return None
        stated = {name: int(value) for name, value in reversed(_FIGURE.findall(text.text))}
        title = _TITLE.search(text.text)
        return DumpTarget(
            "" if title is None else title[1],
            stated.get("core_count", 0),
            stated.get("threads_per_warp", 0),
            stated.get("memory_bandwidth", 0) / 1e9,
        )

    # ------------------------------------------------------------------------------- launches

    # Read from disk; each query about a kernel's launch searches it.
    @cached_property
    def thunks(self) -> tuple[Thunk, ...] | None:
        """Return the thunk sequence, nested thunks after their parents; `None` if no file has it.

        Raises:
            InputError: The file cannot be read.
            ParseError: The file is damaged or cut.
        """
        sequence = self._text("thunk_sequence.txt")
        if sequence is None:
            return None
        names = self._text("thunk_metadata.txt")
        return parse_thunks(sequence, {} if names is None else parse_thunk_names(names))

    def launches(self, name: str) -> tuple[Thunk, ...]:
        """Return the kernel launches of an HLO instruction or kernel; empty if none is stated.

        An instruction may launch several kernels (`sort`), and equal instructions share one.

        Args:
            name: Name of the instruction (`loop_add_fusion.1`) or kernel (`loop_add_fusion_1`).

        Raises:
            ParseError: The thunk sequence is damaged or cut.
        """
        kernels = [thunk for thunk in self.thunks or () if thunk.is_kernel]
        by_instruction = [thunk for thunk in kernels if thunk.instruction == name]
        kernel = kernel_name(name)
        return tuple(by_instruction or [thunk for thunk in kernels if thunk.kernel == kernel])

    def launch(self, name: str) -> Thunk | None:
        """Return the launch of an HLO instruction or kernel.

        `None` if the folder states none, or if it states different ones.

        Raises:
            ParseError: The thunk sequence is damaged or cut.
        """
        found = self.launches(name)
        same = {(thunk.kernel, thunk.blocks, thunk.threads, thunk.shared_bytes) for thunk in found}
        return found[0] if len(same) == 1 else None

    # ------------------------------------------------------------------------------------ PTX

    # Reads the head of every PTX file; each query about a kernel needs it.
    @cached_property
    def ptx_files(self) -> Mapping[str, Path]:
        """Return the PTX file of each kernel, by the kernel's name.

        Raises:
            InputError: A file cannot be read.
        """
        found: dict[str, Path] = {}
        for name in sorted(self._files):
            if name.startswith(f"{self.label}.") and name.endswith(".ptx"):
                path = self.folder / name
                for entry in _ENTRY.findall(_bytes(path, _HEAD)):
                    found.setdefault(entry.decode(), path)
        return found

    def ptx(self, name: str) -> Path | None:
        """Return the PTX file of an HLO instruction or kernel; `None` if the folder has none.

        Raises:
            InputError: A file cannot be read.
            ParseError: The thunk sequence is damaged or cut.
        """
        launch = self.launch(name)
        return self.ptx_files.get(kernel_name(name) if launch is None else launch.kernel)

    def shared_bytes(self, name: str) -> int | None:
        """Return the shared memory of a block, in bytes: dynamic memory and static PTX arrays.

        `None` if the folder lacks the launch or the PTX.

        Args:
            name: Name of an HLO instruction or kernel.

        Raises:
            InputError: The PTX file cannot be read.
            ParseError: The thunk sequence is damaged or cut.
        """
        launch, ptx = self.launch(name), self.ptx(name)
        if launch is None or ptx is None:
            return None
        arrays = _SHARED_ARRAY.findall(read_text(ptx).text)
        return launch.shared_bytes + sum([int(size) for size in arrays])

    # --------------------------------------------------------------------------------- Triton

    def triton(self, name: str) -> TritonKernel | None:
        """Return the loads and stores of a Triton kernel; `None` if the folder lacks them.

        The file is `MODULE.KERNEL.triton-to-llvm.txt`, which `--xla_dump_emitter_re=.*` writes.

        Args:
            name: Name of the HLO instruction or of the kernel.

        Raises:
            InputError: The file cannot be read.
            ParseError: The file is damaged or cut.
            UnsupportedError: Several modules of the folder have the same name, so that the file
                may belong to either.
        """
        launch = self.launch(name)
        kernel = kernel_name(name) if launch is None else launch.kernel
        file = f"{self.name}.{kernel}.triton-to-llvm.txt"
        if file not in self._files:
            return None
        if self._shares_name:
            what = f"several modules of the folder are called `{self.name}`"
            raise UnsupportedError(f"{what}: it is not known whose kernel `{file}` states")
        if kernel not in self._triton:
            self._triton[kernel] = triton_code.parse_triton(read_text(self.folder / file))
        return self._triton[kernel]

    def tiles(self, instruction: str) -> tuple[ProgramTile, ...] | None:
        """Return the tiles that a Triton fusion reads and writes, in program order.

        `None` if the folder does not have them.

        Args:
            instruction: Name of the fusion.

        Raises:
            InputError: The file cannot be read.
            ParseError: The file is damaged or cut.
        """
        text = self._text(f"{instruction}.ttir.txt")
        return None if text is None else triton_code.parse_tiles(text)

    # --------------------------------------------------------------------------------- memory

    # Read from disk; each operand and output of a kernel is looked up in it.
    @cached_property
    def buffers(self) -> Buffers | None:
        """Return the buffer assignment; `None` if no file has it.

        Raises:
            InputError: The file cannot be read.
            ParseError: The file is damaged or cut.
        """
        stem = self.program.name.removesuffix(".txt").removeprefix(f"{self.label}.")
        assignment = self._text(f"{stem}-buffer-assignment.txt")
        if assignment is None:
            return None
        return parse_buffers(assignment, self._text(f"{stem}-buffer-assignment-values.txt"))

    def _text(self, end: str) -> Source | None:
        """Return the text of the module's file `LABEL.end`; `None` if there is no such file."""
        name = f"{self.label}.{end}"
        return read_text(self.folder / name) if name in self._files else None

    def __repr__(self) -> str:
        return f"<{self.label} in {self.folder}>"


_OUTSIDE: Final = pattern(r"[^A-Za-z0-9_$]")


def kernel_name(instruction: str) -> str:
    """Return the name of the kernel that XLA emits for an instruction.

    Source: XLA `llvm_util.cc` SanitizeFunctionName.

    >>> kernel_name("loop_add_fusion.3"), kernel_name("2d-fusion")
    ('loop_add_fusion_3', '_2d_fusion')
    """
    name = _OUTSIDE.sub("_", instruction)
    return f"_{name}" if name[:1].isdecimal() else name


def read_text(path: Path) -> Source:
    """Return the text of a file of a dump folder.

    Raises:
        InputError: The file cannot be read, is too large, or is not UTF-8.
    """
    data = _bytes(path, MOST_INPUT + 1)
    if len(data) > MOST_INPUT:
        raise InputError(f"`{path}` has more than {MOST_INPUT >> 20} MiB")
    try:
        return Source(str(path), data.decode().replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        raise InputError(f"`{path}` is not UTF-8: see byte {error.start}") from None


def _bytes(path: Path, most: int) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(most)
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror or error}") from None


def _listed(modules: Iterable[DumpedModule]) -> str:
    """Return a text with the names of the largest modules, and the sizes of their HLO."""
    every = sorted(modules, key=lambda m: -m.size)
    some = ", ".join([f"{m.label} ({m.size:,} bytes)" for m in every[:MOST_LISTED]])
    return f"{some} and {len(every) - MOST_LISTED} more" if len(every) > MOST_LISTED else some
