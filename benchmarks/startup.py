"""How long commands take from a cold start: a new process each time, wall clock and CPU.

The best and the median of the runs.  On a busy machine the clock shows the others' work too; the
CPU time is the command's own.  One run goes before, so that the modules' bytecode is there, as it
is after the first command that a user gives.

python benchmarks/startup.py [--runs N] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
COMMANDS: Final = (
    ("python -c pass", None),
    ("hloscope --version", 0.05),
    ("hloscope --help", None),
    ("hloscope index examples/softmax.hlo", 0.15),
    ("hloscope ls examples/softmax.hlo", None),
    ("hloscope doctor tan.bc", 0.3),
    ("hloscope simplify '(d0) -> (d0 * 8 / 4), domain: d0 in [0, 9]'", None),
)
"""What is measured, and the limit in seconds where there is one."""
ARTIFACT: Final = "tan.bc"
"""Made of the text of this name in `examples` before it is needed."""


def seconds(command: str, runs: int) -> tuple[list[float], float]:
    """Wall time of each run, sorted; and the least CPU time."""
    program, *arguments = shlex.split(command)
    script = Path(sys.executable).with_name("hloscope")
    start = [str(script)] if script.exists() else [sys.executable, "-m", "hloscope"]
    argv = [*([sys.executable] if program == "python" else start), *arguments]
    times, cpu = [], []
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, env=environment)
    for _ in range(runs):
        begin, used = time.perf_counter(), cpu_of_children()
        subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, env=environment)
        times.append(time.perf_counter() - begin)
        cpu.append(cpu_of_children() - used)
    return sorted(times), min(cpu)


def cpu_of_children() -> float:
    """CPU seconds of all processes that this one started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(runs: int) -> list[dict[str, object]]:
    """One row for each command."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        artifact = Path(folder) / ARTIFACT
        seconds(f"hloscope serialize examples/tan.mlir -o {artifact}", 1)
        times_of = {
            command: seconds(command.replace(ARTIFACT, str(artifact)), runs)
            for command, _ in COMMANDS
        }
    for command, limit in COMMANDS:
        times, cpu = times_of[command]
        rows.append(
            {
                "command": command,
                "best": round(times[0], 3),
                "median": round(statistics.median(times), 3),
                "cpu": round(cpu, 3),
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
        print(
            f"{row['command']:64} best {row['best']:.3f} s  median {row['median']:.3f} s"
            f"  CPU {row['cpu']:.3f} s{limit}"
        )


if __name__ == "__main__":
    main()
