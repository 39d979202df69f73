"""Every pass on random programs: interpreted before and after, bit for bit.

    python -m tests.passes.random_programs [--pass NAME ...] [--seeds A B] [--nested]

Of each pass it counts the programs it leaves as they are, those with the same bits after it and
those it refuses; what means something else then is listed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from hloscope.ir import Module
from hloscope.mlir import print_mlir, type_text
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import Step, parse_pipeline, run_pipeline
from hloscope.stablehlo import parse_stablehlo, to_graph
from tests.generator import generate, options_of, stablehlo_text
from tests.passes.nested_programs import nested_program
from tests.passes.semantics import NEGATIVE_ZERO, bits, leaves, results
from tests.passes.testdata import EQUAL, REDEFINED, REFUSED, UNCHANGED, is_redefined, names

__all__ = [
    "CHANGED",
    "EQUAL",
    "REFUSED",
    "UNCHANGED",
    "Program",
    "counted",
    "names",
    "nested",
    "verdicts",
]

CHANGED: Final = "changed"
_KINDS: Final = ("ties", "wild")
_WRAPPED: Final = "op-names=stablehlo.add,stablehlo.multiply,stablehlo.reshape,stablehlo.while"
Values: TypeAlias = list[list[Any]] | str


class Program:
    """A program, its text and what it returns for some arguments."""

    def __init__(self, text: str, seed: int, replicas: int = 1) -> None:
        self.module: Final = parse_stablehlo(text)
        self.text: Final = print_mlir(self.module.tree, dialects=DIALECTS)
        rng = np.random.default_rng(seed)
        self.arguments: Final = [
            [leaves(rng, self.module, kind) for _ in range(replicas)] for kind in _KINDS
        ]
        self._before: list[Values] = []

    def differs(self, after: Module, *, signed_zeros: bool) -> str:
        """What another program returns that this one does not; empty if all is the same."""
        self._before = self._before or [results(self.module, each) for each in self.arguments]
        for arguments, before in zip(self.arguments, self._before, strict=True):
            if isinstance(before, str):
                continue
            then = results(after, arguments)
            if isinstance(then, str) or _bits(before, signed_zeros) != _bits(then, signed_zeros):
                return f"{before}, then {then}"
        return ""


def generated(seed: int) -> Program:
    """A program of any ops, some of several processes."""
    program = generate(seed, replace(options_of(seed, "mlir"), languages=("mlir",)))
    return Program(stablehlo_text(program), seed, program.replicas)


def nested(seed: int) -> Program:
    """A program in which there is much to do, in regions and calls."""
    return Program(nested_program(seed), seed)


def steps_of(name: str, program: Program) -> list[Step]:
    """A pass, with options without which it would do nothing."""
    match name:
        case "refine-arguments":
            types = ",".join([type_text(p.type) for p in program.module.entry.parameters])
            return parse_pipeline(f"{name}{{types={types}}}")
        case "wrap-in-composite":
            return parse_pipeline(f"{name}{{{_WRAPPED}}}")
        case _:
            return parse_pipeline(name)


def _bits(processes: list[list[Any]], signed_zeros: bool) -> list[list[bytes]]:
    return [[bits(array, signed_zeros) for array in one] for one in processes]


def verdicts(program: Program, wanted: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Of each pass its name, what becomes of a program, and how that is seen."""
    for name in wanted:
        outcome = run_pipeline(program.module.tree, steps_of(name, program))
        if not outcome.ok:
            yield name, REFUSED, str(outcome.diagnostics[0]) if outcome.diagnostics else ""
        elif print_mlir(outcome.module, dialects=DIALECTS) == program.text:
            yield name, UNCHANGED, ""
        elif is_redefined(name, program.text):
            yield name, REDEFINED, ""
        else:
            signed = not any(law in fired for _, fired in outcome.fired for law in NEGATIVE_ZERO)
            found = program.differs(to_graph(outcome.module), signed_zeros=signed)
            yield name, CHANGED if found else EQUAL, found


def counted(
    seeds: Iterable[int],
    wanted: Iterable[str],
    program_of: Callable[[int], Program] = generated,
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Of each pass, how many programs became what; and those that mean something else."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in wanted}
    wrong = []
    for seed in seeds:
        for name, found, detail in verdicts(program_of(seed), counts):
            counts[name][found] += 1
            if found == CHANGED:
                wrong.append(f"{name}, seed {seed}: {detail[:200]}")
    return counts, wrong


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pass", dest="passes", action="append", choices=names())
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 1000), metavar=("A", "B"))
    parser.add_argument("--nested", action="store_true", help="laws, regions, calls")
    given = parser.parse_args()
    program_of = nested if given.nested else generated
    counts, wrong = counted(range(*given.seeds), given.passes or names(), program_of)
    print(*wrong, sep="\n")
    for name, row in counts.items():
        print(f"{name:45} {', '.join(f'{n} {k}' for k, n in row.most_common())}")


if __name__ == "__main__":
    main()
