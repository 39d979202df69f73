"""Every constraint of the specification is checked somewhere: each op's labels, counted.

Labels are read from the sources of the ops, `slice_c3` for (C3) of `slice`.  What is checked
elsewhere stands in `ELSEWHERE` with the place or the reason.
Source: StableHLO spec, the section "Constraints" of each op.
"""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import hloscope
from hloscope.ops.elementwise import ELEMENTWISE

CONSTRAINTS = """
    abs 2 | add 7 | after_all 0 | all_gather 6 | all_reduce 7 | all_to_all 9 | and 1 | async_done 1
    async_start 1 | atan2 1 | batch_norm_grad 5 | batch_norm_inference 7 | batch_norm_training 7
    bitcast_convert 2 | broadcast_in_dim 6 | case 4 | cbrt 1 | ceil 1 | cholesky 3 | clamp 4
    collective_broadcast 4 | collective_permute 5 | collective_reduce 7 | compare 3 | complex 3
    composite 4 | concatenate 6 | constant 1 | convert 1 | convolution 34 | cosine 1
    count_leading_zeros 1 | custom_call 0 | divide 1 | dot_general 24 | dynamic_broadcast_in_dim 10
    dynamic_conv 34 | dynamic_gather 23 | dynamic_iota 2 | dynamic_pad 4 | dynamic_reshape 4
    dynamic_slice 5 | dynamic_update_slice 6 | exponential 1 | exponential_minus_one 1 | fft 5
    floor 1 | gather 23 | get_dimension_size 1 | get_tuple_element 2 | if 3 | imag 2 | infeed 3
    iota 1 | is_finite 1 | log 1 | log_plus_one 1 | logistic 1 | map 4 | maximum 1 | minimum 1
    multiply 1 | negate 1 | not 1 | optimization_barrier 1 | or 1 | outfeed 0 | pad 4
    partition_id 0 | popcnt 1 | power 1 | real 2 | recv 4 | reduce 8 | reduce_precision 3
    reduce_scatter 9 | reduce_window 16 | remainder 1 | replica_id 0 | reshape 3 | reverse 3
    rng 3 | rng_bit_generator 2 | round_nearest_afz 1 | round_nearest_even 1 | rsqrt 1 | scatter 25
    select 2 | select_and_scatter 12 | send 1 | shift_left 1 | shift_right_arithmetic 1
    shift_right_logical 1 | sign 1 | sine 1 | slice 5 | sort 5 | sqrt 1 | subtract 1 | tan 1
    tanh 1 | transpose 4 | triangular_solve 4 | tuple 1 | uniform_dequantize 2 | uniform_quantize 2
    while 3 | xor 1
"""
"""How many constraints the specification gives each op."""

RESULT = "the declared result against the inferred one, which has this label among others"
TRAIT = "declared as a trait in the row of dialects/stablehlo"
UNCHECKED = "upstream does not check it either, and accepts programs that break it"

RUN_TIME = "depends on how many processes run the program"

ELSEWHERE = {
    "abs": {1: RESULT},
    "all_gather": {3: RUN_TIME},
    "all_reduce": {2: RUN_TIME},
    "all_to_all": {6: RUN_TIME},
    "collective_reduce": {2: RUN_TIME},
    "compare": {3: UNCHECKED},
    "complex": {2: RESULT},
    "concatenate": {5: RESULT},
    "convolution": {26: RESULT},
    "dot_general": {13: UNCHECKED},
    "dynamic_conv": {25: RESULT, 26: RESULT},
    "dynamic_slice": {1: RESULT},
    "imag": {1: RESULT},
    "real": {1: RESULT},
    "reduce_scatter": {4: RUN_TIME},
    "reduce_window": {14: RESULT},
    "rng_bit_generator": {2: UNCHECKED},
    "slice": {1: RESULT},
}

NEWER = {
    "async_done": {1},
    "async_start": {1},
    "collective_broadcast": {4},
    "collective_reduce": {1, 3, 4, 5, 6, 7},
}
"""Labels of ops younger than the specification's numbers, after those of the like ops."""

SOURCES = Path(hloscope.__file__).parent
LITERAL = re.compile(r'"([a-z_0-9]+)_c(\d+)"')
BUILT = re.compile(r'f"\{[a-z_.]+\}_c(\d+)"')
BUILT_FOR = {
    "ops/convolution.py": ("convolution", "dynamic_conv"),
    "ops/gather_scatter.py": ("gather", "dynamic_gather"),
}
"""The ops whose names a file puts before its labels."""


def labels() -> dict[str, set[int]]:
    """The numbers of the constraints that the sources name, by op."""
    found: dict[str, set[int]] = defaultdict(set)
    for op, number in _written():
        found[op].add(number)
    for name, cls in ELEMENTWISE.items():
        for label in (cls.same_rule, cls.shape_rule, cls.result_rule):
            if label:
                found[name].add(int(label.removeprefix(f"{name}_c")))
    return found


def _written() -> Iterator[tuple[str, int]]:
    for path in sorted([*SOURCES.glob("ops/*.py"), *SOURCES.glob("verifier/**/*.py")]):
        text = path.read_text()
        for op, number in LITERAL.findall(text):
            yield op, int(number)
        for number in BUILT.findall(text):
            for op in BUILT_FOR.get(path.relative_to(SOURCES).as_posix(), ()):
                yield op, int(number)


COUNTS = {
    name: int(number)
    for name, number in (
        row.split() for row in CONSTRAINTS.replace("\n", "|").split("|") if row.strip()
    )
}
FOUND = labels()


@pytest.mark.parametrize("op", COUNTS)
def test_every_constraint_is_checked(op: str) -> None:
    elsewhere = ELSEWHERE.get(op, {})
    missing = set(range(1, COUNTS[op] + 1)) - FOUND[op] - set(elsewhere)
    assert not missing, f"{op}: no check of {sorted(missing)}"
    assert not FOUND[op] & set(elsewhere), "checked after all"


@pytest.mark.parametrize("op", sorted(FOUND))
def test_every_label_is_the_specification_s(op: str) -> None:
    known = {*range(1, COUNTS.get(op, 0) + 1)} | NEWER.get(op, set())
    beyond = FOUND[op] - known
    assert not beyond, f"{op} has no {sorted(beyond)}; CONSTRAINTS counts those of each op"


LABEL = re.compile(r"\b[a-z_0-9]+_[ci]\d+\b")
BY_NAME = {f"{name}_c1" for name, cls in ELEMENTWISE.items() if cls.result_rule == f"{name}_c1"}
"""Labels that `test_typing_elementwise` tests for every op that takes and makes one type."""


def all_tested() -> set[str]:
    """The labels in the tests of typing, some of which build them."""
    found = set(BY_NAME)
    for path in sorted(Path(__file__).parent.glob("test_typing_*.py")):
        found |= set(LABEL.findall(path.read_text()))
        module = importlib.import_module(f"tests.ops.{path.stem}")
        tables: list[object] = [getattr(module, name) for name in vars(module)]
        while tables:
            table = tables.pop()
            if isinstance(table, str) and LABEL.fullmatch(table):
                found.add(table)
            elif isinstance(table, list | tuple):
                tables += table
            elif isinstance(table, dict):
                tables += [*table, *table.values()]
            elif callable(table):
                tables += [mark.args for mark in getattr(table, "pytestmark", ())]
    return found


TESTED = all_tested()


@pytest.mark.parametrize("op", sorted({*FOUND} - {"composite"}))  # in tests/verifier
def test_every_label_is_tested(op: str) -> None:
    assert not {f"{op}_c{number}" for number in FOUND[op]} - TESTED
