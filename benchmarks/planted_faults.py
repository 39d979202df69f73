"""Planted faults: does the test suite notice a wrong rule, law, typing or evaluation?

    python benchmarks/planted_faults.py [--count N] [--seed S] [--suite quick] [--json] [TESTS ...]

Takes functions of the rooms that `planting.py` names at random and plants one fault in each: a
comparison, a sign, a constant, a condition is changed.  All faults are planted in one copy of the
checkout and sleep there: `x < n` becomes `x <= n if planted(17) else x < n`.

The tests are taken in turns: the tests and the examples of each planted room for the faults of that
room; as many turns at once as there are cores, and in each as many faults.  A run of a turn with
all asleep says which test asks which `planted(...)` and how long it takes: a sample of the cases of
each test function, in which slow ones are stopped.  Then each fault that nothing has noticed yet
wakes in a process of its own, and the tests that ask for it are run until one fails, those first
that are named like its file, are quick and ask for few others.  So most faults cost what a few
tests of their own room cost.  What a slow test notices counts if it passes with all faults asleep.
For those that are left all other cases of the room are heard and tried in the same way.

A fault that no such test notices is tried in a fresh process, with its file's examples and all
tests of the files that are named like it: what the sample left out, and what is computed once and
kept, which only its first reader asks for.  For those that are left every other folder has its
turn.  Tests that compare with XLA itself start processes that take seconds; they are left out, as
everywhere where XLA is absent, so what only they notice counts as survived.

All turns are taken twice: first with the tests of `pytest --quick`, then, for the faults that none
of those notices, with all tests.  So one run counts what each of the two suites catches.

Faults that survive are listed; each is read by a person, who writes the test that is missing, or
finds that the change changes nothing and says why in `planting.EQUIVALENT`.

TESTS are the turns, if others are wanted.  With RESULTS, a folder, a run goes on where one before
it stopped, with the faults and the code of then, and `--so-far` only tells what is there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

sys.path.append(str(Path(__file__).parents[1]))  # last: what is tested may be a copy

from benchmarks.planting import Fault, faults, plant, why

MOST: Final = 200
"""Tests that are tried for one fault, before all that are named like it."""
CASES: Final = 4
"""Cases of one test function in the sample."""
SLOW: Final = 1.0
"""Seconds of CPU after which a test is stopped; it may take four times that to notice a fault."""
BUDGET: Final = 5.0
"""Seconds of CPU for the tests of one fault; what is not noticed then is tried apart, in full."""
ELSEWHERE: Final = 2.0
"""Seconds of CPU for the tests of one fault in the folder of another room."""
ENDLESS: Final = 60
"""Seconds of CPU after which a fault counts as noticed: it made a loop endless."""
LARGEST: Final = 4 << 30
"""Bytes of address space; a fault may ask for all memory."""
ABOUT_TEXT: Final = ("tests/test_layers.py", "tests/test_docs.py", "tests/test_notebook.py")
"""Tests that read the package's text, which planting changes, or run documents."""


@dataclass(slots=True, eq=False)
class Run:
    """A plugin of pytest: what follows the collection of the tests."""

    results: Path
    found: Sequence[Fault]
    turn: str
    suite: str
    own: bool
    jobs: int
    tests: dict[str, Any] = field(default_factory=dict)
    at_import: set[int] = field(default_factory=set)
    running: dict[int, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    asked: dict[int, list[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    slow: set[str] = field(default_factory=set)
    asleep: dict[str, bool] = field(default_factory=dict)
    width: dict[str, int] = field(default_factory=dict)
    _failing: str | None = None

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failing = report.nodeid

    def pytest_runtestloop(self, session: Any) -> bool:
        import sitecustomize  # type: ignore[import-not-found]  # of the copy

        self.tests = {item.nodeid: item for item in session.items}
        self.at_import = set(sitecustomize.asked)
        self._take(self.turn, _sample(session.items))
        if self.own and any(map(self._is_left, range(len(self.found)))):
            self._take(f"{self.turn}-all", session.items)
        return True

    def _is_left(self, number: int) -> bool:
        """Is it a fault for these tests, and has nothing noticed it?"""
        fault = self.found[number]
        if self.own and self.turn != _name(_own(fault)[0]):
            return False
        return not _told(self.results, number)["by"] and not why(fault)

    def _take(self, turn: str, items: list[Any]) -> None:
        """Listens to those tests that were not heard, and tries on them what is left."""
        turn = f"{self.suite}-{turn}"
        before = self.results / f"asked-{turn}.json"
        if not before.exists():
            new = [item for item in items if item.nodeid not in self.seconds]
            new = _left(new, before.with_suffix(".part"))
            os.waitpid(self._child(lambda: self._listen(new, before), limited=False), 0)
        self.asked = {}
        for line in before.read_text().splitlines():
            told = json.loads(line)
            self.seconds[told["test"]] = told["seconds"]
            if told["failed"]:
                self.failed.add(told["test"])
            if told["slow"]:
                self.slow.add(told["test"])
            self.width[told["test"]] = 1 + len(told["asked"])
            for number in told["asked"]:
                self.asked.setdefault(number, []).append(told["test"])
        for number in filter(self._is_left, range(len(self.found))):
            if turn not in _told(self.results, number)["turns"]:
                self._try(turn, number)
            while len(self.running) >= self.jobs:
                self._finish(turn)
        while self.running:
            self._finish(turn)

    def _listen(self, items: list[Any], path: Path) -> None:
        """Runs all tests with all faults asleep; writes which test asks for which."""
        import sitecustomize

        slow: list[str] = []

        def stop(*_: object) -> None:
            slow.append("stopped")
            raise _SlowError

        signal.signal(signal.SIGPROF, stop)
        folder = Path(tempfile.mkdtemp())
        os.environ["PLANTED_ASKED"] = str(folder)
        with path.with_suffix(".part").open("a") as file:
            for item, following in zip(items, [*items[1:], None], strict=True):
                sitecustomize.asked.clear()
                self._failing, started = None, time.process_time()
                slow.clear()
                signal.setitimer(signal.ITIMER_PROF, SLOW)
                with suppress(_SlowError):  # which pytest may have taken for a failure
                    item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                signal.setitimer(signal.ITIMER_PROF, 0)
                asked = set(sitecustomize.asked)
                for child in folder.iterdir():
                    asked |= {int(number) for number in child.read_text().split()}
                    child.unlink()
                told = {
                    "test": item.nodeid,
                    "seconds": time.process_time() - started,
                    "asked": sorted(asked),
                    "slow": bool(slow),
                    "failed": self._failing is not None and not slow,
                }
                print(json.dumps(told), file=file, flush=True)
        path.with_suffix(".part").rename(path)

    def _try(self, turn: str, number: int) -> None:
        """Wakes one fault, in a child that goes on while others begin."""
        tests, at_import = self.tests, number in self.at_import
        asking = [t for t in self.asked.get(number, ()) if t in tests and t not in self.failed]
        named = self._like(number)
        asking.sort(key=lambda t: (not t.startswith(named), self.width[t] * self.seconds[t]))
        like = [t for t in tests if t not in self.seconds and t.startswith(named)]
        chosen = [*asking[:MOST], *_spread(like, min(MOST, len(like)))]
        told = {"asking": len(asking), "at_import": at_import}
        if chosen and not at_import:
            child = self._child(lambda: self._wake(number, [tests[t] for t in chosen]))
            self.running[child] = number, told
        else:
            self._write(turn, number, None, told)

    def _finish(self, turn: str) -> None:
        """Waits for the next fault that has been tried."""
        child, status = os.wait()
        number, told = self.running.pop(child)
        failed = self.results / f"child-{child}"
        by: str | None = "the process broke off"
        if os.WIFSIGNALED(status):
            by = f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
        elif failed.exists():
            by = failed.read_text() or None
        failed.unlink(missing_ok=True)
        if by in self.slow and not self._passes(by):
            by = None
        self._write(turn, number, by, told)

    def _passes(self, test: str) -> bool:
        """Does a test pass with all faults asleep, in the time that it has?"""
        if test not in self.asleep:
            child = self._child(lambda: self._wake(-1, [self.tests[test]]))
            os.waitpid(child, 0)
            failed = self.results / f"child-{child}"
            self.asleep[test] = failed.exists() and not failed.read_text()
            failed.unlink(missing_ok=True)
        return self.asleep[test]

    def _write(self, turn: str, number: int, by: str | None, told: dict[str, Any]) -> None:
        """Writes down what became of a fault; another turn may have told of it since."""
        so_far = _told(self.results, number)
        told = {
            "number": number,
            "by": so_far["by"] or by,
            "suite": so_far["suite"] or (self.suite if by else None),
            "asking": so_far["asking"] + told["asking"],
            "at_import": so_far["at_import"] or told["at_import"],
            "turns": [*so_far["turns"], turn],
        }
        _keep(self.results, number, so_far | told)

    def _like(self, number: int) -> tuple[str, ...]:
        """Beginnings of the names of tests that are named like a fault's file."""
        stem = Path(self.found[number].path).stem
        return tuple(
            str(p.relative_to(Path.cwd()))
            for p in (Path.cwd() / "tests").rglob(f"test_*{stem}*.py")
        )

    def _wake(self, number: int, items: list[Any]) -> None:
        import sitecustomize

        sitecustomize.awake = number
        os.environ["PLANTED"] = str(number)
        signal.signal(signal.SIGPROF, _too_slow)
        begin = time.process_time()
        for item, following in zip(items, [*items[1:], None], strict=True):
            if time.process_time() - begin > (BUDGET if self.own else ELSEWHERE):
                break
            signal.setitimer(signal.ITIMER_PROF, 4 * SLOW)
            with suppress(_SlowError):
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._failing:
                    break
            self._failing = None

    def _child(self, work: Any, limited: bool = True) -> int:
        """A child of this process that does the work; within limits, it writes what failed."""
        if child := os.fork():
            return child
        if limited:
            resource.setrlimit(resource.RLIMIT_CPU, (ENDLESS, ENDLESS))
            resource.setrlimit(resource.RLIMIT_AS, (LARGEST, LARGEST))
        try:
            work()
            if limited:
                (self.results / f"child-{os.getpid()}").write_text(self._failing or "")
        except BaseException:  # a child of a fork ends here, whatever happened
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)


def _told(results: Path, number: int) -> dict[str, Any]:
    """What became of a fault so far."""
    path = results / f"{number}.json"
    if not path.exists():
        nothing: dict[str, Any] = {
            "by": None,
            "suite": None,
            "asking": 0,
            "at_import": False,
            "turns": [],
        }
        return {"number": number, **nothing, "turns": []}
    told: dict[str, Any] = json.loads(path.read_text())
    return told


def _keep(results: Path, number: int, told: dict[str, Any]) -> None:
    written = results / f"telling-{os.getpid()}-{number}"
    written.write_text(json.dumps(told))
    written.rename(results / f"{number}.json")


class _SlowError(BaseException):
    """Ends a test that is too slow for the sample."""


def _too_slow(*_: object) -> None:
    raise _SlowError


def _sample(items: Sequence[Any]) -> list[Any]:
    """A few cases of each test function, spread over all of them."""
    cases: dict[str, list[Any]] = {}
    for item in items:
        cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    return [item for same in cases.values() for item in same[:: max(1, -(-len(same) // CASES))]]


def _left(items: list[Any], told: Path) -> list[Any]:
    """The tests that a run before this one has not come to; it may have broken off in a line."""
    if not told.exists():
        return items
    lines = [line for line in told.read_text().splitlines(keepends=True) if line.endswith("}\n")]
    told.write_text("".join(lines))
    done = {json.loads(line)["test"] for line in lines}
    return [item for item in items if item.nodeid not in done]


def _spread(tests: list[str], most: int) -> list[str]:
    """The first half of `most`, and others evenly from the rest."""
    if len(tests) <= most:
        return tests
    half = most // 2
    step = (len(tests) - half) / (most - half)
    return tests[:half] + [tests[half + int(i * step)] for i in range(most - half)]


def _own(fault: Fault) -> list[str]:
    """The turn of a fault's room: its tests, and its examples."""
    room = Path(fault.path).parts[1]
    return [f"tests/{room}", f"hloscope/{room}"]


def _name(turn: str) -> str:
    return turn.replace("/", "-")


def _like_named(fault: Fault, tree: Path) -> list[str]:
    """A fault's file with its examples, and tests that bear its name: first those of its room."""
    stem = Path(fault.path).stem
    files = sorted((tree / "tests").rglob(f"test_*{stem}*.py"))
    folder = Path(_own(fault)[0])
    files.sort(key=lambda path: folder not in path.relative_to(tree).parents)
    return [fault.path, *(str(path.relative_to(tree)) for path in files)]


def fresh(number: int, fault: Fault, tree: Path, suite: str) -> str | None:
    """The first test of like-named files that fails, in a process that has kept nothing."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider"]
    left_out = [f"--ignore={path}" for path in ABOUT_TEXT]
    env = dict(os.environ, PLANTED=str(number), PYTHONPATH=str(tree))
    run = subprocess.run(
        [*command, *_selection(suite), *left_out, *_like_named(fault, tree)],
        cwd=tree,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        return None
    named = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return named[0] if named else f"pytest ends with {run.returncode}: {run.stdout[-300:]}"


def _selection(suite: str) -> list[str]:
    """The option of pytest that selects the tests of a suite."""
    return ["--quick"] if suite == "quick" else []


def _copy(tree: Path, to: Path) -> None:
    """The checkout's code and tests; conformance data beside it stays where it is."""
    left_out = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(tree, to, ignore=left_out, dirs_exist_ok=True)


def _turns(found: Sequence[Fault], tree: Path) -> list[list[str]]:
    """The tests' folders in turns: those of planted rooms, the others, and what is in none."""
    rooms = {Path(fault.path).parts[1] for fault in found}
    folders = [p.parent for p in (tree / "tests").glob("*/__init__.py")]
    sizes = {f: sum(p.stat().st_size for p in f.rglob("*.py")) for f in folders}
    folders.sort(key=lambda folder: (folder.name not in rooms, sizes[folder]))
    files = sorted((tree / "tests").glob("test_*.py"))
    turns = [*([folder] for folder in folders), files]
    return [[str(path.relative_to(tree)) for path in turn] for turn in turns]


def _planted(args: argparse.Namespace, results: Path) -> list[Fault]:
    """The faults that are planted in the copy; without one, those to be planted."""
    kept = results / "faults.json"
    if not kept.exists():
        found = faults(args.tree, args.count, args.seed)
        kept.write_text(json.dumps([asdict(fault) for fault in found]))
    return [Fault(**told) for told in json.loads(kept.read_text())]


def _run(args: argparse.Namespace, results: Path, found: Sequence[Fault]) -> None:
    copy = results / "copy"
    if not copy.exists():
        _copy(args.tree, results / "copying")
        plant(results / "copying", found)
        (results / "copying").rename(copy)
    if (args.tree.parent / "shared").is_dir():
        os.environ.setdefault("HLOSCOPE_SHARED", str(args.tree.parent / "shared"))
    for suite in ("quick", "full") if args.suite == "full" else ("quick",):
        if args.tests:
            _run_turns(args, results, [[folder] for folder in args.tests], suite)
            continue
        own = sorted(map(list, {tuple(_own(f)) for f in found}))
        _run_turns(args, results, own, suite, "--own")
        with ThreadPoolExecutor(args.jobs) as pool:
            try_apart = partial(_try_apart, found=found, results=results, suite=suite)
            list(pool.map(try_apart, range(len(found))))
        if not all(_told(results, k)["by"] or why(fault) for k, fault in enumerate(found)):
            _run_turns(args, results, _turns(found, copy), suite)


def _try_apart(number: int, found: Sequence[Fault], results: Path, suite: str) -> None:
    """Tries a fault that is not noticed so far in a fresh process, once with each suite."""
    told = _told(results, number)
    if told["by"] or why(found[number]) or suite in told.get("fresh", ()):
        return
    by = fresh(number, found[number], results / "copy", suite)
    told = _told(results, number)
    fresh_suites = [*told.get("fresh", ()), suite]
    _keep(results, number, told | {"by": by, "suite": by and suite, "fresh": fresh_suites})


def _run_turns(
    args: argparse.Namespace,
    results: Path,
    turns: Sequence[list[str]],
    suite: str,
    *options: str,
) -> None:
    """Runs turns in processes of their own, some at once."""
    copy = results / "copy"
    again = [sys.executable, __file__, "--tree", str(args.tree), "--results", str(results)]
    again += ["--count", str(args.count), "--seed", str(args.seed), "--jobs", str(args.jobs)]
    again += ["--suite", suite]
    env = dict(os.environ, PYTHONPATH=str(copy))

    def take(turn: list[str]) -> None:
        name = _name(turn[0])
        with (results / f"log-{suite}-{name}").open("w") as log:
            command = [*again, "--inside", name, *options, "--", *turn]
            ended = subprocess.run(command, cwd=copy, env=env, stdout=log, check=False).returncode
        if ended:
            print(f"the turn of {turn[0]} ended with {ended}: see {log.name}", file=sys.stderr)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(take, turns))


def _tell(args: argparse.Namespace, results: Path, found: Sequence[Fault]) -> None:
    """Prints what became of each fault, and the counts on stderr."""
    ends: Counter[str] = Counter()
    quick = 0
    for number, fault in enumerate(found):
        told = _told(results, number)
        reason = why(fault)
        alive = "survived" if told["asking"] else "never entered"
        if args.so_far:
            alive = "not noticed yet" if told["turns"] else "not tried yet"
        quick += told["suite"] == "quick"
        end = "caught" if told["by"] else "equivalent" if reason else alive
        ends[end] += 1
        if args.json:
            print(json.dumps({**asdict(fault), **told, "end": end, "why": reason}), flush=True)
        else:
            print(f"{end:14}{fault.path}:{fault.line} {fault.function}: {fault.what}", flush=True)
            print(f"{'':14}{told['by'] or reason or str(told['asking']) + ' tests'}", flush=True)
    counts = f"{ends['caught']} of {ends.total()} caught, {quick} by the quick tests"
    print(f"{counts}; {dict(ends)}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tests", nargs="*")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--results", type=Path, help="a folder to go on in after a stop")
    parser.add_argument("--suite", choices=("quick", "full"), default="full", help="its tests only")
    parser.add_argument("--so-far", action="store_true", help="nothing is run: what RESULTS tells")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at once")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", metavar="TURN", help=argparse.SUPPRESS)
    parser.add_argument("--own", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.tree = args.tree.absolute()
    results = (args.results or Path(tempfile.mkdtemp())).absolute()
    results.mkdir(parents=True, exist_ok=True)
    found = _planted(args, results)
    if args.inside:
        left_out = [f"--ignore={path}" for path in ABOUT_TEXT]
        quiet = ["-q", "-p", "no:cacheprovider", *_selection(args.suite), *left_out]
        run = Run(results, found, args.inside, args.suite, args.own, args.jobs)
        sys.exit(pytest.main([*quiet, *args.tests], plugins=[run]))
    if not args.so_far:
        _run(args, results, found)
    _tell(args, results, found)


if __name__ == "__main__":
    main()
