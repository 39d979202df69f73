"""Rows of the status table about dynamic sizes: refinement of tests, programs and exports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from benchmarks.measuring import Figure, benchmark, figure, percent, suite
from tests.passes import chunks, dynamic_values, sizes_with_names

REFINING: Final = ("refine_parameters", "refine_shapes", "canonicalize_dynamism", "assertions")


def refined_chunks() -> Figure:
    """Upstream's tests of the passes, by their RUN lines, CHECK lines and expected diagnostics."""
    right, total, wrong = 0, 0, []
    for source in REFINING:
        for case in chunks.cases(source):
            total += 1
            why = chunks.judge(case)
            right += not why
            if why:
                wrong.append(f"{case.name}: {why.splitlines()[0]}")
    return percent(right, total), wrong


def refined_programs() -> Figure:
    """Programs of `testdata/dynamic`, whose text after `remove-dynamism` is that of jaxlib.

    Besides, the time of all of them beside jaxlib's passes, both in processor seconds and verified
    after each pass, without reading and printing.
    """
    (row,) = benchmark("refinement.py") or [{}]
    if not row:
        return "not measured: benchmarks/refinement.py printed nothing", []
    said = f"{percent(row['equal'], row['programs'])} equal; {row['seconds']} s"
    if row["over_jaxlib"]:
        said += f", {row['over_jaxlib']} × jaxlib's {row['jaxlib_seconds']} s"
    return said, []


def refined_values() -> Figure:
    """Results of the refined programs beside those of upstream's interpreter."""
    verdicts = dynamic_values.verdicts()
    right = [file for file, what in verdicts.items() if what in dynamic_values.FINE]
    counts = Counter(verdicts.values())
    notes = [f"{file}: {what}" for file, what in verdicts.items() if file not in right]
    return (
        f"{percent(len(right), len(verdicts))}; {counts[dynamic_values.EQUAL]} bit for bit",
        notes,
    )


def parametric_maps() -> Figure:
    """Maps with named sizes, compared with the refined programs, and with known sizes, at five."""
    return sizes_with_names.figure()


def exported() -> Figure:
    """Exports of symbolic sizes: static at several sizes, with XLA's outputs."""
    return figure(*suite("tests/passes/test_exporting.py"))


def broken() -> Figure:
    """20,000 changed dynamic programs: answers that are none of ours, the slowest program."""
    (row,) = benchmark("refinement.py", "--mutated", "20000") or [{}]
    if not row:
        return "not measured: benchmarks/refinement.py printed nothing", []
    counts: dict[str, int] = row["counts"]
    fine = {"refined", "not refined", "refused"}
    bad = {k: n for k, n in counts.items() if k not in fine}
    said = f"{sum(bad.values())} other answers of {sum(counts.values()):,}"
    notes = [f"{k}: {n:,}" for k, n in sorted(counts.items())]
    return f"{said}; slowest {row['slowest']:.2f} s", notes


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "refine-chunks": ("refinement, upstream's tests", "100 %", True, refined_chunks),
    "refine-programs": (
        "refinement, real programs",
        "≥ 99 %; ≤ 20 × jaxlib's time",
        True,
        refined_programs,
    ),
    "refine-values": ("refined programs, values", "≥ 99 %", True, refined_values),
    "named-sizes": ("maps in named sizes", "none wrong, or it says so", True, parametric_maps),
    "refine-exports": ("exports of symbolic sizes", "100 %", True, exported),
    "refine-broken": ("broken dynamic programs", "own errors only; < 2 s", True, broken),
}
