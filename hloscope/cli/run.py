"""`run`: what a program returns."""

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
from hloscope.cli.common import command, debug_option, file_argument, json_option, print_json
from hloscope.cli.files import read_text
from hloscope.cli.options import file_option, limit_option
from hloscope.cli.progress import steps_shown
from hloscope.cli.verified import right_modules_of

SCHEMA: Final = "hloscope.run/1"
FAILED = 1


@command()
@file_argument
@click.option("--entry", metavar="NAME", help="Function or computation to run; `main`, else ENTRY.")
@click.option(
    "--args", "literals", metavar="LIST", help="Arguments: '[dense<1> : tensor<2xi32>, …]'."
)
@file_option(
    "--input",
    "inputs",
    multiple=True,
    about="Arguments: arrays of a .npz file (by name, else in order) or .npy files, once for each."
    "  With a grid: a .npz file for each process, or one for all.",
)
@click.option("--random", metavar="SEED", type=click.IntRange(0), help="Arguments: random numbers.")
@file_option(
    "--infeed",
    multiple=True,
    about="What an `infeed` takes: the arrays of a .npz file; the next one those of the next file.",
)
@file_option("--output", about="Write the results to a .npz or .npy file.")
@file_option(
    "--values",
    about="Write the value of every instruction, the first of those in loops, by its name to a .npz"
    " file, as --compare takes it.",
)
@file_option("--expect", about="Compare the results with those of a .npz file.")
@file_option(
    "--compare",
    about="Find the first value that differs from that of another program, or, by the names of a"
    " .npz file, from what is stored.",
)
@click.option(
    "--tolerance",
    metavar="T",
    type=float,
    default=1e-4,
    show_default=True,
    help="Largest difference of floats; of those larger than 1 it is relative.",
)
@click.option("--ulps", metavar="N", type=int, help="In place of it: units in the last place.")
@click.option("--replicas", metavar="R", type=click.IntRange(1, 4096), default=1)
@click.option("--partitions", metavar="P", type=click.IntRange(1, 4096), default=1)
@limit_option(
    "--max-steps",
    MOST_STEPS,
    "Most instructions to evaluate, loops counted as often as they run.",
)
@limit_option("--max-flops", MOST_FLOPS, "Most operations on elements; of each process.")
@limit_option(
    "--max-bytes",
    MAX_BYTES,
    "Most bytes of one array, those made on the way included.",
    metavar="B",
)
@click.option("--probe", metavar="DIR", help="Folder that `interpreter.probe` writes to.")
@click.option("--dense", is_flag=True, help="Print results as `dense<…>` literals.")
@click.option(
    "--split-input-file", is_flag=True, help="FILE is several programs, // ----- apart: run each."
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
    """Run the program of FILE and print what it returns.

    Arguments that FILE records (HloSnapshot) are used if none are given.

    The exit code is 1 if an assertion of the program fails, a limit is reached, or the results are
    not the expected ones.
    """
    source = read_text(file)
    if (literals is not None) + bool(inputs) + (random is not None) > 1:
        raise click.UsageError("give arguments by one of --args, --input and --random")
    stored = compare if compare and compare.endswith((".npz", ".npy")) else None
    asked = _Asked(
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
    for module in right_modules_of(source, split=split_input_file):
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
def _limits_told() -> Iterator[None]:
    """Within it, the error of a limit that is reached names the option that allows more."""
    try:
        yield
    except EvaluationError as error:
        if error.rule not in ("max_steps", "max_flops", "max_bytes"):
            raise
        more = f"{error.message}; --{error.rule.replace('_', '-')} allows more"
        raise EvaluationError(more, span=error.span) from error


class _Asked(NamedTuple):
    """What is to be done with every program of the file."""

    entry: str | None
    given: Given
    options: RunOptions
    other: str | None
    as_json: bool

    def run(self, module: Module, printed: list[str]) -> Ran:
        """Run one; what it prints itself is kept for JSON, or printed."""
        options = self.options
        entry = entry_of(module, self.entry)
        try:
            arguments = arguments_of(
                entry, self.given, processes=options.processes, max_bytes=options.max_bytes
            )
        except EvaluationError as error:
            raise click.UsageError(error.message) from None
        with steps_shown(options.max_steps) as on_step, _limits_told():
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
        """The program to compare with."""
        assert self.other is not None
        (module,) = right_modules_of(read_text(self.other), split=False)
        return module, entry_of(module, self.entry)
