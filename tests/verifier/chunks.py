"""Upstream's verifier tests, one program each, judged by their own comments.

`python -m tests.verifier.chunks` prints the totals; with `--failures [PART]` also each program
that is judged wrongly (and has PART in its name, text or messages).
"""

from __future__ import annotations

import argparse
import json
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hloscope.errors import Diagnostic, VerifyError
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.text.parser import parse_mlir
from hloscope.stablehlo.inferring import run_inference_tests
from hloscope.support.source import Source
from hloscope.verifier.text import expectations, first_errors, mismatches
from tests.conftest import SHARED

FOLDER = SHARED / "conformance/stablehlo"


@dataclass
class Verdict:
    """What became of one program.

    `outcome` is `accepted` or `exact` (right), `refused` (a positive one), `accepted wrongly`,
    `line` (another line, or another number of errors), `message` (right lines, other words) or
    `crash`.
    """

    name: str
    outcome: str
    text: str
    wrong: list[Diagnostic] = field(default_factory=list)
    crash: str = ""

    @property
    def is_right(self) -> bool:
        return self.outcome in {"accepted", "exact"}


def chunks(folder: Path = FOLDER) -> Iterator[dict[str, Any]]:
    """Yield every program of `verify/`, and the positive ones of `transforms/`."""
    for name in ("verify/chunks.jsonl", "verify/extra_chunks.jsonl", "transforms/chunks.jsonl"):
        with (folder / name).open() as lines:
            for line in lines:
                chunk = json.loads(line)
                if chunk["polarity"] == "negative" and not is_about_verifying(chunk):
                    continue
                yield chunk


def is_about_verifying(chunk: dict[str, Any]) -> bool:
    """Is an error of the reader, the verifier or a test pass of typing expected?"""
    return bool(chunk["expected_errors"]) and chunk["group"] == "verify"


def findings(chunk: dict[str, Any]) -> list[Diagnostic]:
    """What the reader, the verifier and the test passes of typing find."""
    name, text = chunk["id"], chunk["text"]
    found = first_errors(text, name, allow_unregistered=bool(chunk["allow_unregistered"]))
    if found or "--hlo-test-broadcast" not in (chunk.get("run_line") or ""):
        return found
    try:
        run_inference_tests(parse_mlir(text, name, dialects=DIALECTS))
    except VerifyError as error:
        return [Diagnostic(error.message, error.span, error.rule)]
    return []


def judge(chunk: dict[str, Any]) -> Verdict:
    """Verify a program, and compare what is found with what its comments expect."""
    name, text = chunk["id"], chunk["text"]
    try:
        found = findings(chunk)
    except Exception:
        return Verdict(name, "crash", text, crash=traceback.format_exc(limit=-4))
    errors = [d for d in found if d.severity == "error"]
    if chunk["polarity"] != "negative":
        return Verdict(name, "refused" if errors else "accepted", text, errors)
    if not errors:
        expected = [Diagnostic(e["message"]) for e in chunk["expected_errors"]]
        return Verdict(name, "accepted wrongly", text, expected)
    wrong = mismatches(expectations(Source(name, text)), found)
    if not wrong:
        return Verdict(name, "exact", text)
    due = {e["target_line"] for e in chunk["expected_errors"]}
    lines = {d.span.line_col[0] for d in errors if d.span}
    return Verdict(name, "message" if due == lines else "line", text, wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--failures", nargs="?", const="", metavar="PART")
    parser.add_argument("--text", action="store_true", help="print the programs too")
    options = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    for chunk in chunks():
        verdict = judge(chunk)
        counts[chunk["polarity"], verdict.outcome] += 1
        said = "\n".join(str(d).split("\n")[0] for d in verdict.wrong) + verdict.crash
        if verdict.is_right or options.failures is None:
            continue
        if options.failures not in verdict.name + verdict.text + said:
            continue
        print(f"## {verdict.name}: {verdict.outcome}\n{said}")
        if options.text:
            print(verdict.text.strip())
    for (polarity, outcome), number in sorted(counts.items()):
        print(f"{polarity:10} {outcome:18} {number}")


if __name__ == "__main__":
    main()
