"""Random programs of HLO and StableHLO that nest: regions, captures, calls, tuples, loops.

`generate(seed, options)` is always the same program; `hlo_text` and `stablehlo_text` spell it.
`shrink` makes a smaller one of which something still holds; `moderate` one in which no float is
lost beside a large one.
"""

from __future__ import annotations

from random import Random

import tests.generator.steps  # noqa: F401  (registers the steps)
from tests.generator.builder import ROWS, Builder, Options
from tests.generator.hlo_text import HloTextError, hlo_text
from tests.generator.moderate import moderate
from tests.generator.program import Program, isolated, walk
from tests.generator.shrink import shrink
from tests.generator.stablehlo_text import stablehlo_text

__all__ = [
    "HloTextError",
    "Options",
    "Program",
    "generate",
    "hlo_text",
    "isolated",
    "moderate",
    "options_of",
    "shrink",
    "stablehlo_text",
    "walk",
]


def generate(seed: int, options: Options | None = None) -> Program:
    """The program of a seed."""
    return Builder(seed, options or Options()).program()


def options_of(seed: int, *languages: str) -> Options:
    """Options that vary with the seed; every third program is one of both languages.

    One of four runs in several processes, one of four hides nothing it depends on, one of four is
    long and one deep, and one of three is made of a few families of ops.
    """
    random = Random(seed)
    families = {row.family for row in ROWS} - {"elementwise"}
    few = {"elementwise", *random.sample(sorted(families), 3)} if seed // 2 % 3 == 0 else set()
    replicas = 1
    if seed // 11 % 4 == 3:
        replicas = 4 if seed // 44 % 8 == 7 else 2
        few |= {"collectives", "control"} if few else set()
    return Options(
        languages=("hlo", "mlir") if seed % 3 == 0 else languages,
        steps=(4, 8, 16, 8)[seed // 3 % 4],
        depth=(2, 3, 3, 5)[seed // 12 % 4],
        largest=(2, 3, 3, 4)[seed // 5 % 4],
        masks=seed // 7 % 4 > 0,
        families=frozenset(few),
        replicas=replicas,
    )
