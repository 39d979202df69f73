"""Strength and speed of the simplifier on problems, beside the peers found installed.

    python benchmarks/simplify.py [--no-peers] [--compiled] [problems.json hard.json fresh]

Strength is the number of floordiv and mod left.  Our times are of first runs: every repetition
starts with empty memo tables (the interned nodes of the input exist, as the peers' inputs do).
Our ranged level and TVM's simplifier take turns (`simplify_turns.py`): of each problem there is
the best and the median of all repetitions.  Our exact level runs once, the scripts of the peers
too, which repeat by themselves; their ratios are to TVM's in the same script.  All times are of
the processor: other processes of the machine do not count.

`problems.json` and `hard.json` are of the shared set; `fresh` are problems like the hard ones that
nobody has seen (`simplify_problems.py`; `fresh:7` are those of seed 7).  With `--compiled` the
simplifier is compiled in a folder that is removed again, and the same questions are put to it
there, too.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
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
sys.path[:0] = [str(ROOT)]

from benchmarks.compiled import build, is_compiled, run_in  # noqa: E402
from benchmarks.simplify_problems import SEED, problems as fresh_problems  # noqa: E402
from benchmarks.simplify_turns import (  # noqa: E402
    OURS,
    PEER,
    REPETITIONS,
    ROUNDS,
    Solver,
    Times,
    in_turn,
)

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
FRESH: Final = "fresh"
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

    def texts(self, results: list[Expr]) -> list[str]:
        names = {v: name for name, v in self.names.items()}
        return [to_text(e, names).replace("/", "//").replace(" mod ", " % ") for e in results]


def questions(file: str | Path) -> list[Question]:
    """The problems of a file, built; those of the shared set go by their names."""
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


def row(name: str, times: Times, left: int | None, base: Times | None) -> str:
    """A line of the table: times, and their ratios to those of TVM, best and median."""
    best = times.best
    ratios = [["", ""], ["", ""]]
    if base is not None:
        pairs = [(best, base.best), (times.middle, base.middle)]
        ratios = [
            [f"{of(ours) / of(its):.2f}" for ours, its in pairs] for of in (sum, highest)
        ]  # fmt: skip
        if times.middle is best:  # measured once
            ratios = [[r, ""] for r, _ in ratios]
    micros = f"{statistics.median(best) * 1e6:.1f}" if best else ""
    cells = " | ".join([f"{r:>5} ({m})" if m else f"{r:>5}" for r, m in ratios])
    return (
        f"| {name:<26} | {micros:>7} | {highest(best) * 1e6:>7.0f} | {sum(best) * 1e3:>8.1f} "
        f"| {left or '':>5} | {cells} |"
    )


@dataclass(frozen=True, slots=True)
class Ours:
    """What our levels make of the problems of a file."""

    exact: list[float]
    """Seconds of each problem in the exact level."""
    left: dict[str, int]
    """Divisions that the ranged level leaves of each problem."""
    exact_left: int
    wrong: list[str]

    @classmethod
    def of(cls, problems: list[Problem]) -> Ours:
        """Solved and checked here."""
        questions = [Question(p) for p in problems]
        for q in questions[:20]:
            q.solve()
        ours = cls([], {}, 0, [])
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

    def print(self, how: str, times: Times, base: Times | None, script: Times | None) -> None:
        """The two lines of the table."""
        print(row(f"hloscope, ranged, {how}", times, sum(self.left.values()), base))
        print(row(f"hloscope, exact, {how}", once(self.exact), self.exact_left, script))


def once(seconds: list[float]) -> Times:
    """Times that were not repeated here."""
    return Times(seconds, seconds)


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


def compiled(folder: Path, file: Path) -> Ours:
    """What the simplifier answers that is compiled in a folder, in a process there."""
    found = json.loads(run_in(folder, SHARED, "benchmarks/simplify.py", "--ours", str(file)))
    if not found.pop("is_compiled"):
        sys.exit("what should be compiled is not")
    return Ours(**found)


def measured(file: Path, trees: dict[str, Path], *, peer: bool) -> dict[str, Times]:
    """The times of our ranged level in trees, and of the peer, which all take turns."""
    solvers = {how: Solver(OURS, file, tree, FOLDER) for how, tree in trees.items()}
    if peer:
        solvers[PEER] = Solver(PEER, file, ROOT, FOLDER)
    return dict(zip(solvers, in_turn([*solvers.values()], ROUNDS), strict=True))


def compare(file: Path, *, peers: bool, folder: Path | None) -> bool:
    """Print the table of a file; are all results right?"""
    problems = json.loads(file.read_text())["problems"]
    rows = run_peers(file) if peers else {}
    here = "compiled" if is_compiled() else "pure"
    every, trees = {here: Ours.of(problems)}, {here: ROOT}
    if folder is not None:
        every["compiled"], trees["compiled"] = compiled(folder, file), folder
    before = os.getloadavg()[0]
    times = measured(file, trees, peer=PEER in rows)
    after = os.getloadavg()[0]
    base = times.get(PEER)
    script = once([r["us"] / 1e6 for r in rows[PEER].values()]) if PEER in rows else None
    print(f"\n{file.name}: {len(problems)} problems\n")
    print("| solver | median µs | p99 µs | total ms | left | time / TVM | p99 / TVM |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    best: dict[str, int] = {}
    for name, results in sorted(rows.items()):
        ok = {k: r for k, r in results.items() if "exprs" in r}
        is_whole = name in TRUSTED and len(ok) == len(problems)
        left = peers_left(rows, name, best) if is_whole else None
        of_script = once([r["us"] / 1e6 for r in ok.values()])
        print(row(name, of_script, left, script))
    if base is not None:
        print(row(f"{PEER}, in turn", base, None, base))
    for how, ours in every.items():
        ours.print(how, times[how], base, script)
    print(
        f"\nin turn: {ROUNDS} rounds, best (median) of {ROUNDS * (REPETITIONS - 1)}; "
        f"load {before:.1f} before, {after:.1f} after, on {os.cpu_count()} cores"
    )
    whole = sum([common().cost([common().parse(e)])["dm"] for p in problems for e in p["exprs"]])
    print(f"divisions in the input: {whole}; best peer, problem by problem: {sum(best.values())}")
    for how, ours in every.items():
        worse = [k for k, n in ours.left.items() if n > best.get(k, n)]
        print(f"problems with more left than the best peer, {how}: {len(worse)} {worse}")
        print(f"wrong results, {how}: {len(ours.wrong)} {ours.wrong}")
    return not any([ours.wrong for ours in every.values()])


def main() -> None:
    """Measure, print the tables, and end with 1 where a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", default=["problems.json", "hard.json", FRESH])
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--compiled", action="store_true", help="needs mypy and a C compiler")
    parser.add_argument("--ours", action="store_true", help="our answers to one file as JSON")
    options = parser.parse_args()
    if not FOLDER.is_dir():
        sys.exit(f"needs the shared problems in {FOLDER} (set HLOSCOPE_SHARED)")
    with tempfile.TemporaryDirectory() as name:
        files = [file_of(f, Path(name)) for f in options.files]
        if options.ours:
            found = asdict(Ours.of(json.loads(files[0].read_text())["problems"]))
            print(json.dumps(found | {"is_compiled": is_compiled()}))
            return
        folder = Path(name) / "tree" if options.compiled else None
        if folder is not None:
            build(folder)
        right = [compare(f, peers=not options.no_peers, folder=folder) for f in files]
    sys.exit(0 if all(right) else 1)


def file_of(words: str, folder: Path) -> Path:
    """The file of the shared set, or one of fresh problems that is written to a folder."""
    name, _, seed = words.partition(":")
    if name != FRESH:
        return FOLDER / words
    file = folder / f"{words.replace(':', '_')}.json"
    file.write_text(json.dumps({"problems": fresh_problems(int(seed or SEED))}))
    return file


if __name__ == "__main__":
    main()
