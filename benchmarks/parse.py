"""Reading HLO text: XLA's own C++ parser, our strict parse, and one answer about one fusion.

    python benchmarks/parse.py [--runs N] [--json] [FILE …]

Without files: every text of `../shared/real/big`.  All three are measured in the same run, in
turns, so that a busy machine slows all of them; figures are medians.  XLA's parser runs in a
child process (it may abort), if jaxlib is installed.

* `xla`: `jaxlib`'s `hlo_module_from_text`.
* `strict`: `parse_hlo(text, strict=True)`: every instruction with operands, type and op.
* `query`: `parse_hlo(text)`, then the body of one fusion and what each of its instructions reads.
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

from hloscope.hlo_parser import parse_hlo  # noqa: E402

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


class Xla:
    """XLA's parser in a child process."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def seconds(self, path: Path) -> float | None:
        """Return the time XLA takes to parse `path`, or `None` where it cannot."""
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


def measure(path: Path, xla: Xla, runs: int) -> dict[str, float | int | str | None]:
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


def main() -> None:
    """Print one row a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    big = ROOT.parent / "shared" / "real" / "big"
    files = options.files or sorted(big.glob("*.hlo.txt"))
    if not files:
        sys.exit(f"no files: give some, or put them into {big}")
    if not options.json:
        print(
            f"{'file':36} {'MB':>6} {'instr.':>7} {'xla ms':>8} {'strict ms':>9} {'query ms':>8}"
            f" {'MB/s':>6} {'instr./s':>9} {'strict/xla':>10} {'query/xla':>9} {'memory':>7}"
        )
    xla = Xla()
    for path in files:
        row = measure(path, xla, options.runs)
        if options.json:
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
