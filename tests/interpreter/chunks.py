"""Runs the executable chunks of the conformance data and says how each one ends.

    python -m tests.interpreter.chunks [--dir interpret|chlo|math|testdata|quantized]
        [--failures PART] [--sample N] [--file PART] [--slow]

RUNNER.md beside the data says how they are driven and judged.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hloscope.errors import HloscopeError, UnsupportedError, VerifyError
from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.ops.checking import PRINT, PROBE
from hloscope.interpreter.values import EvaluationError, World
from hloscope.ir.graph import Computation
from hloscope.mlir.ir import ArrayAttr, DenseAttr
from hloscope.mlir.literals import to_array
from hloscope.mlir.text.lexer import split_input
from hloscope.mlir.text.parser import parse_attribute
from hloscope.stablehlo import parse_stablehlo
from hloscope.stablehlo.graph import Function
from tests.conftest import SHARED

ROOT = SHARED / "conformance" / "stablehlo"
MANIFESTS = {
    "interpret": "interpret",
    "chlo": "interpret",
    "math": "math",
    "testdata": "testdata",
    "quantized": "testdata_quantized",
}
PASS, WRONG, UNSUPPORTED, ERROR, CRASH = "pass", "wrong", "unsupported", "error", "crash"


@dataclass(frozen=True)
class Chunk:
    """One module of a file.

    Attributes:
        file: Path of the file inside the conformance data.
        number: Which module of the file it is.
        line: Line of the file on which it begins.
        text: What it is.
        record: What the manifest says about the file.
    """

    file: str
    number: int
    line: int
    text: str
    record: Mapping[str, Any] = field(repr=False)

    @property
    def id(self) -> str:
        return f"{self.file}#{self.number}"

    @property
    def is_disabled(self) -> bool:
        """Does upstream not run it?"""
        return bool(self.record["run_disabled"])


@dataclass(frozen=True)
class Outcome:
    """How a chunk ended: `status`, the reason in a few words, and the whole of it."""

    chunk: Chunk
    status: str
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0
    printed: str = ""
    results: tuple[Any, ...] = ()


def chunks(name: str) -> Iterator[Chunk]:
    """The chunks of one part of the conformance data."""
    manifest = json.loads((ROOT / "manifest" / f"{MANIFESTS[name]}.json").read_text())
    for record in manifest["files"]:
        path = record["file"].removeprefix("stablehlo/").removeprefix("tests/")
        if name in ("interpret", "chlo") and ("/chlo/" in path) != (name == "chlo"):
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        pieces = split_input(text) if record["split"] else [(1, text)]
        for number, (line, piece) in enumerate(pieces):
            yield Chunk(path, number, line, piece, record)


def run(chunk: Chunk, probes: Path | None = None) -> Outcome:
    """Read and evaluate one chunk.

    Args:
        chunk: What to run.
        probes: Folder for probes, one for all chunks of a file.
    """
    printed: list[str] = []
    begin = time.perf_counter()

    def ended(status: str, reason: str = "", detail: object = "", results: Any = ()) -> Outcome:
        seconds = time.perf_counter() - begin
        return Outcome(
            chunk, status, reason, str(detail), seconds, "\n".join(printed), tuple(results)
        )

    if not re.sub(r"//[^\n]*", "", chunk.text).strip():
        return ended(PASS)
    world = World(extra={PRINT: printed.append, PROBE: probes})
    try:
        module = parse_stablehlo(chunk.text, name=chunk.id)
        program = entry(module.computations)
        world.functions, world.spell = module.computations, module.spell
        results = evaluate(program, arguments(chunk), world)
    except Exception as error:  # a bug too: the table says where
        return ended(*how_it_failed(error))
    return ended(PASS, results=results)


def how_it_failed(error: Exception) -> tuple[str, str, object]:
    """Status, reason and detail of an evaluation that ended with an error."""
    match error:
        case UnsupportedError():
            return UNSUPPORTED, error.message.partition(":")[0], error
        case EvaluationError():
            return WRONG, error.message.partition(":")[0], error
        case HloscopeError():
            return ERROR, f"{type(error).__name__}: {error.message}"[:80], error
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(where.filename).name}:{where.lineno}"
    reason = f"{type(error).__name__} in {place}: {error}".splitlines()[0][:100]
    return CRASH, reason, "".join(traceback.format_exception(error))


def entry(computations: Mapping[str, Computation]) -> Computation:
    """The function `main`, else the only function there is."""
    if "main" in computations:
        return computations["main"]
    functions = [c for c in computations.values() if isinstance(c, Function)]
    if len(functions) != 1:
        raise VerifyError("module must have entry func with name main")
    return functions[0]


def arguments(chunk: Chunk) -> list[Any]:
    """What the command line of the file passes."""
    found: list[Any] = []
    for text in chunk.record["driver_args"][:1]:
        attribute = parse_attribute(text)
        assert isinstance(attribute, ArrayAttr)
        for element in attribute.elements:
            assert isinstance(element, DenseAttr)
            found.append(to_array(element))
    return found


def run_all(name: str, file: str = "", sample: int = 1) -> Iterator[Outcome]:
    """Run the chunks of a part, of files whose names contain `file`, every `sample`-th of them."""
    with tempfile.TemporaryDirectory() as folder:
        for number, chunk in enumerate(chunks(name)):
            if number % sample == 0 and file in chunk.file:
                probes = Path(folder) / chunk.file
                probes.mkdir(parents=True, exist_ok=True)
                yield run(chunk, probes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", choices=MANIFESTS, action="append", help="which part; all if none")
    parser.add_argument("--failures", metavar="PART", help="show failures whose reason has PART")
    parser.add_argument("--file", metavar="PART", default="", help="only files whose name has PART")
    parser.add_argument("--sample", metavar="N", type=int, default=1, help="only every N-th chunk")
    parser.add_argument("--slow", action="store_true", help="show the ten slowest chunks")
    given = parser.parse_args()
    failed = 0
    for name in given.dir or MANIFESTS:
        outcomes = list(run_all(name, given.file, given.sample))
        failed += _report(name, outcomes, given.failures)
        if given.slow:
            for o in sorted(outcomes, key=lambda o: -o.seconds)[:10]:
                print(f"  {o.seconds * 1e3:9.1f} ms  {o.chunk.id}")
    return min(failed, 1)


def _report(name: str, outcomes: list[Outcome], part: str | None) -> int:
    """Print the table of a part; how many chunks that upstream runs do not pass."""
    ran = [o for o in outcomes if not o.chunk.is_disabled]
    off = [o for o in outcomes if o.chunk.is_disabled]
    good = sum(o.status == PASS for o in ran)
    seconds = sum(o.seconds for o in outcomes)
    extra = f", disabled upstream {sum(o.status == PASS for o in off)}/{len(off)}" if off else ""
    print(f"{name}: {good}/{len(ran)} pass{extra} ({seconds:.1f} s)")
    reasons = Counter((o.status, o.reason) for o in ran if o.status != PASS)
    for (status, reason), count in reasons.most_common():
        print(f"  {count:5}  {status:12} {reason}")
    for o in outcomes:
        if part is not None and o.status != PASS and part in f"{o.status} {o.reason} {o.chunk.id}":
            off_note = " (disabled upstream)" if o.chunk.is_disabled else ""
            print(f"\n--- {o.chunk.id}, line {o.chunk.line}{off_note}: {o.status}\n{o.detail}")
    return len(ran) - good


if __name__ == "__main__":
    sys.exit(main())
