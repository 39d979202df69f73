"""Every pass on upstream's executable programs: interpreted before and after.

    python -m tests.passes.testdata [--pass NAME ...] [--dir testdata|quantized|interpret|chlo|math]
        [--slice I N] [--json]

Of each pass it counts the programs it leaves as they are, those with the same bits after it, those
whose own expectations still hold (a conversion within its tolerance), those it refuses, and those
it redefines on purpose, which are not compared; what means something else then is listed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from hloscope.errors import HloscopeError
from hloscope.mlir import Operation, parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import parse_pipeline, pass_names, run_pipeline
from tests.interpreter import chunks
from tests.passes.semantics import bits

_UNSIGNED: Final = re.compile(r"[x<:, (!.]ui\d")
PARTS: Final = ("testdata", "quantized", "interpret", "chlo", "math")
UNCHANGED, EQUAL, CLOSE, REFUSED = "unchanged", "equal bits", "within tolerance", "refused"
REDEFINED: Final = "redefined"
"""Not compared: what the pass is for makes it another program, see `SIGNLESS`."""
FINE: Final = (UNCHANGED, EQUAL, CLOSE, REFUSED, REDEFINED)
OBSERVING: Final = "interpreter-instrument-with-probe"
"""It adds what writes files."""
SIGNLESS: Final = "convert-to-signless"
"""By its definition unsigned integers become signed ones, which divide and compare otherwise."""


def names() -> list[str]:
    """The passes that keep what a program means; `SIGNLESS` keeps that of one without unsigned."""
    return [name for name in pass_names() if name != OBSERVING]


def verdicts(chunk: chunks.Chunk, wanted: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Of each pass its name, what becomes of a program, and how that is seen."""
    try:
        tree = parse_mlir(chunk.text, chunk.id, dialects=DIALECTS)
        before = chunks.run(chunk)
    except HloscopeError:
        return
    if before.status != chunks.PASS:
        return
    text = _text(tree)
    for name in wanted:
        yield name, *_verdict(chunk, tree, text, name, before)


def _text(tree: Operation) -> str:
    return print_mlir(tree, dialects=DIALECTS)


def _verdict(
    chunk: chunks.Chunk, tree: Operation, text: str, name: str, before: chunks.Outcome
) -> tuple[str, str]:
    outcome = run_pipeline(tree, parse_pipeline(name))
    if not outcome.ok:
        return REFUSED, str(outcome.diagnostics[0]) if outcome.diagnostics else ""
    changed = _text(outcome.module)
    if changed == text:
        return UNCHANGED, ""
    if is_redefined(name, text):
        return REDEFINED, ""
    after = chunks.run(replace(chunk, text=changed))
    if after.status != chunks.PASS:
        return after.status, after.detail
    return (EQUAL, "") if _bits(before) == _bits(after) else (CLOSE, "")


def is_redefined(name: str, text: str) -> bool:
    """Has a program unsigned integers, which the pass makes signed?"""
    return name == SIGNLESS and _UNSIGNED.search(text) is not None


def _bits(outcome: chunks.Outcome) -> list[bytes]:
    return [bits(leaf, signed_zeros=False) for leaf in _leaves(outcome.results)]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for each in value:
            yield from _leaves(each)
    elif hasattr(value, "dtype"):
        yield value


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pass", dest="passes", action="append", choices=names())
    parser.add_argument("--dir", dest="parts", action="append", choices=PARTS)
    parser.add_argument("--slice", nargs=2, type=int, default=(0, 1), metavar=("I", "N"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    counts: dict[str, Counter[str]] = {name: Counter() for name in given.passes or names()}
    first, step = given.slice
    for part in given.parts or PARTS:
        for chunk in [c for c in chunks.chunks(part) if not c.is_disabled][first::step]:
            for name, found, detail in verdicts(chunk, counts):
                counts[name][found] += 1
                if found not in FINE and not given.json:
                    print(f"{name} {chunk.id}: {found}: {detail}", flush=True)
    if given.json:
        print(json.dumps(counts))
        return
    for name, row in counts.items():
        print(f"{name:45} {', '.join(f'{n} {k}' for k, n in row.most_common())}")


if __name__ == "__main__":
    main()
