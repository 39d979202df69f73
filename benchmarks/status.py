"""Measure what the project promises, and write the table to docs/status.md.

    python benchmarks/status.py [--only ROW ...] [--list]

Each row is measured by its own function below, on everything (the test suites with `--full`).
What was measured is kept in docs/status.json, so that `--only` renews some rows and leaves the
others.  Rows that need the conformance data (`../shared` or `$HLOSCOPE_SHARED`) or jaxlib say so
where it is absent.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import (  # noqa: E402
    growth,
    startup,
    status_artifacts,
    status_decisions,
    status_dynamism,
    status_explorer,
    status_house,
    status_interpreter,
    status_passes,
    status_scan,
    status_soundness,
    status_stablehlo,
)
from benchmarks.measuring import (  # noqa: E402
    HAS_XLA,
    Figure,
    benchmark,
    figure,
    percent,
    span_of,
    suite,
)
from hloscope.api import read  # noqa: E402
from hloscope.errors import HloscopeError  # noqa: E402
from hloscope.hlo_parser import parse_hlo, print_hlo  # noqa: E402
from hloscope.indexing import Precision, coverage  # noqa: E402
from tests.conftest import SHARED  # noqa: E402
from tests.fusion import conformance  # noqa: E402
from tests.hlo_parser.compare import corpus, difference  # noqa: E402

DATA: Final = ROOT / "docs/status.json"
PAGE: Final = ROOT / "docs/status.md"
ABSENT: Final = "not measured: the conformance data (`../shared`) is absent"


def texts() -> Figure:
    """Every text is read and printed; what is printed is the same module, for XLA too."""
    total, bad, notes = 0, 0, []
    pairs: list[tuple[str, str, str]] = []
    for name, text in corpus(SHARED):
        total += 1
        try:
            module = parse_hlo(text, name=name, strict=True)
            printed = print_hlo(module)
            again = parse_hlo(printed, name=name, strict=True)
            problem = difference(module, again)
            if print_hlo(again) != printed:
                problem = problem or "printed twice, it differs"
        except HloscopeError as error:
            problem = str(error).split("\n")[0]
        if problem:
            bad += 1
            notes.append(f"{name}: {problem[:160]}")
        else:
            pairs.append((name, text, printed))
    said = percent(total - bad, total) + " read and printed without loss"
    if not HAS_XLA:
        return f"{said}; XLA not asked (jaxlib is absent)", notes
    verdicts = dict(xla_verdicts(pairs))
    unread = [name for name, verdict in verdicts.items() if verdict == "original"]
    same = sum(v == "same" for v in verdicts.values())
    accepted = same + sum(v.startswith("differs") for v in verdicts.values())
    asked = len(pairs) - len(unread)
    notes += [f"{name}: XLA: {v[:160]}" for name, v in verdicts.items()
              if v not in ("same", "original")]  # fmt: skip
    said += f"; XLA accepts the print of {percent(accepted, asked)}"
    said += f", and finds the same module in {percent(same, asked)}"
    if unread:
        said += f" ({len(unread)} texts XLA does not read itself, or ends its process on)"
    return said, notes[:20]


def xla_verdicts(pairs: list[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    """What XLA says about each text and its print; it may end the process, and is begun again."""
    at = 0
    while at < len(pairs):
        lines = [json.dumps([i, *pairs[i][1:]]) for i in range(at, len(pairs))]
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/hlo_parser/xla_child.py"), "same"],
            input="\n".join(lines) + "\n", capture_output=True, text=True, check=False,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )  # fmt: skip
        last = at
        for line in done.stdout.splitlines():
            number, _, verdict = line.partition(" ")
            last = int(number)
            if verdict != "started":
                yield pairs[last][0], json.loads(verdict)
        if done.returncode == 0:
            return
        if not done.stdout:
            raise RuntimeError(f"XLA was not asked: {done.stderr.strip()[-400:]}")
        yield pairs[last][0], "original"  # XLA ended its own process on this text
        at = last + 1


def maps() -> Figure:
    """The relations of XLA's indexing tests, by isl."""
    return figure(*suite("tests/fusion/test_conformance.py"))


def text_of_maps() -> Figure:
    """The same cases as text, white space aside, where XLA's own expectation is exact."""
    total, notes = 0, []
    for case in conformance.load():
        if not case.get("xla_exact"):
            continue
        for pair in conformance.ask(case):
            total += 1
            mine = sorted(conformance.squeeze(str(a.map)) for a in pair.found)
            theirs = sorted(conformance.squeeze(e["map"]) for e in pair.expected if "map" in e)
            if mine != theirs:
                found = "; ".join(str(a.map) for a in pair.found)
                notes.append(f"{case['id'].split('::', 1)[1]} {pair.where}: `{found}`")
    return f"{percent(total - len(notes), total)} lists of maps equal XLA's text", notes


def expressions() -> Figure:
    """Maps, expressions and intervals of XLA's own tests."""
    paths = [
        str(p.relative_to(ROOT))
        for room in ("affine", "simplifier", "indexing")
        for p in sorted((ROOT / "tests" / room).glob("test*conformance*.py"))
    ]
    return figure(*suite(*paths))


def truth() -> Figure:
    """Rules against what numpy computes, 200 random cases for each op and direction."""
    counts, failed = suite("tests/indexing/test_truth.py", "tests/indexing/test_truth_inverse.py")
    return figure(counts, failed, "(op, question) pairs, 200 random cases each,")


def real() -> Figure:
    """Every fusion of every dump, equal ones each time: an answer, and how often it is exact."""
    fusions, pairs, exact, crashed = 0, 0, 0, []
    reasons: Counter[str] = Counter()
    for path in sorted((SHARED / "real/models").glob("*hlo.txt")):
        program = read(path)
        for fusion in program.fusions():
            fusions += 1
            try:
                answer = fusion.indexing(output=None).answer
            except Exception as error:
                crashed.append(f"{path.name} {fusion.name}: {type(error).__name__}: {error}")
                continue
            for output in answer.outputs:
                for operand in output.operands:
                    pairs += 1
                    inexact = [a for a in operand if a.precision is not Precision.EXACT]
                    exact += not inexact
                    reasons.update({a.reason for a in inexact})
    notes = [f"{n} × {reason}" for reason, n in reasons.most_common(8)] + crashed[:8]
    said = f"{fusions:,} fusions, {len(crashed)} crash; exact: {percent(exact, pairs)} of"
    return f"{said} (fusion, output, operand), repeated fusions counted each time", notes


def start() -> Figure:
    """Cold start, the best and the median of twenty; the CPU time is free of others' work."""
    rows = [row for row in startup.measure(20) if row["limit"]]
    said = [
        f"`{r['command']}` {r['best']} s (median {r['median']} s, CPU {r['cpu']} s)" for r in rows
    ]
    return "; ".join(said), []


def parse() -> Figure:
    """Reading beside XLA's parser, best and median of interleaved runs, by processor time."""
    files = sorted(map(str, (SHARED / "real/big").glob("*.hlo.txt")))
    rows = benchmark("parse.py", "--runs", "7", *files)
    notes = [
        f"{r['file']}: {r['megabytes']} MB, strict {r['strict_ms']} ms"
        f" ({r['instructions_per_s']:,} instructions/s), all decoded {r['decoded_ms']} ms,"
        f" query {r['query_ms']} ms, XLA {r['xla_ms'] or '–'} ms,"
        f" memory {r['peak_over_text']} × the text, load {r['load']} a core"
        for r in rows
    ]
    if not all(r["strict_over_xla"] for r in rows):
        return "XLA not measured (jaxlib is absent)", notes
    strict, decoded, query = (
        span_of(rows, f"{what}_over_xla") for what in ("strict", "decoded", "query")
    )
    said = f"strict {strict}, everything decoded {decoded} XLA's throughput"
    return f"{said}; one query {query} as fast as XLA's parse", notes


def analysis() -> Figure:
    """Indexing all fusions of the large dumps, of 24 to 192 layers, and of all models.

    Instructions of a distinct fusion are counted once, by processor time from empty memo tables,
    one process for each dump.  Where it can be built, the compiled extra is measured as well.
    """
    every = benchmark("indexing.py", "--compiled") or benchmark("indexing.py")
    together = [row for row in every if "models" in row]
    rows = [row for row in every if "file" in row]
    dumps = [row for row in rows if "layers" not in row["file"]]
    if not dumps:
        return "not measured: benchmarks/indexing.py printed nothing", []
    memory = max(row["peak_over_text"] for row in dumps)
    said = "instructions/s: "
    for kind in ("distinct", "repeated"):
        speeds = [row[f"{kind}_per_s"] for row in dumps if row[f"{kind}_per_s"]]
        said += f"{min(speeds):,}–{max(speeds):,} of {kind} fusions, "
    said += f"memory ≤ {memory} × the text"
    for kind in ("equal", "varied"):
        first, *_, last = [row for row in rows if row["file"].endswith(f"{kind} layers")]
        grown = last["fusions_ms"] / max(first["fusions_ms"], 1)
        times = last["fusions"] / first["fusions"]
        said += f"; {times:g} × the {kind} layers take {grown:.1f} × the time"
        if kind == "varied":
            said += f", {last['file']} {_of_runs(last)}"
    for row in together:
        if row["models"] == "all":
            said += (
                f"; distinct fusions of the models, {row['build']}, {row['distinct_per_s']:,}/s,"
                f" p99 {row['p99_ms']} ms, worst {row['most_ms']} ms"
            )
    for row in rows:
        if row["build"] == "compiled":
            said += f"; {row['file']}, {_of_runs(row)}"
    notes = [
        f"models, {r['models']}, {r['build']}: {r['distinct']:,} distinct fusions of"
        f" {r['instructions']:,} instructions, {r['distinct_per_s']:,}/s,"
        f" p99 {r['p99_ms']} ms, worst {r['most_ms']} ms"
        for r in together
    ]
    notes += [
        f"{r['file']}: {r['text_mb']} MB, {r['fusions']:,} fusions, {r['distinct']:,} of them"
        f" distinct at {r['distinct_per_s'] or 0:,}/s, of {r['instructions']:,} instructions in"
        f" {r['fusions_ms']} ms,"
        f" both directions {r['both_ms']} ms, whole program {r['whole_ms']} ms,"
        f" memory {r['peak_over_text']} × the text"
        for r in rows
    ]
    return said, notes


def _of_runs(row: dict[str, Any]) -> str:
    return f"{row['distinct_per_s']:,}/s (median {row['median_per_s']:,})"


def first() -> Figure:
    """What a newcomer asks of the dumps of two steps for the GPU, and maps of whole dumps.

    Each is a process of its own: seconds until it ends, and those of processors.
    """
    rows = benchmark("first_questions.py")
    if not rows:
        return "not measured: benchmarks/first_questions.py printed nothing", []
    notes = [
        f"{row['dump']} `{row['question']}`: {row['waited']} s (CPU {row['seconds']} s),"
        f" {row['megabytes']} MB,"
        f" answer {row['answer_mb']} MB" + ("" if row["met"] else f": not met, exit {row['exit']}")
        for row in rows
    ]
    return f"{percent(sum(row['met'] for row in rows), len(rows))} within their limits", notes


def growing() -> Figure:
    """How time grows with size: exponents fitted to CPU times of n, 2n, ... 64n."""
    rows = benchmark("growth.py")
    notes = [
        f"{row['row']}: n ** {row['exponent']}, {row['ms'][-1]:,} ms for n = {row['sizes'][-1]:,}"
        for row in rows
    ]
    if not rows:
        return "not measured: benchmarks/growth.py printed nothing", notes
    exponents = sorted(row["exponent"] for row in rows)
    fine = sum(exponent <= MOST for exponent in exponents)
    said = f"{percent(fine, len(rows))} questions grow by at most n ** {MOST}"
    said += f"; exponents {exponents[0]}–{exponents[-1]}"
    slow = [row["row"] for row in rows if row["exponent"] > growth.MOST]
    return said + (f"; FAILS: {', '.join(slow)} above n ** {growth.MOST}" if slow else ""), notes


MOST: Final = 1.1
"""The largest exponent that is promised."""


def covered() -> Figure:
    """Ops by what their rules claim (`hloscope ops`), and every reason for less than exact."""
    rows = coverage()
    ways = ("output_to_input", "input_to_output")
    counts = [Counter(str(getattr(row, way)) for row in rows) for way in ways]
    said = "; ".join(
        f"{way.replace('_', ' ')}: " + ", ".join(f"{n} {claim}" for claim, n in sorted(c.items()))
        for way, c in zip(ways, counts, strict=True)
    )
    notes = [
        f"{row.op}: {row.output_to_input}, {row.input_to_output}: {row.reason}"
        for row in rows
        if {str(row.output_to_input), str(row.input_to_output)} != {"exact"}
    ]
    return f"{len(rows)} ops; {said}", notes


def executed() -> Figure:
    """Real fusions against the elements that they read when XLA executes them."""
    return figure(*suite("tests/fusion/test_truth.py", "tests/proof/test_fusion_truth.py"))


def inexact() -> Figure:
    """The cases in which XLA's own expectation is not exact: what is true instead."""
    return figure(*suite("tests/proof/test_inexact_cases.py"))


def inverses() -> Figure:
    """Both directions of real fusions with at most four paths are inverse, by isl."""
    return figure(*suite("tests/proof/test_both_directions.py"), "dumps and checks")


def share() -> Figure:
    """Pairs of a fusion and an operand that are exact, in all of `real/`."""
    return figure(*suite("tests/proof/test_precision.py"), "dumps and checks")


def simplifier() -> Figure:
    """Divisions left and time on three sets of problems, pure and compiled, beside the peers."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks/simplify.py"), "--compiled"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    notes = [
        line.strip("| ").replace("|", "·")
        for line in done.stdout.splitlines()
        if line and not line.startswith("|---")
    ]
    ours = [" ".join(n.split()) for n in notes if n.startswith(("hloscope", "in turn"))]
    return "; ".join(ours) or "not measured: the benchmark printed nothing", notes


def proofs() -> Figure:
    """Every answer about a dump of 1,043 instructions, checked by isl and at single elements."""
    dump = SHARED / "real/models/resnet_tiny_train_step.gpu.opt.hlo.txt"
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "hloscope", "index", str(dump), "--all", "--verify"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    summary = (done.stderr.strip().splitlines() or ["no summary"])[-1]
    return f"{seconds:.1f} s, exit code {done.returncode}: {summary}", []


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "texts": ("HLO texts", "100 %", True, texts),
    "maps": ("maps, as relations", "100 %", True, maps),
    "text": ("maps, as text", "≥ 90 %", True, text_of_maps),
    "expressions": ("expressions", "≥ 98 %", True, expressions),
    "truth": ("truth", "200 cases an op, no mismatch", False, truth),
    "real": ("real fusions", "no crash; ≥ 95 % exact", True, real),
    "start": ("start-up", "< 0.15 s, < 0.3 s", False, start),
    "parse": (
        "parse",
        "≥ 1.5 × XLA's, decoded ≥ 0.8 ×; query faster than its parse",
        True,
        parse,
    ),
    "analysis": (
        "analysis",
        "linear or better; models' distinct fusions ≥ 60,000 instructions/s, p99 ≤ 4 ms, worst"
        " ≤ 60 ms; 192 varied layers ≥ 20,000/s",
        True,
        analysis,
    ),
    "first-questions": (
        "first questions to large dumps",
        "< 3 s; `--all --json` < 10 s, < 300 MB, < 25 MB; `--to-parameters` < 15 s",
        True,
        first,
    ),
    "growth": ("growth", "exponents ≤ 1.1 from n to 64 n", False, growing),
    "coverage": ("coverage", "no op without a rule", False, covered),
    "executed": ("executed fusions", "all contained, ≥ 99 % equal", True, executed),
    "inexact": ("XLA's inexact cases", "exact where decidable", True, inexact),
    "inverses": ("both directions", "100 %", True, inverses),
    "share": ("share of exact pairs", "≥ 99 %", True, share),
    "simplifier": (
        "simplifier",
        "≤ 224 and 389 left; total ≤ 0.9 and 2 × TVM's, p99 ≤ its",
        True,
        simplifier,
    ),
    "proofs": ("overhead of proof", "< 60 s", True, proofs),
    **status_soundness.ROWS,
    **status_stablehlo.ROWS,
    **status_artifacts.ROWS,
    **status_passes.ROWS,
    **status_interpreter.ROWS,
    **status_decisions.ROWS,
    **status_dynamism.ROWS,
    **status_explorer.ROWS,
    **status_scan.ROWS,
    **status_house.ROWS,
}
"""Name: what is measured, the aim, whether it needs the conformance data, and the function."""


def measured(name: str) -> dict[str, Any]:
    """One row, measured now."""
    *_, needs_data, function = ROWS[name]
    begin = time.perf_counter()
    figure, notes = (ABSENT, []) if needs_data and not SHARED.is_dir() else function()
    seconds = round(time.perf_counter() - begin, 1)
    return {"figure": figure, "notes": notes, "seconds": seconds, "day": time.strftime("%Y-%m-%d")}


def page(rows: dict[str, Any]) -> str:
    """The text of docs/status.md."""
    lines = [
        "# Status",
        "",
        "Made by `python benchmarks/status.py` (`make status`); not edited by hand.  "
        f"Python {platform.python_version()}, {os.cpu_count()} cores.",
        "",
        "| what | aim | measured | row, day |",
        "|---|---|---|---|",
    ]
    for name, (what, aim, *_) in ROWS.items():
        row = rows.get(name, {"figure": "not measured yet", "day": "–"})
        lines.append(f"| {what} | {aim} | {row['figure']} | `{name}`, {row['day']} |")
    for name, (what, *_, function) in ROWS.items():
        row = rows.get(name)
        lines += ["", f"## {what}", "", (function.__doc__ or "").strip()]
        if row and row["notes"]:
            lines += ["", *(f"- {note}" for note in row["notes"])]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(ROWS), metavar="ROW")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    options = parser.parse_args()
    if options.list:
        print(*ROWS, sep="\n")
        return
    rows = json.loads(DATA.read_text()) if DATA.exists() else {}
    for name in options.only or ROWS:
        rows[name] = measured(name)
        print(f"{name}: {rows[name]['figure']}  [{rows[name]['seconds']} s]", flush=True)
        DATA.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        PAGE.write_text(page(rows))


if __name__ == "__main__":
    main()
