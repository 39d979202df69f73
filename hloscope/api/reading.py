"""Programs from files, texts and other libraries' objects."""

from __future__ import annotations

from hloscope.api.program import Program
from hloscope.api.sources import Readable, read_module


def read(source: Readable, *, name: str | None = None, strict: bool = False) -> Program:
    """Read a program.

    Args:
        source: A path; HLO or StableHLO text as `str` or `bytes`; bytes of an HLO proto, a
            portable artifact, MLIR bytecode or what `jax.export` wrote; an open file; the
            result of `jax.jit(f).lower(...)` or of `.compile()` after it; an XPlane profile,
            `p.xplane.pb`, or one of several programs in it, `p.xplane.pb#jit_f`; or a folder that
            `--xla_dump_to` wrote, `DIR`, or one of several modules in it, `DIR#jit_f`: the
            program is the HLO after optimizations, and answers about kernels use what the other
            files of the folder state.
        name: What error messages call the program; a path is its own name.
        strict: Read every part now.  By default parts are read when something asks for them, and
            errors in them show then.

    Raises:
        InputError: The file is missing, a directory, empty, or not text.
        ParseError: The text is neither HLO nor StableHLO; the message points at the place.
        UnknownNameError: The folder holds several modules, or none of that name.
        UnsupportedError: It has something that is not read yet.

    >>> read("ENTRY e { ROOT p = f32[2] parameter(0) }").root
    <p = f32[2] parameter(0)>
    """
    return Program.of_module(read_module(source, name=name, strict=strict))
