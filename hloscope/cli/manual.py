"""The manual page, `man hloscope`.

Source: man-pages(7), man(7): the sections of a page and the macros of roff.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from hloscope import __version__
from hloscope.cli.exits import EXIT_CODES


def manual(top: click.Context, commands: Mapping[str, click.Context]) -> str:
    """The manual page in roff; without a date, so that it changes only if the commands do."""
    return "\n".join(_lines(top, commands)) + "\n"


def _lines(top: click.Context, commands: Mapping[str, click.Context]) -> Iterator[str]:
    about = (top.command.help or "").partition("\n\n")[0].rstrip(".")
    yield f'.TH HLOSCOPE 1 "" "hloscope {_plain(__version__)}" "User Commands"'
    yield ".SH NAME"
    yield f"hloscope \\- {_plain(about[:1].lower() + about[1:])}"
    yield ".SH SYNOPSIS"
    yield "\\fBhloscope\\fR [\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGS\\fR]..."
    yield ".SH DESCRIPTION"
    yield from _paragraphs(top.command.help)
    yield ".SH OPTIONS"
    yield from _options(top)
    yield ".SH COMMANDS"
    for ctx in commands.values():
        usage = ctx.command.get_usage(ctx).removeprefix("Usage: ")
        yield f".SS {_plain(' '.join(usage.split()))}"
        yield from _paragraphs(ctx.command.help)
        yield from _options(ctx)
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES.items():
        yield from (".TP", f"\\fB{code}\\fR", _plain(meaning))


def _options(ctx: click.Context) -> Iterator[str]:
    for param in ctx.command.get_params(ctx):
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        if record is not None:
            names, text = record
            yield from (".TP", f"\\fB{_plain(names)}\\fR", _plain(text))


def _paragraphs(text: str | None) -> Iterator[str]:
    for number, paragraph in enumerate((text or "").split("\n\n")):
        if number:
            yield ".PP"
        yield _plain(" ".join(paragraph.split()))


def _plain(text: str) -> str:
    """A text with roff's special characters escaped."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{text}" if text.startswith((".", "'")) else text
