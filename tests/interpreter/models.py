"""Runs the real programs and compares what they return with what was recorded.

    python -m tests.interpreter.models [NAME...] [--kind stablehlo|hlo|opt|gpu]
        [--failures] [--slow]

Each program comes as StableHLO, as HLO before optimisation and as HLO optimised for CPU (and for
GPU, which `--kind gpu` asks for); `models/manifest.json` says how far off its outputs may be.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.parallel import evaluate_grid
from hloscope.interpreter.values import World
from hloscope.ir.arrays import numpy_dtype
from hloscope.ir.graph import Module
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from hloscope.stablehlo import parse_stablehlo
from tests.conftest import SHARED
from tests.interpreter.chunks import PASS, WRONG, how_it_failed

ROOT = SHARED / "real" / "models"
KINDS = {
    "stablehlo": (".stablehlo.mlir",),
    "hlo": (".hlo.txt",),
    "opt": (".opt.full.hlo.txt", ".opt.hlo.txt"),
    "gpu": (".gpu.opt.hlo.txt",),
}
"""Endings of the file of each kind, the first that exists."""
RECORDED = ("stablehlo", "hlo", "opt")
"""The kinds that have to give the recorded outputs."""


@dataclass(frozen=True)
class Outcome:
    """How one program ended, as one kind of text: `status`, a few words why, and all about it."""

    name: str
    kind: str
    status: str
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0
    worst: float = field(default=0.0)
    """The largest deviation, in units of what is allowed."""


@cache
def programs() -> Mapping[str, Mapping[str, Any]]:
    """What the manifest says about each program."""
    manifest = json.loads((ROOT / "manifest.json").read_text())
    return {p["name"]: p for p in manifest["programs"]}


def path_of(name: str, kind: str) -> Path:
    """The file of a program of this kind."""
    paths = [ROOT / f"{name}{ending}" for ending in KINDS[kind]]
    return next((p for p in paths if p.exists()), paths[-1])


def load(name: str, kind: str) -> Module:
    """The program, read."""
    path = path_of(name, kind)
    text = path.read_text(encoding="utf-8")
    return parse_stablehlo(text, name=path.name) if kind == "stablehlo" else parse_hlo(text)


def recorded(name: str, part: str) -> list[Any]:
    """The recorded `inputs` or `outputs`; small floats are stored as bits, small integers wide."""
    with np.load(ROOT / f"{name}.{part}.npz") as file:
        return [restored(file[row["key"]], row["dtype"]) for row in programs()[name][part]]


def restored(stored: Any, element: str) -> Any:
    """An array as it was before it was stored."""
    dtype = numpy_dtype(ELEMENT_TYPES[element])
    if stored.dtype == dtype:
        return stored
    if stored.dtype.itemsize == dtype.itemsize and stored.dtype.kind == "u":
        return stored.view(dtype)
    return stored.astype(dtype)


def run(name: str, kind: str) -> Outcome:
    """Read, evaluate and compare one program."""
    begin = time.perf_counter()

    def ended(status: str, reason: str = "", detail: object = "", worst: float = 0.0) -> Outcome:
        seconds = time.perf_counter() - begin
        return Outcome(name, kind, status, reason, str(detail), seconds, worst)

    try:
        found = results(name, kind)
        worst, why = compare(name, found, recorded(name, "outputs"))
    except Exception as error:  # a bug too: the table says where
        return ended(*how_it_failed(error))
    return ended(WRONG, "outputs differ", why, worst) if why else ended(PASS, worst=worst)


def results(name: str, kind: str, world: World | None = None) -> list[Any]:
    """What a program gives for the recorded inputs.

    HLO of a program for several devices runs on a grid of as many partitions: before optimisation
    each has all of the inputs, afterwards its part.
    """
    module, inputs = load(name, kind), recorded(name, "inputs")
    mesh = programs()[name].get("mesh")
    if mesh is None or kind == "stablehlo":
        return flat(evaluate(module, inputs, world))
    count = math.prod(mesh)
    if kind == "hlo":
        return flat(evaluate_grid(module, [inputs], 1, count, world)[0])
    shapes = [t.shape for t in module.entry.arguments if isinstance(t, TensorType)]
    pairs = list(zip(inputs, shapes, strict=True))
    given = [[x[_slices(x.shape, s, mesh, d)] for x, s in pairs] for d in range(count)]
    found = [flat(r) for r in evaluate_grid(module, given, 1, count, world)]
    expected = [tuple(row["shape"]) for row in programs()[name]["outputs"]]
    parts = zip(*found, strict=True)
    return [_assembled(own, s, mesh) for own, s in zip(parts, expected, strict=True)]


def _slices(
    whole: tuple[int, ...], part: tuple[int, ...], mesh: Sequence[int], device: int
) -> tuple[slice, ...]:
    """Where the part of a device is: a dimension is divided along the axis of that size."""
    found = []
    for size, own in zip(whole, part, strict=True):
        place = 0
        if size != own:
            axis = list(mesh).index(size // own)
            place = device // math.prod(mesh[axis + 1 :]) % mesh[axis]
        found.append(slice(place * own, (place + 1) * own))
    return tuple(found)


def _assembled(parts: Sequence[Any], shape: tuple[int, ...], mesh: Sequence[int]) -> Any:
    whole = np.zeros(shape, parts[0].dtype)
    for device, part in enumerate(parts):
        whole[_slices(shape, part.shape, mesh, device)] = part
    return whole


def flat(values: Sequence[Any]) -> list[Any]:
    """The arrays in nested tuples, in order."""
    found: list[Any] = []
    for value in values:
        found += flat(value) if isinstance(value, tuple) else [value]
    return found


def compare(name: str, found: Sequence[Any], expected: Sequence[Any]) -> tuple[float, str]:
    """The largest deviation in units of what is allowed, and what is outside in words."""
    if len(found) != len(expected):
        return np.inf, f"{len(found)} outputs, expected {len(expected)}"
    tolerance = programs()[name]["tolerance"]
    absolute = tolerance.get("atol_per_output", [tolerance.get("atol", 0.0)] * len(expected))
    worst, reasons = 0.0, []
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            off, why = np.inf, f"{a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        else:
            off, why = deviation(a, b, tolerance["rtol"], absolute[i])
        worst = max(worst, off)
        if off > 1:
            reasons.append(f"output {i}: {why}")
    return worst, "\n".join(reasons)


def deviation(a: Any, b: Any, relative: float, absolute: float) -> tuple[float, str]:
    """The largest deviation in units of what is allowed, and where it is."""
    if not a.size:
        return 0.0, ""
    if a.dtype.kind in "iub":
        differ = np.asarray(a != b)
        off = np.where(differ, np.inf, 0.0)
    else:
        wide: Any = np.complex128 if a.dtype.kind == "c" else np.float64
        with np.errstate(invalid="ignore"):
            a, b = a.astype(wide), b.astype(wide)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(all="ignore"):
            off = np.where(same, 0.0, np.abs(a - b) / (absolute + relative * np.abs(b)))
        off = np.where(np.isnan(off), np.inf, off)
        differ = off > 1
    at = np.unravel_index(int(np.argmax(off)), a.shape)
    where = [int(x) for x in at]
    return float(off[at]), (
        f"{int(np.sum(differ)):,} of {a.size:,} elements are off, the worst at {where}: "
        f"found {a[at]}, expected {b[at]}, {off[at]:.3g} x tolerance"
    )


def run_all(names: Sequence[str], kinds: Sequence[str]) -> Iterator[Outcome]:
    """Run programs as several kinds of text."""
    for name in names:
        for kind in kinds:
            yield run(name, kind)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="programs; all if none")
    parser.add_argument("--kind", choices=KINDS, action="append", help="which text")
    parser.add_argument("--failures", action="store_true", help="show failures as a whole")
    parser.add_argument("--slow", action="store_true", help="show the ten slowest")
    given = parser.parse_args()
    kinds = given.kind or RECORDED
    unknown = set(given.names) - set(programs())
    if unknown:
        parser.error(f"no program {', '.join(sorted(unknown))}")
    outcomes = list(run_all(given.names or list(programs()), kinds))
    failed = [o for o in outcomes if o.status != PASS]
    for o in failed:
        reason = o.detail.splitlines()[0] if o.reason == "outputs differ" else o.reason
        print(f"  {o.name:32} {o.kind:10} {o.status:12} {reason[:140]}")
        if given.failures:
            print(o.detail)
    reasons = Counter((o.status, o.reason) for o in failed)
    for (status, reason), count in reasons.most_common():
        print(f"{count:5}  {status:12} {reason}")
    for kind in kinds:
        mine = [o for o in outcomes if o.kind == kind]
        good = sum(o.status == PASS for o in mine)
        print(f"{kind}: {good}/{len(mine)} pass ({sum(o.seconds for o in mine):.1f} s)")
    if given.slow:
        for o in sorted(outcomes, key=lambda o: -o.seconds)[:10]:
            print(f"  {o.seconds:9.2f} s  {o.name} {o.kind}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
