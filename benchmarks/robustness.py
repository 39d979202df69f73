"""Broken programs: is every answer one of our own errors, soon, and without much memory?

    python benchmarks/robustness.py [--count N] [--seed S] [--commands] [--keep DIR] [--json]

Takes HLO and StableHLO texts of the conformance data, breaks each in one of several ways, and
reads, verifies and prints it.  With --commands any command is given such texts, programs changed so
that most of them stay right, compressed ones, protos, arrays or maps.  Reports where they were
refused; what is not an answer or a `HloscopeError`, what takes more than 2 s of the processor, the
slowest, and the most memory the process held; --keep writes these to files.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from click.testing import CliRunner  # noqa: E402

import hloscope  # noqa: E402
from hloscope.cli import command, guard  # noqa: E402
from hloscope.errors import HloscopeError  # noqa: E402
from tests.conftest import SHARED  # noqa: E402
from tests.mutations import mutations, originals  # noqa: E402
from tests.requests import Request, TooLongError, requests, within, words_of  # noqa: E402

SOON = 2.0
"""Seconds within which everything has an answer."""
ENDLESS = 30
MUCH = 500
"""Megabytes that nothing needs."""


def cpu_seconds() -> float:
    """What this process, those it waited for and those that it has still to end have used.

    A child may end long after its question; what it used belongs to the question all the same.
    """
    used = os.times()
    ended = used.user + used.system + used.children_user + used.children_system
    return ended + sum(map(_seconds_of, _children()))


def _children() -> Iterator[str]:
    """The processes that this one began, as far as Linux tells."""
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended
            yield from file.read_text().split()


def _seconds_of(process: str) -> float:
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # with those it waited for
    return 0.0


def megabytes() -> float:
    """The most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def answer(text: str) -> str:
    """What reading, verifying and printing end with."""
    try:
        found = hloscope.verify(text)
        if found:
            return "refused"
        str(hloscope.read(text))
        return "fine"
    except HloscopeError as error:
        return "refused" if str(error) else "an error without words"
    except RecursionError:
        return "RecursionError"
    except Exception as error:  # what must not happen is counted, not raised
        return f"{type(error).__name__}: {error}"[:200]


def state(text: str) -> str:
    """Whether a program is right, or what refuses it."""
    try:
        with within(ENDLESS):
            return "refused by verify" if hloscope.verify(text) else "right"
    except HloscopeError:
        return "not read"
    except TooLongError:
        return "verify: no end"
    except Exception as error:
        return f"verify: {type(error).__name__}: {error}"[:200]


class Runner(CliRunner):
    """Runs commands in this process, whose streams are guarded as those of the command are."""

    @contextmanager
    def isolation(self, *args: Any, **options: Any) -> Iterator[Any]:
        """The streams of one run."""
        with super().isolation(*args, **options) as streams:
            guard()
            yield streams


def command_answer(request: Request, folder: Path) -> str:
    """What a command ends with."""
    files = {name: folder / f"{name}.bin" for name in request.files}
    for name, path in files.items():
        path.write_bytes(request.files[name])
    try:
        with within(ENDLESS):
            done = Runner().invoke(command(), words_of(request, files), input=request.stdin)
    except TooLongError:
        return "no end"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"{type(done.exception).__name__}: {done.exception}"[:200]
    if done.exit_code == 5:
        return f"exit 5: {done.stderr.strip().splitlines()[:1]}"[:200]
    return "fine" if done.exit_code == 0 else f"refused ({done.exit_code})"


Asked = tuple[str, str, str, Callable[[], str], dict[str, bytes]]
"""The command, the kind, what the program is, the question, and what it is about."""


def asked(count: int, seed: int, commands: bool, folder: Path) -> Iterator[Asked]:
    """Yield the questions."""
    if not commands:
        for kind, text in mutations(originals(SHARED), count, seed):
            data = text.encode("utf-8", "surrogateescape")
            yield "", kind, "", lambda text=text: answer(text), {"stdin": data}  # type: ignore[misc]
        return
    for request in requests(SHARED, count, seed):
        what = state(request.text) if request.text else "no text of a program"
        given = {"stdin": request.stdin, **request.files}
        command = " ".join(request.arguments)
        yield command, request.kind, what, lambda r=request: command_answer(r, folder), given  # type: ignore[misc]


class Table:
    """What was asked and what came of it."""

    def __init__(self, keep: Path | None, seed: int) -> None:
        self.keep, self.seed = keep, seed
        self.counts: Counter[str] = Counter()
        self.states: Counter[str] = Counter()
        self.commands: Counter[tuple[str, str, str]] = Counter()
        self.slow = 0
        self.slowest = 0.0
        self.slow_kind = ""

    def add(self, number: int, question: Asked) -> None:
        """Ask, and count what comes of it."""
        command, kind, what, ask, given = question
        before, start = megabytes(), cpu_seconds()
        found = ask()
        taken = cpu_seconds() - start
        grown = megabytes()
        if what.startswith("verify: "):
            found = what
        self.counts[found] += 1
        self.states[what] += 1
        self.commands[command.partition(" ")[0], what, found] += 1
        self.slow += taken > SOON
        if taken > self.slowest:
            self.slowest = taken
            size = sum(map(len, given.values()))
            self.slow_kind = f"{command} {kind}, {size:,} characters"
        is_own = found.startswith(("fine", "refused"))
        is_much = grown > MUCH and grown - before > MUCH / 10
        if self.keep and (taken > SOON or not is_own or is_much):
            self.keep.mkdir(parents=True, exist_ok=True)
            for name, data in given.items():
                (self.keep / f"{self.seed}_{number}.{name}").write_bytes(data)
            used = f"{taken:.1f} s, {grown:.0f} MB"
            print(f"{self.seed}_{number}: {command}: {found} ({used})", flush=True)

    def print(self) -> None:
        """Print the tables."""
        total = max(1, self.counts.total())
        if len(self.states) > 1:
            for what, count in self.states.most_common():
                print(f"{count:7,}  {count / total:4.0%}  {what}")
            print()
            for (command, what, found), count in sorted(self.commands.items()):
                print(f"{count:7,}  {command:9} {what:21} {found}")
            print()
        for name, count in self.counts.most_common():
            print(f"{count:7,}  {name}")
        print(f"over {SOON:g} s: {self.slow}; slowest {self.slowest:.2f} s ({self.slow_kind})")
        print(f"most memory {megabytes():.0f} MB")


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit("the conformance data (`../shared`) is absent")
    table = Table(options.keep, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        questions = asked(options.count, options.seed, options.commands, Path(folder))
        for number, question in enumerate(questions):
            table.add(number, question)
    if options.json:
        row = {
            "counts": table.counts, "slowest": table.slowest, "kind": table.slow_kind,
            "slow": table.slow, "megabytes": megabytes(), "states": table.states,
        }  # fmt: skip
        print(json.dumps(row))
    else:
        table.print()


if __name__ == "__main__":
    main()
