"""The group of commands: its members, its first screen, and messages and exit codes of all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import click

from hloscope import __version__
from hloscope.cli.interrupts import INTERRUPTED, SAID, Raising
from hloscope.cli.printing import DEBUG, HELP, REFUSALS, Context, debug_option
from hloscope.cli.streams import (
    UNWRITABLE,
    OutputError,
    colour_option,
    discard,
    finish,
    print_message,
    print_styled,
    styled_heading,
    styled_name,
)
from hloscope.errors import HloscopeError, did_you_mean
from hloscope.support.lazy import lazy

# --------------------------------------------------------------------------------------------------
# The group of commands: its members, and the messages and exit codes of all of them.
#
# Results go to the standard output, everything else to the standard error.  Exit codes: 0 success,
# 1 a check failed, 2 usage, 3 the input does not parse or verify, 4 undecided or not supported, 5 a
# defect of hloscope; 130 after an interrupt and 141 after a broken pipe, as in shells
# (`EXIT_CODES`).


USAGE, OUR_BUG, NO_READER = 2, 5, 141
ANSWERS: Final = frozenset({0, 1})
"""Exit codes of commands that have printed a complete result, even that of a failed check."""


class App(click.Group):
    """The group of commands: it loads a command when it is used, and prints errors as messages."""

    context_class = Context

    def get_help_option(self, ctx: click.Context) -> click.Option:
        """Return the option `--help`, the same for all commands."""
        return HELP

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load the module of a command and return the command; `None` for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = COMMANDS[cmd_name].module
        command: click.Command = getattr(lazy(f"hloscope.cli.{module}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name and command that the first argument names, and the other arguments.

        An unknown command ends the process with a usage error.
        """
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
        """Run the command; every kind of error ends the process with a message and an exit code."""
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
    """Run a command, flush the standard output, and return the result of `run`."""
    try:
        result = run()
    except click.exceptions.Exit as ended:
        if ended.exit_code in ANSWERS:
            finish()
        raise
    finish()
    return result


def _refuse(ctx: click.Context) -> None:
    """End with the first finding about an invalid program that was read, if there is one."""
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


# --------------------------------------------------------------------------------------------------
# The groups of commands in `--help`, and the questions of the first screen.
#
# `hloscope` alone prints `first_screen`; `hloscope --help` lists `GROUPS`.  Both come from the
# tables here and load no command.


class Entry(NamedTuple):
    """A command: its module in `hloscope.cli`, loaded when it is used, and its description."""

    module: str
    about: str


GROUPS: Final[dict[str, dict[str, Entry]]] = {
    "Look at a program": {
        "ls": Entry(
            "programs", "List instructions, fusions or computations, or the dumps of a folder."
        ),
        "show": Entry("programs", "Print an instruction, what it calls, and its neighbours."),
        "print": Entry("print", "Print a program as XLA or MLIR prints it."),
        "index": Entry("index", "Print which elements of its operands an instruction reads."),
        "html": Entry("html", "Write a page with a program's graph, cost, memory and maps."),
    },
    "Cost: time, memory, data movement": {
        "cost": Entry("cost", "List what takes a step's time, bytes and flops; read profiles."),
        "memory": Entry("cost", "List the buffers at the memory peak, and what lowers it."),
        "coalesce": Entry("kernels", "Count sectors that warps transfer; find uncoalesced access."),
        "footprint": Entry("cost", "Count the bytes that kernels must read and write."),
        "tile": Entry(
            "movement", "List tile sizes of a fusion, what they read, and the best ones."
        ),
        "cancel": Entry(
            "movement", "Find reshapes, transposes and copies that cancel or are free."
        ),
        "ptx": Entry("kernels", "Execute a kernel's PTX without a GPU and count its transfers."),
        "banks": Entry("kernels", "Find bank conflicts of accesses to shared memory."),
    },
    "Check a program": {
        "verify": Entry("check", "Check that programs are valid; print every violation."),
        "infer": Entry("check", "Print the result types of every op, inferred from its operands."),
        "run": Entry("run", "Run a program and print, check or compare its results."),
        "check": Entry("check", "Check programs by rules, for CI."),
    },
    "Change a program": {
        "opt": Entry("passes", "Run passes: StableHLO's by their names, or constant folding."),
        "refine": Entry("passes", "Replace unknown sizes of a program by given ones."),
    },
    "Compare two programs": {
        "diff": Entry("compare", "List what changed between two programs, by structure."),
        "equal": Entry("compare", "Prove that two programs or maps read the same; compare values."),
    },
    "Portable artifacts of StableHLO": {
        "serialize": Entry("serialize", "Write a program as an artifact of a StableHLO version."),
        "deserialize": Entry("artifacts", "Print the program of an artifact."),
        "doctor": Entry("artifacts", "Print which versions can read an artifact, and what blocks."),
    },
    "Many programs": {
        "scan": Entry("scan", "Write the facts of many programs into tables."),
        "query": Entry("scan", "Query the tables that scan wrote."),
    },
    "Indexing maps as text": {
        "simplify": Entry("maps", "Simplify an indexing map."),
        "compose": Entry("maps", "Compose two indexing maps."),
    },
    "About hloscope": {
        "ops": Entry("help", "List the supported ops, and how exact their maps are."),
        "schema": Entry("help", "Print the JSON Schema of what --json prints."),
        "help": Entry("help", "Explain a command; or all commands, as JSON or a manual page."),
    },
}
"""The commands under the headings of `--help`, in that order."""

COMMANDS: Final[dict[str, Entry]] = {
    name: entry for group in GROUPS.values() for name, entry in group.items()
}
"""All commands by name, in the order of `GROUPS`."""

QUESTIONS: Final[dict[str, dict[str, str]]] = {
    "Which part of a step is slow?": {
        "cost FILE": "kernels by their least time, bytes and source line",
        "coalesce FILE": "GPU accesses that transfer unused bytes, and why",
    },
    "What fills the memory?": {
        "memory FILE": "the buffers at the peak, and what lowers it",
    },
    "What changed? Is it still the same?": {
        "diff A B": "changed instructions, constants and types",
        "equal A B --values": "do both programs return the same values?",
    },
    "Which elements does an instruction read?": {
        "ls FILE": "the names of the instructions",
        "index FILE NAME": "an exact map from output to input indices",
    },
    "Is a program valid? What does it compute?": {
        "verify FILE": "every violation, with its line and rule",
        "run FILE --random 0": "the results for random arguments",
    },
    "Which versions of StableHLO can read an artifact?": {
        "doctor FILE": "the oldest version, and the ops that block older ones",
        "serialize FILE -o OUT": "an artifact for --target VERSION",
    },
}
"""The questions of the first screen; for each the commands that answer it, with what they print."""

ABOUT: Final = "hloscope answers questions about compiled tensor programs, from their text."
FILES: Final = "FILE is HLO or StableHLO text, an artifact, or a dump folder of XLA; - is stdin."


def first_screen() -> str:
    """Return the text of the first screen, with terminal styles."""
    width = max(len(words) for commands in QUESTIONS.values() for words in commands)
    lines = [ABOUT, FILES, ""]
    for question, commands in QUESTIONS.items():
        lines.append(styled_heading(question))
        for words, about in commands.items():
            lines.append(
                f"  {styled_name('hloscope ' + words)}{' ' * (width - len(words))}  {about}"
            )
    page, every, one = map(styled_name, ("html FILE -o page.html", "--help", "COMMAND --help"))
    lines += [
        "",
        f"hloscope {page} shows all of it in a browser.",
        f"hloscope {every} lists all commands, hloscope {one} explains one.",
    ]
    return "\n".join(lines)
