"""Rows of the status table about portable artifacts: bytes, versions, damage, speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from benchmarks.measuring import (
    CORES,
    HAS_XLA,
    Figure,
    benchmark,
    figure,
    fresh_seed,
    percent,
    side_by_side,
    suite,
)

PROGRAMS: Final = 10_000
DAMAGED: Final = 100_000
NO_XLA: Final = "not measured: jaxlib is absent"


def re_encoded() -> Figure:
    """Artifacts of StableHLO's history, of models, and what `jax.export` wrote: read, written.

    Tests are counted; each of them looks at all files of its kind.  Text is compared with what the
    reference prints.
    """
    counts, failed = suite(
        "tests/stablehlo/bytecode/test_artifacts.py", "tests/stablehlo/bytecode/test_vhlo_text.py"
    )
    return figure(counts, failed)


def downgrades() -> Figure:
    """Files of what cannot go down, and of wrong programs: refused at their lines, by their ops."""
    return figure(*suite("tests/stablehlo/vhlo"))


def serialised() -> Figure:
    """Programs written for every version, with locations, beside jaxlib's bytes of the same.

    Programs of the test data, of the interpreter's tests, of JAX and of models; counted are pairs
    of a program and a version.
    """
    if not HAS_XLA:
        return NO_XLA, []
    parts = side_by_side(
        lambda k: benchmark("serialized.py", "--locations", f"--part={k}/{CORES}"), CORES
    )
    rows = [row for part in parts for row in part]
    counts: Counter[str] = sum((Counter(row) for row in rows), Counter())
    if len(rows) < CORES:
        return f"not measured: {CORES - len(rows)} of {CORES} processes ended early", []
    whole = sum(n for kind, n in counts.items() if not kind.startswith("programs"))
    said = f"{percent(counts['same'] + counts['both refuse'], whole)} as jaxlib"
    return said, [f"{n:,} {kind}" for kind, n in sorted(counts.items())]


def _trials(what: str, count: int) -> tuple[Counter[str], float, float]:
    each, first = count // CORES, fresh_seed()
    parts = side_by_side(
        lambda k: benchmark("artifact_trials.py", what, str(each), str(first + k * each)), CORES
    )
    rows = [row for part in parts for row in part]
    counts: Counter[str] = sum((Counter(row["counts"]) for row in rows), Counter())
    counts["not tried, its process ended early"] += (CORES - len(rows)) * each
    slowest, most = (
        max((row[key] for row in rows), default=0.0) for key in ("slowest", "megabytes")
    )
    return +counts, slowest, most


def there_and_back() -> Figure:
    """Random programs as artifacts of random versions: read, and written again byte for byte."""
    counts, _, _ = _trials("there-and-back", PROGRAMS)
    good = sum(n for kind, n in counts.items() if kind.startswith("the same"))
    refused = sum(n for kind, n in counts.items() if kind.startswith("refused"))
    said = f"{percent(good, counts.total() - refused)} come back; {refused:,} have no form in VHLO"
    return said, [f"{n:,} {kind}" for kind, n in counts.most_common()]


def damaged() -> Figure:
    """Artifacts wrong in one to four places, and all that the commands do with them."""
    counts, slowest, most = _trials("damaged", DAMAGED)
    bad = sum(n for kind, n in counts.items() if not kind.startswith(("read", "refused")))
    said = f"{bad} other answers of {counts.total():,}; slowest {slowest:.2f} s CPU; {most:.0f} MB"
    return said, [f"{n:,} {kind}" for kind, n in counts.most_common()]


def speed() -> Figure:
    """Processor time beside jaxlib's, in the same run: a large program, and the test data whole."""
    if not HAS_XLA:
        return NO_XLA, []
    rows = [*benchmark("artifacts.py"), *benchmark("artifacts.py", "--testdata")]
    told = [
        f"{row['what']}: {row['ours']:.3f} s, jaxlib {row['jaxlib']:.3f} s, {row['ratio']} ×"
        for row in rows
    ]
    kinds = {
        kind: [row["ratio"] for row in rows if row["what"].endswith(f" {kind}")]
        for kind in ("serialise", "deserialise")
    }
    if not all(kinds.values()):
        return "not measured: benchmarks/artifacts.py printed nothing", told
    said = [f"{kind} {min(of)}–{max(of)} × jaxlib's time" for kind, of in kinds.items()]
    return "; ".join(said), told


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "artifacts": ("artifacts read and re-encoded", "identical bytes and texts", True, re_encoded),
    "downgrades": ("versions: ups, downs, refusals", "100 %", True, downgrades),
    "serialised": ("programs at every version", "0 differences", True, serialised),
    "there-and-back": ("artifacts there and back", "100 %", False, there_and_back),
    "damaged": ("damaged artifacts", "own errors; < 1 s; < 300 MB", True, damaged),
    "artifact-speed": ("artifacts, speed", "≤ 5 × writing, ≤ 4 × reading", True, speed),
}
"""As `status.ROWS`."""
