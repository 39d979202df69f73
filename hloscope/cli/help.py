"""The commands `help`, `ops` and `schema`: what hloscope itself can do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from hloscope import __version__
from hloscope.api import coverage, schema as schema_of, schema_names
from hloscope.cli.printing import command, debug_option, json_option, print_json, print_table
from hloscope.cli.streams import print_styled
from hloscope.display import Table, coverage_json, coverage_summary, coverage_table
from hloscope.errors import did_you_mean

# --------------------------------------------------------------------------------------------------
# `help`: the arguments and options of the commands, as text, JSON, or a manual page.


# --------------------------------------------------------------------------------------------------
# `help`: the arguments and options of the commands, as text, JSON, or a manual page.


SCHEMA: Final = "hloscope.help/1"


def _complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    group = ctx.parent and ctx.parent.command
    names = group.list_commands(ctx) if isinstance(group, click.Group) else []
    return [name for name in names if name.startswith(incomplete)]


@command("help")
@click.argument("name", metavar="[COMMAND]", required=False, shell_complete=_complete)
@click.option("--man", is_flag=True, help="Print the manual page, for man -l -.")
@json_option
@debug_option
@click.pass_context
def help(ctx: click.Context, name: str | None, man: bool, as_json: bool) -> None:
    """Explain COMMAND; without it, list the commands.

    With --json, print commands with their arguments and options, exit codes, and the schemas of
    JSON output, as a reference for programs and assistants.
    """
    if man and as_json:
        raise click.UsageError("--man and --json are two forms")
    top = ctx.parent or ctx
    group = top.command
    assert isinstance(group, click.Group)
    names = group.list_commands(top)
    if name is not None and name not in names:
        raise click.UsageError(f"no command `{name}`{did_you_mean(name, names)}")
    commands = dict(_commands(group, top, names if name is None else [name]))
    if man:
        click.echo(manual(top, commands), nl=False)
    elif as_json:
        print_json(reference(group, commands))
    elif name is None:
        print_styled(top.get_help())
    else:
        print_styled(commands[name].get_help())


def _commands(
    group: click.Group, top: click.Context, names: list[str]
) -> Iterator[tuple[str, click.Context]]:
    for name in names:
        found = group.get_command(top, name)
        assert found is not None
        yield name, found.context_class(found, parent=top, info_name=name)


def reference(group: click.Group, commands: dict[str, click.Context]) -> dict[str, Any]:
    """Describe the commands as an object of schema `hloscope.help/1`.

    Args:
        group: The group of all commands.
        commands: The commands to describe: for each name, the context that click parses it in.
    """
    schemas = [schema_of(name) for name in schema_names()]
    used = {name: [s["title"] for s in schemas if _prints(name, s)] for name in commands}
    titles = {title for of_one in used.values() for title in of_one}
    return {
        "schema": SCHEMA,
        "program": "hloscope",
        "version": __version__,
        "about": _text(group.help),
        "exit_codes": [{"code": code, "meaning": said} for code, said in EXIT_CODES.items()],
        "commands": [_described(name, ctx, used[name]) for name, ctx in commands.items()],
        "schemas": {s["title"]: s["description"] for s in schemas if s["title"] in titles},
    }


def _prints(command: str, one: dict[str, Any]) -> bool:
    """Does the description in a schema say that `command` prints it?

    `one` is the schema.
    """
    return re.match(rf"`hloscope {command}\b", one["description"]) is not None


def _described(name: str, ctx: click.Context, schemas: list[str]) -> dict[str, Any]:
    """Return a command as JSON: usage, arguments and options.

    Args:
        name: Name of the command.
        ctx: The context that click parses it in.
        schemas: Titles of the schemas of its JSON output.
    """
    command = ctx.command
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = [p for p in command.params if isinstance(p, click.Option)]
    return {
        "name": name,
        "about": _text(command.help),
        "usage": command.get_usage(ctx).removeprefix("Usage: "),
        "arguments": [
            {
                "name": argument.make_metavar(ctx).strip("[]."),
                "required": argument.required,
                "several": argument.nargs != 1,
            }
            for argument in arguments
        ],
        "options": [_option(option, ctx) for option in options if not option.hidden],
        "schemas": schemas,
    }


def _option(option: click.Option, ctx: click.Context) -> dict[str, Any]:
    kind = option.type
    default = option.get_default(ctx)
    plain = isinstance(default, str | int | float | bool)
    return {
        "names": [*option.opts, *option.secondary_opts],
        "help": option.help or "",
        **({} if option.is_flag else {"value": option.make_metavar(ctx)}),
        **({"choices": list(kind.choices)} if isinstance(kind, click.Choice) else {}),
        **({"default": default} if plain and not option.is_flag else {}),
        **({"several": True} if option.multiple else {}),
        **({"required": True} if option.required else {}),
    }


def _text(text: str | None) -> str:
    """Return a help text with each paragraph on one line."""
    paragraphs = (text or "").split("\n\n")
    return "\n\n".join([" ".join(one.split()) for one in paragraphs])


# --------------------------------------------------------------------------------------------------
# The manual page, `man hloscope`.
#
# Source: man-pages(7), man(7): the sections of a page and the macros of roff.


def manual(top: click.Context, commands: Mapping[str, click.Context]) -> str:
    """Return the manual page in roff.

    It has no date, so that it changes only if the commands do.

    Args:
        top: The context of the group of commands.
        commands: The context of each command, by name.
    """
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
    """Return a text with roff's special characters escaped."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{text}" if text.startswith((".", "'")) else text


# --------------------------------------------------------------------------------------------------
# The exit codes and what they mean.


EXIT_CODES: Final = {
    0: "fine",
    1: "a check failed",
    2: "usage: an unknown command, option, instruction",
    3: "the input cannot be read, does not parse or does not verify",
    4: "undecided, or valid input that is not supported yet",
    5: "our own bug; --debug shows where",
    130: "interrupted",
    141: "the reader of the output went away",
}
"""Exit codes with their meaning, for `help`, the manual page and the documentation."""


# --------------------------------------------------------------------------------------------------
# `ops`: coverage by the indexing rules, the tile rules and the interpreter.


OPS_SCHEMA: Final = "hloscope.ops/1"


@command()
@json_option
@debug_option
def ops(as_json: bool) -> None:
    """List every op, and whether its maps are exact, too large (over) or unknown, and why.

    The table also says whether tiles are propagated through the op and whether `run` evaluates it.
    """
    rows = coverage()
    if as_json:
        print_json({"schema": OPS_SCHEMA, "ops": list(map(coverage_json, rows))})
        return
    print_table(coverage_table(rows))
    click.echo()
    for line in coverage_summary(rows):
        click.echo(line)


# --------------------------------------------------------------------------------------------------
# `schema`: the JSON Schemas of the commands' output.


def _complete_schema(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in schema_names() if name.startswith(incomplete)]


@command()
@click.argument("name", required=False, shell_complete=_complete_schema)
@debug_option
def schema(name: str | None) -> None:
    """Print the JSON Schema (draft 2020-12) of the output of --json under NAME, or list all.

    NAME is a command, such as `index`, or a schema of one version, such as `hloscope.index/3`.
    """
    if name is not None:
        print_json(schema_of(name))
        return
    every = list(map(schema_of, schema_names()))
    rows = [(one["title"], one["description"]) for one in every]
    print_table(Table(("schema", "of"), rows))
