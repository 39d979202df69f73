"""Decisions about the largest dumps: CPU time and memory of commands, and of single questions.

A command is a process of its own.

python benchmarks/decisions.py [--json]
"""

from __future__ import annotations

import argparse
import compileall
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from hloscope.api import kernels_of, read
from hloscope.errors import HloscopeError
from hloscope.movement import Flow, chains_of

ROOT: Final = Path(__file__).resolve().parents[1]
SHARED: Final = Path(os.environ.get("HLOSCOPE_SHARED", ROOT.parent / "shared"))
QUESTIONS: Final = {
    "coalesce": ["coalesce", "--json"],
    "coalesce --xla": ["coalesce", "--xla"],
    "footprint": ["footprint", "--json"],
    "cancel": ["cancel", "--json"],
}
SINGLE: Final = 7
"""Kernels of a dump that single questions are asked of."""
_CHILD: Final = """
import resource, sys
from hloscope.__main__ import main
try:
    main()
finally:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(each.ru_utime + each.ru_stime for each in used)
    print(seconds, max(each.ru_maxrss for each in used) // 1024, file=sys.stderr)
"""


@cache
def _environment() -> dict[str, str]:
    """The environment of questions, when the package's bytecode is written."""
    compileall.compile_dir(ROOT / "hloscope", quiet=2)
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def asked(arguments: list[str]) -> dict[str, Any]:
    """One question, as a process of its own, with those that it starts.

    The bytecode of modules is there, as it is after the first command that a user gives.
    """
    environment, begin = _environment(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *arguments],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=environment,
    )
    waited = time.perf_counter() - begin
    *said, last = done.stderr.decode().splitlines()
    seconds, megabytes = last.split()
    return {
        "exit": done.returncode,
        "seconds": round(float(seconds), 2),
        "waited": round(waited, 2),
        "megabytes": int(megabytes),
        "said": said,
        "stdout": done.stdout,
    }


def counted(question: str, answer: dict[str, Any]) -> dict[str, Any]:
    """What the answer has: kernels and refusals, or chains by verdict."""
    if not question.startswith(("coalesce", "footprint", "cancel")) or "--xla" in question:
        return {}
    found = json.loads(answer["stdout"])
    if question == "cancel":
        kinds = found.get("verdicts") or {}
        return {"verdicts": kinds}
    return {"kernels": len(found["kernels"]), "refused": len(found.get("refused", []))}


def single(path: Path) -> Iterator[dict[str, Any]]:
    """CPU seconds of a first question to one kernel of a dump that has just been read.

    What was read stays read: all instructions are there before the question; nothing is analysed.
    """
    names = [ins.name for _, ins in kernels_of(read(path).module) if ins.op.name == "fusion"]
    picked = [names[k * len(names) // SINGLE] for k in range(SINGLE)]
    for question in ("coalescing", "tiles", "footprint", "cancellation"):
        spent = []
        for name in picked:
            program = read(path)
            for computation in program.module:
                for ins in computation:
                    _ = ins.operands
            kernel = program[name]
            gc.collect()  # the programs before it are not this question's
            begin = time.process_time()
            with suppress(HloscopeError):  # a refusal is an answer
                getattr(kernel, question)()
            spent.append(time.process_time() - begin)
        row = {"dump": path.name.partition("_")[0], "question": f"one {question}", "exit": 0}
        row |= {"seconds": round(statistics.median(spent), 3), "worst": round(max(spent), 3)}
        yield row | {"megabytes": 0, "kernels": len(picked)}


def verdicts() -> tuple[int, Counter[str]]:
    """How many programs of real/models there are, and the verdicts on all their chains."""
    kinds: Counter[str] = Counter()
    models = SHARED / "real" / "models"
    paths = sorted([*models.glob("*.gpu.opt.hlo.txt"), *models.glob("*.stablehlo.mlir")])
    for path in paths:
        kinds.update(str(chain.kind) for chain in chains_of(Flow(read(path).module)))
    return len(paths), kinds


def main() -> None:
    """Print a line, or an object, for each question to each dump."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    for path in sorted((SHARED / "real" / "big").glob("*.gpu.opt.hlo.txt")):
        for question, (command, *options) in QUESTIONS.items():
            answer = asked([command, str(path), *options])
            row = {"dump": path.name.partition("_")[0], "question": question}
            row |= {key: answer[key] for key in ("exit", "seconds", "megabytes")}
            row |= counted(question, answer)
            print(json.dumps(row) if as_json else "  ".join(map(str, row.values())), flush=True)
        for row in single(path):
            print(json.dumps(row) if as_json else "  ".join(map(str, row.values())), flush=True)


if __name__ == "__main__":
    main()
