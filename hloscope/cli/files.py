"""Read the program that FILE names, and complete the names in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

from hloscope.api import (
    FilePath,
    Invalid,
    Module,
    Program,
    check,
    check_text,
    findings,
    modules_of,
    read,
    read_source,
)
from hloscope.cli.printing import REFUSALS
from hloscope.cli.streams import STDIN, read_stdin
from hloscope.errors import HloscopeError, VerifyError
from hloscope.support.lazy import lazy
from hloscope.support.source import Source

if TYPE_CHECKING:
    import glob

    from click import shell_completion
else:
    glob = lazy("glob")
    shell_completion = lazy("click.shell_completion")


# --------------------------------------------------------------------------------------------------
# Read the program that FILE names.


def read_program(file: str) -> Program:
    """Read the program in a file, or in the standard input for `-`.

    Raises:
        InputError: There is no such file, or it holds no text.
        ParseError: The text is neither HLO nor StableHLO.
    """
    program = read(read_stdin(), name=STDIN) if file == "-" else read(FilePath(file))
    _refuses(partial(check, program.module))
    return program


def _refuses(refuse: Callable[[], None]) -> None:
    """Register a check to run if the command fails with an unexpected exception.

    `refuse` raises an error if a program that was read is invalid.
    """
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        ctx.meta.setdefault(REFUSALS, []).append(refuse)


def read_verified_program(file: str) -> Program:
    """Read and verify a program, for commands whose results hold for valid programs only.

    Raises:
        InputError: There is no such file, or it holds no text.
        ParseError: The text is neither HLO nor StableHLO.
        VerifyError: The program is invalid.
    """
    program = read_program(file)
    check(program.module)
    return program


def read_with_findings(file: str) -> tuple[Program, Invalid]:
    """Read and verify a program; print the findings, and return both.

    Commands that give results for the valid instructions of an invalid program use this; they call
    `end_if_invalid` at their end.

    Raises:
        InputError: There is no such file, or it holds no text.
        ParseError: The text is neither HLO nor StableHLO.
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
    """End with the exit code of invalid programs if there are findings; `None` means none."""
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


# --------------------------------------------------------------------------------------------------
# Reading of the programs in a text; an invalid one ends the command.


def verified_modules_of(source: Source, *, split: bool) -> Iterator[Module]:
    """Yield the programs of a text, verified; an invalid one ends the command with its findings.

    Results computed from an invalid program have no meaning. With `split`, the programs are
    separated by `// -----`.
    """
    for module in modules_of(source, split=split):
        wrong = findings(module)
        for diagnostic in wrong:
            click.echo(str(diagnostic), err=True)
        if wrong:
            click.get_current_context().exit(VerifyError.exit_code)
        yield module


# --------------------------------------------------------------------------------------------------
# Shell completion of instruction and computation names of the command's FILE.


def complete_instructions(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[shell_completion.CompletionItem]:
    """Return completions: instructions that start with `incomplete`.

    They are those of the FILE on the command line of `ctx`. Computations are completed too, before
    a slash.
    """
    return _complete(ctx, incomplete, _instructions)


def complete_computations(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[shell_completion.CompletionItem]:
    """Return completions: computations that start with `incomplete`.

    They are those of the FILE on the command line of `ctx`.
    """
    return _complete(ctx, incomplete, lambda program, _: program.module.computations)


def complete_places(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[shell_completion.CompletionItem]:
    """Return completions of `incomplete`: files, or after `FILE:` the instructions in the file."""
    file, colon, name = incomplete.rpartition(":")
    if not colon:
        return [shell_completion.CompletionItem(incomplete, type="file")]
    names = _names(file, name, _instructions)
    return [shell_completion.CompletionItem(f"{file}:{one}") for one in names]


def _complete(
    ctx: click.Context, incomplete: str, names: Callable[[Program, str], Iterable[str]]
) -> list[shell_completion.CompletionItem]:
    found = _names(ctx.params.get("file"), incomplete, names)
    return [shell_completion.CompletionItem(name) for name in found]


def _names(
    file: str | None, begin: str, names: Callable[[Program, str], Iterable[str]]
) -> list[str]:
    """Return the names in a file that start with `begin`; empty if the file cannot be read.

    `names` returns the names of a program that start with a text.
    """
    if not file or file == "-":
        return []
    try:
        found = names(read_program(file), begin)
    except HloscopeError:
        return []
    return [name for name in dict.fromkeys(found) if name.startswith(begin)]


def _instructions(program: Program, begin: str) -> list[str]:
    module = program.module
    computation, slash, _ = begin.partition("/")
    if slash and computation in module.computations:
        return [f"{computation}/{ins.name}" for ins in module.computations[computation]]
    return [ins.name for one in (module.entry, *module) for ins in one]
