"""Random programs: composed maps against the elements followed one by one."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from hloscope.fusion import Analysis
from hloscope.indexing import Precision
from hloscope.indexing.proofs import prove_inverse
from hloscope.ir.graph import Computation
from hloscope.ir.types import TensorType
from tests.fusion.programs import Touch, indices, random_fusion, touched

SEEDS = st.integers(0, 10**6)


def sizes(computation: Computation) -> tuple[int, ...]:
    assert isinstance(computation.root.type, TensorType)
    return computation.root.type.shape


def check_backward(computation: Computation) -> None:
    flows = Analysis().summary(computation, 0)
    for at in indices(sizes(computation)):
        found: set[Touch] = set()
        for flow in flows:
            assert isinstance(flow.operand, int)
            for access in flow.accesses or ():
                assert access.map is not None
                assert access.precision is Precision.EXACT
                found |= {(flow.operand, point) for point in access.map.points(at)}
        assert found == touched(computation, at), at


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_a_fusion_reads_what_its_instructions_read(seed: int) -> None:
    check_backward(random_fusion(seed))


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_the_other_direction_is_the_inverse(seed: int) -> None:
    computation = random_fusion(seed, ops=5)
    analysis = Analysis()
    back = {flow.operand: flow.accesses or () for flow in analysis.summary(computation, 0)}
    for k in range(len(computation.parameters)):
        forth = [a for flow in analysis.spread(computation, k, 0) for a in flow.accesses or ()]
        maps = [[a.map for a in some if a.map is not None] for some in (back.get(k, ()), forth)]
        if not any(maps):
            continue
        assert all(maps), f"parameter {k} is touched in one direction only"
        assert not prove_inverse(*maps).is_refuted, f"parameter {k}: {maps}"


def test_longer_programs(full: bool) -> None:
    for seed in range(2000 if full else 20):
        check_backward(random_fusion(seed, ops=5 + seed % 16))
