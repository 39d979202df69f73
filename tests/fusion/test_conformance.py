"""Our answers against the expectations of XLA's indexing tests."""

from __future__ import annotations

from typing import Any, Final

import pytest

from hloscope.indexing import Access, IndexingMap, Precision
from hloscope.indexing.proofs import prove_equal
from hloscope.ops.shape import Constant
from tests.conftest import needs_shared
from tests.fusion.conformance import Pair, ask, expected_maps, load, squeeze

pytestmark = needs_shared

T: Final = "indexing_analysis_test::"
TRUE_INSTEAD: Final = {
    # XLA's expectation is inexact: what is true instead
    f"{T}ScanOp::0 operand 0": [
        "(d0)[s0] -> (s0), domain: d0 in [0, 9], s0 in [0, 9], d0 - s0 in [0, 9]"
    ],
    f"{T}ScanOp::1 operand 0": ["()[s0] -> (s0), domain: s0 in [0, 9]"],
    f"{T}ConvolutionOp_BatchGroups::0 operand 0": [
        "(d0, d1, d2, d3)[s0, s1, s2] -> ((d3 / 3) * 2 + d0, d1 + s0, d2 + s1, s2), domain: "
        "d0 in [0, 1], d1 in [0, 9], d2 in [0, 5], d3 in [0, 20], "
        "s0 in [0, 2], s1 in [0, 4], s2 in [0, 3]"
    ],
    f"{T}FusionWithRTVarsSimplification_Iota::0 operand 0": [
        "(d0, d1, d2) -> (min(d0, 32), 0), domain: d0 in [0, 41], d1 in [0, 0], d2 in [0, 0]"
    ],
    f"{T}PadOp::0 operand 1": [
        "(d0, d1) -> (), domain: d0 in [0, 0], d1 in [0, 15]",
        "(d0, d1) -> (), domain: d0 in [8, 11], d1 in [0, 15]",
        "(d0, d1) -> (), domain: d0 in [0, 11], d1 in [0, 3]",
        "(d0, d1) -> (), domain: d0 in [0, 11], d1 in [8, 15]",
        "(d0, d1) -> (), domain: d0 in [0, 11], d1 in [0, 15], d0 mod 2 in [0, 0]",
    ],
    f"{T}PadOpNoInterior::0 operand 1": [
        "(d0, d1) -> (), domain: d0 in [0, 0], d1 in [0, 7]",
        "(d0, d1) -> (), domain: d0 in [3, 9], d1 in [0, 7]",
    ],
    f"{T}PadOpNegativePadding::0 operand 1": [
        "(d0) -> (), domain: d0 in [0, 4], d0 mod 2 in [0, 0]"
    ],
    "docs_indexing::Dot::3 output 0": [
        "(d0, d1, d2)[s0] -> (d0, s0, d2), domain: "
        "d0 in [0, 3], d1 in [0, 255], d2 in [0, 63], s0 in [0, 127]"
    ],
}  # fmt: skip
TRUE_INSTEAD["docs_indexing::Pad::1 operand 1"] = TRUE_INSTEAD[f"{T}PadOp::0 operand 1"]

BEYOND: Final = {
    # exact answers where XLA has none or one that claims less
    f"{T}UnsupportedOps::0", f"{T}UnsupportedOps::1", f"{T}UnsupportedOps::2",
    f"{T}FusionWithUnsupportedOp::0",
    f"{T}DynamicSliceOp::0",  # without a start that is clamped to [0, 0]
    # without taps that meet only padding or holes
    f"{T}ConvolutionOp_PaddingAndWindowStride::0",
    f"{T}ConvolutionOp_LhsDilation::0",
    "docs_indexing::DynamicUpdateSlice::0",  # without the elements the update replaces
    "docs_indexing::DynamicUpdateSlice::1",  # only inside the update
    f"{T}FusionOpWithDynSliceOfDynSlice::0",  # with the origins the right way round
    # the constant is out of range and so clamped, XLA keeps a variable
    f"{T}FusionWithRTVarsSimplification_ScalarConstantOutsideOfRangeIsKept::0",
}  # fmt: skip


def params() -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in load()]


@pytest.mark.parametrize("case", params())
def test_the_relation_is_the_expected_one(case: dict[str, Any]) -> None:
    for pair in ask(case):
        where = f"{case['id']} {pair.where}".strip()
        if case["id"] in BEYOND:
            assert all(access.precision is Precision.EXACT for access in pair.found), where
        elif where in TRUE_INSTEAD:
            assert_equal([Access(IndexingMap.parse(t)) for t in TRUE_INSTEAD[where]], pair, where)
        else:
            assert_equal(expected_maps(pair), pair, where)


def assert_equal(expected: list[Access], pair: Pair, where: str) -> None:
    """The same union of relations, claimed as exact; the same positions in the replica group."""
    assert all(access.precision is Precision.EXACT for access in pair.found), where
    mine = [access.map for access in pair.found if access.map is not None]
    proof = prove_equal([a.map for a in expected if a.map is not None], mine)
    assert proof.is_proved or same_text(pair), f"{where}: {proof}"
    replicas = [
        [a.replica for a in some if a.replica is not None] for some in (expected, pair.found)
    ]
    assert len(replicas[0]) == len(replicas[1]), where
    if replicas[0]:
        assert prove_equal(*replicas).is_proved, where


def same_text(pair: Pair) -> bool:
    expected = sorted(squeeze(e["map"]) for e in pair.expected if "map" in e)
    return expected == sorted(squeeze(str(access.map)) for access in pair.found)


def test_nearly_all_texts_are_xlas_own(capsys: pytest.CaptureFixture[str]) -> None:
    texts, different = 0, []
    for case in load():
        if case.get("xla_exact") and case["id"] not in BEYOND:
            for pair in ask(case):
                texts += 1
                if not same_text(pair):
                    different.append(
                        f"{case['id']} {pair.where}: {[str(a.map) for a in pair.found]}"
                    )
    with capsys.disabled():
        print(f"\n{texts - len(different)} of {texts} texts equal XLA's", *different, sep="\n  ")
    assert texts > 150
    assert len(different) <= texts // 10


def test_the_origins_of_a_slice_of_a_slice_are_not_swapped() -> None:
    case = next(c for c in load() if c["id"] == f"{T}FusionOpWithDynSliceOfDynSlice::0")
    pair = next(iter(ask(case)))
    (access,) = pair.found
    assert access.map is not None
    by_bound = {v.interval.hi: v.origin for v in access.map.runtime}
    parameters = pair.computation.parameters
    assert by_bound == {100: parameters[1], 32: parameters[2], 25: parameters[3], 16: parameters[4]}


def test_a_constant_start_is_clamped_and_folded() -> None:
    name = "FusionWithRTVarsSimplification_ScalarConstantOutsideOfRangeIsKept::0"
    case = next(c for c in load() if c["id"] == T + name)
    pair = next(iter(ask(case)))
    assert [str(a.map) for a in pair.found] == ["(d0) -> (d0 + 90), domain: d0 in [0, 9]"]
    offset = pair.computation["offset"]
    assert isinstance(offset.op, Constant)
    assert str(offset.op.literal) == "99"
