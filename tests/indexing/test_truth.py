"""Maps against what ops really read, op by op, on random small shapes and parameters.

What an element depends on is found by computing the op with numpy on sets of input elements
(`truth.marks`); nothing of it knows about maps.  Default: a few cases an op; `--full`: 200.
"""

from __future__ import annotations

import zlib

import pytest

from hloscope.indexing.access import Precision
from hloscope.ir.op import Op
from hloscope.ir.types import TensorType, TupleType
from tests.indexing.truth import collectives, elementwise, linalg, reduction, shape, slicing
from tests.indexing.truth.generator import CASES, NOT_EXACT, Gen
from tests.indexing.truth.marks import Case
from tests.indexing.truth.relation import check_input_to_output, check_output_to_input, describe

FAMILIES = (collectives, elementwise, linalg, reduction, shape, slicing)


def cases(name: str, full: bool) -> list[Case]:
    """Reproducible cases of one maker."""
    start = zlib.crc32(name.encode()) % 100_000
    return [CASES[name](Gen(start + i)) for i in range(200 if full else 12)]


@pytest.mark.parametrize("name", CASES)
def test_inferred_type_is_that_of_the_result(name: str, full: bool) -> None:
    for c in cases(name, full):
        op = c.ins.op
        if type(op).infer is Op.infer or getattr(op, "result", "") == "written":
            continue  # the type is part of the program
        inferred = op.infer(tuple(o.ins.type for o in c.operands), c.ins.calls)
        types = inferred.elements if isinstance(inferred, TupleType) else (inferred,)
        sizes = [t.sizes for t in types if isinstance(t, TensorType)]
        assert sizes == [m.shape for m in c.outputs], describe(c)


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
