"""Rows of the status table about StableHLO and verification; `status.py` measures them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from benchmarks.measuring import HAS_XLA, Figure, benchmark, figure, percent, span_of, suite
from hloscope.errors import HloscopeError
from hloscope.hlo_parser import parse_hlo
from hloscope.mlir import parse_mlir, print_mlir, split_input
from hloscope.mlir.dialects import DIALECTS
from hloscope.verifier import verify_hlo
from tests.conftest import SHARED
from tests.hlo_parser.compare import corpus
from tests.verifier import chunks as judged
from tests.verifier.test_hlo import INCONSISTENT, Xla, planted, refused

CORPUS: Final = SHARED / "conformance/stablehlo"
REAL: Final = SHARED / "real"


def records(name: str) -> Iterator[dict[str, Any]]:
    """The JSON lines of a file of the corpus."""
    with (CORPUS / name).open() as lines:
        yield from map(json.loads, lines)


def _texts() -> Iterator[tuple[str, str]]:
    for folder in ("interpret", "math", "testdata", "jax_samples"):
        for path in sorted((CORPUS / folder).rglob("*.mlir")):
            for line, text in split_input(path.read_text()):
                yield f"{path.name}:{line}", text
    for path in sorted([*(REAL / "models").glob("*.mlir"), *(REAL / "big").glob("*.mlir")]):
        yield path.name, path.read_text()
    for chunk in judged.chunks():
        if chunk["polarity"] != "negative":
            yield chunk["id"], chunk["text"]


def reads() -> Figure:
    """Every StableHLO text: files of the interpreter and of JAX, real programs, positive chunks."""
    count, wrong = 0, []
    for name, text in _texts():
        count += 1
        try:
            parse_mlir(text, name, dialects=DIALECTS)
        except HloscopeError as error:
            wrong.append(f"{name}: {error.message}")
    return percent(count - len(wrong), count), wrong


def prints() -> Figure:
    """Character by character: what jaxlib printed of accepted chunks, and what JAX printed."""
    texts = {
        c["id"]: c["text"] for n in ("chunks", "extra_chunks") for c in records(f"verify/{n}.jsonl")
    }
    same, count, different = 0, 0, []
    for record in records("oracle/verify.jsonl"):
        for form in ("printed", "printed_generic"):
            expected = record.get(form)
            if expected is None or (form == "printed" and record.get("infer_pass")):
                continue
            count += 1
            tree = parse_mlir(texts[record["id"]], dialects=DIALECTS)
            found = print_mlir(tree, dialects=DIALECTS, generic=form != "printed")
            same += found == expected
            different += [f"{record['id']} {form}"] * (found != expected)
    paths = [*(REAL / "models").glob("*.mlir"), *(REAL / "big").glob("*.mlir")]
    paths += (CORPUS / "jax_samples").glob("*.mlir")
    again = 0
    for path in paths:
        text = path.read_text()
        tree = parse_mlir(text, dialects=DIALECTS)
        found = print_mlir(tree, dialects=DIALECTS, locations="loc(" in text)
        again += found.rstrip() == text.rstrip()
    checks, _ = figure(*suite("tests/mlir/test_print_corpus.py"), "tests with CHECK lines")
    jaxlib, jax = percent(same, count), percent(again, len(paths))
    return f"{jaxlib} as jaxlib; {jax} as JAX printed them; {checks}", different


def _verdicts() -> Counter[tuple[str, str]]:
    return Counter((c["polarity"], judged.judge(c).outcome) for c in judged.chunks())


def accepts() -> Figure:
    """Positive chunks of upstream's tests, verified."""
    counts = {k[1]: n for k, n in _verdicts().items() if k[0] == "positive"}
    return percent(counts.get("accepted", 0), sum(counts.values())), []


def refuses() -> Figure:
    """Negative chunks of upstream's tests: every expected error on its line, and no other."""
    counts = {k[1]: n for k, n in _verdicts().items() if k[0] == "negative"}
    whole = sum(counts.values())
    lines = counts.get("exact", 0) + counts.get("message", 0)
    said = f"lines {percent(lines, whole)}, messages {percent(counts.get('exact', 0), whole)}"
    return said, [f"{outcome}: {n}" for outcome, n in sorted(counts.items()) if outcome != "exact"]


def infers() -> Figure:
    """Chunks of upstream's inference tests with their CHECK lines."""
    return figure(*suite("tests/stablehlo/test_infer.py"), "tests, one of them all 106 chunks,")


def verifies_hlo() -> Figure:
    """HLO texts accepted; single faults planted in real dumps, and what XLA says of them."""
    texts, wrong = 0, []
    for name, text in corpus(SHARED):
        texts += 1
        if name not in INCONSISTENT and verify_hlo(parse_hlo(text, name=name)):
            wrong.append(name)
    whole = texts - len(INCONSISTENT)
    found: Counter[tuple[str, bool]] = Counter()
    xla = Xla() if HAS_XLA else None
    missed = []
    for kind, name, line, text in planted(SHARED, 600):
        verdict = xla.verdict(text) if xla else "not asked"
        ours = refused(text)
        found[verdict, ours] += 1
        if not ours:
            missed.append(f"{kind} in {name}, which XLA {verdict}: `{line.strip()[:120]}`")
    if xla:
        xla.close()
    faults = percent(sum(n for (_, ours), n in found.items() if ours), found.total())
    both = percent(found["refuses", True], found["refuses", True] + found["refuses", False])
    accepted = percent(whole - len(wrong), whole)
    said = f"{accepted} accepted; {faults} faults refused, of those XLA refuses {both}"
    notes = [
        f"not counted, as the text breaks rules of XLA or StableHLO: {n} ({why})"
        for n, why in INCONSISTENT.items()
    ]
    return said, [*wrong, *notes, *missed]


def same_graph() -> Figure:
    """Entry output-to-input maps from StableHLO and from HLO of the same program, as relations."""
    return figure(*suite("tests/stablehlo/test_corpus.py"), "programs, all outputs and parameters,")


def robust() -> Figure:
    """5,000 broken programs: answers that are none of ours, the slowest text, the most memory."""
    (row,) = benchmark("robustness.py", "--count", "5000") or [{}]
    if not row:
        return "not measured: benchmarks/robustness.py printed nothing", []
    counts: dict[str, int] = row["counts"]
    bad = {k: n for k, n in counts.items() if k not in ("fine", "refused")}
    said = f"{sum(bad.values())} other answers of {sum(counts.values()):,}"
    return f"{said}; slowest {row['slowest']:.2f} s; {row['megabytes']:.0f} MB", list(map(str, bad))


def parses_mlir() -> Figure:
    """StableHLO beside MLIR in jaxlib, best and median of interleaved runs, by processor time."""
    files = sorted(map(str, (REAL / "big").glob("*.mlir")))
    rows = benchmark("parse_mlir.py", "--runs", "7", *files)
    notes = [
        f"{r['file']}: {r['megabytes']} MB, tree {r['tree_ms']} ms, graph {r['graph_ms']} ms,"
        f" verify {r['verify_ms']} ms, print {r['print_ms']} ms; MLIR {r['mlir_ms'] or '–'} ms,"
        f" verify {r['mlir_verify_ms'] or '–'} ms, print {r['mlir_print_ms'] or '–'} ms;"
        f" load {r['load']} a core"
        for r in rows
    ]
    if not all(r["tree_over_mlir"] for r in rows):
        return "MLIR not measured (jaxlib is absent)", notes
    parts = ("tree", "graph", "verify", "print")
    said = ", ".join(f"{part} {span_of(rows, f'{part}_over_mlir')}" for part in parts)
    return f"{said} MLIR's throughput", notes


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "mlir-reads": ("StableHLO texts read", "100 %", True, reads),
    "mlir-print": ("StableHLO printed", "≥ 98 % identical", True, prints),
    "mlir-parse": (
        "StableHLO parse",
        "tree ≥ 0.8 ×, graph ≥ 0.7 ×, verify ≥ 0.4 ×, print ≥ 0.6 × MLIR's",
        True,
        parses_mlir,
    ),
    "accepts": ("right programs accepted", "100 %", True, accepts),
    "refuses": ("wrong programs refused", "100 % lines, ≥ 97 % messages", True, refuses),
    "infer": ("types inferred", "100 %", True, infers),
    "hlo-verify": ("HLO verified", "100 % accepted; ≥ 95 % of faults", True, verifies_hlo),
    "same-graph": ("HLO and StableHLO agree", "100 %", True, same_graph),
    "robustness": ("broken programs", "own errors only; < 2 s; < 500 MB", True, robust),
}
