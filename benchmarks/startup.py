"""How long commands take from a cold start: a new process each time, the best and the median.

python benchmarks/startup.py [--runs N] [--json]
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
COMMANDS: Final = (
    ("python -c pass", None),
    ("hloscope --version", 0.15),
    ("hloscope --help", None),
    ("hloscope index examples/softmax.hlo", 0.3),
    ("hloscope ls examples/softmax.hlo", None),
    ("hloscope simplify '(d0) -> (d0 * 8 / 4), domain: d0 in [0, 9]'", None),
)
"""What is measured, and the limit in seconds where there is one."""


def seconds(command: str, runs: int) -> list[float]:
    """Wall time of each run, sorted."""
    program, *arguments = shlex.split(command)
    script = Path(sys.executable).with_name("hloscope")
    start = [str(script)] if script.exists() else [sys.executable, "-m", "hloscope"]
    argv = [*([sys.executable] if program == "python" else start), *arguments]
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return sorted(times)


def measure(runs: int) -> list[dict[str, object]]:
    """One row for each command."""
    rows: list[dict[str, object]] = []
    for command, limit in COMMANDS:
        times = seconds(command, runs)
        rows.append(
            {
                "command": command,
                "best": round(times[0], 3),
                "median": round(statistics.median(times), 3),
                "limit": limit,
            }
        )
    return rows


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.runs)
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        limit = f"  limit {row['limit']} s" if row["limit"] else ""
        print(f"{row['command']:64} best {row['best']:.3f} s  median {row['median']:.3f} s{limit}")


if __name__ == "__main__":
    main()
