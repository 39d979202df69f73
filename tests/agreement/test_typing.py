"""The type an op infers is that of the value it computes, for random instances of every op."""

from __future__ import annotations

import numpy as np
import pytest

from hloscope.interpreter.values import fits
from hloscope.ir.op import NotInferredError
from hloscope.ir.types import TupleType
from hloscope.ops.elementwise import ELEMENTWISE
from tests.agreement.instances import Instance, arguments, instance
from tests.indexing.test_truth import cases
from tests.indexing.truth.elementwise import elementwise_case
from tests.indexing.truth.generator import CASES, Gen
from tests.indexing.truth.relation import describe


def check(one: Instance) -> None:
    given = arguments(one.case, np.random.default_rng(7), 0)
    found = one.run(given)
    ins = one.ins
    try:
        inferred = ins.op.infer(tuple(o.type for o in ins.operands), ins.calls)
    except NotInferredError:
        inferred = ins.type
    types = inferred.elements if isinstance(inferred, TupleType) else (inferred,)
    assert len(found) == len(types), describe(one.case)
    for value, type_ in zip(found, types, strict=True):
        assert not fits(value, type_), f"{describe(one.case)}: {fits(value, type_)}"


@pytest.mark.parametrize("name", CASES)
def test_the_inferred_type_is_that_of_the_value(name: str, full: bool) -> None:
    for seed, case in enumerate(cases(name, full)):
        check(instance(case, seed))


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_of_element_wise_ops_for_every_element_type(name: str) -> None:
    for seed in range(12):
        check(instance(elementwise_case(Gen(seed), name), seed))
