"""The commands `opt` and `refine`: programs changed by passes, or by given sizes."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

import click

from hloscope.api import (
    FOLD_BYTES,
    FOLD_ELEMENTS,
    FOLD_STEPS,
    CommandLine,
    Passed,
    Program,
    dims_of,
    explain_dynamic,
    is_upstreams,
    joined,
    parametric,
    parse_command_line,
    refined,
    run_passes,
    split_types,
    text_of,
    text_of_tree,
    verified_tree,
)
from hloscope.cli.files import read_text, verified_modules_of
from hloscope.cli.options import limit_option
from hloscope.cli.printing import (
    Command,
    command,
    debug_option,
    file_argument,
    json_option,
    print_json,
)
from hloscope.display import (
    dynamic_json,
    dynamic_text,
    parametric_json,
    parametric_text,
    signature_text,
)
from hloscope.errors import UnknownNameError, VerifyError
from hloscope.support.source import Source

# --------------------------------------------------------------------------------------------------
# `opt`: a program after passes, with the pass names of `stablehlo-opt`.


_WORDS: Final = "hloscope.passes"
"""Key of `click.Context.meta`: the options that name passes, in order."""
UNEXPECTED: Final = 1
_ALL: Final = "all"


class _WithPasses(Command):
    """A command that also takes passes and switches in the spelling of `stablehlo-opt`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move the words that name passes to `ctx.meta`, in their order; parse the others.

        `args` are the words of the command line after the command's name.
        """
        # click would sort options by name and refuse those of `stablehlo-opt`, but the order of
        # passes matters: they are taken out before click parses.
        own: list[str] = []
        words: list[str] = []
        rest = iter(args)
        for word in rest:
            if word == "--":
                own += [word, *rest]
            elif word == "--pass":
                name = next(rest, None)
                if name is None:
                    ctx.fail("--pass needs the name of a pass")
                words.append(f"--{name}")
            elif word.startswith("--pass="):
                words.append(f"--{word.removeprefix('--pass=')}")
            elif is_upstreams(word):
                words.append(word)
            else:
                own.append(word)
        ctx.meta[_WORDS] = words
        return super().parse_args(ctx, own)


@command(cls=_WithPasses)
@file_argument
@click.option(
    "--pass",
    "passes",
    metavar="NAME[=OPTIONS]",
    multiple=True,
    help="A pass, such as `refine-arguments=types=tensor<4xf32>`; repeat it for several, in "
    "order.  Options of stablehlo-opt (--stablehlo-refine-shapes, --pass-pipeline=…) work"
    " too.",
)
@click.option(
    "--fold",
    "folds",
    is_flag=True,
    help="Evaluate what does not depend on arguments; remove dead code.",
)
@limit_option(
    "--max-elements", FOLD_ELEMENTS, "With --fold: limit of elements of a new constant.", least=0
)
@limit_option(
    "--max-bytes",
    FOLD_BYTES,
    "With --fold: limit of bytes of an intermediate array.",
    metavar="B",
    least=0,
)
@limit_option("--max-steps", FOLD_STEPS, "With --fold: limit of evaluated instructions.", least=0)
@click.option(
    "--split-input-file", is_flag=True, help="FILE is several programs, separated by // -----."
)
@click.option(
    "--verify-diagnostics",
    is_flag=True,
    help="Check that the messages of passes are those of `expected-error {{…}}` comments.",
)
@click.option("--statistics", is_flag=True, help="Print how often each pattern changed something.")
@click.option(
    "--print-after",
    metavar="NAME",
    multiple=True,
    help="Print the program on the standard error after this pass; `all`: after each.",
)
@click.option(
    "--verify-each/--no-verify-each",
    default=True,
    help="Verify the program after each pass; the default.",
)
@debug_option
@click.pass_context
def opt(
    ctx: click.Context,
    file: str,
    passes: tuple[str, ...],
    folds: bool,
    max_elements: int,
    max_bytes: int,
    max_steps: int,
    split_input_file: bool,
    verify_diagnostics: bool,
    statistics: bool,
    print_after: tuple[str, ...],
    verify_each: bool,
) -> None:
    """Run passes on the program of FILE, and print the result.

    HLO is translated to StableHLO first, unless --fold is given without passes.  The exit code is 3
    if FILE is invalid or a pass fails.
    """
    line = parse_command_line(ctx.meta[_WORDS])
    line.split |= split_input_file
    line.verify_diagnostics |= verify_diagnostics
    line.statistics |= statistics
    line.verify_each &= verify_each
    line.print_after_all |= _ALL in print_after
    line.print_after += [name for name in print_after if name != _ALL]
    limits = {"max_elements": max_elements, "max_bytes": max_bytes, "max_steps": max_steps}
    if not line.steps and not folds and not line.verify_diagnostics:
        raise click.UsageError("name a pass: --fold, or --pass NAME")
    source = read_text(file)
    texts: list[str] = []
    if not line.steps and not line.verify_diagnostics:
        texts = [
            Program(module).fold(**limits).text()
            for module in verified_modules_of(source, split=line.split)
        ]
    else:
        for passed in run_passes(source, line):
            program = _reported(ctx, passed, line)
            if program is None:
                continue
            if folds:
                texts.append(program.fold(**limits).text())
            else:
                texts.append(text_of(program.module.tree, line))  # type: ignore[attr-defined]
    click.echo(joined(texts), nl=False)


def _reported(ctx: click.Context, passed: Passed, line: CommandLine) -> Program | None:
    """Print dumps, messages and statistics of the passes, and return the program after them.

    Args:
        ctx: The context of the command, which ends if a pass failed.
        passed: The result of the passes.
        line: The command line, with its switches.
    """
    for name, text in passed.dumps:
        click.echo(f"// after {name}\n{text}", err=True, nl=False)
    for diagnostic in passed.diagnostics:
        click.echo(str(diagnostic), err=True)
    if line.statistics:
        for name, fired in passed.fired:
            click.echo(name, err=True)
            for pattern, count in sorted(fired.items(), key=lambda row: (-row[1], row[0])):
                click.echo(f"{count:8} {pattern}", err=True)
    if line.verify_diagnostics:
        if passed.diagnostics:
            ctx.exit(UNEXPECTED)
    elif passed.program is None:
        if not any(found.severity == "error" for found in passed.diagnostics):
            click.echo(f"error: {passed.failed} did not succeed", err=True)
        ctx.exit(VerifyError.exit_code)
    return passed.program


# --------------------------------------------------------------------------------------------------
# `refine`: a program of unknown sizes refined to given ones, and the reasons for unknown sizes.


SCHEMA: Final = "hloscope.refine/1"


@command()
@file_argument
@click.option(
    "--args",
    "arguments",
    metavar="TYPES",
    help="Types of all arguments, separated by commas; a whole number is the value of an "
    "argument that is a size, `_` keeps an argument's type.",
)
@click.option(
    "--dims",
    metavar="NAME=N,…",
    help="Sizes of the dimension variables of jax.export, instead of --args.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="For every value that stays dynamic, print where its size comes from.",
)
@click.option(
    "--maps",
    metavar="NAME",
    help="Print the indexing maps of an instruction (`*`: of all) with named sizes: the "
    "dimension variables of jax.export, or names in braces in --args.",
)
@click.option(
    "--no-assertions", is_flag=True, help="Do not check the program's assertions about sizes."
)
@json_option
@debug_option
def refine(
    file: str,
    arguments: str | None,
    dims: str | None,
    explain: bool,
    maps: str | None,
    no_assertions: bool,
    as_json: bool,
) -> None:
    """Print the program of FILE with its unknown sizes replaced by given ones.

    Programs of jax.export with symbolic sizes are refined as XLA does before it compiles them.
    FILE may be text, a portable artifact, or a file of jax.export.  The exit code is 3 if the sizes
    do not fit, or an assertion fails.
    """
    if arguments is not None and dims is not None:
        raise click.UsageError("give either --args or --dims")
    source = read_text(file)
    if maps is not None:
        if dims is not None or explain:
            raise click.UsageError("--maps is for sizes that are not given")
        print_maps(source, arguments, maps, as_json=as_json)
        return
    found = refined(
        verified_tree(source),
        arguments,
        dims=None if dims is None else dims_of(dims),
        assertions=not no_assertions,
    )
    for diagnostic in found.diagnostics:
        click.echo(str(diagnostic), err=True)
    dynamic = explain_dynamic(found.tree)
    if as_json:
        print_json(
            {
                "schema": SCHEMA,
                "file": source.name,
                "static": not dynamic,
                "signature": signature_text(found.tree),
                "dynamic": dynamic_json(dynamic),
                "text": text_of_tree(found.tree),
            }
        )
    elif explain:
        click.echo(dynamic_text(dynamic), nl=False)
    else:
        click.echo(text_of_tree(found.tree), nl=False)
        if dynamic:
            click.echo(f"values of unknown size: {len(dynamic)}; --explain tells why", err=True)


def print_maps(source: Source, arguments: str | None, name: str, *, as_json: bool) -> None:
    """Print the indexing maps of instructions in terms of named sizes.

    Args:
        source: The program.
        arguments: Types of the arguments, separated by commas; `None` means the program's own
            types.
        name: Glob pattern of the names of instructions.
        as_json: Whether to print JSON.

    Raises:
        UnknownNameError: No instruction that reads anything has such a name.
    """
    texts = None if arguments is None else split_types(arguments)
    found = [each for each in parametric(source, texts) if fnmatchcase(each.name, name)]
    if not found:
        raise UnknownNameError(f"no instruction `{name}` reads anything in the refined program")
    if as_json:
        print_json({"schema": SCHEMA, "file": source.name, "maps": parametric_json(found)})
    else:
        click.echo(parametric_text(found), nl=False)
