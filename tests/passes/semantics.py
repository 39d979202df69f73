"""Programs mean the same after a pass: interpreted before and after, bit for bit.

`python -m tests.passes.semantics PASS [--seeds A B]` looks for a generated program that does not,
and prints how often each pattern fired.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from typing import Any, Final

import numpy as np

from hloscope.errors import HloscopeError
from hloscope.ir import Module
from hloscope.mlir import print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import find_pass
from hloscope.stablehlo import parse_stablehlo, to_graph
from hloscope.verifier import verify_mlir
from tests.agreement.execution import Runner, drawn, leaf_types
from tests.generator import generate, options_of, stablehlo_text

NEGATIVE_ZERO: Final = ("add(x, 0) = x", "subtract(x, 0) = x")
"""Laws that keep a -0 which the program would make a 0."""


class ChangedError(AssertionError):
    """A pass changed what a program means."""


def bits(array: Any, signed_zeros: bool) -> bytes:
    """The elements, with one NaN for all; without the signs of zeros where they may change."""
    array = np.array(array)
    if array.dtype.kind not in "biu":
        array = np.where(array != array, np.ones((), array.dtype), array)
        array = array if signed_zeros else np.where(array == 0, np.zeros((), array.dtype), array)
    return array.tobytes()


def results(module: Module, arguments: list[list[Any]]) -> list[list[Any]] | str:
    """What a program returns on each process, or why it returns nothing."""
    try:
        return Runner(module, len(arguments)).run(arguments)
    except HloscopeError as error:
        return type(error).__name__


def leaves(rng: np.random.Generator, module: Module, kind: str) -> list[Any]:
    """Random arguments, some zeros of which are negative."""
    found = []
    for parameter in module.entry.parameters:
        for type in leaf_types(parameter.type):
            array = drawn(rng, type, kind)
            if array.dtype.kind == "f":
                array = np.where((array == 0) & (rng.random(array.shape) < 0.5), -array, array)
            found.append(array)
    return found


def check(
    text: str, name: str, seed: int = 0, replicas: int = 1, *, always: bool = False
) -> Counter[str]:
    """What fired in the pass of that name on a program; raises if it means something else then.

    A program in which nothing fired is evaluated only if `always` is asked for.
    """
    module = parse_stablehlo(text)
    changed, run = find_pass(name).apply(module.tree)
    printed = print_mlir(changed, dialects=DIALECTS)
    wrong = verify_mlir(changed, first_only=True)
    if wrong:
        raise ChangedError(f"{wrong[0]}\n{printed}")
    rng, after = np.random.default_rng(seed), to_graph(changed)
    signed = not any(law in run.fired for law in NEGATIVE_ZERO)
    for kind in ("ties", "wild") if run.fired or always else ():
        arguments = [leaves(rng, module, kind) for _ in range(replicas)]
        before, then = results(module, arguments), results(after, arguments)
        if isinstance(before, str):
            continue
        if isinstance(then, str) or _bits(before, signed) != _bits(then, signed):
            found = f"{kind}: {arguments} gave {before}, then {then}"
            raise ChangedError(f"{found}\n{dict(run.fired)}\n{text}\n{printed}")
    return run.fired


def _bits(processes: list[list[Any]], signed_zeros: bool) -> list[list[bytes]]:
    return [[bits(array, signed_zeros) for array in one] for one in processes]


def check_generated(name: str, seed: int, *, always: bool = False) -> Counter[str]:
    """The same of the generated program of a seed."""
    options = replace(options_of(seed, "mlir"), languages=("mlir",))
    program = generate(seed, options)
    try:
        return check(stablehlo_text(program), name, seed, program.replicas, always=always)
    except ChangedError as error:
        raise ChangedError(f"seed {seed}: {error}") from None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 1000))
    given = parser.parse_args()
    total: Counter[str] = Counter()
    for seed in range(*given.seeds):
        total += check_generated(given.name, seed)
    for name, count in total.most_common():
        print(f"{count:6} {name}")


if __name__ == "__main__":
    main()
