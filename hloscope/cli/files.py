"""Read the program that FILE names."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from hloscope.api import FilePath, Invalid, Program, check, check_text, read, read_source
from hloscope.cli.common import REFUSALS
from hloscope.cli.stdin import STDIN, read_stdin
from hloscope.errors import VerifyError
from hloscope.lazy import lazy
from hloscope.source import Source

if TYPE_CHECKING:
    import glob
else:
    glob = lazy("glob")


def read_program(file: str) -> Program:
    """Read the program in a file, or in the standard input for `-`.

    Raises:
        InputError: There is no such file, or it holds no text.
        ParseError: The text is not HLO.
    """
    program = read(read_stdin(), name=STDIN) if file == "-" else read(FilePath(file))
    _refuses(partial(check, program.module))
    return program


def _refuses(refuse: Callable[[], None]) -> None:
    """Register a check to run if the command fails with an unexpected exception."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        ctx.meta.setdefault(REFUSALS, []).append(refuse)


def read_verified_program(file: str) -> Program:
    """Read and verify a program, for commands whose results hold for valid programs only.

    Raises:
        InputError: There is no such file, or it holds no text.
        ParseError: The text is not HLO.
        VerifyError: The program is wrong.
    """
    program = read_program(file)
    check(program.module)
    return program


def read_with_findings(file: str) -> tuple[Program, Invalid]:
    """Read a program and verify it; the findings are printed.

    For commands that answer the valid instructions of an invalid program; they call
    `end_if_invalid` at their end.

    Raises:
        InputError: There is no such file, or it holds no text.
        ParseError: The text is not HLO.
        VerifyError: A finding is about the module, not about one instruction.
    """
    program = read_program(file)
    return program, print_findings(program)


def print_findings(program: Program) -> Invalid:
    """Verify a program and print its findings.

    Raises:
        VerifyError: A finding is about the module, not about one instruction.
    """
    invalid = Invalid(program.module)
    for found in invalid.findings:
        click.echo(str(found), err=True)
    return invalid


def end_if_invalid(invalid: Invalid | None) -> None:
    """End with the exit code of invalid programs if there are findings."""
    if invalid is not None and invalid.findings:
        click.get_current_context().exit(VerifyError.exit_code)


def read_text(file: str) -> Source:
    """Read the text of the program in a file, or in the standard input for `-`.

    Raises:
        InputError: There is no such file, or it holds no text.
    """
    source = read_source(read_stdin(), name=STDIN) if file == "-" else read_source(FilePath(file))
    _refuses(partial(check_text, source))
    return source


def is_folder(name: str) -> bool:
    """Does the argument name several files: a directory, a pattern, or a URL?"""
    if os.path.exists(name):
        return os.path.isdir(name)
    return "://" in name or glob.has_magic(name)


def is_file(name: str) -> bool:
    """Does the argument name a file or several files?"""
    return name == "-" or os.path.lexists(name) or is_folder(name)
