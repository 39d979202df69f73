"""The commands `ls` and `show`: what a program consists of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from hloscope.api import (
    SORTS,
    Program,
    Selection,
    computation_of,
    dumps_in,
    find_all,
    sort_key,
)
from hloscope.cli.files import (
    complete_computations,
    complete_instructions,
    read_program,
)
from hloscope.cli.printing import (
    command,
    debug_option,
    file_argument,
    json_option,
    print_json,
    print_table,
)
from hloscope.cli.streams import print_long
from hloscope.display import (
    Listing,
    branch_json,
    branches,
    computation_json,
    computation_text,
    dump_json,
    dumps_table,
    line_printer,
    listed_instructions,
    neighbourhood,
    neighbourhood_json,
    neighbourhood_text,
    tab_separated,
    tree_table,
)
from hloscope.errors import NoFunctionError, UnknownNameError

# --------------------------------------------------------------------------------------------------
# `ls`: the instructions, computations or modules of a program or directory.


SCHEMA: Final = "hloscope.ls/1"
TREE_SCHEMA: Final = "hloscope.tree/1"
DUMPS_SCHEMA: Final = "hloscope.dumps/1"
_COMMANDLINE: Final = click.core.ParameterSource.COMMANDLINE


@command()
@file_argument
@click.argument("computation", required=False, shell_complete=complete_computations)
@click.option("--fusions", is_flag=True, help="List the fusions of all computations.")
@click.option(
    "--all", "everything", is_flag=True, help="List the instructions of all computations."
)
@click.option("--tree", is_flag=True, help="List the computations as a tree of calls.")
@click.option("--opcode", metavar="GLOB", help="Only instructions with this opcode.")
@click.option("--name", metavar="GLOB", help="Only instructions with this name.")
@click.option(
    "--op-name", metavar="GLOB", help="Only those whose op_name, or a part of it, matches."
)
@click.option("--source", metavar="FILE[:LINE]", help="Only those of this source file or line.")
@click.option("--like", metavar="NAME", help="Only those from the same source line as NAME.")
@click.option("--shape", metavar="GLOB", help="Only those of this type, such as 'f32[8,*]'.")
@click.option("--calls", metavar="GLOB", help="Only those that call this computation.")
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    help="Sort by line, or by bytes, flops or users, largest first.",
)
@click.option("--top", metavar="N", type=click.IntRange(1), help="Only the first N.")
@click.option("--tsv", is_flag=True, help="Print tab-separated cells, not shortened.")
@json_option
@debug_option
def ls(
    file: str,
    computation: str | None,
    fusions: bool,
    everything: bool,
    tree: bool,
    opcode: str | None,
    name: str | None,
    op_name: str | None,
    source: str | None,
    like: str | None,
    shape: str | None,
    calls: str | None,
    sort: str | None,
    top: int | None,
    tsv: bool,
    as_json: bool,
) -> None:
    """List the instructions of FILE's entry computation, or of COMPUTATION.

    If FILE is a directory, such as one of --xla_dump_to, list its modules and their stages.

    --opcode, --name, --op-name, --source, --like, --shape and --calls search all computations,
    unless COMPUTATION is given.  In a GLOB, * matches any text and ? any character.
    """
    if like is not None and source is not None:
        raise click.UsageError("--like and --source both say where instructions come from")
    if tsv and as_json:
        raise click.UsageError("--tsv and --json are two forms")
    _refuse_ineffective_options(os.path.isdir(file), tree)
    if os.path.isdir(file):
        _print_dumps(Path(file), top, as_json=as_json, tsv=tsv)
        return
    program = _read(file, is_named=computation is not None or like is not None)
    if program is None:
        _print_none(file, tree=tree, as_json=as_json)
        return
    module, entry = program.module, program.module.entry
    if tree:
        _print_tree(program, computation, top, as_json=as_json)
        return
    if like is not None:
        source = _place_of(program[like].source, like)
    wanted = Selection(opcode, name, op_name, source, shape, calls)
    wide = fusions or everything or not wanted.is_empty
    if computation is not None:
        asked = [computation_of(module, computation)]
    else:
        asked = list(module) if wide else [entry]
    listed = list(wanted.of(module, asked, fusions=fusions))
    key = sort_key(sort, module) if sort else None
    if key is not None:
        listed.sort(key=lambda place: key(*place))
    listing = Listing(module, sort, key, fusions, in_column=wide)
    shown = listed[:top]
    if as_json:
        described = [listing.described(c, i) for c, i in shown]
        head = {"schema": SCHEMA, "file": file, "module": module.name, "entry": entry.name}
        print_json({**head, "instructions": described})
    elif not listed:
        what = "fusions" if fusions else "instructions"
        click.echo(f"no {what} {'' if wanted.is_empty else 'like that '}in {file}", err=True)
    else:
        table = listing.table(shown, full=tsv)
        if tsv:
            click.echo(tab_separated(table))
        else:
            print_table(table)


def _refuse_ineffective_options(is_folder: bool, tree: bool) -> None:
    """Raise `click.UsageError` for an option or argument that would have no effect.

    Args:
        is_folder: Is FILE a directory? Then `tsv`, `top` and `as_json` have an effect.
        tree: Is `--tree` given? Then `computation`, `top` and `as_json` have an effect.
    """
    if is_folder:
        listing, heeded = "a directory", {"tsv", "top"}
    elif tree:
        listing, heeded = "--tree", {"tree", "computation", "top"}
    else:
        return
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        is_given = context.get_parameter_source(name) is _COMMANDLINE
        if is_given and name not in heeded | {"file", "as_json", "debug"}:
            called = name.upper() if isinstance(parameter, click.Argument) else parameter.opts[0]
            raise click.UsageError(f"{called} is about instructions, {listing} lists none")


def _read(file: str, *, is_named: bool) -> Program | None:
    """Read the program in a file; `None` if it has no functions and `is_named` is false.

    `is_named` states whether the command names something in the program.
    """
    try:
        return read_program(file)
    except NoFunctionError:
        if is_named:
            raise
        return None


def _print_none(file: str, *, tree: bool, as_json: bool) -> None:
    """Print that nothing is listed, because the module in `file` has no function.

    With `as_json`, an object with empty lists is printed: that of `--tree` if `tree` is true.
    """
    if as_json and tree:
        print_json({"schema": TREE_SCHEMA, "file": file, "module": "", "computations": []})
    elif as_json:
        head = {"schema": SCHEMA, "file": file, "module": "", "entry": ""}
        print_json({**head, "instructions": []})
    click.echo(f"no function in {file}", err=True)


def _place_of(source: object, name: str) -> str:
    if source is None:
        raise UnknownNameError(f"`{name}` does not say where it comes from")
    return str(source)


def _print_tree(program: Program, name: str | None, top: int | None, *, as_json: bool) -> None:
    """Print the call tree of a program.

    Args:
        program: The program.
        name: Name of the computation at the root; `None` for the entry.
        top: Maximum number of rows; `None` for all.
        as_json: Print JSON.
    """
    module = program.module
    root = module.entry if name is None else computation_of(module, name)
    listed = list(branches(root))
    shown = listed[:top]
    if as_json:
        described = {"module": module.name, "computations": list(map(branch_json, shown))}
        print_json({"schema": TREE_SCHEMA, "file": program.file, **described})
        return
    print_table(tree_table(shown))
    unreached = len(module.computations) - len({b.computation for b in listed})
    if name is None and unreached:
        click.echo(f"{unreached} computations are not called from {root.name}", err=True)


def _print_dumps(folder: Path, top: int | None, *, as_json: bool, tsv: bool) -> None:
    """Print the modules in a directory of dumps, as a table.

    Args:
        folder: The directory.
        top: Maximum number of modules; `None` for all.
        as_json: Print JSON.
        tsv: Print columns separated by tabs.
    """
    found = dumps_in(folder)[:top]
    if as_json:
        programs = list(map(dump_json, found))
        print_json({"schema": DUMPS_SCHEMA, "directory": str(folder), "programs": programs})
    elif tsv:
        click.echo(tab_separated(dumps_table(found, folder)))
    else:
        print_table(dumps_table(found, folder))


# --------------------------------------------------------------------------------------------------
# `show`: one instruction with its neighbourhood.


SHOW_SCHEMA: Final = "hloscope.show/1"


@command()
@file_argument
@click.argument("name", shell_complete=complete_instructions)
@click.option(
    "--around",
    metavar="K",
    type=click.IntRange(0),
    default=0,
    help="Also show instructions up to K steps away along operands and users.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Print whole tuples, backend configs and source traces.",
)
@json_option
@debug_option
def show(file: str, name: str, around: int, full: bool, as_json: bool) -> None:
    """Print the instruction NAME of FILE and the computations it calls, or a computation.

    Write NAME as `computation/instruction` if several computations have that instruction.  In NAME,
    * matches any text and ? any character.
    """
    module = read_program(file).module
    plain = name.removeprefix("%")
    printed = line_printer("default" if as_json else "short" if full else "brief")
    if plain in module.computations and "/" not in plain:
        computation = module.computations[plain]
        if as_json:
            print_json(
                {"schema": SHOW_SCHEMA, "file": file, **computation_json(computation, printed)}
            )
        else:
            print_long("\n".join(computation_text(computation, full, printed)))
        return
    every = listed_instructions(module, find_all(module, name), printed)
    texts: list[str] = []
    for found in every:
        steps = neighbourhood(found, around)
        if as_json:
            said = {"schema": SHOW_SCHEMA, "file": file, **neighbourhood_json(found, steps)}
            print_json(said, lines=len(every) > 1)
        else:
            texts.append("\n".join(neighbourhood_text(found, steps, full)))
    if texts:
        print_long("\n\n".join(texts))
