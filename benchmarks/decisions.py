"""Decisions about the largest dumps, each command as a process: its CPU time, memory and answers.

python benchmarks/decisions.py [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
SHARED: Final = Path(os.environ.get("HLOSCOPE_SHARED", ROOT.parent / "shared"))
QUESTIONS: Final = {
    "coalesce": ["coalesce", "--json"],
    "coalesce --xla": ["coalesce", "--xla"],
    "footprint": ["footprint", "--json"],
    "cancel": ["cancel", "--json"],
}
_CHILD: Final = """
import resource, sys
from hloscope.__main__ import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss // 1024, file=sys.stderr)
"""


def asked(arguments: list[str]) -> dict[str, Any]:
    """One question, as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *arguments], capture_output=True, check=False, cwd=ROOT
    )
    *said, last = done.stderr.decode().splitlines()
    seconds, megabytes = last.split()
    return {
        "exit": done.returncode,
        "seconds": round(float(seconds), 2),
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
            print(json.dumps(row) if as_json else "  ".join(map(str, row.values())))


if __name__ == "__main__":
    main()
