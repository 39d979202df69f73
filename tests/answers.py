"""Hashes of every answer about the shared programs, with the processor time of each family.

Changes that should not change an answer are judged by it: hash before, hash after, compare.

    python -m tests.answers hash before.jsonl              # every program: half a day of one core
    python -m tests.answers hash before.jsonl --sample 20  # every 20th: half an hour
    python -m tests.answers hash before.jsonl --family index --family cost
    python -m tests.answers compare before.jsonl after.jsonl

An answer is what a command writes to the standard output and the standard error, and its exit code.
Each command runs in a process of its own, forked from one that has loaded the library, and is ended
after `SECONDS` of processor time; such an answer is `unfinished` and equal to any other.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from io import BufferedRandom
from pathlib import Path
from pkgutil import walk_packages
from typing import Final

import hloscope
from hloscope.cli import command
from tests.conftest import SHARED

SECONDS: Final = 20
"""Processor time of one command."""
BYTES: Final = 8 << 30
"""Address space of one command."""
FOLDERS: Final = ("real/big", "real/corpus", "real/models", "regressions", "conformance")
ENDINGS: Final = (".hlo", ".mlir", ".hlo.txt", ".bc", ".txt")
PROGRAM: Final = "{}"
"""Where a command takes the program; where it stands twice, the program before it comes first."""
FAMILIES: Final[dict[str, list[str]]] = {
    "index": ["index", "--all", "--json", "-j", "1", PROGRAM],
    "from-operand": ["index", "--from-operand", "0", "--json", PROGRAM],
    "to-parameters": ["index", "--to-parameters", "--json", PROGRAM],
    "coalesce": ["coalesce", "--as-if", "h100", "--json", PROGRAM],
    "cost": ["cost", "--json", PROGRAM],
    "tile": ["tile", "--space", "--json", PROGRAM],
    "cancel": ["cancel", "--json", PROGRAM],
    "verify": ["verify", "--json", PROGRAM],
    "infer": ["infer", "--json", PROGRAM],
    "run": ["run", "--random", "0", "--max-flops", "1000000", "--dense", PROGRAM],
    "opt": ["opt", "--fold", PROGRAM],
    "refine": ["refine", "--explain", PROGRAM],
    "serialize": ["serialize", "--target", "current", PROGRAM],
    "print": ["print", PROGRAM],
    "diff": ["diff", "--json", PROGRAM, PROGRAM],
}
"""The commands of each family of answers."""


@dataclass(frozen=True)
class Answer:
    """The answer of one command about one program.

    Attributes:
        family: The family of the command.
        program: The program's path below the shared folder.
        code: The exit code; -1 if the command was ended.
        hash: SHA-256 of what it wrote, in hexadecimal.
        seconds: Processor time.
        kilobytes: The largest resident memory.
    """

    family: str
    program: str
    code: int
    hash: str
    seconds: float
    kilobytes: int


def programs() -> Iterator[str]:
    """Paths of the shared programs below the shared folder, those of a folder in order."""
    for folder in FOLDERS:
        for path in sorted((SHARED / folder).rglob("*")):
            if path.is_file() and path.name.endswith(ENDINGS):
                yield str(path.relative_to(SHARED))


class Question:
    """A command about a program, which runs in a process of its own."""

    def __init__(self, family: str, program: str, before: str) -> None:
        """Start it; a command about two programs takes the one before, too."""
        self.family: Final = family
        self.program: Final = program
        files = iter((before, program) if FAMILIES[family].count(PROGRAM) == 2 else (program,))
        arguments = [next(files) if word == PROGRAM else word for word in FAMILIES[family]]
        self.output: Final[BufferedRandom] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process: Final = os.fork()
        if self.process == 0:
            _run(arguments, self.output.fileno())

    def ended(self, status: int, usage: resource.struct_rusage) -> Answer:
        """The answer, once the process has ended."""
        with self.output as output:
            output.seek(0)
            digest = hashlib.file_digest(output, "sha256").hexdigest()
        code = max(os.waitstatus_to_exitcode(status), -1)
        spent = round(usage.ru_utime + usage.ru_stime, 3)
        return Answer(self.family, self.program, code, digest, spent, usage.ru_maxrss)


def answers(asked: list[tuple[str, str, str]], jobs: int) -> Iterator[Answer]:
    """Answers to questions, as they come, from several processes at a time."""
    waiting = asked[::-1]
    running: dict[int, Question] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            question = Question(*waiting.pop())
            running[question.process] = question
        process, status, usage = os.wait4(-1, 0)
        yield running.pop(process).ended(status, usage)


def _run(arguments: list[str], output: int) -> None:
    """Run the command in this process, a child, and end it: nothing of the parent's goes on."""
    code = 70
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdin = open(os.devnull)  # noqa: SIM115
        command()(arguments, prog_name="hloscope")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def record(target: Path, families: list[str], step: int, jobs: int) -> None:
    """Write the answers of families about every `step`-th program, a JSON object a line."""
    os.chdir(SHARED)
    chosen = list(programs())[::step]
    asked = [
        (family, program, chosen[max(k - 1, 0)])
        for family in families
        for k, program in enumerate(chosen)
    ]
    with target.open("w") as file:
        for done, found in enumerate(answers(asked, jobs), 1):
            file.write(json.dumps(asdict(found)) + "\n")
            file.flush()  # else a forked process would write it again
            if done % 100 == 0:
                print(f"\r{done} of {len(asked)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def read(path: Path) -> dict[tuple[str, str], Answer]:
    """The answers of a file, by family and program."""
    found = [Answer(**json.loads(line)) for line in path.read_text().splitlines()]
    return {(one.family, one.program): one for one in found}


def compare(before: Path, after: Path) -> int:
    """Print the answers that differ, and the time of each family; the number of different ones."""
    old, new = read(before), read(after)
    both = [key for key in old if key in new]
    ended = [key for key in both if min(old[key].code, new[key].code) < 0]
    changed = [
        key
        for key in both
        if key not in {*ended} and (old[key].code, old[key].hash) != (new[key].code, new[key].hash)
    ]
    for family, program in changed:
        codes = f"{old[family, program].code} -> {new[family, program].code}"
        print(f"different: {family} {program} (exit code {codes})")
    print(
        f"{'family':14} {'answers':>8} {'different':>10} {'seconds':>9} {'before':>9} {'ratio':>6}"
    )
    for family in dict.fromkeys(family for family, _ in both):
        keys = [key for key in both if key[0] == family]
        spent, was = [sum(side[key].seconds for key in keys) for side in (new, old)]
        different = sum(key in {*changed} for key in keys)
        ratio = spent / was if was else 1
        print(f"{family:14} {len(keys):8} {different:10} {spent:9.1f} {was:9.1f} {ratio:6.2f}")
    missing = len(old.keys() ^ new.keys())
    print(f"{len(both)} answers, {len(changed)} different, {len(ended)} unfinished, "
          f"{missing} in one file only")  # fmt: skip
    return len(changed)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="what", required=True)
    hashing = parts.add_parser("hash", help="write the hashes of answers")
    hashing.add_argument("target", type=Path)
    hashing.add_argument("--family", action="append", choices=FAMILIES)
    hashing.add_argument("--sample", type=int, default=1, help="take every N-th program")
    hashing.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    comparing = parts.add_parser("compare", help="list the answers that differ")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.what == "compare":
        sys.exit(compare(options.before, options.after) > 0)
    if not SHARED.is_dir():
        sys.exit(f"no shared programs at {SHARED}; HLOSCOPE_SHARED says where they are")
    target = options.target.absolute()
    for module in walk_packages(hloscope.__path__, "hloscope."):  # forked processes have them then
        if not module.name.endswith("__main__"):
            import_module(module.name)
    record(target, options.family or [*FAMILIES], options.sample, options.jobs)


if __name__ == "__main__":
    main()
