"""Runs HLO modules of XLA's own tests and compares with what XLA gave on a CPU.

    python -m tests.interpreter.modules [PART] [--failures PART] [--sample N]

PART selects files by name.  Values were recorded with random inputs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.values import TOKEN, Token, World
from hloscope.ir.types import TokenType
from tests.conftest import SHARED
from tests.interpreter.chunks import PASS, WRONG, how_it_failed
from tests.interpreter.models import deviation, flat, restored

ROOT = SHARED / "real" / "modules"
STEPS = 3_000_000
RELATIVE = {"f64": 1e-9, "c128": 1e-9, "f32": 2e-4, "c64": 2e-4, "f16": 2e-2, "bf16": 4e-2}
"""How far off numbers of a type may be, of the largest one in the output; 0.3 for smaller types."""


@dataclass(frozen=True)
class Outcome:
    """How one module ended: `status`, a few words why, and all about it."""

    file: str
    status: str
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0


@cache
def records() -> list[Mapping[str, Any]]:
    """The modules that were executed."""
    lines = (ROOT / "exec.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["status"] == "ok"]


def run(record: Mapping[str, Any]) -> Outcome:
    """Read, evaluate and compare one module."""
    begin = time.perf_counter()

    def ended(status: str, reason: str = "", detail: object = "") -> Outcome:
        seconds = time.perf_counter() - begin
        return Outcome(record["file"], status, reason, str(detail), seconds)

    try:
        path = ROOT / record["file"]
        module = parse_hlo(path.read_text(encoding="utf-8"), name=path.name)
        arrays = _arrays(record)
        given = iter([arrays[f"i{i}"] for i in range(record["n_in"])])
        types = module.entry.arguments
        inputs = [TOKEN if isinstance(t, TokenType) else _packed(t, given) for t in types]
        found = evaluate(module, inputs, World(max_steps=STEPS))
        outputs = [v for v in flat(found) if not isinstance(v, Token)]
        why = _compared(record, outputs, arrays)
    except Exception as error:  # a bug too: the table says where
        return ended(*how_it_failed(error))
    return ended(WRONG, "outputs differ", why) if why else ended(PASS)


def _arrays(record: Mapping[str, Any]) -> dict[str, Any]:
    with np.load(ROOT / record["npz"]) as file:
        return {key: restored(file[key], record["arrays"][key][0]) for key in file.files}


def _packed(type_: Any, given: Iterator[Any]) -> Any:
    """The next arrays in the form of the type: a tuple takes several."""
    elements = getattr(type_, "elements", None)
    return next(given) if elements is None else tuple(_packed(t, given) for t in elements)


def _compared(record: Mapping[str, Any], found: list[Any], arrays: Mapping[str, Any]) -> str:
    if len(found) != record["n_out"]:
        return f"{len(found)} outputs, expected {record['n_out']}"
    for i, a in enumerate(found):
        b, element = arrays[f"o{i}"], record["arrays"][f"o{i}"][0]
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {i} is {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        relative = RELATIVE.get(element, 0.3)
        size = _largest(b)
        off, why = deviation(a, b, relative, relative * size + 1e-30)
        if off > 1:
            return f"output {i}: {why}"
    return ""


def _largest(array: Any) -> float:
    if array.dtype.kind in "iub" or not array.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        size = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
    return float(np.max(np.where(np.isfinite(size), size, 0)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", default="", help="only files whose name has it")
    parser.add_argument("--failures", metavar="PART", help="show failures whose reason has PART")
    parser.add_argument("--sample", metavar="N", type=int, default=1, help="only every N-th module")
    given = parser.parse_args()
    chosen = [r for r in records()[:: given.sample] if given.part in r["file"]]
    outcomes = [run(record) for record in chosen]
    good = sum(o.status == PASS for o in outcomes)
    print(f"{good}/{len(outcomes)} pass ({sum(o.seconds for o in outcomes):.1f} s)")
    reasons = Counter((o.status, o.reason) for o in outcomes if o.status != PASS)
    for (status, reason), count in reasons.most_common():
        print(f"  {count:5}  {status:12} {reason}")
    for o in outcomes:
        text = f"{o.status} {o.reason} {o.file}"
        if given.failures is not None and o.status != PASS and given.failures in text:
            print(f"\n--- {o.file}: {o.status}\n{o.detail}")
    return int(good < len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
