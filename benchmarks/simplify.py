"""Strength and speed of the simplifier on shared problems, beside the peers found installed.

    python benchmarks/simplify.py [--no-peers] [problems.json hard.json]

Strength is the number of floordiv and mod left.  Our times are of first runs: every repetition
starts with empty memo tables (the interned nodes of the input exist, as the peers' inputs do).
Peers run in child processes right before: the ratios of one run are what to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hloscope.affine import Dim, Expr, Interval, Range, Var, divisions, parse_expr, to_text
from hloscope.simplifier import Domain, forget_domains, simplify_exact

SHARED = Path(os.environ.get("HLOSCOPE_SHARED", Path(__file__).parents[2] / "shared"))
FOLDER = SHARED / "bench" / "simplify"
RUNNERS = ("run_tvm.py", "run_isl.py")
TRUSTED = ("tvm_rewrite", "tvm_canonical", "tvm_simplify", "tvm_simplify4", "isl_pwaff", "isl_pma")
"""Peers whose results are right on all problems (TVM's iterator maps are not)."""
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
        start = time.perf_counter()
        domain = Domain(self.box, self.constraints)
        results = [simplify_exact(e, domain) for e in self.exprs]
        return results, time.perf_counter() - start

    def time(self, repetitions: int) -> float:
        """Median seconds of a first run."""
        times = []
        for _ in range(repetitions):
            start = time.perf_counter()
            self.solve()
            times.append(time.perf_counter() - start)
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
                [sys.executable, runner], cwd=FOLDER, env=env, capture_output=True, text=True,
                check=False,
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


def compare(file: Path, *, peers: bool, repetitions: int) -> bool:
    sys.path.insert(0, str(FOLDER))
    import common  # the checker and the cost of the shared set

    problems = json.loads(file.read_text())["problems"]
    rows = run_peers(file) if peers else {}
    questions = [Question(p) for p in problems]
    for q in questions[:20]:
        q.solve()
    times = [q.time(repetitions) for q in questions]
    base = [r["us"] / 1e6 for r in rows.get("tvm_simplify", {}).values() if "us" in r]
    print(f"\n{file.name}: {len(problems)} problems\n")
    print("| solver | median µs | p99 µs | total ms | left | time / TVM | p99 / TVM |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    best: dict[str, int] = {}
    for name, results in sorted(rows.items()):
        ok = {k: r for k, r in results.items() if "exprs" in r}
        left = None
        if name in TRUSTED and len(ok) == len(problems):
            left = 0
            for k, r in ok.items():
                cost = common.cost([common.parse(e) for e in r["exprs"]])
                left += cost["dm"]
                if not cost["sel"]:
                    best[k] = min(best.get(k, cost["dm"]), cost["dm"])
        print(row(name, [r["us"] / 1e6 for r in ok.values()], left, base))
    left, worse, wrong, before = 0, [], [], 0
    exact, exact_times = 0, []
    for q, p in zip(questions, problems, strict=True):
        results = q.solve()
        mine = sum(divisions(e) for e in results)
        left += mine
        before += sum(common.cost([common.parse(e)])["dm"] for e in p["exprs"])
        if q.id in best and mine > best[q.id]:
            worse.append(q.id)
        if (message := common.check(p, q.texts(results))) is not None:
            wrong.append(f"{q.id}: {message}")
        results, seconds = q.solve_exactly()
        exact_times.append(seconds)
        exact += sum(divisions(e) for e in results)
        if (message := common.check(p, q.texts(results))) is not None:
            wrong.append(f"{q.id}, exact level: {message}")
    print(row("hloscope, ranged level", times, left, base))
    print(row("hloscope, exact level", exact_times, exact, base))
    print(
        f"\ndivisions in the input: {before}; best peer, problem by problem: {sum(best.values())}"
    )
    print(f"problems with more left than the best peer: {len(worse)} {worse}")
    print(f"wrong results: {len(wrong)} {wrong}")
    return not wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", default=["problems.json", "hard.json"])
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    if not FOLDER.is_dir():
        sys.exit(f"needs the shared problems in {FOLDER} (set HLOSCOPE_SHARED)")
    right = [
        compare(FOLDER / f, peers=not options.no_peers, repetitions=options.repetitions)
        for f in options.files
    ]
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
