"""Maps against what results are seen to depend on when the interpreter computes them.

Nothing here knows what an op means: the interpreter runs it, and maps are compared with what is
seen.  Default: a few cases an op; `--full`: 40.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from hloscope.indexing.access import Access, Accesses, Precision
from hloscope.indexing.analysis import output_to_input
from hloscope.ir.graph import Instruction
from hloscope.ops.elementwise import ELEMENTWISE, IMPLICIT_BROADCAST
from hloscope.ops.gather_scatter import Scatter
from tests.agreement.instances import Instance, instance
from tests.agreement.observed import Seen, changed, numbered
from tests.indexing.test_truth import cases
from tests.indexing.truth import relation
from tests.indexing.truth.elementwise import elementwise_case
from tests.indexing.truth.generator import CASES, NOT_EXACT, Gen
from tests.indexing.truth.marks import Case
from tests.indexing.truth.relation import (
    MismatchError,
    check_input_to_output,
    check_output_to_input,
    describe,
)

BROADCASTING = {cls.name: cls for cls in IMPLICIT_BROADCAST.values()}
MOVING = {
    "add-dependency", "all_gather", "all_to_all", "all_to_all: several operands", "bitcast",
    "bitcast: a transpose", "bitcast: without layouts", "broadcast", "broadcast_in_dim",
    "broadcast_in_dim: size 1 expands", "collective_broadcast", "concatenate", "copy-done",
    "domain", "dynamic_broadcast_in_dim", "dynamic_gather", "dynamic_pad", "dynamic_reshape",
    "dynamic_slice", "dynamic_update_slice", "elementwise: copy", "gather", "get_tuple_element",
    "interpreter.print", "interpreter.probe", "optimization_barrier", "pad", "real_dynamic_slice",
    "reshape", "reshape: size 1 dimensions and scalars", "reshape: to nothing", "reverse",
    "sdy.sharding_constraint", "set_dimension_size", "slice", "torch_index_select", "transpose",
    "tuple",
}  # fmt: skip
"""Cases of ops that move elements and change none."""
HIDDEN = {
    "sort": "values that are not compared follow, and each position is one of many",
    "top_k": "the index of an only element is 0 whatever it is",
    "rng": "its numbers are random",
    "stochastic_convert": "most random numbers round alike",
    "scatter": "of several arrays, an element that gets no update reads no other array",
    "select_and_scatter": "elements that were not selected were compared, which shows seldom",
}
"""Ops whose results do not show all they depend on, and why: seen has to be a part of the maps."""


def instances(name: str, full: bool) -> list[tuple[int, Instance]]:
    """Some cases as something to run."""
    return [(k, instance(c, k)) for k, c in enumerate(cases(name, full)[: 40 if full else 4])]


def hides(case: Case) -> bool:
    """Do results not show all they depend on?"""
    if isinstance(case.ins.op, Scatter):
        return len(case.operands) > 3
    return case.ins.op.name in HIDDEN


def check(seen: Case, case: Case) -> None:
    """Compare the maps, in both directions, with what was seen."""
    if hides(case):
        seen_all, all_ = Seen(seen).expected, Seen(case).expected
        for key, rows in seen_all.items():
            assert not (rows & ~all_[key]).any(), f"{describe(case)}: {key}"
        seen = case
    claims = check_output_to_input(seen) | check_input_to_output(seen)
    assert claims <= {Precision.EXACT} or case.ins.op.name in NOT_EXACT, describe(case)


@pytest.mark.parametrize("name", sorted(MOVING))
def test_a_result_is_the_element_its_map_says(name: str, full: bool) -> None:
    for _, one in instances(name, full):
        check(numbered(one), one.case)


@pytest.mark.parametrize("name", sorted(CASES))
def test_results_change_with_what_their_maps_say_they_read(name: str, full: bool) -> None:
    for seed, one in instances(name, full):
        check(changed(one, seed), one.case)


@pytest.mark.parametrize("name", sorted(ELEMENTWISE.keys() | set(BROADCASTING)))
def test_element_wise_ops_read_their_own_index_only(name: str, full: bool) -> None:
    for seed in range(24 if full else 3):
        plain = name in ELEMENTWISE
        made = elementwise_case(Gen(seed), name) if plain else broadcasting(seed, name)
        one = instance(made, seed)
        check(changed(one, seed), one.case)


def broadcasting(seed: int, name: str) -> Case:
    """A case of an op of CHLO that broadcasts, its operands of one shape."""
    plain = elementwise_case(Gen(seed), BROADCASTING[name].applies)
    ins = plain.ins
    op = BROADCASTING[name]()
    return replace(plain, ins=Instruction(ins.name, ins.type, op, ins.operands))


@pytest.mark.parametrize("name", ["slice", "transpose", "pad", "reduce", "gather"])
def test_a_wrong_map_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:

    def shifted(ins: Instruction, output: int = 0, **options: Any) -> tuple[Accesses, ...]:
        found = output_to_input(ins, output, **options)
        return tuple(tuple(map(_shifted, accesses)) for accesses in found)

    monkeypatch.setattr(relation, "output_to_input", shifted)
    noticed = 0
    for seed in range(8):
        one = instance(CASES[name](Gen(seed)), seed)
        try:
            check_output_to_input(changed(one, seed))
        except MismatchError:
            noticed += 1
    assert noticed >= 3


def _shifted(access: Access) -> Access:
    if access.map is None or not access.map.results:
        return access
    wrong = access.map.with_(results=[access.map.results[0] + 1, *access.map.results[1:]])
    return structs.replace(access, map=wrong)
