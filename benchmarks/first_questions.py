"""What a newcomer asks of the largest dumps: how long it takes, memory and length of each answer.

    python benchmarks/first_questions.py [--json] [PART …]

Each question is a process of its own, start-up included; with PARTs, those in whose line one of
them stands.  Told are the time until it ends, CPU time with that of child processes, and the memory
of the largest process.  A question is `met` if its exit code is 0 (or 1, of rules that do not hold)
and it stays within its limits: it ends after 3 s, and where maps of the whole dump are wanted,
10 s, 300 MB and 25 MB of JSON.  The exit code is 1 where one is not met.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.decisions import asked  # noqa: E402

SHARED: Final = Path(os.environ.get("HLOSCOPE_SHARED", ROOT.parent / "shared"))


@dataclass(frozen=True, slots=True)
class Limits:
    """Most seconds until it ends, megabytes of memory, and megabytes of the answer."""

    seconds: float = 3.0
    megabytes: float = 500.0
    answer: float = 25.0


SOON: Final = Limits()
MAPS: Final = Limits(10, 300, 25)
ALL_OUTPUTS: Final = Limits(15, 500, 25)
PROVED: Final = Limits(90, 500, 50)
AT_ONCE: Final = Limits(1)
LARGE: Final = {
    "ls": SOON,
    "ls --all --tsv": SOON,
    "ls --tree": SOON,
    "ls --fusions --json": SOON,
    "ls --source *.py --top 20": SOON,
    "show": SOON,
    "print": SOON,
    "verify": SOON,
    "infer": SOON,
    "index": SOON,
    "index --json": MAPS,
    "index --all --json": MAPS,
    "index --to-parameters --json": ALL_OUTPUTS,
    "check --rule copies --rule collectives --rule precision": SOON,
    "html": SOON,
}
"""Questions to the optimised dumps for the GPU, and their limits."""
SMALL: Final = {
    "gpt2_tiny12_train_step.opt.hlo.txt": ("index --all --verify", PROVED),
    "vit_fwd.gpu.opt.hlo.txt": ("index --all --to-parameters", AT_ONCE),
    "mlp_mixer_fwd.opt.hlo.txt": ("index --all --to-parameters", AT_ONCE),
    "resnet_block_bn_train.gpu.opt.hlo.txt": ("index --all --to-parameters", AT_ONCE),
}
"""Questions to dumps of about 100 kB, and one about proof."""


def questions() -> Iterator[tuple[Path, str, Limits]]:
    """Yield the file, the question and its limits."""
    for path in sorted((SHARED / "real" / "big").glob("*.gpu.opt.hlo.txt")):
        for question, limits in LARGE.items():
            yield path, question, limits
    for name, (question, limits) in SMALL.items():
        path = SHARED / "real" / "models" / name
        if path.is_file():
            yield path, question, limits


def measured(path: Path, question: str, limits: Limits) -> dict[str, Any]:
    """The figures of one question."""
    command, *options = question.split()
    name = ["*fusion*"] if command == "show" else []
    out = ["-o", os.devnull] if command == "html" else []
    found = asked([command, str(path), *name, *options, *out])
    length = len(found["stdout"]) / 1e6
    met = (
        found["exit"] in ((0, 1) if command == "check" else (0,))
        and found["waited"] <= limits.seconds
        and found["megabytes"] <= limits.megabytes
        and length <= limits.answer
    )
    return {
        "dump": path.name.partition(".")[0],
        "question": question,
        "exit": found["exit"],
        "waited": found["waited"],
        "seconds": found["seconds"],
        "megabytes": found["megabytes"],
        "answer_mb": round(length, 2),
        "met": met,
    }


def main() -> None:
    """Print a line, or an object, for each question."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    met = True
    for path, question, limits in questions():
        line = f"{path.name} {question}"
        if options.parts and not any(part in line for part in options.parts):
            continue
        row = measured(path, question, limits)
        met &= row["met"]
        print(json.dumps(row) if options.json else "  ".join(map(str, row.values())), flush=True)
    sys.exit(not met)


if __name__ == "__main__":
    main()
