"""Shell completion of instruction and computation names of the command's FILE."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from hloscope.api import Program
from hloscope.cli.files import read_program
from hloscope.errors import HloscopeError
from hloscope.lazy import lazy

if TYPE_CHECKING:
    from click import shell_completion
else:
    shell_completion = lazy("click.shell_completion")


def complete_instructions(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[shell_completion.CompletionItem]:
    """Instructions of FILE that start with the given text, and computations before a slash."""
    return _complete(ctx, incomplete, _instructions)


def complete_computations(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[shell_completion.CompletionItem]:
    """Computations of FILE that start with the given text."""
    return _complete(ctx, incomplete, lambda program, _: program.module.computations)


def complete_places(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[shell_completion.CompletionItem]:
    """Files, or after `FILE:` the instructions in the file."""
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
    """Names in the file that start with `begin`; empty if the file cannot be read."""
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
