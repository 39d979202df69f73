"""Repeated evaluation beside jitted XLA on the CPU: programs called again and again.

    python benchmarks/repeats.py [--rounds N] [--seconds S] [--json] [--loops] [NAME ...]

The programs of `real/models` that run on one device, with their recorded inputs: ours as
StableHLO text, read and evaluated once before; theirs the same text, compiled by XLA and run once
before, in a child process that has jax.  Rounds of both take turns in the same run, each of as
many calls as take about `--seconds`; told are the best and the median of the rounds, a call.

`--loops`: microseconds a turn of a loop that counts, beside StableHLO's interpreter in jaxlib, and
of one that puts a row into an array of 16 MB, beside XLA.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.interpreter import PROGRAMS, Reference  # noqa: E402
from hloscope.interpreter import evaluate  # noqa: E402
from hloscope.stablehlo import parse_stablehlo  # noqa: E402
from tests.interpreter.models import load, path_of, programs, recorded  # noqa: E402

_CHILD: Final = """
import json, sys, time
import jax, numpy as np
from jax._src import compiler
from jaxlib import _jax
jax.config.update("jax_enable_x64", True)
device = jax.devices("cpu")[0]
jax.numpy.linalg.cholesky(jax.numpy.eye(2))  # has LAPACK's functions looked up

def begin(program, inputs):
    with open(program, "rb") as file:
        text = file.read()
    options = compiler.get_compile_options(1, 1)
    program = device.client.compile_and_load(text, _jax.DeviceList((device,)), options)
    with np.load(inputs, allow_pickle=False) as data:
        given = [data[k].view(jax.numpy.dtype(k.split(" ")[1])) for k in data]
    given = [jax.device_put(x) for x in given]
    run = lambda: jax.block_until_ready(program.execute(given))
    run()
    return run

run = None
for line in sys.stdin:
    question = json.loads(line)
    try:
        if isinstance(question, list):
            run = begin(*question)
            answer = 0.0
        else:
            start = time.perf_counter()
            for _ in range(question):
                run()
            answer = (time.perf_counter() - start) / question
    except Exception as error:
        answer = repr(error)[:200]
    print("=" + json.dumps(answer), flush=True)
"""


ROWS: Final = """
func.func @main(%x: tensor<2048x2048xf32>, %n: tensor<i64>) -> tensor<2048x2048xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %r:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i64>, tensor<2048x2048xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %f = stablehlo.convert %i : (tensor<i64>) -> tensor<f32>
    %u = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x2048xf32>
    %t = stablehlo.dynamic_update_slice %s, %u, %i, %zero
      : (tensor<2048x2048xf32>, tensor<1x2048xf32>, tensor<i64>, tensor<i64>)
      -> tensor<2048x2048xf32>
    %j = stablehlo.add %i, %one : tensor<i64>
    stablehlo.return %j, %t : tensor<i64>, tensor<2048x2048xf32>
  }
  return %r#1 : tensor<2048x2048xf32>
}
"""
"""A loop that puts a row into 16 MB."""
TURNS: Final = 2000


class Jitted:
    """Jitted programs in a child process."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )  # fmt: skip

    def ask(self, question: Any) -> float | str:
        """Load a program `[path, inputs]`, or run it so many times: seconds a call."""
        pipe, answers = self._child.stdin, self._child.stdout
        assert pipe is not None
        assert answers is not None
        print(json.dumps(question), file=pipe, flush=True)
        for line in answers:
            if line.startswith("="):
                answer: float | str = json.loads(line[1:])
                return answer
        self.close()
        self._begin()
        return "XLA ends the process"

    def close(self) -> None:
        """End the child."""
        self._child.communicate(timeout=60)


def ours(module: Any, inputs: Sequence[Any], count: int) -> float:
    """Seconds of a call, of so many."""
    start = perf_counter()
    for _ in range(count):
        evaluate(module, inputs)
    return (perf_counter() - start) / count


def measure(name: str, peer: Jitted, options: argparse.Namespace) -> dict[str, Any] | None:
    """The row of one program; `None` where the peer does not run it."""
    module, inputs = load(name, "stablehlo"), recorded(name, "inputs")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/inputs.npz"
        given = {f"{i} {x.dtype.name}": _bits(x) for i, x in enumerate(inputs)}
        np.savez(path, **given)
        refusal = peer.ask([str(path_of(name, "stablehlo")), path])
    if isinstance(refusal, str):
        return {"program": name, "refused": refusal}
    first, theirs_first = ours(module, inputs, 1), peer.ask(1)
    assert isinstance(theirs_first, float)
    again = ours(module, inputs, 1)
    counts = [max(1, min(1000, int(options.seconds / s))) for s in (again, theirs_first)]
    mine, theirs = [], []
    gc.collect()
    for _ in range(options.rounds):
        mine.append(ours(module, inputs, counts[0]))
        answer = peer.ask(counts[1])
        assert isinstance(answer, float)
        theirs.append(answer)
    return {
        "program": name,
        "first_ms": first * 1e3,
        "ours_ms": [min(mine) * 1e3, median(mine) * 1e3],
        "theirs_ms": [min(theirs) * 1e3, median(theirs) * 1e3],
        "behind": [min(mine) / min(theirs), median(mine) / median(theirs)],
    }


def loops(rounds: int) -> Iterator[dict[str, Any]]:
    """Microseconds a turn of both loops: ours and theirs, best and median."""
    counting = PROGRAMS / "while_1000.mlir"
    array, turns = np.zeros((2048, 2048), np.float32), np.int64(TURNS)
    with tempfile.TemporaryDirectory() as folder:
        counted, given, text = (Path(folder) / name for name in ("n.npz", "x.npz", "rows.mlir"))
        np.savez(counted, np.int64(1000))
        np.savez(given, **{"0 float32": array, "1 int64": turns})  # type: ignore[arg-type]
        text.write_text(ROWS, encoding="utf-8")
        reference, peer = Reference(), Jitted()
        peer.ask([str(text), str(given)])

        def interpreted() -> float:
            found = reference.seconds(counting, str(counted))
            return found[1] if found else float("nan")

        yield _turns(
            "while", 1000, rounds,
            (parse_stablehlo(counting.read_text(encoding="utf-8")), [np.int64(1000)]), interpreted,
        )  # fmt: skip
        yield _turns(
            "16 MB", TURNS, rounds, (parse_stablehlo(ROWS), [array, turns]),
            lambda: float(peer.ask(1)),
        )  # fmt: skip
        reference.close()
        peer.close()


def _turns(
    name: str, turns: int, rounds: int, own: tuple[Any, Any], theirs: Callable[[], float]
) -> dict[str, Any]:
    ours(*own, 1)
    theirs()
    pairs = [(ours(*own, 1), theirs()) for _ in range(rounds)]
    mine, other = [[s / turns * 1e6 for s in some] for some in zip(*pairs, strict=True)]
    return {
        "loop": name,
        "ours_us": [min(mine), median(mine)],
        "theirs_us": [min(other), median(other)],
    }


def _bits(x: Any) -> Any:
    """The array, as unsigned integers where files of arrays do not know its type."""
    return x if x.dtype.isbuiltin else x.view(f"u{x.itemsize}")


def rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each program that runs on one device."""
    peer = Jitted()
    names = options.names or [n for n, p in programs().items() if not p.get("mesh")]
    for name in names:
        row = measure(name, peer, options)
        if row is not None:
            yield row
    peer.close()


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="programs; all on one device if none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--loops", action="store_true", help="microseconds a turn of loops instead")
    options = parser.parse_args()
    if options.loops:
        for row in loops(options.rounds):
            print(json.dumps(row) if options.json else row, flush=True)
        return
    behind: list[list[float]] = []
    for row in rows(options):
        if "behind" in row:
            behind.append(row["behind"])
        if options.json:
            print(json.dumps(row), flush=True)
        elif "refused" in row:
            print(f"{row['program']:32} {row['refused']}")
        else:
            cells = [*row["ours_ms"], *row["theirs_ms"], *row["behind"]]
            print(f"{row['program']:32}", *[f"{c:10.3f}" for c in cells], flush=True)
    if behind and not options.json:
        best, middle = [geometric_mean(b) for b in zip(*behind, strict=True)]
        print(f"geometric mean of {len(behind)}: {best:.2f} x (best), {middle:.2f} x (median)")


if __name__ == "__main__":
    main()
