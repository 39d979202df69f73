"""Strength and speed of the simplifier on shared problems, beside the peers found installed.

    python benchmarks/simplify.py [--no-peers] [--compiled] [problems.json hard.json]

Strength is the number of floordiv and mod left.  Our times are of first runs: every repetition
starts with empty memo tables (the interned nodes of the input exist, as the peers' inputs do).
Peers run in child processes right before: the ratios of one run are what to compare.  All times
are of the processor, those of the peers too: other processes of the machine do not count.
With `--compiled` the simplifier is compiled in a folder that is removed again, and the same
questions are put to it there, too.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from hloscope.affine import Dim, Expr, Interval, Range, Var, divisions, parse_expr, to_text
from hloscope.simplifier import Domain, forget_domains, simplify_exact

ROOT: Final = Path(__file__).parents[1]
SHARED = Path(os.environ.get("HLOSCOPE_SHARED", ROOT.parent / "shared"))
FOLDER = SHARED / "bench" / "simplify"
RUNNERS = ("run_tvm.py", "run_isl.py")
TRUSTED = ("tvm_rewrite", "tvm_canonical", "tvm_simplify", "tvm_simplify4", "isl_pwaff", "isl_pma")
"""Peers whose results are right on all problems (TVM's iterator maps are not)."""
BY_PROCESSOR = (
    "import runpy, sys, time; time.perf_counter = time.process_time;"
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)
"""A peer's script with the processor's clock for its own."""
PARTS = ("hloscope", "benchmarks", "setup.py", "pyproject.toml", "README.md")
"""What a compiled build and its run need of the tree."""
Problem = dict[str, Any]


class Question:
    """A problem of the set, built."""

    def __init__(self, problem: Problem) -> None:
        self.id = problem["id"]
        names: dict[str, Var] = {v[0]: Dim(i) for i, v in enumerate(problem["dims"])}
        names |= {v[0]: Range(i) for i, v in enumerate(problem["syms"])}
        self.names = names
        self.box = {
            names[name]: Interval(lo, hi) for name, lo, hi in problem["dims"] + problem["syms"]
        }
        self.constraints = tuple(
            (parse_expr(e, names), Interval(lo, hi)) for e, lo, hi in problem["constraints"]
        )
        self.exprs = [parse_expr(e, names) for e in problem["exprs"]]

    def solve(self) -> list[Expr]:
        forget_domains()
        domain = Domain(self.box, self.constraints)
        return [domain.simplify(e) for e in self.exprs]

    def solve_exactly(self) -> tuple[list[Expr], float]:
        """The exact level's results, and the seconds of this first run."""
        forget_domains()
        start = time.process_time()
        domain = Domain(self.box, self.constraints)
        results = [simplify_exact(e, domain) for e in self.exprs]
        return results, time.process_time() - start

    def time(self, repetitions: int) -> float:
        """Median seconds of a first run."""
        times = []
        for _ in range(repetitions):
            start = time.process_time()
            self.solve()
            times.append(time.process_time() - start)
        return statistics.median(times)

    def texts(self, results: list[Expr]) -> list[str]:
        names = {v: name for name, v in self.names.items()}
        return [to_text(e, names).replace("/", "//").replace(" mod ", " % ") for e in results]


def questions(file: str) -> list[Question]:
    """The problems of a file of the shared set, built."""
    return [Question(p) for p in json.loads((FOLDER / file).read_text())["problems"]]


def run_peers(file: Path) -> dict[str, dict[str, Any]]:
    """The rows of every peer that is installed, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"PEER_MAPS": str(file), "PEER_RESULTS": folder}
        for runner in RUNNERS:
            done = subprocess.run(
                [sys.executable, "-c", BY_PROCESSOR, runner], cwd=FOLDER, env=env,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["?"])[-1]
                print(f"{runner} is left out: {reason}", file=sys.stderr)
        return {p.stem: json.loads(p.read_text())["rows"] for p in Path(folder).glob("*.json")}


def highest(seconds: list[float]) -> float:
    """What 99 of 100 problems take at most."""
    return sorted(seconds)[int(len(seconds) * 0.99)] if seconds else 0.0


def row(name: str, seconds: list[float], left: int | None, base: list[float]) -> str:
    """A line of the table: times, and their ratios to those of TVM in the same run."""
    total, high = sum(seconds), highest(seconds)
    ratio = f"{total / sum(base):.2f}" if base else ""
    high_ratio = f"{high / highest(base):.2f}" if base else ""
    micros = f"{statistics.median(seconds) * 1e6:.1f}" if seconds else ""
    return (
        f"| {name:<24} | {micros:>9} | {high * 1e6:>8.0f} | {total * 1e3:>8.1f} | {left or '':>6} "
        f"| {ratio:>10} | {high_ratio:>9} |"
    )


@dataclass(frozen=True, slots=True)
class Ours:
    """What our levels make of the problems of a file."""

    ranged: list[float]
    exact: list[float]
    """Seconds of each problem."""
    left: dict[str, int]
    """Divisions that the ranged level leaves of each problem."""
    exact_left: int
    wrong: list[str]

    @classmethod
    def of(cls, problems: list[Problem], repetitions: int) -> Ours:
        """Measured and checked here."""
        questions = [Question(p) for p in problems]
        for q in questions[:20]:
            q.solve()
        ours = cls([q.time(repetitions) for q in questions], [], {}, 0, [])
        exact_left = 0
        for q, p in zip(questions, problems, strict=True):
            results = q.solve()
            ours.left[q.id] = sum([divisions(e) for e in results])
            ours.check(p, q.texts(results), "ranged")
            results, seconds = q.solve_exactly()
            ours.exact.append(seconds)
            exact_left += sum([divisions(e) for e in results])
            ours.check(p, q.texts(results), "exact")
        return replace(ours, exact_left=exact_left)

    def check(self, problem: Problem, texts: list[str], level: str) -> None:
        """Remember what the checker of the shared set has against results."""
        if (message := common().check(problem, texts)) is not None:
            self.wrong.append(f"{problem['id']}, {level} level: {message}")

    def print(self, how: str, base: list[float]) -> None:
        """The two lines of the table."""
        print(row(f"hloscope, ranged, {how}", self.ranged, sum(self.left.values()), base))
        print(row(f"hloscope, exact, {how}", self.exact, self.exact_left, base))


def common() -> Any:
    """The checker and the cost of the shared set."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module("common")


def peers_left(rows: dict[str, dict[str, Any]], name: str, best: dict[str, int]) -> int:
    """The divisions that a peer leaves; `best` learns the fewest of each problem."""
    left = 0
    for k, r in rows[name].items():
        cost = common().cost([common().parse(e) for e in r["exprs"]])
        left += cost["dm"]
        if not cost["sel"]:
            best[k] = min(best.get(k, cost["dm"]), cost["dm"])
    return left


def is_compiled() -> bool:
    """Is the simplifier compiled that runs here?"""
    return not str(sys.modules[Domain.__module__.replace("domain", "engine")].__file__).endswith(
        "py"
    )


def compiled(folder: Path, file: Path, repetitions: int) -> Ours:
    """What the simplifier answers that is compiled in a folder, in a process there."""
    script = folder / "benchmarks/simplify.py"
    done = subprocess.run(
        [sys.executable, str(script), "--ours", "--repetitions", str(repetitions), str(file)],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(folder), "HLOSCOPE_SHARED": str(SHARED)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    if not found.pop("is_compiled"):
        sys.exit("what should be compiled is not")
    return Ours(**found)


def build(folder: Path) -> None:
    """Copy what is needed to a folder, and compile the simplifier there."""
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, folder / part)
    print("compiling takes minutes", file=sys.stderr)
    compile_in(folder)


def compile_in(tree: Path) -> None:
    """Compile the simplifier of a tree, in place."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(
        command, cwd=tree, env=os.environ | {"HLOSCOPE_COMPILE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"cannot be compiled:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def compare(file: Path, *, peers: bool, repetitions: int, folder: Path | None) -> bool:
    """Print the table of a file; are all results right?"""
    problems = json.loads(file.read_text())["problems"]
    rows = run_peers(file) if peers else {}
    every = {"compiled" if is_compiled() else "pure": Ours.of(problems, repetitions)}
    if folder is not None:
        every["compiled"] = compiled(folder, file, repetitions)
    base = [r["us"] / 1e6 for r in rows.get("tvm_simplify", {}).values() if "us" in r]
    print(f"\n{file.name}: {len(problems)} problems\n")
    print("| solver | median µs | p99 µs | total ms | left | time / TVM | p99 / TVM |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    best: dict[str, int] = {}
    for name, results in sorted(rows.items()):
        ok = {k: r for k, r in results.items() if "exprs" in r}
        is_whole = name in TRUSTED and len(ok) == len(problems)
        left = peers_left(rows, name, best) if is_whole else None
        print(row(name, [r["us"] / 1e6 for r in ok.values()], left, base))
    for how, ours in every.items():
        ours.print(how, base)
    before = sum([common().cost([common().parse(e)])["dm"] for p in problems for e in p["exprs"]])
    print(
        f"\ndivisions in the input: {before}; best peer, problem by problem: {sum(best.values())}"
    )
    for how, ours in every.items():
        worse = [k for k, n in ours.left.items() if n > best.get(k, n)]
        print(f"problems with more left than the best peer, {how}: {len(worse)} {worse}")
        print(f"wrong results, {how}: {len(ours.wrong)} {ours.wrong}")
    return not any([ours.wrong for ours in every.values()])


def main() -> None:
    """Measure, print the tables, and end with 1 where a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", default=["problems.json", "hard.json"])
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--compiled", action="store_true", help="needs mypy and a C compiler")
    parser.add_argument("--ours", action="store_true", help="our figures of one file as JSON")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    if not FOLDER.is_dir():
        sys.exit(f"needs the shared problems in {FOLDER} (set HLOSCOPE_SHARED)")
    files = [FOLDER / f for f in options.files]
    if options.ours:
        problems = json.loads(files[0].read_text())["problems"]
        found = asdict(Ours.of(problems, options.repetitions))
        print(json.dumps(found | {"is_compiled": is_compiled()}))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) if options.compiled else None
        if folder is not None:
            build(folder)
        peers, repetitions = not options.no_peers, options.repetitions
        right = [compare(f, peers=peers, repetitions=repetitions, folder=folder) for f in files]
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
