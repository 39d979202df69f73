"""Reading HLO texts: XLA's C++ parser, ours, and one answer about one fusion.

    python benchmarks/parse.py [--runs N] [--json] [FILE …]

Without files: every HLO text of `../shared/real/big`.  All are measured in the same run, in turns.
Times are of the processor, which the work of others on the machine changes least; each ratio is
given for the best and for the median of the runs.  XLA runs in a child process (it may abort), if
jaxlib is installed.

* `xla`: `jaxlib`'s `hlo_module_from_text`.
* `strict`: `parse_hlo(text, strict=True)`: every instruction with operands, type and op.
* `decoded`: `strict`, then `decode_module`, all that this leaves as text: the metadata of every
  instruction, the values of all constants (but those that the text leaves out), backend configs,
  frontend attributes, shardings, and the tables of stack frames.
* `query`: `parse_hlo(text)`, then the body of one fusion and what each of its instructions reads.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from statistics import median
from time import process_time
from typing import IO, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hloscope.hlo_parser import decode_module, parse_hlo  # noqa: E402

_CHILD: Final = """
import sys, time
from jax._src.lib import hlo
for line in sys.stdin:
    with open(line.rstrip("\\n"), encoding="utf-8") as file:
        text = file.read()
    start = time.process_time()
    module = hlo.hlo_module_from_text(text)
    print(time.process_time() - start, flush=True)
    del module
"""


class Reference:
    """A C++ parser in a child process; it answers a path with processor seconds."""

    def __init__(self, program: str = _CHILD) -> None:
        self._child: subprocess.Popen[str] | None = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def seconds(self, path: Path) -> tuple[float, ...]:
        """Return the times it takes for `path`, or none where it cannot."""
        if self._child is None:
            return ()
        stdin, stdout = _pipes(self._child)
        try:
            print(path, file=stdin, flush=True)
            times = tuple(map(float, stdout.readline().split()))
        except (OSError, ValueError):
            times = ()
        if not times:
            self._child = None
        return times

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            _pipes(self._child)[0].close()
            self._child.wait()


def _pipes(child: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert child.stdin is not None
    assert child.stdout is not None
    return child.stdin, child.stdout


def ratio(theirs: list[float], ours: list[float]) -> tuple[float, float] | None:
    """How many times as fast ours is: by the best of both, and by their medians."""
    if not theirs:
        return None
    best, middle = min(theirs) / min(ours), median(theirs) / median(ours)
    return round(best, 2), round(middle, 2)


def load() -> float:
    """The load of the machine in the last minute, by its cores."""
    return round(os.getloadavg()[0] / (os.cpu_count() or 1), 1)


def strict_seconds(text: str) -> tuple[float, float, int]:
    """Return the time of a strict parse, of all in it decoded, and the number of instructions."""
    gc.collect()
    start = process_time()
    module = parse_hlo(text, strict=True)
    strict = process_time() - start
    decode_module(module)
    decoded = process_time() - start
    return strict, decoded, sum(len(computation) for computation in module)


def query_seconds(text: str) -> float:
    """Return the time from the text to what every instruction of one fusion reads."""
    gc.collect()
    start = process_time()
    module = parse_hlo(text)
    names = [name for name in module.computations if name.startswith("fused")]
    fused = module.computations[names[len(names) // 2]] if names else next(iter(module))
    answer = [(ins.name, ins.type, [o.name for o in ins.operands]) for ins in fused]
    seconds = process_time() - start
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


def measure(path: Path, xla: Reference, runs: int) -> dict[str, object]:
    """Return the figures of one file."""
    text = path.read_text(encoding="utf-8")
    theirs: list[float] = []
    strict: list[float] = []
    decoded: list[float] = []
    queries: list[float] = []
    count = 0
    for _ in range(runs):
        theirs += xla.seconds(path)
        seconds, both, count = strict_seconds(text)
        strict.append(seconds)
        decoded.append(both)
        queries.append(query_seconds(text))
    megabytes = len(text) / 1e6
    return {
        "file": path.name,
        "megabytes": round(megabytes, 2),
        "instructions": count,
        "xla_ms": round(min(theirs) * 1e3, 1) if theirs else None,
        "strict_ms": round(min(strict) * 1e3, 1),
        "decoded_ms": round(min(decoded) * 1e3, 1),
        "query_ms": round(min(queries) * 1e3, 1),
        "strict_mb_per_s": round(megabytes / min(strict), 1),
        "instructions_per_s": round(count / min(strict)),
        "strict_over_xla": ratio(theirs, strict),
        "decoded_over_xla": ratio(theirs, decoded),
        "query_over_xla": ratio(theirs, queries),
        "peak_over_text": round(peak_ratio(text), 1),
        "load": load(),
    }


def arguments(what: str, pattern: str) -> tuple[list[Path], int, bool]:
    """The files to measure, how often, and whether to print JSON, from the command line."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    big = ROOT.parent / "shared" / "real" / "big"
    files = options.files or sorted(big.glob(pattern))
    if not files:
        sys.exit(f"no files: give some, or put them into {big}")
    return files, options.runs, options.json


def print_row(row: dict[str, object], widths: dict[str, int], *, as_json: bool) -> None:
    """Print a row as JSON, or its columns."""
    if as_json:
        print(json.dumps(row), flush=True)
        return
    cells = [_cell(row[name]).rjust(width) for name, width in widths.items()]
    print(f"{row['file']:36} {' '.join(cells)}", flush=True)


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return " / ".join(f"{part}x" for part in value)
    return "-" if value is None else str(value)


def print_heads(widths: dict[str, int]) -> None:
    """Print the names of the columns."""
    print(f"{'file':36} {' '.join(name.rjust(width) for name, width in widths.items())}")


_WIDTHS: Final = {
    "megabytes": 9, "instructions": 12, "xla_ms": 8, "strict_ms": 9, "decoded_ms": 10,
    "query_ms": 8, "strict_mb_per_s": 15, "instructions_per_s": 18, "strict_over_xla": 15,
    "decoded_over_xla": 16, "query_over_xla": 15, "peak_over_text": 14, "load": 5,
}  # fmt: skip


def main() -> None:
    """Print one row a file."""
    about = __doc__.splitlines()[0] if __doc__ else ""
    files, runs, as_json = arguments(about, "*.hlo.txt")
    if not as_json:
        print_heads(_WIDTHS)
    xla = Reference()
    for path in files:
        print_row(measure(path, xla, runs), _WIDTHS, as_json=as_json)
    xla.close()


if __name__ == "__main__":
    main()
