"""Reading, verifying and printing StableHLO: MLIR in jaxlib, and ours.

    python benchmarks/parse_mlir.py [--runs N] [--json] [FILE …]

Without files: every StableHLO text of `../shared/real/big`.  All are measured in the same run, in
turns.  Times are of the processor, which the work of others on the machine changes least (JAX runs
MLIR with one thread); each ratio is given for the best and for the median of the runs.

* `mlir`: `jaxlib`'s `Module.parse`, which verifies too; `mlir_verify` is that of `Module` once
  more, `mlir_print` that of its text.
* `tree`: `parse_mlir(text)`: the syntax tree, with every attribute and type.
* `graph`: `parse_stablehlo(text)` with all computations: every instruction with operands, type, op.
* `verify`: `verify_mlir(tree)` of a tree that was read just now, so that nothing is known yet.
* `print`: `print_mlir(tree)` of another such.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from time import process_time
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.parse import (  # noqa: E402
    Reference,
    arguments,
    load,
    print_heads,
    print_row,
    ratio,
)
from hloscope.mlir import parse_mlir, print_mlir  # noqa: E402
from hloscope.mlir.dialects import DIALECTS  # noqa: E402
from hloscope.stablehlo import parse_stablehlo  # noqa: E402
from hloscope.verifier import verify_mlir  # noqa: E402

_CHILD: Final = """
import sys, time
from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
with make_ir_context():
    for line in sys.stdin:
        with open(line.rstrip("\\n"), encoding="utf-8") as file:
            text = file.read()
        times = [time.process_time()]
        module = ir.Module.parse(text)
        times.append(time.process_time())
        assert module.operation.verify()
        times.append(time.process_time())
        module.operation.get_asm()
        times.append(time.process_time())
        print(*[b - a for a, b in zip(times, times[1:])], flush=True)
        del module
"""


def tree_seconds(text: str) -> float:
    """Return the time of reading the syntax tree."""
    gc.collect()
    start = process_time()
    tree = parse_mlir(text, dialects=DIALECTS)
    seconds = process_time() - start
    assert tree.regions
    return seconds


def graph_seconds(text: str) -> tuple[float, int]:
    """Return the time from the text to the program graph, and the number of instructions."""
    gc.collect()
    start = process_time()
    module = parse_stablehlo(text)
    count = sum(len(computation) for computation in module)
    return process_time() - start, count


def verify_seconds(text: str) -> float:
    """Return the time of verifying a tree."""
    tree = parse_mlir(text, dialects=DIALECTS)
    gc.collect()
    start = process_time()
    findings = verify_mlir(tree)
    seconds = process_time() - start
    assert not findings
    return seconds


def print_seconds(text: str) -> float:
    """Return the time of printing a tree."""
    tree = parse_mlir(text, dialects=DIALECTS)
    gc.collect()
    start = process_time()
    printed = print_mlir(tree, dialects=DIALECTS)
    seconds = process_time() - start
    assert printed
    return seconds


def measure(path: Path, mlir: Reference, runs: int) -> dict[str, object]:
    """Return the figures of one file."""
    text = path.read_text(encoding="utf-8")
    theirs: list[tuple[float, ...]] = []
    ours: list[tuple[float, ...]] = []
    count = 0
    for _ in range(runs):
        reference = mlir.seconds(path)
        theirs += [reference] if reference else []
        graph, count = graph_seconds(text)
        ours.append((tree_seconds(text), graph, verify_seconds(text), print_seconds(text)))
    tree_, graph_, verify_, print_ = ([row[i] for row in ours] for i in range(4))
    mlir_, mlir_verify, mlir_print = ([row[i] for row in theirs] for i in range(3))
    return {
        "file": path.name,
        "megabytes": round(len(text) / 1e6, 2),
        "instructions": count,
        "mlir_ms": milliseconds(mlir_),
        "tree_ms": milliseconds(tree_),
        "graph_ms": milliseconds(graph_),
        "mlir_verify_ms": milliseconds(mlir_verify),
        "verify_ms": milliseconds(verify_),
        "mlir_print_ms": milliseconds(mlir_print),
        "print_ms": milliseconds(print_),
        "tree_over_mlir": ratio(mlir_, tree_),
        "graph_over_mlir": ratio(mlir_, graph_),
        "verify_over_mlir": ratio(mlir_verify, verify_),
        "print_over_mlir": ratio(mlir_print, print_),
        "load": load(),
    }


def milliseconds(times: list[float]) -> float | None:
    """The best of the times."""
    return round(min(times) * 1e3, 1) if times else None


_WIDTHS: Final = {
    "megabytes": 9, "instructions": 12, "mlir_ms": 7, "tree_ms": 7, "graph_ms": 8,
    "mlir_verify_ms": 14, "verify_ms": 9, "mlir_print_ms": 13, "print_ms": 8,
    "tree_over_mlir": 15, "graph_over_mlir": 15, "verify_over_mlir": 16, "print_over_mlir": 15,
    "load": 5,
}  # fmt: skip


def main() -> None:
    """Print one row a file."""
    about = __doc__.splitlines()[0] if __doc__ else ""
    files, runs, as_json = arguments(about, "*.mlir")
    if not as_json:
        print_heads(_WIDTHS)
    mlir = Reference(_CHILD)
    for path in files:
        print_row(measure(path, mlir, runs), _WIDTHS, as_json=as_json)
    mlir.close()


if __name__ == "__main__":
    main()
