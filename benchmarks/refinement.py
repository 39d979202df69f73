"""Programs of run-time sizes refined beside jaxlib, and broken ones.

    python benchmarks/refinement.py [--runs N] [--mutated COUNT] [--seed S] [--json]

Refines the programs of `testdata/dynamic` to the recorded sizes, by `remove-dynamism`, verified
after each pass, and jaxlib does the same in a child process; reading and printing are not counted,
times are those of the processor.  With --mutated changed programs are refined and explained: what
is not an answer or a `HloscopeError` is counted, and what takes more than 2 s.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.measuring import HAS_XLA  # noqa: E402
from hloscope.errors import HloscopeError  # noqa: E402
from hloscope.mlir import parse_mlir, print_mlir  # noqa: E402
from hloscope.mlir.dialects import DIALECTS  # noqa: E402
from hloscope.passes import explain, parse_pipeline, run_pipeline  # noqa: E402
from hloscope.verifier import verify_mlir  # noqa: E402
from tests.passes import dynamic_corpus  # noqa: E402
from tests.passes.dynamic_mutations import mutations  # noqa: E402

SOON = 2.0
_CHILD = """
import json, sys, time
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo
from jax._src.interpreters.mlir import make_ir_context
stablehlo.register_stablehlo_passes()
best = None
for _ in range(int(sys.argv[1])):
    total = 0.0
    with make_ir_context():
        for line in open(sys.argv[2]):
            text, pipeline = json.loads(line)
            module = ir.Module.parse(text)
            passes = passmanager.PassManager.parse(pipeline)
            begin = time.process_time()
            passes.run(module.operation)
            total += time.process_time() - begin
    best = total if best is None else min(best, total)
print(best)
"""


def pipeline_of(record: dict[str, Any]) -> str:
    """`remove-dynamism` with the recorded types."""
    return f"remove-dynamism{{types={','.join(record['types'])}}}"


def ours(runs: int) -> dict[str, Any]:
    """How many programs become what is recorded, and the least time all of them take."""
    records = list(dynamic_corpus.records())
    work = []
    for record in records:
        tree = parse_mlir(
            dynamic_corpus.path_of(record).read_text(), record["file"], dialects=DIALECTS
        )
        tree = dynamic_corpus.with_sizes(tree, record["dims"])
        work.append((tree, parse_pipeline(pipeline_of(record))))
    equal = 0
    for record, (tree, steps) in zip(records, work, strict=True):
        outcome = run_pipeline(tree, steps)
        equal += outcome.ok and dynamic_corpus.text_of(outcome.module) == record["text"]
    best = float("inf")
    for _ in range(runs):
        begin = time.process_time()
        for tree, steps in work:
            run_pipeline(tree, steps)
        best = min(best, time.process_time() - begin)
    return {"programs": len(work), "equal": equal, "seconds": round(best, 3)}


def theirs(runs: int, file: Path) -> float | None:
    """The least time jaxlib takes for the same; nothing if it is not there."""
    if not HAS_XLA:
        return None
    with file.open("w") as lines:
        for record in dynamic_corpus.records():
            tree = parse_mlir(dynamic_corpus.path_of(record).read_text(), dialects=DIALECTS)
            text = print_mlir(dynamic_corpus.with_sizes(tree, record["dims"]), dialects=DIALECTS)
            types = ",".join(record["types"])
            pipeline = (
                f"builtin.module(stablehlo-refine-arguments{{types={types}}},"
                "stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism))"
            )
            lines.write(json.dumps([text, pipeline]) + "\n")
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(runs), str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    return float(child.stdout) if child.returncode == 0 else None


def broken(count: int, seed: int) -> dict[str, Any]:
    """What becomes of changed programs."""
    counts: Counter[str] = Counter()
    slowest, late = 0.0, 0
    for text, types in mutations(count, seed):
        begin = time.process_time()
        counts[_answer(text, types)] += 1
        seconds = time.process_time() - begin
        slowest, late = max(slowest, seconds), late + (seconds > SOON)
    return {"counts": dict(counts), "slowest": round(slowest, 2), "late": late}


def _answer(text: str, types: list[str]) -> str:
    try:
        tree = parse_mlir(text, dialects=DIALECTS)
        if verify_mlir(tree, first_only=True):
            return "refused"
        given = f"{{types={','.join(types)}}}" if types else ""
        outcome = run_pipeline(tree, parse_pipeline(f"remove-dynamism{given}"))
        explain(outcome.module)
        print_mlir(outcome.module, dialects=DIALECTS)
    except HloscopeError:
        return "refused"
    except Exception as error:  # what must not happen is counted, not raised
        return f"{type(error).__name__}: {error}"[:200]
    return "refined" if outcome.ok else "not refined"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--mutated", type=int, default=0, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.mutated:
        row = broken(options.mutated, options.seed)
    else:
        row = ours(options.runs)
        with tempfile.TemporaryDirectory() as folder:
            found = theirs(options.runs, Path(folder) / "programs.jsonl")
        row["jaxlib_seconds"] = found and round(found, 3)
        row["over_jaxlib"] = found and round(row["seconds"] / found, 1)
    print(json.dumps(row) if options.json else "\n".join(f"{k}: {v}" for k, v in row.items()))


if __name__ == "__main__":
    main()
