"""Evaluation: the interpreter beside StableHLO's own, which jaxlib has as `stablehlo.eval_module`.

    python benchmarks/interpreter.py [--runs N] [--all] [--json] [--only NAME] [--testdata]

The programs of `../shared/bench/stablehlo`.  Both interpreters get the same values in the same run;
theirs runs in a child process, for it aborts on errors.  Timed is evaluation alone, by the clock on
the wall; theirs is the fastest of three runs, ours of N.  The product of 512x512 matrices takes it
minutes: its time is the CPU time of `times.json` there, unless `--all` asks for it to be measured.

`--testdata`: every executed file of `../shared/conformance/stablehlo/testdata`, reading included.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter
from typing import IO, Any, Final

import numpy as np

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hloscope.interpreter import dtype_of, evaluate  # noqa: E402
from hloscope.ir import TensorType  # noqa: E402
from hloscope.stablehlo import parse_stablehlo  # noqa: E402
from tests.conftest import SHARED  # noqa: E402

PROGRAMS: Final = SHARED / "bench" / "stablehlo"
CONFORMANCE: Final = SHARED / "conformance" / "stablehlo"
SLOW: Final = "dot_general_512"
LOOP: Final = "while_1000"

_CHILD: Final = """
import json, sys, time
import numpy as np
from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo

def erase_checks(module):  # `eval_module` does not know them
    found = []
    def visit(op):
        if op.name == "stablehlo.custom_call":
            if ir.StringAttr(op.attributes["call_target_name"]).value.startswith("check."):
                found.append(op)
        return ir.WalkResult.ADVANCE
    module.operation.walk(visit)
    for op in found:
        op.operation.erase()

def measure(path, passes, inputs, outputs, runs):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    start = time.perf_counter()
    module = ir.Module.parse(text)
    reading = time.perf_counter() - start
    if passes:
        passmanager.PassManager.parse(f"builtin.module({passes})").run(module.operation)
    erase_checks(module)
    arguments = []
    if inputs:
        with np.load(inputs) as data:
            arguments = [ir.DenseElementsAttr.get(data[k]) for k in data]
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        results = stablehlo.eval_module(module, arguments)
        times.append(time.perf_counter() - start)
    if outputs:
        np.savez(outputs, *[np.array(r) for r in results])
    return reading, min(times)

stablehlo.register_stablehlo_passes()
with make_ir_context():
    for line in sys.stdin:
        try:
            answer = measure(*json.loads(line))
        except Exception as error:
            answer = repr(error)
        print(json.dumps(answer), flush=True)
"""


class Reference:
    """StableHLO's interpreter in a child process."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._begin()

    def _begin(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def seconds(
        self, path: Path, inputs: str = "", outputs: str = "", runs: int = 1, passes: str = ""
    ) -> tuple[float, float] | None:
        """Times of reading and of evaluating; `None` where it does not survive."""
        assert self._child is not None
        try:
            request = json.dumps([str(path), passes, inputs, outputs, runs])
            print(request, file=_pipe(self._child.stdin), flush=True)
            answer = json.loads(_pipe(self._child.stdout).readline())
        except (OSError, ValueError):  # it is no more
            self._child.wait()
            self._begin()
            return None
        return None if isinstance(answer, str) else (answer[0], answer[1])

    def close(self) -> None:
        """End the child."""
        assert self._child is not None
        _pipe(self._child.stdin).close()
        self._child.wait()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def arguments(types: list[TensorType], seed: int = 1) -> list[Any]:
    """Values for the parameters: numbers in [-1, 1), numbers of rows, 1000 turns of a loop."""
    random = np.random.default_rng(seed)
    made: list[Any] = []
    for t in types:
        shape, dtype = [s or 1 for s in t.sizes], dtype_of(t.element)
        if not shape:
            made.append(np.array(1000, dtype))
        elif dtype.kind in "iu":
            made.append(random.integers(0, 10000, shape).astype(dtype))
        else:
            made.append(random.uniform(-1, 1, shape).astype(dtype))
    return made


def measure(path: Path, reference: Reference, runs: int, *, live: bool) -> dict[str, Any]:
    """Times of one program, and how far the results are from each other."""
    module = parse_stablehlo(path.read_text(encoding="utf-8"))
    types = [t for t in module.entry.arguments if isinstance(t, TensorType)]
    values = arguments(types)
    times = []
    results: tuple[Any, ...] = ()
    for _ in range(runs):
        gc.collect()
        start = perf_counter()
        results = evaluate(module, values)
        times.append(perf_counter() - start)
    row: dict[str, Any] = {"program": path.stem, "ours_ms": round(min(times) * 1e3, 4)}
    theirs = None
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = f"{folder}/in.npz", f"{folder}/out.npz"
        np.savez(inputs, *values)
        if live:
            found = reference.seconds(path, inputs, outputs, 1 if path.stem == SLOW else 3)
            if found:
                theirs = found[1]
                with np.load(outputs) as data:
                    row["difference"] = max(
                        float(np.abs(np.asarray(a, float) - data[k]).max(initial=0))
                        for a, k in zip(results, data, strict=True)
                    )
    if not live:
        recorded = json.loads((PROGRAMS / "times.json").read_text())
        theirs = recorded["benchmarks"][path.stem]["cpu_s"]
        row["recorded"] = True
    row["theirs_ms"] = theirs and round(theirs * 1e3, 3)
    row["times_faster"] = theirs and float(f"{theirs / min(times):.4g}")
    return row


def print_row(row: dict[str, Any]) -> None:
    """Print one line of the table."""
    difference = row.get("difference")
    print(
        f"{row['program']:20} {row['ours_ms']:>10} {row['theirs_ms'] or '-':>12}"
        f" {row['times_faster'] or '-':>10}x"
        f" {'(recorded)' if row.get('recorded') else '' if difference is None else difference:>12}",
        flush=True,
    )


def programs(options: argparse.Namespace) -> None:
    """The benchmark programs, one row each, and the figure of those on arrays."""
    files = [p for p in sorted(PROGRAMS.glob("*.mlir")) if options.only in (None, p.stem)]
    if not files:
        sys.exit(f"no programs in {PROGRAMS}")
    reference = Reference()
    rows = []
    if not options.json:
        print(f"{'program':20} {'ours ms':>10} {'theirs ms':>12} {'faster':>11} {'difference':>12}")
    for path in files:
        live = options.all or path.stem != SLOW
        rows.append(measure(path, reference, options.runs, live=live))
        print(json.dumps(rows[-1]), flush=True) if options.json else print_row(rows[-1])
    reference.close()
    ratios = [r["times_faster"] for r in rows if r["program"] != LOOP and r["times_faster"]]
    if ratios and not options.json:
        print(
            f"geometric mean of the {len(ratios)} programs on arrays: {geometric_mean(ratios):.0f}x"
        )


_PIPELINE: Final = "func.func(chlo-legalize-to-stablehlo)"


def executed() -> Iterator[tuple[Path, str]]:
    """The test files upstream executes, and the passes it applies to them before."""
    manifest = json.loads((CONFORMANCE / "manifest" / "testdata.json").read_text())
    for record in manifest["files"]:
        if record["executed"] and not record["run_disabled"]:
            path = CONFORMANCE / record["file"].removeprefix("stablehlo/")
            needed = any("chlo" in step for step in record["preprocess"])
            yield path, _PIPELINE if needed else ""


def testdata() -> None:
    """All test files: reading and evaluating, ours and theirs."""
    reference = Reference()
    files = ours_reading = ours = theirs_reading = theirs = failed = 0.0
    for path, passes in executed():
        text = path.read_text(encoding="utf-8")
        start = perf_counter()
        module = parse_stablehlo(text)
        middle = perf_counter()
        evaluate(module)
        end = perf_counter()
        found = reference.seconds(path, passes=passes)
        if found is None:
            failed += 1
            continue
        files += 1
        ours_reading, ours = ours_reading + middle - start, ours + end - middle
        theirs_reading, theirs = theirs_reading + found[0], theirs + found[1]
    reference.close()
    print(
        f"{files:.0f} files ({failed:.0f} more which the reference does not survive):"
        f" ours {ours_reading + ours:.2f} s ({ours_reading:.2f} reading, {ours:.2f} evaluating),"
        f" theirs {theirs_reading + theirs:.2f} s ({theirs_reading:.2f} reading, {theirs:.2f}"
        f" evaluating): {(theirs_reading + theirs) / max(ours_reading + ours, math.ulp(1)):.2f}x"
    )


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--all", action="store_true", help="measure their 512x512 product too")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--only", help="name of one program")
    parser.add_argument("--testdata", action="store_true", help="the test files instead")
    options = parser.parse_args()
    if options.testdata:
        testdata()
    else:
        programs(options)


if __name__ == "__main__":
    main()
