"""Artifacts read and written, beside jaxlib in a process of its own: CPU time and ratios.

    python benchmarks/artifacts.py [--oracle PYTHON] [FILE …]

`PYTHON` is an interpreter that has jaxlib; this one by default.  The least of three turns counts,
which alternate.  Source of the inputs: `../shared` or `$HLOSCOPE_SHARED`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from time import process_time
from typing import Final

from hloscope.bytecode import read_artifact, write_artifact

ROOT: Final = Path(__file__).resolve().parents[1]
SHARED: Final = Path(os.environ.get("HLOSCOPE_SHARED", ROOT.parent / "shared"))
FILES: Final = ("real/big/gpt48_train_step.mlir.bc", "real/models/gpt2_tiny12_train_step.mlir.bc")
TARGET, LIBRARY, TURNS = "1.15.0", "1.17.0", 3

_ORACLE: Final = """
import json, sys
from time import process_time
sys.path.insert(0, sys.argv[1])
import stablehlo_oracle as oracle
from jaxlib.mlir.dialects import stablehlo
data = open(sys.argv[2], "rb").read()
context = oracle.context(False)
start = process_time()
module = stablehlo.deserialize_portable_artifact(context, data)
middle = process_time()
stablehlo.serialize_portable_artifact(module, sys.argv[3], True)
print(json.dumps([middle - start, process_time() - middle]))
"""


def ours(data: bytes) -> list[float]:
    """Seconds to read an artifact and to write it."""
    start = process_time()
    tree = read_artifact(data)
    middle = process_time()
    write_artifact(tree, TARGET, library=LIBRARY, allow_other_dialects=True)
    return [middle - start, process_time() - middle]


def theirs(python: str, path: Path) -> list[float]:
    """The same of jaxlib."""
    arguments = [python, "-c", _ORACLE, str(SHARED / "oracle"), str(path), TARGET]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle", default=sys.executable)
    parser.add_argument("files", nargs="*", default=[str(SHARED / name) for name in FILES])
    options = parser.parse_args()
    for name in options.files:
        path = Path(name)
        data = path.read_bytes()
        turns = [(ours(data), theirs(options.oracle, path)) for _ in range(TURNS)]
        for at, what in enumerate(("deserialise", "serialise")):
            mine = min(turn[0][at] for turn in turns)
            other = min(turn[1][at] for turn in turns)
            print(f"{path.name} {what}: {mine:.3f} s, jaxlib {other:.3f} s, {mine / other:.1f} x")


if __name__ == "__main__":
    main()
