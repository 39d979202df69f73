"""Artifacts of random programs, there and back; and damaged artifacts, with time and memory.

    python benchmarks/artifact_trials.py [--json] there-and-back COUNT [SEED]
    python benchmarks/artifact_trials.py [--json] damaged COUNT [SEED]

The first makes programs by the tests' generator, writes each for a random version, reads it and
compares bytes and text; VHLO keeps neither attributes that say what goes without saying nor the
types of channels.  The second damages artifacts of many versions in one to four places and
does all that the commands do with them: only errors of this package may come of it.  It prints how
often what happened, the slowest trial and how much memory was taken.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Final

from hloscope.errors import HloscopeError, UnsupportedError
from hloscope.mlir import parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.stablehlo.bytecode import (
    examine,
    is_exported,
    print_vhlo,
    read_artifact,
    read_bytecode,
    read_exported,
    write_artifact,
)
from hloscope.stablehlo.vhlo import CURRENT, RELEASES, DowngradeError, version_text

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.generator import generate, options_of, stablehlo_text  # noqa: E402

SHARED: Final = Path(os.environ.get("HLOSCOPE_SHARED", ROOT.parent / "shared"))
TARGETS: Final = [version_text(one.version) for one in RELEASES]
MOST: Final = 30_000


def there_and_back(seed: int) -> str:
    """Write and read the program of a seed; what came of it."""
    text = stablehlo_text(generate(seed, options_of(seed, "mlir")))
    tree = parse_mlir(text, dialects=DIALECTS)
    target = random.Random(seed).choice(TARGETS)
    try:
        data = write_artifact(tree, target, allow_other_dialects=True)
    except DowngradeError:
        target = version_text(CURRENT)
        data = write_artifact(tree, target, allow_other_dialects=True)
    back = read_artifact(data)
    if write_artifact(back, target, allow_other_dialects=True) != data:
        return "other bytes"
    same = print_mlir(back, dialects=DIALECTS) == print_mlir(tree, dialects=DIALECTS)
    return "the same" if same else "the same but for what VHLO does not keep"


def samples() -> list[bytes]:
    """Artifacts of every version, small ones of models, and what `jax.export` wrote."""
    models = "real/models"
    folders = (("conformance/stablehlo/vhlo", "*.bc"), (models, "*.bc"), (models, "*.jaxexport"))
    found = [p for folder, what in folders for p in sorted((SHARED / folder).glob(what))]
    return [data for path in found if len(data := path.read_bytes()) <= MOST]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """An artifact that is wrong in one to four places."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(changed) or 1)
        match chance.randrange(7):
            case 0:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                changed[at : at + 1] = bytes([data[at % len(data)] ^ 1 << chance.randrange(8)])
            case 2:
                del changed[at : at + chance.randrange(1, 9)]
            case 3:
                changed[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 4:
                changed[at:at] = b"\0" + chance.choice((b"\xff", b"\0", b"\x10")) * 8
            case 5:
                other = chance.randrange(len(data))
                changed[at : at + 8] = data[other : other + 8]
            case _:
                del changed[at:]
    return bytes(changed)


def use(data: bytes) -> str:
    """Do with an artifact what the commands do; what came of it."""
    try:
        module = read_exported(data)[0].module if is_exported(data) else data
        read_bytecode(module)
    except HloscopeError:
        return "refused"
    steps: list[Callable[[], object]] = [
        lambda: examine(data, "damaged"),
        lambda: print_vhlo(read_bytecode(module).module),
        lambda: print_mlir(read_artifact(module), dialects=DIALECTS, locations=True),
        lambda: write_artifact(read_artifact(module), "1.10.0", allow_other_dialects=True),
    ]
    refused = 0
    for step in steps:
        try:
            step()
        except HloscopeError:
            refused += 1
    return "refused in part" if refused else "read"


def megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print what came of the trials."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("there-and-back", "damaged"))
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    files = samples() if options.what == "damaged" else []
    counts: Counter[str] = Counter()
    began = process_time()
    slowest, where, most = 0.0, 0, megabytes()
    before = most
    for seed in range(options.seed, options.seed + options.count):
        start = process_time()
        try:
            if files:
                chance = random.Random(seed)
                what = use(damaged(chance.choice(files), chance))
            else:
                what = there_and_back(seed)
        except UnsupportedError:
            what = "refused, since artifacts have no form for it"
        except Exception as error:  # the subject of this search
            what = f"{type(error).__name__}"
            print(f"seed {seed}: {error!r}"[:300], flush=True)
        counts[what] += 1
        if what == "other bytes":
            print(f"seed {seed}: {what}", flush=True)
        spent = process_time() - start
        if spent > slowest:
            slowest, where = spent, seed
        if megabytes() > most + 50:
            most = megabytes()
            print(f"seed {seed}: {most:.0f} MB", flush=True)
    if options.json:
        row = {"counts": counts, "slowest": slowest, "megabytes": megabytes()}
        print(json.dumps(row))
        return
    for what, count in counts.most_common():
        print(f"{count:8} {what}")
    spent = process_time() - began
    print(f"slowest {slowest:.2f} s (seed {where}); memory {before:.0f} to {megabytes():.0f} MB")
    print(f"{spent:.0f} s, {options.count / max(spent, 1e-9):.0f} each second")


if __name__ == "__main__":
    main()
