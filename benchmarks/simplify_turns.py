"""Solvers of the simplifier's problems that take turns: a process for each, which stays.

A round asks every solver for some repetitions of every problem, and the next round asks them in
the other order: what else the machine does hits all of them.  Everything is processor time.
"""

from __future__ import annotations

import io
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Final

ROUNDS: Final = 15
REPETITIONS: Final = 4
"""In each round; the first is not counted."""
OURS: Final = "hloscope"
PEER: Final = "tvm_simplify"
"""The solvers: our ranged level, and the peer that it is compared with."""
Solve = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of each problem: the least and the median of all repetitions."""

    best: list[float]
    middle: list[float]

    @classmethod
    def of(cls, repetitions: Sequence[Sequence[float]]) -> Times:
        """Those of the problems' repetitions."""
        return cls([min(r) for r in repetitions], [statistics.median(r) for r in repetitions])


class Solver:
    """A solver's process.

    Args:
        name: `OURS` or `PEER`.
        file: The problems.
        folder: The tree whose hloscope solves them.
        shared: The folder of the shared set.
    """

    def __init__(self, name: str, file: Path, folder: Path, shared: Path) -> None:
        self._name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.simplify_turns", name, str(file), str(shared)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
            env=os.environ | {"PYTHONPATH": str(folder)},
        )  # fmt: skip

    def turn(self) -> list[list[float]]:
        """The seconds of each problem's repetitions in one round."""
        assert self._process.stdin
        assert self._process.stdout
        print(file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"{self._name} could not be measured")
        return json.loads(answer)  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def in_turn(solvers: Sequence[Solver], rounds: int) -> list[Times]:
    """The times of all solvers, which are closed."""
    found: dict[Solver, list[list[list[float]]]] = {s: [] for s in solvers}
    order = [*solvers]
    for _ in range(rounds):
        for solver in order:
            found[solver].append(solver.turn())
        order.reverse()
    for solver in solvers:
        solver.close()
    return [Times.of([[*chain(*p)] for p in zip(*found[s], strict=True)]) for s in solvers]


# ------------------------------------------------------------------- inside the process of a solver


def ours(file: Path) -> list[Solve]:
    """How we solve each problem, from empty memo tables on."""
    module = import_module("benchmarks.simplify")
    return [question.solve for question in module.questions(file)]


def of_peer(file: Path, shared: Path) -> list[Solve]:
    """How the peer's script solves each problem: it is loaded with no problem of its own."""
    with tempfile.TemporaryDirectory() as folder:
        none = Path(folder) / "none.json"
        none.write_text('{"problems": []}')
        os.environ |= {"PEER_MAPS": str(none), "PEER_RESULTS": folder}
        sys.path[:0] = [str(shared)]
        with redirect_stdout(io.StringIO()):
            script = runpy.run_path(str(shared / "run_tvm.py"))
    solve: Any = script["mk"]("simplify")
    return [partial(solve, script["prep"](p)) for p in json.loads(file.read_text())["problems"]]


def repeated(solve: Solve) -> list[float]:
    """Seconds of the repetitions of one problem."""
    solve()
    times = []
    for _ in range(1, REPETITIONS):
        begin = time.process_time()
        solve()
        times.append(time.process_time() - begin)
    return times


def main() -> None:
    """Answer each line of stdin by one round."""
    name, file, shared = sys.argv[1:]
    solves = ours(Path(file)) if name == OURS else of_peer(Path(file), Path(shared))
    for _ in sys.stdin:
        print(json.dumps([repeated(solve) for solve in solves]), flush=True)


if __name__ == "__main__":
    main()
