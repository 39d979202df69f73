"""Rows of the status table about the interpreter; `status.py` measures them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from statistics import geometric_mean
from typing import Final

from benchmarks.measuring import CORES, HAS_XLA, ROOT, Figure, benchmark, figure, percent, suite
from hloscope.errors import HloscopeError
from hloscope.interpreter import coverage, fits
from hloscope.mlir import parse_type
from tests.interpreter import chunks, faults, models, test_dynamic_corpus as dynamic

LOOP: Final = "while_1000"


def _parts(*names: str) -> Figure:
    """Chunks of parts of the conformance data; those upstream does not run are told apart."""
    said, notes = [], []
    for name in names:
        outcomes = list(chunks.run_all(name))
        ran = [o for o in outcomes if not o.chunk.is_disabled]
        off = [o for o in outcomes if o.chunk.is_disabled]
        good = sum(o.status == chunks.PASS for o in ran)
        extra = f", of {len(off)} disabled upstream {sum(o.status == chunks.PASS for o in off)}"
        seconds = sum(o.seconds for o in outcomes)
        said.append(f"{name}: {percent(good, len(ran))}{extra * bool(off)} in {seconds:.1f} s")
        notes += [
            f"{o.chunk.id}{' (disabled upstream)' * o.chunk.is_disabled}: {_why(o)}"
            for o in outcomes
            if o.status != chunks.PASS
        ]
    return "; ".join(said), notes


def _why(outcome: chunks.Outcome) -> str:
    """What was found, without the place."""
    line = (outcome.detail.splitlines() or [outcome.reason])[0]
    return f"{outcome.status}: {line.rpartition('error: ')[2][:200]}"


def interpret() -> Figure:
    """StableHLO's interpreter tests: a chunk passes if all its assertions hold."""
    text, notes = _parts("interpret")
    outcomes = [c for c in chunks.chunks("interpret") if not c.is_disabled]
    count = sum(len(re.findall(r"\bcheck\.expect_", c.text)) for c in outcomes)
    return f"{text}; {count} assertions stand in them", notes


def math_chlo() -> Figure:
    """StableHLO's tests of elementary functions, and of CHLO."""
    return _parts("math", "chlo")


def testdata() -> Figure:
    """StableHLO's `testdata` with static sizes, made by JAX."""
    return _parts("testdata")


def quantized() -> Figure:
    """Quantized programs."""
    return _parts("quantized")


def dynamic_sizes() -> Figure:
    """Programs of run-time sizes, beside what jaxlib returns for the same arguments."""
    compared = same = refined = valid = refused = 0
    notes = []
    for record in dynamic.records():
        name = record["file"]
        invalid = any(part in name for part in dynamic.REFUSED)
        try:
            found = dynamic.run(dynamic.path_of(record).read_text(encoding="utf-8"), record)
        except HloscopeError as error:
            refused += invalid
            notes.append(f"{name}: {'refused, rightly: ' * invalid}{error.message}")
            found = ()
        if "results" not in record:
            refined += not invalid
            types = record["result_types"]
            right = len(found) == len(types)
            valid += right and not any(
                fits(v, parse_type(t)) for v, t in zip(found, types, strict=True)
            )
            continue
        compared += 1
        expected = record["results"]
        if len(found) != len(expected):
            continue
        hashed = any(
            dynamic.is_off(a, b) and "hex" not in b for a, b in zip(found, expected, strict=True)
        )
        others = dynamic.run(record["text"], record) if hashed else found
        told = [dynamic.differs(*x) for x in zip(found, expected, others, strict=True)]
        same += not any(told)
        notes += [f"{name}: {why[:120]}" for why in told if why]
    said = f"{percent(same, compared)} as jaxlib; of {refined} it does not run, {valid} run"
    return f"{said}; {refused} invalid ones are refused", notes


def real_programs() -> Figure:
    """Programs of `real/models` against recorded outputs, within the manifest's tolerance."""
    outcomes = list(models.run_all(list(models.programs()), models.RECORDED))
    good = [o for o in outcomes if o.status == chunks.PASS]
    said = percent(len(good), len(outcomes))
    for kind in models.RECORDED:
        mine = [o for o in outcomes if o.kind == kind]
        passed = sum(o.status == chunks.PASS for o in mine)
        said += f"; {kind} {passed} of {len(mine)} ({sum(o.seconds for o in mine):.0f} s)"
    notes = [
        f"{o.name}, {o.kind}: {o.status}: {(o.detail or o.reason).splitlines()[0][:160]}"
        for o in outcomes
        if o.status != chunks.PASS
    ]
    return said, notes


def speed() -> Figure:
    """Evaluation beside `stablehlo.eval_module` of jaxlib, the same values in the same run."""
    if not HAS_XLA:
        return "not measured: jaxlib is absent", []
    rows = [r for r in benchmark("interpreter.py") if r.get("times_faster")]
    if not rows:
        return "not measured: benchmarks/interpreter.py printed nothing", []
    arrays = [r["times_faster"] for r in rows if r["program"] != LOOP]
    loop = next((r["times_faster"] for r in rows if r["program"] == LOOP), 0.0)
    done = _printed("interpreter.py", "--testdata")
    notes = [
        f"{r['program']}: ours {r['ours_ms']} ms, theirs {r['theirs_ms']} ms"
        f"{' (recorded)' * bool(r.get('recorded'))}: {r['times_faster']} ×"
        for r in rows
    ]
    said = f"{geometric_mean(arrays):.0f} × on {len(arrays)} array programs; loop {loop:.2g} ×"
    return f"{said}; testdata {done.rpartition(': ')[2]}", [*notes, f"testdata: {done}"]


def repeated() -> Figure:
    """Programs called again, beside XLA on the CPU; and what a turn of a loop takes.

    Both sides take turns in one run, each told by its best and its median.
    """
    if not HAS_XLA:
        return "not measured: jaxlib is absent", []
    before = os.getloadavg()[0]
    found = benchmark("repeats.py")
    rows = [row for row in found if "behind" in row]
    if not rows:
        return "not measured: benchmarks/repeats.py printed nothing", []
    best, middle = (geometric_mean(b) for b in zip(*[r["behind"] for r in rows], strict=True))
    said = f"{best:.1f} × behind XLA on {len(rows)} programs, by medians {middle:.1f} ×"
    loops = []
    for row in benchmark("repeats.py", "--loops", "--rounds", "41"):
        (mine, middle), (theirs, their_middle) = row["ours_us"], row["theirs_us"]
        peer = "the reference" if row["loop"] == "while" else "XLA"
        said += f"; {row['loop']} {mine:.1f} µs a turn, {peer} {theirs:.1f}"
        loops.append(f"{row['loop']}: medians {middle:.1f} µs a turn, {peer} {their_middle:.1f}")
    load = f"load {before:.1f} before, {os.getloadavg()[0]:.1f} after, on {CORES} cores"
    slowest = sorted(rows, key=lambda row: -row["behind"][0])
    notes = [
        f"{r['program']}: {r['ours_ms'][0]:.2f} ms, XLA {r['theirs_ms'][0]:.3f}:"
        f" {r['behind'][0]:.1f} ×, by medians {r['behind'][1]:.1f} ×"
        for r in slowest
    ]
    refused = [f"{r['program']}: no peer: {r['refused']}" for r in found if "refused" in r]
    return f"{said} ({load})", [*loops, *notes, *refused]


def memory() -> Figure:
    """Most memory of an evaluation, over that of the tensors alive."""
    lines = _printed("interpreter_memory.py").splitlines()
    ratios = [float(found[1]) for line in lines if (found := re.search(r": ([\d.]+) x$", line))]
    if not ratios:
        return "not measured: benchmarks/interpreter_memory.py printed nothing", lines
    return f"at most {max(ratios):.2f} × the live tensors", [" ".join(n.split()) for n in lines]


def _printed(name: str, *options: str) -> str:
    """What a benchmark prints as text."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / name), *options],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip()


def wrong_runs() -> Figure:
    """Wrong arguments, endless programs, tensors of 100 GB: message, exit code, 2 GB of memory."""
    reasons = {name: faults.wrong(name) for name in faults.FAULTS}
    bad = [f"{name}: {why}" for name, why in reasons.items() if why]
    endings = [
        (name, faults.run(text, "--dense"), f"dense<{value}>")
        for name, (text, value) in faults.DEFINED.items()
    ]
    off = [f"{name}: {e.out}{e.err}" for name, e, value in endings if not e.out.startswith(value)]
    said = f"{percent(len(reasons) - len(bad), len(reasons))} end as they should"
    whole = len(endings)
    return (
        f"{said}; of {whole} that kill the reference, {whole - len(off)} have a result",
        bad + off,
    )


def agreement() -> Figure:
    """Types with values, maps with what results are seen to depend on, HLO with StableHLO."""
    counts, failed = suite("tests/agreement")
    return figure(counts, failed, "tests, one for each op and question,")


def evaluated() -> Figure:
    """Ops by whether they are evaluated (`hloscope ops`)."""
    rows = coverage()
    counts = Counter(row.is_evaluated for row in rows)
    notes = [f"{row.op}: {row.reason}" for row in rows if row.reason or not row.is_evaluated]
    return percent(counts[True], len(rows)), notes


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "interpret": ("interpreter tests", "100 %", True, interpret),
    "math-chlo": ("math, CHLO", "100 %", True, math_chlo),
    "testdata": ("testdata", "100 %", True, testdata),
    "quantized": ("quantized", "100 %", True, quantized),
    "dynamic": ("dynamic sizes", "≥ 99 %", True, dynamic_sizes),
    "models": ("real programs run", "≥ 98 %", True, real_programs),
    "evaluation": ("evaluation speed", "≥ 500 ×; loop ≥ 0.1 ×; testdata faster", True, speed),
    "repeats": (
        "repeated evaluation",
        "≤ 8 × behind XLA; `while` ≤ 1 × the reference's; 16 MB loop ≤ 100 µs a turn",
        True,
        repeated,
    ),
    "memory": ("evaluation memory", "≤ 2 × live tensors", True, memory),
    "faults": ("faults", "messages, exit codes, no crash", False, wrong_runs),
    "agreement": ("agreement", "no mismatch", False, agreement),
    "evaluated": ("ops evaluated", "all, or a reason", False, evaluated),
}
