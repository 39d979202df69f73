"""A stranger's walk: the files whose functions run from text to value, and from text to map.

    python benchmarks/walk.py [--list] [--json]

The program is one `reduce_window`, in HLO and in StableHLO.  Each walk has a process of its own,
where a program of other sizes goes first: what is loaded, registered and compiled once is not on
the way.
A file counts when one of its functions is called.  The map is printed as the command prints it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import hloscope  # noqa: E402

PACKAGE: Final = f"{Path(hloscope.__file__).parent}/"
HLO: Final = """HloModule m
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
ENTRY e {{ x = f32[{size}]{{0}} parameter(0) z = f32[] constant(0)
  ROOT w = f32[{left}]{{0}} reduce-window(x, z), window={{size={window}}}, to_apply=add }}
"""
STABLEHLO: Final = """func.func @main(%x: tensor<{size}xf32>) -> tensor<{left}xf32> {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %w = "stablehlo.reduce_window"(%x, %z) ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %r = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %r : tensor<f32>
  }}) {{window_dimensions = array<i64: {window}>}}
    : (tensor<{size}xf32>, tensor<f32>) -> tensor<{left}xf32>
  return %w : tensor<{left}xf32>
}}
"""
LANGUAGES: Final = {"HLO": HLO, "StableHLO": STABLEHLO}


def _value(text: str, size: int) -> object:
    return hloscope.evaluate(text, np.ones(size, np.float32))


def _map(text: str, size: int) -> object:
    return str(hloscope.read(text)["w"].indexing())


WAYS: Final[dict[str, Callable[[str, int], object]]] = {"value": _value, "map": _map}


def entered(language: str, way: str) -> list[str]:
    """The files whose functions are called, in the order of the walk."""
    ask = WAYS[way]
    ask(_text(language, 10, 4), 10)
    found: dict[str, None] = {}

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if (
            event == "call"
            and code.co_filename.startswith(PACKAGE)
            and code.co_flags & CO_OPTIMIZED
        ):
            found[code.co_filename.removeprefix(PACKAGE)] = None

    sys.setprofile(look)
    try:
        ask(_text(language, 8, 3), 8)
    finally:
        sys.setprofile(None)
    return [*found]


def _text(language: str, size: int, window: int) -> str:
    return LANGUAGES[language].format(size=size, window=window, left=size - window + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--list", action="store_true", help="name the files, in order")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(*entered(*args.one), sep="\n")
        return
    for language, way in product(LANGUAGES, WAYS):
        command = [sys.executable, __file__, "--one", language, way]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
        files = done.stdout.split()
        if args.json:
            print(json.dumps({"language": language, "way": way, "files": files}), flush=True)
        else:
            print(f"{language} text to {way}: {len(files)} files")
            print("".join([f"  {name}\n" for name in files if args.list]), end="")


if __name__ == "__main__":
    main()
