"""Artifacts read and written, beside jaxlib in a process of its own: CPU time and ratios.

    python benchmarks/artifacts.py [--oracle PYTHON] [FILE …]
    python benchmarks/artifacts.py [--oracle PYTHON] --testdata [--part K/N]

`PYTHON` is an interpreter that has jaxlib; this one by default.  The least of three turns counts,
which alternate.  `--testdata` takes StableHLO's test data as a whole (or every N-th program of it):
each program is written as an artifact, which both sides then read and write in turn.  Source of the
inputs: `../shared` or `$HLOSCOPE_SHARED`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any, Final

from hloscope.errors import HloscopeError
from hloscope.mlir import parse_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.stablehlo.bytecode import read_artifact, write_artifact

ROOT: Final = Path(__file__).resolve().parents[1]
SHARED: Final = Path(os.environ.get("HLOSCOPE_SHARED", ROOT.parent / "shared"))
FILES: Final = ("real/big/gpt48_train_step.mlir.bc", "real/models/gpt2_tiny12_train_step.mlir.bc")
TARGET, LIBRARY, TURNS = "1.15.0", "1.17.0", 3

_ORACLE: Final = """
import json, os, sys
from time import process_time
sys.path.insert(0, sys.argv[1])
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import stablehlo_oracle as oracle
from jaxlib.mlir.dialects import stablehlo
context = oracle.context(False)
for line in sys.stdin:
    data = open(line.strip(), "rb").read()
    start = process_time()
    module = stablehlo.deserialize_portable_artifact(context, data)
    middle = process_time()
    stablehlo.serialize_portable_artifact(module, sys.argv[2], True)
    print(json.dumps([middle - start, process_time() - middle]), file=replies, flush=True)
"""


class Theirs:
    """jaxlib in a process of its own."""

    def __init__(self, python: str) -> None:
        self._child = subprocess.Popen(
            [python, "-c", _ORACLE, str(SHARED / "oracle"), TARGET],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def times(self, path: Path) -> list[float]:
        """Seconds to read an artifact and to write it."""
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(f"{path}\n")
        child.stdin.flush()
        found: list[float] = json.loads(child.stdout.readline())
        return found

    def close(self) -> None:
        """End the process."""
        self._child.communicate(timeout=60)


def ours(data: bytes) -> list[float]:
    """Seconds to read an artifact and to write it."""
    start = process_time()
    tree = read_artifact(data)
    middle = process_time()
    write_artifact(tree, TARGET, library=LIBRARY, allow_other_dialects=True)
    return [middle - start, process_time() - middle]


def of_files(python: str, names: list[str]) -> Iterator[dict[str, Any]]:
    """Times of each file: the least of three turns, each of which has a process of its own."""
    for name in names:
        path = Path(name)
        data = path.read_bytes()
        turns = []
        for _ in range(TURNS):
            other = Theirs(python)
            turns.append((ours(data), other.times(path)))
            other.close()
        for at, what in enumerate(("deserialise", "serialise")):
            mine, jaxlib = (min(turn[side][at] for turn in turns) for side in (0, 1))
            yield {"what": f"{path.name} {what}", "ours": mine, "jaxlib": jaxlib}


def of_testdata(python: str, part: str) -> Iterator[dict[str, Any]]:
    """Times of all programs of the test data together, in one process each, in turn."""
    which, of = map(int, part.split("/"))
    paths = sorted((SHARED / "conformance/stablehlo/testdata").glob("**/*.mlir"))[which::of]
    sums = [[0.0, 0.0], [0.0, 0.0]]
    other, count = Theirs(python), 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "program.bc"
        for path in paths:
            data = _artifact(path)
            if data is None:
                continue
            place.write_bytes(data)
            for side, times in enumerate((ours(data), other.times(place))):
                for at in (0, 1):
                    sums[side][at] += times[at]
            count += 1
    other.close()
    for at, what in enumerate(("deserialise", "serialise")):
        yield {
            "what": f"{count} programs of the test data {what}",
            "ours": sums[0][at],
            "jaxlib": sums[1][at],
        }


def _artifact(path: Path) -> bytes | None:
    """The artifact of a text; `None` if it has ops that only check values."""
    text = path.read_text()
    if "check." in text:
        text = "\n".join(line for line in text.splitlines() if "check." not in line)
    try:
        tree = parse_mlir(text, path.name, dialects=DIALECTS)
        return write_artifact(tree, TARGET, library=LIBRARY)
    except HloscopeError:
        return None


def main() -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle", default=sys.executable)
    parser.add_argument("--testdata", action="store_true")
    parser.add_argument("--part", default="0/1", help="only every n-th program: k/n")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("files", nargs="*", default=[str(SHARED / name) for name in FILES])
    options = parser.parse_args()
    if options.testdata:
        rows = of_testdata(options.oracle, options.part)
    else:
        rows = of_files(options.oracle, options.files)
    for row in rows:
        ratio = row["ours"] / row["jaxlib"]
        if options.json:
            print(json.dumps({**row, "ratio": round(ratio, 2)}), flush=True)
        else:
            said = f"{row['ours']:.3f} s, jaxlib {row['jaxlib']:.3f} s, {ratio:.1f} x"
            print(f"{row['what']}: {said}", flush=True)


if __name__ == "__main__":
    main()
