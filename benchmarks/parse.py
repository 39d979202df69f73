"""Reading texts: the C++ parsers of XLA and MLIR, ours, and one answer about one fusion.

    python benchmarks/parse.py [--runs N] [--json] [FILE …]

Without files: every text of `../shared/real/big`.  All are measured in the same run, in turns, so
that a busy machine slows all of them; figures are medians.  The C++ parsers run in child processes
(they may abort), if jaxlib is installed.

HLO:

* `xla`: `jaxlib`'s `hlo_module_from_text`.
* `strict`: `parse_hlo(text, strict=True)`: every instruction with operands, type and op.
* `query`: `parse_hlo(text)`, then the body of one fusion and what each of its instructions reads.

StableHLO:

* `mlir`: `jaxlib`'s `Module.parse`, which verifies too.
* `tree`: `parse_mlir(text)`: the syntax tree, with every attribute and type.
* `graph`: `parse_stablehlo(text)` with all computations: every instruction with operands, type, op.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import IO, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hloscope.dialects import DIALECTS  # noqa: E402
from hloscope.hlo_parser import parse_hlo  # noqa: E402
from hloscope.mlir import parse_mlir  # noqa: E402
from hloscope.stablehlo import parse_stablehlo  # noqa: E402

_CHILD: Final = """
import sys, time
from jax._src.lib import hlo
for line in sys.stdin:
    with open(line.rstrip("\\n"), encoding="utf-8") as file:
        text = file.read()
    start = time.perf_counter()
    module = hlo.hlo_module_from_text(text)
    print(time.perf_counter() - start, flush=True)
    del module
"""


_MLIR_CHILD: Final = """
import sys, time
from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
with make_ir_context():
    for line in sys.stdin:
        with open(line.rstrip("\\n"), encoding="utf-8") as file:
            text = file.read()
        start = time.perf_counter()
        module = ir.Module.parse(text)
        print(time.perf_counter() - start, flush=True)
        del module
"""


class Reference:
    """A C++ parser in a child process."""

    def __init__(self, program: str = _CHILD) -> None:
        self._child: subprocess.Popen[str] | None = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def seconds(self, path: Path) -> float | None:
        """Return the time it takes to parse `path`, or `None` where it cannot."""
        if self._child is None:
            return None
        stdin, stdout = _pipes(self._child)
        try:
            print(path, file=stdin, flush=True)
            return float(stdout.readline())
        except (OSError, ValueError):
            self._child = None
            return None

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            _pipes(self._child)[0].close()
            self._child.wait()


def _pipes(child: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert child.stdin is not None
    assert child.stdout is not None
    return child.stdin, child.stdout


def strict_seconds(text: str) -> tuple[float, int]:
    """Return the time of a strict parse, and the number of instructions."""
    gc.collect()
    start = perf_counter()
    module = parse_hlo(text, strict=True)
    seconds = perf_counter() - start
    return seconds, sum(len(computation) for computation in module)


def query_seconds(text: str) -> float:
    """Return the time from the text to what every instruction of one fusion reads."""
    gc.collect()
    start = perf_counter()
    module = parse_hlo(text)
    names = [name for name in module.computations if name.startswith("fused")]
    fused = module.computations[names[len(names) // 2]] if names else next(iter(module))
    answer = [(ins.name, ins.type, [o.name for o in ins.operands]) for ins in fused]
    seconds = perf_counter() - start
    assert answer
    return seconds


def peak_ratio(text: str) -> float:
    """Return the peak memory of a strict parse, in multiples of the text's size."""
    tracemalloc.start()
    module = parse_hlo(text, strict=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert module.entry
    return peak / len(text)


def measure(path: Path, xla: Reference, runs: int) -> dict[str, float | int | str | None]:
    """Return the medians for one file."""
    text = path.read_text(encoding="utf-8")
    theirs: list[float] = []
    ours: list[float] = []
    queries: list[float] = []
    count = 0
    for _ in range(runs):
        seconds = xla.seconds(path)
        if seconds is not None:
            theirs.append(seconds)
        seconds, count = strict_seconds(text)
        ours.append(seconds)
        queries.append(query_seconds(text))
    reference = median(theirs) if theirs else None
    strict, query = median(ours), median(queries)
    megabytes = len(text) / 1e6
    return {
        "file": path.name,
        "megabytes": round(megabytes, 2),
        "instructions": count,
        "xla_ms": reference and round(reference * 1e3, 1),
        "strict_ms": round(strict * 1e3, 1),
        "query_ms": round(query * 1e3, 1),
        "strict_mb_per_s": round(megabytes / strict, 1),
        "instructions_per_s": round(count / strict),
        "strict_over_xla": reference and round(reference / strict, 2),
        "query_over_xla": reference and round(reference / query, 1),
        "peak_over_text": round(peak_ratio(text), 1),
    }


def tree_seconds(text: str) -> float:
    """Return the time of reading the syntax tree."""
    gc.collect()
    start = perf_counter()
    tree = parse_mlir(text, dialects=DIALECTS)
    seconds = perf_counter() - start
    assert tree.regions
    return seconds


def graph_seconds(text: str) -> tuple[float, int]:
    """Return the time from the text to the program graph, and the number of instructions."""
    gc.collect()
    start = perf_counter()
    module = parse_stablehlo(text)
    count = sum(len(computation) for computation in module)
    return perf_counter() - start, count


def measure_mlir(path: Path, mlir: Reference, runs: int) -> dict[str, float | int | str | None]:
    """Return the medians for one file of StableHLO."""
    text = path.read_text(encoding="utf-8")
    theirs: list[float] = []
    trees: list[float] = []
    graphs: list[float] = []
    count = 0
    for _ in range(runs):
        reference = mlir.seconds(path)
        if reference is not None:
            theirs.append(reference)
        trees.append(tree_seconds(text))
        seconds, count = graph_seconds(text)
        graphs.append(seconds)
    found = median(theirs) if theirs else None
    tree, graph = median(trees), median(graphs)
    megabytes = len(text) / 1e6
    return {
        "file": path.name,
        "megabytes": round(megabytes, 2),
        "instructions": count,
        "mlir_ms": found and round(found * 1e3, 1),
        "tree_ms": round(tree * 1e3, 1),
        "graph_ms": round(graph * 1e3, 1),
        "tree_mb_per_s": round(megabytes / tree, 1),
        "graph_mb_per_s": round(megabytes / graph, 1),
        "tree_over_mlir": found and round(found / tree, 2),
        "graph_over_mlir": found and round(found / graph, 2),
    }


def print_mlir_rows(files: list[Path], runs: int, *, as_json: bool) -> None:
    """Print one row a file of StableHLO."""
    if not as_json:
        print(
            f"{'file':36} {'MB':>6} {'instr.':>7} {'mlir ms':>8} {'tree ms':>9} {'graph ms':>8}"
            f" {'MB/s':>6} {'tree/mlir':>10} {'graph/mlir':>10}"
        )
    mlir = Reference(_MLIR_CHILD)
    for path in files:
        row = measure_mlir(path, mlir, runs)
        if as_json:
            print(json.dumps(row), flush=True)
            continue
        print(
            f"{row['file']:36} {row['megabytes']:>6} {row['instructions']:>7}"
            f" {row['mlir_ms'] or '-':>8} {row['tree_ms']:>9} {row['graph_ms']:>8}"
            f" {row['graph_mb_per_s']:>6} {row['tree_over_mlir'] or '-':>9}x"
            f" {row['graph_over_mlir'] or '-':>9}x",
            flush=True,
        )
    mlir.close()


def main() -> None:
    """Print one row a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    big = ROOT.parent / "shared" / "real" / "big"
    files = options.files or sorted([*big.glob("*.hlo.txt"), *big.glob("*.mlir")])
    if not files:
        sys.exit(f"no files: give some, or put them into {big}")
    stablehlo = [path for path in files if path.suffix == ".mlir"]
    files = [path for path in files if path.suffix != ".mlir"]
    if files:
        print_hlo_rows(files, options.runs, as_json=options.json)
    if stablehlo:
        print_mlir_rows(stablehlo, options.runs, as_json=options.json)


def print_hlo_rows(files: list[Path], runs: int, *, as_json: bool) -> None:
    """Print one row a file of HLO."""
    if not as_json:
        print(
            f"{'file':36} {'MB':>6} {'instr.':>7} {'xla ms':>8} {'strict ms':>9} {'query ms':>8}"
            f" {'MB/s':>6} {'instr./s':>9} {'strict/xla':>10} {'query/xla':>9} {'memory':>7}"
        )
    xla = Reference()
    for path in files:
        row = measure(path, xla, runs)
        if as_json:
            print(json.dumps(row), flush=True)
            continue
        print(
            f"{row['file']:36} {row['megabytes']:>6} {row['instructions']:>7}"
            f" {row['xla_ms'] or '-':>8} {row['strict_ms']:>9} {row['query_ms']:>8}"
            f" {row['strict_mb_per_s']:>6} {row['instructions_per_s']:>9}"
            f" {row['strict_over_xla'] or '-':>9}x {row['query_over_xla'] or '-':>8}x"
            f" {row['peak_over_text']:>6}x",
            flush=True,
        )
    xla.close()


if __name__ == "__main__":
    main()
