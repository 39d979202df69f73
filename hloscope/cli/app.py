"""The group of commands: its members, and the messages and exit codes of all of them.

Results go to the standard output, everything else to the standard error.  Exit codes: 0 success,
1 a check failed, 2 usage, 3 the input does not parse or verify, 4 undecided or not supported, 5 a
defect of hloscope; 130 after an interrupt and 141 after a broken pipe, as in shells (`EXIT_CODES`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import click

from hloscope import __version__
from hloscope.cli.colour import colour_option, print_message, print_styled
from hloscope.cli.commands import COMMANDS, GROUPS, first_screen
from hloscope.cli.common import DEBUG, HELP, REFUSALS, Context, debug_option
from hloscope.cli.interrupts import INTERRUPTED, SAID, Raising
from hloscope.cli.streams import UNWRITABLE, OutputError, discard, finish
from hloscope.errors import HloscopeError, did_you_mean
from hloscope.lazy import lazy

USAGE, OUR_BUG, NO_READER = 2, 5, 141
ANSWERS: Final = frozenset({0, 1})
"""Exit codes of commands that have printed a complete result, of a failed check too."""


class App(click.Group):
    """The group of commands: it loads a command when it is used, and prints errors as messages."""

    context_class = Context

    def get_help_option(self, ctx: click.Context) -> click.Option:
        """Return `HELP`."""
        return HELP

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all commands, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load the module of a command, and return the command."""
        if cmd_name not in COMMANDS:
            return None
        module = COMMANDS[cmd_name].module
        command: click.Command = getattr(lazy(f"hloscope.cli.{module}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no command `{args[0]}`{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in their groups in `--help`, in aligned columns; loads none."""
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), one.about) for name, one in group.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; each way to end has its message and exit code."""
        try:
            with Raising():
                result = _finished(lambda: super(App, self).invoke(ctx))
        # The order of the handlers matters: click's errors carry their own exit codes, and an
        # interrupt or a closed pipe can surface inside any other error.
        except click.BadParameter as error:
            raise _with_help(error) from None
        except (click.ClickException, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            end(ctx, SAID, INTERRUPTED)
        except BrokenPipeError:
            _drop_output()
            ctx.exit(NO_READER)
        except HloscopeError as error:
            end(ctx, str(error), error.exit_code)
        except Exception as error:  # every other error is a defect of hloscope
            if _is_interrupted(error):
                end(ctx, SAID, INTERRUPTED)
            if isinstance(error, OSError) and error.errno in UNWRITABLE and not error.filename:
                _drop_output()
                message = f"error: cannot write the standard output: {error.strerror}"
                end(ctx, message, OutputError.exit_code)
            _refuse(ctx)
            if ctx.meta.get(DEBUG):
                raise
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            end(ctx, f"internal error: {what}\nrun again with --debug to see where", OUR_BUG)
        return result


def _with_help(error: click.BadParameter) -> click.BadParameter:
    """Return the error about an option's value, with the option's help added."""
    if not isinstance(error.param, click.Option) or error.ctx is None:
        return error
    record = error.param.get_help_record(error.ctx)
    if record is None or isinstance(error, click.MissingParameter):
        return error
    told = f"{error.message}\n  {record[0]}  {record[1]}"
    return click.BadParameter(told, error.ctx, error.param, error.param_hint)


def _finished(run: Callable[[], Any]) -> Any:
    """Run a command, flush the standard output, and return the command's result."""
    try:
        result = run()
    except click.exceptions.Exit as ended:
        if ended.exit_code in ANSWERS:
            finish()
        raise
    finish()
    return result


def _refuse(ctx: click.Context) -> None:
    """If a program that was read is invalid, end with its first violation."""
    try:
        for refuse in ctx.meta.get(REFUSALS, ()):
            refuse()
    except HloscopeError as error:
        end(ctx, str(error), error.exit_code)
    except Exception:  # the first error says more
        return


def end(ctx: click.Context, message: str, code: int) -> None:
    """Print the message on the standard error, and end with the exit code."""
    print_message(message)
    ctx.exit(code)


def _is_interrupted(error: BaseException | None) -> bool:
    """Did an interrupt cause this error? Python wraps one that comes while a class is created."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _drop_output() -> None:
    """Discard unwritten output: its reader (such as `head`) has ended, or the disk is full."""
    if sys.stdout is not None:
        discard(sys.stdout)


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"hloscope {__version__}", color=ctx.color)
        ctx.exit()


@click.group(
    cls=App,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
    help="Show the version and exit.",
)  # fmt: skip
@debug_option
@click.pass_context
def app(ctx: click.Context) -> None:
    """Answer questions about compiled tensor programs, from their text.

    FILE is HLO text, StableHLO text, a portable artifact, or a dump folder of XLA; `-` is the
    standard input.  Without COMMAND, hloscope prints common questions and the commands for them.
    """
    if ctx.invoked_subcommand is None:
        print_styled(first_screen())


app.params.append(colour_option())
