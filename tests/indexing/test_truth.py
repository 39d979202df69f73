"""Maps against what ops really read, op by op, on random small shapes and parameters.

What an element depends on is found by computing the op with numpy on sets of input elements
(`truth.marks`); nothing of it knows about maps.  Default: a few cases an op; `--full`: 200.
"""

from __future__ import annotations

import zlib

import pytest

from hloscope.indexing.access import Precision
from hloscope.indexing.analysis import coverage
from hloscope.ir.op import NotInferredError
from hloscope.ir.types import TensorType, TupleType
from hloscope.ops.elementwise import ELEMENTWISE
from hloscope.ops.inference import may_be_one_size
from tests.indexing.truth import collectives, elementwise, linalg, others, reduction, shape, slicing
from tests.indexing.truth.generator import CASES, NOT_EXACT, Gen
from tests.indexing.truth.marks import Case
from tests.indexing.truth.relation import check_input_to_output, check_output_to_input, describe

FAMILIES = (collectives, elementwise, linalg, others, reduction, shape, slicing)


def cases(name: str, full: bool) -> list[Case]:
    """Reproducible cases of one maker."""
    start = zlib.crc32(name.encode()) % 100_000
    return [CASES[name](Gen(start + i)) for i in range(200 if full else 12)]


@pytest.mark.parametrize("name", CASES)
def test_inferred_type_is_that_of_the_result(name: str, full: bool) -> None:
    for c in cases(name, full):
        op = c.ins.op
        if op.name == "uniform_dequantize":
            continue  # the operands of cases are not quantized
        try:
            inferred = op.infer(tuple(o.ins.type for o in c.operands), c.ins.calls)
        except NotInferredError:
            continue  # the type is part of the program
        types = inferred.elements if isinstance(inferred, TupleType) else (inferred,)
        shapes = [t.sizes for t in types if isinstance(t, TensorType)]
        for sizes, output in zip(shapes, c.outputs, strict=True):
            assert len(sizes) == output.ndim, describe(c)
            assert all(map(may_be_one_size, sizes, output.shape)), describe(c)


@pytest.mark.parametrize("name", CASES)
def test_output_to_input_is_what_the_op_reads(name: str, full: bool) -> None:
    claims = set()
    for c in cases(name, full):
        claims |= check_output_to_input(c)
    assert name in NOT_EXACT or claims <= {Precision.EXACT}


@pytest.mark.parametrize("name", CASES)
def test_input_to_output_is_what_reads_the_element(name: str, full: bool) -> None:
    claims = set()
    for c in cases(name, full):
        claims |= check_input_to_output(c)
    assert name in NOT_EXACT or claims <= {Precision.EXACT}


@pytest.mark.parametrize("name", sorted(ELEMENTWISE.keys() - {"chlo.constant_like"}))
def test_every_elementwise_op_reads_its_own_index(name: str) -> None:
    case = elementwise.elementwise_case(Gen(1), name)
    assert check_output_to_input(case) == check_input_to_output(case) == {Precision.EXACT}


WITHOUT = """
    after_all async_done async_start async_update call case check.expect_almost_eq
    check.expect_almost_eq_const check.expect_close check.expect_eq check.expect_eq_const
    check.expect_serialized_eq collective_permute composite constant create_token fusion parameter
    partition_id ragged_all_to_all recv recv-done replica_id result return
    rng-get-and-update-state rng_bit_generator send send-done while
""".split()
"""Ops that read no elements, that pass on whole values of another device or random state, or whose
called computation decides: `tests/fusion` and `test_fusion_truth` are about these."""


def test_every_op_with_a_rule_has_cases() -> None:
    known = {row.op for row in coverage() if row.output_to_input is not Precision.UNKNOWN}
    shown = {CASES[name](Gen(seed)).ins.op.name for name in CASES for seed in range(20)}
    special = {name for name in known if name.startswith("chlo.broadcast_")}
    assert known - shown - special - ELEMENTWISE.keys() == set(WITHOUT)
