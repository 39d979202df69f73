"""`run`: the results of a program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import click

from hloscope.api import (
    MAX_BYTES,
    MOST_FLOPS,
    MOST_STEPS,
    Computation,
    EvaluationError,
    Given,
    Module,
    Ran,
    RunOptions,
    arguments_of,
    check_run,
    entry_of,
    recorded_in,
    run_program,
)
from hloscope.cli.files import read_text, verified_modules_of
from hloscope.cli.options import file_option, limit_option
from hloscope.cli.printing import command, debug_option, file_argument, json_option, print_json
from hloscope.cli.streams import steps_shown

SCHEMA: Final = "hloscope.run/1"
FAILED = 1


@command()
@file_argument
@click.option(
    "--entry", metavar="NAME", help="Function or computation to run; default: `main`, else ENTRY."
)
@click.option(
    "--args", "literals", metavar="LIST", help="Arguments: '[dense<1> : tensor<2xi32>, …]'."
)
@file_option(
    "--input",
    "inputs",
    multiple=True,
    about="Arguments: arrays of a .npz file (by name, else in order), or one .npy file per "
    "option.  On several devices: one .npz file for each process, or one for all.",
)
@click.option(
    "--random", metavar="SEED", type=click.IntRange(0), help="Random arguments of this seed."
)
@file_option(
    "--infeed",
    multiple=True,
    about="Arrays of an `infeed`, as a .npz file; repeat the option for the next infeeds.",
)
@file_option("--output", about="Write the results to a .npz or .npy file.")
@file_option(
    "--values",
    about="Write the value of every instruction by its name to a .npz file, for --compare; in "
    "loops, that of the first iteration.",
)
@file_option("--expect", about="Compare the results with the arrays of a .npz file.")
@file_option(
    "--compare",
    about="Find the first value that differs from that of another program, or, by name, from an"
    " array of a .npz file.",
)
@click.option(
    "--tolerance",
    metavar="T",
    type=float,
    default=1e-4,
    show_default=True,
    help="Largest allowed difference of floats; relative for values above 1.",
)
@click.option(
    "--ulps",
    metavar="N",
    type=int,
    help="Largest allowed difference in units in the last place, instead of --tolerance.",
)
@click.option(
    "--replicas", metavar="R", type=click.IntRange(1, 4096), default=1, help="Number of replicas."
)
@click.option(
    "--partitions",
    metavar="P",
    type=click.IntRange(1, 4096),
    default=1,
    help="Number of partitions.",
)
@limit_option(
    "--max-steps",
    MOST_STEPS,
    "Limit of executed instructions; loop bodies count in every iteration.",
)
@limit_option("--max-flops", MOST_FLOPS, "Limit of operations on elements, for each process.")
@limit_option(
    "--max-bytes",
    MAX_BYTES,
    "Limit of bytes of one array, intermediate ones included.",
    metavar="B",
)
@click.option("--probe", metavar="DIR", help="Folder for the arrays of `interpreter.probe`.")
@click.option("--dense", is_flag=True, help="Print results as `dense<…>` literals.")
@click.option(
    "--split-input-file",
    is_flag=True,
    help="FILE is several programs, separated by // -----; run each.",
)
@json_option
@debug_option
def run(
    file: str,
    entry: str | None,
    literals: str | None,
    inputs: tuple[str, ...],
    random: int | None,
    compare: str | None,
    dense: bool,
    split_input_file: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run the program of FILE and print its results.

    Without arguments, those recorded in FILE (HloSnapshot) are used.

    The exit code is 1 if an assertion of the program fails, a limit is reached, or the results
    differ from the expected ones.
    """
    source = read_text(file)
    if (literals is not None) + bool(inputs) + (random is not None) > 1:
        raise click.UsageError("give arguments by one of --args, --input and --random")
    stored = compare if compare and compare.endswith((".npz", ".npy")) else None
    asked = _RunRequest(
        entry,
        Given(literals, inputs, random, recorded_in(file)),
        RunOptions(compare=stored, **options),
        other=None if stored else compare,
        as_json=as_json,
    )
    check_run(asked.options)
    if compare and asked.options.processes > 1:
        raise click.UsageError("--compare runs one process: leave out --replicas, --partitions")
    reports = []
    is_right = True
    for module in verified_modules_of(source, split=split_input_file):
        printed: list[str] = []
        ran = asked.run(module, printed)
        is_right &= ran.is_right
        if as_json:
            reports.append(ran.to_json() | ({"printed": printed} if printed else {}))
            continue
        for text in ran.text(dense=dense):
            click.echo(text)
        for difference in ran.differences or ():
            click.echo(difference, err=True)
    if as_json:
        print_json({"schema": SCHEMA, "file": source.name, "ok": is_right, "programs": reports})
    if not is_right:
        sys.exit(FAILED)


@contextmanager
def _naming_the_limit() -> Iterator[None]:
    """In this context, an error about a limit gets the name of the option that raises the limit."""
    try:
        yield
    except EvaluationError as error:
        if error.rule not in ("max_steps", "max_flops", "max_bytes"):
            raise
        more = f"{error.message}; --{error.rule.replace('_', '-')} allows more"
        raise EvaluationError(more, span=error.span) from error


class _RunRequest(NamedTuple):
    """Options of a run, applied to every program of the file."""

    entry: str | None
    given: Given
    options: RunOptions
    other: str | None
    as_json: bool

    def run(self, module: Module, printed: list[str]) -> Ran:
        """Run the entry of a module by the options; return the outcome.

        `module` is valid. Texts that the program prints are printed at once; for JSON they are
        appended to `printed` instead.

        Raises:
            click.UsageError: The arguments do not fit the entry.
            EvaluationError: An assertion of the program fails, or a limit is reached.
        """
        options = self.options
        entry = entry_of(module, self.entry)
        try:
            arguments = arguments_of(
                entry, self.given, processes=options.processes, max_bytes=options.max_bytes
            )
        except EvaluationError as error:
            raise click.UsageError(error.message) from None
        with steps_shown(options.max_steps) as on_step, _naming_the_limit():
            return run_program(
                module,
                entry,
                arguments,
                options,
                say=printed.append if self.as_json else click.echo,
                on_step=on_step,
                other=self.read_other if self.other else None,
            )

    def read_other(self) -> tuple[Module, Computation]:
        """Read the program to compare with, and choose its entry."""
        assert self.other is not None
        (module,) = verified_modules_of(read_text(self.other), split=False)
        return module, entry_of(module, self.entry)
