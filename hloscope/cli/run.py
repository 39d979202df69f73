"""`run`: what a program returns."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from hloscope.cli.common import complete_files, debug_option, file_argument, json_option, print_json
from hloscope.cli.files import read_text
from hloscope.cli.progress import steps_shown
from hloscope.cli.run_inputs import arguments_of, entry_of, right_modules_of
from hloscope.cli.run_report import described, finding_text, print_finding, print_results
from hloscope.compare import (
    by_name,
    compare_programs,
    compare_values,
    leaves,
    load,
    named,
    restored,
    save,
)
from hloscope.errors import InputError
from hloscope.interpreter import (
    INFEED,
    OUTFEED,
    PRINT,
    PROBE,
    Array,
    Difference,
    EvaluationError,
    Value,
    World,
    check_grid,
    run_grid,
    within,
    within_ulps,
)
from hloscope.interpreter.evaluate import evaluate
from hloscope.interpreter.statistics import statistics
from hloscope.ir import Instruction, Module, TensorType, Type
from hloscope.limits import MAX_BYTES

SCHEMA: Final = "hloscope.run/1"
FAILED = 1


@click.command
@file_argument
@click.option("--entry", metavar="NAME", help="Function or computation to run; `main`, else ENTRY.")
@click.option(
    "--args", "literals", metavar="LIST", help="Arguments: '[dense<1> : tensor<2xi32>, …]'."
)
@click.option(
    "--input",
    "inputs",
    metavar="FILE",
    shell_complete=complete_files,
    multiple=True,
    help="Arguments: arrays of a .npz file (by name, else in order) or .npy files, once for each."
    "  With a grid: a .npz file for each process, or one for all.",
)
@click.option("--random", metavar="SEED", type=int, help="Arguments: random numbers.")
@click.option(
    "--infeed",
    metavar="FILE",
    shell_complete=complete_files,
    multiple=True,
    help="What an `infeed` takes: the arrays of a .npz file; the next one those of the next file.",
)
@click.option(
    "--output",
    metavar="FILE",
    shell_complete=complete_files,
    help="Write the results to a .npz or .npy file.",
)
@click.option(
    "--values",
    metavar="FILE",
    shell_complete=complete_files,
    help="Write the value of every instruction, the first of those in loops, by its name to a .npz"
    " file, as --compare takes it.",
)
@click.option(
    "--expect",
    metavar="FILE",
    shell_complete=complete_files,
    help="Compare the results with those of a .npz file.",
)
@click.option(
    "--compare",
    metavar="FILE",
    shell_complete=complete_files,
    help="Find the first value that differs from that of another program, or, by the names of a"
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
@click.option("--max-steps", metavar="N", type=int, help="Most instructions to evaluate.")
@click.option(
    "--max-bytes",
    metavar="B",
    type=int,
    default=MAX_BYTES,
    show_default=True,
    help="Most bytes of one array, those made on the way included.",
)
@click.option("--probe", metavar="DIR", help="Folder that `interpreter.probe` writes to.")
@click.option("--dense", is_flag=True, help="Print results as `dense<…>` literals.")
@click.option(
    "--split-input-file", is_flag=True, help="FILE is several programs, // ----- apart: run each."
)
@json_option
@debug_option
def run(file: str, as_json: bool, dense: bool, split_input_file: bool, **options: Any) -> None:
    """Run the program of FILE and print what it returns.

    The exit code is 1 if an assertion of the program fails, a limit is reached, or the results are
    not the expected ones.
    """
    source = read_text(file)
    _check(options)
    reports = []
    ok = True
    for module in right_modules_of(source, split=split_input_file):
        report = _Run(module, options, as_json, dense)()
        ok &= report["ok"]
        reports.append(report)
    if as_json:
        print_json({"schema": SCHEMA, "file": source.name, "ok": ok, "programs": reports})
    if not ok:
        sys.exit(FAILED)


def _check(options: dict[str, Any]) -> None:
    """Refuse options that exclude each other."""
    given = [name for name in ("literals", "inputs", "random") if options[name] not in (None, ())]
    if len(given) > 1:
        raise click.UsageError("give arguments by one of --args, --input and --random")
    grid = options["replicas"] * options["partitions"] > 1
    check_grid(options["replicas"], options["partitions"])
    if grid and options["compare"]:
        raise click.UsageError("--compare runs one process: leave out --replicas, --partitions")
    probe = options["probe"]
    if probe is not None:
        try:
            Path(probe).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {probe}: {error.strerror}") from None


class _Run:
    """One module and what is to be done with it."""

    def __init__(self, module: Module, options: dict[str, Any], as_json: bool, dense: bool) -> None:
        self.module, self.options = module, options
        self.as_json, self.dense = as_json, dense
        self.entry = entry_of(module, options["entry"])
        self.printed: list[str] = []

    def __call__(self) -> dict[str, Any]:
        options, entry = self.options, self.entry
        count = options["replicas"] * options["partitions"]
        arguments = arguments_of(entry, options, count)
        report: dict[str, Any] = {"entry": entry.name, "ok": True}
        begin = time.perf_counter()
        with steps_shown(options["max_steps"]) as on_step:
            world = self._world(self.module, on_step)
            world.extra[INFEED] = deque(tuple(load(path).values()) for path in options["infeed"])
            kept = self._kept(world) if options["values"] else {}
            if options["compare"]:
                return self._compared(report, arguments[0], world)
            if count > 1:
                row = [entry] * options["partitions"]
                given = arguments * count if len(arguments) == 1 else arguments
                found = run_grid([row] * options["replicas"], given, world)
            else:
                found = [evaluate(entry, arguments[0], world)]
        report |= {"seconds": round(time.perf_counter() - begin, 6), "steps": world.steps}
        types = entry.results * count
        results = tuple([value for own in found for value in own])
        if options["output"]:
            save(options["output"], named(results, types))
        if options["values"]:
            save(options["values"], kept)
        if options["expect"]:
            differences = _differences(results, types, options["expect"], self._compare)
            report["differences"] = differences
            report["expected"] = {"file": options["expect"], "results": len(types)}
            report["ok"] = not differences
        report["outfeed"] = [
            [f"{np.asarray(a).dtype}{list(np.shape(a))}: {statistics(a)}" for a in given]
            for given in world.extra[OUTFEED]
        ]
        self._report(report, results, types, count)
        return report

    def _world(self, module: Module, on_step: Callable[[int], None] | None) -> World:
        options = self.options
        return World(
            functions=module.computations,
            attributes=module.extras,
            spell=module.spell,
            max_steps=options["max_steps"],
            max_bytes=options["max_bytes"],
            on_step=on_step,
            extra={PRINT: self._print, PROBE: options["probe"], OUTFEED: []},
        )

    def _kept(self, world: World) -> dict[str, Array]:
        """A dictionary that values are put into as the program runs."""
        names = {ins: name for name, ins in by_name(self.entry).items()}
        found: dict[str, Array] = {}
        left = self.options["max_bytes"]

        def watch(ins: Instruction, value: Value) -> None:
            nonlocal left
            name = names.get(ins)
            if name is None or name in found or not isinstance(ins.type, TensorType):
                return
            array = np.asarray(value)
            left -= array.nbytes
            if left < 0:
                raise EvaluationError("the values are more than --max-bytes")
            found[name] = array

        world.watch = watch
        return found

    def _print(self, text: str) -> None:
        """What the program prints itself."""
        if self.as_json:
            self.printed.append(text)
        else:
            click.echo(text)

    @property
    def _compare(self) -> Callable[[Any, Any], Difference | None]:
        if self.options["ulps"] is not None:
            return partial(within_ulps, most=self.options["ulps"])
        return partial(within, tolerance=self.options["tolerance"], relative=True)

    def _compared(
        self, report: dict[str, Any], arguments: Sequence[Value], world: World
    ) -> dict[str, Any]:
        """Run beside another program, or stored values."""
        other, entry = self.options["compare"], self.entry
        if other.endswith((".npz", ".npy")):
            finding = compare_values(entry, load(other), arguments, self._compare, world)
        else:
            (module,) = right_modules_of(read_text(other), split=False)
            theirs = entry_of(module, self.options["entry"])
            silent = self._world(module, None)
            silent.extra = {PRINT: lambda _: None, PROBE: None}
            finding = compare_programs(entry, theirs, arguments, self._compare, world, silent)
        report["ok"] = finding.instruction is None and finding.values > 0
        if self.as_json:
            report["comparison"] = finding_text(finding)
        else:
            print_finding(finding)
        return report

    def _report(
        self,
        report: dict[str, Any],
        results: Sequence[Value],
        types: Sequence[Type],
        count: int,
    ) -> None:
        if self.as_json:
            report["results"] = [described(v, t) for v, t in zip(results, types, strict=True)]
            if self.printed:
                report["printed"] = self.printed
            return
        brief = bool(self.options["output"] or self.options["expect"])
        each = len(types) // count
        labels = [
            f"process {divmod(i // each, self.options['partitions'])}: " if count > 1 else ""
            for i in range(len(types))
        ]
        print_results(results, types, labels, brief=brief, dense=self.dense)
        for given in report["outfeed"]:
            click.echo(f"outfeed: {', '.join(given)}")
        for difference in report.get("differences", ()):
            click.echo(difference, err=True)
        if "expected" in report and report["ok"]:
            how = "up to --ulps" if self.options["ulps"] is not None else "within --tolerance"
            arrays = len(named(results, types))
            many = f"{arrays} result{'s' * (arrays != 1)}"
            click.echo(f"{many} compared with {self.options['expect']}: no difference {how}")


def _differences(
    results: Sequence[Value],
    types: Sequence[Type],
    path: str,
    compare: Callable[[Any, Any], Difference | None],
) -> list[str]:
    """What is wrong with the results, compared with the arrays of a file in order."""
    expected = list(load(path).values())
    found = [leaf for v, t in zip(results, types, strict=True) for leaf in leaves(v, t)]
    if len(expected) != len(found):
        return [f"{len(found)} results, {path} has {len(expected)}"]
    differences = []
    for i, ((array, type_), stored) in enumerate(zip(found, expected, strict=True)):
        right = restored(stored, type_)
        if right.shape != array.shape or right.dtype != array.dtype:
            of = f"{right.dtype}{list(right.shape)}, found {array.dtype}{list(array.shape)}"
            differences.append(f"result {i}: expected {of}")
            continue
        difference = compare(array, right)
        if difference is not None:
            differences.append(f"result {i}: {difference}")
    return differences
